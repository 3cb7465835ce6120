"""What a session id is, by which rule it fits what was asked for, and how one is found."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lifecycle._layout import SUFFIX, projects, read_project
from lifecycle._places import root_directory

__all__ = [
    "AmbiguousSessionError",
    "SessionNotFoundError",
    "find_sessions",
    "matches_session_id",
    "only_match",
    "resolve_session",
]

SHORTEST_PREFIX = 8


class SessionNotFoundError(FileNotFoundError):
    """No session has the id or path that was asked for (`session_id`)."""

    def __init__(self, session_id: str) -> None:
        short = 0 < len(session_id) < SHORTEST_PREFIX
        hint = f" (the beginning of an id takes {SHORTEST_PREFIX} characters)" if short else ""
        super().__init__(f"no session {session_id!r}{hint}")
        self.session_id = session_id


class AmbiguousSessionError(LookupError):
    """More than one session fits; `paths` holds every one of them, sorted."""

    def __init__(self, session_id: str, paths: Iterable[Path]) -> None:
        self.session_id = session_id
        self.paths = tuple(sorted(paths))
        found = ", ".join(f"{path.stem} ({path})" for path in self.paths)
        super().__init__(
            f"{session_id!r} fits {len(self.paths)} sessions, narrow it by id or project: {found}"
        )


def matches_session_id(stem: str, session_id: str) -> bool:
    """Whether a file stem is the session that `session_id` asks for.

    Equality always counts, a prefix only from 8 characters up; an empty id fits nothing.
    """
    if stem == session_id:
        return stem != ""
    return len(session_id) >= SHORTEST_PREFIX and stem.startswith(session_id)


def resolve_session(
    path_or_id: str | os.PathLike[str], projects_root: str | os.PathLike[str] | None = None
) -> Path:
    """The transcript of one session, given as an existing `.jsonl` path or as an id.

    An id is looked up among the transcripts directly inside the project directories.
    Raises `SessionNotFoundError` where nothing fits (a symbolic link never does), and
    `AmbiguousSessionError` where several do.
    """
    wanted = os.fspath(path_or_id)
    given = Path(os.path.expanduser(wanted)) if wanted.endswith(SUFFIX) else None
    if given is not None and given.is_file() and not given.is_symlink():
        return given
    return only_match(wanted, find_sessions(wanted, projects_root))


def find_sessions(
    session_id: str, projects_root: str | os.PathLike[str] | None = None
) -> list[Path]:
    """Every transcript whose id fits, in all projects that can be read, sorted."""
    root = root_directory(projects_root)
    found = []
    for project in projects(root).directories:
        with suppress(OSError):
            names = read_project(root, project).sessions
            fitting = (name for name in names if matches_session_id(name, session_id))
            found += [Path(root, project, name + SUFFIX) for name in fitting]
    return sorted(found)


def only_match(session_id: str, found: list[Path]) -> Path:
    """The one path found; raises where there is none, or more than one."""
    if not found:
        raise SessionNotFoundError(session_id)
    if len(found) > 1:
        raise AmbiguousSessionError(session_id, found)
    return found[0]
