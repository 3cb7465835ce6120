"""Keeps what was restored from Claude Code's retention sweep, which deletes by age alone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from stat import S_ISREG

from lifecycle._disk import set_modified
from lifecycle._layout import SUFFIX, is_directory
from lifecycle._records import parse
from lifecycle._transcript import open_regular

__all__ = ["keep_from_sweep"]

_DAY_NS = 86_400 * 1_000_000_000
_DEFAULT_PERIOD_DAYS = 30
# What the sweep judges by the directory's own time, whatever the transcript's is.
_SWEPT_STORES = ("file-history", "session-env", "tasks", "uploads")


def keep_from_sweep(config: str | None, transcript: str) -> bool:
    """Nothing of the session is so old that the sweep would delete it within a day.

    What was is dated now; returns whether there was any. All else keeps its time. Raises
    OSError where anything cannot be dated, after all the rest was.
    """
    now = time.time_ns()
    oldest = now - (_period_days(config) - 1) * _DAY_NS
    old = [path for path in _swept(config, transcript) if os.lstat(path).st_mtime_ns < oldest]
    problems = []
    for path in old:
        try:
            set_modified(path, now)
        except OSError as error:
            problems.append(error)
    if problems:
        raise problems[0]
    return bool(old)


def _swept(config: str | None, transcript: str) -> Iterator[str]:
    """What the sweep judges one by one, each by its own modification time."""
    yield transcript
    own = transcript.removesuffix(SUFFIX)
    results = os.path.join(own, "tool-results")
    if is_directory(results):
        for name in sorted(os.listdir(results)):
            if S_ISREG(os.lstat(os.path.join(results, name)).st_mode):
                yield os.path.join(results, name)
    for store in _SWEPT_STORES if config else ():
        path = os.path.join(config or "", store, os.path.basename(own))
        if is_directory(path):
            yield path


def _period_days(config: str | None) -> int:
    """How long Claude Code keeps a session, in whole days; the default where that is not clear."""
    if config is None:
        return _DEFAULT_PERIOD_DAYS
    try:
        path = os.path.join(config, "settings.json")
        with open(open_regular(path, follow=True), "rb") as file:
            days = (parse(file.read()) or {}).get("cleanupPeriodDays")
    except OSError:
        days = None
    if isinstance(days, bool) or not isinstance(days, int | float) or not 1 <= days < 1e9:
        return _DEFAULT_PERIOD_DAYS
    return int(days)
