# ruff: noqa: E501  (patterns)
"""The simulated model's how-to: somebody explains how something is done. It is no fact; the program keeps it as guidance."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from memory.llm.simulated_extraction_policies import is_directive
from memory.llm.simulated_extraction_prompt import Brief, Said
from memory.llm.simulated_extraction_shield import handled
from memory.model.category import Category

_HEADING = re.compile(
    r"\b(?P<en>how to [^,:;.!?]{3,80})|\b(?P<de>(?:so|wie) (?:geht|macht man|funktioniert|richtet man|bedient man) [^,:;.!?]{2,80})|(?P<zh>(?:如何|怎么|怎样)[^，。：；？]{2,40}|[^，。：；？]{2,40}的[^，。：；？]{0,6}(?:方法|步骤))",
    re.IGNORECASE,
)
_STEPS = re.compile(
    r"\bfirst\b.{3,200}\b(?:then|next|finally)\b|\b(?:zuerst|erst|als erstes)\b.{3,200}\b(?:dann|danach|anschließend|zum schluss)\b|(?:首先|先).{2,80}(?:然后|接着|再|最后)",
    re.IGNORECASE | re.DOTALL,
)


def how_tos(brief: Brief) -> Iterator[dict[str, Any]]:
    """Sentences that name what is done and go through the steps, each as one statement."""
    for heard in brief.said:
        subject = subject_of(heard)
        if subject is not None and not handled(brief, Category.KNOWLEDGE, heard.text):
            yield {
                "statement": heard.text,
                "subject": subject,
                "kind": "fact",
                "confidence": 0.9,
                "relation": "new",
                "evidence": [heard.evidence],
            }


def subject_of(heard: Said) -> str | None:
    """What is explained: ``How to plot on the big machine``; None where nothing is."""
    asks = heard.question or heard.text.rstrip().endswith(("?", "？"))
    if asks or is_directive(heard) or not _STEPS.search(heard.text):
        return None
    match = _HEADING.search(heard.text)
    if match is None:
        return None
    subject = " ".join(match[0].split())
    return subject[:1].upper() + subject[1:]
