"""Which sessions a set of filters means: the one selection behind delete, archive and list.

Reads only. Cheap filters come first: names, then times; a transcript is opened only when
those let it through.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import compress
from pathlib import Path

from lifecycle._judge import Judge, Verdict, is_gone
from lifecycle._layout import (
    STAGED_SUFFIX,
    SUFFIX,
    Companions,
    Project,
    doubt_by,
    ids_by_project,
    projects,
    read_project,
    weigh,
)
from lifecycle._live import live_sessions
from lifecycle._places import config_of
from lifecycle._plan import DeleteOpts, PlanItem, Skipped, nanoseconds, why
from lifecycle._share import share
from lifecycle.ids import AmbiguousSessionError

__all__ = ["CHANGED", "GONE", "Candidate", "Selection", "change_in", "select"]

# Project and session id of a session that passed the filters on names.
Candidate = tuple[str, str]
CHANGED = "changed since the plan was made"
GONE = "gone since the plan was made"
_STAGED = "staged by an interrupted delete; the next command that changes files settles it"


def select(
    root: str, opts: DeleteOpts, *, with_titles: bool = False, may_fork: bool = False
) -> tuple[tuple[PlanItem, ...], tuple[Skipped, ...]]:
    """All sessions that pass the filters, and what fits but is left alone, each by path.

    Raises `AmbiguousSessionError` where a session id fits several, OSError where the
    projects root itself cannot be read.
    """
    selection = Selection(root, opts, with_titles=with_titles)
    matched = selection.all_items(may_fork=may_fork)
    if opts.session_id:
        fitting = [item.path for item in matched] + selection.passed
        if len(fitting) > 1:
            raise AmbiguousSessionError(opts.session_id, fitting)
    matched = selection.without_doubt(selection.with_shared(matched))
    return matched, tuple(sorted(selection.skipped, key=lambda skip: skip.path))


class Selection:
    """One walk over a projects root under some filters.

    `candidates` are in the order of their paths; `skipped` collects what fits but is left
    alone, `passed` those of them that are sessions and pass every filter that can be judged.
    """

    def __init__(self, root: str, opts: DeleteOpts, *, with_titles: bool = False) -> None:
        self.root = root
        self.opts = opts
        self.skipped: list[Skipped] = []
        self.passed: list[Path] = []
        self.candidates: list[Candidate] = []
        config = config_of(root)
        self.live = live_sessions(config)
        self._companions = Companions(root, config)
        self._judge = Judge(opts, with_titles=with_titles)
        self._directories: dict[str, Path] = {}
        self._copies: dict[str, list[str]] | None = None
        self._unread: list[str] = []
        """Projects that cannot be read, and so may hold a copy of any id."""
        self._projects = projects(root)
        self._walk()

    def _walk(self) -> None:
        for name, reason in self._projects.odd:
            # One session that was asked for by name is not in a directory that is no project.
            if self._judge.fits_project(name) and not self.opts.session_id:
                self._skip("", Path(self.root, name), reason)
        for project in filter(self._judge.fits_project, self._projects.directories):
            try:
                if not self._may_hold(project):
                    continue
                listing = read_project(self.root, project)
            except OSError as error:
                path = Path(self.root, project)
                self._skip("", path, why(error, path))
                continue
            self._take(project, listing)

    def _may_hold(self, project: str) -> bool:
        """Whether a name in the project begins as the id that is asked for, if any is."""
        wanted = self.opts.session_id
        if not wanted:
            return True
        names = os.listdir(os.path.join(self.root, project))
        return any(name.startswith(wanted) for name in names)

    def _take(self, project: str, listing: Project) -> None:
        directory = self._directories[project] = Path(self.root, project)
        odd = [(name.removesuffix(SUFFIX), name, reason) for name, reason in listing.odd]
        odd += [(name, name + STAGED_SUFFIX, _STAGED) for name in listing.staged]
        for session_id, name, reason in odd:
            if self._judge.fits_id(session_id):
                self._skip(session_id, directory / name, reason)
        fitting = listing.sessions
        if self.opts.session_id:
            fitting = list(filter(self._judge.fits_id, fitting))
        self.candidates += [(project, session_id) for session_id in fitting]
        self._companions.add(project, listing)

    def _skip(self, session_id: str, path: Path, reason: str) -> None:
        self.skipped.append(Skipped(session_id, path, reason))

    def items(self) -> Iterator[PlanItem]:
        """The candidates that pass every filter, one by one in their order."""
        for candidate in self.candidates:
            verdict = self._verdict(candidate)
            item = verdict and self._item(candidate, verdict)
            if item:
                yield item

    def all_items(self, *, may_fork: bool = False) -> tuple[PlanItem, ...]:
        """The same at once; a copy of this process may share the reading."""
        judge = share if may_fork else map
        verdicts = list(judge(self._verdict, self.candidates))
        self.candidates = list(compress(self.candidates, verdicts))
        return tuple(filter(None, map(self._item, self.candidates, filter(None, verdicts))))

    def sort_by_age(self) -> None:
        """Puts the newest candidate first; drops those that are too new."""
        before = None if self.opts.before is None else nanoseconds(self.opts.before)
        dated = ((_modified(self._path(one)), one) for one in self.candidates)
        kept = [(-modified, one) for modified, one in dated if before is None or modified < before]
        self.candidates = [one for _, one in sorted(kept)]

    def _verdict(self, candidate: Candidate) -> Verdict | None:
        project, session_id = candidate
        path = self._path(candidate)
        if self._judge.is_too_new(path):
            return None
        beside = self._companions.in_project(project, session_id)
        has_own = beside and f"projects/{project}/{session_id}" in beside
        directory = path.removesuffix(SUFFIX) if has_own else None
        return self._judge.verdict(path, project, directory)

    def _path(self, candidate: Candidate) -> str:
        project, session_id = candidate
        return f"{self.root}{os.sep}{project}{os.sep}{session_id}{SUFFIX}"

    def _item(self, candidate: Candidate, verdict: Verdict) -> PlanItem | None:
        """The session with what belongs to it, or None; where that is not plain, `skipped`."""
        project, session_id = candidate
        reason, passes, messages, size, modified_ns, device, inode, title = verdict
        live = "" if self.opts.include_live else self.live.reason(session_id)
        if reason or live:
            self._leave(candidate, reason or f"live: {live}", passes)
            return None
        copies = self._copies_of(session_id, project)
        try:
            doubt = bool(self._unread) and bool(self._companions.in_stores(session_id))
            with_stores = not copies and not doubt
            companions, beside, state = self._belonging(session_id, project, with_stores)
        except OSError as error:
            if not is_gone(self._path(candidate)):
                self._leave(candidate, why(error, self._path(candidate)), passes)
            return None
        return PlanItem(
            session_id,
            self._directories[project],
            size,
            messages,
            modified_ns,
            device,
            inode,
            companions,
            beside,
            copies,
            with_stores,
            title,
            state,
        )

    def _leave(self, candidate: Candidate, reason: str, passes: bool) -> None:
        path = Path(self._path(candidate))
        self._skip(candidate[1], path, reason)
        if passes:
            self.passed.append(path)

    def _belonging(
        self, session_id: str, project: str, with_stores: bool
    ) -> tuple[tuple[Path, ...], int, int]:
        paths = self._companions.paths(project, session_id, with_stores=with_stores)
        if not paths:
            return (), 0, 0
        return (tuple(map(Path, paths)), *weigh(paths))

    def _copies_of(self, session_id: str, project: str) -> tuple[str, ...]:
        if self._copies is None:
            ids = [session_id for _, session_id in self.candidates]
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

    def without_doubt(self, matched: tuple[PlanItem, ...]) -> tuple[PlanItem, ...]:
        """Leaves alone what owns things by its id alone, as a project that is hidden may too."""
        doubtful = [item for item in matched if not item.takes_stores and not item.also_in]
        if not doubtful:
            return matched
        for item in doubtful:
            self._skip(item.session_id, item.path, doubt_by(self._unread))
        return tuple(item for item in matched if item.takes_stores or item.also_in)

    def _last_copy(self, item: PlanItem) -> PlanItem:
        try:
            companions, size, state = self._belonging(item.session_id, item.project, True)
        except OSError:
            # It is changing: what is not shown is not taken.
            return item
        return replace(
            item,
            companions=companions,
            companion_bytes=size,
            companion_state=state,
            takes_stores=True,
        )


def change_in(item: PlanItem, companions: Companions) -> str:
    """What is no longer as it was planned, or empty. Raises OSError where that is hidden."""
    try:
        return _change_in(item, companions)
    except FileNotFoundError:
        return GONE


def _change_in(item: PlanItem, companions: Companions) -> str:
    path = item.location
    if os.path.islink(os.path.dirname(path)):
        return "the project directory is a symbolic link now"
    if not item.is_at(path):
        return CHANGED
    paths = companions.paths(item.project, item.session_id, with_stores=item.takes_stores)
    if not paths and not item.companions:
        return ""
    same = paths == list(map(str, item.companions))
    if same and weigh(paths) == (item.companion_bytes, item.companion_state):
        return ""
    return f"what belongs to it {CHANGED}"


def _modified(path: str) -> int:
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        # Vanished or unreadable: opening it tells which.
        return 0


def _copies(
    root: str, directories: list[str], ids: list[str]
) -> tuple[dict[str, list[str]], list[str]]:
    """The ids that several projects hold, with those projects; the projects that are hidden."""
    first: dict[str, str] = {}
    several: dict[str, list[str]] = {}
    unread = []
    for project, held in ids_by_project(root, directories, ids):
        if held is None:
            unread.append(project)
            continue
        for session_id in held:
            if first.setdefault(session_id, project) != project:
                several.setdefault(session_id, [first[session_id]]).append(project)
    return several, unread
