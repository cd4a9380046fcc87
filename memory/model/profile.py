"""The profile: what is known about one user, as six sections of bullets in at most two levels.

``parse_body`` reads generously: whatever the text, it gives a profile and keeps every word. ``render_body`` writes strictly.
``parse_body(render_body(p)) == p`` for every profile.
"""

from __future__ import annotations

from memory.model.headings import SECTIONS, TITLE
from memory.model.profile_form import (
    EMPTY_MARK,
    EMPTY_PROFILE,
    TRUNCATION_MARK,
    Bullet,
    Profile,
    clean_line,
    render_body,
)
from memory.model.profile_reader import parse_body, split_frontmatter
from memory.model.recent import stamp_recent_topics

__all__ = [
    "EMPTY_MARK",
    "EMPTY_PROFILE",
    "SECTIONS",
    "TITLE",
    "TRUNCATION_MARK",
    "Bullet",
    "Profile",
    "clean_line",
    "parse_body",
    "render_body",
    "split_frontmatter",
    "stamp_recent_topics",
]
