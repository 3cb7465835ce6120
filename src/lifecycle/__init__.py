"""Archive, restore and delete Claude Code session transcripts, losing nothing unasked.

The names below load their modules when they are first used: `import lifecycle` itself costs
next to nothing. No name here is also a submodule's, so `lifecycle.delete` is always the module.
"""

from __future__ import annotations

# Type checkers take this name for true, which spares everybody else the import of typing.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from lifecycle._live import LiveSessionError
    from lifecycle.archive import (
        ArchiveConflictError,
        RestoreResult,
        archive_session,
        restore_session,
    )
    from lifecycle.delete import (
        DeleteOpts,
        DeletePlan,
        NoFilterError,
        PlanItem,
        Skipped,
        delete_sessions,
        execute_delete,
        plan_delete,
    )
    from lifecycle.floor import FloorStats, Message, evaluate_math_floor, read_messages
    from lifecycle.ids import (
        AmbiguousSessionError,
        SessionNotFoundError,
        matches_session_id,
        resolve_session,
    )
    from lifecycle.tombstone import (
        TombstoneFileError,
        is_tombstoned,
        load_tombstones,
        remove_tombstones,
        tombstone_ids,
        tombstone_path,
    )

__version__ = "1.0.0"

__all__ = [
    "AmbiguousSessionError",
    "ArchiveConflictError",
    "DeleteOpts",
    "DeletePlan",
    "FloorStats",
    "LiveSessionError",
    "Message",
    "NoFilterError",
    "PlanItem",
    "RestoreResult",
    "SessionNotFoundError",
    "Skipped",
    "TombstoneFileError",
    "__version__",
    "archive_session",
    "delete_sessions",
    "evaluate_math_floor",
    "execute_delete",
    "is_tombstoned",
    "load_tombstones",
    "matches_session_id",
    "plan_delete",
    "read_messages",
    "remove_tombstones",
    "resolve_session",
    "restore_session",
    "tombstone_ids",
    "tombstone_path",
]

_HOMES = {
    "archive": "ArchiveConflictError LiveSessionError RestoreResult archive_session "
    "restore_session",
    "delete": "DeleteOpts DeletePlan NoFilterError PlanItem Skipped delete_sessions "
    "execute_delete plan_delete",
    "floor": "FloorStats Message evaluate_math_floor read_messages",
    "ids": "AmbiguousSessionError SessionNotFoundError matches_session_id resolve_session",
    "tombstone": "TombstoneFileError is_tombstoned load_tombstones remove_tombstones "
    "tombstone_ids tombstone_path",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def _load(name: str) -> object:
    from importlib import import_module

    if name in _HOMES:
        return import_module(f"lifecycle.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'lifecycle' has no attribute {name!r}")
    value: object = getattr(import_module(f"lifecycle.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


if not TYPE_CHECKING:
    # Hidden from type checkers, which would take it for leave to use any name.
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_HOMES})
