"""Archive sessions: the whole unit moves out of the projects root, and comes back exactly.

The archive directory mirrors the config directory: the transcript is `<archive>/<id>.jsonl`,
each companion `<archive>/<id>/<its path in the config directory>`. The directory
`<archive>/<id>/projects/<project>/` is always there, and is the record of the origin.

Both directions, under locks on the projects root and the archive directory:

1. settle what interrupted runs left;
2. refuse what would overwrite anything, before anything changes;
3. make the directories, then place the transcript, then the companions, at their targets;
4. remove the transcript, then the companions, where they were;
5. restore only: modification times, the tombstone, the empty directories in the archive.

A failure before step 4 puts everything back. A kill leaves each byte in at least one of the
two places, and the same call again finishes.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from lifecycle._disk import (
    Move,
    create_directories,
    exclusive,
    remove,
    remove_empty_directories,
    remove_empty_tree,
    same_content,
    set_modified,
)
from lifecycle._layout import (
    NO_IDS,
    SUFFIX,
    TEMPORARY,
    Companions,
    archive_directory,
    config_of,
    encode_project,
    root_directory,
    weigh,
)
from lifecycle._live import LiveSessionError, live_sessions
from lifecycle._plan import (
    DeleteOpts,
    NoFilterError,
    Plan,
    PlanItem,
    Skipped,
    by_path,
    nanoseconds,
)
from lifecycle._records import first_cwd, parse
from lifecycle._select import change_in, select, why
from lifecycle._staging import holders, recover
from lifecycle._transcript import measure, open_regular
from lifecycle.floor import is_routine, read_messages
from lifecycle.ids import (
    AmbiguousSessionError,
    SessionNotFoundError,
    find_sessions,
    matches_session_id,
    only_match,
)
from lifecycle.tombstone import remove_tombstones, require_usable, tombstone_path

__all__ = [
    "ArchiveConflictError",
    "ArchivePlan",
    "ArchivedSession",
    "LiveSessionError",
    "RestoreResult",
    "archive_session",
    "archived_sessions",
    "execute_archive",
    "fits",
    "plan_archive",
    "restore_session",
]

_DAY_NS = 86_400 * 1_000_000_000
_DEFAULT_PERIOD_DAYS = 30
_LONGEST_PROJECT = 200
# What the sweep judges by the directory's own time, whatever the transcript's is.
_SWEPT_STORES = ("file-history", "session-env", "tasks", "uploads")


class ArchiveConflictError(FileExistsError):
    """Moving `source` would overwrite `target`; both are as they were."""

    def __init__(self, source: Path, target: Path) -> None:
        super().__init__(f"{target} exists, so {source} stays where it is")
        self.source = source
        self.target = target


@dataclass(frozen=True, slots=True)
class ArchivedSession:
    """One session in the archive."""

    session_id: str
    path: Path
    bytes: int
    """Size of the transcript alone."""
    companion_bytes: int
    """Size of what came with it."""
    archived_ns: int
    """When it was archived, in ns since the epoch."""
    project: str
    """Where it came from; empty where the archive does not tell, or not clearly."""

    @property
    def total_bytes(self) -> int:
        """Transcript and what came with it."""
        return self.bytes + self.companion_bytes


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What a restore did besides moving the session back."""

    path: Path
    """The transcript in its project."""
    times_reset: bool
    """Whether something was so old that the retention sweep would have removed it, so that
    its modification time is now the time of the restore."""
    tombstone_removed: bool
    left: Path | None = None
    """A directory in the archive that still holds what the session's table does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePlan(Plan):
    """What an archive by filters would move; once executed, what it moved."""

    archive_directory: Path
    archived: tuple[PlanItem, ...] = ()
    """Those of `matched` that are in the archive; empty before the plan is executed."""


def plan_archive(
    projects_root: str | os.PathLike[str] | None,
    archive_dir: str | os.PathLike[str] | None,
    opts: DeleteOpts,
    *,
    with_titles: bool = False,
    may_fork: bool = False,
) -> ArchivePlan:
    """The sessions that pass all filters. Changes nothing.

    Raises as `plan_delete` does, and ValueError or OSError for an unusable archive directory.
    """
    if not opts.has_filter:
        raise NoFilterError("archive")
    root = root_directory(projects_root)
    archive = _usable_archive(archive_dir, root)
    found, skipped = select(root, opts, with_titles=with_titles, may_fork=may_fork)
    twice = [
        Skipped(item.session_id, item.path, f"also in {', '.join(item.also_in)}")
        for item in found
        if item.also_in
    ]
    matched = tuple(item for item in found if not item.also_in)
    return ArchivePlan(
        projects_root=Path(root),
        archive_directory=Path(archive),
        matched=matched,
        skipped=by_path(skipped, twice),
        include_live=opts.include_live,
    )


def execute_archive(plan: ArchivePlan) -> ArchivePlan:
    """Archives what was planned and nothing else; returns the plan with what came of it.

    An item that is gone, changed or live by now is skipped, one that fails stays whole where
    it was; neither stops the others. Raises OSError where the archive directory cannot be made.
    """
    if not plan.matched:
        return plan
    archived: list[PlanItem] = []
    skipped: list[Skipped] = []
    failed: list[Skipped] = []
    with _Mover.opened(str(plan.projects_root), str(plan.archive_directory)) as mover:
        mover.look_for({item.session_id for item in plan.matched})
        for item in plan.matched:
            try:
                reason = change_in(item, mover.companions)
                if not reason:
                    mover.archive(item.session_id, include_live=plan.include_live)
                    archived.append(item)
            except FileNotFoundError:
                reason = "gone since the plan was made"
            except LiveSessionError as error:
                reason = f"live: {error.reason}"
            except (OSError, AmbiguousSessionError) as error:
                text = str(error) if isinstance(error, ArchiveConflictError) else ""
                text = text or (why(error) if isinstance(error, OSError) else str(error))
                failed.append(Skipped(item.session_id, item.path, text))
                continue
            if reason:
                skipped.append(Skipped(item.session_id, item.path, reason))
    return replace(
        plan,
        archived=tuple(archived),
        skipped=by_path(plan.skipped, skipped),
        failed=by_path(failed),
    )


def archive_session(
    path_or_id: str | os.PathLike[str],
    archive_dir: str | os.PathLike[str] | None = None,
    *,
    projects_root: str | os.PathLike[str] | None = None,
    include_live: bool = False,
) -> Path:
    """Moves a session with all that belongs to it into the archive; returns the transcript there.

    Given by id, or by the path that it has or had; already archived is success. A path outside
    the default projects root implies its own, unless one is given. Raises
    `SessionNotFoundError`, `AmbiguousSessionError` (an id in two projects as well),
    `LiveSessionError`, `ArchiveConflictError` (the archive holds other content for it),
    ValueError for an unusable archive directory, OSError where a move fails. After an error
    the session is where it was.
    """
    wanted = os.fspath(path_or_id)
    by_path = os.sep in wanted or (wanted.endswith(SUFFIX) and os.path.lexists(wanted))
    root = root_directory(projects_root)
    session_id = project = ""
    if by_path:
        root, session_id, project = _of_path(wanted, archive_dir, root, projects_root is not None)
    archive = _usable_archive(archive_dir, root)
    with _Mover.opened(root, archive) as mover:
        found = session_id or _id_anywhere(wanted, root, archive)
        return mover.archive(found, project, include_live=include_live)


def restore_session(
    session_id: str,
    archive_dir: str | os.PathLike[str] | None = None,
    *,
    projects_root: str | os.PathLike[str] | None = None,
    project: str | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
) -> RestoreResult:
    """Brings an archived session back to where it was, byte for byte, and ends its tombstone.

    - `project` (a directory name, or an absolute working directory) tells where a transcript
      goes that another tool archived; else the first directory that it records does.
    - Modification times come back as they were. What the retention sweep would remove for its
      age (`cleanupPeriodDays` in settings.json, less a day) is dated now.
    - Nothing is overwritten: `ArchiveConflictError` where any project holds the id, or a
      target exists. `LiveSessionError` where a running Claude Code holds the id.
    - Also raises `SessionNotFoundError`, `AmbiguousSessionError`, ValueError where the project
      is missing, wrong or not clear, OSError where a move fails. After an error that names a
      refusal nothing has changed; after any, the same call goes on where it stopped.
    """
    root = root_directory(projects_root)
    archive = _usable_archive(archive_dir, root)
    wanted = os.fspath(session_id)
    if os.path.dirname(os.path.abspath(os.path.expanduser(wanted))) == archive:
        wanted = os.path.basename(wanted).removesuffix(SUFFIX)
    dead = tombstone_path(cache_dir)
    if dead.exists():
        require_usable(dead)
    made = create_directories(root) if os.path.isdir(archive) else []
    try:
        with _Mover.opened(root, archive) as mover:
            fitting = [name for name in _archived_ids(archive) if matches_session_id(name, wanted)]
            found = only_match(wanted, [Path(archive, name + SUFFIX) for name in fitting])
            return mover.restore(found.stem, project, dead.parent)
    except BaseException:
        remove_empty_directories(made[::-1])
        raise


def archived_sessions(
    archive_dir: str | os.PathLike[str] | None = None,
) -> tuple[ArchivedSession, ...]:
    """What can be restored, the last archived first; empty where there is no archive."""
    archive = archive_directory(archive_dir)
    names = [name for name in _archived_ids(archive) if os.path.isfile(_transcript(archive, name))]
    found = [_archived(archive, name) for name in names]
    return tuple(sorted(found, key=lambda one: (-one.archived_ns, one.session_id)))


def fits(archived: ArchivedSession, opts: DeleteOpts) -> bool:
    """Whether an archived session passes the filters; one that cannot be read does not."""
    path = str(archived.path)
    project = opts.project
    if os.path.isabs(project):
        project = encode_project(os.path.normpath(project))
        if archived.project != project:
            return False
    if project not in archived.project:
        return False
    if opts.session_id and not matches_session_id(archived.session_id, opts.session_id):
        return False
    try:
        found = measure(path, opts.max_messages)
    except OSError:
        return False
    if opts.max_messages and found.count > opts.max_messages:
        return False
    if opts.before is not None and found.stat.st_mtime_ns >= nanoseconds(opts.before):
        return False
    return not opts.routine or is_routine(read_messages(path))


def _archived(archive: str, session_id: str) -> ArchivedSession:
    path = _transcript(archive, session_id)
    status = os.lstat(path)
    origins = _origins(archive, session_id)
    # Nothing is added to the origin directory later, and a copy of the archive that keeps
    # times keeps this one, which it cannot do for the time of the file's last move.
    when = status.st_ctime_ns
    if origins:
        when = os.lstat(os.path.join(archive, session_id, "projects", origins[0])).st_mtime_ns
    project = origins[0] if len(origins) == 1 else ""
    home = os.path.join(archive, session_id)
    beside = weigh([home])[0] if _is_directory(home) else 0
    return ArchivedSession(session_id, Path(path), status.st_size, beside, when, project)


def _transcript(directory: str, session_id: str) -> str:
    return os.path.join(directory, session_id + SUFFIX)


def _archived_ids(archive: str) -> list[str]:
    """Ids with a transcript in the archive, or with what an interrupted run left of one."""
    found = set()
    try:
        with os.scandir(archive) as scan:
            for entry in scan:
                if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                    found.add(entry.name.removesuffix(SUFFIX))
                elif _origins(archive, entry.name):
                    found.add(entry.name)
    except FileNotFoundError:
        return []
    return sorted(found.difference(NO_IDS))


def _origins(archive: str, session_id: str) -> list[str]:
    """The projects that the archive names as the session's origin; one, if all is well."""
    try:
        with os.scandir(os.path.join(archive, session_id, "projects")) as scan:
            return sorted(entry.name for entry in scan if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _usable_archive(archive_dir: str | os.PathLike[str] | None, root: str) -> str:
    archive = archive_directory(archive_dir)
    real, real_root = os.path.realpath(archive), os.path.realpath(root)
    place = real
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), archive)
    if os.path.commonpath([real, real_root]) in (real, real_root):
        raise ValueError(
            f"the archive directory {archive} and the projects root {root} must lie apart: "
            "the retention sweep empties whatever lies in the projects root"
        )
    return archive


def _id_anywhere(wanted: str, root: str, archive: str) -> str:
    """The one id that fits, of a session in a project or in the archive."""
    places = {path.stem: path for path in find_sessions(wanted, root)}
    for name in _archived_ids(archive):
        if matches_session_id(name, wanted):
            places.setdefault(name, Path(archive, name + SUFFIX))
    return only_match(wanted, list(places.values())).stem


def _of_path(
    wanted: str, archive_dir: str | os.PathLike[str] | None, root: str, is_given: bool
) -> tuple[str, str, str]:
    """Projects root, session id, and project (empty for a path in the archive) of a path."""
    directory, name = os.path.split(os.path.abspath(os.path.expanduser(wanted)))
    session_id = name.removesuffix(SUFFIX)
    if not name.endswith(SUFFIX) or session_id in NO_IDS:
        raise SessionNotFoundError(wanted)
    if os.path.realpath(directory) == os.path.realpath(archive_directory(archive_dir)):
        return root, session_id, ""
    implied = os.path.dirname(directory)
    if os.path.realpath(implied) != os.path.realpath(root):
        known = os.path.lexists(os.path.join(directory, name)) or os.path.lexists(
            _transcript(archive_directory(archive_dir), session_id)
        )
        if is_given or not known or implied == os.path.dirname(implied):
            raise SessionNotFoundError(wanted)
        root = implied
    return root, session_id, os.path.basename(directory)


class _Mover:
    """Moves whole sessions between a projects root and an archive, with both locked."""

    def __init__(self, root: str, archive: str, locks: ExitStack) -> None:
        self._locks = locks
        self._claimed = False
        self._root = root
        self._archive = archive
        self._config = config_of(root)
        self._known: set[str] = set()
        self._held: dict[str, list[str]] = {}
        self.companions = Companions(root, self._config)

    def look_for(self, session_ids: set[str]) -> None:
        """Finds out which projects hold the ids, all in one walk."""
        self._known = session_ids
        self._held = holders(self._root, session_ids)

    def _holders(self, session_id: str) -> list[str]:
        if session_id not in self._known:
            self.look_for({session_id})
        return self._held.get(session_id, [])

    @classmethod
    @contextmanager
    def opened(cls, root: str, archive: str) -> Iterator[_Mover]:
        """Locks both directories, as far as they exist, and settles interrupted runs."""
        with ExitStack() as locks:
            if os.path.isdir(root):
                locks.enter_context(exclusive(root))
                recover(root, tombstone_path())
            mover = cls(root, archive, locks)
            if os.path.isdir(archive):
                mover._claim_archive()
            yield mover

    def _claim_archive(self) -> list[str]:
        """The archive directory is there and locked; returns the directories that were made.

        Done once nothing is refused any more: a refusal makes no directory.
        """
        if self._claimed:
            return []
        made = create_directories(self._archive)
        self._locks.enter_context(exclusive(self._archive))
        remove(os.path.join(self._archive, TEMPORARY))
        self._claimed = True
        return made

    def archive(self, session_id: str, project: str = "", *, include_live: bool = False) -> Path:
        """See `archive_session`. A `project` is where a path said that the session is."""
        held = self._holders(session_id)
        target = Path(_transcript(self._archive, session_id))
        if len(held) > 1:
            paths = [Path(_transcript(os.path.join(self._root, p), session_id)) for p in held]
            raise AmbiguousSessionError(session_id, paths)
        if not held and not target.is_file():
            raise SessionNotFoundError(session_id)
        if held and project not in ("", held[0]):
            raise SessionNotFoundError(str(Path(self._root, project, session_id + SUFFIX)))
        origins = held or _origins(self._archive, session_id)
        moves = [move for origin in origins for move in self._moves_out(session_id, origin)]
        if held:
            moves.insert(0, self._transcript_out(session_id, held[0], target))
        if moves and not include_live:
            self._refuse_live(session_id)
        home = os.path.join(self._archive, session_id, "projects")
        made = self._claim_archive()
        try:
            _transfer(moves, [os.path.join(home, origin) for origin in held])
        except BaseException:
            remove_empty_directories(made[::-1])
            raise
        return target

    def _transcript_out(self, session_id: str, project: str, target: Path) -> Move:
        source = _transcript(os.path.join(self._root, project), session_id)
        if not S_ISREG(os.lstat(source).st_mode):
            raise SessionNotFoundError(source)
        move = self._out(source, str(target))
        if move.conflicts():
            raise ArchiveConflictError(Path(source), target)
        for name in _origins(self._archive, session_id):
            # An empty one is what an archive from there left that was killed at its beginning.
            other = os.path.join(self._archive, session_id, "projects", name)
            if name != project:
                remove_empty_directories([other])
                if os.path.isdir(other):
                    raise ArchiveConflictError(Path(source), Path(other))
        return move

    def _moves_out(self, session_id: str, project: str) -> list[Move]:
        names = self.companions.in_project(project, session_id)
        names = names + self.companions.in_stores(session_id)
        home = os.path.join(self._archive, session_id)
        return [
            self._out(self.companions.absolute(name), os.path.join(home, name))
            for name in dict.fromkeys(names)
        ]

    def _out(self, source: str, target: str) -> Move:
        outgoing = os.path.join(os.path.dirname(source), TEMPORARY)
        self._refuse_links(target)
        return Move(source, target, os.path.join(self._archive, TEMPORARY), outgoing)

    def _refuse_links(self, path: str) -> None:
        """Refuses a path that leads through a link below the directories that were given."""
        bases = {self._archive, self._root, self._config or self._root}
        directory = os.path.dirname(path)
        while directory not in bases and directory != os.path.dirname(directory):
            if os.path.islink(directory):
                raise OSError(errno.ELOOP, "not entered: it is a symbolic link", directory)
            directory = os.path.dirname(directory)

    def _refuse_live(self, session_id: str) -> None:
        if reason := live_sessions(self._config).reason(session_id):
            raise LiveSessionError(session_id, reason)

    def restore(self, session_id: str, project: str | None, cache: Path) -> RestoreResult:
        """See `restore_session`."""
        self._refuse_live(session_id)
        source = _transcript(self._archive, session_id)
        name = self._project_for(session_id, source, project)
        target = _transcript(os.path.join(self._root, name), session_id)
        moves = self._moves_in(session_id, name)
        if os.path.lexists(source):
            self._refuse_overwrite(session_id, source, target, moves)
            moves.insert(0, self._in(source, target))
        elif name not in self._holders(session_id):
            raise SessionNotFoundError(session_id)
        _transfer(moves, [os.path.join(self._root, name)])
        reset = self._reset_times(session_id, name, target)
        tombstones = remove_tombstones(cache, [session_id])
        left = self._clear(session_id)
        return RestoreResult(Path(target), reset, bool(tombstones), left)

    def _project_for(self, session_id: str, source: str, project: str | None) -> str:
        origins = _origins(self._archive, session_id)
        given = encode_project(project) if project and os.path.isabs(project) else project or ""
        if given in (".", "..") or os.sep in given or "\0" in given:
            raise ValueError(f"{given!r} is not the name of a project directory")
        if origins and not given and len(origins) == 1:
            return origins[0]
        if origins and given not in origins:
            raise ValueError(
                f"session {session_id} was archived from {' and '.join(origins)}: "
                "name one of these as its project"
            )
        return given or _recorded_project(session_id, source)

    def _moves_in(self, session_id: str, project: str) -> list[Move]:
        home = os.path.join(self._archive, session_id)
        mirror = Companions(os.path.join(home, "projects"), home)
        names = mirror.in_project(project, session_id)
        stored = mirror.in_stores(session_id)
        if stored and self._config is None:
            raise ValueError(
                f"{self._root} is not called 'projects', so there is no place for {stored[0]}"
            )
        return [
            self._in(mirror.absolute(name), self.companions.absolute(name))
            for name in names + stored
        ]

    def _in(self, source: str, target: str) -> Move:
        incoming = os.path.join(os.path.dirname(target), TEMPORARY)
        self._refuse_links(source)
        self._refuse_links(target)
        return Move(source, target, incoming, os.path.join(self._archive, TEMPORARY))

    def _refuse_overwrite(
        self, session_id: str, source: str, target: str, moves: Sequence[Move]
    ) -> None:
        """Refuses whatever is there, but for what an interrupted move of this session left.

        Once that has placed the transcript, an empty directory may be its work as well.
        """
        held = self._holders(session_id)
        for project in held:
            there = _transcript(os.path.join(self._root, project), session_id)
            if there != target or not _is_leftover(source, target):
                raise ArchiveConflictError(Path(source), Path(there))
        for move in moves if not held else ():
            if os.path.lexists(move.target) and not same_content(move.source, move.target):
                raise ArchiveConflictError(Path(move.source), Path(move.target))

    def _reset_times(self, session_id: str, project: str, transcript: str) -> bool:
        now = time.time_ns()
        oldest = now - (_period_days(self._config) - 1) * _DAY_NS
        old = [
            path
            for path in self._swept(session_id, project, transcript)
            if os.lstat(path).st_mtime_ns < oldest
        ]
        for path in old:
            set_modified(path, now)
        return bool(old)

    def _swept(self, session_id: str, project: str, transcript: str) -> Iterator[str]:
        """What the retention sweep judges one by one."""
        yield transcript
        results = os.path.join(self._root, project, session_id, "tool-results")
        if _is_directory(results):
            for name in sorted(os.listdir(results)):
                if S_ISREG(os.lstat(os.path.join(results, name)).st_mode):
                    yield os.path.join(results, name)
        for store in _SWEPT_STORES if self._config else ():
            path = os.path.join(self._config or "", store, session_id)
            if _is_directory(path):
                yield path

    def _clear(self, session_id: str) -> Path | None:
        """Removes the empty directories of a session in the archive; returns what is not."""
        home = os.path.join(self._archive, session_id)
        remove_empty_tree(home, os.path.join(self._archive, TEMPORARY))
        return Path(home) if os.path.lexists(home) else None


def _transfer(moves: Sequence[Move], directories: Sequence[str]) -> None:
    """All moves, or none of them where one cannot be made."""
    for move in moves:
        if move.conflicts():
            raise ArchiveConflictError(Path(move.source), Path(move.target))
    made: list[str] = []
    try:
        for directory in [*directories, *(os.path.dirname(move.target) for move in moves)]:
            made += create_directories(directory)
        for move in moves:
            move.place()
        for move in moves:
            move.check()
        for move in moves:
            move.finish()
    except BaseException as error:
        # Once a source is gone the way back is longer than the way on.
        if not any(move.is_final for move in moves):
            _undo(moves, error)
            remove_empty_directories(made[::-1])
        raise


def _undo(moves: Sequence[Move], error: BaseException) -> None:
    for move in reversed(moves):
        try:
            move.undo()
        except OSError as problem:
            error.add_note(f"{move.target} could not be put back: {why(problem)}")


def _is_leftover(source: str, target: str) -> bool:
    """Whether the target is what an interrupted move made of the source."""
    same_time = os.lstat(source).st_mtime_ns == os.lstat(target).st_mtime_ns
    return same_time and same_content(source, target)


def _is_directory(path: str) -> bool:
    return os.path.lexists(path) and S_ISDIR(os.lstat(path).st_mode)


def _recorded_project(session_id: str, source: str) -> str:
    cwd = first_cwd(source) if os.path.lexists(source) else None
    name = encode_project(cwd) if cwd and os.path.isabs(cwd) else ""
    if not name or len(name) > _LONGEST_PROJECT:
        raise ValueError(f"nothing tells where session {session_id} belongs: name its project")
    return name


def _period_days(config: str | None) -> int:
    """How long Claude Code keeps a session, in whole days; the default where that is not clear."""
    try:
        path = os.path.join(config or "", "settings.json")
        with open(open_regular(path, follow=True), "rb") as file:
            days = (parse(file.read()) or {}).get("cleanupPeriodDays")
    except OSError:
        days = None
    if isinstance(days, bool) or not isinstance(days, int | float) or not 1 <= days < 1e9:
        return _DEFAULT_PERIOD_DAYS
    return int(days)
