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
    "TEMPORARY",
    "append_or_undo",
    "copy_new",
    "create_directories",
    "exclusive",
    "name_new",
    "remove",
    "remove_empty_directories",
    "remove_empty_tree",
    "rename_new",
    "replace_atomically",
    "require_removable",
    "set_aside",
    "set_modified",
    "superseded",
    "sync_directory",
]

PIECE = 1 << 20
# What a name is called, or how it ends, while something is being put there.
TEMPORARY = ".lifecycle-tmp"
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
    Whoever takes several does so in one order, or two runs wait for each other for ever:
    the projects root, the archive, the cache directory.
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
    if sys.platform != "win32":
        _sync(directory, _DIRECTORY)


def sync_tree(path: str) -> None:
    """The entry and all below it are on disk, but for its own name."""
    found = os.lstat(path)
    if stat.S_ISDIR(found.st_mode):
        for name in os.listdir(path):
            sync_tree(os.path.join(path, name))
        sync_directory(path)
    elif stat.S_ISREG(found.st_mode):
        _sync(path, _NO_FOLLOW)


def _sync(path: str, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | flags)
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

    Of a tree that holds anything else, or hides what it holds, the empty directories are gone.
    """
    hidden: list[OSError] = []
    walk = os.walk(path, topdown=False, onerror=hidden.append)
    tree = [] if os.path.islink(path) else list(walk)
    if not tree:
        return
    if not hidden and not any(files or _links(top, names) for top, names, files in tree):
        set_aside(path, outgoing)
        tree = list(os.walk(outgoing, topdown=False))
    remove_empty_directories([directory for directory, _, _ in tree])


def _links(top: str, names: list[str]) -> bool:
    return any(os.path.islink(os.path.join(top, name)) for name in names)


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
    temporary = path + TEMPORARY
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


def require_removable(path: str) -> None:
    """Raises OSError where the directory would not let go of an entry; changes nothing.

    To be asked first where a file gets a second name before it loses the first: a second
    name needs no permission to write where the first one is.
    """
    directory = os.path.dirname(path)
    found = os.stat(directory)
    owners = (0, found.st_uid, os.lstat(path).st_uid)
    is_sticky = found.st_mode & stat.S_ISVTX and hasattr(os, "geteuid")
    if not os.access(directory, os.W_OK) or (is_sticky and os.geteuid() not in owners):
        read_only = hasattr(os, "statvfs") and os.statvfs(directory).f_flag & os.ST_RDONLY
        code = errno.EROFS if read_only else errno.EACCES
        raise OSError(code, os.strerror(code), directory)


def require_emptiable(path: str) -> None:
    """Raises OSError where a directory in the tree would not let go of what it holds."""
    if os.path.islink(path) or not os.path.isdir(path):
        return
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)
    for name in os.listdir(path):
        require_emptiable(os.path.join(path, name))


def rename_new(source: str, target: str) -> None:
    """The file is at `target`, where nothing was, and no longer at `source`.

    FileExistsError where something is at `target`; both stay. Killed in between, the one
    file has both names. Not durable before `sync_directory`.
    """
    require_removable(source)
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
    except OSError as error:
        # Never the only name that is left.
        if os.path.lexists(source):
            try:
                os.unlink(target)
            except OSError as problem:
                error.add_note(f"{target} stays too: {problem.strerror}")
        raise


def superseded(path: str) -> str:
    """A name beside the path for old content; of a transcript the one that Claude Code gives."""
    return f"{path}.superseded-{time.time_ns() // 1_000_000}"


def set_aside(source: str, aside: str) -> None:
    """The entry is at `aside`, in place of leftovers there, and no longer at `source`.

    `aside` must be a name for nothing else, on the same file system. Not durable before
    `sync_directory`.
    """
    remove(aside)
    os.rename(source, aside)


def name_new(source: str, target: str) -> bool:
    """What is at `source` is at `target`, where nothing was or an empty directory.

    Returns whether it has lost the name `source` by that: a directory has, a file keeps both
    names where it can. FileExistsError where something is at `target`.
    """
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
    was_free = not os.path.lexists(target)
    try:
        _make_directory(target)
        os.rename(source, target)
    except BaseException:
        if was_free:
            # What counts is why the rename failed; an empty directory is in nobody's way.
            with suppress(OSError):
                os.rmdir(target)
        raise
    return True


def copy_new(source: str, target: str, links: dict[tuple[int, int], str] | None = None) -> None:
    """A copy of the entry and of all below it is at `target`, where nothing was, and on disk.

    Bytes, modes, modification times and hard links within are those of the source; `links`
    maps inodes met before to their copies. Where it fails, part of a copy may be there.
    """
    links = {} if links is None else links
    found = os.lstat(source)
    key = (found.st_dev, found.st_ino)
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(source), target)
        _set_times(target, found)
        return
    if stat.S_ISDIR(found.st_mode):
        os.mkdir(target, 0o700)
        for name in sorted(os.listdir(source)):
            copy_new(os.path.join(source, name), os.path.join(target, name), links)
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
    if stat.S_ISDIR(found.st_mode):
        sync_directory(target)
    else:
        _sync(target, _NO_FOLLOW)


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


def _set_times(path: str, found: os.stat_result) -> None:
    times = (found.st_atime_ns, found.st_mtime_ns)
    if os.utime in os.supports_follow_symlinks:
        os.utime(path, ns=times, follow_symlinks=False)
    elif not stat.S_ISLNK(found.st_mode):
        os.utime(path, ns=times)


def set_modified(path: str, nanoseconds: int) -> None:
    """The entry's modification time is the given one (ns since the epoch, UTC)."""
    found = os.lstat(path)
    if stat.S_ISLNK(found.st_mode):
        return
    try:
        os.utime(path, ns=(found.st_atime_ns, nanoseconds))
    except OSError as error:
        # Python leaves it out, since the time might be what is wrong.
        error.filename = path
        raise


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
