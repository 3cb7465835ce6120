"""Work shared with a copy of this process: the same results, whatever becomes of the copy."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Event, Thread

import pytest

from conftest import Place, command, finish
from lifecycle import DeleteOpts, plan_delete
from lifecycle._share import ENOUGH, share
from sample import APP, add_live, project_name, write_session

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="this system's processes are not copied"
)
THINGS = range(41)
PARENT = os.getpid()
START = datetime(2026, 10, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def several_cores(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Two cores, as far as can be told, and work that is worth it."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr("lifecycle._share.ENOUGH", 2)


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    """No process and no open descriptor is left, whatever happened."""
    before = os.listdir("/proc/self/fd")
    yield
    assert os.listdir("/proc/self/fd") == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def in_copy() -> bool:
    return os.getpid() != PARENT


def killed(number: int) -> int:
    if in_copy() and number > 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def failed(number: int) -> int:
    if in_copy():
        raise OSError(number)
    return number * number


def interrupted(number: int) -> int:
    if in_copy():
        raise KeyboardInterrupt
    return number * number


def unspeakable(number: int) -> object:
    return number * number if not in_copy() else object()


@pytest.mark.parametrize("function", [killed, failed, interrupted, unspeakable])
def test_what_the_copy_cannot_hand_over_is_done_here(
    function: Callable[[int], object], capfd: pytest.CaptureFixture[str]
) -> None:
    assert share(function, THINGS) == [number * number for number in THINGS]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("count", [2, 3, 40, 41])
def test_two_processes_share_and_the_results_are_in_order(count: int) -> None:
    results = share(lambda number: (number, os.getpid()), range(count))
    assert [number for number, _ in results] == list(range(count))
    assert len({process for _, process in results}) == 2


def test_a_failure_here_is_raised_and_the_copy_is_ended() -> None:
    def function(number: int) -> int:
        if in_copy():
            Event().wait()
        if number == 4:
            raise ValueError("no")
        return number

    with pytest.raises(ValueError, match="no"):
        share(function, THINGS)


def test_the_signal_of_a_child_s_end_may_be_ignored() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert share(str, THINGS) == list(map(str, THINGS))
    finally:
        signal.signal(signal.SIGCHLD, before)


def processes(count: int = len(THINGS)) -> int:
    return len(set(share(lambda _: os.getpid(), range(count))))


def test_one_core_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert processes() == 1


def test_a_process_with_more_threads_is_not_copied() -> None:
    over = Event()
    thread = Thread(target=over.wait)
    thread.start()
    try:
        assert processes() == 1
    finally:
        over.set()
        thread.join()


def test_a_system_that_cannot_tell_its_cores_is_not_asked_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert processes() == 1


@pytest.mark.parametrize("call", ["pipe", "fork"])
def test_without_another_process_or_descriptor_everything_is_done_here(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse() -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, call, refuse)
    assert share(str, THINGS) == list(map(str, THINGS))


def test_little_work_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lifecycle._share.ENOUGH", ENOUGH)
    assert (processes(ENOUGH - 1), processes(ENOUGH)) == (1, 2)


def test_a_large_plan_is_the_same_from_the_command_and_from_the_library(place: Place) -> None:
    late = START + timedelta(days=9)
    for number in range(ENOUGH + 1):
        at = late if number % 5 == 0 else START
        write_session(place.root, project_name(APP), f"{number:08}-session", at=at)
    add_live(place.config, f"{3:08}-session", PARENT)
    for number in (6, 7):
        gone = place.root / project_name(APP) / f"{number:08}-session.jsonl"
        gone.unlink()
        gone.symlink_to(Path("nowhere"))
    opts = DeleteOpts(before=late - timedelta(days=1), dry_run=True)
    expected = plan_delete(place.root, place.cache, opts)
    before = place.everything()
    result = finish(
        command("delete", "--before", f"{opts.before:%Y-%m-%dT%H:%M:%SZ}", "-n", "--json")
    )
    assert (result.status, result.err) == (0, "")
    found = json.loads(result.out)
    assert [one["path"] for one in found["matched"]] == [str(one.path) for one in expected.matched]
    assert [one["messages"] for one in found["matched"]] == [
        one.messages for one in expected.matched
    ]
    assert [(one["path"], one["reason"]) for one in found["skipped"]] == [
        (str(one.path), one.reason) for one in expected.skipped
    ]
    assert len(expected.skipped) == 3
    assert len(expected.matched) > ENOUGH // 2
    assert place.everything() == before


def test_an_interrupt_ends_both_processes(place: Place) -> None:
    for number in range(ENOUGH):
        write_session(place.root, project_name(APP), f"{number:08}-session", at=START)
    gate = place.base / "gate"
    os.mkfifo(gate)
    code = (
        "import os, signal, sys\nfrom lifecycle import _judge, cli\n"
        f"def wait(*_): os.open({str(gate)!r}, os.O_WRONLY); signal.pause()\n"
        "_judge.measure = wait\nos.sched_getaffinity = lambda _: {0, 1}\n"
        "sys.exit(cli.main(['delete', '--project', '-', '-n']))"
    )
    line = [sys.executable, "-W", "error", "-c", code]
    process = Popen(line, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    with open(gate, "rb"):
        process.send_signal(signal.SIGINT)
        # Ends only when nobody holds the streams any more.
        result = finish(process)
    assert (result.status, result.out) == (1, "")
    assert result.err.strip() == "session-lifecycle: interrupted"


def test_the_copy_does_not_outlive_a_parent_that_was_killed(place: Place) -> None:
    code = (
        "import os, signal\nfrom lifecycle import _share\n"
        "_share.ENOUGH = 2\nos.sched_getaffinity = lambda _: {0, 1}\nparent = os.getpid()\n"
        "def long(_):\n"
        "    if os.getpid() == parent: os.kill(parent, signal.SIGKILL)\n"
        "    return 'x' * 500_000\n"
        "_share.share(long, range(9))"
    )
    process = Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE, stderr=PIPE)
    # Ends only when nobody holds the streams any more.
    assert finish(process).status == -signal.SIGKILL


def test_an_interrupt_does_not_reach_the_copy(capfd: pytest.CaptureFixture[str]) -> None:
    def struck(number: int) -> int:
        if in_copy():
            os.kill(os.getpid(), signal.SIGINT)
        return number

    assert share(struck, THINGS) == list(THINGS)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
    assert capfd.readouterr() == ("", "")
