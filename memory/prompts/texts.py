"""Loader of the prompt files. ``v1/*.md`` never change in meaning once released; a new wording is a new folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path

PROMPT_VERSION = "v1"
_FOLDER = Path(__file__).with_name(PROMPT_VERSION)


@cache
def prompt_text(name: str) -> str:
    """The text of ``<version>/<name>.md`` without white space at its ends. Raises FileNotFoundError for an unknown name."""
    return (_FOLDER / f"{name}.md").read_text("utf-8").strip()


def all_prompt_texts() -> tuple[str, ...]:
    """The texts of every file of the version, in the order of their names."""
    return tuple(prompt_text(path.stem) for path in sorted(_FOLDER.glob("*.md")))
