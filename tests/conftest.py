"""Every test gets a home of its own; trees are compared whole."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lifecycle.cli import main

SOURCE = Path(main.__code__.co_filename).parent.parent

# Where it is ignored, as in the background of a script, the processes of the tests would too.
signal.signal(signal.SIGINT, signal.default_int_handler)

Entry = tuple[str, int, int, bytes]
Tree = dict[str, Entry]


def snapshot(*roots: Path, directory_times: bool = False) -> Tree:
    """Every entry below the roots: kind, mode, modification time in ns, content or link target.

    A directory's own time changes with every entry made in it, so it counts only on request.
    """
    found: Tree = {}
    for root in roots:
        for path in [root, *root.rglob("*")] if root.exists() else []:
            found[str(path)] = _entry(path, directory_times)
    return found


def without(tree: Tree, gone: Iterable[Path]) -> Tree:
    """The tree less what is at and below the paths."""
    tops = {str(path) for path in gone}
    return {
        name: entry
        for name, entry in tree.items()
        if not tops.intersection([name, *map(str, Path(name).parents)])
    }


def _entry(path: Path, directory_times: bool) -> Entry:
    status = path.lstat()
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return ("link", mode, status.st_mtime_ns, os.fsencode(os.readlink(path)))
    if stat.S_ISDIR(status.st_mode):
        return ("directory", mode, status.st_mtime_ns if directory_times else 0, b"")
    if stat.S_ISREG(status.st_mode):
        return ("file", mode, status.st_mtime_ns, path.read_bytes())
    return ("other", mode, status.st_mtime_ns, b"")


@dataclass(frozen=True)
class Place:
    """The directories of one test."""

    base: Path
    config: Path
    root: Path
    archive: Path
    cache: Path

    @property
    def tombstones(self) -> Path:
        return self.cache / ".deleted"

    def everything(self) -> Tree:
        """The whole tree of the test, directory times included."""
        return snapshot(self.base, directory_times=True)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """An empty home, with every variable that leads to one pointing into it."""
    home = tmp_path / "home"
    config = home / ".claude"
    (config / "projects").mkdir(parents=True)
    for name in [name for name in os.environ if name.startswith(("XDG_", "CLAUDE_", "PYTHON"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(config))
    for name in ("CONFIG", "CACHE", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    cache = home / ".cache" / "session-search"
    return Place(home, config, config / "projects", config / "archive", cache)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process has written outlives it: only a crash of the machine needs the disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def in_memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory in memory, where there is such a place: disks only stretch what happens."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path_factory.mktemp("memory")
        return
    path = Path(tempfile.mkdtemp(dir=memory, prefix="lifecycle-test-"))
    yield path
    shutil.rmtree(path)


@dataclass(frozen=True)
class Result:
    """What a command left: its exit status and both streams."""

    status: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command in this process: `run("delete", "--before", "30d", answer="y")`."""

    def call(*arguments: str | Path, answer: str | None = None) -> Result:
        read, write = os.pipe()
        os.write(write, b"" if answer is None else answer.encode() + b"\n")
        os.close(write)
        with os.fdopen(read) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            capfd.readouterr()
            status = main([str(argument) for argument in arguments])
            captured = capfd.readouterr()
        return Result(status, captured.out, captured.err)

    return call


def command(*arguments: str | Path, **options: object) -> subprocess.Popen[bytes]:
    """Starts the command in a process of its own, warnings as errors."""
    line = [sys.executable, "-W", "error", "-m", "lifecycle", *map(str, arguments)]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(line, **{**streams, **options})  # type: ignore[call-overload, no-any-return]


def finish(process: subprocess.Popen[bytes], answer: str = "") -> Result:
    """Waits for a command started with `command`; a stream that is no pipe is empty."""
    out, err = process.communicate(answer.encode(), timeout=60)
    texts = ((piece or b"").decode("utf-8", "replace") for piece in (out, err))
    return Result(process.returncode, *texts)
