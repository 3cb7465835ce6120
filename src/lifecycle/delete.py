"""Delete sessions: a plan that only reads, and an effect that does that plan and no more.

A real delete, under a lock on the projects root:

1. settles what an interrupted run left;
2. stages each planned transcript that is still what was planned, and not live: it gets a
   name that neither Claude Code nor a walk takes for a session;
3. commits: all staged ids go to the tombstone file in one write;
4. reaps: companions go, then the staged transcript.

So at every instant a session is whole, or tombstoned; after a kill at any point the next
command that changes files brings it to one of the two.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lifecycle._disk import exclusive, rename_new, sync_directory
from lifecycle._layout import Companions
from lifecycle._live import live_sessions
from lifecycle._places import archive_directory, config_of, root_directory
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
from lifecycle._select import CHANGED, GONE, change_in, select
from lifecycle._staging import (
    Holders,
    Recovery,
    Staged,
    close_journal,
    give_back,
    open_journal,
    reap,
    recover,
)
from lifecycle.tombstone import tombstone_ids, tombstone_path, unrecordable

__all__ = [
    "DeleteOpts",
    "DeletePlan",
    "NoFilterError",
    "PlanItem",
    "Skipped",
    "delete_sessions",
    "execute_delete",
    "plan_delete",
    "recover_sessions",
]

_HALF = (
    "an interrupted archive or restore left part of it in the archive as well: "
    "archive or restore it first"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePlan(Plan):
    """What a delete would do; once executed, what it did."""

    tombstone_path: Path
    deleted: tuple[PlanItem, ...] = ()
    """Those of `matched` that are gone; empty before the plan is executed."""


def plan_delete(
    projects_root: str | os.PathLike[str] | None,
    cache_dir: str | os.PathLike[str] | None,
    opts: DeleteOpts,
    *,
    archive_dir: str | os.PathLike[str] | None = None,
    with_titles: bool = False,
    may_fork: bool = False,
) -> DeletePlan:
    """The sessions that pass all filters, each as it is now. Changes nothing at all.

    What an interrupted archive or restore left in `archive_dir` as well is left alone.
    `with_titles` fills in `PlanItem.title`. With `may_fork` a copy of this process may share the
    reading of a thousand sessions or more; never beside other threads.

    A missing projects root gives an empty plan. Raises `NoFilterError` before anything is
    read where no filter is set, `AmbiguousSessionError` for a session id that fits several
    sessions, OSError where the projects root cannot be read.
    """
    if not opts.has_filter:
        raise NoFilterError
    root = root_directory(projects_root)
    matched, skipped = select(root, opts, with_titles=with_titles, may_fork=may_fork)
    archive = archive_directory(archive_dir)
    archive = archive if os.path.isdir(archive) else ""
    matched, left = leave_out(matched, lambda item: _obstacle(item, archive))
    return DeletePlan(
        projects_root=Path(root),
        tombstone_path=tombstone_path(cache_dir),
        matched=matched,
        skipped=by_path(skipped, left),
        include_live=opts.include_live,
    )


def _obstacle(item: PlanItem, archive: str) -> str:
    """Why a session cannot be deleted whole, or empty; no archive is the empty path."""
    reason = unrecordable(item.session_id)
    if reason or not archive:
        return reason
    # Not at the top: most runs of one session find no archive.
    from lifecycle._archived import half_moved

    try:
        return _HALF if half_moved(archive, item.session_id, item.location) else ""
    except FileNotFoundError:
        return ""
    except OSError as error:
        return why(error)


def delete_sessions(
    projects_root: str | os.PathLike[str] | None,
    cache_dir: str | os.PathLike[str] | None,
    opts: DeleteOpts,
    *,
    archive_dir: str | os.PathLike[str] | None = None,
) -> DeletePlan:
    """Plans, and unless `opts.dry_run` settles interrupted runs first and executes the plan.

    Raises what `plan_delete` and `execute_delete` do.
    """
    if opts.has_filter and not opts.dry_run:
        recover_sessions(projects_root, cache_dir)
    plan = plan_delete(projects_root, cache_dir, opts, archive_dir=archive_dir)
    return plan if opts.dry_run else execute_delete(plan)


def recover_sessions(
    projects_root: str | os.PathLike[str] | None, cache_dir: str | os.PathLike[str] | None
) -> Recovery:
    """Settles what interrupted runs left under the projects root, and says what it was.

    Waits for other runs that hold the root. Raises OSError or `TombstoneFileError` where a
    tombstone file that may hold the verdict cannot be read; then everything stays staged.
    """
    root = root_directory(projects_root)
    if not os.path.isdir(root):
        return Recovery()
    with exclusive(root):
        return recover(root, tombstone_path(cache_dir))


def execute_delete(plan: DeletePlan) -> DeletePlan:
    """Deletes what was planned and nothing else; returns the plan with what came of it.

    - An item that is gone, changed (as its companions count too) or live by now is skipped
      with its reason; one that fails does not stop the others.
    - Every deleted session's id is in the tombstone file before its first byte goes.
    - Where the ids cannot be tombstoned, every transcript has its own name again, and the
      error (OSError, `TombstoneFileError`) is raised.
    - Waits for other runs on the same projects root. Not promised: that writers which do not
      register with Claude Code are kept from writing; what they write to a name that was
      just deleted becomes a new file, which is left and named in `skipped`.
    """
    if not plan.matched:
        return plan
    root = str(plan.projects_root)
    with exclusive(root):
        recovery = recover(root, plan.tombstone_path)
        return _Run(plan, root, recovery.failed).run()


class _Run:
    """One execution of a plan, with the root's lock held."""

    def __init__(self, plan: DeletePlan, root: str, unsettled: Sequence[Skipped]) -> None:
        self._plan = plan
        self._root = root
        self._config = config_of(root)
        self._companions = Companions(root, self._config)
        self._staged: list[PlanItem] = []
        self._skipped: list[Skipped] = []
        self._failed = list(unsettled)
        # What stays staged needs the journal to be settled by the right tombstone file.
        self._is_clean = not unsettled
        self._is_committing = False

    def run(self) -> DeletePlan:
        try:
            open_journal(self._root, self._plan.tombstone_path)
            self._stage()
            self._commit()
        except BaseException as error:
            self._undo(error)
            raise
        deleted = self._reap()
        if self._is_clean:
            self._close(deleted)
        return replace(
            self._plan,
            deleted=tuple(deleted),
            skipped=by_path(self._plan.skipped, self._skipped),
            failed=by_path(self._failed),
        )

    def _close(self, deleted: Sequence[PlanItem]) -> None:
        """Ends the run: nothing is taken back for a failure here, and the next one repeats it."""
        parents = {str(path.parent) for item in deleted for path in item.companions}
        try:
            close_journal(self._root, parents.union(self._directories()))
        except OSError as error:
            root = Path(self._root)
            self._failed.append(Skipped("", root, f"all is done, but: {why(error, root)}"))

    def _stage(self) -> None:
        live = live_sessions(self._config)
        for item in self._plan.matched:
            reason = "" if self._plan.include_live else live.reason(item.session_id)
            if reason:
                self._skip(item, f"live: {reason}")
                continue
            try:
                self._stage_one(item)
            except FileNotFoundError:
                self._skip(item, GONE)
            except OSError as error:
                self._failed.append(Skipped(item.session_id, item.path, why(error, item.path)))

    def _stage_one(self, item: PlanItem) -> None:
        staged = self._place(item)
        if change := change_in(item, self._companions):
            self._skip(item, change)
            return
        # Before the call: an interrupt just after it must find what is to be given back.
        self._staged.append(item)
        try:
            rename_new(staged.original, staged.path)
        except OSError:
            self._staged.pop()
            raise
        # Only from here on does nobody reach it by name: this look is the one that counts.
        try:
            change = "" if item.is_at(staged.path) else CHANGED
        except FileNotFoundError:
            self._staged.pop()
            raise
        except OSError as error:
            change = why(error, staged.path)
        if change:
            self._return(item, change)

    def _skip(self, item: PlanItem, reason: str) -> None:
        self._skipped.append(Skipped(item.session_id, item.path, reason))

    def _place(self, item: PlanItem) -> Staged:
        return Staged(self._root, item.project, item.session_id)

    def _return(self, item: PlanItem, reason: str) -> None:
        staged = self._place(item)
        self._staged.remove(item)
        try:
            name = give_back(staged)
        except OSError as error:
            self._stay(
                Path(staged.path), item, f"{reason}; still staged: {why(error, staged.path)}"
            )
        else:
            self._skip(item, reason if name == staged.original else f"{reason}; kept as {name}")

    def _stay(self, path: Path, item: PlanItem, reason: str) -> None:
        self._is_clean = False
        self._failed.append(Skipped(item.session_id, path, reason))

    def _commit(self) -> None:
        for directory in self._directories():
            sync_directory(directory)
        if not self._plan.include_live:
            live = live_sessions(self._config)
            for item in self._staged[:]:
                if reason := live.reason(item.session_id):
                    self._return(item, f"live: {reason}")
        ids = dict.fromkeys(item.session_id for item in self._staged)
        self._is_committing = True
        tombstone_ids(self._plan.tombstone_path.parent, ids)

    def _undo(self, error: BaseException) -> None:
        if self._is_committing and not isinstance(error, Exception):
            # An interrupt may have come just after the commit: the tombstone decides.
            recover(self._root, self._plan.tombstone_path)
            return
        for staged in map(self._place, self._staged):
            if not os.path.lexists(staged.path):
                continue
            try:
                give_back(staged)
            except OSError as problem:
                self._is_clean = False
                error.add_note(f"still staged as {staged.path}: {why(problem, staged.path)}")
        if self._is_clean:
            close_journal(self._root, self._directories())

    def _directories(self) -> list[str]:
        return sorted({str(item.directory) for item in self._staged})

    def _reap(self) -> list[PlanItem]:
        ids = {item.session_id for item in self._staged}
        in_place = Holders(self._root, ids)
        deleted = []
        for item in self._staged:
            staged = self._place(item)
            try:
                reap(staged, map(str, item.companions), in_place)
            except OSError as error:
                self._stay(
                    item.path,
                    item,
                    f"tombstoned, but not all of it is removed: {why(error, staged.path)}",
                )
                continue
            deleted.append(item)
            if os.path.lexists(staged.original):
                self._skip(item, "written anew while it was deleted; the new file is left")
        return deleted
