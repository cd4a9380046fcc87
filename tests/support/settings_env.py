"""The file deploy/compose/settings.env, made from the settings. Anew: ``python -m tests.support.settings_env``."""

from __future__ import annotations

import textwrap
from pathlib import Path

from starter.cli.settings_table import SettingRow, setting_rows

FILE = Path(__file__).parents[2] / "deploy" / "compose" / "settings.env"
START = "# --- all settings\n"
"""What stands above this line is written by hand; what follows it is made from the settings."""
WIDTH = 120


def generated() -> str:
    """Each setting with its meaning, commented out at its default."""
    return START + "".join(_entry(row) for row in setting_rows())


def _entry(row: SettingRow) -> str:
    meaning = row.description + (f"; {row.limits}" if row.limits else "")
    if row.secret:
        meaning += "; secret: not in this file"
    others = f" (or {', '.join(row.names[1:])})" if len(row.names) > 1 else ""
    lines = textwrap.wrap(meaning + others, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    return "\n".join(["", *lines, f"#{row.names[0]}={row.default}", ""])


if __name__ == "__main__":
    by_hand = FILE.read_text(encoding="utf-8").partition(START)[0] if FILE.exists() else ""
    FILE.write_text(by_hand + generated(), encoding="utf-8")
