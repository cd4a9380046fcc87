"""The stored file: frontmatter, which belongs to the program, and the body, which is the profile.

Reading never fails. Of the frontmatter the program knows four keys; every other line of it is kept as it stands, whether it is
YAML or not: its types, comments and quotes are of those who wrote it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import yaml

from memory.model.profile import SECTIONS, TITLE, Profile, parse_body, render_body, split_frontmatter

SCHEMA_VERSION = 1
_OWN_KEYS = ("user_id", "schema_version", "last_updated", "turn_count")
_OWN_LINE = re.compile(rf"""(["']?)({"|".join(_OWN_KEYS)})\1[ \t]*:(?:[ \t]+(.*)|)""")
_KEY_LINE = re.compile(r"""(?:"[^"]{1,99}"|'[^']{1,99}'|[^\s#"'\-:\[\]{}][^\s:]{0,99})[ \t]*:(?:\s.*|)""")
_MAX_BLOCK_CHARS = 16 * 1024
_MAX_COUNT = 2**53
_SECTION_LINE = re.compile("^#{1,6} *(?:" + "|".join(re.escape(name) for name in (TITLE, *SECTIONS)) + ")", re.MULTILINE)
_OWN_LINES = re.compile(r"\s*---[ \t]*\r?\n((?:(?:" + "|".join(_OWN_KEYS) + r")[ \t]*:[^\r\n]*(?:\r?\n|\Z))+)")
_CLOSING = re.compile(r"(?:---|\.\.\.)[ \t]*")
_ODD_LINE_ENDS = re.compile("[\n\x85\u2028\u2029\r]")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """What the program notes about the file.

    ``schema_version``: that of a newer program stays; ``last_updated``: with a zone, None when never; ``turn_count``: rewrites
    that changed the body; ``extra``: the lines that this program does not know, word for word, each with ``\\n`` at its end.
    """

    user_id: str
    schema_version: int = SCHEMA_VERSION
    last_updated: datetime | None = None
    turn_count: int = 0
    extra: str = field(default="", repr=False)

    def advanced(self, *, now: datetime, rewrite: bool) -> Frontmatter:
        """After a change of the body at ``now`` (with a zone); ``rewrite``: the change was made by the pipeline."""
        moment = now.astimezone(UTC).replace(microsecond=0)
        return replace(self, last_updated=moment, turn_count=self.turn_count + int(rewrite))


@dataclass(frozen=True, slots=True)
class Document:
    """A file as read. ``body``: the text below the frontmatter, as stored (line ends too)."""

    frontmatter: Frontmatter
    profile: Profile
    body: str = field(repr=False)


def parse_document(data: bytes | str, *, user_id: str) -> Document:
    """Read a stored file; never raises.

    Args:
        data: the file's bytes (UTF-8 with or without a BOM, UTF-16 with one; wrong bytes become U+FFFD) or its text.
        user_id: the outside id of the user whose file this is; it wins over what the file says.
    """
    text = decode_text(data) if isinstance(data, bytes) else data
    text = text.removeprefix("\ufeff")
    block, body = split_frontmatter(text)
    if block is None or len(block) > _MAX_BLOCK_CHARS or _SECTION_LINE.search(block):
        block, body = _split_unclosed(text)
    own, extra = _read_block(block)
    if not own and not _begins_with_key(extra):
        # Text between two rules is no frontmatter.
        body, extra = (f"{extra}\n{body}" if any(_text_lines(extra)) else body), ""
    return Document(_frontmatter(own, extra, user_id), parse_body(body, is_stored=True), body)


def render_document(frontmatter: Frontmatter, profile: Profile) -> str:
    """The file's text: the program's own keys first, then the unknown lines, then the strict body."""
    lines = [f"user_id: {_quoted(frontmatter.user_id)}", f"schema_version: {frontmatter.schema_version}"]
    if frontmatter.last_updated is not None:
        lines.append(f"last_updated: {frontmatter.last_updated.astimezone(UTC).isoformat()}")
    lines.append(f"turn_count: {frontmatter.turn_count}")
    block = "\n".join(lines) + "\n" + frontmatter.extra
    return f"---\n{_SURROGATE.sub(chr(0xFFFD), block)}---\n\n{render_body(profile)}"


def _quoted(text: str) -> str:
    """The text as a YAML value on one line, quoted if need be."""
    style = '"' if _ODD_LINE_ENDS.search(text) else None
    dumped = yaml.safe_dump(_SURROGATE.sub("\ufffd", text), allow_unicode=True, width=2**31, default_style=style)
    return dumped.removesuffix("...\n").rstrip("\n")


def decode_text(data: bytes) -> str:
    """UTF-8 with or without a BOM, UTF-16 with one; wrong bytes become U+FFFD."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def _split_unclosed(text: str) -> tuple[str, str]:
    """For a file whose frontmatter is not closed: the program's own keys at its top, and everything else."""
    found = _OWN_LINES.match(text)
    return (found[1], text[found.end() :].lstrip("\r\n")) if found else ("", text)


def _read_block(block: str) -> tuple[dict[str, str], str]:
    """The values of the program's own keys, as written, and all other lines. Of a key that is there twice the first counts."""
    own: dict[str, str] = {}
    extra: list[str] = []
    open_key: str | None = None
    for line in block.rstrip("\r\n").split("\n"):
        line = line.rstrip("\r")
        found = _OWN_LINE.fullmatch(line)
        if found is not None:
            value = (found[3] or "").strip()
            open_key = found[2] if not value and found[2] not in own else None
            own.setdefault(found[2], value)
        elif open_key is not None and line[:1] in (" ", "\t") and line.strip():
            # The value of an own key on the line below it; the program itself writes one line.
            own[open_key], open_key = line.strip(), None
        else:
            # A line that would close the block when it is written again becomes a comment.
            extra.append(f"# {line}" if _CLOSING.fullmatch(line) else line)
            open_key = None
    while extra and not extra[0].strip():
        del extra[0]
    return own, "".join(f"{line}\n" for line in extra)


def _text_lines(extra: str) -> Iterator[str]:
    """The lines that are more than a comment."""
    return (line for line in extra.split("\n") if line.strip() and not line.lstrip().startswith("#"))


def _begins_with_key(extra: str) -> bool:
    first = next(_text_lines(extra), "")
    return first.startswith(("{", "? ")) or _KEY_LINE.fullmatch(first) is not None


def _frontmatter(own: dict[str, str], extra: str, user_id: str) -> Frontmatter:
    return Frontmatter(
        user_id=user_id,
        schema_version=_count(_plain(own.get("schema_version")), least=1, default=SCHEMA_VERSION),
        last_updated=_moment(_plain(own.get("last_updated"))),
        turn_count=_count(_plain(own.get("turn_count")), least=0, default=0),
        extra=extra,
    )


def _plain(value: str | None) -> str:
    """Without quotes and without a comment behind it."""
    text = re.sub(r"(?:^|\s)#.*", "", value or "", count=1).strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _count(value: str, *, least: int, default: int) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 20):
        return default
    return int(value) if least <= int(value) <= _MAX_COUNT else default


def _moment(value: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
