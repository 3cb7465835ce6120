"""What the command prints for programs: one JSON document.

Its fields are named as in the library, where that has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from json import dumps
from json.encoder import encode_basestring_ascii as _quoted
from time import localtime, strftime

from lifecycle._plan import DeleteOpts, Plan, PlanItem, Skipped, local_time
from lifecycle._select import Selection
from lifecycle._show import add_up

# Type checkers take this name for true.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from lifecycle._archived import ArchivedSession

__all__ = ["archived_fields", "document", "list_fields", "plan_fields", "session", "skip", "stamp"]

# From here on the year may have five digits, which a datetime does not have.
_FAR = 250_000_000_000


def stamp(nanoseconds: int) -> str:
    """RFC 3339 local time with its offset."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    if not 0 <= seconds < _FAR:
        return local_time(nanoseconds).isoformat()
    # Several times as fast as a datetime, of which a long list makes many.
    text = strftime("%Y-%m-%dT%H:%M:%S%z", localtime(seconds))
    fraction = f".{rest // 1_000:06}" if rest >= 1_000 else ""
    return f"{text[:-5]}{fraction}{text[-5:-2]}:{text[-2:]}"


def session(item: PlanItem) -> str:
    """A session as a JSON object, its fields named as in the library."""
    return f"{{{_members(item)}}}"


def _members(item: PlanItem) -> str:
    # By hand: a plan holds ten thousands of these, and a general encoder takes thrice the time.
    return (
        f'"session_id": {_quoted(item.session_id)}, "path": {_quoted(item.location)}, '
        f'"project": {_quoted(item.project)}, "bytes": {item.bytes}, '
        f'"messages": {item.messages}, "modified": "{stamp(item.modified_ns)}", '
        f'"companions": {dumps([*map(str, item.companions)]) if item.companions else "[]"}, '
        f'"companion_bytes": {item.companion_bytes}, '
        f'"also_in": {dumps(item.also_in) if item.also_in else "[]"}'
    )


def skip(skipped: Skipped) -> str:
    """Something left alone as a JSON object, its fields named as in the library."""
    path = str(skipped.path)
    return dumps({"session_id": skipped.session_id, "path": path, "reason": skipped.reason})


def _filter_fields(opts: DeleteOpts) -> dict[str, object]:
    return {
        "before": opts.before.isoformat() if opts.before else None,
        "project": opts.project,
        "max_messages": opts.max_messages,
        "session_id": opts.session_id,
        "routine": opts.routine,
        "include_live": opts.include_live,
    }


def plan_fields(command: str, opts: DeleteOpts, plan: Plan) -> dict[str, object]:
    """A plan as JSON fields, named as in the library."""
    return {
        "command": command,
        "dry_run": opts.dry_run,
        "filters": _filter_fields(opts),
        "projects_root": str(plan.projects_root),
        "total_bytes": plan.total_bytes,
        "matched": map(session, plan.matched),
        "skipped": map(skip, plan.skipped),
        "failed": map(skip, plan.failed),
    }


def list_fields(opts: DeleteOpts, selection: Selection) -> dict[str, object]:
    """A list as JSON fields; the sessions are examined as they are taken."""
    totals: dict[str, list[int]] = {}

    def sessions() -> Iterator[str]:
        for item in selection.items():
            add_up(totals, item)
            live = selection.live.reason(item.session_id) or None
            yield f'{{{_members(item)}, "title": {dumps(item.title)}, "live": {dumps(live)}}}'

    def skipped() -> Iterator[str]:
        yield from map(skip, selection.skipped)

    def projects() -> Iterator[str]:
        for project, (number, total) in sorted(totals.items()):
            yield dumps({"project": project, "sessions": number, "total_bytes": total})

    return {
        "command": "list",
        "filters": _filter_fields(opts),
        "projects_root": selection.root,
        "sessions": sessions(),
        "skipped": skipped(),
        "projects": projects(),
        "status": 0,
    }


def archived_fields(command: str, sessions: Iterable[ArchivedSession]) -> dict[str, object]:
    """What the archive holds as JSON fields."""
    texts = (
        dumps(
            {
                "session_id": one.session_id,
                "path": str(one.path),
                "project": one.project,
                "bytes": one.bytes,
                "companion_bytes": one.companion_bytes,
                "archived": stamp(one.archived_ns),
                "title": one.title,
            }
        )
        for one in sessions
    )
    return {"command": command, "archived": texts, "status": 0}


def document(fields: Mapping[str, object]) -> Iterator[str]:
    """One JSON object as text, in pieces.

    A value that is an iterator gives the entries of an array, each as JSON text already, and
    is never held whole.
    """
    opening = "{"
    for name, value in fields.items():
        yield f"{opening}\n{dumps(name)}: "
        opening = ","
        if not isinstance(value, Iterator):
            yield dumps(value)
            continue
        separator = "["
        for entry in value:
            yield f"{separator}\n{entry}"
            separator = ","
        yield "[]" if separator == "[" else "\n]"
    yield "\n}\n"
