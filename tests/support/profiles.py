"""Hypothesis strategies for profiles and for texts that people and models might write instead of one."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from memory.model.profile import SECTIONS, Bullet, Profile

# No test fails because a machine is slow.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

_WORDS = """
Anna Berlin data engineer prefers kurze Antworten Übergröße 项目 用户喜欢简短回答 deadline 2026-06-17 C# v2.0 (draft) [x] 😀 é
é Ångström O'Neill naïve مرحبا ## - * ``` --- === <b> `code` 12:00 key: & | ​
"""
WORDS = st.sampled_from(_WORDS.split())
ANY_TEXT = st.text(st.characters(codec=None), max_size=80)
LINES = st.one_of(st.lists(WORDS, min_size=1, max_size=8).map(" ".join), ANY_TEXT)
BULLETS = st.builds(Bullet, LINES, st.lists(LINES, max_size=3).map(tuple))
PROFILES = st.builds(
    Profile,
    st.lists(st.lists(BULLETS, max_size=6).map(tuple), min_size=6, max_size=6).map(tuple),
    st.booleans(),
)

_HEADINGS = st.sampled_from(
    [
        *(f"## {name}" for name in SECTIONS),
        "# User Memory",
        "### follow up",
        "# IDENTITY",
        "## Skills &amp; Expertise",
        "## Skills and Expertise:",
        "**Work Context**",
        "Recent Topics:",
        "## Hobbys",
        "### Unter",
        "## Comunication Preferences",
        "Identity\n---",
        "Notes\n====",
    ]
)
_STARTS = st.sampled_from(["- ", "* ", "+ ", "• ", "  - ", "    * ", "\t- ", "      - ", "1. ", "", "  ", "> ", "-", "#"])
_MARKS = st.sampled_from(
    [
        "",
        "_(empty)_",
        "- _(empty)_",
        "<!-- truncated to fit memory budget -->",
        "---",
        "```",
        "```markdown",
        "```python",
        "~~~",
        "***",
    ]
)
_BODY_LINES = st.one_of(_HEADINGS, _MARKS, st.tuples(_STARTS, LINES).map("".join))
BODIES = st.builds(
    lambda lines, end, start: start + end.join(lines),
    st.lists(_BODY_LINES, max_size=25),
    st.sampled_from(["\n", "\r\n", "\n\n", "\r"]),
    st.sampled_from(["", "\ufeff", "\n\n", "---\nuser_id: x\nschema_version: 1\n---\n"]),
)


def word_count(text: str) -> int:
    """A token counter for tests: words and marks."""
    return len(text.split())


def char_count(text: str) -> int:
    """A token counter for tests: one token for every third character, at least."""
    return (len(text) + 2) // 3
