"""Measures the command against the tools that do the same work, whole process by whole process.

`python3 tests/benchmarks/bench.py` makes seeded trees in a temporary directory, runs each row
as pairs (ours and the reference in turns, after a warm-up that fills the page cache), and
prints the median of the ratios within the pairs. It exits with 1 where a goal is missed.

At the small size Python's own start is part of every reference: it would outweigh the work.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
PYTHON = sys.executable
START = f"{PYTHON} -c pass"
TOMORROW = f"{date.today() + timedelta(days=1)}"
MOST_MIB = 32
# Arguments of trees.py by tree: how many sessions or ids, then megabytes.
SIZES: dict[str, dict[str, tuple[int, ...]]] = {
    "small": {
        "small": (3_000,),
        "large": (40, 400),
        "huge": (1, 200),
        "one": (1,),
        "tombstones": (1_000_000,),
    },
    "full": {
        "small": (20_000,),
        "large": (300, 3_000),
        "huge": (1, 1_000),
        "one": (1,),
        "tombstones": (1_000_000,),
    },
}
ASK = "import sys, lifecycle; sys.exit(not lifecycle.is_tombstoned(*sys.argv[1:]))"
TIMED = (
    "import sys; from time import perf_counter; from lifecycle import is_tombstoned; "
    "began = perf_counter(); found = is_tombstoned(*sys.argv[1:]); "
    "print(perf_counter() - began); sys.exit(not found)"
)
# What pip installs.
SCRIPT = "import sys\nfrom lifecycle.cli import run\nsys.exit(run())\n"
LOOP = (
    "import sys\nfor path in open(sys.argv[1]).read().split('\\0')[:-1]:\n"
    "    with open(path, 'rb') as file:\n"
    "        print(path, sum(1 for line in file if line.strip()))\n"
)
# The least that a program with options does to see which files have few lines.
BARE = (
    "import argparse, glob\n"
    "parser = argparse.ArgumentParser()\nparser.add_argument('root')\n"
    "for path in glob.iglob(parser.parse_args().root + '/*/*.jsonl'):\n"
    "    with open(path, 'rb', buffering=0) as file:\n"
    "        if file.read(16384).count(b'\\n') <= 5:\n"
    "            print(path)\n"
)

Command = list[str]


@dataclass(frozen=True, slots=True)
class Run:
    """What one process took."""

    seconds: float
    kibibytes: int
    """The most memory that it had at once."""


Pairs = Iterator[tuple[Run, Run]]


@dataclass(slots=True)
class Place:
    """Where the trees are, and how to run something there."""

    base: Path
    sizes: dict[str, tuple[int, ...]]
    start: str
    """What a reference runs besides its work."""
    environment: dict[str, str] = field(default_factory=dict)

    def tree(self, kind: str) -> Path:
        """A tree (or the cache directory with the tombstone file), made at the first call."""
        path = self.base / kind / "projects"
        if not path.exists():
            print(f"making the tree {kind!r} ...", file=sys.stderr)
            made = "small" if kind == "one" else kind
            command = [PYTHON, str(HERE / "trees.py"), made, str(path)]
            subprocess.run([*command, *map(str, self.sizes[kind])], check=True)
        return path

    def files(self, kind: str) -> tuple[Path, list[str]]:
        """The transcripts of a tree, and a file that lists them, each ended by a NUL."""
        found = sorted(map(str, self.tree(kind).glob("*/*.jsonl")))
        path = self.base / f"{kind}.list"
        path.write_text("".join(f"{name}\0" for name in found), encoding="utf-8")
        return path, found

    def measure(self, command: Command) -> Run:
        """Runs a command with its output to /dev/null; RuntimeError where it fails."""
        null = os.open(os.devnull, os.O_RDWR)
        actions = [(os.POSIX_SPAWN_DUP2, null, number) for number in (0, 1)]
        began = time.perf_counter()
        pid = os.posix_spawnp(command[0], command, self.environment, file_actions=actions)
        _, status, usage = os.wait4(pid, 0)
        seconds = time.perf_counter() - began
        os.close(null)
        if status:
            raise RuntimeError(f"{' '.join(command)} ended with wait status {status}")
        # macOS counts bytes.
        return Run(seconds, usage.ru_maxrss // (1024 if sys.platform == "darwin" else 1))

    def alternate(self, ours: Command, other: Command, count: int) -> Pairs:
        """Both in turns, each the first every other time, after one pair to warm up."""
        for number in range(count + 1):
            runs = {
                side: self.measure((other, ours)[side]) for side in (number % 2, 1 - number % 2)
            }
            if number:
                yield runs[1], runs[0]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; without a goal it only informs."""

    name: str
    work: str
    against: str
    goal: float | None
    pairs: int
    run: Callable[[Place, int], Pairs]


def lifecycle(place: Place, *arguments: str) -> Command:
    """The command as an installation starts it; `python -m` takes some milliseconds more."""
    return [PYTHON, str(place.base / "session-lifecycle"), *arguments]


def delete(place: Place, root: Path, *arguments: str) -> Command:
    """Our command over a tree."""
    return lifecycle(place, "delete", "--projects-root", str(root), *arguments)


def shell(*parts: str) -> Command:
    """A reference that takes several programs."""
    return ["sh", "-c", "; ".join(filter(None, parts))]


def count(kind: str, *arguments: str) -> Callable[[Place, int], Pairs]:
    """A dry run that counts every message, against `wc -l` on the same files."""

    def run(place: Place, pairs: int) -> Pairs:
        wc = shell(f"xargs -0 wc -l < {place.files(kind)[0]}", place.start)
        return place.alternate(delete(place, place.tree(kind), "-n", *arguments), wc, pairs)

    return run


def look(kind: str, *arguments: str) -> Callable[[Place, int], Pairs]:
    """A dry run that needs no more than names and sizes, against a walk that prints these.

    `ID` stands for the id of one session.
    """

    def run(place: Place, pairs: int) -> Pairs:
        given = _with_id(place, kind, arguments)
        ours = delete(place, place.tree(kind), "-n", *given)
        return place.alternate(ours, _find(place, kind), pairs)

    return run


def bare(place: Place, pairs: int) -> Pairs:
    """A few lines of Python that look at the beginning of each file, without a plan."""
    ours = [PYTHON, "-c", BARE, str(place.tree("large"))]
    return place.alternate(ours, _find(place, "large"), pairs)


def _find(place: Place, kind: str) -> Command:
    return shell(f"find {place.tree(kind)} -name '*.jsonl' -printf '%s\\n'", START)


def _with_id(place: Place, kind: str, arguments: Sequence[str]) -> Command:
    if "ID" not in arguments:
        return list(arguments)
    names = place.files(kind)[1]
    return [Path(names[len(names) // 2]).stem if each == "ID" else each for each in arguments]


def start(*arguments: str) -> Callable[[Place, int], Pairs]:
    """A command with next to no work, against Python's own start."""

    def run(place: Place, pairs: int) -> Pairs:
        ours = lifecycle(place, *arguments)
        if "ID" in arguments:
            ours = delete(place, place.tree("one"), "-n", *_with_id(place, "one", arguments))
        return place.alternate(ours, START.split(), pairs)

    return run


def destroy(*arguments: str) -> Callable[[Place, int], Pairs]:
    """A real delete and `rm`, each on a copy, all written back before either starts."""

    def run(place: Place, pairs: int) -> Pairs:
        ours, other = (place.base / name / "projects" for name in ("copy", "other-copy"))
        cache = str(place.base / "copy" / "cache")
        find = f"find {other} -name '*.jsonl' -print0 | xargs -0 rm"
        commands = (shell(find), delete(place, ours, "-y", "--cache-dir", cache, *arguments))
        for number in range(pairs):
            for copy in (ours, other):
                shutil.rmtree(copy.parent, ignore_errors=True)
                copy.parent.mkdir()
                subprocess.run(["cp", "-a", place.tree("small"), copy], check=True)
            runs = {}
            for side in (number % 2, 1 - number % 2):
                os.sync()
                runs[side] = place.measure(commands[side])
            if any(ours.glob("*/*")) or any(other.glob("*/*")):
                raise RuntimeError("something was left undeleted")
            yield runs[1], runs[0]

    return run


def ask(place: Place, pairs: int, *, call_alone: bool = False) -> Pairs:
    """Whether the last id of the tombstone file stands in it, against `grep -Fxq`."""
    file = place.tree("tombstones") / ".deleted"
    with file.open("rb") as lines:
        # Not read whole: what this process takes at most, its children are said to take too.
        lines.seek(-37, os.SEEK_END)
        last = lines.read(36).decode()
    grep = ["grep", "-Fxq", last, str(file)]
    question = [str(file.parent), last]
    if not call_alone:
        yield from place.alternate([PYTHON, "-c", ASK, *question], grep, pairs)
        return
    command = [PYTHON, "-c", TIMED, *question]
    for _ in range(pairs):
        done = subprocess.run(command, env=place.environment, stdout=subprocess.PIPE, check=True)
        yield Run(float(done.stdout), 0), place.measure(grep)


def loop(place: Place, pairs: int) -> Pairs:
    """What plain Python takes to count."""
    listing = place.files("small")[0]
    wc = shell(f"xargs -0 wc -l < {listing}", place.start)
    return place.alternate([PYTHON, "-c", LOOP, str(listing)], wc, pairs)


def rows(sizes: dict[str, tuple[int, ...]]) -> list[Row]:
    """The table in order."""
    small, ids = f"{sizes['small'][0]:,}", f"{sizes['tombstones'][0]:,}"
    large, huge = (f"{sizes[kind][1] / 1000:g} GB" for kind in ("large", "huge"))
    wc, find, python = "wc -l", "find, Python's start", "python3 -c pass"
    every = ("--before", TOMORROW)
    old = ("--before", "2001-01-01")

    def call(place: Place, pairs: int) -> Pairs:
        return ask(place, pairs, call_alone=True)

    return [
        Row("count", f"count {small}, --json", wc, 1.5, 5, count("small", "--json", *every)),
        Row("count-rows", f"count {small}, with titles", wc, 2.5, 5, count("small", *every)),
        Row(
            *("count-project", f"count {small}, --project, --json", wc, 1.5, 5),
            count("small", "--json", "--project", "-"),
        ),
        Row("large", f"count {large}, --json", wc, 1.5, 5, count("large", "--json", *every)),
        Row("large-rows", f"count {large}, with titles", wc, 1.5, 5, count("large", *every)),
        Row("huge", f"count one file of {huge}", wc, 2.0, 5, count("huge", "--json", *every)),
        Row(
            "limit", f"--max-messages 5, {large}", find, 2, 7, look("large", "--max-messages", "5")
        ),
        Row("bare", "a bare script that does that", find, None, 7, bare),
        Row("before", f"--before excludes {small}", find, 2, 7, look("small", *old)),
        Row("project", f"--project excludes {small}", find, 2, 7, look("small", "--project", "no")),
        Row("id", f"a session id among {small}", find, 1.5, 7, look("small", "ID")),
        Row("delete", f"delete {small}", "rm", 3, 3, destroy(*every)),
        Row("delete-json", f"delete {small}, --json", "rm", 3, 3, destroy("--json", *every)),
        Row("version", "--version", python, 2.5, 15, start("--version")),
        Row("one", "dry run over one session", python, 4.5, 15, start("ID")),
        Row("tombstone", f"is_tombstoned, {ids} ids", "grep -Fxq", 2, 11, call),
        Row("ask", "the same with Python's start", "grep -Fxq", None, 11, ask),
        Row("loop", f"a plain loop, {small}", wc, None, 3, loop),
    ]


def show(place: Place, chosen: Sequence[Row], pairs: int) -> bool:
    """Runs the rows and prints the table; returns whether every goal is met."""
    line = "| {:<36} | {:<20} | {:>6} | {:<22} | {:<7} |".format
    print(line("work", "against", "goal", "figure", "verdict"))
    print(line("-" * 36, "-" * 20, "-" * 6, "-" * 22, "-" * 7))
    met = True
    most = (0, "")
    for row in chosen:
        runs = list(row.run(place, pairs or row.pairs))
        ratios = sorted(ours.seconds / other.seconds for ours, other in runs)
        is_met = row.goal is None or median(ratios) <= row.goal
        figure = f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        goal = "" if row.goal is None else f"{row.goal:.1f}"
        verdict = "" if row.goal is None else "met" if is_met else "MISSED"
        print(line(row.work, row.against, goal, figure, verdict), flush=True)
        met = met and is_met
        if row.name not in ("bare", "loop"):
            most = max(most, (max(ours.kibibytes for ours, _ in runs), row.name))
    mebibytes = most[0] / 1024
    is_met = mebibytes <= MOST_MIB
    figure, verdict = f"{mebibytes:.1f} MiB ({most[1]})", "met" if is_met else "MISSED"
    print(line("peak memory of any of these", "", f"{MOST_MIB} MiB", figure, verdict))
    return met and is_met


def surroundings(base: Path) -> dict[str, str]:
    """Nothing from outside but the way to programs; the package is copied, so that compiled
    files stay in the temporary directory."""
    shutil.copytree(HERE.parent.parent / "src", base / "src")
    (base / "session-lifecycle").write_text(SCRIPT, encoding="utf-8")
    home = base / "home"
    home.mkdir()
    found = {f"XDG_{name}_HOME": str(home / name) for name in ("CONFIG", "CACHE", "DATA", "STATE")}
    return found | {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "PYTHONPATH": str(base / "src"),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the rows named on the command line; returns the exit status."""
    names = [row.name for row in rows(SIZES["small"])]
    parser = argparse.ArgumentParser(description="Compare the command with wc, find, rm and grep.")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--rows", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--pairs", type=int, default=0, help="of each row, instead of its own")
    options = parser.parse_args(argv)
    if "shims" in Path(PYTHON).parts:
        print(f"{PYTHON} is a version manager's shim: times will be off", file=sys.stderr)
    sizes = SIZES[options.size]
    with tempfile.TemporaryDirectory(prefix="lifecycle-bench-") as directory:
        base = Path(directory)
        added = START if options.size == "small" else ""
        place = Place(base, sizes, added, surroundings(base))
        chosen = [row for row in rows(sizes) if row.name in options.rows]
        return 0 if show(place, chosen, options.pairs) else 1


if __name__ == "__main__":
    sys.exit(main())
