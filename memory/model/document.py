"""The stored file: frontmatter, which belongs to the program, and the body, which is the profile.

Reading never fails: what is not understood in the frontmatter is kept as it is (unknown keys) or as text of the body.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any, cast

import yaml

from memory.model.profile import SECTIONS, TITLE, Profile, parse_body, render_body, split_frontmatter

SCHEMA_VERSION = 1
_OWN_KEYS = ("user_id", "schema_version", "last_updated", "turn_count")
_KEY_LINE = re.compile(r"([A-Za-z_][\w-]{0,63})[ \t]*:[ \t]*(.*)")
_MAX_YAML_CHARS = 16 * 1024
_MAX_YAML_DEPTH = 30
_MAX_COUNT = 2**53
_SECTION_LINE = re.compile("^#{1,6} *(?:" + "|".join(re.escape(name) for name in (TITLE, *SECTIONS)) + ")", re.MULTILINE)
_OWN_LINES = re.compile(r"\s*---[ \t]*\r?\n((?:(?:" + "|".join(_OWN_KEYS) + r")[ \t]*:[^\r\n]*(?:\r?\n|\Z))+)")
_ODD_LINE_ENDS = re.compile("[\x85\u2028\u2029\r]")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """What the program notes about the file.

    ``last_updated``: with a zone, None when never; ``turn_count``: rewrites that changed the body; ``extra``: keys that this
    program does not know, kept as YAML gave them.
    """

    user_id: str
    schema_version: int = SCHEMA_VERSION
    last_updated: datetime | None = None
    turn_count: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    def advanced(self, *, now: datetime, rewrite: bool) -> Frontmatter:
        """After a change of the body at ``now`` (with a zone); ``rewrite``: the change was made by the pipeline."""
        moment = now.astimezone(UTC).replace(microsecond=0)
        return replace(self, schema_version=SCHEMA_VERSION, last_updated=moment, turn_count=self.turn_count + int(rewrite))


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
    text = _decode(data) if isinstance(data, bytes) else data
    text = text.removeprefix("\ufeff")
    block, body = split_frontmatter(text)
    if block is None or len(block) > _MAX_YAML_CHARS or _SECTION_LINE.search(block):
        block, body = _split_unclosed(text)
    values, leftover = _read_yaml(block)
    if leftover:
        body = f"{leftover}\n\n{body}"
    return Document(_frontmatter(values, user_id), parse_body(body), body)


def render_document(frontmatter: Frontmatter, profile: Profile) -> str:
    """The file's text: the program's own keys first, then the unknown ones, then the strict body."""
    own: dict[str, Any] = {"user_id": frontmatter.user_id, "schema_version": frontmatter.schema_version}
    if frontmatter.last_updated is not None:
        own["last_updated"] = frontmatter.last_updated.astimezone(UTC)
    own["turn_count"] = frontmatter.turn_count
    extra = {key: value for key, value in frontmatter.extra.items() if key not in _OWN_KEYS}
    return f"---\n{_dump({**own, **extra})}---\n\n{render_body(profile)}"


class _Dumper(yaml.SafeDumper):
    """Safe YAML with times in ISO form ("2026-06-17T12:00:00+00:00") and no line folding."""

    def ignore_aliases(self, data: Any) -> bool:
        return data is None or isinstance(data, (str, bytes, bool, int, float, date))


def _represent_datetime(dumper: yaml.SafeDumper, value: datetime) -> yaml.ScalarNode:
    return dumper.represent_scalar(  # pyright: ignore[reportUnknownMemberType]
        "tag:yaml.org,2002:timestamp", value.isoformat()
    )


def _represent_str(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    # PyYAML writes these line ends plainly and reads them back as blanks; in double quotes they are escaped.
    style = '"' if _ODD_LINE_ENDS.search(value) else None
    return dumper.represent_scalar(  # pyright: ignore[reportUnknownMemberType]
        "tag:yaml.org,2002:str", value, style=style
    )


_Dumper.add_representer(datetime, _represent_datetime)
_Dumper.add_representer(str, _represent_str)


def _dump(values: Mapping[str, Any]) -> str:
    text = yaml.dump(  # pyright: ignore[reportUnknownMemberType]
        dict(values), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31, default_flow_style=False
    )
    return _SURROGATE.sub("\ufffd", text)


def _decode(data: bytes) -> str:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def _split_unclosed(text: str) -> tuple[str, str]:
    """For a file whose frontmatter is not closed: the program's own keys at its top, and everything else."""
    found = _OWN_LINES.match(text)
    return (found[1], text[found.end() :].lstrip("\r\n")) if found else ("", text)


def _read_yaml(block: str) -> tuple[dict[str, Any], str]:
    """The block's keys and the text in it that is not YAML."""
    block = "\n".join(block.splitlines())
    values = _load(block)
    if isinstance(values, dict):
        return {str(key): value for key, value in cast(dict[Any, Any], values).items()}, ""
    if values is None and not any(line.strip() and not line.lstrip().startswith("#") for line in block.splitlines()):
        return {}, ""
    # Broken YAML: keep the lines that can be read alone, and the rest as text.
    salvaged: dict[str, Any] = {}
    rest: list[str] = []
    for line in block.splitlines():
        found = _KEY_LINE.fullmatch(line)
        if found is None or found[1] in salvaged:
            rest.append(line)
            continue
        value = _load(found[2])
        salvaged[found[1]] = found[2].strip() if value is None and found[2].strip() else value
    return salvaged, "\n".join(rest).strip()


def _load(text: str) -> Any:
    """The YAML value, or None for text that is not YAML, or nested so deep (or in itself) that writing it back could fail."""
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, OverflowError):
        # SafeLoader raises ValueError for impossible dates and TypeError for unhashable keys.
        return None
    return value if _is_shallow(value, _MAX_YAML_DEPTH) else None


def _is_shallow(value: Any, depth: int) -> bool:
    level: list[Any] = [value]
    for _ in range(depth):
        # Every container once per level: aliases ("billion laughs") must not multiply the work.
        below = {id(part): part for item in level for part in _parts(item)}
        if not below:
            return True
        level = list(below.values())
    return False


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        inner = cast(dict[Any, Any], value)
        return [*inner.keys(), *inner.values()]
    return list(cast(Iterable[Any], value)) if isinstance(value, (list, tuple, set)) else []


def _frontmatter(values: dict[str, Any], user_id: str) -> Frontmatter:
    return Frontmatter(
        user_id=user_id,
        schema_version=_count(values.get("schema_version"), least=1, default=SCHEMA_VERSION),
        last_updated=_moment(values.get("last_updated")),
        turn_count=_count(values.get("turn_count"), least=0, default=0),
        extra={key: value for key, value in values.items() if key not in _OWN_KEYS},
    )


def _count(value: Any, *, least: int, default: int) -> int:
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= _MAX_COUNT:
        return value
    return default


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return None
