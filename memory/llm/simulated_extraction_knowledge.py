# ruff: noqa: E501  (patterns)
"""The simulated model's knowledge: durable claims about the domain, and how they relate to facts that are known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from memory.llm.simulated_extraction_dates import valid_from, valid_until
from memory.llm.simulated_extraction_howto import how_tos
from memory.llm.simulated_extraction_policies import is_directive
from memory.llm.simulated_extraction_prompt import Brief, KnownFact, Said, known_names
from memory.llm.simulated_extraction_shield import handled
from memory.llm.simulated_extraction_tasks import DONE
from memory.llm.simulated_text import likeness, sameness, words
from memory.model.category import Category

_DECIDED = re.compile(
    r"\b(?:we(?:'ve| have)?|the (?:team|board|committee|management)(?: has)?|it (?:was|has been))\s+(?:just\s+|now\s+|finally\s+)?(?:decided|agreed|resolved|settled|chosen|chose)\b|\bthe decision is\b|"
    r"\b(?:wir haben|haben wir|das team hat|es wurde|wurde)\b[^.!?]{0,80}\b(?:beschlossen|entschieden|vereinbart|festgelegt)\b|(?:我们|团队|公司)(?:已经)?(?:决定|商定|同意)",
    re.IGNORECASE,
)
_DEFINED = re.compile(
    r"^(?:(?:an?|the|der|die|das|eine?|ein)\s+)?[\"'„“«]?(?P<s>[\w][\w /&-]{0,40}?)[\"'”“»]?\s+(?:means|stands for|is (?:our|the|a|an) (?:\w+ )?(?:term|name|word|abbreviation|acronym|measure|way) (?:for|of|to)|is short for|is defined as|refers to|bedeutet|steht für|ist (?:die|unsere?|der) (?:Abkürzung|Name|Begriff) für|ist definiert als)\b"
    r"|^[“「\"]?(?P<zh>[^，。是”」\"]{1,16})[”」\"]?(?:是指|指的是|的意思是|代表)",
    re.IGNORECASE,
)
_SUBJECT: Final = r"(?P<s>(?:(?:the|our|all|every|each|any|no|an?|new|der|die|das|unsere?|alle|jede[rs]?|keine?|neue|ein|eine)\s+)?(?-i:[\w\d])[\w'&./-]*(?:\s+(?!is\b|are\b|was\b|has\b|ist\b|sind\b|muss\b|müssen\b|needs?\b|must\b)[\w€$%'&/-]+(?:[.,]\w+)*){0,8}?)"
_CLASSES: Final[tuple[tuple[str, str, str], ...]] = (
    # attribute, kind, verb of the sentence (English and German)
    ("when", "decision", r"(?:moves?|moved|has (?:been )?moved|was moved|is moved|is (?:being )?(?:postponed|delayed|rescheduled|pushed)|was (?:postponed|delayed|rescheduled)|has been (?:postponed|delayed|rescheduled)|shifts?|verschiebt sich|wurde (?:auf \S+ ?\S* ?\S* )?(?:verschoben|verlegt|vorgezogen)|(?:wird|wurde|ist)(?=\s(?:\S+\s)?(?:auf|von|um)\s[^.!?]{2,60}\b(?:verschoben|verlegt|vorgezogen)\b|\s[^!?]{2,60}\b(?:verschoben|verlegt|vorgezogen)\b))"),
    ("when", "fact", r"(?:is due|are due|ships|goes live|launches|starts|begins|ends|expires|closes|opens|is (?:planned|scheduled|set) for|is on|is now on|takes place|startet|beginnt|endet|geht (?:am \S+ ?\S* )?live|erscheint|findet|ist fällig|läuft|schließt|öffnet|ist am|ist jetzt am|fällt auf|gilt)"),
    ("owner", "fact", r"(?:is (?:now )?(?:led|owned|run|managed|handled|headed) by|are (?:now )?(?:led|owned|run|managed|handled) by|(?:now )?(?:belongs|reports) to|wird (?:jetzt |nun )?(?:geleitet |betreut )?von|gehört (?:jetzt )?|liegt (?:jetzt )?bei)"),
    ("need", "policy", r"(?:needs?|requires?|must|may only|may not|can only|cannot|are not allowed|is not allowed|has to|have to|shall|is mandatory|are mandatory|is forbidden|are forbidden|is prohibited|braucht|brauchen|benötigt|benötigen|erfordern?|muss|müssen|darf|dürfen|ist Pflicht|sind Pflicht|ist verboten|sind verboten)"),
    ("cost", "fact", r"(?:costs|kostet|kosten|is (?:now )?limited to|are (?:now )?limited to|is capped at|are capped at|beträgt|betragen|ist begrenzt auf)"),
    ("where", "fact", r"(?:runs? on|is hosted (?:on|at|in)|are hosted (?:on|at|in)|uses|is (?:stored|kept|located) (?:on|at|in)|are (?:stored|kept|located) (?:on|at|in)|is built (?:with|on)|läuft auf|laufen auf|nutzt|nutzen|verwendet|verwenden|liegt (?:in|auf)|liegen (?:in|auf)|wird gehostet)"),
    ("does", "fact", r"(?:supports|includes|covers|contains|consists of|accepts|offers|delivers|unterstützt|umfasst|enthält|besteht aus|akzeptiert|liefert|bietet)"),
    ("is", "fact", r"(?:is|are|ist|sind|heißt|lautet|stays?|remains?|bleibt)"),
)  # fmt: skip
_CLAIMS = tuple(
    (attribute, kind, re.compile(rf"^{_SUBJECT}\s+(?P<v>{verb})\b\s+(?P<o>[^\n]{{2,300}})$", re.IGNORECASE))
    for attribute, kind, verb in _CLASSES
)
_LEADS = re.compile(
    r"^(?P<o>(?-i:[A-ZÄÖÜ])[\w'-]+(?:\s+(?-i:[A-ZÄÖÜ])[\w'-]+)?)\s+(?:now\s+|jetzt\s+)?(?:leads|owns|runs|manages|heads|takes over|took over|has taken over|is (?:now )?responsible for|is (?:now )?in charge of|leitet|betreut|übernimmt|verantwortet|ist (?:jetzt )?(?:zuständig|verantwortlich) für)\s+(?:jetzt\s+|nun\s+)?(?P<s>(?:the |das |die |den |der )?[\w][\w &/-]{1,60}?)(?=[.,;!]|$|\s+(?:from|as of|until|ab|bis|starting)\b)",
    re.IGNORECASE,
)
_ZH_CLAIMS: Final[tuple[tuple[str, str, re.Pattern[str]], ...]] = (
    ("when", "decision", re.compile(r"^(?P<s>[^，。我你他她]{2,20}?)(?:现在|已经)?(?:改到|推迟到|提前到|延期到|改为)(?P<o>[^，。]{2,30})")),
    ("when", "fact", re.compile(r"^(?P<s>[^，。我你他她]{2,20}?)(?:(?:定于|定在|是在)(?P<o>[^，。]{2,20})|(?:将于|将在|在)(?P<o2>[^，。]{2,20})(?:发布|上线|开始|结束|举行|截止))")),
    ("owner", "fact", re.compile(r"^(?P<s>[^，。我你他她]{2,20}?)(?:现在)?由(?P<o>[^，。]{2,8})(?:负责|领导|管理)")),
    ("need", "policy", re.compile(r"^(?P<s>[^，。我你他她请]{2,24}?)(?:必须|需要|不得|不能|不可以|禁止|只能)(?P<o>[^，。]{2,40})")),
    ("is", "fact", re.compile(r"^(?P<s>[^，。我你他她这那]{2,20}?)(?:现在)?(?:是|为)(?P<o>[^，。]{2,40})")),
)  # fmt: skip
_LEAD_IN = re.compile(
    r"^(?:(?:just )?(?:fyi|for your information|note|update|correction|one correction|actually|no|sorry|so|and|also|but|ok(?:ay)?|well|heads-up|heads up|good news|news|important|remember(?: that)?|please (?:note|remember)(?: that)?|note that|by the way|(?:dear|hi|hello|hey|hallo|liebe[rs]?|moin|good morning|guten (?:tag|morgen)|sehr geehrte[rs]?)(?: [^\s,.!?]+){0,3},|hi|hello|hey|zur info|korrektur|übrigens|nein|also|und|aber|achtung|hinweis|bitte (?:beachte|beachten sie|denk daran),?(?: dass)?|doch|wichtig|merk dir,?(?: dass)?|更正|注意|另外|不对|对了|请记住|记住)\b[,:!.，：！。]?\s*|(?:更正|注意|另外|不对|对了|请记住|记住)[，,：:]?)+",
    re.IGNORECASE,
)
_CORRECTS = re.compile(
    r"^\W*(?:correction|one correction|actually|no,|sorry,|korrektur|nein,|doch)|\b(?:not|rather than|instead of|nicht|statt)\b|更正|不对|而不是|不是",
    re.IGNORECASE,
)
_ADDS = re.compile(
    r"\b(?:also|too|as well|in addition|additionally|auch|außerdem|zusätzlich|zudem|ebenfalls)\b|也|另外|还", re.IGNORECASE
)
_PROCEDURE = re.compile(
    r"\b(?:first|then|next|after that|finally|step \d|how to|in order to|zuerst|dann|danach|anschließend|schließlich|schritt \d)\b[^.!?]{0,120}\b(?:then|and then|next|click|run|open|press|select|dann|danach|klick\w*|öffne\w*|drück\w*|wähl\w*)\b|^(?:to|um)\s+\w+[^,]{0,60},|"
    r"\b(?:click|klicke?n?)\s+(?:on|auf)\b|首先.*然后|先.{1,20}再|步骤",
    re.IGNORECASE,
)
_PASSING = re.compile(
    r"\b(?:I think|I guess|I hope|maybe|perhaps|probably|might|seems?|looks? like|not sure|wish|if|ich glaube|ich hoffe|vielleicht|wahrscheinlich|scheint|falls|wenn ich|today's weather|(?<!from )today|tonight|right now|this (?:morning|afternoon|evening)|(?<!ab )heute|guten tag|the same (?:person|contact)|dieselbe person)\b|\b(?:fun|nice|great|good|bad|fine|best|relative|welcome|attached|ill|sick|dry|wet|happy|sorry|awful|lovely|boring|ready|done|here|late|busy|tired|toll|schön|super|gut|schlecht|fertig|hier|müde|unterwegs|krank|trocken|nass|anbei|angehängt)\W*$|今天|也许|可能|好像|我觉得|同一个?人",
    re.IGNORECASE,
)
_PERSONAL = re.compile(
    r"^(?:please|bitte|dear|send|move|bring|call|let|make|see|take|put|keep|give|then|while|today|tomorrow|nothing|good|everything|mr|mrs|ms|dr|frau|herr|I|you|he|she|it|they|we|this|that|there|here|these|those|who|what|which|someone|everyone|ich|du|er|sie|es|wir|ihr|das|dies|hier|da|jemand|man|my|your|his|her|their|mein\w*|dein\w*|ihre?|seine?)\b|^(?:我|你|他|她|它|这|那)",
    re.IGNORECASE,
)
_PERSON_WORD = re.compile(
    r"\b(?:mother|father|wife|husband|son|daughter|brother|sister|boss|colleague|friend|contact|ansprechpartner(?:in)?|mutter|vater|frau|mann|sohn|tochter|bruder|schwester|chef(?:in)?|kolleg\w+|freund\w*|number|email|e-mail|phone|address|nummer|adresse|name)\b",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"\b(?:pass ?(?:word|code|phrase)|code ?word|secret|pin(?: code)?|door code|api key|token|passwort|kennwort|geheim\w*|zugangscode|türcode)\b|密码|口令|验证码",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.\w+|(?:\+|\b00)\d[\d ()/-]{6,}")
_KIND_WORDS = (
    ("constraint", re.compile(r"\b(?:deadline|limit|budget|maximum|at most|no more than|minimum|limited to|capped|cut-?off|frist|obergrenze|höchstens|maximal|budget)\b|截止|预算|上限|最多", re.IGNORECASE)),
    ("preference", re.compile(r"\b(?:prefers?|would rather|bevorzug\w+|lieber)\b|更喜欢|偏好", re.IGNORECASE)),
)  # fmt: skip
_CORRECTED_LIKENESS = 0.5
_SUBJECT_SHARE = 0.6
_SAME = 0.9
_ARTICLE = re.compile(r"^(?:the|our|all|every|each|any|an?|der|die|das|den|dem|unsere?|alle|jede[rs]?|eine?)\s+", re.IGNORECASE)
_FULL_NAME = re.compile(r"[A-ZÄÖÜ][a-zäöüß]+ [A-ZÄÖÜ][a-zäöüß]+")
_DETERMINED = re.compile(r"(?:the|our|all|every|each|any|no|an?)\s|[A-Z]{2}|\S+\s+\S", re.IGNORECASE)
_DATED = re.compile(r"\b(?:deadline|release|launch|frist)\b|截止|发布", re.IGNORECASE)
_EMOJI = re.compile("[\u2600-\u27bf\u200d\ufe0f\U0001f000-\U0001faff]+")
_NEGATED = re.compile(r"\b(?:not|no|never|kein\w*|nicht|nie)\b|n't\b|[不没]", re.IGNORECASE)
_NUMBER = re.compile(r"\d[\d.,]*")


@dataclass(frozen=True, slots=True)
class Claim:
    subject: str = field(repr=False)
    attribute: str
    kind: str
    statement: str = field(repr=False)
    value: str = field(repr=False)
    heard: Said

    @property
    def subject_words(self) -> frozenset[str]:
        return frozenset(words(_NUMBER.sub(" ", self.subject)) or words(self.subject))


def knowledge(brief: Brief) -> Iterator[dict[str, Any]]:
    people = frozenset(known_names(brief))
    kept: list[Claim] = []
    for heard in brief.said:
        claim = claim_of(heard, people)
        if claim is None or handled(brief, Category.KNOWLEDGE, claim.statement):
            continue
        rival = next((old for old in kept if _contradicts(claim, old.subject_words, old.attribute, old.statement, old.value)), None)
        if rival is not None:
            kept.remove(rival)
        if not any(_same(claim.statement, old.statement) for old in kept):
            kept.append(claim)
    for claim in kept:
        yield _item(brief, claim)
    yield from how_tos(brief)


def claim_of(heard: Said, people: frozenset[str] = frozenset()) -> Claim | None:
    """A durable claim about the domain; None for talk, requests, procedures and what is about a person."""
    if heard.question or heard.language not in ("en", "de", "zh") or is_directive(heard):
        return None
    lead = _LEAD_IN.match(heard.text)
    text = heard.text[lead.end() :].strip() if lead else heard.text.strip()
    if (
        not text
        or text.endswith((":", "：", "?", "？"))
        or _PROCEDURE.search(text)
        or _PASSING.search(text)
        or _ADDRESS.search(text)
        or _SECRET.search(text)
    ):
        return None
    statement = (text[:1].upper() + text[1:]).strip()
    if not statement.endswith((".", "!", "。", "！")):
        statement += "。" if heard.language == "zh" else "."
    plain = " ".join(_EMOJI.sub(" ", text).split())
    if _DECIDED.search(plain):
        return Claim(_decided_about(plain), "decided", "decision", statement, plain, heard)
    if match := _DEFINED.search(plain):
        return Claim((match["s"] or match["zh"]).strip(), "means", "definition", statement, plain[match.end() :], heard)
    if (match := _LEADS.match(plain)) and not _PERSONAL.match(match["o"]):
        return Claim(_bare(match["s"]), "owner", "fact", statement, match["o"], heard)
    for attribute, kind, pattern in _ZH_CLAIMS if heard.language == "zh" else _CLAIMS:
        if match := pattern.match(plain):
            return _claim(match, attribute, kind, statement, heard, people)
    return None


def _claim(match: re.Match[str], attribute: str, kind: str, statement: str, heard: Said, people: frozenset[str]) -> Claim | None:
    subject, value = _bare(match["s"]), match["o"] or match.groupdict().get("o2") or ""
    if _PERSONAL.match(match["s"]) or _PERSON_WORD.search(subject) or _is_person(subject, people):
        return None
    if attribute == "is":
        if heard.language == "en" and not _DETERMINED.match(match["s"]):
            return None
        if _FULL_NAME.fullmatch(subject):
            return None
        if DONE.search(match[0]) or not words(subject) or not words(value):
            return None
        attribute = "when" if _DATED.search(subject) else attribute
    if kind == "fact":
        kind = next((other for other, pattern in _KIND_WORDS if pattern.search(match[0])), kind)
    return Claim(subject, attribute, kind, statement, value, heard)


def _is_person(subject: str, people: frozenset[str]) -> bool:
    plain = re.sub(r"'s\b.*", "", subject.casefold()).strip()
    return plain in people or (bool(plain) and plain.split()[0] in people and len(plain.split()) <= 2)


def _decided_about(text: str) -> str:
    names = re.findall(r"(?<!^)\b[A-ZÄÖÜ][\w-]+(?:\s+[A-ZÄÖÜ][\w-]+)?", text)
    return names[0] if names else ""


def _bare(subject: str) -> str:
    shorter = _ARTICLE.sub("", subject.strip())
    return " ".join((shorter or subject).split()).strip(" ,.")[:200]


def _reread(fact: KnownFact, like: Said) -> tuple[frozenset[str], str, str]:
    """Subject, attribute and value of a known fact, read as its words would be in the transcript."""
    claim = claim_of(
        Said(like.line, fact.statement.rstrip(".。") + ("。" if like.language == "zh" else "."), "", False, like.language)
    )
    subject = frozenset(words(_NUMBER.sub(" ", fact.subject or (claim.subject if claim else ""))))
    return (
        (subject or (claim.subject_words if claim else frozenset())),
        claim.attribute if claim else "",
        claim.value if claim else fact.statement,
    )


def _contradicts(claim: Claim, subject: frozenset[str], attribute: str, statement: str, value: str) -> bool:
    """Whether the claim takes the place of a statement: the same thing of the same subject, with another value."""
    if _ADDS.search(claim.heard.text) or _same(claim.statement, statement):
        return False
    if _CORRECTS.search(claim.heard.text) and likeness(statement, claim.statement) >= _CORRECTED_LIKENESS:
        return True
    shared, least, most = len(subject & claim.subject_words), *sorted((len(subject), len(claim.subject_words)))
    if attribute != claim.attribute or attribute in ("decided", "does") or not shared:
        return False
    if shared / most < _SUBJECT_SHARE and not (attribute in ("when", "owner") and shared == least):
        return False
    # another threshold with another rule is one rule more, not the old one changed
    others = set(_NUMBER.findall(claim.subject)) != set(_NUMBER.findall(statement.replace(value, "")))
    return not others or not set(words(claim.value)) ^ set(words(value))


def _same(one: str, other: str) -> bool:
    """The same words, numbers and negations."""
    return (
        sameness(one, other) > _SAME
        and _NUMBER.findall(one) == _NUMBER.findall(other)
        and bool(_NEGATED.search(one)) == bool(_NEGATED.search(other))
    )


def _item(brief: Brief, claim: Claim) -> dict[str, Any]:
    heard = claim.heard
    item: dict[str, Any] = {"statement": claim.statement, "subject": claim.subject, "kind": claim.kind, "confidence": 0.9}
    topics: list[str] = re.findall(r"[^\W\d_][\w-]{3,}", claim.subject.lower())[:3]
    if topics:
        item["topics"] = topics
    if until := valid_until(heard.text, heard.line.at):
        item["valid_until"] = until
    if since := valid_from(heard.text, heard.line.at):
        item["valid_from"] = since
    item["relation"] = "new"
    for fact in brief.facts:
        if _same(claim.statement, fact.statement):
            item |= {"relation": "same", "related": fact.ref}
            break
    else:
        for fact in brief.facts:
            subject, attribute, value = _reread(fact, heard)
            if _contradicts(claim, subject, attribute, fact.statement, value):
                item |= {"relation": "supersedes", "related": fact.ref}
                break
    item["evidence"] = [heard.evidence]
    return item
