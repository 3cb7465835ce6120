"""Makes Claude Code config directories that look real: same ids, times and content each run.

`python3 tests/sample.py DIRECTORY` builds a whole one; the tests build theirs from the parts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

Record = dict[str, object]
Content = str | Sequence[Record]

APP, NEXT, SHOP, NOTES = "/home/me/app", "/home/me/app-next", "/home/me/shop", "/home/me/notes"
MARKER = ".lifecycle-sample"
REPLY = "Done. The change is small, the tests pass, and I left the other pages as they were."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _day(month: int, day: int) -> datetime:
    return datetime(2026, month, day, 9, 30, tzinfo=UTC)


def identifier(*parts: object) -> str:
    """The lower-case UUID that these parts always give."""
    text = "\0".join(map(str, parts)).encode("utf-8", "backslashreplace")
    return str(uuid.UUID(bytes=hashlib.sha256(text).digest()[:16], version=4))


def project_name(cwd: str) -> str:
    """The project directory name of an absolute working directory; several share one."""
    return re.sub(r"[^A-Za-z0-9]", "-", cwd)


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def record(kind: str, session_id: str, at: datetime, *, cwd: str = APP, **fields: object) -> Record:
    """A record of a conversation; `fields` are added to the usual ones, or replace them."""
    usual: Record = {"parentUuid": None, "isSidechain": False, "userType": "external", "cwd": cwd}
    usual |= {"sessionId": session_id, "version": "2.1.332", "gitBranch": "main", "type": kind}
    usual |= {"uuid": identifier(session_id, kind, at, fields), "timestamp": _stamp(at)}
    return usual | fields


def user(
    content: Content, session_id: str, at: datetime, *, cwd: str = APP, **fields: object
) -> Record:
    """A `user` record: typed text, or blocks such as a tool result."""
    message = {"role": "user", "content": content}
    return record("user", session_id, at, cwd=cwd, message=message, **fields)


def assistant(
    content: Content, session_id: str, at: datetime, *, cwd: str = APP, **fields: object
) -> Record:
    """An `assistant` record; a text becomes its one block."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    name = f"msg_{identifier(session_id, at, content)[:8]}"
    message: Record = {"model": "claude-sample", "id": name, "type": "message"}
    message |= {"role": "assistant", "content": blocks, "usage": {"output_tokens": 34}}
    return record("assistant", session_id, at, cwd=cwd, message=message, **fields)


def bookkeeping(kind: str, session_id: str, **fields: object) -> Record:
    """A record without time or directory: `mode`, `ai-title`, `custom-title`, `last-prompt`."""
    return {"type": kind, **fields, "sessionId": session_id}


def snapshot(session_id: str, at: datetime) -> Record:
    """A `file-history-snapshot`: it names no session, and its time stands one level down."""
    message = identifier(session_id, at, "snapshot")
    inner = {"messageId": message, "trackedFileBackups": {}, "timestamp": _stamp(at)}
    return {"type": "file-history-snapshot", "messageId": message, "snapshot": inner}


def set_modified(path: Path, at: datetime) -> None:
    """Sets the modification time exactly; a float would be off by some nanoseconds."""
    nanoseconds = (at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1) * 1000
    os.utime(path, ns=(nanoseconds, nanoseconds))


def _write(path: Path, content: bytes) -> None:
    # mkdir(parents=True) would give the parents the default mode.
    for directory in [] if path.parent.is_dir() else reversed(path.parents):
        directory.mkdir(mode=0o700, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)


def write_lines(
    path: Path, records: Iterable[Mapping[str, object]], *, modified: datetime | None = None
) -> Path:
    """Writes the records as Claude Code does: compact, unescaped, file 0600, directories 0700."""
    texts = (json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in records)
    # JSON writes a lone surrogate just as Python's backslashreplace does.
    _write(path, "".join(f"{text}\n" for text in texts).encode("utf-8", "backslashreplace"))
    if modified is not None:
        set_modified(path, modified)
    return path


def write_session(
    root: Path,
    project: str,
    session_id: str,
    *,
    at: datetime,
    prompts: Sequence[str] = ("Please fix the login page",),
    cwd: str = APP,
    title: str | None = None,
    replies: str = REPLY,
) -> Path:
    """Writes a conversation that begins at `at`: five messages and an attachment a prompt.

    Around them stand bookkeeping records. The prompts are ten minutes apart, and the file's
    modification time is that of the last record.
    """
    records = _opening(session_id, at)
    for number, prompt in enumerate(prompts):
        time = at + number * timedelta(minutes=10)
        records += _exchange(session_id, time, cwd, prompt, replies)
    records += _closing(session_id, prompts, title)
    times = [datetime.fromisoformat(str(r["timestamp"])) for r in records if "timestamp" in r]
    path = root / project / f"{session_id}.jsonl"
    return write_lines(path, _chained(records), modified=max(times, default=at))


def _opening(session_id: str, at: datetime) -> list[Record]:
    return [bookkeeping("mode", session_id, mode="normal"), snapshot(session_id, at)]


def _exchange(session_id: str, at: datetime, cwd: str, prompt: str, reply: str) -> list[Record]:
    times = [at + timedelta(seconds=seconds) for seconds in (-1, 4, 6, 7, 15)]
    tool = f"toolu_{identifier(session_id, at, 'tool')[:8]}"
    call: Record = {"type": "tool_use", "id": tool, "name": "Read"}
    call["input"] = {"file_path": f"{cwd}/src/main.py"}
    result: Record = {"type": "tool_result", "tool_use_id": tool, "content": "1\timport app"}
    date = {"type": "date_change", "newDate": f"{at.date()}"}
    return [
        user(prompt, session_id, at, cwd=cwd),
        # Records are not in time order: this one is older than the one before.
        record("attachment", session_id, times[0], cwd=cwd, attachment=date),
        assistant("I will read the code first.", session_id, times[1], cwd=cwd),
        assistant([call], session_id, times[2], cwd=cwd),
        user([result], session_id, times[3], cwd=cwd, toolUseResult={"type": "text"}),
        assistant(reply, session_id, times[4], cwd=cwd),
    ]


def _closing(session_id: str, prompts: Sequence[str], title: str | None) -> list[Record]:
    titles = []
    for text in prompts[:1]:
        short = text.removeprefix("Please ")
        titles.append(bookkeeping("ai-title", session_id, aiTitle=short[:1].upper() + short[1:]))
        titles.append(bookkeeping("last-prompt", session_id, lastPrompt=prompts[-1]))
    if title is not None:
        titles.append(bookkeeping("custom-title", session_id, customTitle=title))
    # Claude Code appends them again and again.
    return titles * 2


def _chained(records: list[Record]) -> list[Record]:
    last: object = None
    for each in records:
        if "uuid" in each:
            each["parentUuid"], last = last, each["uuid"]
    return records


# Each word is a companion; what follows "//" is inside it.
_COMPANIONS = """
projects/{p}/{s}//subagents/agent-a41c09e.jsonl projects/{p}/{s}//subagents/agent-a41c09e.meta.json
projects/{p}/{s}//subagents/workflows/wf_1/agent-a7730bd.jsonl
projects/{p}/{s}//tool-results/toolu_0001.txt projects/{p}/{s}//tool-results/web/pages/2/page.txt
projects/{p}/{s}.ccr-tip.json projects/{p}/{s}.precompact.json
projects/{p}/{s}.desktop-released.json projects/{p}/{s}.cloud-worktrees.json
projects/{p}/{s}.dir-sync.json projects/{p}/{s}.dir-sync.json.tmp.4242.9f3a
projects/{p}/{s}.dir-sync-empty.json projects/{p}/{s}.orphaned-1780300800000-0a1b2c3d.jsonl
projects/{p}/{s}.jsonl.superseded-1780300800000 projects/{p}/{s}.jsonl.compact.tmp.4242.9f3a
projects/{p}/agent-{a}.jsonl file-history/{s}//3b9d1c7fa2e85604@v1
tasks/{s}//1.json tasks/{s}//.lock todos/{s}-agent-{s}.json session-env/{s}//hook-1.sh
uploads/{s}//report.pdf image-cache/{s}//1.png debug/{s}.txt
usage-data/session-meta/{s}.json usage-data/facets/{s}.json
"""


def add_companions(config: Path, project: str, session_id: str) -> list[Path]:
    """Adds one of every kind of companion, as old as the transcript where there is one.

    Returns the top-level paths, sorted: a directory stands for what is in it.
    """
    made = set()
    for word in _COMPANIONS.split():
        relative = word.format(p=project, s=session_id, a=identifier("agent", session_id)[:8])
        top, _, inner = relative.partition("//")
        _write_companion(config / top / inner, session_id)
        made.add(config / top)
    first = config / "file-history" / session_id / "3b9d1c7fa2e85604@v1"
    second = first.with_name("3b9d1c7fa2e85604@v2")
    second.unlink(missing_ok=True)
    os.link(first, second)
    transcript = config / "projects" / project / f"{session_id}.jsonl"
    if transcript.exists():
        modified = transcript.stat().st_mtime_ns
        for path in (path for top in made for path in [top, *top.rglob("*")]):
            os.utime(path, ns=(modified, modified))
    return sorted(made)


def _write_companion(path: Path, session_id: str) -> None:
    if ".jsonl" in path.name:
        side = path.name.startswith("agent-")
        said = user("Look for callers", session_id, _day(6, 1), isSidechain=side)
        found = assistant("There are none.", session_id, _day(6, 1), isSidechain=side)
        write_lines(path, _chained([said, found]))
    elif ".json" in path.name:
        write_lines(path, [{"sessionId": session_id}])
    else:
        _write(path, f"Made up for {path.name}\n".encode() * 100)


_LOGIN, _SEARCH = identifier("login"), identifier("search")
_GONE, _LINKED, _AWAY = identifier("gone"), identifier("linked"), identifier("away")
_IN_APP = f"projects/{project_name(APP)}"
_BYSTANDERS = f"""
.claude.json .credentials.json settings.local.json history.jsonl unknown.txt todos/1.json
backups/.claude.json.backup.1 jobs/1/state.json paste-cache/5d41.txt plans/calm-otter.md
plugins/config.json sessions/4242.key shell-snapshots/snapshot-bash-1.sh teams/blue/config.json
telemetry/1.json usage-data/report.html debug/{_GONE}.txt file-history/{_GONE}/3b9d1c7f@v1
tasks/session-{_LOGIN[:8]}/1.json tasks/groceries/1.json projects/unknown.txt
projects/-home-me-only-memory/memory/MEMORY.md {_IN_APP}/memory/MEMORY.md
{_IN_APP}/.session-aliases {_IN_APP}/sessions-index.json {_IN_APP}/bridge-pointer.json
{_IN_APP}/tiny_memory/1.md {_IN_APP}/bagel/1.json {_IN_APP}/cloud-snapshots/1.json
{_IN_APP}/connector-downloads/1.csv {_IN_APP}/unknown.txt
{_IN_APP}/{_LOGIN}.unknown.json {_IN_APP}/{_LOGIN}.jsonl.bak
"""
_BYSTANDER_RECORDS: dict[str, list[Record]] = {
    "settings.json": [{"cleanupPeriodDays": 30}],
    "daemon/roster.json": [{"workers": {}}],
    f"{_IN_APP}/agent-shared.jsonl": [user("Go", s, _day(6, 1)) for s in (_LOGIN, _SEARCH)],
    f"elsewhere/{_LINKED}.jsonl": [user("Please fix the footer", _LINKED, _day(6, 1))],
    f"elsewhere/project/{_AWAY}.jsonl": [user("Please fix the header", _AWAY, _day(6, 1))],
}
_LINKS = {
    "debug/latest": f"{_GONE}.txt",
    f"{_IN_APP}/{_LINKED}.jsonl": f"../../elsewhere/{_LINKED}.jsonl",
    "projects/-home-me-linked": "../elsewhere/project",
}


def add_bystanders(config: Path) -> list[Path]:
    """Adds one of everything that belongs to no session; returns all files and links, sorted.

    Those of a project lie in that of /home/me/app.
    """
    made = [config / name for name in _BYSTANDERS.split()]
    for path in made:
        _write(path, b"{}\n" if ".json" in path.name else b"This belongs to no session.\n")
    made += [write_lines(config / name, found) for name, found in _BYSTANDER_RECORDS.items()]
    for path in made:
        set_modified(path, _day(6, 1))
    for name, target in _LINKS.items():
        (config / name).unlink(missing_ok=True)
        (config / name).symlink_to(target)
    return sorted(made + [config / name for name in _LINKS])


def add_live(config: Path, session_id: str, pid: int) -> Path:
    """Adds what a running Claude Code writes about itself and its session.

    Where no process has that pid (Linux), it is what one that was killed left behind.
    """
    entry: Record = {"pid": pid, "sessionId": session_id, "pidDomain": _pid_domain()}
    entry |= {"kind": "interactive", "status": "idle"}
    if sys.platform == "linux":
        entry["procStart"] = _process_start(pid)
    return write_lines(config / "sessions" / f"{pid}.json", [entry])


def _process_start(pid: int) -> str:
    try:
        # The name in parentheses may itself hold spaces and parentheses.
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except OSError:
        return "1"


def _pid_domain() -> str:
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
        return f"linux:{machine}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return sys.platform


@dataclass(frozen=True, slots=True)
class Sample:
    """What `make_sample` made."""

    config: Path
    """The config directory."""
    root: Path
    """Its `projects`."""
    sessions: dict[str, Path]
    """Short name, such as `login`, -> transcript."""


_FORKED = ("Please add a dark theme", "Use the system setting by default")
# Name, working directory, beginning, custom title, prompts.
_CONVERSATIONS: tuple[tuple[str, str, datetime, str | None, Sequence[str]], ...] = (
    ("login", APP, _day(11, 18), None, ("Please fix the login page", "Add a test for it too")),
    ("search", APP, _day(10, 12), None, ("Please make the search ignore accents",)),
    ("refactor", SHOP, _day(8, 27), "Split the checkout", ("Please split checkout.py", "Go on")),
    ("long", SHOP, _day(7, 3), None, [f"Please port page {n} of 80" for n in range(1, 81)]),
    ("wide", NOTES, _day(9, 15), "検索を速くする 🚀 搜索页面", ("検索が遅いので直して",)),
    ("forked", APP, _day(10, 2), None, _FORKED),
    ("forked_copy", NEXT, _day(10, 2), None, (*_FORKED, "Try it with green")),
    ("live", NOTES, _day(11, 28), None, ("Please sort the notes by date",)),
    ("backdated", SHOP, _day(11, 20), None, ("Please update the price list",)),
    ("torn", NOTES, _day(6, 20), None, ("Please convert the notes to Markdown",)),
    ("twin_a", "/home/me/a-b", _day(9, 1), None, ("Please rename the helper",)),
    ("twin_b", "/home/me/a/b", _day(9, 2), None, ("Please remove the helper",)),
)


def make_sample(config: Path, *, live_pid: int | None = None) -> Sample:
    """Makes a config directory with everything above; the process `live_pid` holds `live`.

    Without a pid it is this process.
    """
    root = config / "projects"
    sessions = _small_sessions(root)
    for name, cwd, at, title, prompts in _CONVERSATIONS:
        place = (root, project_name(cwd), identifier(name.removesuffix("_copy")))
        sessions[name] = write_session(*place, at=at, prompts=prompts, cwd=cwd, title=title)
    torn = sessions["torn"].stat()
    os.truncate(sessions["torn"], torn.st_size - 20)
    os.utime(sessions["torn"], ns=(torn.st_mtime_ns, torn.st_mtime_ns))
    set_modified(sessions["backdated"], _day(6, 15))
    for name in ("login", "refactor", "forked"):
        add_companions(config, sessions[name].parent.name, sessions[name].stem)
    add_bystanders(config)
    add_live(config, sessions["live"].stem, os.getpid() if live_pid is None else live_pid)
    return Sample(config, root, sessions)


def _small_sessions(root: Path) -> dict[str, Path]:
    made = {}
    for name, cwd, at, make in (
        ("greeting", APP, _day(11, 9), _greeting),
        ("bounced", APP, _day(10, 25), _bounced),
        ("legacy", NOTES, _day(6, 8), _legacy),
    ):
        path = root / project_name(cwd) / f"{identifier(name)}.jsonl"
        made[name] = write_lines(path, _chained(make(path.stem, at)), modified=at)
    return made


def _greeting(session_id: str, at: datetime) -> list[Record]:
    said = user("hi", session_id, at - timedelta(seconds=3))
    answer = assistant("Hello! What shall we work on?", session_id, at)
    return [*_opening(session_id, at), said, answer, *_closing(session_id, ["hi"], None)]


def _bounced(session_id: str, at: datetime) -> list[Record]:
    names = "<command-name>/clear</command-name>\n<command-message>clear</command-message>"
    command = user(f"{names}\n<command-args></command-args>", session_id, at)
    return [*_opening(session_id, at), command]


def _legacy(session_id: str, at: datetime) -> list[Record]:
    records: list[Record] = []
    for text in ("Draft of the garden plan", "Garden plan and seed list"):
        records.append({"type": "summary", "summary": text, "leafUuid": identifier(text)})
    for minutes, text in ((20, "Make a plan for the garden"), (0, "Add a list of seeds")):
        time = at - timedelta(minutes=minutes)
        answer = {"role": "assistant", "content": f"Done: {text.lower()}."}
        asked = {"role": "user", "content": text}
        for kind, message in (("user", asked), ("assistant", answer)):
            old = record(kind, session_id, time, cwd=NOTES, version="0.2.9", message=message)
            records.append(old)
    return records


def _prepare(config: Path) -> None:
    """Leaves the directory with nothing but the marker; FileExistsError where it is not ours."""
    if config.is_symlink() or (config.exists() and not config.is_dir()):
        raise FileExistsError(f"{config} is no directory of its own: left as it is")
    found = list(config.iterdir()) if config.exists() else []
    if found and not (config / MARKER).is_file():
        raise FileExistsError(f"{config} was not made by this script: left as it is")
    for path in found:
        # The marker stays all the time, so an interrupted run can be repeated.
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARKER:
            path.unlink()
    _write(config / MARKER, b"")


def main(argv: Sequence[str] | None = None) -> int:
    """Builds the sample in the directory named on the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Make a sample Claude Code config directory.")
    parser.add_argument("directory", metavar="DIRECTORY", help="new, empty or an earlier sample")
    directory = parser.parse_args(argv).directory
    if not directory:
        parser.error("DIRECTORY must not be empty")
    try:
        _prepare(Path(directory))
        # The shell that the script was started from outlives it, so `live` stays live.
        sample = make_sample(Path(directory), live_pid=os.getppid())
    except OSError as error:
        print(f"sample: {error}", file=sys.stderr)
        return 1
    projects = {path.parent for path in sample.sessions.values()}
    where = sample.config.absolute()
    print(f"Made {len(sample.sessions)} sessions in {len(projects)} projects: {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
