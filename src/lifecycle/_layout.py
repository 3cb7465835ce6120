"""Where Claude Code keeps what belongs to a session: walks, and the companion table.

Reads names, sizes and times: no file is opened here but legacy subagent transcripts, whose
owner nothing else tells. Inside the walks paths are plain strings; they become `Path` at the
border.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from operator import attrgetter
from stat import S_ISDIR, S_ISREG

from lifecycle._disk import TEMPORARY
from lifecycle._places import is_config

__all__ = [
    "NO_IDS",
    "STAGED_SUFFIX",
    "STORES",
    "SUFFIX",
    "TEMPORARY",
    "Companions",
    "Project",
    "Projects",
    "doubt_by",
    "ids_by_project",
    "is_directory",
    "is_session_name",
    "projects",
    "read_project",
    "stores_in",
    "weigh",
]

SUFFIX = ".jsonl"
# As long as SUFFIX: a staged name must fit wherever the transcript's own name did.
STAGED_SUFFIX = ".lcdel"
AGENT_PREFIX = "agent-"
# As parts of a path they would lead elsewhere.
NO_IDS = ("", ".", "..")


# What belongs to a session, by the name of a directory entry; a directory's ends in "/". The
# one group that matches is the session id. What Claude Code adds is one more line, or one more
# word of one, in these two tables; of a sidecar that ends in .jsonl also in _SET_ASIDE, or it
# passes for a session, and of a store that the retention sweep judges by its directories also
# in _retention. Patterns are text: compiling those that a run does not need would cost more
# than a small run does.
_IN_PROJECT = "|".join(
    (
        r"(?!(?:memory|tiny_memory|bagel|cloud-snapshots|connector-downloads)/)([^/]+)/",
        r"(.+?)\.(?:ccr-tip|precompact|desktop-released|dir-sync|dir-sync-empty|cloud-worktrees)"
        r"\.json(?:\.tmp\..*)?",
        r"(.+?)\.orphaned-\d+-[0-9a-f]{8}\.jsonl",
        r"(.+?)\.jsonl\.superseded-\d+",
        r"(.+?)\.jsonl\.compact\.tmp\..*",
    )
)
# Beside the projects root, keyed by session id alone.
_IN_STORES = {
    "debug": r"(.+)\.txt",
    "file-history": r"([^/]+)/",
    "image-cache": r"([^/]+)/",
    "session-env": r"([^/]+)/",
    "tasks": r"(?!session-)([^/]+)/",
    "todos": r"(.+)-agent-.*\.json",
    "uploads": r"([^/]+)/",
    "usage-data/facets": r"(.+)\.json",
    "usage-data/session-meta": r"(.+)\.json",
}
STORES = tuple(_IN_STORES)
# For so few ids one look each is cheaper than listing a project.
_FEW = 8
_name = attrgetter("name")
_SET_ASIDE = r".+\.(?:orphaned-\d+-[0-9a-f]{8}|jsonl\.compact\.tmp\..*)"


class Projects:
    """The directories of a projects root, sorted by name, and what cannot be one."""

    def __init__(self) -> None:
        self.directories: list[str] = []
        self.odd: list[tuple[str, str]] = []
        """Name and reason of each linked project directory."""


class Project:
    """The names of one project directory, each kind on its own."""

    def __init__(self) -> None:
        self.sessions: list[str] = []
        """Session ids, in the order of the file names."""
        self.odd: list[tuple[str, str]] = []
        """File name and reason of each `<id>.jsonl` that is no regular file."""
        self.staged: list[str] = []
        """Ids whose transcript an unfinished delete has staged."""
        self.agents: list[str] = []
        """File names of legacy subagent transcripts."""
        self.companions: dict[str, list[str]] = {}
        """Session id -> names that the companion table gives to it."""
        self.temporary: list[str] = []
        """Names of what an interrupted move left."""


def projects(root: str) -> Projects:
    """Lists a projects root; a missing one is empty. Raises OSError if it cannot be read.

    ValueError for a config directory given in its place: its archive would pass for a project.
    """
    found = Projects()
    inner, archive = os.path.join(root, "projects"), os.path.join(root, "archive")
    if os.path.isdir(inner) and (is_config(root) or os.path.isdir(archive)):
        raise ValueError(f"{root} is a config directory; its projects root is {inner}")
    try:
        entries = os.scandir(root)
    except FileNotFoundError:
        return found
    with entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                found.directories.append(entry.name)
            elif entry.is_symlink() and entry.is_dir():
                found.odd.append((entry.name, "the project directory is a symbolic link"))
    found.directories.sort()
    found.odd.sort()
    return found


def read_project(root: str, project: str) -> Project:
    """Lists one project directory by kind. One that vanished is empty.

    Raises OSError where it cannot be read.
    """
    found = Project()
    try:
        with os.scandir(os.path.join(root, project)) as scan:
            entries = sorted(scan, key=_name)
    except (FileNotFoundError, NotADirectoryError):
        return found
    sessions = found.sessions
    for entry in entries:
        name = entry.name
        if is_session_name(name):
            if entry.is_file(follow_symlinks=False):
                sessions.append(name[: -len(SUFFIX)])
            else:
                found.odd.append((name, _oddity(entry)))
        else:
            _add_other(found, entry)
    return found


def is_session_name(name: str) -> bool:
    """Whether a file of this name in a project directory is a session, not a companion of one."""
    if not name.endswith(SUFFIX) or name.startswith(AGENT_PREFIX) or name[: -len(SUFFIX)] in NO_IDS:
        return False
    return name.count(".") == 1 or not re.fullmatch(_SET_ASIDE, name.removesuffix(SUFFIX), re.S)


def _oddity(entry: os.DirEntry[str]) -> str:
    return "the transcript is a symbolic link" if entry.is_symlink() else "not a regular file"


def _add_other(found: Project, entry: os.DirEntry[str]) -> None:
    name = _marked(entry)
    if entry.name == TEMPORARY:
        found.temporary.append(entry.name)
    elif name.endswith(STAGED_SUFFIX) and len(name) > len(STAGED_SUFFIX):
        found.staged.append(name[: -len(STAGED_SUFFIX)])
    elif name.startswith(AGENT_PREFIX) and name.endswith(SUFFIX):
        found.agents.append(name)
    elif owner := _owner(_IN_PROJECT, name):
        found.companions.setdefault(owner, []).append(entry.name)


def ids_by_project(
    root: str, directories: Iterable[str], session_ids: Collection[str]
) -> Iterator[tuple[str, Iterable[str] | None]]:
    """Which ids have a transcript of that name in each project: those asked for, maybe others.

    None for a project where that cannot be told, and so may hold any of them.
    """
    for project in directories:
        try:
            yield project, _ids_in(os.path.join(root, project), session_ids)
        except FileNotFoundError:
            continue
        except OSError:
            yield project, None


def doubt_by(unread: list[str]) -> str:
    """Why what is keyed by an id alone must stay while there are such projects."""
    return f"{unread[0]} cannot be read, and may hold the same session"


def _ids_in(directory: str, session_ids: Collection[str]) -> Iterable[str]:
    if len(session_ids) >= _FEW:
        names = os.listdir(directory)
        return (name[: -len(SUFFIX)] for name in names if name.endswith(SUFFIX))
    return [one for one in dict.fromkeys(session_ids) if _is_there(directory, one + SUFFIX)]


def _is_there(directory: str, name: str) -> bool:
    try:
        os.lstat(os.path.join(directory, name))
    except FileNotFoundError:
        return False
    return True


def is_directory(path: str) -> bool:
    """Whether a directory, and no link to one, is there. Raises OSError where that is hidden."""
    return os.path.lexists(path) and S_ISDIR(os.lstat(path).st_mode)


def weigh(paths: list[str]) -> tuple[int, int]:
    """Size in bytes of all regular files at and below the paths, and a mark of their state.

    A file with several names counts once. The mark differs when anything was added, removed
    or changed; it means something in this process only. Raises OSError.
    """
    total = 0
    seen: set[tuple[int, int]] = set()
    state: list[tuple[str, int, int, int]] = []
    pending = list(paths)
    while pending:
        path = pending.pop()
        found = os.lstat(path)
        state.append((path, found.st_ino, found.st_size, found.st_mtime_ns))
        if S_ISDIR(found.st_mode):
            pending += [os.path.join(path, name) for name in os.listdir(path)]
        elif S_ISREG(found.st_mode) and (found.st_dev, found.st_ino) not in seen:
            total += found.st_size
            seen.add((found.st_dev, found.st_ino))
    return total, hash(tuple(sorted(state)))


class Companions:
    """Finds what belongs to a session by the table; lists each directory once.

    Paths are relative to the config directory: first what lies in the project directory, by
    name (always under `projects/`, whatever the root is called), then the stores in the order
    of their table.
    """

    def __init__(self, root: str, config: str | None) -> None:
        self._root = root
        self._config = config
        self._projects: dict[str, Project] = {}
        self._owners: dict[str, dict[str, list[str]]] = {}
        self._stores: dict[str, list[str]] | None = None

    def add(self, project: str, listing: Project) -> None:
        """Uses a listing that the caller has, and empties it of sessions, its bulk."""
        listing.sessions.clear()
        self._projects[project] = listing

    def in_project(self, project: str, session_id: str) -> list[str]:
        """The companions in the session's own project directory."""
        if project not in self._projects:
            self.add(project, read_project(self._root, project))
        listing = self._projects[project]
        if not listing.companions and not listing.agents:
            return []
        names = listing.companions.get(session_id, [])
        if listing.agents:
            names = names + self._agents(project, listing).get(session_id, [])
        return [f"projects/{project}/{name}" for name in names]

    def in_stores(self, session_id: str) -> list[str]:
        """The companions in the stores that are keyed by id alone."""
        if self._stores is None:
            self._stores = _list_stores(self._config) if self._config else {}
        return self._stores.get(session_id, [])

    def paths(self, project: str, session_id: str, *, with_stores: bool = True) -> list[str]:
        """Where all companions lie, or those in the project directory alone."""
        names = self.in_project(project, session_id)
        if with_stores:
            names = names + self.in_stores(session_id)
        return [self.absolute(name) for name in names]

    def owners(self, project: str) -> Iterable[str]:
        """Ids that own anything in the project or in the stores. Raises OSError."""
        self.in_project(project, "")
        self.in_stores("")
        listing = self._projects[project]
        agents = self._agents(project, listing) if listing.agents else {}
        return {*listing.companions, *agents, *(self._stores or {})}

    def absolute(self, relative: str) -> str:
        """Where a relative companion path lies."""
        if relative.startswith("projects/"):
            return os.path.join(self._root, relative[len("projects/") :])
        return os.path.join(self._config or "", relative)

    def _agents(self, project: str, listing: Project) -> dict[str, list[str]]:
        from lifecycle._records import sole_session_id

        if project not in self._owners:
            owners: dict[str, list[str]] = {}
            for name in listing.agents:
                owner = sole_session_id(os.path.join(self._root, project, name))
                if owner is not None:
                    owners.setdefault(owner, []).append(name)
            self._owners[project] = owners
        return self._owners[project]


def _list_stores(config: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for store, path in stores_in(config):
        for name in _entries(path):
            if owner := _owner(_IN_STORES[store], name):
                found.setdefault(owner, []).append(f"{store}/{name.rstrip('/')}")
    return found


def stores_in(config: str) -> Iterator[tuple[str, str]]:
    """Name and path of each store, but for links and what lies behind one.

    Nothing is deleted through a link.
    """
    for store in STORES:
        path = config
        for part in store.split("/"):
            path = os.path.join(path, part)
            if os.path.islink(path):
                break
        else:
            yield store, path


def _owner(table: str, name: str) -> str | None:
    """The session id that a table gives an entry to."""
    match = re.fullmatch(table, name, re.S)
    return next(filter(None, match.groups())) if match else None


def _entries(path: str) -> list[str]:
    """Sorted names in a store: directories (ending in "/") and regular files, no links."""
    try:
        with os.scandir(path) as scan:
            return sorted(name for entry in scan if (name := _marked(entry)))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _marked(entry: os.DirEntry[str]) -> str:
    if entry.is_dir(follow_symlinks=False):
        return entry.name + "/"
    return entry.name if entry.is_file(follow_symlinks=False) else ""
