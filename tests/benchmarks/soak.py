"""Lets several processes archive, restore, delete, append and read at random on one tree.

`python3 tests/benchmarks/soak.py` goes on for a minute. Sessions appear and grow meanwhile,
and commands and writers are killed with SIGKILL at random. Then one more command recovers,
what interrupted moves left is finished, and the oracle judges. It exits with 1 where any
session is lost or half, anything is left over, or any command said what it must not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import lifecycle
from benchmarks.soak_oracle import Findings, debris, judge, unfinished
from benchmarks.soak_writer import KINDS, PROJECTS, Made, read_ledger
from lifecycle.cli import main as command

WRITER = Path(__file__).with_name("soak_writer.py")
WRITERS, ACTORS = 3, 4
LONGEST_SECONDS = 60
# Of each command, how often it is chosen.
WEIGHTS = {
    "archive": 6,
    "archive-filter": 2,
    "restore": 6,
    "delete": 3,
    "delete-filter": 2,
    "dry-run": 2,
    "list": 2,
    "list-archived": 1,
    "floor": 1,
    "tombstones": 1,
}


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one command."""

    began: float
    arguments: list[str]
    status: int | None
    """The exit status, or None where it was killed."""
    out: str
    err: str


@dataclass(slots=True)
class Soak:
    """One soak in one directory."""

    base: Path
    archive: Path
    seed: int
    done: list[Done] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    """Sessions that the last killed command was about."""
    writers_killed: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def config(self) -> Path:
        return self.base / "config"

    @property
    def cache(self) -> Path:
        return self.base / "cache"

    @property
    def errors(self) -> Path:
        return self.base / "writers.err"

    def prepare(self) -> None:
        """Makes the directories, and lets nothing in the environment lead out of them."""
        for directory in (self.config / "projects", self.archive, self.base / "logs"):
            directory.mkdir(parents=True, exist_ok=True)
        for name in ("CONFIG", "CACHE", "DATA", "STATE"):
            os.environ[f"XDG_{name}_HOME"] = str(self.base / name)
        os.environ |= {"HOME": str(self.base), "CLAUDE_CONFIG_DIR": str(self.config)}
        for path in sorted(Path(lifecycle.__file__).parent.glob("*.py")):
            # Whoever edits the package meanwhile must not break the children.
            import_module(f"lifecycle.{path.stem}")

    def command(self, *arguments: str, kill_after: float | None = None) -> Done:
        """Runs a command in a child; killed once its time is over."""
        options = ["--archive-dir", str(self.archive), "--cache-dir", str(self.cache)]
        outputs = [self.base / "logs" / f"{os.getpid()}.{name}" for name in ("out", "err")]
        for path in outputs:
            # It may be killed before it opens them.
            path.write_bytes(b"")
        began = time.monotonic()
        child = os.fork()
        if not child:
            _become([*arguments, *options], outputs)
        status = _wait(child, began + (kill_after or LONGEST_SECONDS))
        texts = [path.read_text("utf-8", "backslashreplace") for path in outputs]
        if status is None and kill_after is None:
            texts[1] += "SOAK: it hung"
        self.done.append(Done(began - self.began, list(arguments), status, *texts))
        return self.done[-1]

    # Writers

    def ledger(self, slot: int) -> Path:
        return self.base / "logs" / f"ledger-{slot}"

    def start_writer(self, slot: int) -> subprocess.Popen[bytes]:
        arguments = [str(self.config), str(self.ledger(slot)), f"{self.seed} {time.monotonic_ns()}"]
        with self.errors.open("ab") as errors:
            return subprocess.Popen([sys.executable, str(WRITER), *arguments], stderr=errors)

    def write(self, until: float) -> None:
        """Keeps the writers going, and kills one now and then."""
        random = Random(f"{self.seed} writers")
        writers = [self.start_writer(slot) for slot in range(WRITERS)]
        while time.monotonic() < until:
            time.sleep(random.uniform(0.3, 2))
            slot = random.randrange(WRITERS)
            writers[slot].kill()
            writers[slot].wait()
            self.writers_killed += 1
            writers[slot] = self.start_writer(slot)
        for writer in writers:
            writer.terminate()
            writer.wait()

    def made(self) -> dict[str, Made]:
        """All sessions that the writers made."""
        ledgers = [read_ledger(self.ledger(slot)) for slot in range(WRITERS)]
        return {name: one for ledger in ledgers for name, one in ledger.items()}

    # Actors

    def start_actor(self, number: int, until: float) -> int:
        """A process that runs commands; their record is in its log once it is over."""
        child = os.fork()
        if child:
            return child
        try:
            self.act(Random(f"{self.seed} actor {number}"), until)
            log = [asdict(done) for done in self.done]
            (self.base / "logs" / f"actor-{number}").write_text(json.dumps(log), "utf-8")
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def act(self, random: Random, until: float) -> None:
        """Runs commands at random, and kills some of them at a random time."""
        usual = 0.1
        while time.monotonic() < until:
            name = random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            arguments = self.arguments(name, random)
            if arguments is None:
                time.sleep(0.02)
                continue
            kill_after = random.uniform(0.001, 1.1 * usual) if random.random() < 0.3 else None
            began = time.monotonic()
            if self.command(*arguments, kill_after=kill_after).status is not None:
                usual = 0.8 * usual + 0.2 * (time.monotonic() - began)
            elif ids := [word for word in arguments if len(word) == 36]:
                self.interrupted = [name for name in ids if KINDS[name[0]] != "loose"]

    def read_logs(self) -> None:
        """Takes over what the actors did, in the order of time."""
        for path in self.base.glob("logs/actor-*"):
            self.done += [Done(**fields) for fields in json.loads(path.read_text("utf-8"))]
        self.done.sort(key=lambda done: done.began)

    def arguments(self, name: str, random: Random) -> list[str] | None:
        """A command line of the kind, or None where there is nothing to do it to."""
        present = [path.stem for path in self.config.glob("projects/*/*-*-*-*-*.jsonl")]
        present = [name for name in present if name[0] in KINDS and len(name) == 36]
        # A loose session may be gone and written anew: restored, it could not be judged.
        archived = [path.stem for path in self.archive.glob("*.jsonl") if path.name[0] != "3"]
        project = ["--project", random.choice([*list(PROJECTS)[:3], "-", "me-"])]
        narrow = ["--max-messages", random.choice("1238"), *project]
        if random.random() < 0.3:
            narrow = ["--before", "30d", "--max-messages", random.choice(("8", "40")), *project]
        as_json = ["--json"] if random.random() < 0.3 else []
        if self.interrupted and random.random() < 0.5:
            # What comes right after an interrupted command finds the strangest states.
            present = archived = self.interrupted
        few = random.choices(present, k=random.randint(1, 3)) if present else []
        back = random.choices(archived, k=random.randint(1, 3)) if archived else []
        lines: dict[str, list[str]] = {
            "archive": ["archive", *few] if few else [],
            "archive-filter": ["archive", *narrow, "-y"],
            "restore": ["restore", *back] if back else [],
            "delete": ["delete", few[0][: random.choice((8, 36))], "-y"] if few else [],
            "delete-filter": ["delete", *narrow, "-y"],
            "dry-run": ["delete", *narrow, "-n"],
            "list": ["list", *(narrow if random.random() < 0.5 else [])],
            "list-archived": ["list", "--archived"],
            "floor": ["floor", *few] if few else [],
            "tombstones": ["tombstones"],
        }
        return [*lines[name], *as_json] if lines[name] else None

    # The end

    def settle(self) -> int:
        """One more command recovers; interrupted moves are finished. Returns how many."""
        self.command("delete", "--project", "no-such-project", "-y")
        count = 0
        for session_id, verb in unfinished(self.made(), self.config, self.archive):
            self.command(verb, session_id)
            count += 1
        return count

    def outputs(self) -> list[tuple[str, str]]:
        """What no command may do: a traceback, a hang, an odd status, JSON that is none."""
        wrong = []
        for done in self.done:
            line = " ".join(done.arguments)
            if any(
                word in done.out + done.err for word in ("Traceback", "SOAK", "Exception ignored")
            ):
                wrong.append((line, (done.err or done.out)[-1500:]))
            elif done.status not in (0, 1, 3, None):
                wrong.append((line, f"status {done.status}: {done.err[-500:]}"))
            elif "--json" in done.arguments and done.status is not None and not _is_json(done.out):
                wrong.append((line, f"not one JSON document: {done.out[:300]!r}"))
        errors = self.errors.read_text("utf-8", "replace")
        return wrong + ([("a writer", errors[-1500:])] if errors else [])

    def about(self, session_id: str) -> list[str]:
        """The commands that had to do with a session."""
        lines = []
        for done in self.done:
            said = [text for text in (done.out + done.err).splitlines() if session_id[:8] in text]
            if said or any(session_id.startswith(word) for word in done.arguments if len(word) > 7):
                mark = "KILLED" if done.status is None else f"status {done.status}"
                lines.append(f"  {done.began:7.3f} {' '.join(done.arguments)} [{mark}]")
                lines += [f"          | {text[:200]}" for text in said[:3]]
        return lines


def _become(arguments: list[str], outputs: list[Path]) -> None:
    """Runs the command in this process, as `python -W error` would, and ends it."""
    for number, path in enumerate([Path(os.devnull), *outputs]):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout, sys.stderr = (open(n, mode) for n, mode in enumerate("rww"))  # noqa: SIM115
    warnings.simplefilter("error")
    status = 70
    try:
        status = command(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _wait(child: int, until: float) -> int | None:
    """The exit status of a child, or None where it had to be killed."""
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
            # It may have been done just before.
            code = os.waitstatus_to_exitcode(status)
            return None if code == -signal.SIGKILL else code
        time.sleep(0.001)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def report(soak: Soak, finished: int, found: Findings, left: list[Path]) -> bool:
    """Prints counts and violations; returns whether there are none of the latter."""
    verbs = Counter(done.arguments[0] for done in soak.done)
    killed = Counter(done.arguments[0] for done in soak.done if done.status is None)
    print("commands:", ", ".join(f"{verb} {verbs[verb]} ({killed[verb]} killed)" for verb in verbs))
    print(
        f"writers killed: {soak.writers_killed}; interrupted moves finished at the end: {finished}"
    )
    for word, count in sorted(found.counts.items()):
        print(f"{count:6}  {word}")
    violations = [*found.violations, *((str(path), "left over") for path in left)]
    for name, text in violations:
        print(f"VIOLATION {name}: {text}")
        print("\n".join(soak.about(name)))
    outputs = soak.outputs()
    for name, text in outputs:
        print(f"VIOLATION in the output of {name}: {text}")
    print(f"{sum(found.counts.values())} sessions, {len(violations) + len(outputs)} violations")
    return not violations and not outputs


def run(soak: Soak, seconds: float) -> bool:
    """Soaks, settles, judges and reports; returns whether all is well."""
    soak.prepare()
    until = time.monotonic() + seconds
    actors = [soak.start_actor(number, until) for number in range(ACTORS)]
    soak.write(until)
    statuses = [os.waitpid(actor, 0)[1] for actor in actors]
    if any(statuses):
        raise RuntimeError("an actor failed")
    soak.read_logs()
    finished = soak.settle()
    done = soak.command("tombstones", "--json")
    dead = frozenset(json.loads(done.out)["ids"])
    found = judge(soak.made(), soak.config, soak.archive, dead)
    return report(soak, finished, found, list(debris(soak.config, soak.archive, soak.cache)))


def main(argv: Sequence[str] | None = None) -> int:
    """Soaks as the command line says; returns the exit status."""
    parser = argparse.ArgumentParser(description="Soak the command in a temporary directory.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", help="where to make the tree, instead of the usual place")
    parser.add_argument("--archive", help="where to archive, say on another file system")
    parser.add_argument("--keep", action="store_true", help="leave the directory, and say where")
    options = parser.parse_args(argv)
    base = Path(tempfile.mkdtemp(prefix="lifecycle-soak-", dir=options.directory))
    beside = tempfile.mkdtemp(prefix="lifecycle-soak-", dir=options.archive or base)
    soak = Soak(base, Path(beside), options.seed)
    try:
        return 0 if run(soak, options.seconds) else 1
    finally:
        if options.keep:
            print(f"kept {base}, {beside}")
        else:
            shutil.rmtree(base)
            shutil.rmtree(beside, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
