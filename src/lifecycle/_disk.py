"""Every system call that changes a file, each function named by what it guarantees.

Nothing here follows a symbolic link out of the tree it was given, or replaces what another
program put there. A call that fails raises OSError; what it leaves is said in its docstring.

Where a platform lacks a call there is one stated fallback. No `fcntl` (Windows): the lock is
held on a file in the directory. No hard links: a rename after a look, which is safe between
this package's own runs (they hold the lock) but not against other programs. No `fsync` of
directories (Windows): left to the system.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = [
    "Move",
    "append_or_undo",
    "create_directories",
    "exclusive",
    "remove",
    "remove_empty_directories",
    "remove_empty_tree",
    "rename_new",
    "replace_atomically",
    "same_content",
    "set_modified",
    "sync_directory",
]

PIECE = 1 << 20
TEMPORARY_ENDING = ".lifecycle-tmp"
_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | _CLOSE_ON_EXEC
_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | _CLOSE_ON_EXEC
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}


_held: set[tuple[int, int, int]] = set()


@contextmanager
def exclusive(directory: str) -> Iterator[None]:
    """Holds an advisory lock on an existing directory, waiting for other holders.

    It ends with the process, however that ends. It holds between processes and between
    threads; a thread that has it gets it again, since two roles may share one directory.
    """
    if sys.platform == "win32":
        descriptor = os.open(os.path.join(directory, ".lifecycle-lock"), os.O_RDWR | os.O_CREAT)
    else:
        descriptor = os.open(directory, os.O_RDONLY | _DIRECTORY)
    try:
        found = os.fstat(descriptor)
        key = (get_ident(), found.st_dev, found.st_ino)
        if key in _held:
            yield
            return
        _lock(descriptor)
        _held.add(key)
        try:
            yield
        finally:
            _held.discard(key)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    import msvcrt

    while True:
        with suppress(OSError):
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            return
        time.sleep(0.05)


def sync_directory(directory: str) -> None:
    """Names made, changed or removed in the directory are on disk."""
    if sys.platform == "win32":
        return
    descriptor = os.open(directory, os.O_RDONLY | _DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def create_directories(path: str) -> list[str]:
    """The directory exists; returns those that were made (mode 0700), outermost first.

    Where one cannot be made, those made before it are gone again.
    """
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    made: list[str] = []
    try:
        for directory in reversed(missing):
            if _make_directory(directory):
                made.append(directory)
            sync_directory(os.path.dirname(directory))
    except OSError:
        with suppress(OSError):
            remove_empty_directories(reversed(made))
        raise
    return made


def _make_directory(path: str) -> bool:
    """Whether this call made it; False where another process was faster."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return False
    return True


def remove_empty_directories(paths: Iterator[str] | list[str]) -> None:
    """Those of the directories that were empty are gone, in the order given; others stay."""
    for path in paths:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


def remove_empty_tree(path: str, outgoing: str) -> None:
    """A tree of nothing but directories is gone, all of it at once, by way of `outgoing`.

    Of a tree that holds anything else, the empty directories are gone.
    """
    tree = [] if os.path.islink(path) else list(os.walk(path, topdown=False))
    if not tree:
        return
    if not any(files for _, _, files in tree):
        remove(outgoing)
        os.rename(path, outgoing)
        tree = list(os.walk(outgoing, topdown=False))
    remove_empty_directories([directory for directory, _, _ in tree])


def append_or_undo(path: str, data: bytes) -> None:
    """The data is the end of the file and on disk; the file is made (mode 0600) if need be.

    Where that fails the file is as it was before, absent if it was absent.
    """
    is_new = not os.path.exists(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | _CLOSE_ON_EXEC, 0o600)
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
            if is_new:
                sync_directory(os.path.dirname(path))
        except BaseException:
            os.ftruncate(descriptor, before.st_size)
            if is_new:
                os.unlink(path)
            raise
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def replace_atomically(path: str, data: bytes) -> None:
    """The file holds exactly the data and is on disk, with the mode it had (0600 if new).

    A reader sees the old content or the new, never a mixture. Where it fails, the old stays;
    only where the very last step fails is the new one there, and may not survive a crash.
    """
    temporary = path + TEMPORARY_ENDING
    mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o600
    with suppress(FileNotFoundError):
        os.unlink(temporary)
    try:
        _write_file(temporary, data, mode)
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    sync_directory(os.path.dirname(path))


def _write_file(path: str, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600)
    try:
        _write_all(descriptor, data)
        os.chmod(path, mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename_new(source: str, target: str) -> None:
    """The file is at `target`, where nothing was, and no longer at `source`.

    FileExistsError where something is at `target`; both stay. Killed in between, the one
    file has both names. Not durable before `sync_directory`.
    """
    try:
        _link(source, target)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
        os.rename(source, target)
        return
    _unlink_or_undo(source, target)


def _link(source: str, target: str) -> None:
    if os.link in os.supports_follow_symlinks:
        os.link(source, target, follow_symlinks=False)
    else:
        os.link(source, target)


def _unlink_or_undo(source: str, target: str) -> None:
    try:
        os.unlink(source)
    except OSError:
        os.unlink(target)
        raise


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
        self._is_placed = False
        self._is_renamed = False
        self.is_final = False
        """Whether `source` began to go, so that the only way is on."""

    def conflicts(self) -> bool:
        """Whether `target` exists with other content, so that `place` would refuse."""
        return not _is_free(self.target) and (self._is_one_place() or not self._is_leftover())

    def _is_one_place(self) -> bool:
        """Whether source and target are one entry by two ways, not two of one content."""
        parents = map(os.path.realpath, map(os.path.dirname, (self.source, self.target)))
        same = os.path.basename(self.source) == os.path.basename(self.target)
        return same and len(set(parents)) == 1

    def _is_leftover(self) -> bool:
        return _is_empty_directory(self.source) or same_content(self.source, self.target)

    def place(self) -> None:
        """The whole content is at `target` and durable; `source` may be there too."""
        self._state = _state(self.source)
        if not _is_free(self.target):
            if self._is_one_place() or not self._is_leftover():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.target)
            return
        try:
            self._is_renamed = _name_new(self.source, self.target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy_into_place(self.source, self.target, self._incoming, self._state)
        self._is_placed = True
        sync_directory(os.path.dirname(self.target))

    def check(self) -> None:
        """Raises OSError where what is at the source is not what was placed."""
        if not self._is_renamed and not self._may_go(self.source):
            raise OSError(errno.EAGAIN, "it changed while it was moved", self.source)

    def _may_go(self, path: str) -> bool:
        return _same_entry(path, self.target) or _state(path) == self._state

    def finish(self) -> None:
        """Only `target` is left, durably. Raises as `check` does, and changes nothing then."""
        if not self._is_renamed:
            remove(self._outgoing)
            os.rename(self.source, self._outgoing)
            if not self._may_go(self._outgoing):
                _put_back(self._outgoing, self.source)
                self.check()
            self.is_final = True
            sync_directory(os.path.dirname(self.source))
            remove(self._outgoing)
        sync_directory(os.path.dirname(self.source))

    def undo(self) -> None:
        """Before `finish`: what `place` put at `target` is only at `source` again.

        FileExistsError where something else is at `source` by now; then both stay.
        """
        if not self._is_placed:
            return
        if not os.path.lexists(self.source):
            _name_new(self.target, self.source)
        elif self._is_renamed or not self._may_go(self.source):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.source)
        remove(self.target)
        self._is_placed = False


def _put_back(outgoing: str, source: str) -> None:
    """What must not go is at its source again; beside it, where another took that name."""
    try:
        if _name_new(outgoing, source):
            return
    except FileExistsError:
        # Of a transcript a name that Claude Code uses for old content of the session.
        if _name_new(outgoing, f"{source}.superseded-{time.time_ns() // 1_000_000}"):
            return
    os.unlink(outgoing)


def _is_empty_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path)


def _same_entry(left: str, right: str) -> bool:
    return os.path.samestat(os.lstat(left), os.lstat(right))


def _is_free(path: str) -> bool:
    """Whether nothing is there, or an empty directory, which a rename replaces."""
    return not os.path.lexists(path) or _is_empty_directory(path)


def _name_new(source: str, target: str) -> bool:
    """The content has the name `target` too; whether it has lost the name `source` by that."""
    if not stat.S_ISDIR(os.lstat(source).st_mode):
        try:
            _link(source, target)
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            rename_new(source, target)
            return True
        return False
    # Renaming onto an empty directory replaces it, onto any other fails: an own empty
    # directory at the target keeps the name from whoever comes in between.
    made = _make_directory(target)
    try:
        os.rename(source, target)
    except OSError:
        if made:
            # What counts is why the rename failed; an empty directory is in nobody's way.
            with suppress(OSError):
                os.rmdir(target)
        raise
    return True


def _copy_into_place(source: str, target: str, incoming: str, state: _State) -> None:
    remove(incoming)
    try:
        _copy(source, incoming, {})
        if not same_content(source, incoming) or _state(source) != state:
            raise OSError(errno.EAGAIN, "it changed while it was copied", source)
        _name_new(incoming, target)
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


def _copy(source: str, target: str, links: dict[tuple[int, int], str]) -> None:
    """Copies an entry and all below it; `links` maps inodes met before to their copies."""
    found = os.lstat(source)
    key = (found.st_dev, found.st_ino)
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(source), target)
        _set_times(target, found)
        return
    if stat.S_ISDIR(found.st_mode):
        os.mkdir(target, 0o700)
        for name in sorted(os.listdir(source)):
            _copy(os.path.join(source, name), os.path.join(target, name), links)
    elif not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "neither a file, a directory nor a link", source)
    elif key in links:
        os.link(links[key], target)
        return
    else:
        links[key] = target
        _copy_bytes(source, target)
    os.chmod(target, stat.S_IMODE(found.st_mode))
    _set_times(target, found)
    _sync(target, stat.S_ISDIR(found.st_mode))


def _copy_bytes(source: str, target: str) -> None:
    reader = os.open(source, os.O_RDONLY | _NO_FOLLOW)
    try:
        writer = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, 0o600)
        try:
            while piece := os.read(reader, PIECE):
                _write_all(writer, piece)
        finally:
            os.close(writer)
    finally:
        os.close(reader)


def _sync(path: str, is_directory: bool) -> None:
    if is_directory:
        sync_directory(path)
        return
    descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _set_times(path: str, found: os.stat_result) -> None:
    times = (found.st_atime_ns, found.st_mtime_ns)
    if os.utime in os.supports_follow_symlinks:
        os.utime(path, ns=times, follow_symlinks=False)
    elif not stat.S_ISLNK(found.st_mode):
        os.utime(path, ns=times)


def set_modified(path: str, nanoseconds: int) -> None:
    """The entry's modification time is the given one (ns since the epoch, UTC)."""
    found = os.lstat(path)
    if not stat.S_ISLNK(found.st_mode):
        os.utime(path, ns=(found.st_atime_ns, nanoseconds))


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


def _same_bytes(left: str, right: str) -> bool:
    with open(left, "rb", buffering=0) as one, open(right, "rb", buffering=0) as two:
        while piece := one.read(PIECE):
            if piece != two.read(len(piece)):
                return False
        return not two.read(1)


def remove(path: str) -> None:
    """Nothing is at the path. A link goes itself, never what it points to."""
    if os.path.isdir(path) and not os.path.islink(path):
        # Not at the top: it costs every start a third of what Python itself takes.
        from shutil import rmtree

        try:
            rmtree(path)
        except RecursionError:
            _remove_deep(path)
        return
    with suppress(FileNotFoundError):
        os.unlink(path)


def _remove_deep(path: str) -> None:
    """What `rmtree` does, for a tree deeper than Python before 3.13 can recurse."""
    pending, directories = [path], []
    while pending:
        directory = pending.pop()
        directories.append(directory)
        with os.scandir(directory) as scan:
            entries = list(scan)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            else:
                os.unlink(entry.path)
    for directory in reversed(directories):
        os.rmdir(directory)
