"""The JSON schema of a reply to an extraction, and reading such a reply.

The schema is in the strict form that OpenAI's ``json_schema`` and Anthropic's ``output_config`` take: no further properties, every
property required, what may be left out is nullable, no bounds and no patterns.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, cast

from pydantic import BaseModel, ValidationError

from memory.model.category import Category
from memory.model.errors import MalformedOutput
from memory.model.items import MAX_EVIDENCE, MAX_ITEMS, Dropped, DropReason, Item
from memory.model.redaction import redact
from memory.model.reply import find_json, strip_reply
from memory.model.transcript import clean_text

SCHEMA_NAME: Final = "window_items"
_CHOICES: Final = ("action", "relation", "kind", "status", "priority")
_KEPT = ("type", "enum", "description", "items", "properties", "anyOf", "const")


def reply_schema(items: Mapping[Category, type[Item]]) -> dict[str, Any]:
    """An object with one list of items per category."""
    properties = {category.value: {"type": "array", "items": _strict_object(item)} for category, item in items.items()}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


@cache
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


@dataclass
class Sections:
    """A reply, by category: its items, what was malformed, and the categories whose section cannot be read."""

    items: dict[Category, list[Item]] = field(default_factory=dict[Category, list[Item]])
    dropped: dict[Category, list[Dropped]] = field(default_factory=dict[Category, list[Dropped]])
    proposed: dict[Category, int] = field(default_factory=dict[Category, int])
    broken: dict[Category, str] = field(default_factory=dict[Category, str])


def read_reply(text: str, items: Mapping[Category, type[Item]]) -> Sections:
    """Read generously: prose, fences and thinking around the JSON do not matter; one bad item does not spoil the others.

    Raises:
        MalformedOutput: there is no JSON object with a section of one of these categories.
    """
    found, unclear = _objects(text, list(items))
    sections = Sections(broken=unclear)
    for category, item_type in items.items():
        if category in unclear:
            continue
        section: Any = found.get(category)
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


def looks_cut_off(text: str) -> bool:
    """Whether an unreadable reply has begun its JSON and not come to its end: some servers cut off and do not say so."""
    body = strip_reply(text)
    start = body.find("{")
    return start >= 0 and '"' in body[start:] and body[start:].count("{") > body[start:].count("}")


def _objects(text: str, categories: Sequence[Category]) -> tuple[dict[Category, Any], dict[Category, str]]:
    """The sections, wherever they stand: in one object, in one each, in an object around them, or as a bare list for one category.

    The second: categories of which the reply has several different sections.
    """
    whole = _whole(text)
    if len(categories) == 1 and isinstance(whole, list) and all(_is_item(one) for one in cast(list[Any], whole)):
        return {categories[0]: whole}, {}
    found: dict[Category, Any] = {}
    unclear: dict[Category, str] = {}
    problem = MalformedOutput("no category was asked for")
    outer = _wrapped(whole, {category.value for category in categories})
    for category in categories:
        if outer is not None and category.value in outer:
            found[category] = outer[category.value]
            continue
        try:
            found[category] = find_json(text, category.value)[category.value]
        except MalformedOutput as error:
            problem = error
            if "several" in str(error):
                unclear[category] = "several_sections"
    if not found:
        raise problem
    return found, unclear


def _whole(text: str) -> Any:
    """The reply as one JSON value; None where it is more or less than that."""
    try:
        return json.loads(strip_reply(text))
    except (ValueError, RecursionError):
        return None


def _is_item(value: Any) -> bool:
    return isinstance(value, dict) and "evidence" in value


def _wrapped(value: Any, names: Collection[str]) -> dict[str, Any] | None:
    """The object with the sections, within another object or a list of one."""
    inner = value
    for _ in range(3):
        if isinstance(inner, list) and len(cast(list[Any], inner)) == 1:
            inner = cast(list[Any], inner)[0]
        if not isinstance(inner, dict):
            return None
        given = cast(dict[str, Any], inner)
        if not given.keys().isdisjoint(names):
            return given
        inner = next(iter(given.values())) if len(given) == 1 else None
    return None


def _read_items(category: Category, entries: Sequence[Any], item_type: type[Item]) -> tuple[list[Item], list[Dropped]]:
    kept: list[Item] = []
    dropped: list[Dropped] = []
    for place, entry in enumerate(entries):
        given = cast(dict[str, Any], entry) if isinstance(entry, dict) else {}
        if place >= MAX_ITEMS:
            dropped.append(Dropped(category=category, reason=DropReason.TOO_MANY, item=_bounded(given)))
        elif (item := _read_item(given, item_type)) is None:
            dropped.append(Dropped(category=category, reason=DropReason.MALFORMED, item=_bounded(given)))
        else:
            kept.append(item)
    return kept, dropped


def _read_item(given: Mapping[str, Any], item_type: type[Item]) -> Item | None:
    """None: it cannot be read. What it may lack and has in a wrong form is left out."""
    mended = _mended(given)
    try:
        return item_type.model_validate(mended)
    except ValidationError as error:
        wrong = {str(one["loc"][0]) for one in error.errors(include_input=False, include_url=False) if one["loc"]}
    optional = {name for name, info in item_type.model_fields.items() if not info.is_required()} - {"evidence"}
    if not wrong <= optional:
        return None
    try:
        return item_type.model_validate({name: value for name, value in mended.items() if name not in wrong})
    except ValidationError:
        return None


def _mended(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Without nulls (a strict schema makes models write them) and with the usual slips put right."""
    mended = {name: _cleaned(value) for name, value in entry.items() if value is not None}
    evidence: Any = mended.get("evidence")
    if isinstance(evidence, dict):
        evidence = [cast(dict[str, Any], evidence)]
    if isinstance(evidence, list):
        mended["evidence"] = [_numbered(one) for one in cast(list[Any], evidence)[:MAX_EVIDENCE]]
    for name in ("topics", "tags"):
        if isinstance(mended.get(name), str):
            mended[name] = [part.strip() for part in mended[name].split(",") if part.strip()]
    for name in _CHOICES:
        if isinstance(mended.get(name), str):
            mended[name] = "_".join(mended[name].casefold().replace("-", " ").split())
    for name in ("phone_number", "whatsapp_number"):
        if isinstance(mended.get(name), int) and not isinstance(mended[name], bool):
            mended[name] = str(mended[name])
    return mended


def _cleaned(value: Any) -> Any:
    """Without what no store can take: an escaped half of a character, NUL."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_cleaned(one) for one in cast(list[Any], value)]
    if isinstance(value, dict):
        return {name: _cleaned(one) for name, one in cast(dict[str, Any], value).items()}
    return value


def _numbered(evidence: Any) -> Any:
    """``"[12]"`` and ``"12"`` are line numbers too."""
    if isinstance(evidence, dict):
        given = cast(dict[str, Any], evidence)
        if isinstance(number := given.get("event"), str):
            return {**given, "event": number.strip().strip("[]#")}
        return given
    return evidence


def _bounded(item: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a dropped item for the person who looks, without secrets."""
    return {
        _shown(name, 60): value if isinstance(value, bool | float) else _shown(str(value), 500)
        for name, value in list(item.items())[:20]
    }


def _shown(text: str, most: int) -> str:
    """The secret goes first, so that no cut leaves a part of it."""
    return redact(clean_text(text[:8000])).text[:most]
