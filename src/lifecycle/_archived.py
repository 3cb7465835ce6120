"""What the archive holds: sessions that can be restored, and where each came from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lifecycle._judge import Judge
from lifecycle._layout import NO_IDS, SUFFIX, Companions, is_directory, weigh
from lifecycle._move import is_twin
from lifecycle._places import archive_directory
from lifecycle._plan import DeleteOpts
from lifecycle._titles import title_of
from lifecycle.ids import matches_session_id

__all__ = [
    "ArchivedSession",
    "archived_ids",
    "archived_sessions",
    "fitting",
    "half_moved",
    "origins_of",
    "transcript_in",
]


@dataclass(frozen=True, slots=True)
class ArchivedSession:
    """One session in the archive."""

    session_id: str
    path: Path
    bytes: int
    """Size of the transcript alone."""
    companion_bytes: int
    """Size of what came with it, as far as it can be read."""
    archived_ns: int
    """When it was archived, in ns since the epoch."""
    project: str
    """Where it came from; empty where the archive does not tell, or not clearly."""

    @property
    def title(self) -> str | None:
        """What the session is called, cut to 200 characters; read anew at each call."""
        home = self.path.with_suffix("")
        own = home / "projects" / self.project / self.session_id
        return title_of(str(self.path), str(own) if self.project else None)

    @property
    def total_bytes(self) -> int:
        """Transcript and what came with it."""
        return self.bytes + self.companion_bytes


def archived_sessions(
    archive_dir: str | os.PathLike[str] | None = None, wanted: str | None = None
) -> tuple[ArchivedSession, ...]:
    """What can be restored, the last archived first; empty where there is no archive.

    With `wanted` only what that id, or beginning of one, fits.
    """
    archive = archive_directory(archive_dir)
    found = []
    for name in archived_ids(archive, wanted):
        # Not there where an interrupted run left only companions, or one restores it just now.
        with suppress(FileNotFoundError):
            found.append(_archived(archive, name))
    return tuple(sorted(found, key=lambda one: (-one.archived_ns, one.session_id)))


def fitting(sessions: Iterable[ArchivedSession], opts: DeleteOpts) -> tuple[ArchivedSession, ...]:
    """Those that pass the filters; one that cannot be read does not."""
    judge = Judge(opts)

    def fits(one: ArchivedSession) -> bool:
        if not judge.fits_project(one.project) or not judge.fits_id(one.session_id):
            return False
        path = str(one.path)
        verdict = None if judge.is_too_new(path) else judge.verdict(path, one.project, None)
        return verdict is not None and not verdict[0]

    return tuple(filter(fits, sessions))


def _archived(archive: str, session_id: str) -> ArchivedSession:
    path = transcript_in(archive, session_id)
    status = os.lstat(path)
    home = os.path.join(archive, session_id)
    when, project, beside = status.st_ctime_ns, "", 0
    # What hides its origin is shown without one; a restore says why it cannot be read.
    with suppress(OSError):
        origins = origins_of(archive, session_id)
        project = origins[0] if len(origins) == 1 else ""
        # Nothing is added to the origin directory later, and a copy of the archive that keeps
        # times keeps this one, which it cannot do for the time of the file's last move.
        if origins:
            when = os.lstat(os.path.join(home, "projects", origins[0])).st_mtime_ns
        beside = weigh([home])[0] if is_directory(home) else 0
    return ArchivedSession(session_id, Path(path), status.st_size, beside, when, project)


def transcript_in(directory: str, session_id: str) -> str:
    return os.path.join(directory, session_id + SUFFIX)


def archived_ids(archive: str, wanted: str | None = None) -> list[str]:
    """Ids with a transcript in the archive, or with what an interrupted run left of one.

    With `wanted` only those that fit it.
    """
    found, others = set(), []
    try:
        with os.scandir(archive) as scan:
            for entry in scan:
                name = entry.name
                if not name.startswith(wanted or ""):
                    continue
                if name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                    found.add(name.removesuffix(SUFFIX))
                else:
                    others.append(name)
    except FileNotFoundError:
        return []
    found.update(name for name in others if name not in found and _has_origin(archive, name))
    found.difference_update(NO_IDS)
    return sorted(name for name in found if wanted is None or matches_session_id(name, wanted))


def half_moved(archive: str, session_id: str, transcript: str) -> bool:
    """Whether an interrupted archive or restore left part of a session in the archive.

    A transcript of other content is no part of it, nor is what no table knows. Raises OSError.
    """
    archived = transcript_in(archive, session_id)
    if os.path.lexists(archived):
        return is_twin(transcript, archived)
    home = os.path.join(archive, session_id)
    mirror = Companions(os.path.join(home, "projects"), home)
    return any(mirror.paths(origin, session_id) for origin in origins_of(archive, session_id))


def _has_origin(archive: str, name: str) -> bool:
    try:
        return bool(origins_of(archive, name))
    except OSError:
        # What cannot be entered is no session as far as can be told: `lost+found`, say.
        return False


def origins_of(archive: str, session_id: str) -> list[str]:
    """The projects that the archive names as the session's origin; one, if all is well."""
    try:
        with os.scandir(os.path.join(archive, session_id, "projects")) as scan:
            return sorted(entry.name for entry in scan if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []
