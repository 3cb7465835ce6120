"""What the archive holds: sessions that can be restored, and where each came from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lifecycle._judge import Judge
from lifecycle._layout import NO_IDS, SUFFIX, is_directory, weigh
from lifecycle._places import archive_directory
from lifecycle._plan import DeleteOpts
from lifecycle._where import WorkingDirectory
from lifecycle.ids import matches_session_id

__all__ = [
    "ArchivedSession",
    "archived_ids",
    "archived_sessions",
    "fits",
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
    """Size of what came with it."""
    archived_ns: int
    """When it was archived, in ns since the epoch."""
    project: str
    """Where it came from; empty where the archive does not tell, or not clearly."""

    @property
    def total_bytes(self) -> int:
        """Transcript and what came with it."""
        return self.bytes + self.companion_bytes


def archived_sessions(
    archive_dir: str | os.PathLike[str] | None = None,
) -> tuple[ArchivedSession, ...]:
    """What can be restored, the last archived first; empty where there is no archive."""
    archive = archive_directory(archive_dir)
    names = [name for name in archived_ids(archive) if os.path.isfile(transcript_in(archive, name))]
    found = [_archived(archive, name) for name in names]
    return tuple(sorted(found, key=lambda one: (-one.archived_ns, one.session_id)))


def fits(archived: ArchivedSession, opts: DeleteOpts) -> bool:
    """Whether an archived session passes the filters; one that cannot be read does not."""
    where = WorkingDirectory(opts.project) if os.path.isabs(opts.project) else None
    if not (where.may_be(archived.project) if where else opts.project in archived.project):
        return False
    if opts.session_id and not matches_session_id(archived.session_id, opts.session_id):
        return False
    judge = Judge(opts, where, with_titles=False)
    verdict = judge.verdict(str(archived.path), archived.project, None)
    return verdict is not None and not verdict[0]


def _archived(archive: str, session_id: str) -> ArchivedSession:
    path = transcript_in(archive, session_id)
    status = os.lstat(path)
    origins = origins_of(archive, session_id)
    # Nothing is added to the origin directory later, and a copy of the archive that keeps
    # times keeps this one, which it cannot do for the time of the file's last move.
    when = status.st_ctime_ns
    if origins:
        when = os.lstat(os.path.join(archive, session_id, "projects", origins[0])).st_mtime_ns
    project = origins[0] if len(origins) == 1 else ""
    home = os.path.join(archive, session_id)
    beside = weigh([home])[0] if is_directory(home) else 0
    return ArchivedSession(session_id, Path(path), status.st_size, beside, when, project)


def transcript_in(directory: str, session_id: str) -> str:
    return os.path.join(directory, session_id + SUFFIX)


def archived_ids(archive: str) -> list[str]:
    """Ids with a transcript in the archive, or with what an interrupted run left of one."""
    found = set()
    try:
        with os.scandir(archive) as scan:
            for entry in scan:
                if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                    found.add(entry.name.removesuffix(SUFFIX))
                elif origins_of(archive, entry.name):
                    found.add(entry.name)
    except FileNotFoundError:
        return []
    return sorted(found.difference(NO_IDS))


def origins_of(archive: str, session_id: str) -> list[str]:
    """The projects that the archive names as the session's origin; one, if all is well."""
    try:
        with os.scandir(os.path.join(archive, session_id, "projects")) as scan:
            return sorted(entry.name for entry in scan if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []
