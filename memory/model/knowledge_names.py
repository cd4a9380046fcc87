"""Names of knowledge tables and columns.

Both are Python identifiers, so that they can stand in an expression, in Python's own normal form (NFKC). Columns are lower case.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection
from typing import Final

from memory.model.knowledge import CONTACTS_TABLE, MAX_DESCRIPTION_CHARS, MAX_NAME_CHARS, ToolProblem
from memory.model.knowledge_values import BadValue, shortened, text_bytes

RESERVED_COLUMNS: Final = frozenset({"id"})

_RAW_CHARS: Final = 4 * MAX_NAME_CHARS
"""A longer text is no name, and is not looked at any further."""
_HUMP = re.compile(r"(?<=[^\W_A-Z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def normal_name(name: str) -> str:
    """As the names of an expression are compared."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name[:_RAW_CHARS])


def name_key(name: str) -> str:
    """As the names of tables are compared: of two that differ in case only, an owner has one."""
    return normal_name(normal_name(name).casefold())


def checked_table_name(name: str) -> str:
    """The name in its normal form. Raises ToolProblem (``bad_name``) that says what names are like."""
    wanted = f"a table's name is letters, digits and _, begins with a letter, and is at most {MAX_NAME_CHARS} characters"
    checked = _identifier(name, wanted)
    if name_key(checked) == name_key(CONTACTS_TABLE):
        raise ToolProblem("bad_name", f"{CONTACTS_TABLE} is the table of the contacts, which is there already; choose another name")
    return checked


def checked_column_name(name: str) -> str:
    """As :func:`checked_table_name`, for a column or a unique key."""
    wanted = f"a column's name is snake_case: lower-case letters, digits and _, a letter first, at most {MAX_NAME_CHARS} characters"
    checked = _identifier(name, wanted)
    if checked != checked.lower():
        raise ToolProblem("bad_name", f"{shortened(name)}: {wanted}; {column_name_of(name)} would do")
    if checked in RESERVED_COLUMNS:
        raise ToolProblem("bad_name", f"{checked} is a reserved name; a key is named after its table, such as company_id")
    return checked


def checked_description(text: str | None) -> str | None:
    if text is None or not text.strip():
        return None
    if len(text) > MAX_DESCRIPTION_CHARS:
        raise ToolProblem("too_large", f"a description is at most {MAX_DESCRIPTION_CHARS} characters, not {len(text)}")
    try:
        text_bytes(text)
    except BadValue as error:
        raise ToolProblem(error.code, f"description: {error.reason}") from None
    return text


def column_name_of(header: str, taken: Collection[str] = ()) -> str:
    """A name for a column of a file: snake_case, never one of ``taken``."""
    words = _HUMP.sub("_", normal_name(header.strip()[:_RAW_CHARS])).lower()
    name = _made(words, "column")
    if keyword.iskeyword(name) or name in RESERVED_COLUMNS:
        name += "_"
    return _free(name, taken)


def table_name_of(title: str, taken: Collection[str] = ()) -> str:
    """A name for the table of a file or a sheet; ``taken`` is compared without regard to case."""
    name = _made(normal_name(title.strip()[:_RAW_CHARS]), "Table")
    if keyword.iskeyword(name) or name_key(name) == name_key(CONTACTS_TABLE):
        name += "_"
    return _free(name, {name_key(one) for one in taken}, fold=True)


def _identifier(name: str, wanted: str) -> str:
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolProblem("bad_name", f"{shortened(name)}: {wanted}")
    checked = normal_name(name)
    if len(checked) > MAX_NAME_CHARS or not checked.isidentifier() or checked.startswith("_"):
        raise ToolProblem("bad_name", f"{shortened(name)}: {wanted}")
    if keyword.iskeyword(checked):
        raise ToolProblem("bad_name", f"{checked} is a word of the expression language; {checked}_ would do")
    return checked


def _made(text: str, otherwise: str) -> str:
    name = "".join(char if f"a{char}".isidentifier() else "_" for char in text)
    name = re.sub("_+", "_", name).strip("_")[: MAX_NAME_CHARS - 8]
    if name and not name.isidentifier():
        name = f"{otherwise.lower() if otherwise.islower() else otherwise}_{name}"
    return normal_name(name) or otherwise


def _free(name: str, taken: Collection[str], *, fold: bool = False) -> str:
    candidate, number = name, 1
    while (name_key(candidate) if fold else candidate) in taken:
        number += 1
        candidate = f"{name.rstrip('_')}_{number}"
    return candidate
