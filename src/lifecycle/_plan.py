"""What plans are made of: filters, the sessions they mean, what is left alone and why.

Times are exact: nanoseconds since the epoch inside, local time with its offset outside.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lifecycle._layout import SUFFIX

__all__ = [
    "DeleteOpts",
    "NoFilterError",
    "Plan",
    "PlanItem",
    "Skipped",
    "by_path",
    "identity",
    "leave_out",
    "local_time",
    "nanoseconds",
    "why",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class NoFilterError(ValueError):
    """No filter is set, so every session would be meant."""

    def __init__(self, action: str = "delete") -> None:
        super().__init__(f"refusing to {action} all sessions: set at least one filter")


@dataclass(frozen=True, slots=True)
class DeleteOpts:
    """The filters, all of which a session must pass; a zero value means unset.

    Raises TypeError for a value of the wrong type, ValueError for a negative number or a
    date that no clock shows.
    """

    before: datetime | None = None
    """Last modified strictly before it; naive means local time."""
    project: str = ""
    """Part of the project directory's name, or the absolute path of a working directory."""
    max_messages: int = 0
    """At most so many JSONL lines that are not blank."""
    session_id: str = ""
    """A full id, or a prefix of at least 8 characters."""
    routine: bool = False
    """The math floor calls it routine."""
    include_live: bool = False
    """No filter: whether sessions that a running Claude Code holds are taken too."""
    dry_run: bool = False
    """No filter: whether `delete_sessions` ends with the plan."""

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            # bool is an int, and a number where a flag belongs is a mistake as well.
            if type(value) is not kind and not (kind is str and isinstance(value, str)):
                raise TypeError(f"{name} must be {kind.__name__}, not {type(value).__name__}")
        if self.before is not None and not isinstance(self.before, datetime):
            raise TypeError(f"before must be a datetime, not {type(self.before).__name__}")
        if self.max_messages < 0:
            raise ValueError("max_messages must not be negative")
        nanoseconds(self.before)

    @property
    def has_filter(self) -> bool:
        """Whether any filter is set."""
        return self.before is not None or bool(
            self.project or self.max_messages or self.session_id or self.routine
        )


_KINDS: dict[str, type] = {
    "project": str,
    "max_messages": int,
    "session_id": str,
    "routine": bool,
    "include_live": bool,
    "dry_run": bool,
}


def nanoseconds(moment: datetime | None) -> int:
    """An instant in ns since the epoch, exactly; 0 for None. Naive means local time."""
    if moment is None:
        return 0
    try:
        since = (moment if moment.tzinfo else moment.astimezone()) - _EPOCH
    except (OverflowError, OSError) as error:
        raise ValueError(f"{moment} is out of range") from error
    return since // timedelta(microseconds=1) * 1_000


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that a plan leaves alone, or that an effect did not do."""

    session_id: str
    """Empty where a whole project directory is meant."""
    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One session as it was when the plan was made."""

    session_id: str
    directory: Path
    """The project directory."""
    bytes: int
    """Size of the transcript alone."""
    messages: int
    """JSONL lines that are not blank."""
    modified_ns: int
    """Last modification of the transcript, in ns since the epoch."""
    device: int
    inode: int
    companions: tuple[Path, ...] = ()
    """What else belongs to the session and goes with it."""
    companion_bytes: int = 0
    also_in: tuple[str, ...] = ()
    """Other projects that hold a session of the same id."""
    takes_stores: bool = True
    """Whether what is keyed by id alone goes too: not while another project holds the id, or
    may hold it."""
    title: str | None = None
    """What the session is called, cut to 200 characters; None where the plan was made without
    titles, or nothing tells."""
    companion_state: int = field(default=0, repr=False, compare=False)
    """Changes when anything in the companions does; means something in this process only."""

    @property
    def path(self) -> Path:
        """The transcript."""
        return self.directory / (self.session_id + SUFFIX)

    @property
    def location(self) -> str:
        """The transcript's path as text; much cheaper than `path`."""
        return f"{self.directory}{os.sep}{self.session_id}{SUFFIX}"

    @property
    def project(self) -> str:
        """The name of the project directory."""
        return self.directory.name

    @property
    def modified(self) -> datetime:
        """Last modification of the transcript, local time with its offset."""
        return local_time(self.modified_ns)

    @property
    def total_bytes(self) -> int:
        """Transcript and companions."""
        return self.bytes + self.companion_bytes

    def is_at(self, path: str) -> bool:
        """Whether the file at the path is the planned transcript, unchanged. Raises OSError."""
        planned = (self.device, self.inode, self.bytes, self.modified_ns)
        return planned == identity(os.lstat(path))


def identity(status: os.stat_result) -> tuple[int, int, int, int]:
    """Device, inode, size and modification time: the same as long as a file is the same."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def local_time(nanoseconds_since_epoch: int) -> datetime:
    """Local time with its offset; a time that no calendar holds becomes the nearest one."""
    seconds, rest = divmod(nanoseconds_since_epoch, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(seconds).astimezone()
        return moment.replace(microsecond=rest // 1_000) if rest else moment
    except (OverflowError, ValueError, OSError):
        nearest = datetime.max if seconds > 0 else datetime.min
        return nearest.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an effect would do to which sessions; once executed, what it did."""

    projects_root: Path
    matched: tuple[PlanItem, ...] = ()
    """The sessions that are meant, sorted by path."""
    skipped: tuple[Skipped, ...] = ()
    """What fits, or looks like a session, but is left alone; sorted by path."""
    failed: tuple[Skipped, ...] = ()
    """Those of `matched` with which it could not be done, or not to the end."""
    include_live: bool = False

    @property
    def total_bytes(self) -> int:
        """All that the matched sessions take, companions included."""
        return sum(item.total_bytes for item in self.matched)


def why(error: OSError, about: str | Path = "") -> str:
    """What went wrong as a reason; begins with the path it was met at, unless it is about that.

    Of two paths that a call was given, the target is named where it is in another directory.
    """
    about = str(about)
    parts = [error.strerror.lower() if error.strerror else str(error)]
    second = error.filename2
    if isinstance(second, str) and os.path.dirname(second) != os.path.dirname(about):
        parts.insert(0, second)
    elif isinstance(error.filename, str) and error.filename != about:
        parts.insert(0, error.filename)
    return ": ".join(parts)


def leave_out(
    items: tuple[PlanItem, ...], obstacle: Callable[[PlanItem], str]
) -> tuple[tuple[PlanItem, ...], list[Skipped]]:
    """The items without those that have an obstacle, and these with it as their reason."""
    judged = ((item, obstacle(item)) for item in items)
    left = [Skipped(item.session_id, item.path, reason) for item, reason in judged if reason]
    if left:
        bad = {skip.path for skip in left}
        items = tuple(item for item in items if item.path not in bad)
    return items, left


def by_path(*groups: Iterable[Skipped]) -> tuple[Skipped, ...]:
    """All of them in the order of their paths."""
    return tuple(sorted((skip for group in groups for skip in group), key=lambda skip: skip.path))
