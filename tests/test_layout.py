"""Where things are: default places, which entry belongs to whom, and what is no session."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conftest import SOURCE, Place
from deadline import deadline
from lifecycle._layout import Companions, projects, read_project, weigh
from lifecycle._places import (
    archive_directory,
    cache_directory,
    config_of,
    encode_project,
    root_directory,
)
from sample import add_bystanders, add_companions, make_sample, user, write_lines, write_session

AT = datetime(2026, 11, 1, 9, 30, tzinfo=UTC)
SID = "0b54a1c2-7d1e-4f0a-9c55-3e2f1d4b8a90"
OTHER = "11111111-0000-4000-8000-000000000001"
PROJECT = "-home-me-app"


def belonging(root: Path, project: str, session_id: str, *, stores: bool = True) -> list[Path]:
    """Every companion of a session, sorted."""
    companions = Companions(str(root), config_of(str(root)))
    found = companions.in_project(project, session_id)
    found = found + (companions.in_stores(session_id) if stores else [])
    return sorted(Path(companions.absolute(name)) for name in found)


def test_every_companion_is_found_and_nothing_of_another_session(place: Place) -> None:
    write_session(place.root, PROJECT, SID, at=AT)
    made = add_companions(place.config, PROJECT, SID)
    add_companions(place.config, PROJECT, OTHER)
    add_bystanders(place.config)
    assert len(made) == 21
    assert belonging(place.root, PROJECT, SID) == made


def test_of_the_sample_tree_each_session_has_its_companions_and_no_bystander(
    place: Place,
) -> None:
    sample = make_sample(place.config)
    bystanders = add_bystanders(place.config)
    for name, path in sample.sessions.items():
        # Only one of the two copies of an id is asked for what is keyed by id alone.
        found = belonging(place.root, path.parent.name, path.stem, stores=name != "forked_copy")
        full = name in ("login", "refactor", "forked")
        made = add_companions(place.config, path.parent.name, path.stem) if full else []
        assert found == made, name
        assert not [each for each in bystanders for top in found if each.is_relative_to(top)]


def _file(path: Path) -> None:
    path.write_bytes(b"{}\n")


def _link(path: Path) -> None:
    path.symlink_to(__file__)


def _link_to_directory(path: Path) -> None:
    path.symlink_to(SOURCE)


def _agent_of(*session_ids: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        write_lines(path, [user("Look", each, AT, isSidechain=True) for each in session_ids])

    return write


P = f"projects/{PROJECT}"


@pytest.mark.parametrize(
    ("relative", "make", "belongs"),
    [
        pytest.param(f"{P}/{SID}", Path.mkdir, True, id="its directory"),
        pytest.param(f"{P}/{SID}", _file, False, id="a file called like its directory"),
        pytest.param(f"{P}/{SID}", _link_to_directory, False, id="a link called like its own"),
        pytest.param(f"{P}/{SID}.bak", Path.mkdir, False, id="a copy of its directory"),
        pytest.param(f"{P}/{SID[:8]}", Path.mkdir, False, id="a directory called by a prefix"),
        pytest.param(f"{P}/{SID}.precompact.json.tmp.1.a", _file, True, id="a torn sidecar"),
        pytest.param(f"{P}/{SID}.precompact.json", _link, False, id="a linked sidecar"),
        pytest.param(f"{P}/{SID}.precompact.json", Path.mkdir, False, id="a sidecar directory"),
        pytest.param(f"{P}/{SID}.precompact.json.bak", _file, False, id="a copied sidecar"),
        pytest.param(f"{P}/{SID}.precompact.jsonl", _file, False, id="a sidecar's look-alike"),
        pytest.param(f"{P}/{SID}.new-kind.json", _file, False, id="an unknown sidecar"),
        pytest.param(f"{P}/{SID}.json", _file, False, id="a sidecar without a kind"),
        pytest.param(f"{P}/{SID}.orphaned-1-0a1b2c3d.jsonl", _file, True, id="orphaned"),
        pytest.param(f"{P}/{SID}.orphaned-1-0a1b2c3.jsonl", _file, False, id="seven digits"),
        pytest.param(f"{P}/{SID}.orphaned-x-0a1b2c3d.jsonl", _file, False, id="no time"),
        pytest.param(f"{P}/{SID}.jsonl.superseded-1", _file, True, id="superseded"),
        pytest.param(f"{P}/{SID}.jsonl.superseded-1.bak", _file, False, id="a copied one"),
        pytest.param(f"{P}/{SID}.jsonl.compact.tmp.1", _file, True, id="a compaction"),
        pytest.param(f"{P}/{SID}.jsonl.compact.tmp.1.jsonl", _file, True, id="one with a suffix"),
        pytest.param(f"{P}/{SID}.jsonl.bak", _file, False, id="a copied transcript"),
        pytest.param(f"{P}/agent-1.jsonl", _agent_of(SID, SID), True, id="an agent of its own"),
        pytest.param(f"{P}/agent-1.jsonl", _agent_of(SID, OTHER), False, id="a shared agent"),
        pytest.param(f"{P}/agent-1.jsonl", _agent_of(), False, id="an empty agent"),
        pytest.param(f"{P}/agent-1.jsonl", _link, False, id="a linked agent"),
        pytest.param(f"projects/-other/{SID}", Path.mkdir, False, id="of another project"),
        pytest.param(f"debug/{SID}.txt", _file, True, id="a debug log"),
        pytest.param(f"debug/{SID}.txt", _link, False, id="a linked debug log"),
        pytest.param(f"debug/{SID}.log", _file, False, id="an unknown debug log"),
        pytest.param(f"file-history/{SID}", Path.mkdir, True, id="checkpoints"),
        pytest.param(f"file-history/{SID}", _file, False, id="checkpoints that are a file"),
        pytest.param(f"file-history/{SID}", _link_to_directory, False, id="linked checkpoints"),
        pytest.param(f"file-history/{SID[:8]}", Path.mkdir, False, id="checkpoints by prefix"),
        pytest.param(f"tasks/{SID}", Path.mkdir, True, id="tasks"),
        pytest.param(f"tasks/session-{SID}", Path.mkdir, False, id="tasks of another kind"),
        pytest.param(f"todos/{SID}-agent-{OTHER}.json", _file, True, id="todos of an agent"),
        pytest.param(f"todos/{OTHER}-agent-{SID}.json", _file, False, id="todos of its creator"),
        pytest.param(f"todos/{SID}.json", _file, False, id="unknown todos"),
        pytest.param(f"usage-data/facets/{SID}.json", _file, True, id="facets"),
        pytest.param(f"usage-data/{SID}.json", _file, False, id="unknown usage data"),
        pytest.param(f"plans/{SID}", Path.mkdir, False, id="a store that is not in the table"),
    ],
)
def test_an_entry_belongs_to_a_session_only_by_the_table(
    place: Place, relative: str, make: Callable[[Path], None], belongs: bool
) -> None:
    write_session(place.root, PROJECT, SID, at=AT)
    path = place.config / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    assert belonging(place.root, PROJECT, SID) == ([path] if belongs else [])


@pytest.mark.parametrize(
    "relative",
    [
        *(f"{P}/memory", f"{P}/tiny_memory", f"{P}/bagel"),
        *(f"{P}/cloud-snapshots", f"{P}/connector-downloads", "tasks/session-1"),
    ],
)
def test_what_is_of_no_session_belongs_to_none_even_of_that_name(
    place: Place, relative: str
) -> None:
    (place.config / relative).mkdir(parents=True)
    session = write_session(place.root, PROJECT, Path(relative).name, at=AT)
    assert belonging(place.root, PROJECT, session.stem) == []


def test_companions_come_in_the_order_of_the_table_and_of_their_names(place: Place) -> None:
    add_companions(place.config, PROJECT, SID)
    for number in range(9):
        _file(place.config / "todos" / f"{SID}-agent-{number}.json")
    found = Companions(str(place.root), str(place.config)).in_stores(SID)
    assert len(found) == 18
    assert found == sorted(found)


def test_a_store_that_is_a_link_is_not_entered(place: Place, tmp_path: Path) -> None:
    for store in ("file-history", "facets"):
        (tmp_path / store / SID).mkdir(parents=True)
    _file(tmp_path / "facets" / f"{SID}.json")
    (place.config / "file-history").symlink_to(tmp_path / "file-history")
    (place.config / "usage-data").symlink_to(tmp_path)
    assert belonging(place.root, PROJECT, SID) == []


def test_a_root_of_another_name_has_no_stores_beside_it(place: Place) -> None:
    made = add_companions(place.config, PROJECT, SID)
    root = place.root.rename(place.config / "sessions-of-mine")
    assert config_of(str(root)) is None
    inside = [root / path.relative_to(place.root) for path in made if place.root in path.parents]
    assert belonging(root, PROJECT, SID) == inside != []


def test_a_project_is_listed_by_kind_and_nothing_odd_is_a_session(place: Place) -> None:
    directory = place.root / PROJECT
    for name in (SID, "b.c", "a", os.fsdecode(b"\xff")):
        write_lines(directory / "x.jsonl", []).rename(directory / f"{name}.jsonl")
    for name in (".jsonl", "agent-1.jsonl", f"{SID}.orphaned-1-0a1b2c3d.jsonl", "gone.lcdel"):
        _file(directory / name)
    _link(directory / "linked.jsonl")
    (directory / "lost.jsonl").symlink_to("nothing")
    (directory / "folder.jsonl").mkdir()
    os.mkfifo(directory / "pipe.jsonl")
    with deadline():
        found = read_project(str(place.root), PROJECT)
    assert list(found.sessions) == [SID, "a", "b.c", os.fsdecode(b"\xff")]
    assert found.agents == ["agent-1.jsonl"]
    assert found.staged == ["gone"]
    assert found.odd == [
        ("folder.jsonl", "not a regular file"),
        ("linked.jsonl", "the transcript is a symbolic link"),
        ("lost.jsonl", "the transcript is a symbolic link"),
        ("pipe.jsonl", "not a regular file"),
    ]


LINKS = {
    **{f"-linked-{number}": SOURCE for number in (2, 3, 1)},
    "-a-file": Path(__file__),
    "-lost": Path("nothing"),
}


def test_directories_of_a_root_are_sorted_and_linked_ones_reported(place: Place) -> None:
    for name in ("-b", "-a", ".dot"):
        (place.root / name).mkdir()
    _file(place.root / "file")
    for name, target in LINKS.items():
        (place.root / name).symlink_to(target)
    found = projects(str(place.root))
    assert found.directories == ["-a", "-b", ".dot"]
    linked = ["-linked-1", "-linked-2", "-linked-3"]
    assert found.odd == [(name, "the project directory is a symbolic link") for name in linked]


def test_a_missing_root_or_project_is_empty_and_a_root_that_is_a_file_an_error(
    place: Place,
) -> None:
    assert projects(str(place.base / "missing")).directories == []
    assert list(read_project(str(place.root), "-missing").sessions) == []
    _file(place.base / "file")
    with pytest.raises(NotADirectoryError):
        projects(str(place.base / "file"))


@pytest.mark.parametrize(
    ("variable", "config"),
    [
        pytest.param("existing", "existing", id="set"),
        pytest.param("missing", "missing", id="set to what does not exist"),
        pytest.param("~/own", "own", id="set with a tilde"),
        pytest.param("", ".claude", id="empty"),
        pytest.param(None, ".claude", id="unset"),
    ],
)
def test_the_environment_names_the_config_directory_and_nothing_replaces_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, variable: str | None, config: str
) -> None:
    (place.base / "existing").mkdir()
    monkeypatch.chdir(place.base)
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    if variable is not None:
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", variable)
    assert root_directory(None) == str(place.base / config / "projects")
    assert archive_directory(None) == archive_directory("") == str(place.base / config / "archive")
    assert cache_directory(None) == cache_directory("") == str(place.cache)


@pytest.mark.parametrize("default", [root_directory, archive_directory, cache_directory])
def test_a_given_directory_becomes_absolute_and_none_is_made_of_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, default: Callable[[str | Path | None], str]
) -> None:
    monkeypatch.chdir(place.base)
    for given in ("~/own", place.base / "own", "own", "x/../own/"):
        assert default(given) == str(place.base / "own")
    with pytest.raises(ValueError, match="NUL"):
        default("a\0b")
    monkeypatch.setenv("HOME", "relative")
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    with pytest.raises(ValueError, match="home"):
        default(None)


def test_an_empty_root_is_an_error() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        root_directory("")


@pytest.mark.parametrize(
    ("directory", "name"),
    [
        ("/home/me/app", "-home-me-app"),
        ("/a/b_c.d e", "-a-b-c-d-e"),
        ("/Straße", "-Stra-e"),
        ("/検索", "---"),
        ("/a😀b", "-a--b"),
        ("/a\udcffb", "-a-b"),
        ("/²٣", "---"),
    ],
    ids=["plain", "punctuation", "a letter", "wide", "an emoji", "not UTF-8", "other digits"],
)
def test_a_project_name_has_a_dash_for_each_other_utf_16_unit(directory: str, name: str) -> None:
    assert encode_project(directory) == name


def test_weight_is_all_regular_files_once_and_its_mark_shows_each_change(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "deep").mkdir(parents=True)
    (top / "one").write_bytes(b"x" * 10)
    (top / "deep" / "two").write_bytes(b"x" * 5)
    os.link(top / "one", top / "deep" / "again")
    (top / "link").symlink_to(__file__)
    size, mark = weigh([str(top)])
    assert size == 15
    assert weigh([str(top)]) == (15, mark)
    os.utime(top / "deep" / "two", ns=(1, 1))
    assert weigh([str(top)])[1] != mark
    with pytest.raises(FileNotFoundError):
        weigh([str(tmp_path / "missing")])


@pytest.mark.parametrize("name", ["other", "elsewhere/projects"])
@pytest.mark.parametrize("default", [True, False])
def test_a_root_by_another_name_has_the_same_config_directory(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str, default: bool
) -> None:
    if not default:
        monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    (place.config / "sessions").mkdir()
    link = place.base / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(place.root)
    assert config_of(str(link)) == str(place.config)
    assert config_of(str(place.root)) == str(place.config)


def test_a_root_that_lies_elsewhere_by_a_link_has_the_config_directory_of_the_link(
    place: Place,
) -> None:
    (place.config / "settings.json").write_text("{}")
    far = place.base / "disk" / "projects"
    far.parent.mkdir()
    place.root.rmdir()
    far.mkdir()
    place.root.symlink_to(far)
    assert config_of(str(place.root)) == str(place.config)
