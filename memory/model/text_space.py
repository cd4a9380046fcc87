"""What Python takes for white space and for digits, for databases that know less of it."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from typing import Final

WHITESPACE: Final = "".join(char for char in map(chr, range(0x3001)) if char.isspace())
"""What ``str.strip`` takes off; there is none beyond."""


@cache
def digits() -> tuple[str, str]:
    """Decimal digits beyond ASCII, which ``int`` and ``float`` read, and the ASCII digit for each."""
    found = re.findall(r"\d", "".join(map(chr, range(0x80, sys.maxunicode + 1))))
    return "".join(found), "".join(str(unicodedata.digit(char)) for char in found)
