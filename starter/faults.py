"""How an unexpected exception is told: its type and place, never its message, which may hold a user's text."""

from __future__ import annotations

import traceback
from pathlib import Path


def fault(error: BaseException) -> str:
    """For instance ``KeyError at loading.py:120``."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return type(error).__name__
    last = frames[-1]
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
