"""Transcripts on their way out: staged under a name that nothing takes for a session.

A staged transcript is settled by the tombstone: with one it goes, without one it gets its
own name back. The journal, a file in the projects root that exists from before the first
staging until the last staged file is gone, names the tombstone files that may hold the
verdict: the next run may use another cache directory. All of it needs the root's lock.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from lifecycle._disk import (
    remove,
    rename_new,
    replace_atomically,
    superseded,
    sync_directory,
)
from lifecycle._layout import (
    STAGED_SUFFIX,
    SUFFIX,
    TEMPORARY,
    Companions,
    doubt_by,
    ids_by_project,
    projects,
    read_project,
    stores_in,
)
from lifecycle._places import config_of
from lifecycle._plan import Skipped, why
from lifecycle._transcript import open_regular
from lifecycle.tombstone import load_tombstone_file

__all__ = [
    "Holders",
    "Recovery",
    "Staged",
    "close_journal",
    "give_back",
    "open_journal",
    "reap",
    "recover",
]

JOURNAL = ".lifecycle-journal"


class Staged:
    """A transcript under its staged name."""

    def __init__(self, root: str, project: str, session_id: str) -> None:
        self.root = root
        self.project = project
        self.session_id = session_id

    @property
    def directory(self) -> str:
        """The project directory."""
        return os.path.join(self.root, self.project)

    @property
    def original(self) -> str:
        """The transcript's own path."""
        return os.path.join(self.directory, self.session_id + SUFFIX)

    @property
    def path(self) -> str:
        """The path it has while it is staged."""
        return os.path.join(self.directory, self.session_id + STAGED_SUFFIX)


class Recovery:
    """What an interrupted run had left, and what became of it."""

    def __init__(self) -> None:
        self.given_back: list[Path] = []
        """Transcripts that have a name of their own again, by that."""
        self.reaped: list[Path] = []
        """Transcripts that were tombstoned and are gone now, by their own path."""
        self.failed: list[Skipped] = []
        """What is still staged."""


def recover(root: str, tombstones: Path) -> Recovery:
    """Settles everything that is staged, and removes what interrupted moves left.

    Raises OSError or `TombstoneFileError` where a tombstone file that may hold the verdict
    cannot be read; then everything stays staged.
    """
    journal = _read_journal(root)
    staged, leftovers, unread = _find(root)
    failed = [*_remove_all(leftovers), *(unread if journal is not None else ())]
    outcome = Recovery()
    if staged:
        _settle(root, staged, {*(journal or ()), str(tombstones)}, outcome)
    outcome.failed += failed
    if not outcome.failed and journal is not None:
        close_journal(root, {item.directory for item in staged})
    return outcome


def _find(root: str) -> tuple[list[Staged], list[str], list[Skipped]]:
    """What is staged, what interrupted moves left, and the projects that hide such things."""
    staged, unread = [], []
    config = config_of(root)
    stores = stores_in(config) if config else ()
    leftovers = [os.path.join(path, TEMPORARY) for _, path in stores]
    leftovers.append(os.path.join(root, JOURNAL + TEMPORARY))
    for project in projects(root).directories:
        try:
            listing = read_project(root, project)
        except OSError as error:
            path = Path(root, project)
            unread.append(Skipped("", path, f"not settled: {why(error, path)}"))
            continue
        staged += [Staged(root, project, session_id) for session_id in listing.staged]
        leftovers += [os.path.join(root, project, name) for name in listing.temporary]
    return staged, leftovers, unread


def _remove_all(leftovers: list[str]) -> Iterator[Skipped]:
    """Removes leftovers; safe, since a move keeps the whole under its own name to the end."""
    for path in filter(os.path.lexists, leftovers):
        try:
            remove(path)
        except OSError as error:
            yield Skipped("", Path(path), f"left by an interrupted move: {why(error, path)}")


def _settle(root: str, staged: list[Staged], tombstones: set[str], outcome: Recovery) -> None:
    dead = frozenset().union(*(load_tombstone_file(Path(path)) for path in sorted(tombstones)))
    companions = Companions(root, config_of(root))
    in_place = Holders(root, {item.session_id for item in staged})
    for item in staged:
        try:
            if item.session_id in dead:
                reap(item, companions.paths(item.project, item.session_id), in_place)
                outcome.reaped.append(Path(item.original))
            else:
                outcome.given_back.append(Path(give_back(item)))
        except OSError as error:
            reason = f"still staged: {why(error, item.path)}"
            outcome.failed.append(Skipped(item.session_id, Path(item.path), reason))


def give_back(item: Staged) -> str:
    """The transcript has its own name again; returns the name that it has.

    Where another took that name, it has the one that Claude Code gives to old content of a
    session, beside the new.
    """
    try:
        rename_new(item.path, item.original)
    except FileExistsError:
        if os.path.samestat(os.lstat(item.path), os.lstat(item.original)):
            remove(item.path)
            return item.original
        other = superseded(item.original)
        rename_new(item.path, other)
        return other
    return item.original


def reap(item: Staged, companions: Iterable[str], in_place: Holders) -> None:
    """The companions are gone, then the transcript.

    Where a project holds the id, what is keyed by id alone stays; where it is this very
    project, because somebody wrote to the name meanwhile, all companions stay. PermissionError
    where a project that cannot be read may hold it: then what is keyed by id alone stays, and
    the transcript too, so that a later run can tell.
    """
    held_by = in_place.by_id.get(item.session_id, [])
    if item.project not in held_by and os.path.lexists(item.original):
        held_by = [*held_by, item.project]
    doubt = ""
    for path in companions:
        beside = os.path.dirname(path) == item.directory
        if not beside and not held_by and in_place.unread:
            doubt = doubt or path
        elif not held_by or (beside and item.project not in held_by):
            remove(path)
    if doubt:
        raise PermissionError(errno.EACCES, doubt_by(in_place.unread), doubt)
    remove(item.path)


class Holders:
    """Which of some ids the projects hold under their own name."""

    def __init__(self, root: str, session_ids: set[str]) -> None:
        self.by_id: dict[str, list[str]] = {}
        """Session id -> projects that hold it."""
        self.unread: list[str] = []
        """Projects that cannot be read, and so may hold any of them."""
        for project, held in ids_by_project(root, projects(root).directories, session_ids):
            if held is None:
                self.unread.append(project)
                continue
            for session_id in session_ids.intersection(held):
                self.by_id.setdefault(session_id, []).append(project)


def _read_journal(root: str) -> list[str] | None:
    """Tombstone files that may hold the verdict; None where there is no journal."""
    try:
        with open(open_regular(os.path.join(root, JOURNAL)), "rb") as file:
            return [os.fsdecode(path) for path in file.read().split(b"\0") if path]
    except FileNotFoundError:
        return None


def open_journal(root: str, tombstones: Path) -> None:
    """The journal names the tombstone file, besides those that it named before."""
    known = _read_journal(root) or []
    if str(tombstones) not in known:
        content = b"".join(os.fsencode(path) + b"\0" for path in [*known, str(tombstones)])
        replace_atomically(os.path.join(root, JOURNAL), content)


def close_journal(root: str, directories: Iterable[str]) -> None:
    """The journal is gone, after what happened in the directories is on disk."""
    for directory in sorted(directories):
        sync_directory(directory)
    remove(os.path.join(root, JOURNAL))
