"""What reaches the streams: lines, one JSON document, a question, progress; errors in a line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

__all__ = [
    "NOWHERE",
    "CutShortError",
    "RefusedError",
    "UnwrittenError",
    "accounted_for",
    "confirmed",
    "mention",
    "message_of",
    "print_document",
    "print_lines",
    "progress",
    "undisturbed",
]

NOWHERE = "there is nowhere to show it: standard output is closed"
_FIRST_SCREEN = 100


class RefusedError(Exception):
    """The call is understood, and not carried out."""


class CutShortError(Exception):
    """Interrupted in the middle of a document: another one would not mend it."""

    def __init__(self) -> None:
        super().__init__("interrupted")


class UnwrittenError(Exception):
    """Something was done, and the result could not be written."""


@contextmanager
def accounted_for(done: str) -> Iterator[None]:
    """What is printed here is about work that was done: a failure to print says so.

    Empty where nothing was done; then the failure stands for itself.
    """
    try:
        yield
        sys.stdout.flush()
    except (OSError, CutShortError) as error:
        if not done:
            raise
        reason = message_of(error)
        raise UnwrittenError(f"{done}, but the result could not be written: {reason}") from error


@contextmanager
def undisturbed() -> Iterator[None]:
    """Interrupts are ignored, as far as this thread may ask for that."""
    import signal

    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def message_of(error: BaseException) -> str:
    """An error in one line: what and why, and what was noted on it."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        where = [str(name) for name in (error.filename, error.filename2) if name is not None]
        text = ": ".join([*where, error.strerror.lower()])
    return "; ".join([text or type(error).__name__, *getattr(error, "__notes__", ())])


def mention(text: str) -> None:
    """Says a line on standard error that the result does not depend on, where that is possible."""
    # Not through the stream, which would keep what it cannot write, and fail again for it.
    with suppress(OSError):
        os.write(sys.stderr.fileno(), f"{text}\n".encode(errors="replace"))


def print_lines(lines: Iterable[str], *, to_stderr: bool = False) -> None:
    """Prints the lines, the first screen of them one by one, so that a pager shows it at once."""
    stream = sys.stderr if to_stderr else sys.stdout
    if stream is None:
        raise RefusedError(NOWHERE)
    lines = iter(lines)
    for line in islice(lines, _FIRST_SCREEN):
        stream.write(line + "\n")
        stream.flush()
    stream.writelines(line + "\n" for line in lines)
    stream.flush()


def print_document(fields: dict[str, object]) -> None:
    """Prints one JSON document."""
    from lifecycle._json import document

    if sys.stdout is None:
        raise RefusedError(NOWHERE)
    try:
        sys.stdout.writelines(document(fields))
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise CutShortError from None


def confirmed(question: str) -> bool:
    """Whether the answer is y or yes; anything else, no answer and Ctrl-C are no."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    try:
        answer = sys.stdin.readline() if sys.stdin is not None else ""
    except (KeyboardInterrupt, UnicodeDecodeError, OSError):
        answer = ""
    if not answer.endswith("\n") or not sys.stdin.isatty():
        # Only a terminal shows the line break of the answer.
        sys.stderr.write("\n")
    return answer.strip().lower() in ("y", "yes")


@contextmanager
def progress(label: str) -> Iterator[None]:
    """Says on a terminal, after a second, that work goes on and for how long.

    By a timer and not by a thread, beside which the work could not be shared. Says nothing
    on Windows, which has no such timer, or outside of the main thread, which alone may set it.
    """
    if not sys.stderr.isatty() or not hasattr(os, "fork"):
        yield
        return
    import signal

    from lifecycle._show import inert

    label = inert(label)
    terminal = sys.stderr.fileno()
    seconds = 0

    def say(text: str) -> None:
        # Not through the stream: the signal may come in the middle of a write to it. And what
        # it raised would come up as a failure of whatever call it interrupts.
        with suppress(OSError):
            os.write(terminal, text.encode(errors="replace"))

    def tell(*_: object) -> None:
        nonlocal seconds
        seconds += 1
        say(f"\r{label} ... {seconds} s ")

    try:
        before = signal.signal(signal.SIGALRM, tell)
    except ValueError:
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if seconds:
            say("\r" + " " * (len(label) + 20) + "\r")
