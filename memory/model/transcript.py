"""Text of turns and profiles on its way into a prompt: cleaned, redacted, shortened, quoted.

Every quoted line begins with ``>`` and the tags of the blocks are defused inside them, so no content can close its block or
pass for the structure around it. Quoting redacts by itself: no builder of a prompt can forget it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime

from memory.model.redaction import redact
from memory.model.turn import PROMPT_MESSAGE_BYTES, Turn

EXCHANGE_BYTES = 4 * PROMPT_MESSAGE_BYTES
"""All messages of one exchange together; a long batch of turns shares it."""

QUOTE = ">"
USER_LABEL = "User:"
ASSISTANT_LABEL = "Assistant:"
TURN_LABEL = "Turn "

_SEAM_CHARS = 8192
_MARKER = "\n[… {left_out} bytes left out …]\n"
_BRACKETS = "<\uff1c\ufe64"
_LOOK_ALIKES = {"a": "а", "c": "с", "e": "е", "h": "һ", "i": "іı", "l": "|ӏ", "o": "оο", "p": "рρ", "x": "х"}
"""Cyrillic and Greek letters (and a dotless i) that look like the Latin one."""


def _letter_forms() -> dict[str, str]:
    """Every letter with its full-width, circled and mathematical forms."""
    forms = {letter: letter + letter.upper() + _LOOK_ALIKES.get(letter, "") for letter in "abcdefghijklmnopqrstuvwxyz"}
    for start, end in ((0x2100, 0x2150), (0x2460, 0x2500), (0xFF21, 0xFF5B), (0x1D400, 0x1D7D0)):
        for char in map(chr, range(start, end)):
            letter = unicodedata.normalize("NFKC", char).casefold()
            if letter in forms:
                forms[letter] += char
    return forms


def _tag_start() -> re.Pattern[str]:
    """An opening bracket before the name of a block, whatever invisible or dividing characters stand between and within."""
    forms = _letter_forms()
    gap = rf"(?:[^\w>{_BRACKETS}]|_)*"
    names = (
        "".join(f"[{re.escape(forms[letter])}]{gap}" for letter in name) for name in ("profile", "exchange", "known", "transcript")
    )
    return re.compile(rf"[{_BRACKETS}](?={gap}(?:{'|'.join(names)})(?:\W|\Z|(?<=\W)))")


_TAG_START = _tag_start()


def clean_text(text: str) -> str:
    """``text`` without NUL, with surrogate pairs joined and lone surrogates replaced by U+FFFD: every store can take it."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def shorten_middle(text: str, max_bytes: int) -> str:
    """``text``, or its beginning and end around a marker that says how much is missing.

    Args:
        text: any text without lone surrogates.
        max_bytes: bound of the result in bytes of UTF-8, marker included; at least 100.
    """
    if len(text) * 4 <= max_bytes:
        return text
    data = text.encode("utf-8")
    return text if len(data) <= max_bytes else _ends(data, data, len(data), max_bytes)


def _ends(start: bytes, end: bytes, size: int, max_bytes: int) -> str:
    """The first bytes of ``start`` and the last of ``end`` around the marker; ``size``: of the whole text, in bytes."""
    room = max_bytes - len(_MARKER.format(left_out=size).encode("utf-8"))
    head = start[: room - room // 2].decode("utf-8", "ignore")
    tail = end[max(0, len(end) - room // 2) :].decode("utf-8", "ignore")
    left_out = size - len(head.encode("utf-8")) - len(tail.encode("utf-8"))
    return f"{head}{_MARKER.format(left_out=left_out)}{tail}"


def presentable(text: str, max_bytes: int) -> str:
    """Text as a prompt may show it: cleaned, redacted and shortened to ``max_bytes``.

    Of a long one only what will be shown is redacted, and a stretch beyond. The stretch is cut away afterwards: a secret that lies
    across the seam would show half of itself.
    """
    text = clean_text(text)
    if len(text) <= max_bytes + 2 * _SEAM_CHARS:
        return shorten_middle(redact(text).text, max_bytes)
    head = redact(text[: max_bytes + _SEAM_CHARS]).text[:-_SEAM_CHARS]
    tail = redact(text[-(max_bytes + _SEAM_CHARS) :]).text[_SEAM_CHARS:]
    return _ends(head.encode("utf-8"), tail.encode("utf-8"), len(text.encode("utf-8")), max_bytes)


def stamp(at: datetime) -> str:
    """The time of a turn as prompts and the topics log write it: ``2026-06-17 12:00 UTC``."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def quote_block(tag: str, content: str) -> str:
    """``content`` between the tags of a block. Closing tags inside it are defused; secrets are redacted."""
    return f"<{tag}>\n{defuse(redact(clean_text(content)).text).strip()}\n</{tag}>"


def quote_turns(turns: Sequence[Turn], *, message_bytes: int = PROMPT_MESSAGE_BYTES, total_bytes: int = EXCHANGE_BYTES) -> str:
    """The exchange as a model sees it: each turn with its time, each message as quoted lines.

    Args:
        turns: in order. A side without text is left out.
        message_bytes: longer messages are shortened in the middle.
        total_bytes: shared evenly where the messages of a batch are many.
    """
    sides = sum(bool(text) for turn in turns for text in (turn.user_text, turn.assistant_text))
    limit = max(100, min(message_bytes, total_bytes // max(1, sides)))
    lines: list[str] = ["<exchange>"]
    for turn in turns:
        lines.append(f"{TURN_LABEL}{stamp(turn.occurred_at)}")
        for label, text in ((USER_LABEL, turn.user_text), (ASSISTANT_LABEL, turn.assistant_text)):
            if text and text.strip():
                lines.append(label)
                lines.extend(_quoted(presentable(text, limit)))
    lines.append("</exchange>")
    return "\n".join(lines)


def unquote(line: str) -> str:
    """The words of a quoted line."""
    return line[len(QUOTE) :].removeprefix(" ")


def _quoted(text: str) -> list[str]:
    return [f"{QUOTE} {line}".rstrip() for line in defuse(text).strip().splitlines()]


def defuse(text: str) -> str:
    """``text`` in which nothing can pass for a tag of a block."""
    return _TAG_START.sub("‹", text)
