"""Another reader of the same files, the Python agent SDK, sees what we say it will see.

Optional: needs `pip install claude-agent-sdk`, and is skipped without it.
"""

from __future__ import annotations

import importlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from conftest import Place
from lifecycle import DeleteOpts, archive_session, delete_sessions, restore_session
from lifecycle._places import encode_project
from lifecycle._select import Selection
from sample import add_companions, write_session

try:
    sdk: Any = importlib.import_module("claude_agent_sdk")
except ImportError:
    pytest.skip("the Python agent SDK (claude-agent-sdk) is not installed", allow_module_level=True)

ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"
RECENT = datetime.now(UTC).replace(microsecond=0) - timedelta(days=2)


@pytest.fixture(autouse=True)
def sessions(place: Place) -> None:
    for session_id, prompt in ((ONE, "Please paint the shed"), (TWO, "Please fix the fence")):
        write_session(place.root, "-home-me-app", session_id, at=RECENT, prompts=(prompt,))
        add_companions(place.config, "-home-me-app", session_id)


def listed() -> dict[str, Any]:
    """What the SDK lists, by session id."""
    return {info.session_id: info for info in sdk.list_sessions()}


def test_a_deleted_session_is_seen_no_more(place: Place) -> None:
    assert set(listed()) == {ONE, TWO}
    delete_sessions(place.root, place.cache, DeleteOpts(session_id=ONE))
    assert set(listed()) == {TWO}


def test_an_archived_session_is_seen_no_more_and_a_restored_one_is_unchanged() -> None:
    before, messages = listed()[ONE], sdk.get_session_messages(ONE)
    archive_session(ONE)
    assert set(listed()) == {TWO}
    restore_session(ONE)
    assert listed()[ONE] == before
    assert sdk.get_session_messages(ONE) == messages
    assert len(messages) > 1


# No emoji here: the SDK makes one dash of it, Claude Code, which names the directories, two.
DIRECTORIES = [
    pytest.param("/home/me/app", id="plain"),
    pytest.param("/home/me/a b_c.d/é", id="other characters"),
]


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_a_working_directory_has_the_same_project_directory_for_both(directory: str) -> None:
    assert encode_project(directory) == sdk.project_key_for_directory(directory)


def test_a_long_working_directory_is_found_by_what_it_records(place: Place) -> None:
    directory = "/home/me/" + "deep/" * 60 + "end"
    project = sdk.project_key_for_directory(directory)
    path = write_session(place.root, project, "33333333-long", at=RECENT, cwd=directory)
    found = Selection(str(place.root), DeleteOpts(project=directory)).items()
    assert [item.path for item in found] == [Path(path)]
