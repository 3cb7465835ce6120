"""A writer of the soak: makes sessions and appends to them, like a Claude Code or a rude tool.

Runs as a process of its own, and may be killed at any time. What it is about to write, and
what it has written, goes into a ledger first and afterwards; whoever follows it in its place
goes on from there. The kind of a session is the first character of its id:

- `0` quiet: never written again after it appeared;
- `1` live: appended to while registered as a live session, made anew if it is missing;
- `2` open: appended to without registering, but never made anew;
- `3` loose: appended to without registering, and made anew if it is missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sample import add_companions, add_live, project_name, user

__all__ = ["KINDS", "PROJECTS", "Ledger", "Made", "digests", "read_ledger"]

KINDS = {"0": "quiet", "1": "live", "2": "open", "3": "loose"}
PROJECTS = {
    project_name(cwd): cwd for cwd in ("/home/me/app", "/home/me/shop", "/home/me/notes", "/srv/x")
}


@dataclass(slots=True)
class Made:
    """What the ledgers say of one session."""

    session_id: str
    project: str
    companions: dict[str, str]
    """Path in the config directory -> digest of the content."""
    appeared: bool = False
    """Whether it was seen to be there; otherwise its maker was killed, and it may be."""
    begun: set[int] = field(default_factory=set)
    """Numbers of the records that may have been written."""
    written: set[int] = field(default_factory=set)
    """Those that have been."""
    vanished: list[int] = field(default_factory=list)
    """Numbers at which the transcript was missing, though registered as live."""

    @property
    def kind(self) -> str:
        return KINDS[self.session_id[0]]


class Ledger:
    """An append-only file of one writer and its followers."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def note(self, word: str, session_id: str, value: object = None) -> None:
        """One line; it outlives the process from here on."""
        self._file.write(json.dumps([word, session_id, value]) + "\n")
        self._file.flush()


def read_ledger(path: Path) -> dict[str, Made]:
    """Session id -> what one ledger tells."""
    found: dict[str, Made] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            word, session_id, value = json.loads(line)
        except ValueError:
            # The writer was killed in the middle of it, so it has not acted on it.
            continue
        if word == "make":
            found[session_id] = Made(
                session_id, value[0], value[2], begun=set(range(1, value[1] + 1))
            )
        elif word == "made":
            found[session_id].appeared = True
            found[session_id].written = set(found[session_id].begun)
        elif word == "vanished":
            found[session_id].vanished.append(value)
        else:
            getattr(found[session_id], word).add(value)
    return found


def digests(base: Path, tops: list[Path]) -> dict[str, str]:
    """Path below the base -> digest, of all files at and below some paths."""
    files = [path for top in tops for path in [top, *top.rglob("*")] if path.is_file()]
    return {
        str(path.relative_to(base)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }


class _Writer:
    def __init__(self, config: Path, ledger: Path, seed: str) -> None:
        self.config = config
        self.random = Random(seed)
        self.made = read_ledger(ledger)
        self.ledger = Ledger(ledger)
        self.scratch = ledger.with_suffix(f".{os.getpid()}")
        self.stopping = False

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        while not self.stopping:
            act = self.random.choices(
                (self._make, self._live, self._open, self._loose), (3, 4, 2, 1)
            )
            act[0]()
            time.sleep(self.random.uniform(0, 0.08))

    def _stop(self, *_: object) -> None:
        self.stopping = True

    def _make(self) -> None:
        random = self.random
        rest = str(UUID(int=random.getrandbits(128), version=4))[1:]
        session_id = random.choice(list(KINDS)) + rest
        project = random.choice(list(PROJECTS))
        count = random.choice((1, 2, 3, 8, 30, 200))
        old = KINDS[session_id[0]] == "quiet" and random.random() < 0.5
        at = datetime.now(UTC) - timedelta(days=100 if old else 0)
        # The records in one go, and last: a session appears whole.
        companions: dict[str, str] = {}
        if random.random() < 0.5:
            companions = digests(self.config, add_companions(self.config, project, session_id))
        self.ledger.note("make", session_id, [project, count, companions])
        lines = b"".join(_line(session_id, project, n, at) for n in range(1, count + 1))
        self.scratch.write_bytes(lines)
        os.utime(self.scratch, (at.timestamp(), at.timestamp()))
        target = self._transcript(session_id, project)
        target.parent.mkdir(mode=0o700, exist_ok=True)
        self.scratch.rename(target)
        self.ledger.note("made", session_id)
        begun = set(range(1, count + 1))
        self.made[session_id] = Made(session_id, project, companions, True, begun)

    def _transcript(self, session_id: str, project: str) -> Path:
        return self.config / "projects" / project / f"{session_id}.jsonl"

    def _chosen(self, kind: str) -> Iterator[Made]:
        ready = [one for one in self.made.values() if one.kind == kind and one.appeared]
        # The newest are the likeliest to be there still.
        yield from self.random.choices(ready[-12:], k=1) if ready else ()

    def _live(self) -> None:
        for one in self._chosen("live"):
            mark = self._register(one.session_id)
            time.sleep(self.random.uniform(0, 0.03))
            if self._transcript(one.session_id, one.project).exists():
                for _ in range(self.random.randint(1, 6)):
                    self._append(one, create=True, live=True)
                    time.sleep(self.random.uniform(0, 0.06))
            if self.random.random() < 0.8:
                mark.unlink()

    def _register(self, session_id: str) -> Path:
        # In one step: a torn one would make every session live for the rest of the soak.
        made = add_live(self.scratch.parent / "marks", session_id, os.getpid())
        mark = self.config / "sessions" / made.name
        mark.parent.mkdir(mode=0o700, exist_ok=True)
        return made.replace(mark)

    def _open(self) -> None:
        for one in self._chosen("open"):
            self._append(one, create=False)

    def _loose(self) -> None:
        for one in self._chosen("loose"):
            self._append(one, create=True)

    def _append(self, one: Made, *, create: bool, live: bool = False) -> None:
        """One record, with the file opened and closed for it."""
        path = self._transcript(one.session_id, one.project)
        number = max(one.begun) + 1
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            if not create:
                return
            if live:
                self.ledger.note("vanished", one.session_id, number)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.ledger.note("begun", one.session_id, number)
        one.begun.add(number)
        os.write(descriptor, _line(one.session_id, one.project, number, datetime.now(UTC)))
        os.close(descriptor)
        self.ledger.note("written", one.session_id, number)


def _line(session_id: str, project: str, number: int, at: datetime) -> bytes:
    said = user(f"Please do step {number}", session_id, at, cwd=PROJECTS[project], number=number)
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


if __name__ == "__main__":
    _Writer(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]).run()
