"""What the simulated model says beside a loop: about the work, and an answer in the form of a schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from memory.llm.simulated_knowledge_words import number, stem, words
from memory.ports import ChatRequest

_WORK = re.compile(r"^<work>\n(.*?)\n</work>$", re.MULTILINE | re.DOTALL)
_STATE = re.compile(r"^<state>(.*)</state>$", re.MULTILINE)
_RESULT = re.compile(r"^<result>\n(.*?)\n</result>$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w])")
MAX_DEPTH: Final = 8


def side_answer(request: ChatRequest) -> str:
    """How far the loop is, which tools it used, what failed, and the answer where there is one."""
    text = request.messages[0].text
    work, state = _WORK.search(text), _STATE.search(text)
    lines = [_json(line) for line in (work[1].splitlines() if work else ())]
    used = [str(call.get("tool")) for line in lines for call in line.get("calls") or ()]
    overtaken = sum(bool(line.get("error")) and _json(str(line.get("result"))).get("error") == "overtaken" for line in lines)
    failed = sum(bool(line.get("error")) for line in lines) - overtaken
    told = ", ".join(f"{name} ({used.count(name)})" for name in dict.fromkeys(used)) or "no tool"
    answer = next((str(line["final_answer"]) for line in lines if "final_answer" in line), None)
    parts = [f"The work is {state[1] if state else 'unknown'}; it used {told}."]
    if failed:
        parts.append("1 call gave an error." if failed == 1 else f"{failed} calls gave errors.")
    if overtaken:
        parts.append(f"{'1 call was' if overtaken == 1 else f'{overtaken} calls were'} overtaken by what was said meanwhile.")
    if answer:
        parts.append(f"Its answer: {answer}")
    return " ".join(parts)


def structured_answer(request: ChatRequest) -> str:
    """The answer's words and numbers in the places of the schema that they fit."""
    result = _RESULT.search(request.messages[0].text)
    text = (result[1] if result else "").removeprefix("(simulated) ").strip()
    return json.dumps(_filled(request.schema or {}, text, "", 0), ensure_ascii=False)


def _filled(schema: Mapping[str, Any], text: str, name: str, depth: int) -> Any:
    kinds = schema.get("type")
    kind = next((one for one in cast("list[str]", kinds) if one != "null"), "null") if isinstance(kinds, list) else kinds
    if "enum" in schema:
        options = cast("list[Any]", schema["enum"])
        return next((one for one in options if str(one).lower() in text.lower()), options[0])
    if depth > MAX_DEPTH:
        return None
    match kind:
        case "object":
            properties = cast("dict[str, dict[str, Any]]", schema.get("properties") or {})
            return {one: _filled(about, text, one, depth + 1) for one, about in properties.items()}
        case "array":
            items = cast("dict[str, Any]", schema.get("items") or {"type": "string"})
            return [_filled(items, part, name, depth + 1) for part in _parts(text)]
        case "integer" | "number":
            found = _number_for(text, name)
            return found if found is None or kind == "number" else int(found)
        case "boolean":
            return not re.search(r"\b(?:no|not|nothing|none)\b", text, re.IGNORECASE)
        case _:
            return text.rpartition(": ")[2].rstrip(".") if ":" in text else text.rstrip(".")


def _parts(text: str) -> list[str]:
    """The things that a sentence lists, after its colon."""
    listed = text.split(": ", 1)[-1].rstrip(".")
    return [part.strip() for part in re.split(r"; |, (?!\d{3}\b)", listed) if part.strip()]


def _number_for(text: str, name: str) -> float | int | None:
    """The number after the word that the property is called by, else the last one."""
    wanted = {stem(word) for word, _, _ in words(name.replace("_", " "))}
    for word, _, end in words(text):
        if stem(word) in wanted and (match := _NUMBER.search(text, end)):
            return number(match[0])
    found = _NUMBER.findall(text)
    return number(found[-1]) if found else None


def _json(line: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(line)
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
