"""Figures of long runs, for the documents: one JSON object per line in the file that ``ENDURANCE_RESULTS`` names."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def wrote_down(name: str, report: object, **figures: Any) -> None:
    """Shown with ``pytest -s`` too."""
    line = json.dumps({"run": name, "found": str(report), **figures})
    sys.stdout.write(f"\n{line}\n")
    if path := os.environ.get("ENDURANCE_RESULTS"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
