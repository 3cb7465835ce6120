"""Which sessions a running Claude Code holds, as the config directory tells right now."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator

from lifecycle._transcript import open_regular

# Type checkers take this name for true.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

__all__ = ["Live", "LiveSessionError", "live_sessions"]

_PID_FILE = r"\d+\.json"
_SESSION_ID = rb'"sessionId"\s*:\s*"([^"\\]+)"'


class LiveSessionError(RuntimeError):
    """A running Claude Code holds the session (`session_id`), or may hold it."""

    def __init__(self, session_id: str, reason: str) -> None:
        super().__init__(f"session {session_id} is live: {reason}")
        self.session_id = session_id
        self.reason = reason


class Live:
    """The sessions that must be left alone."""

    def __init__(self, sessions: dict[str, str], unknown: str = "") -> None:
        self.sessions = sessions
        """Session id -> why it counts as live."""
        self.unknown = unknown
        """Why any session may be live; empty where none but `sessions` can be."""

    def reason(self, session_id: str) -> str:
        """Why the session is live, or may be; empty where it is not."""
        return self.sessions.get(session_id, self.unknown)


def live_sessions(config: str | None) -> Live:
    """Reads `sessions/` and `daemon/roster.json` of a config directory; None has no sessions.

    What cannot be judged counts as live: no process start, another machine's process, a
    file that cannot be read. Where such a file does not even say which session it is about,
    every session may be live.
    """
    if config is None:
        return Live({})
    sessions: dict[str, str] = {}
    unknown = ""
    for name, content in _files(config):
        entries = None if content is None else _entries(name, content)
        if entries is None:
            ids = [_decoded(found) for found in re.findall(_SESSION_ID, content or b"")]
            reason = f"{name} cannot be read"
            sessions.update(dict.fromkeys(ids, reason))
            unknown = unknown or ("" if ids else f"{reason}, and may be about any session")
            continue
        for entry in entries:
            reason = _reason(entry)
            session_id = entry.get("sessionId")
            if reason and isinstance(session_id, str) and session_id:
                sessions[session_id] = f"{reason} ({name})"
            elif reason:
                unknown = unknown or f"{reason} ({name}), with a session that is not named"
    return Live(sessions, unknown)


def _decoded(found: bytes) -> str:
    return found.decode("utf-8", "surrogateescape")


def _files(config: str) -> Iterator[tuple[str, bytes | None]]:
    """Name and content of each file that tells of processes; None where it cannot be read."""
    try:
        names = os.listdir(os.path.join(config, "sessions"))
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError:
        yield "sessions", None
        names = []
    judged = sorted(name for name in names if re.fullmatch(_PID_FILE, name))
    for name in [f"sessions/{name}" for name in judged] + ["daemon/roster.json"]:
        try:
            with open(open_regular(os.path.join(config, name)), "rb") as file:
                yield name, file.read()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            yield name, None


def _entries(name: str, content: bytes) -> list[dict[str, Any]] | None:
    # Here and not at the top: most runs find no such file, and JSON is slow to load.
    from lifecycle._records import parse

    record = parse(content)
    if record is None:
        return None
    if not name.startswith("daemon"):
        return [record]
    workers = record.get("workers")
    if not isinstance(workers, dict):
        return None if workers else []
    found = list(workers.values())
    return found if all(isinstance(worker, dict) for worker in found) else None


def _reason(entry: dict[str, Any]) -> str:
    """Why an entry's session counts as live, or empty where its process is gone."""
    pid, start, domain = (entry.get(key) for key in ("pid", "procStart", "pidDomain"))
    if domain is not None and domain != _domain():
        return f"held by process {pid} of another machine or container"
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0 or start in (None, ""):
        return f"process {pid} cannot be judged"
    if not _is_running(pid):
        return ""
    actual = _process_start(pid)
    if actual is None:
        return f"process {pid} cannot be judged"
    return f"held by process {pid}" if actual == str(start) else ""


def _domain() -> str:
    if not sys.platform.startswith("linux"):
        return sys.platform
    try:
        with open("/etc/machine-id", encoding="ascii") as file:
            return f"linux:{file.read().strip()}:{os.readlink('/proc/self/ns/pid')}"
    except (OSError, ValueError):
        return "linux"


def _is_running(pid: int) -> bool:
    if sys.platform == "win32":
        # os.kill ends the process there.
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _process_start(pid: int) -> str | None:
    """The start of a running process in the form that Claude Code records, if it can be told."""
    if sys.platform == "darwin":
        return _start_by_ps(pid)
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may itself hold spaces and parentheses.
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return None


def _start_by_ps(pid: int) -> str | None:
    import subprocess

    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() or None
