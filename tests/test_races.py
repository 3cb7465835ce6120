"""Several commands at once on one tree, and writers beside them: everything is accounted for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

import pytest

from conftest import Entry, Place, Result, Tree, command, finish, snapshot
from lifecycle import load_tombstones
from lifecycle._disk import exclusive
from sample import add_companions, identifier, write_session

AT = datetime.now(UTC).replace(microsecond=0)
PROJECTS = ("-home-me-app", "-home-me-web", "-home-me-shop")
DELETE = ("delete", "--project", "-home-me", "--max-messages", "99999", "--yes")
IDS = [identifier("race", number) for number in range(12)]
LINE = b'{"type":"queue-operation"}\n'


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    """In memory where that can be: what is tested is order, and disks only stretch it."""
    return in_memory


@pytest.fixture
def paths(place: Place) -> dict[str, Path]:
    """Sessions in three projects, every third with all companions: id -> transcript."""
    made = {}
    for number, session_id in enumerate(IDS):
        project = PROJECTS[number % 3]
        made[session_id] = write_session(place.root, project, session_id, at=AT)
        if number % 3 == 0:
            add_companions(place.config, project, session_id)
    return made


def run_at_once(place: Place, lines: Sequence[Sequence[str]]) -> list[Result]:
    """Runs the commands; none gets further than the lock before all are there."""
    with exclusive(str(place.root)):
        processes = [command(*line) for line in lines]
        time.sleep(0.5)
    results = [finish(process) for process in processes]
    assert "Traceback" not in "".join(result.err for result in results)
    return results


def unit(tree: Tree, session_id: str) -> Counter[Entry]:
    """All files that name the session by their path or in their content, wherever they are."""
    return Counter(
        entry
        for name, entry in tree.items()
        if entry[0] == "file" and (session_id in name or session_id.encode() in entry[3])
    )


def debris(place: Place) -> list[Path]:
    return [*place.base.rglob("*.lcdel"), *place.base.rglob(".lifecycle-*")]


def history(path: Path) -> bytes:
    """All that is left of a transcript, also where two writers made two files of it."""
    parts = [path.with_suffix(".lcdel"), path]
    return b"".join(part.read_bytes() for part in parts if part.exists())


@contextmanager
def appending(paths: Sequence[Path]) -> Iterator[Counter[Path]]:
    """Writes to each file as Claude Code does: open, append, close; counts what it wrote."""
    written: Counter[Path] = Counter()
    over = Event()

    def write() -> None:
        while not over.wait(0.003):
            for path in paths:
                with path.open("ab") as file:
                    file.write(LINE)
                written[path] += 1

    writer = Thread(target=write)
    writer.start()
    try:
        yield written
    finally:
        over.set()
        writer.join()


@pytest.mark.parametrize("caches", [1, 2], ids=["one cache directory", "two cache directories"])
def test_two_deletes_beside_a_writer_lose_no_history_and_no_tombstone(
    place: Place, paths: dict[str, Path], caches: int
) -> None:
    contents = {session_id: path.read_bytes() for session_id, path in paths.items()}
    busy, idle = IDS[:4], IDS[4:]
    directories = [place.base / f"cache-{number % caches}" for number in range(2)]
    with appending([paths[session_id] for session_id in busy]) as written:
        lines = [(*DELETE, "--cache-dir", str(directory)) for directory in directories]
        told = "".join(result.err for result in run_at_once(place, lines))
    verdicts = [load_tombstones(directory) for directory in directories[:caches]]
    told_dead = Counter(session_id for verdict in verdicts for session_id in verdict)
    assert [told_dead[session_id] for session_id in idle] == [1] * len(idle)
    assert not [session_id for session_id in idle if paths[session_id].exists()]
    for session_id in busy:
        appended = LINE * written[paths[session_id]]
        if told_dead[session_id]:
            assert appended.endswith(history(paths[session_id]))
        else:
            assert history(paths[session_id]) == contents[session_id] + appended
    assert [path for path in debris(place) if path.stem not in told] == []


def test_six_archives_of_the_same_ids_move_each_once(place: Place, paths: dict[str, Path]) -> None:
    before = snapshot(place.config)
    results = run_at_once(place, [("archive", *IDS)] * 6)
    said = "".join(f"archived {place.archive / session_id}.jsonl\n" for session_id in IDS)
    assert results == [Result(0, said, "")] * 6
    after = snapshot(place.archive)
    for session_id in IDS:
        assert unit(after, session_id) == unit(before, session_id)
    in_place = [name for name, entry in snapshot(place.root).items() if entry[0] == "file"]
    assert (in_place, debris(place)) == ([], [])


def where(place: Place, path: Path) -> list[str]:
    """In which of the three possible states a session is; one, if all is well."""
    states: dict[str, Callable[[], bool]] = {
        "in place": path.exists,
        "archived": (place.archive / path.name).exists,
        "tombstoned": lambda: path.stem in load_tombstones(place.cache),
    }
    return [name for name, is_so in states.items() if is_so()]


def test_delete_archive_and_restore_at_once_leave_each_session_in_one_state(
    place: Place, paths: dict[str, Path]
) -> None:
    before = snapshot(place.base)
    halves = IDS[:6], IDS[6:]
    assert finish(command("archive", *halves[0])).status == 0
    only = ("--project", "-home-me-web")
    for _ in range(2):
        lines = [(verb, *half) for verb in ("archive", "restore") for half in halves]
        run_at_once(place, [*lines, ("delete", *only, "--max-messages", "9999", "--yes")])
        after = snapshot(place.base)
        for session_id, path in paths.items():
            states = where(place, path)
            assert len(states) == 1, (session_id, states)
            whole = Counter() if states == ["tombstoned"] else unit(before, session_id)
            assert unit(without_tombstones(place, after), session_id) == whole
        assert debris(place) == []


def without_tombstones(place: Place, tree: Tree) -> Tree:
    return {name: entry for name, entry in tree.items() if name != str(place.tombstones)}
