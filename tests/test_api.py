"""The public surface: its names, its types, what importing it costs, what it refuses."""

from __future__ import annotations

import ast
import dataclasses
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lifecycle
from conftest import SOURCE
from lifecycle import (
    ArchiveConflictError,
    DeleteOpts,
    DeletePlan,
    FloorStats,
    Message,
    NoFilterError,
    PlanItem,
    RestoreResult,
    Skipped,
    TombstoneFileError,
)

PROMISED = {
    *("matches_session_id", "resolve_session", "SessionNotFoundError", "AmbiguousSessionError"),
    *("tombstone_path", "load_tombstones", "is_tombstoned", "tombstone_ids", "remove_tombstones"),
    *("TombstoneFileError", "DeleteOpts", "NoFilterError", "PlanItem", "DeletePlan", "Skipped"),
    *("plan_delete", "execute_delete", "delete_sessions", "archive_session", "LiveSessionError"),
    *("restore_session", "RestoreResult", "ArchiveConflictError", "Message", "FloorStats"),
    *("evaluate_math_floor", "read_messages", "__version__"),
}
SUBMODULES = [module.name for module in pkgutil.iter_modules(lifecycle.__path__)]
# Running `__main__` is all that it is for.
MODULES = [import_module(f"lifecycle.{n}") for n in SUBMODULES if n != "__main__"] + [lifecycle]


def python(code: str) -> list[str]:
    """The words that code prints in a fresh interpreter, warnings as errors."""
    line = [sys.executable, "-W", "error", "-c", f"import sys, lifecycle\n{code}"]
    done = subprocess.run(line, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.split()


def test_importing_the_package_loads_neither_argparse_nor_any_module_of_its_own() -> None:
    loaded = python("print(*sys.modules)")
    assert "lifecycle" in loaded
    assert not {"argparse", "dataclasses", "pathlib", "typing", "json", "re"}.intersection(loaded)
    assert not [name for name in loaded if name.startswith("lifecycle.")]


def test_the_library_works_without_argparse_and_the_command() -> None:
    loaded = python(
        "lifecycle.delete_sessions(None, None, lifecycle.DeleteOpts(routine=True))\n"
        "print(*sys.modules)"
    )
    assert "lifecycle.delete" in loaded
    assert not {"argparse", "lifecycle.cli", "lifecycle.archive"}.intersection(loaded)


def test_a_submodule_is_the_module_before_and_after_every_name_was_used() -> None:
    names = python(
        f"kinds = lambda: [type(getattr(lifecycle, n)).__name__ for n in "
        f"('delete', 'archive', 'floor', 'ids', 'tombstone')]\n"
        f"before = kinds()\n"
        f"for name in lifecycle.__all__: getattr(lifecycle, name)\n"
        f"from lifecycle import *\n"
        f"import lifecycle.cli, lifecycle._show, lifecycle._json\n"
        f"same = [getattr(lifecycle, n) is sys.modules['lifecycle.' + n] for n in {SUBMODULES}"
        f" if 'lifecycle.' + n in sys.modules]\n"
        f"print(*before, *kinds(), all(same), len(same))"
    )
    assert names == ["module"] * 10 + ["True", str(len(SUBMODULES) - 1)]


def test_no_public_name_is_a_submodules() -> None:
    assert set(lifecycle.__all__).isdisjoint(SUBMODULES)


def test_all_public_names_are_sorted_importable_and_listed() -> None:
    assert list(lifecycle.__all__) == sorted(set(lifecycle.__all__))
    assert set(lifecycle.__all__) == PROMISED
    assert set(lifecycle.__all__) | {"delete", "archive"} <= set(dir(lifecycle))
    assert dir(lifecycle) == sorted(dir(lifecycle))
    for name in lifecycle.__all__:
        assert getattr(lifecycle, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'erase'"):
        attrgetter("erase")(lifecycle)


def test_what_a_type_checker_sees_is_what_there_is() -> None:
    tree = ast.parse((SOURCE / "lifecycle" / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {
        alias.name: node.module
        for node in imports
        if str(node.module).startswith("lifecycle.")
        for alias in node.names
    }
    assert {*seen, "__version__"} == set(lifecycle.__all__)
    for name, module in seen.items():
        assert getattr(import_module(str(module)), name) is getattr(lifecycle, name)
    assert (SOURCE / "lifecycle" / "py.typed").is_file()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_module_lists_its_names(module: ModuleType) -> None:
    names = module.__all__
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(module, name)] == []


DATACLASSES: list[Any] = [
    value
    for module in MODULES
    for value in vars(module).values()
    if dataclasses.is_dataclass(value) and value.__module__ == module.__name__
]


@pytest.mark.parametrize("kind", DATACLASSES, ids=lambda kind: kind.__name__)
def test_a_dataclass_is_frozen_and_slotted(kind: Any) -> None:
    assert kind.__dataclass_params__.frozen
    assert "__slots__" in vars(kind)


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (NoFilterError, ValueError),
        (TombstoneFileError, ValueError),
        (ArchiveConflictError, FileExistsError),
    ],
)
def test_an_error_is_one_that_a_caller_would_catch_anyway(
    error: type[Exception], base: type[Exception]
) -> None:
    assert issubclass(error, base)


AWARE = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("before", date(2026, 11, 1), TypeError),
        ("before", "2026-11-01", TypeError),
        ("before", 0, TypeError),
        ("before", datetime.min, ValueError),
        ("project", None, TypeError),
        ("project", Path("/a"), TypeError),
        ("project", b"a", TypeError),
        ("max_messages", True, TypeError),
        ("max_messages", 1.0, TypeError),
        ("max_messages", "1", TypeError),
        ("max_messages", None, TypeError),
        ("max_messages", -1, ValueError),
        ("session_id", None, TypeError),
        ("session_id", 7, TypeError),
        ("routine", 1, TypeError),
        ("routine", None, TypeError),
        ("include_live", "yes", TypeError),
        ("dry_run", 0, TypeError),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else repr(value),
)
def test_an_option_of_a_wrong_type_or_out_of_range_is_refused(
    option: str, value: object, error: type[Exception]
) -> None:
    with pytest.raises(error, match=option if error is TypeError else "range|negative"):
        DeleteOpts(**{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("opts", "is_set"),
    [
        (DeleteOpts(), False),
        (DeleteOpts(include_live=True, dry_run=True), False),
        (DeleteOpts(before=AWARE), True),
        (DeleteOpts(before=datetime(1970, 1, 1, tzinfo=UTC)), True),
        (DeleteOpts(before=datetime.max.replace(tzinfo=timezone(-timedelta(hours=12)))), True),
        (DeleteOpts(project="a"), True),
        (DeleteOpts(max_messages=1), True),
        (DeleteOpts(session_id="a"), True),
        (DeleteOpts(routine=True), True),
    ],
    ids=[
        *("none", "flags that are no filter", "a date", "the epoch", "the last date there is"),
        *("a project", "messages", "a session", "routine"),
    ],
)
def test_a_filter_is_set_where_it_differs_from_zero(opts: DeleteOpts, is_set: bool) -> None:
    assert opts.has_filter is is_set


def test_options_are_values() -> None:
    assert DeleteOpts(project="a") == DeleteOpts(project="a") != DeleteOpts()
    assert len({DeleteOpts(before=AWARE), DeleteOpts(before=AWARE)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        DeleteOpts().dry_run = True  # type: ignore[misc]


def test_nothing_is_read_from_the_environment_at_import() -> None:
    moved = python(
        "import os; from lifecycle import DeleteOpts, plan_delete\n"
        "os.environ |= {'HOME': '/elsewhere', 'CLAUDE_CONFIG_DIR': ''}\n"
        "plan = plan_delete(None, None, DeleteOpts(routine=True))\n"
        "print(plan.projects_root, plan.tombstone_path)"
    )
    cache = "/elsewhere/.cache/session-search"
    assert moved == ["/elsewhere/.claude/projects", f"{cache}/.deleted"]


def typed_surface(path: os.PathLike[str]) -> None:
    """Never called: mypy sees here that each public name has the type that is promised."""
    opts: DeleteOpts = DeleteOpts(
        before=AWARE, project="a", max_messages=1, session_id="a", routine=True
    )
    plan: DeletePlan = lifecycle.plan_delete("root", None, opts)
    plan = lifecycle.delete_sessions(path, path, dataclasses.replace(opts, dry_run=True))
    plan = lifecycle.execute_delete(plan)
    items: tuple[PlanItem, ...] = plan.matched + plan.deleted
    skipped: tuple[Skipped, ...] = plan.skipped
    strings: list[str] = [items[0].session_id, items[0].project, skipped[0].reason]
    numbers: list[int] = [items[0].bytes, items[0].messages, items[0].companion_bytes]
    numbers += [plan.total_bytes]
    paths: list[Path] = [items[0].path, *items[0].companions, plan.tombstone_path, skipped[0].path]
    paths += [lifecycle.resolve_session("a"), lifecycle.resolve_session(path, path)]
    paths += [lifecycle.tombstone_path(), lifecycle.tombstone_path("")]
    paths += [lifecycle.archive_session("a"), lifecycle.archive_session(path, "")]
    paths += [lifecycle.archive_session("a", None, projects_root=path, include_live=True)]
    result: RestoreResult = lifecycle.restore_session("a", path)
    result = lifecycle.restore_session("a", projects_root="", project="-p", cache_dir=path)
    paths += [result.path]
    flags: list[bool] = [result.times_reset, result.tombstone_removed]
    flags += [lifecycle.matches_session_id("a", "b"), lifecycle.is_tombstoned(None, "a")]
    ids: frozenset[str] = lifecycle.load_tombstones() | lifecycle.remove_tombstones(path, ["a"])
    lifecycle.tombstone_ids("", ids)
    messages: Iterator[Message] = lifecycle.read_messages(path)
    verdict: tuple[bool, FloorStats] = lifecycle.evaluate_math_floor(messages)
    verdict = lifecycle.evaluate_math_floor([Message("user", "a"), Message(role="user", text="a")])
    numbers += [verdict[1].substantive_human_turns, verdict[1].total_messages]
    numbers += [verdict[1].assistant_prose_bytes]
    strings += [lifecycle.__version__]


def test_imports_run_one_way_as_the_readme_says() -> None:
    text = Path(__file__).parent.with_name("README.md").read_text(encoding="utf-8")
    listed = text.partition("imports one way")[2].partition("\n\n- ")[2].partition("\n\n")[0]
    levels = [re.findall(r"`(\w+)`", line) for line in listed.split("\n- ")]
    level = {name: number for number, names in enumerate(levels) for name in names}
    assert set(level) == set(SUBMODULES) - {"__main__"}
    for name in level:
        code = (SOURCE / "lifecycle" / f"{name}.py").read_text(encoding="utf-8")
        for other in re.findall(r"^ *from lifecycle\.(\w+) import", code, re.MULTILINE):
            assert level[other] <= level[name], (name, other)
    assert "lifecycle.delete " not in (SOURCE / "lifecycle" / "archive.py").read_text("utf-8")
    assert "lifecycle.archive " not in (SOURCE / "lifecycle" / "delete.py").read_text("utf-8")
