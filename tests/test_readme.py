"""What the README shows is what happens: every command, every output, every line of Python."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text(encoding="utf-8")
SHOWN_AT = "/home/me/lifecycle"


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def commands() -> list[tuple[str, str]]:
    """Every command that a console block shows, with the output below it."""
    found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks("console")), re.MULTILINE)
    return [(command, shown.rstrip("\n")) for command, shown in found]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that looks like a copy of the repository, to run the examples in."""
    path = tmp_path_factory.mktemp("readme")
    for name in ("src", "tests"):
        (path / name).symlink_to(PROJECT / name)
    return path


def run_all(home: Path) -> list[str]:
    """Runs all commands in one shell, as a reader would; returns what each printed."""
    lines = ["shopt -s expand_aliases"]
    for command, _ in commands():
        lines += ["echo @@@", f"{command} 2>&1"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "TZ": "UTC", "PYTHONUTF8": "1"}
    shell = ["bash", "-c", "\n".join(lines)]
    done = subprocess.run(shell, cwd=home, env=environment, capture_output=True, check=False)
    assert done.stderr == b""
    said = done.stdout.decode().replace(str(home), SHOWN_AT)
    return [text.strip("\n") for text in said.split("@@@\n")[1:]]


def test_every_command_prints_what_the_readme_shows(home: Path) -> None:
    shown = commands()
    assert len(shown) > 10
    for (command, expected), actual in zip(shown, run_all(home), strict=True):
        pattern = ".*?".join(map(re.escape, expected.split("...")))
        stripped = "\n".join(line.rstrip() for line in actual.split("\n"))
        assert re.fullmatch(pattern, stripped, re.DOTALL), f"{command}\n{actual}"


def test_every_line_of_python_gives_what_the_readme_shows(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("TZ", "UTC")
    subprocess.run([sys.executable, "tests/sample.py", ".sample"], check=True, capture_output=True)
    example = doctest.DocTestParser().get_doctest("".join(blocks("python")), {}, "README", None, 0)
    assert len(example.examples) > 5
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example).failed == 0


def test_the_development_command_is_the_one_that_ci_runs() -> None:
    pattern = re.search(r"grep -m 1 -E '(.*)' README.md", (PROJECT / ".ci/run").read_text())
    assert pattern
    assert len(re.findall(pattern[1], "".join(blocks("sh")), re.MULTILINE)) == 1
