"""Default places, the one thing that the library takes from the environment; project names."""

from __future__ import annotations

import os

__all__ = [
    "LONGEST_PROJECT",
    "archive_directory",
    "cache_directory",
    "config_of",
    "encode_project",
    "is_config",
    "root_directory",
]


# Claude Code cuts longer project directory names here and adds a hash.
LONGEST_PROJECT = 200
_CONFIG_MARKS = ("file-history", "history.jsonl", "sessions", "settings.json", "todos")


def _given(path: str | os.PathLike[str] | None) -> str:
    text = "" if path is None else os.fspath(path)
    if isinstance(text, bytes):
        raise TypeError("a path must be str, not bytes")
    if "\0" in text:
        raise ValueError("a path must not hold a NUL character")
    return os.path.abspath(os.path.expanduser(text)) if text else ""


def _config_directory() -> str:
    return _given(os.environ.get("CLAUDE_CONFIG_DIR")) or _home(".claude")


def _home(*parts: str) -> str:
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise ValueError("the home directory is not known: set HOME, or name the directories")
    return os.path.join(home, *parts)


def root_directory(path: str | os.PathLike[str] | None) -> str:
    """The projects root as an absolute path; None is the default, "" a ValueError."""
    if path is not None and not os.fspath(path):
        raise ValueError("the projects root must not be empty")
    return _given(path) or os.path.join(_config_directory(), "projects")


def archive_directory(path: str | os.PathLike[str] | None) -> str:
    """The archive directory as an absolute path; None or "" is the default."""
    return _given(path) or os.path.join(_config_directory(), "archive")


def cache_directory(path: str | os.PathLike[str] | None) -> str:
    """The cache directory as an absolute path; None or "" is the default."""
    return _given(path) or _home(".cache", "session-search")


def config_of(root: str) -> str | None:
    """The config directory of a projects root, however that is spelled; None if it has none.

    Where links lead to a root called `projects` or away from one, that side is taken which
    looks like a config directory; where both or none do, the one by which it was called.
    """
    found = [path for path in dict.fromkeys((root, os.path.realpath(root))) if _is_named(path)]
    places = [os.path.dirname(path) for path in found] + _default_of(root)
    return next(filter(is_config, places), places[0] if places else None)


def _is_named(root: str) -> bool:
    return os.path.basename(root) == "projects"


def _default_of(root: str) -> list[str]:
    """The default config directory, if the root is its projects root by another name."""
    try:
        default = _config_directory()
        same = os.path.samefile(root, os.path.join(default, "projects"))
    except (OSError, ValueError):
        return []
    return [default] if same else []


def is_config(directory: str) -> bool:
    """Whether a directory holds what a config directory has beside its projects root."""
    return any(os.path.lexists(os.path.join(directory, name)) for name in _CONFIG_MARKS)


def encode_project(directory: str) -> str:
    """The project directory name that Claude Code makes of an absolute working directory.

    Not exact over 200 characters, where Claude Code cuts the name and adds a hash.
    """
    units = directory.encode("utf-16-le", "surrogatepass")
    characters = (units[i : i + 2].decode("utf-16-le", "replace") for i in range(0, len(units), 2))
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in characters)
