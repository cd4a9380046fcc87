# ruff: noqa: E501  (word lists)
"""The simulated model's rolling summaries: recent themes, what is open, tone; for the assistant, in the second person."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from stopwordsiso import stopwords

from memory.llm.simulated_extraction_people import People
from memory.llm.simulated_extraction_prompt import Brief, Said
from memory.llm.simulated_extraction_tasks import Tasks
from memory.llm.simulated_text import word_set, words

MAX_THEMES: Final = 6
_WORD = re.compile(r"[^\W_][\w'-]*|[.,;:!?()]")
_COMMON = word_set(
    """
    answer reply move cancel remember remind regards kind person moves moved needs means lives works example postpone erinnere verschiebe
    hello hi hey thanks thank please great good okay yes no sure today tomorrow need want know think get make let see say tell like going come back week day time thing things way lot one two new
    yesterday morning evening could would should much many more most again soon maybe really just also well here there everything something nothing am pm uhr monday tuesday wednesday thursday friday saturday sunday
    always never now ask give take put send call write help until before after while because since without between during their them they when where how why don't can't i'm it's that's let's we'll i'll i've we've
    hallo danke bitte gut heute morgen gestern brauche möchte kannst könntest haben wird werden wurde sehr viel mehr immer nie wieder alles etwas nichts hier dort wann wie warum gern gerne mal dann doch
    beschlossen diese dieser dieses jetzt nächste nächsten montag dienstag mittwoch donnerstag freitag samstag sonntag gibt geht machen schicke schick liebe grüße ihnen ihre euch uns mir mich dich unser unsere
    """
)
_FORMS = {
    "en": ("Recent themes: {}.", "Open: {}.", "Tone: {}."),
    "de": ("Themen zuletzt: {}.", "Offen: {}.", "Ton: {}."),
    "zh": ("最近的话题：{}。", "待办：{}。", "语气：{}。"),
}
_TONES = (
    (re.compile(r"\b(?:urgent|asap|immediately|right away|dringend|sofort)\b|紧急|尽快|马上", re.IGNORECASE), ("pressing", "drängend", "急切")),
    (re.compile(r"\b(?:annoyed|disappointed|unacceptable|angry|frustrat\w+|fed up|ärger\w*|enttäuscht|verärgert)\b|失望|生气|不满", re.IGNORECASE), ("dissatisfied", "unzufrieden", "不满")),
    (re.compile(r"\b(?:thanks|thank you|great|wonderful|perfect|lovely|happy|danke|super|prima|toll|freue)\b|谢谢|太好了|感谢|[😀-😊🙂🎉❤👍]", re.IGNORECASE), ("friendly", "freundlich", "友好")),
)  # fmt: skip
_NEUTRAL = ("matter-of-fact", "sachlich", "平实")
_OLD = re.compile(r"^(?:Recent themes|Themen zuletzt|最近的话题)[:：]\s*(?P<themes>[^.。]*)[.。]")
_SMALL_TALK = 2


def summaries(brief: Brief, people: People) -> Iterator[dict[str, Any]]:
    by_person: dict[str, list[Said]] = {}
    for heard in brief.said:
        if heard.line.sender in people.persons and heard.language in _FORMS:
            by_person.setdefault(heard.line.sender, []).append(heard)
    for ref, spoken in by_person.items():
        language = Counter(heard.language for heard in spoken).most_common(1)[0][0]
        spoken = [heard for heard in spoken if heard.language == language]
        themes, cited = _themes(spoken, language)
        book = Tasks(brief)
        for heard in spoken:
            book.hear(heard)
        items = [item for item in book.items() if item["action"] == "create" and item.get("status") != "done"]
        if not themes and not items:
            continue
        old = people.persons[ref].known.get("rolling_summary", "")
        text = _text(old, themes, [item["name"] for item in items], _tone(spoken, language), language)
        if text != old:
            evidence = [*cited, *(entry for item in items for entry in item["evidence"])]
            yield {"contact": ref, "text": text, "evidence": [one for i, one in enumerate(evidence) if one not in evidence[:i]][:8]}


def _themes(spoken: Sequence[Said], language: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Runs of content words, the most telling first, and the sentences that they are from."""
    scores: Counter[str] = Counter()
    where: dict[str, Said] = {}
    shown: dict[str, str] = {}
    weight = Counter(word for heard in spoken for word in set(words(heard.text)))
    for heard in spoken:
        for phrase in _clauses(heard.text) if language == "zh" else _phrases(heard.text, heard.language):
            key = " ".join(words(phrase)) or phrase.casefold()
            shown.setdefault(key, phrase)
            where.setdefault(key, heard)
            named = sum(part[:1].isupper() for part in phrase.split())
            scores[key] += sum(weight[word] for word in words(phrase)) + named
    kept: list[str] = []
    for key, _ in sorted(scores.items(), key=lambda one: (-one[1], one[0])):
        if len(kept) == MAX_THEMES:
            break
        if not any(set(key.split()) & set(other.split()) for other in kept):
            kept.append(key)
    return [shown[key] for key in kept], [where[key].evidence for key in kept]


def _phrases(text: str, language: str) -> Iterator[str]:
    run: list[str] = []
    common = _stop_words(language)
    for token in (*_WORD.findall(text), "."):
        lower = token.casefold()
        content = (
            token[0].isalpha()
            and len(token) > 2
            and lower not in _COMMON
            and lower.split("'")[0] not in common
            and bool(words(token))
        )
        if content and (language != "de" or token[:1].isupper()):
            run.append(token)
            continue
        if run and (len(run) > 1 or (run[0][:1].isupper() and len(run[0]) > 2)):
            yield " ".join(run[:4])
        run = []


@cache
def _stop_words(language: str) -> frozenset[str]:
    return frozenset(stopwords(language))


def _clauses(text: str) -> Iterator[str]:
    for clause in re.split(r"[，,。！？；\s]+", text):
        if 4 <= len(clause) <= 24:
            yield clause


def _tone(spoken: Sequence[Said], language: str) -> str:
    index = ("en", "de", "zh").index(language)
    said_ = " ".join(heard.text for heard in spoken)
    tones = [forms[index] for pattern, forms in _TONES if pattern.search(said_)]
    return (", " if language != "zh" else "、").join(tones[:2]) or _NEUTRAL[index]


def _text(old: str, themes: Sequence[str], open_tasks: Sequence[str], tone: str, language: str) -> str:
    """New themes before the old ones; "you" is the assistant."""
    joint = "；" if language == "zh" else "; "
    before = _OLD.match(old)
    earlier = [one.strip() for one in re.split(r"[;；]", before["themes"]) if one.strip()] if before else []
    all_themes = [*themes, *(one for one in earlier if one.casefold() not in {t.casefold() for t in themes})][: MAX_THEMES + 2]
    theme_form, open_form, tone_form = _FORMS[language]
    parts = [theme_form.format(joint.join(all_themes))] if all_themes else []
    if open_tasks:
        parts.append(open_form.format(joint.join(open_tasks[:5])))
    parts.append(tone_form.format(tone))
    if old and before is None:
        parts.insert(0, old.strip())
    return ("" if language == "zh" else " ").join(parts)
