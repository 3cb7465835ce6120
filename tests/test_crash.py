"""Killed at, or failed by, every file-changing system call: nothing is lost, nothing is half."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conftest import Entry, Place, Tree, snapshot
from injection import die, die_torn, fail, interrupt, run_child
from lifecycle import load_tombstones
from sample import add_companions, write_session

FIRST = "aaaaaaaa-0000-4000-8000-000000000001"
SECOND = "bbbbbbbb-0000-4000-8000-000000000002"
STAYS = "cccccccc-0000-4000-8000-000000000003"
RECENT = datetime.now(UTC).replace(microsecond=0)

# Where each file is copied, a few companions do: a tree, hard links in one, and a file.
FEW = ("file-history", "tasks", "todos")
ERRORS = {
    "no permission": errno.EACCES,
    "disk full": errno.ENOSPC,
    "input-output error": errno.EIO,
}


@dataclass
class Scene:
    """A tree that can be built again exactly, and the command that is disturbed on it."""

    place: Place
    arguments: tuple[str, ...]
    prepare: tuple[tuple[str, ...], ...] = ()
    apart: bool = False
    step: int = 1
    """Strikes each so manieth call: the real second file system only confirms the other one."""
    archive: Path = field(default=Path())

    def build(self) -> None:
        """The tree as it is before the command."""
        for path in (self.place.base, self.archive):
            shutil.rmtree(path, ignore_errors=True)
        write_session(self.place.root, "-home-me-app", FIRST, at=RECENT)
        for path in add_companions(self.place.config, "-home-me-app", FIRST):
            if self.apart and path.parent.name not in FEW:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        write_session(self.place.root, "-home-me-web", SECOND, at=RECENT)
        write_session(self.place.root, "-srv-other", STAYS, at=RECENT)
        for arguments in self.prepare:
            assert run_child(self.line(arguments)).status == 0

    def line(self, arguments: tuple[str, ...]) -> list[str]:
        """The words of a command on this tree."""
        return ["--archive-dir", str(self.archive), *arguments]

    def run(self, at: int = 0, strike: Callable[..., None] = die) -> tuple[int, str]:
        """The command with its call number `at` struck; exit status and standard error."""
        apart = (self.place.config, self.archive) if self.apart else None
        outcome = run_child(self.line(self.arguments), at=at, strike=strike, apart=apart)
        self.calls = outcome.calls
        return outcome.status, outcome.err

    def state(self) -> Tree:
        """Everything, but for when and in which order the tombstones were written."""
        tree = snapshot(self.place.base, self.archive)
        dead = str(self.place.tombstones)
        if dead in tree:
            kind, mode, _, content = tree[dead]
            tree[dead] = (kind, mode, 0, b"\n".join(sorted(content.split(b"\n"))))
        for cache in (self.place.cache, self.place.cache.parent):
            if not any(name.startswith(f"{cache}{os.sep}") for name in tree):
                tree.pop(str(cache), None)
        if tree.get(str(self.archive), ("",))[0] == "directory" and not any(
            name.startswith(f"{self.archive}{os.sep}") for name in tree
        ):
            del tree[str(self.archive)]
        return tree


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    """In memory where that can be: each test here builds its tree hundreds of times."""
    return in_memory


@pytest.fixture
def scene(place: Place, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """The scene that the parameter names: a command, and where the archive lies."""
    name = request.param
    made = Scene(place, *SCENES[name], archive=place.base / "kept")
    made.apart = "apart" in name
    if "real" in name:
        made.step = 7
        made.archive = Path(tempfile.mkdtemp(prefix="lifecycle-test-"))
        if made.archive.stat().st_dev == place.base.parent.stat().st_dev:
            made.archive.rmdir()
            pytest.skip("no second file system is mounted at /dev/shm")
    yield made
    if "real" in name:
        shutil.rmtree(made.archive, ignore_errors=True)


IDS = (FIRST, SECOND)
SCENES: dict[str, tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]] = {
    "delete": (("delete", "--project", "-home-me", "--max-messages", "99", "--yes"), ()),
    "archive": (("archive", *IDS), ()),
    "archive by filter": (("archive", "--project", "-home-me", "--max-messages", "99", "-y"), ()),
    "archive apart": (("archive", *IDS), ()),
    "archive apart real": (("archive", *IDS), ()),
    "restore": (("restore", *IDS), (("archive", *IDS),)),
    "restore apart": (("restore", *IDS), (("archive", *IDS),)),
    "restore apart real": (("restore", *IDS), (("archive", *IDS),)),
}


def undisturbed(scene: Scene) -> tuple[Tree, Tree, int]:
    """The tree before the command, after it, and how many calls it took."""
    scene.build()
    before = scene.state()
    status, err = scene.run()
    assert (status, err) == (0, "")
    return before, scene.state(), len(scene.calls)


def _names(name: str, entry: Entry, session_ids: frozenset[str]) -> bool:
    """Whether an entry belongs to one of the sessions, by its path or by what it says."""
    return any(one in name or one.encode() in entry[3] for one in session_ids)


def assert_nothing_lost(scene: Scene, before: Tree) -> None:
    """Each session is whole (in place, staged or archived), or its id is tombstoned."""
    dead = load_tombstones(scene.place.cache)
    now = snapshot(scene.place.base, scene.archive)
    contents = {entry[3] for entry in now.values() if entry[0] == "file"}
    for name, entry in before.items():
        if entry[0] == "file" and not _names(name, entry, dead):
            assert entry[3] in contents, f"the content of {name} is gone"


def assert_whole(scene: Scene, before: Tree) -> None:
    """Whatever is not tombstoned is where and as it was, to the last companion."""
    dead = load_tombstones(scene.place.cache)
    now = scene.state()
    for name, entry in before.items():
        if entry[0] != "directory" and not _names(name, entry, dead):
            assert now.get(name) == entry, name
    staged = [name for name in now if ".lifecycle" in name or name.endswith(".lcdel")]
    if not dead:
        assert staged == []


@pytest.mark.parametrize("scene", SCENES, indirect=True)
@pytest.mark.parametrize("strike", [die, die_torn], ids=["at a call", "in the middle of a write"])
def test_killed_anywhere_the_same_command_ends_as_if_undisturbed(
    scene: Scene, strike: Callable[..., None]
) -> None:
    before, after, calls = undisturbed(scene)
    assert calls > 20
    writes = [number for number, name in enumerate(scene.calls, 1) if name == "write"]
    for at in range(1, calls + 1, scene.step) if strike is die else writes[:: scene.step]:
        scene.build()
        assert scene.run(at, strike)[0] < 0, f"call {at} was not reached"
        assert_nothing_lost(scene, before)
        status, err = scene.run()
        assert "Traceback" not in err
        assert scene.state() == after, f"killed at call {at}: {status} {err}"


@pytest.mark.parametrize(
    ("scene", "codes"),
    [
        *(pytest.param("delete", [code], id=f"delete-{name}") for name, code in ERRORS.items()),
        # Three errors by turns: which call fails matters more than how, and each call is slow.
        *(
            pytest.param(name, list(ERRORS.values()), id=name)
            for name in SCENES
            if name != "delete"
        ),
    ],
    indirect=["scene"],
)
def test_failing_anywhere_it_says_so_and_the_same_command_ends_as_if_undisturbed(
    scene: Scene, codes: list[int]
) -> None:
    before, after, calls = undisturbed(scene)
    names = scene.calls
    for at in range(1, calls + 1, scene.step):
        scene.build()
        status, err = scene.run(at, fail(codes[at % len(codes)]))
        what = f"call {at} ({names[at - 1]}) failed: status {status}: {err}"
        assert "Traceback" not in err, what
        assert_nothing_lost(scene, before)
        if scene.arguments[0] == "delete":
            assert_whole(scene, before)
        if status != 0:
            assert err.strip(), what
        scene.run()
        assert scene.state() == after, what


def assert_none_is_half(scene: Scene, before: Tree) -> None:
    """Each session is as it was, or tombstoned, or gone from where it was with its transcript.

    Empty directories apart, which are in nobody's way.
    """
    now = {name: entry for name, entry in scene.state().items() if entry[0] != "directory"}
    before = {name: entry for name, entry in before.items() if entry[0] != "directory"}
    dead = load_tombstones(scene.place.cache)
    for session_id in IDS:
        own = {name: entry for name, entry in before.items() if session_id in name}
        source = [name for name in own if name.endswith(f"{session_id}.jsonl")]
        if session_id not in dead and source[0] in now:
            assert {name: entry for name, entry in now.items() if session_id in name} == own
    if not dead:
        assert [name for name in now if name.endswith((".lcdel", ".lifecycle-journal"))] == []


@pytest.mark.parametrize("scene", [name for name in SCENES if "real" not in name], indirect=True)
def test_interrupted_after_any_call_nothing_is_half_and_the_same_command_goes_on(
    scene: Scene,
) -> None:
    before, after, calls = undisturbed(scene)
    names = scene.calls
    for at in range(1, calls + 1):
        scene.build()
        _, err = scene.run(at, interrupt)
        what = f"interrupted after call {at} ({names[at - 1]}): {err}"
        assert "Traceback" not in err, what
        assert_nothing_lost(scene, before)
        assert_none_is_half(scene, before)
        scene.run()
        assert scene.state() == after, what


@pytest.mark.parametrize(
    "scene",
    ["archive", "archive apart", "archive by filter", "restore", "restore apart"],
    indirect=True,
)
def test_a_delete_after_a_killed_move_takes_all_of_a_session_or_nothing(scene: Scene) -> None:
    before, _, calls = undisturbed(scene)
    for at in range(1, calls + 1):
        scene.build()
        assert scene.run(at, die)[0] < 0
        delete = run_child(scene.line(("delete", "--project", "-home-me", "-y")))
        assert "Traceback" not in delete.err
        dead = load_tombstones(scene.place.cache)
        assert_nothing_lost(scene, before)
        left = {
            name: entry
            for name, entry in scene.state().items()
            if entry[0] == "file" and name != str(scene.place.tombstones)
        }
        assert [name for name in left if _names(name, left[name], dead)] == [], f"call {at}"


@pytest.mark.parametrize("scene", ["delete"], indirect=True)
def test_each_step_of_a_delete_is_on_disk_before_the_next(scene: Scene) -> None:
    undisturbed(scene)
    calls = scene.calls
    commit = max(number for number, name in enumerate(calls) if name == "write")
    staged = max(number for number in range(commit) if calls[number] == "link")
    assert calls[staged : staged + 4] == ("link", "unlink", "fsync", "fsync")
    # The file, and its name.
    assert calls[commit + 1 : commit + 3] == ("fsync", "fsync")
    assert calls[-2:] == ("fsync", "unlink")


@pytest.mark.parametrize(
    "scene", ["archive", "archive apart", "restore", "restore apart"], indirect=True
)
def test_whatever_is_moved_is_on_disk_before_its_source_goes(scene: Scene) -> None:
    undisturbed(scene)
    calls = [*scene.calls, "end"]
    for number, name in enumerate(calls):
        # Between two file systems these are refused at first, and the copy is renamed.
        if name in ("link", "rename") and not scene.apart:
            assert calls[number + 1] in ("fsync", "rmdir"), f"call {number} of {calls}"
        if name == "write":
            rest = calls[number:]
            assert rest.index("fsync") < min(
                rest.index(each) for each in ("link", "rename", "end") if each in rest
            )


@pytest.mark.parametrize("scene", ["delete"], indirect=True)
@pytest.mark.parametrize("code", ERRORS.values(), ids=ERRORS)
def test_a_commit_that_fails_gives_every_transcript_its_name_back(scene: Scene, code: int) -> None:
    before, _, calls = undisturbed(scene)
    names = scene.calls
    first_reap = names.index("rmdir")
    unchanged = 0
    for at in range(1, first_reap):
        scene.build()
        status, _ = scene.run(at, fail(code))
        if not load_tombstones(scene.place.cache):
            assert status == 1
            assert scene.state() == before, f"call {at} ({names[at - 1]})"
            unchanged += 1
    assert unchanged > 5
    assert calls > first_reap
