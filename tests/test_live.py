"""Which sessions count as live: those of running processes, and whatever cannot be judged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Place
from deadline import deadline
from lifecycle import LiveSessionError
from lifecycle._live import live_sessions
from sample import add_live, write_lines

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the process starts are written in the form of Linux"
)
SID = "0b54a1c2-7d1e-4f0a-9c55-3e2f1d4b8a90"
OTHER = "11111111-0000-4000-8000-000000000001"
GONE_PID = 4_190_000
RENAME = "open('/proc/self/comm', 'w').write('a) S (b'); print(); input()"


@pytest.fixture
def sessions(place: Place) -> Path:
    """The directory in which each running Claude Code has a file."""
    path = place.config / "sessions"
    path.mkdir()
    return path


@pytest.fixture
def dead(place: Place) -> dict[str, object]:
    """A whole entry whose process is gone; what is changed in it must decide."""
    path = add_live(place.config, SID, GONE_PID)
    entry: dict[str, object] = json.loads(path.read_text())
    path.unlink()
    assert entry["procStart"] == "1", "a process has the pid that none should have"
    return entry


@pytest.fixture
def alive(dead: dict[str, object]) -> dict[str, object]:
    """The entry of this process."""
    start = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    return dead | {"pid": os.getpid(), "procStart": start}


def reason(place: Place, session_id: str = SID) -> str:
    """Why the session counts as live; nothing in the tree changes by asking."""
    before = place.everything()
    with deadline():
        found = live_sessions(str(place.config)).reason(session_id)
    assert place.everything() == before
    return found


def test_a_running_process_that_started_then_holds_its_session_and_no_other(place: Place) -> None:
    add_live(place.config, SID, os.getpid())
    assert reason(place) == f"held by process {os.getpid()} (sessions/{os.getpid()}.json)"
    assert reason(place, OTHER) == ""
    assert reason(place, SID[:8]) == ""


def test_without_files_nobody_is_live(place: Place) -> None:
    assert reason(place) == ""
    assert live_sessions(None).reason(SID) == ""


@pytest.fixture
def renamed() -> Iterator[int]:
    """A process whose name holds spaces and parentheses."""
    line = [sys.executable, "-c", RENAME]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process.pid
        process.communicate(b"\n")


def test_the_start_is_read_right_whatever_the_process_is_called(place: Place, renamed: int) -> None:
    stat = Path(f"/proc/{renamed}/stat").read_text()
    assert "(a) S (b)" in stat
    write_lines(
        place.config / "sessions" / f"{renamed}.json",
        [{"pid": renamed, "sessionId": SID, "procStart": stat.split()[21 + 2]}],
    )
    assert reason(place).startswith(f"held by process {renamed}")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"pid": GONE_PID, "procStart": "1"}, id="a pid that is gone"),
        pytest.param({"pid": 10**30}, id="a pid that no process can have"),
        pytest.param({"procStart": "1"}, id="another start"),
        pytest.param({"procStart": "1", "pidDomain": None}, id="another start and no domain"),
    ],
)
def test_a_file_that_a_killed_process_left_holds_nothing(
    place: Place, sessions: Path, alive: dict[str, object], changes: dict[str, object]
) -> None:
    write_lines(sessions / "1.json", [alive | changes])
    assert reason(place) == ""


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"procStart": None}, id="no start"),
        pytest.param({"procStart": ""}, id="an empty start"),
        pytest.param({"pid": None}, id="no pid"),
        pytest.param({"pid": str(GONE_PID)}, id="a pid that is text"),
        pytest.param({"pid": True, "procStart": "0"}, id="a pid that is a bool"),
        pytest.param({"pid": 4190000.0}, id="a pid that is a fraction"),
        pytest.param({"pid": 0}, id="pid 0"),
        pytest.param({"pid": -GONE_PID}, id="a negative pid"),
        pytest.param({"pid": [GONE_PID]}, id="a pid that is a list"),
        pytest.param({"pidDomain": "linux"}, id="the domain of a machine without an id"),
        pytest.param({"pidDomain": "linux:0123:pid:[1]"}, id="another machine"),
        pytest.param({"pidDomain": "darwin"}, id="another system"),
        pytest.param({"pidDomain": ["linux"]}, id="a domain that is a list"),
    ],
)
@pytest.mark.parametrize("store", ["sessions", "roster"])
def test_what_cannot_be_judged_counts_as_live(
    place: Place, dead: dict[str, object], changes: dict[str, object], store: str
) -> None:
    path = place.config / ("sessions/1.json" if store == "sessions" else "daemon/roster.json")

    def write(entry: dict[str, object]) -> None:
        entry = {key: value for key, value in entry.items() if value is not None}
        write_lines(path, [entry if store == "sessions" else {"workers": {"a": entry}}])

    write(dead)
    assert reason(place) == ""
    write(dead | changes)
    assert f"{path.relative_to(place.config)}" in reason(place)
    assert reason(place, OTHER) == ""


def test_without_a_namespace_to_read_the_machine_is_plainly_linux(
    place: Place, sessions: Path, dead: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> str:
        raise PermissionError(path)

    monkeypatch.setattr("lifecycle._live.os.readlink", refuse)
    write_lines(sessions / "1.json", [dead | {"pidDomain": "linux"}])
    assert live_sessions(str(place.config)).reason(SID) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [("lifecycle._live._process_start", None), ("lifecycle._live.os.kill", PermissionError)],
    ids=["a start that cannot be told", "a process of somebody else"],
)
def test_a_process_that_may_not_be_looked_at_holds_its_session(
    place: Place,
    sessions: Path,
    alive: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: type[Exception] | None,
) -> None:
    def call(*_: int) -> None:
        if value:
            raise value

    monkeypatch.setattr(name, call)
    write_lines(sessions / "1.json", [alive])
    assert f"process {os.getpid()}" in reason(place)


MAKERS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "binary rubbish": lambda path: path.write_bytes(b"\xff\0" * 99),
    "torn before the id ends": lambda path: path.write_text(f'{{"pid":1,"sessionId":"{SID[:9]}'),
    "an array": lambda path: path.write_text("[]"),
    "deep nesting": lambda path: path.write_text("[" * 100_000),
    "a directory": Path.mkdir,
    "a FIFO": os.mkfifo,
    "a link": lambda path: path.symlink_to(__file__),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("name", ["sessions/1.json", "daemon/roster.json"])
def test_a_file_that_cannot_be_read_may_be_about_any_session(
    place: Place, make: Callable[[Path], object], name: str
) -> None:
    (place.config / name).parent.mkdir()
    make(place.config / name)
    assert reason(place) == reason(place, OTHER)
    assert f"{name} cannot be read" in reason(place)


@pytest.mark.parametrize("name", ["sessions/1.json", "daemon/roster.json"])
def test_a_torn_file_that_still_names_its_session_holds_no_other(place: Place, name: str) -> None:
    (place.config / name).parent.mkdir()
    (place.config / name).write_text(f'{{"a":{{"sessionId": "{SID}", "pid')
    assert reason(place) == f"{name} cannot be read"
    assert reason(place, OTHER) == ""
    (place.config / "sessions").mkdir(exist_ok=True)
    (place.config / "sessions" / "0.json").touch()
    assert "sessions/0.json cannot be read" in reason(place, OTHER)


def test_a_sessions_directory_that_cannot_be_listed_may_hold_any_session(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> list[str]:
        raise PermissionError(path)

    with monkeypatch.context() as patch:
        patch.setattr("lifecycle._live.os.listdir", refuse)
        found = live_sessions(str(place.config))
    assert "sessions cannot be read" in found.reason(SID)


@pytest.mark.parametrize("name", ["1.key", "1.json.key", "x.json", "1.json.bak", ".1.json", "1"])
def test_only_files_called_after_a_pid_are_opened(
    place: Place, sessions: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (sessions / name).write_text("a secret")
    opened: list[str] = []
    real = os.open

    def recording(path: str, flags: int) -> int:
        opened.append(path)
        return real(path, flags)

    monkeypatch.setattr(os, "open", recording)
    assert live_sessions(str(place.config)).reason(SID) == ""
    assert opened == [str(place.config / "daemon" / "roster.json")]


@pytest.mark.parametrize("names", [("1.json", "2.json"), ("2.json", "1.json")], ids=" ".join)
def test_one_running_holder_among_dead_ones_is_enough(
    place: Place,
    sessions: Path,
    alive: dict[str, object],
    dead: dict[str, object],
    names: tuple[str, str],
) -> None:
    for name, entry in zip(names, (alive, dead), strict=True):
        write_lines(sessions / name, [entry])
    assert f"held by process {os.getpid()} (sessions/{names[0]})" == reason(place)


def test_each_worker_of_the_roster_is_judged_alone(
    place: Place, alive: dict[str, object], dead: dict[str, object]
) -> None:
    workers = {"a": dead | {"sessionId": OTHER}, "b": alive}
    roster = write_lines(place.config / "daemon" / "roster.json", [{"workers": workers}])
    assert "daemon/roster.json" in reason(place)
    assert reason(place, OTHER) == ""
    write_lines(roster, [{"workers": {}}])
    assert reason(place) == ""
    write_lines(roster, [{"workers": "rubbish"}])
    assert reason(place) == reason(place, OTHER) != ""


def test_the_session_of_a_process_is_read_anew_each_time(place: Place) -> None:
    add_live(place.config, SID, os.getpid())
    assert reason(place)
    add_live(place.config, OTHER, os.getpid())
    assert reason(place) == ""
    assert reason(place, OTHER)


def test_the_error_says_which_session_and_why() -> None:
    error = LiveSessionError(SID, "held by process 7")
    assert isinstance(error, RuntimeError)
    assert (error.session_id, error.reason) == (SID, "held by process 7")
    assert str(error) == f"session {SID} is live: held by process 7"


@pytest.mark.parametrize("missing", [None, "", 7], ids=repr)
def test_a_running_process_that_names_no_session_may_hold_any(
    place: Place, alive: dict[str, object], missing: object
) -> None:
    write_lines(place.config / "sessions" / "1.json", [alive | {"sessionId": missing}])
    assert "not named" in live_sessions(str(place.config)).reason("any-session")


def test_a_roster_with_a_worker_that_is_none_may_be_about_any_session(place: Place) -> None:
    write_lines(place.config / "daemon" / "roster.json", [{"workers": {"a": "b"}}])
    assert live_sessions(str(place.config)).reason("any-session")
