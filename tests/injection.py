"""Runs the command in a child in which one chosen file-changing system call dies or fails."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Imported here, so that no child has to do it again.
from lifecycle import _show, archive, delete, floor  # noqa: F401
from lifecycle.cli import main

CHANGING = (
    "chmod",
    "ftruncate",
    "fsync",
    "link",
    "mkdir",
    "open",
    "rename",
    "replace",
    "rmdir",
    "symlink",
    "unlink",
    "utime",
    "write",
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True)
class Outcome:
    """What the child did: how it ended, what it said, and its file-changing calls."""

    status: int
    """Exit status; negative for the signal that ended it."""
    err: str
    calls: tuple[str, ...]


@dataclass
class _Counter:
    at: int
    strike: Callable[[str, tuple[Any, ...]], None]
    log: Callable[[str], None]
    seen: int = 0

    def wrap(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if name == "open" and not arguments[1] & _WRITING:
                return original(*arguments, **options)
            self.log(name)
            self.seen += 1
            if self.seen == self.at and self.strike is not interrupt:
                self.strike(name, arguments)
            # A process that dies takes no disk with it: the wait for one is what a test saves.
            result = None if name == "fsync" else original(*arguments, **options)
            if self.seen == self.at and self.strike is interrupt:
                self.strike(name, arguments)
            return result

        return call


def die(name: str, arguments: tuple[Any, ...]) -> None:
    """`kill -9` just before the call."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_torn(name: str, arguments: tuple[Any, ...]) -> None:
    """`kill -9` in the middle of a write: half of it is in the file."""
    if name == "write":
        _REAL_WRITE(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


_REAL_WRITE = os.write


def interrupt(name: str, arguments: tuple[Any, ...]) -> None:
    """Ctrl-C just after the call: it is done, and nobody has heard of it."""
    raise KeyboardInterrupt


def fail(code: int) -> Callable[[str, tuple[Any, ...]], None]:
    """The call fails, and nothing else does."""

    def strike(name: str, arguments: tuple[Any, ...]) -> None:
        where = arguments[0] if arguments and isinstance(arguments[0], str) else None
        raise OSError(code, os.strerror(code), where)

    return strike


def run_child(
    arguments: Sequence[str],
    *,
    at: int = 0,
    strike: Callable[[str, tuple[Any, ...]], None] = die,
    apart: tuple[Path, Path] | None = None,
) -> Outcome:
    """Runs the command; its call number `at` (from 1; 0: none) is struck.

    Two `apart` trees behave as two file systems: no link or rename leads from one to the other.
    """
    read_calls, write_calls = os.pipe()
    read_err, write_err = os.pipe()
    child = os.fork()
    if child == 0:
        _be_the_child(arguments, at, strike, apart, write_calls, write_err)
    os.close(write_calls)
    os.close(write_err)
    with os.fdopen(read_calls) as calls, os.fdopen(read_err, errors="replace") as err:
        said, text = calls.read(), err.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Outcome(status, text, tuple(said.split()))


def _be_the_child(
    arguments: Sequence[str],
    at: int,
    strike: Callable[[str, tuple[Any, ...]], None],
    apart: tuple[Path, Path] | None,
    calls: int,
    err: int,
) -> None:
    status = 70
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.dup2(err, 2)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        if apart:
            _separate(apart)
        counter = _Counter(at, strike, lambda name: _log(calls, name))
        for name in CHANGING:
            setattr(os, name, counter.wrap(name, getattr(os, name)))
        # What a platform supports is asked with the function itself as the key.
        os.supports_follow_symlinks.update({os.link, os.utime, os.chmod})
        status = main(list(arguments))
        sys.stderr.flush()
    except BaseException:
        os.write = _REAL_WRITE
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _log(descriptor: int, name: str) -> None:
    with contextlib.suppress(OSError):
        _REAL_WRITE(descriptor, f"{name}\n".encode())


def _separate(apart: tuple[Path, Path]) -> None:
    def side(path: Any) -> int:
        real = os.path.realpath(os.path.dirname(os.fspath(path)))
        return next((i for i, tree in enumerate(apart) if Path(real).is_relative_to(tree)), -1)

    for name in ("link", "rename"):
        original = getattr(os, name)

        def call(
            source: Any, target: Any, *, _original: Callable[..., Any] = original, **options: Any
        ) -> Any:
            if not options.get("src_dir_fd") and side(source) != side(target):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, target)
            return _original(source, target, **options)

        setattr(os, name, call)
