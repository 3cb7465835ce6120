"""A call that hangs fails its test instead of stopping the run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def deadline(seconds: float = 20) -> Iterator[None]:
    """What is done inside must end in time; the failure is no OSError that a test may expect."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"it took over {seconds} s"))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
