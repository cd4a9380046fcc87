"""Which words of a question no rule of the simulated model has understood: it says so and does not answer beside the question."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from memory.llm.simulated_knowledge_question import METRICS, NEGATION, TEXTS, YEAR, Question
from memory.llm.simulated_knowledge_words import ASKING, GREATEST, STOP_WORDS, SUPERLATIVES, UNITS, comparisons_in, words

_STRICT_WORDS = (
    "between not no under over above below more less than longer shorter larger smaller higher lower cheaper greater fewer"
    " exceeding except without outside other never before after since until during first last contain contains containing include"
    " includes including start starts starting"
)
_STRICT: Final = frozenset(_STRICT_WORDS.split())
"""Words that change what is meant: they are understood only as parts of a condition."""
_GLUE_WORDS = "hi hello thanks thank data entry entries record records info information both respectively exactly whole us let's"
_PLAIN: Final = (
    STOP_WORDS | ASKING | frozenset(_GLUE_WORDS.split()) | METRICS.keys() | GREATEST.keys() | SUPERLATIVES.keys() | UNITS.keys()
) - _STRICT
_QUOTED = re.compile(r"[\"“«„]([^\"”»“]{1,200})[\"”»“]")


def unclear(question: Question) -> str | None:
    """The first words that are in no table, are no column and belong to no condition."""
    text = question.text
    covered = list(_covered(question))
    superlative = question.superlative()

    def free(start: int, end: int) -> bool:
        return not any(begin <= start and end <= stop for begin, stop in covered)

    for match in _QUOTED.finditer(text):
        if free(*match.span(1)):
            return match[1].strip()
    left: list[tuple[int, int]] = []
    for word, start, end in words(text):
        lower = re.sub(r"['’]s$", "", word.lower())
        if not free(start, end):
            continue
        compared = lower in GREATEST or lower in SUPERLATIVES
        if compared and superlative is None and question.metric() is None:
            return word
        if lower in ("first", "last") and superlative is not None:
            continue
        if lower not in _PLAIN or lower.endswith(("n't", "n’t")):
            left.append((start, end))
    if not left:
        return None
    start, end = left[0]
    for begin, stop in left[1:]:
        if text[end:begin].strip():
            break
        end = stop
    if text[start:end].lower() in ("not", "no", "never") and (after := re.match(r"\s+\S+", text[end:])):
        end += after.end()
    return text[start:end].strip(" ?.!,")


def _covered(question: Question) -> Iterator[tuple[int, int]]:
    text = question.text
    for link in question.links:
        yield link.start, link.end
        if match := NEGATION.search(text[: link.start]):
            yield match.span()
    for _, start, end in question.named:
        yield start, end
    for column in question.columns:
        yield column.start, column.end
    for comparison in comparisons_in(text):
        yield comparison.start, comparison.end
    for pattern in (YEAR, TEXTS):
        for match in pattern.finditer(text):
            yield match.span()
