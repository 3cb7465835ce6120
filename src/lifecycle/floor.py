"""The math floor: which sessions are obviously small, by numbers alone.

Routine means `(human == 0 and total <= 2) or (human <= 1 and total <= 4 and prose <= 400)`.
The verdict feeds a delete, so doubt counts for the person: text that cannot be told from
typed text is typed text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lifecycle._records import message_of, parse, without_envelopes
from lifecycle._transcript import lines

__all__ = [
    "FloorStats",
    "Message",
    "deciding_rule",
    "evaluate_math_floor",
    "is_routine",
    "read_messages",
]

MOST_BOUNCED = 2
MOST_SHORT = 4
MOST_PROSE = 400

_GREETING = r"\W*(?:hi|hey|hello|yo|sup|thanks|thx|ok|okay|ty)\W*"
_CONTROL = r"/(?:clear|compact|resume|help|exit|quit|init|cost|review)(?:\s.*)?"
# What became of a call, a result or a thought in flattened text: up to the next marker.
_RUN = r"(?:(?<=\s)|\A)\[(?:%s).*?(?= \[[A-Z]{2}|\Z)"
_ANY_RUN = _RUN % "TOOL:|TOOL_RESULT|THINKING"
# Users make no calls and think no blocks: what looks so in their text, they typed.
_USER_RUN = _RUN % "TOOL_RESULT"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a session."""

    role: str
    """`user`, `assistant`, `system`, `summary`, or `unreadable` for a line that is no record, or
    one without a type."""
    text: str
    """What was said, flattened: calls, results and thoughts are runs that open with `[TOOL:`,
    `[TOOL_RESULT` or `[THINKING`."""


@dataclass(frozen=True, slots=True)
class FloorStats:
    """The three numbers that decide."""

    substantive_human_turns: int
    """User messages in which a person said something."""
    total_messages: int
    """Messages of any role."""
    assistant_prose_bytes: int
    """UTF-8 length of what the assistant said, without calls and thoughts, spaces folded."""


def evaluate_math_floor(messages: Iterable[Message]) -> tuple[bool, FloorStats]:
    """Whether the messages are routine, and the numbers over all of them."""
    stats = FloorStats(0, 0, 0)
    for message in messages:
        stats = _count(stats, message)
    return deciding_rule(stats)[0], stats


def is_routine(messages: Iterable[Message]) -> bool:
    """The verdict of `evaluate_math_floor`, taking no message more than it needs."""
    stats = FloorStats(0, 0, 0)
    for message in messages:
        stats = _count(stats, message)
        # The numbers only grow, and a larger one never makes a session routine.
        if not deciding_rule(stats)[0]:
            return False
    return True


def deciding_rule(stats: FloorStats) -> tuple[bool, str]:
    """The verdict on the numbers, and the rule that decided in words."""
    human, total = stats.substantive_human_turns, stats.total_messages
    prose = stats.assistant_prose_bytes
    if human == 0 and total <= MOST_BOUNCED:
        return True, f"no human turn and at most {MOST_BOUNCED} messages"
    if human > 1:
        return False, "more than 1 human turn"
    if total > MOST_SHORT:
        return False, f"more than {MOST_SHORT} messages"
    if prose > MOST_PROSE:
        return False, f"more than {MOST_PROSE} bytes of prose"
    return True, f"at most 1 human turn, {MOST_SHORT} messages and {MOST_PROSE} bytes of prose"


def read_messages(path: str | os.PathLike[str]) -> Iterator[Message]:
    """The messages of a transcript, one by one in file order; reads no further than asked.

    Current and older record shapes. Bookkeeping and sidechain records are no messages. A
    user record that nobody typed (`isMeta`, a compaction summary) has the role `system`.
    Raises OSError where the file cannot be read, also in the middle.
    """
    for line in lines(os.path.expanduser(path)):
        record = parse(line)
        # A record that does not say of which type it is may be anything, and of any worth.
        if record is None or not isinstance(record.get("type"), str):
            yield Message("unreadable", "")
        elif said := message_of(record):
            yield Message(*said)


def _count(stats: FloorStats, message: Message) -> FloorStats:
    human = message.role == "user" and _is_substantive(message.text)
    prose = _without(_ANY_RUN, message.text) if message.role == "assistant" else ""
    return FloorStats(
        stats.substantive_human_turns + human,
        stats.total_messages + 1,
        stats.assistant_prose_bytes + len(prose.encode("utf-8", "surrogatepass")),
    )


def _without(run: str, text: str) -> str:
    """The text without such runs, white space folded."""
    return " ".join(re.sub(run, " ", text, flags=re.DOTALL).split())


def _is_substantive(text: str) -> bool:
    said = without_envelopes(_without(_USER_RUN, text))
    if not said or re.fullmatch(_GREETING, said, re.IGNORECASE):
        return False
    return re.fullmatch(_CONTROL, said, re.DOTALL) is None
