# ruff: noqa: E501  (patterns)
"""How the simulated model looks at text: what of a message are the user's own words, its sentences, and likeness of phrases."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAX_SENTENCES = 120
MAX_SENTENCE_CHARS = 400

_FENCED = re.compile(r"(```|~~~|\"\"\"|''')(?:(?!\1).){0,70000}(?:\1|\Z)", re.DOTALL)
_QUOTED_LINE = re.compile(r"^[ \t]*(?:>|\|).*$", re.MULTILINE)
_QUOTED_SPAN = re.compile(r"[\"“„«「『][^\"“”„»」』\n]{25,2000}[\"”“»」』]|[「『][^」』\n]{12,2000}[」』]")
_HANDED_OVER = re.compile(
    r"(?:(?:^|[.!?\n]\s*|\b(?:please|can you|could you|would you|bitte|kannst du|könntest du)\s+)"
    r"(?:summari[sz]e|translate|proofread|rewrite|rephrase|review|edit|shorten|explain|analy[sz]e|correct|fix|format|convert|parse|extract|improve|"
    r"check|compare|reply|respond|answer|übersetze?|antworte|beantworte|fasse?|korrigier\w*|formulier\w*|überarbeite|erkläre?|analysiere|prüfe?|vergleiche?)"
    r"|\b(?:here(?:'s| is| are)|hier (?:ist|sind)|the following|this is (?:the|an?)|the|this|my|an?|eine?|die|der|das|diese[nrs]?|folgende\w*)\s[^\n:：.!?]{0,40}"
    r"\b(?:e?-?mail|message|letter|article|text|log|transcript|document|page|flyer|story|code|says|reads|cv|résumé|essay|nachricht|brief|artikel|dokument|output|error))\b"
    r"[^\n:：.!?]{0,80}[:：]\s|(?:翻译|总结|校对|润色|改写|解释|下面是|以下是)[^\n:：。]{0,40}[:：]",
    re.IGNORECASE,
)
_STEERING = re.compile(
    r"\b(?:ignore|disregard|override)\b.{0,40}\b(?:instruction|rule|previous|prior|above|prompt)|\bsystem(?: prompt)?\s*:|"
    r"\b(?:write|add|store|save|put|insert|record)\b.{0,40}\b(?:memory|profile|notes)\b|\b(?:the|this) user (?:is|has|must|wants|may)\b|"
    r"\byou (?:must|are now|have to) |\bignorier\w*\b.{0,40}\b(?:anweisung|regel|bisherig)|\bmerke? dir, dass der (?:nutzer|benutzer)|"
    r"忽略.{0,12}(?:指令|指示|规则)|系统提示",
    re.IGNORECASE,
)
_ATTRIBUTED = re.compile(
    r"\b(?:said|says|wrote|writes|told|replied|asked|claims?|according to|tweeted|sagte?|sagt|schrieb|schreibt|meinte?|meint|fragte|laut)\b"
    r"|(?<!我)[说写]道?[：:，,]|[他她](?:说|写)",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"\W*(?:if|suppose|imagine|pretend|assume|assuming|let'?s say|what if|say|once|when|unless|maybe|perhaps|wenn|falls|angenommen|"
    r"stell dir|stellen sie sich|nehmen wir an|vielleicht|als ob)\b|\W*(?:如果|假如|假设|要是|也许)",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"\W*(?:what|why|how|who|whom|whose|where|when|which|is|are|am|was|were|do|does|did|can|could|would|should|will|shall|may|might|"
    r"have|has|had|isn't|aren't|don't|doesn't|wie|warum|wieso|weshalb|wer|wen|wem|wo|woher|wohin|wann|welche\w*|"
    r"ist|sind|bin|hat|habe|hast|haben|kann|kannst|können|könnte\w*|soll|sollte|wird|würde\w*|darf|muss|gibt|stimmt)\b|\W*was (?!ich\b)",
    re.IGNORECASE,
)
_ZH_QUESTION = re.compile(r"[吗呢][？?。!！]?$|什么|怎么|为什么|多久|多少|哪[里个些儿]|几[点个]|谁")
_BREAK = re.compile(
    r"(?<=[.!?])[\"')\]]?\s+|(?<=[。！？；])|;\s|\n+|(?<=[a-zäöüß]:)\s+(?=(?:I|Ich|ich|we|wir|the|das|der|die|my|mein\w*)\b)"
)
_MONTH_NEXT = re.compile(r"(?:jan|feb|mär|mar|apr|mai|may|jun|jul|aug|sep|okt|oct|nov|dez|dec)\w*|[a-zäöü]", re.IGNORECASE)
_ABBREVIATION = re.compile(
    r"(?:\b(?:dr|mr|mrs|ms|prof|st|no|nr|vs|etc|e\.g|i\.e|z\.b|d\.h|ca|bzw|inc|ltd|approx|jr)|\b[A-Z])\.$", re.IGNORECASE
)
_WORD = re.compile(r"[^\W_]+(?:[.+#'’-][^\W_]+)*[+#]*")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_STAMP = re.compile(r"^\d{4}-\d{2}-\d{2} \d{2}:\d{2} UTC: ")
_STOP = word_set(
    """
    a an the of to for in on at by with and or from into is are was were be been being it its this that these those my
    your our their his her i you we they me us so as if then than about any all some new now still just already very
    quite really also too not no have has had do does did will would can could should must there here what which who
    whom done finished one up out off over der die das den dem des ein eine einen einem einer eines und oder von vom zu
    zum zur im ist sind war waren bin habe hat hatte ich du er sie es wir ihr mein meine meinen meinem dein unser unsere
    nicht kein keine mehr jetzt noch schon auch sehr für mit auf an am bei bis nach aus als dass daran erledigt fertig
    """
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """``question``: it asks, so that only requests in it count."""

    text: str
    question: bool


def own_words(message: str) -> str:
    """A message without fenced, quoted and handed-over material ("Translate this: …")."""
    text = message.replace("’", "'")
    text = _FENCED.sub("\n", text)
    text = _QUOTED_LINE.sub("", text)
    text = _QUOTED_SPAN.sub(" ", text)
    if handed := _HANDED_OVER.search(text):
        text = text[: handed.start()]
    return text


def sentences(message: str, *, limit: int = MAX_SENTENCES) -> Iterator[Sentence]:
    """The sentences in which the user speaks for themselves; suppositions and steering are left out."""
    introduced = False
    for count, raw in enumerate(_split(own_words(message))):
        if count >= limit:
            return
        text = raw.strip()[:MAX_SENTENCE_CHARS]
        others = _STEERING.search(text) or (text.endswith(":") and _ATTRIBUTED.search(text))
        if introduced or others or not text or _SUPPOSED.match(text):
            # what follows "Anna wrote:" or "Add to your memory:" is not the user's statement either
            introduced = bool(others) and text.endswith(":")
            continue
        asks = (text.endswith(("?", "？")) and bool(_QUESTION.match(text))) or bool(_ZH_QUESTION.search(text))
        yield Sentence(text, asks)


def is_attributed(sentence: str, position: int) -> bool:
    """Whether someone else is quoted before this position of the sentence."""
    return _ATTRIBUTED.search(sentence, 0, position) is not None


def words(text: str) -> list[str]:
    """Content words in lower case, lightly stemmed; CJK runs as pairs of characters."""
    found: list[str] = []
    for word in _WORD.findall(_STAMP.sub("", text).lower()):
        if _CJK.search(word):
            found += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        elif word not in _STOP:
            found.append(_stem(word))
    return found


def likeness(one: str, other: str) -> float:
    """Share of the content words of the shorter text that the longer one has too; 0 when one has none."""
    a, b = set(words(one)), set(words(other))
    return len(a & b) / min(len(a), len(b)) if a and b else 0.0


def sameness(one: str, other: str) -> float:
    """Shared content words as a share of all of both; 1 for the same words in any order."""
    a, b = set(words(one)), set(words(other))
    return len(a & b) / len(a | b) if a or b else float(one.strip() == other.strip())


def is_cjk(text: str) -> bool:
    return _CJK.search(text) is not None


def without_stamp(text: str) -> str:
    return _STAMP.sub("", text)


def _split(text: str) -> Iterator[str]:
    start = 0
    for gap in _BREAK.finditer(text):
        piece = text[start : gap.start()]
        if _ABBREVIATION.search(piece[-12:]) and "\n" not in gap[0]:
            continue
        if re.search(r"\b\d{1,2}\.$", piece[-4:]) and _MONTH_NEXT.match(text, gap.end()):
            continue
        yield piece
        start = gap.end()
    yield text[start:]


def _stem(word: str) -> str:
    for ending in ("ungen", "ing", "ung", "ern", "ed", "en", "er", "es", "s", "e", "t", "n"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
