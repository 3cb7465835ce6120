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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG

from lifecycle._archived import (
    ArchivedSession,
    archived_ids,
    archived_sessions,
    fitting,
    origins_of,
    transcript_in,
)
from lifecycle._disk import (
    create_directories,
    exclusive,
    remove,
    remove_empty_directories,
    remove_empty_tree,
)
from lifecycle._layout import (
    STORES,
    SUFFIX,
    TEMPORARY,
    Companions,
    doubt_by,
    is_session_name,
    projects,
)
from lifecycle._live import LiveSessionError, live_sessions
from lifecycle._move import ArchiveConflictError, Move, is_twin, same_content, transfer
from lifecycle._places import (
    LONGEST_PROJECT,
    archive_directory,
    config_of,
    encode_project,
    root_directory,
)
from lifecycle._plan import (
    DeleteOpts,
    NoFilterError,
    Plan,
    PlanItem,
    Skipped,
    by_path,
    leave_out,
    why,
)
from lifecycle._records import LONGEST, first_cwd, parse
from lifecycle._retention import keep_from_sweep
from lifecycle._select import change_in, select
from lifecycle._staging import Holders, recover
from lifecycle._transcript import lines
from lifecycle.ids import (
    AmbiguousSessionError,
    SessionNotFoundError,
    find_sessions,
    only_match,
)
from lifecycle.tombstone import remove_tombstones, require_removable_id, tombstone_path

__all__ = [
    "ArchiveConflictError",
    "ArchivePlan",
    "ArchivedSession",
    "LiveSessionError",
    "RestoreResult",
    "archive_session",
    "archived_sessions",
    "execute_archive",
    "finish_archives",
    "fitting",
    "plan_archive",
    "restore_session",
]


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
    matched, left = leave_out(found, lambda item: _obstacle(item, archive))
    return ArchivePlan(
        projects_root=Path(root),
        archive_directory=Path(archive),
        matched=matched,
        skipped=by_path(skipped, left),
        include_live=opts.include_live,
    )


def _obstacle(item: PlanItem, archive: str) -> str:
    """Why a session that passes the filters cannot be archived, or empty."""
    if item.also_in:
        return f"also in {', '.join(item.also_in)}"
    target = transcript_in(archive, item.session_id)
    try:
        is_taken = os.path.lexists(target) and not same_content(item.location, target)
    except OSError as error:
        return "" if error.filename == item.location else why(error)
    return "the archive holds other content for it" if is_taken else ""


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
            reason = problem = ""
            try:
                reason = change_in(item, mover.companions)
                if not reason:
                    mover.archive(item.session_id, include_live=plan.include_live)
                    archived.append(item)
            except LiveSessionError as error:
                reason = f"live: {error.reason}"
            except OSError as error:
                problem = why(error, item.path)
            # Python cannot look through trees that are deeper than it can recurse.
            except (AmbiguousSessionError, RecursionError) as error:
                problem = str(error)
            if reason:
                skipped.append(Skipped(item.session_id, item.path, reason))
            if problem:
                failed.append(Skipped(item.session_id, item.path, problem))
    return replace(
        plan,
        archived=tuple(archived),
        skipped=by_path(plan.skipped, skipped),
        failed=by_path(failed),
    )


def finish_archives(
    projects_root: str | os.PathLike[str] | None, archive_dir: str | os.PathLike[str] | None = None
) -> tuple[list[str], list[Skipped]]:
    """Finishes archives that were interrupted after the transcript had gone.

    By filters nothing would find them any more. Returns the ids, and what stays as it is and
    why. Raises ValueError or OSError for an unusable archive directory.
    """
    root = root_directory(projects_root)
    archive = _usable_archive(archive_dir, root)
    if not os.path.isdir(archive):
        return [], []
    finished, left = [], []
    with _Mover.opened(root, archive) as mover:
        for session_id in mover.unfinished():
            reason = ""
            try:
                mover.archive(session_id)
                finished.append(session_id)
            except LiveSessionError as error:
                reason = f"live: {error.reason}"
            except OSError as error:
                reason = why(error)
            if reason:
                path = Path(transcript_in(archive, session_id))
                left.append(Skipped(session_id, path, f"not all of it is archived: {reason}"))
    return finished, left


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
    the session is where it was; only where the first of what was copied or linked is gone
    there already is it in both places, whole, and the same call again finishes.
    """
    wanted = os.fspath(path_or_id)
    is_path = os.sep in wanted or (wanted.endswith(SUFFIX) and os.path.lexists(wanted))
    root = root_directory(projects_root)
    session_id = project = ""
    if is_path:
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
    made = create_directories(root) if os.path.isdir(archive) else []
    try:
        with _Mover.opened(root, archive) as mover:
            fitting = archived_ids(archive, wanted)
            found = only_match(wanted, [Path(archive, name + SUFFIX) for name in fitting])
            return mover.restore(found.stem, project, dead)
    except BaseException:
        remove_empty_directories(made[::-1])
        raise


def _usable_archive(archive_dir: str | os.PathLike[str] | None, root: str) -> str:
    archive = archive_directory(archive_dir)
    place = os.path.realpath(archive)
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), archive)
    config = config_of(root)
    swept = [root, *(os.path.join(config, store) for store in STORES if config)]
    around = [place for place in swept if _is_below(archive, place)]
    if around or _is_below(root, archive):
        raise ValueError(
            f"the archive directory {archive} and {(around or swept)[0]} must lie apart: "
            "the retention sweep empties whatever lies there"
        )
    return archive


def _id_anywhere(wanted: str, root: str, archive: str) -> str:
    """The one id that fits, of a session in a project or in the archive."""
    places = {path.stem: path for path in find_sessions(wanted, root)}
    for name in archived_ids(archive, wanted):
        places.setdefault(name, Path(archive, name + SUFFIX))
    return only_match(wanted, list(places.values())).stem


def _of_path(
    wanted: str, archive_dir: str | os.PathLike[str] | None, root: str, is_given: bool
) -> tuple[str, str, str]:
    """Projects root, session id, and project (empty for a path in the archive) of a path."""
    path = os.path.abspath(os.path.expanduser(wanted))
    directory, name = os.path.split(path)
    session_id = name.removesuffix(SUFFIX)
    if not is_session_name(name):
        raise SessionNotFoundError(wanted)
    archive = archive_directory(archive_dir)
    if os.path.realpath(directory) == os.path.realpath(archive):
        return root, session_id, ""
    implied = os.path.dirname(directory)
    if os.path.realpath(implied) != os.path.realpath(root):
        is_known = any(map(os.path.lexists, (path, transcript_in(archive, session_id))))
        # What a session or a project keeps in a directory of its own is no session.
        is_part = os.path.lexists(implied + SUFFIX) or any(
            _is_below(directory, place) for place in (root, archive)
        )
        if is_given or is_part or not is_known or implied == os.path.dirname(implied):
            raise SessionNotFoundError(wanted)
        if not _is_transcript(path):
            raise ValueError(f"{wanted} holds no records of Claude Code: name its projects root")
        root = implied
    return root, session_id, os.path.basename(directory)


def _is_below(directory: str, place: str) -> bool:
    real, real_place = os.path.realpath(directory), os.path.realpath(place)
    return os.path.commonpath([real, real_place]) == real_place


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
        self._unread: list[str] = []
        self.companions = Companions(root, self._config)

    def look_for(self, session_ids: set[str]) -> None:
        """Finds out which projects hold the ids, all in one walk."""
        self._known = session_ids
        holders = Holders(self._root, session_ids)
        self._held, self._unread = holders.by_id, holders.unread

    def unfinished(self) -> list[str]:
        """Archived ids that own something in their project, but no transcript in any."""
        owners: set[str] = set()
        try:
            for project in projects(self._root).directories:
                owners.update(self.companions.owners(project))
        except OSError:
            # What is hidden may hold the transcript; whoever plans next names it.
            return []
        archived = {one for one in owners if os.path.lexists(transcript_in(self._archive, one))}
        return sorted(archived - Holders(self._root, archived).by_id.keys())

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
        target = Path(transcript_in(self._archive, session_id))
        if len(held) > 1:
            paths = [Path(transcript_in(os.path.join(self._root, p), session_id)) for p in held]
            error = AmbiguousSessionError(session_id, paths)
            error.add_note("an id that stands in two projects cannot be archived")
            raise error
        if not held and (target.is_symlink() or not target.is_file()):
            raise SessionNotFoundError(session_id)
        if held and project not in ("", held[0]):
            raise SessionNotFoundError(str(Path(self._root, project, session_id + SUFFIX)))
        origins = held or origins_of(self._archive, session_id)
        moves = [move for origin in origins for move in self._moves_out(session_id, origin)]
        if held:
            moves.insert(0, self._transcript_out(session_id, held[0], target))
        if moves and not include_live:
            self._refuse_live(session_id)
        if stored := self.companions.in_stores(session_id):
            self._refuse_doubt(self.companions.absolute(stored[0]))
        home = os.path.join(self._archive, session_id, "projects")
        made = self._claim_archive()
        try:
            transfer(moves, [os.path.join(home, origin) for origin in held])
        except BaseException:
            remove_empty_directories(made[::-1])
            raise
        return target

    def _transcript_out(self, session_id: str, project: str, target: Path) -> Move:
        source = transcript_in(os.path.join(self._root, project), session_id)
        if not S_ISREG(os.lstat(source).st_mode):
            raise SessionNotFoundError(source)
        move = self._out(source, str(target))
        if move.conflicts():
            raise ArchiveConflictError(Path(source), target)
        for name in origins_of(self._archive, session_id):
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

    def _refuse_doubt(self, path: str) -> None:
        """While a project is hidden, what stands or would stand in several may be in it."""
        if self._unread:
            raise PermissionError(errno.EACCES, doubt_by(self._unread), path)

    def _refuse_live(self, session_id: str) -> None:
        if reason := live_sessions(self._config).reason(session_id):
            raise LiveSessionError(session_id, reason)

    def restore(self, session_id: str, project: str | None, dead: Path) -> RestoreResult:
        """See `restore_session`."""
        self._refuse_live(session_id)
        source = transcript_in(self._archive, session_id)
        name = self._project_for(session_id, source, project)
        target = transcript_in(os.path.join(self._root, name), session_id)
        moves = self._moves_in(session_id, name)
        held = self._holders(session_id)
        self._refuse_doubt(target)
        if os.path.lexists(source):
            self._refuse_overwrite(session_id, source, target, moves)
            moves.insert(0, self._in(source, target))
        elif name not in held:
            raise SessionNotFoundError(session_id)
        require_removable_id(dead, session_id)
        # The origin first: it is by that that a second call finds what the first has begun.
        origin = os.path.join(self._archive, session_id, "projects", name)
        transfer(moves, [os.path.join(self._root, name), origin])
        try:
            reset, problem = keep_from_sweep(self._config, target), None
        except OSError as error:
            error.add_note(f"{target} is restored, but the retention sweep may delete it")
            reset, problem = False, error
        tombstones = remove_tombstones(dead.parent, [session_id])
        left = self._clear(session_id)
        if problem:
            raise problem
        return RestoreResult(Path(target), reset, bool(tombstones), left)

    def _project_for(self, session_id: str, source: str, project: str | None) -> str:
        origins = origins_of(self._archive, session_id)
        given = project or ""
        if os.path.isabs(given):
            given = encode_project(os.path.realpath(given))
            if len(given) > LONGEST_PROJECT:
                raise ValueError(f"{project} is too long to tell its project: give the name")
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
            there = transcript_in(os.path.join(self._root, project), session_id)
            if there != target or not is_twin(source, target):
                raise ArchiveConflictError(Path(source), Path(there))
        for move in moves if not held else ():
            if os.path.lexists(move.target) and not same_content(move.source, move.target):
                raise ArchiveConflictError(Path(move.source), Path(move.target))

    def _clear(self, session_id: str) -> Path | None:
        """Removes the empty directories of a session in the archive; returns what is not."""
        home = os.path.join(self._archive, session_id)
        remove_empty_tree(home, os.path.join(self._archive, TEMPORARY))
        return Path(home) if os.path.lexists(home) else None


def _is_transcript(path: str) -> bool:
    """Whether a file in no known projects root is a transcript, or is in the archive by now."""
    try:
        records = map(parse, lines(path, LONGEST))
        first = next((record for record in records if record is not None), None)
    except FileNotFoundError:
        return True
    return first is not None and isinstance(first.get("type"), str)


def _recorded_project(session_id: str, source: str) -> str:
    cwd = first_cwd(source) if os.path.lexists(source) else None
    name = encode_project(cwd) if cwd and os.path.isabs(cwd) else ""
    if not name or len(name) > LONGEST_PROJECT:
        raise ValueError(f"nothing tells where session {session_id} belongs: name its project")
    return name
