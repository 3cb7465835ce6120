"""What a session is called, as its transcript and its own directory tell."""

from __future__ import annotations

import os
from collections.abc import Iterator

from lifecycle._records import ENDS, LONGEST, lines_with, message_of, parse, without_envelopes
from lifecycle._transcript import blocks, head_and_tail, open_regular

__all__ = ["title_of"]

LONGEST_TITLE = 200


def title_of(path: str, directory: str | None = None, content: bytes | None = None) -> str | None:
    """What a session is called, cut to 200 characters, or None where nothing in it tells.

    The first that exists of: the last custom title, the one in the session's own `directory`,
    the last generated title, the last prompt, a summary, the first typed prompt. Looked for
    in the first and last 64 KiB, and only where these have none in all the rest.
    The transcript is not read where the caller has its whole `content`; one that cannot be
    read has no title.
    """
    try:
        head, tail = (content, None) if content is not None else head_and_tail(path, ENDS)
        found = _title((head,) if tail is None else (tail, head), directory)
        if not found and tail is not None:
            found = _streamed_title(blocks(path, LONGEST))
    except OSError:
        return None
    return found[:LONGEST_TITLE] if found else None


_TITLES = (
    ("custom-title", "customTitle"),
    ("ai-title", "aiTitle"),
    ("last-prompt", "lastPrompt"),
    ("summary", "summary"),
)
# Where the end of the block does not tell, to look from its start is faster for what is not there.
_NEAR = 2 * 1024


def _title(ends: tuple[bytes, ...], directory: str | None) -> str | None:
    for kind, key in _TITLES:
        for end in ends:
            if text := _last_titled(end, kind, key):
                return text
        if kind == "custom-title" and (text := _title_file(directory)):
            return text
    return _first_prompt(ends[-1])


def _last_titled(block: bytes, kind: str, key: str) -> str | None:
    mark = b'"%s"' % kind.encode()
    at = block.rfind(mark, -_NEAR)
    if at < 0 and mark in block:
        at = block.rfind(mark)
    while at >= 0:
        start = block.rfind(b"\n", 0, at) + 1
        end = block.find(b"\n", at)
        record = parse(block[start : end if end >= 0 else None])
        if record is not None and record.get("type") == kind:
            text = record.get(key)
            if isinstance(text, str) and text.strip():
                return text.strip()
        at = block.rfind(mark, 0, start)
    return None


def _title_file(directory: str | None) -> str | None:
    if directory is None:
        return None
    try:
        with open(open_regular(os.path.join(directory, "custom-title.json")), "rb") as file:
            text = (parse(file.read(ENDS)) or {}).get("customTitle")
    except OSError:
        return None
    return text.strip() or None if isinstance(text, str) else None


def _first_prompt(block: bytes) -> str | None:
    return next(filter(None, map(_prompt, lines_with(b'"user"', block))), None)


def _prompt(line: bytes) -> str | None:
    said = message_of(parse(line) or {})
    if said is None or said[0] != "user":
        return None
    text = without_envelopes(said[1])
    return None if text.startswith("[TOOL_RESULT]") else text or None


def _streamed_title(found: Iterator[bytes]) -> str | None:
    prompt: str | None = None
    best: dict[str, str] = {}
    for block in found:
        for kind, key in _TITLES:
            if text := _last_titled(block, kind, key):
                best[kind] = text
        prompt = prompt or _first_prompt(block)
    return next((best[kind] for kind, _ in _TITLES if kind in best), prompt)
