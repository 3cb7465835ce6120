"""The oracle of the soak: is every session ever made accounted for, and whole?"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.soak_writer import Made, digests

__all__ = ["Findings", "debris", "judge", "unfinished"]


@dataclass(slots=True)
class Findings:
    """What the oracle saw."""

    counts: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[str, str]] = field(default_factory=list)
    """Session id (or a path) and what is wrong with it."""


def debris(*directories: Path) -> Iterator[Path]:
    """Staged transcripts and temporary entries."""
    for directory in directories:
        for path in sorted(directory.rglob("*")):
            if path.name.endswith((".lcdel", ".lifecycle-tmp")) or path.name.startswith(
                ".lifecycle"
            ):
                yield path


def unfinished(made: dict[str, Made], config: Path, archive: Path) -> Iterator[tuple[str, str]]:
    """Sessions that an interrupted move left in two places, with the command that finishes it.

    Those that are tombstoned, or written without registering, stay as they are.
    """
    for session_id, one in sorted(made.items()):
        there = config / "projects" / one.project / f"{session_id}.jsonl"
        away = archive / f"{session_id}.jsonl"
        if one.kind == "loose":
            continue
        if away.exists() and (there.exists() or _left(one, config)):
            yield session_id, "archive"
        elif there.exists() and not away.exists() and (archive / session_id).exists():
            yield session_id, "restore"


def _left(one: Made, base: Path) -> list[str]:
    return [name for name in one.companions if (base / name).exists()]


def judge(made: dict[str, Made], config: Path, archive: Path, dead: frozenset[str]) -> Findings:
    """Judges every session, and every transcript that is no session's."""
    found = Findings()
    for one in made.values():
        if one.vanished:
            # It is in two halves since, and what became of one does not tell of the other.
            text = f"gone while live, before its record {one.vanished[0]}"
            found.violations.append((one.session_id, text))
            found.counts["VIOLATIONS"] += 1
            continue
        try:
            word = _judge(one, config, archive, one.session_id in dead)
        except _WrongError as error:
            found.violations.append((one.session_id, f"{one.kind}: {error}"))
            word = "VIOLATIONS"
        found.counts[word] += 1
    known = {f"{name}.jsonl" for name in made}
    for path in [*config.glob("projects/*/*.jsonl"), *archive.glob("*.jsonl")]:
        if (
            path.name not in known
            and not path.name.startswith("agent-")
            and path.name.count(".") < 2
        ):
            found.violations.append((str(path), "is no session that was ever made"))
    return found


class _WrongError(Exception):
    pass


def _judge(one: Made, config: Path, archive: Path, is_dead: bool) -> str:
    away = archive / f"{one.session_id}.jsonl"
    there = sorted(config.glob(f"projects/*/{one.session_id}.jsonl"))
    places = [*([away] if away.exists() else []), *there]
    if any(path.parent.name != one.project for path in there):
        raise _WrongError(f"in a project that is not its own: {there}")
    numbers = [number for path in places for number in _numbers(path)]
    if numbers != sorted(set(numbers)):
        raise _WrongError(f"records out of order or twice, in {places}: {numbers}")
    if strange := set(numbers) - one.begun:
        raise _WrongError(f"records that nobody wrote: {strange}")
    if not places:
        return _absent(one, config, archive, is_dead)
    if one.kind == "loose":
        return _loose(one, numbers, places, is_dead)
    if len(places) > 1:
        raise _WrongError("in place and archived")
    lost = one.written - set(numbers)
    home = archive / one.session_id if away.exists() else config
    broken = _broken(one, home)
    if is_dead and away.exists() and not broken and not lost:
        return "tombstoned, and whole in the archive"
    if lost:
        raise _WrongError(f"records lost: {sorted(lost)} of {len(one.written)}")
    if broken:
        raise _WrongError(f"companions missing or changed in {home}: {broken}")
    if away.exists():
        return "archived"
    return "in place, tombstone left by an interrupted restore" if is_dead else "in place"


def _absent(one: Made, config: Path, archive: Path, is_dead: bool) -> str:
    if not is_dead:
        if not one.appeared:
            return "never appeared (its writer was killed)"
        raise _WrongError(
            f"lost: neither in place nor archived nor tombstoned ({_traces(one, config)})"
        )
    for base in (config, archive / one.session_id):
        if left := _left(one, base):
            raise _WrongError(f"tombstoned, but companions are left in {base}: {left}")
    return "tombstoned"


def _traces(one: Made, config: Path) -> str:
    found = config.parent.rglob(f"*{one.session_id}*")
    return ", ".join(sorted(str(path.relative_to(config.parent)) for path in found)) or "no trace"


def _loose(one: Made, numbers: list[int], places: list[Path], is_dead: bool) -> str:
    """Written by somebody who does not register: pieces, but none lost without a tombstone."""
    lost = one.written - set(numbers)
    if is_dead:
        return "written anew after a delete (by a writer that does not register)"
    if lost:
        raise _WrongError(f"records lost: {sorted(lost)} of {len(one.written)}")
    if len(places) > 1:
        return "written anew after an archive (by a writer that does not register)"
    return "archived" if places[0].parent.name != one.project else "in place"


def _broken(one: Made, home: Path) -> list[str]:
    tops = [home / name for name in one.companions]
    found = digests(home, tops)
    return sorted(name for name, digest in one.companions.items() if found.get(name) != digest)


def _numbers(path: Path) -> list[int]:
    """The running numbers of a transcript's records; a torn record is one too many."""
    try:
        return [json.loads(line)["number"] for line in path.read_bytes().splitlines()]
    except (ValueError, KeyError) as error:
        raise _WrongError(f"{path} holds a broken record: {error}") from error
