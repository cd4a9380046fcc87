"""The JSON schema of a reply to an extraction, and reading such a reply.

The schema is in the strict form that OpenAI's ``json_schema`` and Anthropic's ``output_config`` take: no further properties, every
property required, what may be left out is nullable, no bounds and no patterns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError

from memory.model.category import Category
from memory.model.errors import MalformedOutput
from memory.model.items import MAX_EVIDENCE, MAX_ITEMS, Dropped, DropReason, Item
from memory.model.reply import find_json

SCHEMA_NAME: Final = "window_items"
_KEPT = ("type", "enum", "description", "items", "properties", "anyOf", "const")


def reply_schema(items: Mapping[Category, type[Item]]) -> dict[str, Any]:
    """An object with one list of items per category."""
    properties = {category.value: {"type": "array", "items": _strict_object(item)} for category, item in items.items()}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _strict_object(model: type[BaseModel]) -> dict[str, Any]:
    whole = model.model_json_schema()
    return _strict(whole, cast(Mapping[str, Any], whole.get("$defs", {})))


def _strict(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return _strict(definitions[str(schema["$ref"]).rsplit("/", 1)[-1]], definitions)
    kept: dict[str, Any] = {key: schema[key] for key in _KEPT if key in schema}
    kept.pop("description", None)
    if "const" in kept:
        return {"type": "string", "enum": [kept["const"]]}
    if "anyOf" in kept:
        return {"anyOf": [_strict(one, definitions) for one in kept["anyOf"]]}
    if "properties" in kept:
        properties = cast(Mapping[str, Any], kept["properties"])
        return {
            "type": "object",
            "properties": {name: _strict(one, definitions) for name, one in properties.items()},
            "required": list(properties),
            "additionalProperties": False,
        }
    if kept.get("type") == "array":
        return {"type": "array", "items": _strict(kept.get("items") or {"type": "string"}, definitions)}
    return kept


class Sections(BaseModel):
    """A reply, by category: its items, what was malformed, and the categories whose section cannot be read."""

    items: dict[Category, list[Item]] = {}
    dropped: dict[Category, list[Dropped]] = {}
    proposed: dict[Category, int] = {}
    broken: dict[Category, str] = {}

    model_config = {"arbitrary_types_allowed": True}


def read_reply(text: str, items: Mapping[Category, type[Item]]) -> Sections:
    """Read generously: prose, fences and thinking around the JSON do not matter; one bad item does not spoil the others.

    Raises:
        MalformedOutput: there is no JSON object with a section of one of these categories.
    """
    found = _object(text, list(items))
    sections = Sections()
    for category, item_type in items.items():
        section: Any = found.get(category.value)
        if isinstance(section, dict) and "evidence" in section:
            section = [cast(dict[str, Any], section)]
        if section is not None and not isinstance(section, list):
            sections.broken[category] = "not_a_list"
            continue
        entries = cast(list[Any], section or [])
        sections.proposed[category] = len(entries)
        kept, dropped = _read_items(category, entries, item_type)
        if entries and not kept and all(one.reason == DropReason.MALFORMED for one in dropped):
            sections.broken[category] = "no_readable_item"
        sections.items[category], sections.dropped[category] = kept, dropped
    return sections


def _object(text: str, categories: Sequence[Category]) -> dict[str, Any]:
    problem: MalformedOutput | None = None
    for category in categories:
        try:
            return find_json(text, category.value)
        except MalformedOutput as error:
            problem = error
    raise problem or MalformedOutput("no category was asked for")


def _read_items(category: Category, entries: Sequence[Any], item_type: type[Item]) -> tuple[list[Item], list[Dropped]]:
    kept: list[Item] = []
    dropped: list[Dropped] = []
    for place, entry in enumerate(entries):
        given = cast(dict[str, Any], entry) if isinstance(entry, dict) else {}
        if place >= MAX_ITEMS:
            dropped.append(Dropped(category=category, reason=DropReason.TOO_MANY, item=_bounded(given)))
            continue
        try:
            kept.append(item_type.model_validate(_mended(given)))
        except ValidationError:
            dropped.append(Dropped(category=category, reason=DropReason.MALFORMED, item=_bounded(given)))
    return kept, dropped


def _mended(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Without nulls (a strict schema makes models write them) and with the usual slips put right."""
    mended = {str(name): value for name, value in entry.items() if value is not None}
    evidence: Any = mended.get("evidence")
    if isinstance(evidence, dict):
        evidence = [cast(dict[str, Any], evidence)]
    if isinstance(evidence, list):
        mended["evidence"] = [_numbered(one) for one in cast(list[Any], evidence)[:MAX_EVIDENCE]]
    for name in ("topics", "tags"):
        if isinstance(mended.get(name), str):
            mended[name] = [part.strip() for part in mended[name].split(",") if part.strip()]
    return mended


def _numbered(evidence: Any) -> Any:
    """``"[12]"`` and ``"12"`` are line numbers too."""
    if isinstance(evidence, dict):
        given = cast(dict[str, Any], evidence)
        if isinstance(number := given.get("event"), str):
            return {**given, "event": number.strip().strip("[]#")}
        return given
    return evidence


def _bounded(item: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a dropped item for the person who looks."""
    return {
        str(name)[:60]: value if isinstance(value, int | float | bool) else str(value)[:500]
        for name, value in list(item.items())[:20]
    }
