"""Shares work that only reads between this process and a copy of it."""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

# Type checkers take this name for true.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import NoReturn, TypeVar

    T = TypeVar("T")
    R = TypeVar("R")

__all__ = ["share"]

# For fewer things a second process takes longer to start than it saves.
ENOUGH = 1_000


def share(function: Callable[[T], R], things: Sequence[T]) -> list[R]:
    """What the function says of each thing, in their order.

    It must not change anything that the caller looks at later, and say what `marshal` takes.
    Where a copy of this process is worth it and safe, it does every other thing; what it
    cannot hand over, for it was killed or failed, this process does itself.
    """
    if len(things) < ENOUGH or not _may_fork():
        return list(map(function, things))
    try:
        child, reader = _start(function, things[1::2])
    except OSError:
        # No process or no descriptor is to be had.
        return list(map(function, things))
    try:
        with open(reader, "rb") as pipe:
            own = list(map(function, things[::2]))
            theirs: list[R] | None = _loaded(pipe.read())
    except BaseException:
        from signal import SIGKILL

        with suppress(ProcessLookupError):
            os.kill(child, SIGKILL)
        raise
    finally:
        # Whoever ignores the signal of a child's end has nothing to wait for.
        with suppress(ChildProcessError):
            os.waitpid(child, 0)
    others = list(map(function, things[1::2])) if theirs is None else theirs
    found = own + others
    found[::2], found[1::2] = own, others
    return found


def _may_fork() -> bool:
    """Whether there is a core to spare, and no other thread, whose locks a copy would inherit."""
    threads = sys.modules.get("threading")
    is_alone = threads is None or threads.active_count() == 1
    return is_alone and hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1


def _start(function: Callable[[T], R], things: Sequence[T]) -> tuple[int, int]:
    """Starts the copy; returns its process id, and the descriptor that it answers to."""
    # Not at the top: small runs would wait for it.
    from signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask

    reader, writer = os.pipe()
    # Never lifted in the copy, which ends when nobody listens: an interrupt there would run
    # on into what the caller does about one.
    before = pthread_sigmask(SIG_BLOCK, {SIGINT})
    try:
        child = os.fork()
        if not child:
            _hand_over(function, things, reader, writer)
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
        pthread_sigmask(SIG_SETMASK, before)
    return child, reader


def _hand_over(
    function: Callable[[T], R], things: Sequence[T], reader: int, writer: int
) -> NoReturn:
    try:
        # As long as it is open here, a write waits for a reader that may be gone.
        os.close(reader)
        with open(writer, "wb") as pipe:
            pipe.write(marshal.dumps(list(map(function, things))))
    finally:
        # Neither buffers nor handlers of the process that this is a copy of are its own, and
        # whether it is done the other sees by what it wrote.
        os._exit(0)


def _loaded(content: bytes) -> list[R] | None:
    try:
        found: list[R] = marshal.loads(content)
    except (EOFError, TypeError, ValueError):
        return None
    return found
