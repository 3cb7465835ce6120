"""What the words of a call mean; `ArgumentTypeError` for those that mean nothing."""

from __future__ import annotations

import os
import re
from argparse import ArgumentTypeError

# Type checkers take this name for true.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["OPTIONS", "instant", "positive_number", "project_filter", "project_joined", "some_text"]

_AGE = r"(\d+)([hdw])"
_DATE = r"\d{4}-\d\d-\d\d"
_MOMENT = r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)"
_HOURS = {"h": 1, "d": 24, "w": 168}
# What is meant as an option where it stands; everything else may be a project's name.
_SWITCHES = ("-h", "--help", "-n", "--dry-run", "-y", "--yes", "--include-live", "--json")
_FILTERS = ("--before", "--project", "--max-messages", "--routine", "--archived")
OPTIONS = (*_SWITCHES, *_FILTERS, "--projects-root", "--archive-dir", "--cache-dir", "--version")


def project_joined(given: list[str]) -> list[str]:
    """Makes one word of `--project` and its value: most project names begin with a dash."""
    words = list(given)
    end = words.index("--") if "--" in words else len(words)
    for index in range(end - 2, -1, -1):
        if words[index] == "--project" and words[index + 1] not in OPTIONS:
            words[index : index + 2] = [f"--project={words[index + 1]}"]
    return words


def some_text(given: str) -> str:
    """Anything but white space alone."""
    if not given.strip():
        raise ArgumentTypeError("must not be empty")
    return given


def positive_number(given: str) -> int:
    """A whole number from 1 up."""
    if not re.fullmatch(r"[0-9]{1,18}", given) or int(given) == 0:
        raise ArgumentTypeError(f"{given!r} is not a number from 1 up")
    return int(given)


def project_filter(given: str) -> str:
    """Part of a name as it is, and what is clearly a relative path as an absolute one."""
    some_text(given)
    if given in (".", "..", "~") or given.startswith(("./", "../", "~/")):
        try:
            return os.path.abspath(os.path.expanduser(given))
        except OSError as error:
            reason = f"{given!r} cannot be resolved: {error.strerror}"
            raise ArgumentTypeError(reason) from error
    return given


def instant(given: str) -> datetime:
    """An instant with its offset: a local date, RFC 3339, or an age."""
    from datetime import datetime, timedelta

    try:
        if age := re.fullmatch(_AGE, given):
            now = datetime.now().astimezone().replace(microsecond=0)
            return now - timedelta(hours=int(age[1]) * _HOURS[age[2]])
        if re.fullmatch(_DATE, given) or re.fullmatch(_MOMENT, given):
            found = datetime.fromisoformat(given.upper())
            return found if found.tzinfo else found.astimezone()
    except (ValueError, OverflowError, OSError) as error:
        raise ArgumentTypeError(f"{given!r} is out of range") from error
    raise ArgumentTypeError(
        f"{given!r} is neither a date (2026-11-01), a time with offset "
        "(2026-11-01T12:00:00Z) nor an age (12h, 30d, 2w)"
    )
