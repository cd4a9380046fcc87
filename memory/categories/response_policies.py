# ruff: noqa: E501  (patterns)
"""Response policies: how the assistant shall deal with a contact. Only on a clear directive."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from memory.categories.contact_texts import TextRule, apply_texts, check_text
from memory.categories.spec import Applied, ApplyContext, CategorySpec
from memory.model.category import Category
from memory.model.items import ContactTextItem, DropReason, Grounded, Item
from memory.model.sentences import quoted_sentences
from memory.model.window import StoredEvent

_RULE: Final = TextRule(Category.RESPONSE_POLICIES, "response_policy")

_LASTING: Final = re.compile(
    r"\b(?:always|never|ever|from now on|from here on|in (?:the )?future|going forward|henceforth|every time|any ?more|whenever|only|at all times|as a rule|must|under no circumstances|"
    r"immer|nie|niemals|stets|ab (?:jetzt|sofort|heute)|künftig|zukünftig|in zukunft|von (?:jetzt|nun) an|nicht mehr|nur noch|nur|grundsätzlich|jedes ?mal|auf keinen fall|keinesfalls)\b"
    r"|总是|永远|始终|以后|今后|从现在起|从今以后|往后|不要再|别再|不再|每次|每当|千万|务必|必须|一律|只(?:能|用|可)",
    re.IGNORECASE,
)
_LASTING_ELSEWHERE: Final = re.compile(
    r"\b(?:toujours|jamais|désormais|dorénavant|siempre|nunca|jamás|sempre|mai più|d['’]ora in poi|altijd|nooit|voortaan|alltid|aldrig|zawsze|nigdy|her zaman|asla)\b",
    re.IGNORECASE,
)
"""In other languages of Latin script."""
_LATIN: Final = re.compile(r"[A-Za-z]{3}")
_HAN: Final = re.compile("[\u3400-\u9fff]")
_KANA: Final = re.compile("[\u3040-\u30ff]")
_DEALING: Final = re.compile(
    r"\b(?:answer\w*|repl(?:y|ies)|respond\w*|call(?:ing)?|ring|phone|write|text|texting|e-?mail(?:ing)?|message|contact\w*|address|copy|cc|send|forward|use|speak|talk|ping|disturb|bother|mention|share|tell|keep|sign|greet|translate|include|avoid|be (?:brief|short|formal|polite|concise|direct)|"
    r"antworte\w*|beantworte\w*|anrufen|anruf\w*|rufe?n?|schreib\w*|kontaktier\w*|sprich|sprechen|sprech\w*|duze\w*|sieze\w*|nenn\w*|benutz\w*|verwend\w*|schick\w*|send\w*|meld\w*|stör\w*|erwähn\w*|halte?|fass\w*|vermeid\w*|sag\w*)\b"
    r"|回答|回复|回覆|打电话|致电|发邮件|发消息|联系|称呼|叫我|使用|用(?:中文|英文|英语|德语|法语)|写|告诉|提及|打扰|保持|避免",
    re.IGNORECASE,
)
_PLAINLY: Final = re.compile(
    r"\b(?:please )?(?:don['’]?t|do not|stop|no more) (?:ever )?(?:call|email|e-mail|text|write|contact|message|disturb|copy|cc|send|use|address|mention|share|tell|phone|ring)\w*\b"
    r"|\bbitte\b[^.!?]{0,60}\b(?:nicht|kein\w*)\b|\b(?:i|we) (?:want|expect|need|would like) you to\b|\b(?:ich|wir) (?:möchte|will|wollen|möchten|erwarte)\w*,? dass (?:du|sie|ihr)\b"
    r"|请(?:不要|别|勿)|(?:不要|别)(?:给|在|再|用|打|发|叫)",
    re.IGNORECASE,
)
_REPORT: Final = re.compile(
    r"^\W*(?:i|we|he|she|they|it|you|ich|wir|er|sie|es|du|ihr)(?:['’]\w+)?\s+(?:\w+\s+)?(?:always|never|usually|often|only|have|had|am|are|was|were|immer|nie|niemals|meistens|oft|nur|habe|hatte|bin|war)\b"
    r"|^\W*(?:i|we|he|she|they|ich|wir|er|sie)\s+(?:\w+\s+)?(?!want\b|expect\b|need\b|would\b|möchte|will\b|wollen\b|erwarte)\w+\s+(?:\w+\s+)?(?:immer|nie|always|never)\b|^(?:我|我们|他|她|他们)(?:总是|从不|从来|经常|一直|每次)",
    re.IGNORECASE,
)
_ONCE: Final = re.compile(
    r"\b(?:this (?:one|time|once|answer|mail|email|message)|just (?:this )?once|for now|today|tonight|tomorrow|this (?:morning|afternoon|evening|week)|next (?:week|monday|tuesday|wednesday|thursday|friday)|at the moment|right now|"
    r"diesmal|dieses mal|nur heute|heute|morgen|übermorgen|gerade|im moment|diese (?:mail|antwort|nachricht|woche)|ausnahmsweise)\b|这次|这一次|今天|明天|今晚|这周|下周|暂时",
    re.IGNORECASE,
)
_FOR_GOOD: Final = re.compile(
    r"\b(?:from now on|always|never|in (?:the )?future|going forward|ab (?:jetzt|sofort|heute)|von (?:jetzt|nun) an|immer|nie|niemals|künftig|in zukunft)\b|以后|今后|从现在起|永远|总是",
    re.IGNORECASE,
)
_QUESTION: Final = re.compile(r"[?？]\s*$")
_SUPPOSED: Final = re.compile(
    r"^\W*(?:imagine|suppose|what if|if i (?:said|say)|for example|stell dir vor|angenommen|zum beispiel)\b|假如|假设",
    re.IGNORECASE,
)


def is_directive(said: str) -> bool:
    """Whether a sentence says, for good, how somebody is to be dealt with; in a script without patterns here the model decides."""
    if _QUESTION.search(said) or _SUPPOSED.search(said):
        return False
    if _REPORT.search(said) or (_ONCE.search(said) and not _FOR_GOOD.search(said)):
        return False
    if _PLAINLY.search(said) or (_LASTING.search(said) and _DEALING.search(said)):
        return True
    if _LATIN.search(said):
        return _LASTING_ELSEWHERE.search(said) is not None
    return not _HAN.search(said) or _KANA.search(said) is not None


def check(item: Item, cited: Sequence[StoredEvent]) -> str | None:
    """A preference that was mentioned, a habit, a request for this once are no directives."""
    if (reason := check_text(item, cited)) is not None:
        return reason
    return None if any(map(is_directive, quoted_sentences(item, cited))) else DropReason.NOT_A_COMMITMENT


async def apply(items: Sequence[Grounded[ContactTextItem]], context: ApplyContext) -> Applied:
    """A directive stays until it is revoked, or another one on the same matter takes its place."""
    return await apply_texts(_RULE, items, context)


SPEC: Final = CategorySpec(
    category=Category.RESPONSE_POLICIES,
    prompt="extract_response_policies",
    item=ContactTextItem,
    apply=apply,
    check=check,
    shielded_by=frozenset({"contactmanager", "contactsmanager", "contacts"}),
)
