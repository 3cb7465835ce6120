"""The command `session-lifecycle`: it parses, plans, shows, asks, acts and reports.

Data goes to stdout; questions, progress and errors go to stderr. With `--json` stdout is
exactly one JSON document, on every path.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress

from lifecycle._terminal import (
    NOWHERE,
    CutShortError,
    RefusedError,
    UnwrittenError,
    accounted_for,
    confirmed,
    mention,
    message_of,
    print_document,
    print_lines,
    progress,
    undisturbed,
)
from lifecycle._words import (
    instant,
    positive_number,
    project_filter,
    project_joined,
    some_text,
)

# Type checkers take this name for true. Handlers import what they need when they run: a
# dry run over one session must not pay for everything that a restore takes.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any, NoReturn, TextIO, TypeVar

    from lifecycle._plan import DeleteOpts, Plan, PlanItem
    from lifecycle.archive import ArchivePlan
    from lifecycle.delete import DeletePlan
    from lifecycle.ids import SessionNotFoundError

    P = TypeVar("P", bound=Plan)

__all__ = ["main", "run"]

DONE, FAILED, USAGE, PARTLY = 0, 1, 2, 3


class _UsageError(Exception):
    """The words of the call are off."""


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        # A fixed width: to measure the terminal, argparse would load what takes longer to load
        # than a small run does.
        super().__init__(**options, formatter_class=_formatter)

    def error(self, message: str) -> NoReturn:
        raise _UsageError(message)


class _Once(argparse.Action):
    """An option whose second value would quietly take the place of the first."""

    def __call__(self, parser: object, namespace: object, values: object, *_: object) -> None:
        if getattr(namespace, self.dest) != self.default:
            raise argparse.ArgumentError(self, "may be given once")
        setattr(namespace, self.dest, values)


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=88)


def run() -> int:
    """`main` for a process that ends with it."""
    # Little here is garbage that only a collection finds, and the interpreter's last one would
    # look at every module once more: an eighth of the time of a small run.
    gc.disable()
    try:
        return main()
    finally:
        gc.freeze()


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status and never raises for bad input.

    SystemExit, as argparse does, for `--help` and `--version`.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A locale that cannot write a title must not end the run in the middle.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    try:
        return _run(given)
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            _give_up_unwritten(stream)


def _give_up_unwritten(stream: TextIO) -> None:
    """What the stream does not take is dropped: Python flushes at exit, and would fail again."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(given: list[str]) -> int:
    as_json = any(word.partition("=")[0] == "--json" for word in given)
    try:
        options = _parser(given).parse_args(project_joined(given))
        handler: Callable[[argparse.Namespace], int] = options.func
        status = handler(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except _UsageError as error:
        return _fail(as_json, error, USAGE)
    except KeyboardInterrupt:
        with undisturbed(), suppress(OSError):
            sys.stderr.write("\n")
            return _fail(as_json, RefusedError("interrupted"), FAILED)
        return FAILED
    except CutShortError as error:
        return _fail(False, error, FAILED)
    except UnwrittenError as error:
        return _fail(False, error, PARTLY)
    except BrokenPipeError:
        return FAILED
    except MemoryError:
        return _fail(as_json, RefusedError("out of memory"), FAILED)
    except (OSError, ValueError, LookupError, RuntimeError, RefusedError) as error:
        # NoFilterError is known by its name, since its module may not be loaded.
        status = USAGE if type(error).__name__ == "NoFilterError" else FAILED
        return _fail(as_json, error, status)


def _fail(as_json: bool, error: BaseException, status: int) -> int:
    from lifecycle._show import inert

    message = inert(message_of(error))
    # Where the terminal is gone there is nobody to tell.
    with suppress(OSError):
        print(f"session-lifecycle: {message}", file=sys.stderr, flush=True)
    if as_json:
        kind = type(error).__name__.lstrip("_")
        with suppress(OSError, RefusedError):
            print_document({"error": {"type": kind, "message": message}, "status": status})
    return status


# Parsing


def _parser(given: list[str]) -> argparse.ArgumentParser:
    """All commands, with the options of those that the call may mean.

    The others would take longer to describe than a small run takes in all.
    """
    from lifecycle import __version__

    shared = _shared_options()
    parser = _Parser(
        prog="session-lifecycle",
        description="Archive, restore and delete Claude Code sessions.",
        epilog="Exit status: 0 done, nothing to do or dry run; 1 refused, aborted, not found "
        "or failed; 2 usage, no filter included; 3 partly done.",
        parents=[shared],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (handler, add_arguments, text) in _COMMANDS.items():
        if name not in given:
            commands.add_parser(name, help=text, add_help=False)
            continue
        command = commands.add_parser(
            name, help=text, description=text, parents=[shared], allow_abbrev=False
        )
        add_arguments(command)
        command.set_defaults(func=handler, command=name)
    return parser


def _delete_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", metavar="SESSION", nargs="?", type=some_text, help="session id")
    _add_filters(parser)
    _add_consent(parser)


def _archive_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", metavar="SESSION", nargs="*", type=some_text, help="id or path")
    _add_filters(parser)
    _add_consent(parser)


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", metavar="SESSION", nargs="*", type=some_text, help="session id")
    text = "where a transcript goes whose origin is not recorded"
    parser.add_argument("--project", action=_Once, type=project_filter, help=text)


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", metavar="SESSION", nargs="?", type=some_text, help="session id")
    parser.add_argument("--archived", action="store_true", help="list the archive instead")
    _add_filters(parser)


def _floor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", metavar="SESSION", nargs="+", type=some_text, help="id or path")


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def _shared_options() -> _Parser:
    shared = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    for name, text in (
        ("--projects-root", "default: projects/ in $CLAUDE_CONFIG_DIR or ~/.claude"),
        ("--archive-dir", "default: archive/ in $CLAUDE_CONFIG_DIR or ~/.claude"),
        ("--cache-dir", "where the tombstone file is, default: ~/.cache/session-search"),
    ):
        shared.add_argument(name, metavar="DIR", type=some_text, help=text)
    shared.add_argument("--json", action="store_true", help="print one JSON document")
    return shared


def _add_filters(parser: argparse.ArgumentParser) -> None:
    filters = parser.add_argument_group("filters", "a session must pass all that are given")
    filters.add_argument(
        "--before",
        action=_Once,
        metavar="WHEN",
        type=instant,
        help="last modified before: 2026-11-01, 2026-11-01T12:00:00Z, or an age (12h, 30d, 2w)",
    )
    filters.add_argument(
        "--project",
        action=_Once,
        metavar="TEXT|PATH",
        type=project_filter,
        help="part of the project directory's name, or a working directory (/..., ., ~/...)",
    )
    filters.add_argument(
        "--max-messages",
        action=_Once,
        metavar="N",
        type=positive_number,
        default=0,
        help="at most N lines (records)",
    )
    filters.add_argument("--routine", action="store_true", help="the math floor says routine")


def _add_consent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--include-live", action="store_true", help="take sessions that are running too"
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="only show what would happen")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _directory(options: argparse.Namespace, name: str) -> str | None:
    given: str | None = getattr(options, name, None)
    return given


def _opts(options: argparse.Namespace) -> DeleteOpts:
    from lifecycle._plan import DeleteOpts

    try:
        return DeleteOpts(
            before=options.before,
            project=options.project or "",
            max_messages=options.max_messages,
            session_id=options.sessions or "",
            routine=options.routine,
            include_live=getattr(options, "include_live", False),
            dry_run=getattr(options, "dry_run", False),
        )
    except ValueError as error:
        raise _UsageError(str(error)) from error


def _as_json(options: argparse.Namespace) -> bool:
    return getattr(options, "json", False)


# Commands


def _delete(options: argparse.Namespace) -> int:
    from lifecycle.delete import execute_delete, plan_delete
    from lifecycle.tombstone import require_usable

    def plan(opts: DeleteOpts) -> DeletePlan:
        root, cache = _directory(options, "projects_root"), _directory(options, "cache_dir")
        found = plan_delete(
            *(root, cache, opts),
            archive_dir=_directory(options, "archive_dir"),
            with_titles=_shows_plan(options),
            may_fork=True,
        )
        if found.matched:
            require_usable(found.tombstone_path)
        return found

    def result(done: DeletePlan) -> _Done:
        return _Done("deleted", done.deleted, "tombstone_path", done.tombstone_path)

    return _by_plan(options, plan, execute_delete, result, "for good")


def _recover(options: argparse.Namespace) -> None:
    """Settles what interrupted runs left, and what they were moving when that is in the way."""
    from lifecycle._disk import TEMPORARY
    from lifecycle._places import archive_directory
    from lifecycle._show import count
    from lifecycle.delete import recover_sessions

    root, cache = _directory(options, "projects_root"), _directory(options, "cache_dir")
    outcome = recover_sessions(root, cache)
    if outcome.given_back or outcome.reaped:
        mention(
            f"settled an interrupted delete: {count(len(outcome.given_back), 'session')} given "
            f"back, {count(len(outcome.reaped), 'session')} removed"
        )
    leftover = os.path.join(archive_directory(_directory(options, "archive_dir")), TEMPORARY)
    if options.command == "archive" or os.path.lexists(leftover):
        _finish_archives(options)


def _finish_archives(options: argparse.Namespace) -> None:
    from lifecycle._show import count, skip_lines
    from lifecycle.archive import finish_archives

    places = _directory(options, "projects_root"), _directory(options, "archive_dir")
    done, left = finish_archives(*places)
    if done:
        mention(f"finished an interrupted archive of {count(len(done), 'session')}")
    for line in skip_lines("left by an interrupted archive", left):
        mention(line)


class _Done:
    """What a plan has done so far, in the words of its command."""

    def __init__(
        self, word: str, items: tuple[PlanItem, ...], place_name: str, place: Path
    ) -> None:
        self.word = word
        self.items = items
        self.place_name = place_name
        self.place = place

    @property
    def in_words(self) -> str:
        """How many sessions are done with."""
        from lifecycle._show import count

        return f"{self.word} {count(len(self.items), 'session')}"


def _by_plan(
    options: argparse.Namespace,
    make_plan: Callable[[DeleteOpts], P],
    execute: Callable[[P], P],
    result: Callable[[P], _Done],
    manner: str,
) -> int:
    """Plans, shows, asks, acts, and reports."""
    opts = _opts(options)
    if sys.stdout is None:
        raise RefusedError(NOWHERE)
    if opts.has_filter and not opts.dry_run:
        _recover(options)
    with progress("reading sessions"):
        plan = done = make_plan(opts)
    aborted = False
    if not plan.matched:
        status = _nothing_matched(options, opts, plan)
    else:
        place = result(plan).place
        aborted = not _shown_and_confirmed(options, opts, plan, manner.format(place=place))
        status = FAILED if aborted else DONE
        if not aborted and not opts.dry_run:
            with progress(f"{options.command} goes on"):
                done = execute(plan)
    what = result(done)
    with accounted_for(what.in_words if what.items else ""):
        if done is not plan:
            status = _tell_result(options, plan, done, what)
        if _as_json(options):
            from lifecycle._json import plan_fields, session

            fields = plan_fields(options.command, opts, done)
            fields[what.word] = map(session, what.items)
            fields[what.place_name] = str(what.place)
            print_document({**fields, "aborted": aborted, "status": status})
    return status


def _must_ask(options: argparse.Namespace) -> bool:
    return not (options.dry_run or options.yes)


def _shows_plan(options: argparse.Namespace) -> bool:
    """Whether the plan is shown as rows: always but where JSON is all that anybody will see."""
    return _must_ask(options) or not _as_json(options)


def _shown_and_confirmed(
    options: argparse.Namespace, opts: DeleteOpts, plan: Plan, manner: str
) -> bool:
    """Shows the plan and asks, where that is needed; whether to go on."""
    from lifecycle._show import count, filters_text, inert, plan_lines, size

    as_json = _as_json(options)
    must_ask = _must_ask(options)
    if _shows_plan(options):
        print_lines([f"{options.command}: {filters_text(opts)}"], to_stderr=as_json)
        print_lines(plan_lines(plan.matched, plan.skipped), to_stderr=as_json)
    if opts.dry_run and not as_json:
        print_lines(["dry run: nothing was changed"])
    if not must_ask:
        return True
    what = f"{count(len(plan.matched), 'session')} ({size(plan.total_bytes)})"
    if confirmed(inert(f"{options.command.capitalize()} {what} {manner}?")):
        return True
    print("aborted: nothing was changed", file=sys.stderr)
    return False


def _nothing_matched(options: argparse.Namespace, opts: DeleteOpts, plan: Plan) -> int:
    from lifecycle._show import filters_text, inert, skip_lines
    from lifecycle.ids import find_sessions

    left = [skip for skip in plan.skipped if skip.session_id] if opts.session_id else []
    if opts.session_id and not left and not find_sessions(opts.session_id, plan.projects_root):
        notes = [f"{skip.path}: {skip.reason}" for skip in plan.skipped]
        raise _not_found(options, opts.session_id, notes)
    if not _as_json(options):
        print_lines(skip_lines("left alone", plan.skipped))
        missing = _missing(str(plan.projects_root))
        print_lines([f"nothing to {options.command} ({filters_text(opts)}){missing}"])
    if not left:
        return DONE
    print(f"session-lifecycle: {inert(opts.session_id)}: {inert(left[0].reason)}", file=sys.stderr)
    return FAILED


def _missing(root: str) -> str:
    from lifecycle._show import inert

    return "" if os.path.isdir(root) else f": {inert(root)} does not exist"


def _tell_result(options: argparse.Namespace, plan: Plan, done: Plan, what: _Done) -> int:
    """Says what was done, skipped and failed; returns the exit status."""
    from lifecycle._show import inert, size, skip_lines

    known = set(plan.skipped)
    new = [skip for skip in done.skipped if skip not in known]
    trouble = [*skip_lines("skipped", new), *skip_lines("failed", done.failed)]
    print_lines(trouble, to_stderr=True)
    if not _as_json(options):
        total = size(sum(item.total_bytes for item in what.items))
        print_lines([f"{what.in_words}, {total}; see {inert(str(what.place))}"])
    if len(what.items) == len(plan.matched) and not done.failed:
        return DONE
    failed = {skip.session_id for skip in done.failed}
    begun = (item for item in plan.matched if item.session_id in failed)
    is_begun = any(not os.path.lexists(item.location) for item in begun)
    return PARTLY if what.items or is_begun else FAILED


def _archive(options: argparse.Namespace) -> int:
    if options.sessions:
        filters = _opts(argparse.Namespace(**{**vars(options), "sessions": None}))
        if filters.has_filter:
            raise _UsageError("give session ids or filters, not both")
        if options.dry_run:
            raise _UsageError("-n goes with filters: sessions that are named are archived at once")
        return _archive_each(options)
    from lifecycle.archive import execute_archive, plan_archive

    def plan(opts: DeleteOpts) -> ArchivePlan:
        root, archive = _directory(options, "projects_root"), _directory(options, "archive_dir")
        return plan_archive(root, archive, opts, with_titles=_shows_plan(options), may_fork=True)

    def result(done: ArchivePlan) -> _Done:
        return _Done("archived", done.archived, "archive_directory", done.archive_directory)

    return _by_plan(options, plan, execute_archive, result, "in {place}")


def _each(
    options: argparse.Namespace,
    action: Callable[[str], tuple[str, dict[str, object]]],
    *,
    changes: bool = True,
) -> int:
    """Does one thing for each session named; one that fails does not stop the others."""
    from lifecycle._show import inert

    if sys.stdout is None:
        raise RefusedError(NOWHERE)
    results: list[dict[str, object]] = []
    lines: list[str] = []
    failed = 0
    names = list(dict.fromkeys(options.sessions))
    for name in names:
        try:
            text, fields = action(name)
        except (OSError, ValueError, LookupError, RuntimeError) as error:
            failed += 1
            _add_hint(options, name, error)
            message = inert(message_of(error))
            with suppress(OSError):
                print(f"session-lifecycle: {inert(name)}: {message}", file=sys.stderr, flush=True)
            fields = {"error": {"type": type(error).__name__, "message": message}}
        else:
            lines.append(inert(text))
        results.append({"session": name, **fields})
        lines = lines if _as_json(options) else _told(lines)
    status = DONE if not failed else FAILED if failed == len(names) else PARTLY
    done = len(names) - failed
    with accounted_for(f"{options.command}: {done} done" if done and changes else ""):
        if _as_json(options):
            print_document({"command": options.command, "results": results, "status": status})
        else:
            print_lines(lines)
    return status


def _told(lines: list[str]) -> list[str]:
    """Prints the lines; returns those that cannot be, to be told at the end."""
    try:
        print_lines(lines)
    except OSError:
        return lines
    return []


def _not_found(
    options: argparse.Namespace, session_id: str, notes: Iterable[str] = ()
) -> SessionNotFoundError:
    """The error for a session that is not where it was looked for, with notes and a hint."""
    from lifecycle.ids import SessionNotFoundError

    error = SessionNotFoundError(session_id)
    for note in notes:
        error.add_note(note)
    _add_hint(options, session_id, error)
    return error


def _add_hint(options: argparse.Namespace, session_id: str, error: Exception) -> None:
    """Adds where a session is that is not found where it was looked for, as far as can be told."""
    from lifecycle.ids import SessionNotFoundError

    if isinstance(error, SessionNotFoundError):
        try:
            hint = _whereabouts(options, session_id)
        except (OSError, ValueError) as problem:
            hint = f"where it is cannot be told: {message_of(problem)}"
        if hint:
            error.add_note(hint)


def _whereabouts(options: argparse.Namespace, session_id: str) -> str:
    from lifecycle.archive import archived_sessions
    from lifecycle.ids import find_sessions, matches_session_id
    from lifecycle.tombstone import load_tombstones

    if find_sessions(session_id, _directory(options, "projects_root")):
        return "it is in its project, not in the archive"
    if archived_sessions(_directory(options, "archive_dir"), session_id):
        return "it is archived: see restore"
    dead = load_tombstones(_directory(options, "cache_dir"))
    return "it was deleted" if any(matches_session_id(one, session_id) for one in dead) else ""


def _archive_each(options: argparse.Namespace) -> int:
    from lifecycle.archive import archive_session

    def action(name: str) -> tuple[str, dict[str, object]]:
        with progress(f"archiving {name[:36]}"):
            path = archive_session(
                name,
                _directory(options, "archive_dir"),
                projects_root=_directory(options, "projects_root"),
                include_live=options.include_live,
            )
        return f"archived {path}", {"path": str(path)}

    return _each(options, action)


def _restore(options: argparse.Namespace) -> int:
    if not options.sessions:
        if options.project:
            raise _UsageError("--project goes with the sessions to restore")
        return _list_archived(options, None)
    from lifecycle.archive import restore_session

    def action(name: str) -> tuple[str, dict[str, object]]:
        with progress(f"restoring {name[:36]}"):
            done = restore_session(
                name,
                _directory(options, "archive_dir"),
                projects_root=_directory(options, "projects_root"),
                project=options.project,
                cache_dir=_directory(options, "cache_dir"),
            )
        notes = [
            "; dated now, since the retention sweep would remove it" if done.times_reset else "",
            "; its tombstone is removed" if done.tombstone_removed else "",
            f"; {done.left} holds more, which was left" if done.left else "",
        ]
        fields = {
            "path": str(done.path),
            "times_reset": done.times_reset,
            "tombstone_removed": done.tombstone_removed,
            "left": str(done.left) if done.left else None,
        }
        return f"restored {done.path}{''.join(notes)}", fields

    return _each(options, action)


def _list(options: argparse.Namespace) -> int:
    opts = _opts(options)
    if options.archived:
        return _list_archived(options, opts)
    from dataclasses import replace

    from lifecycle._places import root_directory
    from lifecycle._select import Selection

    root = root_directory(_directory(options, "projects_root"))
    with progress("looking for sessions"):
        selection = Selection(root, replace(opts, include_live=True), with_titles=True)
    if opts.session_id and not selection.candidates and not selection.skipped:
        raise _not_found(options, opts.session_id)
    selection.sort_by_age()
    if _as_json(options):
        from lifecycle._json import list_fields

        print_document(list_fields(opts, selection))
    else:
        from lifecycle._show import list_lines

        print_lines(list_lines(selection))
        if missing := _missing(root):
            print_lines([f"no sessions{missing}"])
    return DONE


def _list_archived(options: argparse.Namespace, opts: DeleteOpts | None) -> int:
    from lifecycle.archive import archived_sessions, fitting

    wanted = opts.session_id or None if opts else None
    found = archived_sessions(_directory(options, "archive_dir"), wanted)
    if wanted and not found:
        raise _not_found(options, wanted)
    if opts is not None and opts.has_filter:
        found = fitting(found, opts)
    if _as_json(options):
        from lifecycle._json import archived_fields

        print_document(archived_fields(options.command, found))
    else:
        from lifecycle._places import archive_directory
        from lifecycle._show import archived_lines

        archive = archive_directory(_directory(options, "archive_dir"))
        print_lines(archived_lines(found))
        if missing := _missing(archive):
            print_lines([f"no archive{missing}"])
    return DONE


def _floor(options: argparse.Namespace) -> int:
    from lifecycle.floor import deciding_rule, evaluate_math_floor, read_messages
    from lifecycle.ids import resolve_session

    def action(name: str) -> tuple[str, dict[str, object]]:
        path: Path = resolve_session(name, _directory(options, "projects_root"))
        routine, stats = evaluate_math_floor(read_messages(path))
        rule = deciding_rule(stats)[1]
        fields: dict[str, object] = {
            "session_id": path.stem,
            "path": str(path),
            "routine": routine,
            "substantive_human_turns": stats.substantive_human_turns,
            "total_messages": stats.total_messages,
            "assistant_prose_bytes": stats.assistant_prose_bytes,
            "rule": rule,
        }
        text = (
            f"{path.stem}: {'routine' if routine else 'not routine'} ({rule}): "
            f"{stats.substantive_human_turns} human, {stats.total_messages} total, "
            f"{stats.assistant_prose_bytes} bytes of prose"
        )
        return text, fields

    return _each(options, action, changes=False)


def _tombstones(options: argparse.Namespace) -> int:
    from lifecycle._show import inert
    from lifecycle.tombstone import load_tombstones, tombstone_path

    cache = _directory(options, "cache_dir")
    ids = sorted(load_tombstones(cache))
    if _as_json(options):
        path = str(tombstone_path(cache))
        print_document(
            {"command": "tombstones", "tombstone_path": path, "ids": ids, "status": DONE}
        )
    else:
        print_lines(map(inert, ids))
    return DONE


_Command = tuple[
    Callable[[argparse.Namespace], int], Callable[[argparse.ArgumentParser], None], str
]
# A new command is one more line here, with its handler and its arguments above.
_COMMANDS: dict[str, _Command] = {
    "delete": (_delete, _delete_arguments, "Delete sessions for good and leave tombstones."),
    "archive": (_archive, _archive_arguments, "Move whole sessions into the archive."),
    "restore": (_restore, _restore_arguments, "Bring archived sessions back, or list them."),
    "list": (_list, _list_arguments, "List sessions, the newest first."),
    "floor": (_floor, _floor_arguments, "Show the math floor's verdict on sessions."),
    "tombstones": (_tombstones, _no_arguments, "List the ids of deleted sessions."),
}
