"""Moves entries between two trees in two steps, all of them or none.

What it does to files it does through `_disk`; what is written here is when it may.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from lifecycle._disk import (
    copy_new,
    create_directories,
    name_new,
    remove,
    remove_empty_directories,
    require_emptiable,
    require_removable,
    set_aside,
    superseded,
    sync_directory,
    sync_tree,
)

__all__ = ["ArchiveConflictError", "Move", "is_twin", "same_content", "transfer"]

PIECE = 1 << 20


class ArchiveConflictError(FileExistsError):
    """Moving `source` would overwrite `target`; both are as they were."""

    def __init__(self, source: Path, target: Path) -> None:
        super().__init__(f"{target} exists, so {source} stays where it is")
        self.source = source
        self.target = target


class Move:
    """Moves a file or a directory tree in two steps; until the second nothing is lost.

    - Nothing is overwritten: `place` raises FileExistsError where `target` exists with other
      content. With the same content an interrupted move left both, and `source` will go. An
      empty directory counts as nothing, at either end.
    - Bytes, modes, modification times and hard links within the tree stay as they were.
    - On one file system the entry itself moves. Across two it is copied to `incoming` (on the
      target's file system), synced, compared, and then named `target`. What goes from
      `source` goes by way of `outgoing` (on the source's file system). Both names must be
      free, or leftovers of a move.
    - Where a step fails, `source` is whole, or `undo` makes it so; `incoming` is gone.
    - What others put at `source` meanwhile is left there.
    """

    def __init__(self, source: str, target: str, incoming: str, outgoing: str) -> None:
        self.source = source
        self.target = target
        self._incoming = incoming
        self._outgoing = outgoing
        self._state: _State = []
        self._is_begun = False
        self._is_placed = False
        self._is_renamed = False
        self._is_going = False

    @property
    def is_final(self) -> bool:
        """Whether `source` began to go, so that the only way is on."""
        return self._is_going and not os.path.lexists(self.source)

    def conflicts(self) -> bool:
        """Whether `target` exists with other content, so that `place` would refuse."""
        return not _is_free(self.target) and (self._is_one_place() or not self._is_leftover())

    def _is_one_place(self) -> bool:
        """Whether source and target are one entry by two ways, not two of one content."""
        parents = map(os.path.realpath, map(os.path.dirname, (self.source, self.target)))
        same = os.path.basename(self.source) == os.path.basename(self.target)
        return same and len(set(parents)) == 1

    def _is_continued(self) -> bool:
        """Whether the source is a file that begins with all that `target` holds."""
        files = (self.source, self.target)
        if not all(stat.S_ISREG(os.lstat(path).st_mode) for path in files):
            return False
        return _same_bytes(self.target, self.source, is_beginning=True)

    def _is_leftover(self) -> bool:
        return _is_empty_directory(self.source) or same_content(self.source, self.target)

    def place(self) -> None:
        """The whole content is at `target` and durable; `source` may be there too."""
        self._state = _state(self.source)
        if not _is_free(self.target):
            if self._is_one_place() or not self._is_leftover():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.target)
            # Whoever made it may have been killed before it was on disk.
            sync_tree(self.target)
            sync_directory(os.path.dirname(self.target))
            return
        self._is_begun = True
        try:
            self._put()
        except OSError:
            self._is_begun = False
            raise
        self._is_placed = True
        sync_directory(os.path.dirname(self.target))

    def _put(self) -> None:
        try:
            self._is_renamed = name_new(self.source, self.target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            require_emptiable(self.source)
            _copy_into_place(self.source, self.target, self._incoming, self._state)

    def check(self) -> None:
        """Raises OSError where what is at the source is not what was placed."""
        if not self._is_renamed and not self._may_go(self.source):
            raise OSError(errno.EAGAIN, "it changed while it was moved", self.source)

    def _may_go(self, path: str) -> bool:
        return _same_entry(path, self.target) or _state(path) == self._state

    def finish(self) -> None:
        """Only `target` is left, durably. Raises as `check` does, and changes nothing then."""
        if not self._is_renamed:
            self._is_going = True
            set_aside(self.source, self._outgoing)
            if not self._may_go(self._outgoing):
                _put_back(self._outgoing, self.source)
                self.check()
            sync_directory(os.path.dirname(self.source))
            remove(self._outgoing)
        sync_directory(os.path.dirname(self.source))

    def undo(self) -> None:
        """Before `finish`: what `place` put at `target` is only at `source` again.

        FileExistsError where something else is at `source` by now; then both stay.
        """
        if not self._is_begun:
            return
        if not os.path.lexists(self.source):
            name_new(self.target, self.source)
        elif not self._is_placed:
            # An interrupt came so close to the call that only this tells whether it was made.
            if not os.path.lexists(self.target) or not same_content(self.source, self.target):
                return
        elif self._is_renamed or not (self._may_go(self.source) or self._is_continued()):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.source)
        remove(self.target)
        self._is_begun = self._is_placed = False


def transfer(moves: Sequence[Move], directories: Sequence[str]) -> None:
    """All moves are made and the directories exist; or nothing has changed.

    Raises `ArchiveConflictError` where a target is taken, OSError where a move fails; only
    where that happens after the first source has gone do both ends stay as they are then.
    """
    for move in moves:
        if move.conflicts():
            raise ArchiveConflictError(Path(move.source), Path(move.target))
        require_removable(move.source)
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
            error.add_note(f"{move.target} could not be put back: {problem.strerror or problem}")


def _put_back(outgoing: str, source: str) -> None:
    """What must not go is at its source again; beside it, where another took that name."""
    try:
        if name_new(outgoing, source):
            return
    except FileExistsError:
        if name_new(outgoing, superseded(source)):
            return
    remove(outgoing)


def _is_empty_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path)


def _same_entry(left: str, right: str) -> bool:
    return os.path.samestat(os.lstat(left), os.lstat(right))


def _is_free(path: str) -> bool:
    """Whether nothing is there, or an empty directory, which a rename replaces."""
    return not os.path.lexists(path) or _is_empty_directory(path)


def _copy_into_place(source: str, target: str, incoming: str, state: _State) -> None:
    remove(incoming)
    try:
        copy_new(source, incoming)
        if not same_content(source, incoming) or _state(source) != state:
            raise OSError(errno.EAGAIN, "it changed while it was copied", source)
        name_new(incoming, target)
    finally:
        remove(incoming)


# Path below the top, inode, size and modification time, of an entry and all below it.
_State = list[tuple[str, int, int, int]]


def _state(path: str, below: str = "") -> _State:
    found = os.lstat(path)
    state = [(below, found.st_ino, found.st_size, found.st_mtime_ns)]
    if stat.S_ISDIR(found.st_mode):
        for name in sorted(os.listdir(path)):
            state += _state(os.path.join(path, name), f"{below}/{name}")
    return state


def same_content(left: str, right: str) -> bool:
    """Whether two entries are of one kind and byte for byte the same, all the way down."""
    one, two = os.lstat(left), os.lstat(right)
    if stat.S_IFMT(one.st_mode) != stat.S_IFMT(two.st_mode):
        return False
    if os.path.samestat(one, two):
        return True
    if stat.S_ISLNK(one.st_mode):
        return os.readlink(left) == os.readlink(right)
    if stat.S_ISREG(one.st_mode):
        return one.st_size == two.st_size and _same_bytes(left, right)
    if not stat.S_ISDIR(one.st_mode):
        return False
    names = sorted(os.listdir(left))
    return names == sorted(os.listdir(right)) and all(
        same_content(os.path.join(left, name), os.path.join(right, name)) for name in names
    )


def is_twin(source: str, target: str) -> bool:
    """Whether the target is what an interrupted move made of the source."""
    same_time = os.lstat(source).st_mtime_ns == os.lstat(target).st_mtime_ns
    return same_time and same_content(source, target)


def _same_bytes(left: str, right: str, *, is_beginning: bool = False) -> bool:
    """Whether the left is the right, or the beginning of it."""
    with open(left, "rb", buffering=0) as one, open(right, "rb", buffering=0) as two:
        while piece := one.read(PIECE):
            if piece != two.read(len(piece)):
                return False
        return is_beginning or not two.read(1)
