"""Which sessions a set of filters means: the one selection behind delete, archive and list.

Reads only. Cheap filters come first: names, then times; a transcript is opened only when
those let it through.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from lifecycle._layout import (
    STAGED_SUFFIX,
    SUFFIX,
    Companions,
    Project,
    config_of,
    encode_project,
    projects,
    read_project,
    weigh,
)
from lifecycle._live import live_sessions
from lifecycle._plan import DeleteOpts, PlanItem, Skipped, local_time, nanoseconds
from lifecycle._transcript import measure
from lifecycle.ids import AmbiguousSessionError, matches_session_id

__all__ = ["CHANGED", "Candidate", "Selection", "change_in", "select", "why"]

# Claude Code cuts longer project directory names here and adds a hash.
_LONGEST_PROJECT = 200
# For so few ids one look each in every project is cheaper than listing all projects.
_FEW = 8
# Of a file that was dated by writing to it, the end tells enough.
_END = 4 * 1024
# A file system's clock may lag behind the one that stamped the record.
_CLOCK_SLACK_NS = 2_000_000_000
CHANGED = "changed since the plan was made"
_STAGED = "staged by an interrupted delete; the next command that changes files settles it"


def why(error: OSError) -> str:
    """What went wrong, without the path."""
    return (error.strerror or str(error)).lower()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session that passed the cheap filters."""

    project: str
    session_id: str
    modified_ns: int
    """0 where nothing asked for it."""


def select(root: str, opts: DeleteOpts) -> tuple[tuple[PlanItem, ...], tuple[Skipped, ...]]:
    """All sessions that pass the filters, and what fits but is left alone, each by path.

    Raises `AmbiguousSessionError` where a session id fits several, OSError where the
    projects root itself or a store of companions cannot be read.
    """
    selection = Selection(root, opts)
    matched = tuple(selection.items())
    if opts.session_id:
        fitting = [item.path for item in matched] + selection.passed
        if len(fitting) > 1:
            raise AmbiguousSessionError(opts.session_id, fitting)
    skipped = sorted(selection.skipped, key=lambda skip: skip.path)
    return selection.with_shared(matched), tuple(skipped)


class Selection:
    """One walk over a projects root under some filters.

    `candidates` are in the order of their paths; `skipped` collects what fits but is left
    alone, `passed` those of them that are sessions and pass every filter that can be judged.
    """

    def __init__(self, root: str, opts: DeleteOpts, *, with_times: bool = False) -> None:
        self.root = root
        self.opts = opts
        self.skipped: list[Skipped] = []
        self.passed: list[Path] = []
        self.candidates: list[Candidate] = []
        self.live = live_sessions(config_of(root))
        self._companions = Companions(root, config_of(root))
        self._before = nanoseconds(opts.before)
        self._with_times = with_times or opts.before is not None
        self._where = _WorkingDirectory(opts.project) if os.path.isabs(opts.project) else None
        self._directories: dict[str, Path] = {}
        self._copies: dict[str, list[str]] | None = None
        self._unread = False
        """Whether a project cannot be read, so that it may hold a copy of any id."""
        self._projects = projects(root)
        if opts.before is not None:
            # Loaded only where it is needed, and not looked up again for each session.
            from lifecycle._records import latest_anywhere, latest_in

            self._latest_in, self._latest_anywhere = latest_in, latest_anywhere
        self._walk()

    def _walk(self) -> None:
        for name, reason in self._projects.odd:
            # One session that was asked for by name is not in a directory that is no project.
            if self._fits_project(name) and not self.opts.session_id:
                self._skip("", Path(self.root, name), reason)
        for project in filter(self._fits_project, self._projects.directories):
            try:
                if not self._may_hold(project):
                    continue
                listing = read_project(self.root, project)
            except OSError as error:
                self._skip("", Path(self.root, project), why(error))
                continue
            self._take(project, listing)

    def _fits_project(self, name: str) -> bool:
        return self._where.may_be(name) if self._where else self.opts.project in name

    def _may_hold(self, project: str) -> bool:
        """Whether a name in the project begins as the id that is asked for, if any is."""
        wanted = self.opts.session_id
        if not wanted:
            return True
        names = os.listdir(os.path.join(self.root, project))
        return any(name.startswith(wanted) for name in names)

    def _fits_id(self, session_id: str) -> bool:
        wanted = self.opts.session_id
        return not wanted or matches_session_id(session_id, wanted)

    def _take(self, project: str, listing: Project) -> None:
        directory = self._directories[project] = Path(self.root, project)
        odd = [(name.removesuffix(SUFFIX), name, reason) for name, reason in listing.odd]
        odd += [(name, name + STAGED_SUFFIX, _STAGED) for name in listing.staged]
        for session_id, name, reason in odd:
            if self._fits_id(session_id):
                self._skip(session_id, directory / name, reason)
        for session_id, entry in listing.sessions.items():
            if self._fits_id(session_id):
                modified = _modified(entry) if self._with_times else 0
                if self.opts.before is None or modified < self._before:
                    self.candidates.append(Candidate(project, session_id, modified))
        self._companions.add(project, listing)

    def _skip(self, session_id: str, path: Path, reason: str) -> None:
        self.skipped.append(Skipped(session_id, path, reason))

    def _leave(self, session_id: str, path: str, reason: str) -> None:
        self.passed.append(Path(path))
        self._skip(session_id, Path(path), reason)

    def items(self) -> Iterator[PlanItem]:
        """The candidates that pass every filter, one by one in their order."""
        for candidate in self.candidates:
            item = self.examine(candidate)
            if item is not None:
                yield item

    def examine(self, candidate: Candidate) -> PlanItem | None:
        """The session with what belongs to it, or None; where that is not plain, `skipped`."""
        session_id, project = candidate.session_id, candidate.project
        path = f"{self.root}{os.sep}{project}{os.sep}{session_id}{SUFFIX}"
        try:
            item = self._examine(session_id, project, path)
        except OSError as error:
            if not os.path.lexists(path):
                return None
            self._leave(session_id, path, why(error))
            return None
        reason = "" if item is None or self.opts.include_live else self.live.reason(session_id)
        if reason:
            self._leave(session_id, path, f"live: {reason}")
            return None
        return item

    def _examine(self, session_id: str, project: str, path: str) -> PlanItem | None:
        opts = self.opts
        # First, since it reads no further than the answer; counting reads everything.
        if opts.routine and not _is_routine(path):
            return None
        found = measure(path, opts.max_messages)
        status = found.stat
        if opts.max_messages and found.count > opts.max_messages:
            return None
        if opts.before is not None and status.st_mtime_ns >= self._before:
            return None
        reason = self._doubt(path, status, found.tail)
        if reason:
            self._skip(session_id, Path(path), reason)
            return None
        copies = self._copies_of(session_id, project)
        with_stores = not copies and not self._unread
        companions, size, state = self._belonging(session_id, project, with_stores)
        return PlanItem(
            session_id,
            self._directories[project],
            status.st_size,
            found.count,
            status.st_mtime_ns,
            status.st_dev,
            status.st_ino,
            companions,
            size,
            copies,
            takes_stores=with_stores,
            companion_state=state,
        )

    def _doubt(self, path: str, status: os.stat_result, tail: bytes) -> str:
        """Why a session that fits so far is not taken all the same, or empty."""
        if self._where:
            from lifecycle._records import first_cwd

            cwd = first_cwd(path)
            if not self._where.is_recorded(cwd, os.path.basename(os.path.dirname(path))):
                return f"belongs to another working directory: {cwd or 'none recorded'}"
        if self.opts.before is None:
            return ""
        latest = self._latest_in(tail[-_END:])
        if latest is None or not _is_dated_by_writing(status, latest):
            latest = self._latest_anywhere(path)
        if latest is not None and latest >= self._before:
            from lifecycle._records import last_recorded

            # Slow, and it tells the records' own timestamps from those that tool results hold.
            latest = last_recorded(path)
        if latest is None or latest < self._before:
            return ""
        return f"its last record is of {local_time(latest).isoformat()}, not before the date"

    def _belonging(
        self, session_id: str, project: str, with_stores: bool
    ) -> tuple[tuple[Path, ...], int, int]:
        relative = self._companions.in_project(project, session_id)
        if with_stores:
            relative = relative + self._companions.in_stores(session_id)
        if not relative:
            return (), 0, 0
        paths = [self._companions.absolute(name) for name in relative]
        return (tuple(map(Path, paths)), *weigh(paths))

    def _copies_of(self, session_id: str, project: str) -> tuple[str, ...]:
        if self._copies is None:
            ids = [candidate.session_id for candidate in self.candidates]
            self._copies, self._unread = _copies(self.root, self._projects.directories, ids)
        held = self._copies.get(session_id)
        return tuple(name for name in held if name != project) if held else ()

    def with_shared(self, matched: tuple[PlanItem, ...]) -> tuple[PlanItem, ...]:
        """Where every copy of an id is matched, what is keyed by id alone goes with the last."""
        last = {item.session_id: item for item in matched if item.also_in}
        if not last or self._unread:
            return matched
        count: dict[str, int] = {}
        for item in matched:
            count[item.session_id] = count.get(item.session_id, 0) + 1
        return tuple(
            self._last_copy(item)
            if last.get(item.session_id) is item and count[item.session_id] > len(item.also_in)
            else item
            for item in matched
        )

    def _last_copy(self, item: PlanItem) -> PlanItem:
        companions, size, state = self._belonging(item.session_id, item.project, True)
        return replace(
            item,
            companions=companions,
            companion_bytes=size,
            companion_state=state,
            takes_stores=True,
        )


def change_in(item: PlanItem, companions: Companions) -> str:
    """What is no longer as it was planned, or empty. Raises OSError where it is gone."""
    path = str(item.path)
    if os.path.islink(os.path.dirname(path)):
        return "the project directory is a symbolic link now"
    if not item.is_at(path):
        return CHANGED
    names = companions.in_project(item.project, item.session_id)
    if item.takes_stores:
        names = names + companions.in_stores(item.session_id)
    paths = [companions.absolute(name) for name in names]
    if not paths and not item.companions:
        return ""
    same = paths == list(map(str, item.companions))
    if same and weigh(paths) == (item.companion_bytes, item.companion_state):
        return ""
    return f"what belongs to it {CHANGED}"


def _modified(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mtime_ns
    except OSError:
        # Vanished or unreadable: opening it tells which.
        return 0


def _is_dated_by_writing(status: os.stat_result, latest: int) -> bool:
    """Whether the modification time is when the file was last written.

    Whoever sets a modification time to the past cannot set the time of that change.
    """
    modified = status.st_mtime_ns + _CLOCK_SLACK_NS
    return os.name == "posix" and status.st_ctime_ns <= modified and latest <= modified


def _is_routine(path: str) -> bool:
    from lifecycle.floor import is_routine, read_messages

    return is_routine(read_messages(path))


def _copies(root: str, directories: list[str], ids: list[str]) -> tuple[dict[str, list[str]], bool]:
    """The ids that several projects hold, with those projects; whether one was unreadable."""
    first: dict[str, str] = {}
    several: dict[str, list[str]] = {}
    unread = False
    for project in directories:
        try:
            names = _names(os.path.join(root, project), ids)
        except FileNotFoundError:
            continue
        except OSError:
            unread = True
            continue
        for name in names:
            if name.endswith(SUFFIX) and first.setdefault(name, project) != project:
                several.setdefault(name[: -len(SUFFIX)], [first[name]]).append(project)
    return several, unread


def _names(directory: str, ids: list[str]) -> list[str]:
    """Names in a directory: all, or where few ids are asked for, those of their transcripts."""
    if len(ids) >= _FEW:
        return os.listdir(directory)
    names = []
    for session_id in dict.fromkeys(ids):
        try:
            os.lstat(f"{directory}{os.sep}{session_id}{SUFFIX}")
        except FileNotFoundError:
            continue
        names.append(session_id + SUFFIX)
    return names


class _WorkingDirectory:
    """An absolute path as a filter: exactly the sessions that began in that directory."""

    def __init__(self, path: str) -> None:
        self._paths = {os.path.normpath(path), os.path.realpath(path)}
        self._names = {encode_project(name) for name in self._paths}

    def may_be(self, project: str) -> bool:
        """Whether the directory may be called so; a cut name is decided by the record."""
        return project in self._names or any(
            project[:_LONGEST_PROJECT] == name[:_LONGEST_PROJECT]
            for name in self._names
            if len(name) > _LONGEST_PROJECT
        )

    def is_recorded(self, cwd: str | None, project: str) -> bool:
        """Whether a session with this first recorded directory is meant."""
        return cwd in self._paths if cwd else project in self._names
