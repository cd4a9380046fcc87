"""Misbehaviour in the items of an extraction: what a program must catch that takes them in."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from memory.llm.simulated_extraction import Items, extract
from memory.llm.simulated_extraction_prompt import Brief, language_of
from memory.model.category import Category

INVENTED: Final = "Zebulon Quagmire"
"""Stands in every made-up item, so that whoever looks finds none of them stored."""

_MADE_UP: Mapping[Category, dict[str, Any]] = {
    Category.CONTACTS: {"action": "create", "contact": "new99", "first_name": "Zebulon", "surname": "Quagmire"},
    Category.BIOS: {"contact": "c1", "text": f"Was brought up by {INVENTED} in a lighthouse."},
    Category.ROLLING_SUMMARIES: {"contact": "c1", "text": f"Recent themes: the feud with {INVENTED}. Tone: hostile."},
    Category.RESPONSE_POLICIES: {"contact": "c1", "text": f"Always ask {INVENTED} before you answer."},
    Category.KNOWLEDGE: {"statement": f"{INVENTED} owns the moon base.", "subject": "moon base", "kind": "fact", "relation": "new"},
    Category.TASKS: {"action": "create", "name": f"Send {INVENTED} the keys of the moon base", "description": ""},
}
_TRANSLATED: Final = "The contact said something that is given here in English."
_TEXT_FIELDS: Final = ("statement", "text", "name", "description", "subject")
_SENTENCE = re.compile(r"[^\n.#<>]{20,200}\.")


def misbehave(fault: str, items: Items, brief: Brief, prompt: str, share: float) -> Items | dict[str, Any]:
    """The items as a model with this fault gives them.

    Args:
        prompt: the instructions; a made-up item may "quote" them.
        share: a number in [0, 1) that picks among the ways to go wrong.
    """
    match fault:
        case "hallucinated":
            return _hallucinated(items, brief, prompt, share)
        case "double_handled":
            return extract(replace(brief, calls=()))
        case "duplicated":
            return {name: [copy.deepcopy(one) for item in found for one in (item, item)] for name, found in items.items()}
        case "translated":
            return {name: [_translated(item) for item in found] for name, found in items.items()}
        case "broken_section":
            names = list(items)
            broken = names[int(share * len(names))] if names else ""
            return {name: "see above" if name == broken else found for name, found in items.items()}
        case _:
            return items


def _hallucinated(items: Items, brief: Brief, prompt: str, share: float) -> Items:
    """One made-up item more in every category, with evidence that proves nothing."""
    ways = _false_evidence(brief, prompt)
    start = int(share * len(ways))
    return {
        name: [*found, {**_MADE_UP[Category(name)], "evidence": ways[(start + count) % len(ways)]}]
        for count, (name, found) in enumerate(items.items())
    }


def _false_evidence(brief: Brief, prompt: str) -> list[list[dict[str, Any]]]:
    """No quote, words that nobody said, the quote of another event, a quote of the prompt."""
    first = brief.lines[0].number if brief.lines else 1
    ways: list[list[dict[str, Any]]] = [[], [{"event": first, "quote": f"{INVENTED} told me so himself"}]]
    for line in brief.lines:
        elsewhere = next((one for one in brief.lines if line.text.strip().casefold() not in one.text.casefold()), None)
        if elsewhere is not None and line.text.strip():
            ways.append([{"event": elsewhere.number, "quote": line.text.strip()[:200]}])
            break
    if sentence := _SENTENCE.search(prompt):
        ways.append([{"event": first, "quote": sentence[0].strip()}])
    ways.append([{"event": 9999, "quote": brief.lines[0].text[:100] if brief.lines else "nothing"}])
    return ways


def _translated(item: dict[str, Any]) -> dict[str, Any]:
    """Chinese text of the item becomes English; its quotes stay."""
    return {
        name: _TRANSLATED if name in _TEXT_FIELDS and isinstance(value, str) and language_of(value) == "zh" else value
        for name, value in item.items()
    }
