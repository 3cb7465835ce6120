"""Says of one transcript whether it passes the filters that need it opened, and what it is like."""

from __future__ import annotations

import os

from lifecycle._plan import DeleteOpts, identity, local_time, nanoseconds, why
from lifecycle._records import all_earlier, first_cwd, last_recorded, latest_anywhere, stamp_at
from lifecycle._titles import title_of
from lifecycle._transcript import Measure, measure
from lifecycle._where import WorkingDirectory
from lifecycle.ids import matches_session_id

__all__ = ["Judge", "Verdict", "is_gone"]

# Why it is left alone, or empty; whether it passes as far as can be told; messages, bytes,
# time of modification (ns), device, inode; title. Plain, so that a process can hand it over.
Verdict = tuple[str, bool, int, int, int, int, int, str | None]

# Of a file that was last changed before the date, the end tells enough.
_END = 4 * 1024
# A file system's clock may lag behind the one that stamped the record.
_CLOCK_SLACK_NS = 2_000_000_000


def is_gone(path: str) -> bool:
    """Whether nothing is there; what a directory hides counts as there."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


class Judge:
    """Judges sessions by the filters of one plan; reads only, and remembers nothing."""

    def __init__(self, opts: DeleteOpts, *, with_titles: bool = False) -> None:
        self._opts = opts
        self._where = WorkingDirectory(opts.project) if os.path.isabs(opts.project) else None
        self._with_titles = with_titles
        self._before = None if opts.before is None else nanoseconds(opts.before)
        self._limit = b"" if self._before is None else stamp_at(self._before)

    def fits_project(self, name: str) -> bool:
        """Whether a project directory of this name may hold what is meant."""
        return self._where.may_be(name) if self._where else self._opts.project in name

    def fits_id(self, session_id: str) -> bool:
        """Whether the id is the one that is asked for, if any is."""
        wanted = self._opts.session_id
        return not wanted or matches_session_id(session_id, wanted)

    def is_too_new(self, path: str) -> bool:
        """Whether the file's date says no; what cannot be looked at is for `verdict` to name."""
        if self._before is None:
            return False
        try:
            return os.lstat(path).st_mtime_ns >= self._before
        except OSError:
            return False

    def verdict(self, path: str, project: str, directory: str | None) -> Verdict | None:
        """None where a filter says no, or the transcript is gone.

        `directory` is the session's own, where it has one: it may hold a title.
        """
        try:
            return self._verdict(path, project, directory)
        except OSError as error:
            if is_gone(path):
                return None
            return why(error, path), True, 0, 0, 0, 0, 0, None

    def _verdict(self, path: str, project: str, directory: str | None) -> Verdict | None:
        opts = self._opts
        # First, since it reads no further than the answer; counting reads everything.
        judged = os.lstat(path) if opts.routine else None
        if judged and not _is_routine(path):
            return None
        found = measure(path, opts.max_messages)
        if judged and identity(judged) != identity(found.stat):
            # It was written to meanwhile: what was judged is not what would be planned.
            return None
        if opts.max_messages and found.count > opts.max_messages:
            return None
        status = found.stat
        if self._before is not None and status.st_mtime_ns >= self._before:
            return None
        reason = self._elsewhere(path, project) if self._where else ""
        if not reason and self._before is not None:
            reason = self._too_late(path, found, self._before)
        title = None
        if self._with_titles and not reason:
            title = title_of(path, directory, found.tail if found.is_whole else None)
        return (
            reason,
            not reason,
            found.count,
            status.st_size,
            status.st_mtime_ns,
            status.st_dev,
            status.st_ino,
            title,
        )

    def _elsewhere(self, path: str, project: str) -> str:
        """Why a session in the right project directory is not meant all the same, or empty."""
        cwd = first_cwd(path)
        if self._where is None or self._where.is_recorded(cwd, project):
            return ""
        return f"belongs to another working directory: {cwd or 'none recorded'}"

    def _too_late(self, path: str, found: Measure, before: int) -> str:
        """Why a session whose file is old enough is not meant all the same, or empty."""
        if _is_settled(found.stat, before) and all_earlier(found.tail[-_END:], self._limit):
            return ""
        latest = latest_anywhere(path)
        if latest is not None and latest >= before:
            # Slow, and it tells the records' own timestamps from those that tool results hold.
            latest = last_recorded(path)
        if latest is None or latest < before:
            return ""
        return f"its last record is of {local_time(latest).isoformat()}, not before the date"


def _is_settled(status: os.stat_result, before: int) -> bool:
    """Whether the file was last changed before that instant by this machine's clock.

    Whoever sets a modification time cannot set the time of that change, and no record is
    written after the last change. Elsewhere the change time is the time of creation.
    """
    return os.name == "posix" and status.st_ctime_ns + _CLOCK_SLACK_NS < before


def _is_routine(path: str) -> bool:
    from lifecycle.floor import is_routine, read_messages

    return is_routine(read_messages(path))
