"""A working directory as a filter: exactly the sessions that began there."""

from __future__ import annotations

import os

from lifecycle._places import LONGEST_PROJECT, encode_project

__all__ = ["WorkingDirectory"]


class WorkingDirectory:
    """An absolute path, as it is given and as its links resolve."""

    def __init__(self, path: str) -> None:
        self._paths = {os.path.normpath(path), os.path.realpath(path)}
        self._names = {encode_project(name) for name in self._paths}

    def may_be(self, project: str) -> bool:
        """Whether the directory may be called so; a cut name is decided by the record."""
        return project in self._names or any(
            project[:LONGEST_PROJECT] == name[:LONGEST_PROJECT]
            for name in self._names
            if len(name) > LONGEST_PROJECT
        )

    def is_recorded(self, cwd: str | None, project: str) -> bool:
        """Whether a session with this first recorded directory is meant."""
        return cwd in self._paths if cwd else project in self._names
