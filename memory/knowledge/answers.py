"""How a loop ends for its caller: the form that was asked for, and clear words where there is no answer of the model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

from memory.model.errors import InvalidInput
from memory.model.knowledge_loop import MAX_SCHEMA_BYTES, LoopState
from memory.model.transcript import clean_text, shorten_middle

_NOWHERE: Final = Registry[Any]()
"""Schemas are complete in themselves: nothing is ever fetched for one."""
_FENCE: Final = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n\s*```\s*\Z", re.DOTALL | re.IGNORECASE)
MAX_SCHEMA_DEPTH: Final = 32

_REASONS: Final[Mapping[str, str]] = {
    "steps": "The limit of steps was reached",
    "tokens": "The limit of tokens was reached",
    "time": "The limit of time was reached",
    "empty": "The language model gave no usable reply, several times in a row",
    "truncated": "The replies of the language model were cut off at their limit, several times in a row",
    "answer_too_large": "The answer in the form that was asked for is too large to be kept",
    "response_format": "The answer could not be put into the form that was asked for",
    "spend_cap_reached": "The user's model tokens of today are spent; more tomorrow (UTC)",
    "feature_flag_off": "Memory is not switched on for this company",
    "space_off": "Memory is switched off in this space",
    "user_opted_out": "The user has opted out of memory",
    "root_clash": "The company has several active memory roots; an administrator has to remove all but one",
}


class NotInForm(Exception):
    """The text does not follow the schema. ``why``: for the model, bounded; may quote the text."""

    def __init__(self, why: str) -> None:
        super().__init__("the answer does not follow its schema")
        self.why = why[:500]


def checked_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A caller's schema, as plain JSON. Raises InvalidInput: no JSON schema, too large, too deep."""
    try:
        text = json.dumps(schema, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        raise InvalidInput("response_format is not JSON") from None
    if len(text.encode("utf-8", "replace")) > MAX_SCHEMA_BYTES:
        raise InvalidInput(f"response_format is larger than {MAX_SCHEMA_BYTES} bytes")
    plain: Any = json.loads(text)
    if not isinstance(plain, dict) or _depth(plain) > MAX_SCHEMA_DEPTH:
        raise InvalidInput(f"response_format is a JSON schema: an object, at most {MAX_SCHEMA_DEPTH} levels deep")
    form = cast("dict[str, Any]", plain)
    try:
        Draft202012Validator.check_schema(form)
    except SchemaError as error:
        where = "/".join(str(part)[:40] for part in error.absolute_path) or "its top"
        raise InvalidInput(f"response_format is no valid JSON schema (at {where})") from None
    return form


def in_form(text: str, schema: Mapping[str, Any]) -> Any:
    """The JSON value of ``text``, which follows ``schema``. CPU-bound. Raises NotInForm."""
    fenced = _FENCE.match(text)
    try:
        value = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError) as error:
        raise NotInForm(f"it is not JSON: {error}") from None
    try:
        wrong = next(iter(Draft202012Validator(schema, registry=_NOWHERE).iter_errors(value)), None)
    except Unresolvable:
        raise NotInForm("the schema refers to another one that is not in it") from None
    if wrong is not None:
        where = "/".join(str(part) for part in wrong.absolute_path) or "the top"
        raise NotInForm(f"at {where}: {wrong.message}")
    return value


def ending_text(state: LoopState, reason: str | None, *, steps: int, said: str | None = None) -> str:
    """What the caller reads where no answer of the model can be had. ``said``: the reason that somebody gave for a stop."""
    after = f"after {steps} step{'' if steps == 1 else 's'}"
    stands = "What was done until then stands."
    if state is LoopState.STOPPED:
        why = f" Reason: {said.strip()}" if said and said.strip() else ""
        return f"Stopped {after}. {stands}{why}"
    code = reason or "unknown"
    if code.startswith("model_failed:"):
        text = f"The language model could not be used ({code.partition(':')[2]})"
    else:
        text = _REASONS.get(code, f"It could not be finished ({code})")
    if state is LoopState.LIMIT:
        return f"{text}, and there is no answer yet. It ended {after}; {stands[0].lower()}{stands[1:]}"
    return f"{text}. It ended {after}" + (f"; {stands[0].lower()}{stands[1:]}" if steps else " and nothing was changed.")


def json_bytes(value: Any) -> int | None:
    """The size of a value as JSON, as the store counts it; None: it is no plain JSON (NaN, too deep)."""
    try:
        return len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"))
    except (TypeError, ValueError, RecursionError):
        return None


def fitting_text(text: str, most: int) -> str:
    """A text whose JSON has at most ``most`` bytes (from 1,000 on): itself, or its beginning and end."""
    text, room = clean_text(text), most
    shown = text
    while (json_bytes(shown) or 0) > most:
        room = room * 2 // 3
        shown = shorten_middle(text, room)
    return shown


def _depth(value: Any, level: int = 0) -> int:
    if level > MAX_SCHEMA_DEPTH:
        return level
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = list(cast("dict[str, Any]", value).values())
    elif isinstance(value, list):
        inner = cast("list[Any]", value)
    return max((_depth(one, level + 1) for one in inner), default=level)
