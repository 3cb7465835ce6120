"""What the command prints for people: plans and lists as rows, sizes and times as text.

Whatever comes from disk goes through `inert` before it reaches a terminal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from itertools import pairwise

from lifecycle._plan import DeleteOpts, PlanItem, Skipped, local_time
from lifecycle._records import first_cwd
from lifecycle._select import Selection

# Type checkers take this name for true.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from lifecycle._archived import ArchivedSession

__all__ = [
    "Rows",
    "add_up",
    "archived_lines",
    "count",
    "filters_text",
    "inert",
    "list_lines",
    "plan_lines",
    "project_cell",
    "size",
    "skip_lines",
    "width",
]

_SHORTEST_ID = 8
_PROJECT_COLUMNS = 28
_WHITE = dict.fromkeys(map(ord, "\t\n\v\f\r"), " ")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def inert(text: str) -> str:
    """The text on one line, with nothing in it that could drive a terminal.

    White space becomes a space; control, format and bidirectional characters, and bytes that
    are no text, become U+FFFD.
    """
    if text.isprintable():
        return text
    text = text.translate(_WHITE)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def width(text: str) -> int:
    """Terminal columns that printable text takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    from unicodedata import category, east_asian_width

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


class Rows:
    """Formats sessions as rows of one table whose ids are known beforehand.

    An id is cut to 8 characters, or to as many more as tell it from all others of the table.
    """

    def __init__(self, session_ids: Iterable[str]) -> None:
        ordered = sorted(session_ids)
        self._lengths = _lengths(ordered)
        self._id_columns = max(map(width, map(self._short, ordered)), default=_SHORTEST_ID)
        self._columns = os.get_terminal_size().columns if sys.stdout.isatty() else 0

    def _short(self, session_id: str) -> str:
        return inert(session_id[: self._lengths.get(session_id, _SHORTEST_ID)])

    def row(self, item: PlanItem, *cells: str) -> str:
        """Short id, local date, size, messages, what else there is to say, and title."""
        rest = (f"{item.messages:>6}", *cells)
        return self.line(item.session_id, item.modified_ns, item.total_bytes, item.title, *rest)

    def line(self, session_id: str, when: int, number: int, title: str | None, *cells: str) -> str:
        """A row of plain values; the title comes last, and is cut to the terminal if any."""
        text = inert(title) if title else "-"
        short = _padded(self._short(session_id), self._id_columns)
        line = "  ".join((short, _date(when), f"{size(number):>10}", *cells, text))
        return cut(line.rstrip(), self._columns) if self._columns else line.rstrip()


def _lengths(ordered: Sequence[str]) -> dict[str, int]:
    """How many characters of an id tell it from all others, where 8 do not."""
    lengths: dict[str, int] = {}
    for one, other in pairwise(ordered):
        if one[:_SHORTEST_ID] == other[:_SHORTEST_ID] and one != other:
            # Not of paths: characters are what is meant.
            needed = len(os.path.commonprefix((one, other))) + 1  # noqa: RUF071
            lengths[one] = max(lengths.get(one, 0), needed)
            lengths[other] = needed
    return lengths


def project_cell(project: str | None) -> str:
    """The name of a project in a column of its own."""
    return _padded(inert(project or "-"), _PROJECT_COLUMNS)


def _date(nanoseconds: int) -> str:
    try:
        return date.fromtimestamp(nanoseconds // 1_000_000_000).isoformat()
    except (OverflowError, ValueError, OSError):
        return f"{local_time(nanoseconds):%Y-%m-%d}"


def plan_lines(items: Sequence[PlanItem], skipped: Sequence[Skipped]) -> Iterator[str]:
    """A plan as text: sessions by project, then what is left alone and why, then the total."""
    rows = Rows(item.session_id for item in items)
    going = {(item.session_id, item.project) for item in items if item.also_in}
    directory = None
    for item in items:
        # One object for all sessions of a project as a rule, and paths are slow to compare.
        if item.directory is not directory and item.directory != directory:
            directory = item.directory
            cwd = _recorded_directory(item)
            yield inert(item.project) + (f"  ({inert(cwd)})" if cwd else "")
        stays = [inert(name) for name in item.also_in if (item.session_id, name) not in going]
        marks = [f"(stays in {', '.join(stays)})"] if stays else []
        yield "  " + rows.row(item, *marks)
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


def add_up(totals: dict[str, list[int]], item: PlanItem) -> None:
    """Adds a session to the sums of its project: sessions, bytes."""
    entry = totals.setdefault(item.project, [0, 0])
    entry[0] += 1
    entry[1] += item.total_bytes


def list_lines(selection: Selection) -> Iterator[str]:
    """A list as text, a row as soon as its session is examined, then the sums."""
    rows = Rows(session_id for _, session_id in selection.candidates)
    totals: dict[str, list[int]] = {}
    for item in selection.items():
        add_up(totals, item)
        cells = [project_cell(item.project)]
        cells += ["(live)"] if selection.live.reason(item.session_id) else []
        cells += [f"(also in {', '.join(map(inert, item.also_in))})"] if item.also_in else []
        yield rows.row(item, *cells)
    yield from skip_lines("left out", selection.skipped)
    for project, (sessions, total) in sorted(totals.items()):
        yield f"{inert(project)}: {count(sessions, 'session')}, {size(total)}"
    sessions, total = (sum(entry[i] for entry in totals.values()) for i in (0, 1))
    yield f"total: {count(sessions, 'session')}, {size(total)}"


def archived_lines(sessions: Sequence[ArchivedSession]) -> Iterator[str]:
    """What the archive holds as text, dated by when it was archived."""
    rows = Rows(one.session_id for one in sessions)
    for one in sessions:
        yield rows.line(
            *(one.session_id, one.archived_ns, one.total_bytes, one.title),
            project_cell(one.project),
        )
    total = sum(one.total_bytes for one in sessions)
    yield f"total: {count(len(sessions), 'session')}, {size(total)}"
