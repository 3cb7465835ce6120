"""What the command prints: rows, sizes and times as text, and the same things as JSON.

Whatever comes from disk goes through `inert` before it reaches a terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import localtime, strftime
from unicodedata import category, east_asian_width

from lifecycle._layout import SUFFIX
from lifecycle._plan import DeleteOpts, Plan, PlanItem, Skipped, local_time
from lifecycle._records import first_cwd, title_of
from lifecycle._select import Selection

__all__ = [
    "Rows",
    "count",
    "document",
    "filters_text",
    "inert",
    "item_fields",
    "list_fields",
    "list_lines",
    "plan_fields",
    "plan_lines",
    "short_ids",
    "size",
    "skip_fields",
    "skip_lines",
    "stamp",
    "title",
    "width",
]

_SHORTEST_ID = 8
_PROJECT_COLUMNS = 28
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def inert(text: str) -> str:
    """The text on one line, with nothing in it that could drive a terminal.

    White space becomes a space; control, format and bidirectional characters, and bytes that
    are no text, become U+FFFD.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def width(text: str) -> int:
    """Terminal columns that printable text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """The text in at most so many columns, with an ellipsis where it is cut."""
    if width(text) <= columns:
        return text
    kept, used = [], 1
    for character in text:
        used += _columns(character)
        if used > columns:
            break
        kept.append(character)
    return "".join(kept) + "…" if columns > 0 else ""


def _padded(text: str, columns: int) -> str:
    text = cut(text, columns)
    return text + " " * (columns - width(text))


def size(number: int) -> str:
    """A number of bytes in binary units."""
    value = float(number)
    for unit in _UNITS:
        if value < 1023.95 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{number} B" if unit == "B" else f"{value:.1f} {unit}"


def count(number: int, noun: str) -> str:
    """`1 session`, `2 sessions`."""
    return f"{number:,} {noun}" + "s" * (number != 1)


def stamp(nanoseconds: int) -> str:
    """RFC 3339 local time with its offset."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    try:
        # Several times as fast as a datetime, of which a long list makes many.
        moment = localtime(seconds)
    except (OverflowError, ValueError, OSError):
        return local_time(nanoseconds).isoformat()
    zone = moment.tm_gmtoff // 60
    hours, minutes = divmod(abs(zone), 60)
    fraction = f".{rest // 1_000:06}" if rest >= 1_000 else ""
    sign = "-" if zone < 0 else "+"
    return f"{strftime('%Y-%m-%dT%H:%M:%S', moment)}{fraction}{sign}{hours:02}:{minutes:02}"


def short_ids(session_ids: Iterable[str]) -> dict[str, str]:
    """Each id cut to 8 characters, or to as many more as keep it unique among them."""
    ordered = sorted(set(session_ids))
    needed = [_SHORTEST_ID] * len(ordered)
    for index in range(1, len(ordered)):
        before, name = ordered[index - 1 : index + 1]
        shared = next(
            (i for i, (a, b) in enumerate(zip(before, name, strict=False)) if a != b), len(before)
        )
        needed[index - 1] = max(needed[index - 1], shared + 1)
        needed[index] = max(needed[index], shared + 1)
    return {name: name[:length] for name, length in zip(ordered, needed, strict=True)}


def title(path: str, companions: Sequence[Path] = ()) -> str | None:
    """What a session is called, not yet inert; None where nothing tells."""
    own = path.removesuffix(SUFFIX)
    return title_of(path, own if companions and own in map(str, companions) else None)


class Rows:
    """Formats sessions as rows of one table whose ids are known beforehand."""

    def __init__(self, session_ids: Iterable[str]) -> None:
        self._ids = {name: inert(short) for name, short in short_ids(session_ids).items()}
        self._id_columns = max(map(width, self._ids.values()), default=_SHORTEST_ID)
        self._columns = os.get_terminal_size().columns if sys.stdout.isatty() else 0

    def row(self, item: PlanItem, mark: str = "", *, with_project: bool = False) -> str:
        """Short id, local date, size, messages, (project,) marks and title."""
        name = title(item.location, item.companions)
        return self.line(
            item.session_id,
            item.modified_ns,
            item.total_bytes,
            f"{item.messages:>6}",
            item.project if with_project else None,
            " ".join(filter(None, (mark, inert(name or "-")))),
        )

    def line(
        self,
        session_id: str,
        when: int,
        number: int,
        messages: str,
        project: str | None,
        text: str,
    ) -> str:
        """A row of plain values; the last is cut to the terminal, where there is one."""
        parts = [
            _padded(self._ids[session_id], self._id_columns),
            _date(when),
            f"{size(number):>10}",
            *filter(None, [messages]),
            *([] if project is None else [_padded(inert(project), _PROJECT_COLUMNS)]),
            text,
        ]
        line = "  ".join(parts).rstrip()
        return cut(line, self._columns) if self._columns else line


def _date(nanoseconds: int) -> str:
    try:
        year, month, day = localtime(nanoseconds // 1_000_000_000)[:3]
        return f"{year:04}-{month:02}-{day:02}"
    except (OverflowError, ValueError, OSError):
        return f"{local_time(nanoseconds):%Y-%m-%d}"


def plan_lines(items: Sequence[PlanItem], skipped: Sequence[Skipped]) -> Iterator[str]:
    """A plan as text: sessions by project, then what is left alone and why, then the total."""
    rows = Rows(item.session_id for item in items)
    going = {(item.session_id, item.project) for item in items if item.also_in}
    project = None
    for item in items:
        if item.project != project:
            project = item.project
            cwd = _recorded_directory(item)
            yield inert(project) + (f"  ({inert(cwd)})" if cwd else "")
        stays = [inert(name) for name in item.also_in if (item.session_id, name) not in going]
        mark = f"(stays in {', '.join(stays)})" if stays else ""
        yield "  " + rows.row(item, mark)
    yield from skip_lines("left alone", skipped)
    yield total_line(items)


def _recorded_directory(item: PlanItem) -> str | None:
    try:
        return first_cwd(str(item.path))
    except OSError:
        return None


def total_line(items: Sequence[PlanItem]) -> str:
    """How much a plan takes in all."""
    total = sum(item.total_bytes for item in items)
    beside = sum(item.companion_bytes for item in items)
    projects = len({item.directory for item in items})
    text = f"total: {count(len(items), 'session')} in {count(projects, 'project')}, {size(total)}"
    return text + (f", {size(beside)} of it in companions" if beside else "")


def skip_lines(heading: str, skipped: Sequence[Skipped]) -> Iterator[str]:
    """A heading with one line a thing; nothing where there is nothing."""
    if skipped:
        yield f"{heading}:"
    for skip in skipped:
        yield f"  {inert(str(skip.path))}: {inert(skip.reason)}"


def item_fields(item: PlanItem) -> dict[str, object]:
    """A session as JSON fields, named as in the library."""
    return {
        "session_id": item.session_id,
        "path": item.location,
        "project": item.project,
        "bytes": item.bytes,
        "messages": item.messages,
        "modified": stamp(item.modified_ns),
        "companions": list(map(str, item.companions)),
        "companion_bytes": item.companion_bytes,
        "also_in": list(item.also_in),
    }


def skip_fields(skip: Skipped) -> dict[str, object]:
    """Something left alone as JSON fields, named as in the library."""
    return {"session_id": skip.session_id, "path": str(skip.path), "reason": skip.reason}


def filters_text(opts: DeleteOpts) -> str:
    """The filters in words, a date with its offset."""
    parts = [
        f"last modified before {opts.before.isoformat()}" if opts.before else "",
        f"project {inert(opts.project)}" if opts.project else "",
        f"at most {opts.max_messages} messages" if opts.max_messages else "",
        f"session {inert(opts.session_id)}" if opts.session_id else "",
        "routine" if opts.routine else "",
    ]
    return ", ".join(filter(None, parts))


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
        "matched": map(item_fields, plan.matched),
        "skipped": map(skip_fields, plan.skipped),
        "failed": map(skip_fields, plan.failed),
    }


def list_fields(opts: DeleteOpts, selection: Selection) -> dict[str, object]:
    """A list as JSON fields; the sessions are examined as they are taken."""
    totals: dict[str, list[int]] = {}

    def fields(item: PlanItem) -> dict[str, object]:
        _add_up(totals, item)
        name = title(item.location, item.companions)
        live = selection.live.reason(item.session_id) or None
        return {**item_fields(item), "title": name, "live": live}

    def projects() -> Iterator[dict[str, object]]:
        for project, (sessions, total) in sorted(totals.items()):
            yield {"project": project, "sessions": sessions, "total_bytes": total}

    def skipped() -> Iterator[dict[str, object]]:
        yield from map(skip_fields, selection.skipped)

    return {
        "command": "list",
        "filters": _filter_fields(opts),
        "projects_root": selection.root,
        "sessions": map(fields, selection.items()),
        "skipped": skipped(),
        "projects": projects(),
        "status": 0,
    }


def _add_up(totals: dict[str, list[int]], item: PlanItem) -> None:
    entry = totals.setdefault(item.project, [0, 0])
    entry[0] += 1
    entry[1] += item.total_bytes


def list_lines(selection: Selection) -> Iterator[str]:
    """A list as text, a row as soon as its session is examined, then the sums."""
    rows = Rows(one.session_id for one in selection.candidates)
    totals: dict[str, list[int]] = {}
    for item in selection.items():
        _add_up(totals, item)
        marks = ["(live)"] if selection.live.reason(item.session_id) else []
        marks += [f"(also in {', '.join(map(inert, item.also_in))})"] if item.also_in else []
        yield rows.row(item, " ".join(marks), with_project=True)
    yield from skip_lines("left out", selection.skipped)
    for project, (sessions, total) in sorted(totals.items()):
        yield f"{inert(project)}: {count(sessions, 'session')}, {size(total)}"
    sessions, total = (sum(entry[i] for entry in totals.values()) for i in (0, 1))
    yield f"total: {count(sessions, 'session')}, {size(total)}"


def document(fields: Mapping[str, object]) -> Iterator[str]:
    """One JSON object as text, in pieces: a value that is an iterator is never held whole."""
    from json import dumps

    opening = "{"
    for name, value in fields.items():
        yield f"{opening}\n{dumps(name)}: "
        opening = ","
        if not isinstance(value, Iterator):
            yield dumps(value)
            continue
        separator = "["
        for entry in value:
            yield f"{separator}\n{dumps(entry)}"
            separator = ","
        yield "[]" if separator == "[" else "\n]"
    yield "\n}\n"
