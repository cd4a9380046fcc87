"""Pieces of SQL that SQLAlchemy has no words for: constant templates of this program around clauses.

What varies is a clause (a column, a bound parameter, another piece) and never text: a template is written out in the code, and
:mod:`memory.stores.tables.scoping` refuses one that could name a table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from sqlalchemy import BindParameter, ColumnElement
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.elements import ColumnClause
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.visitors import InternalTraversal
from sqlalchemy.types import NullType, TypeEngine

_PLACE: Final = re.compile(r"\{(\d+)\}")
_FROM: Final = re.compile(r"\b(?:from|join|into|update|delete|insert|with|table|union|pragma|attach)\b", re.IGNORECASE)
_OWN_FROM: Final = re.compile(
    r"FROM \(SELECT (?:\{\d+\} AS \w+(?:, )?)+ OFFSET 0\) AS \w+"
    r"|IS (?:NOT )?DISTINCT FROM"
    r"|FROM jsonb_(?:object_keys|array_elements)\(\{\d+\}\) AS \w+(?:\(\w+\))?"
)
"""The only ways in which a piece may say FROM: over values that it is given."""


class Fragment(ColumnElement[Any]):
    """``template``: SQL with ``{0}``, ``{1}``, … where the parts go."""

    inherit_cache = True
    _traverse_internals: ClassVar[Any] = [
        ("template", InternalTraversal.dp_string),
        ("parts", InternalTraversal.dp_clauseelement_list),
        ("type", InternalTraversal.dp_type),
    ]

    def __init__(self, template: str, parts: Sequence[ColumnElement[Any]] = (), *, type_: TypeEngine[Any] | None = None) -> None:
        self.template = template
        self.parts = list(parts)
        self.type = type_ or NullType()

    @property
    def _from_objects(self) -> list[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return [one for part in self.parts for one in part._from_objects]  # pyright: ignore[reportPrivateUsage]

    def self_group(self, against: Any = None) -> Any:  # templates bring their own parentheses
        return self


_CLOSED: Final = (Fragment, ColumnClause, BindParameter, FunctionElement)


@compiles(Fragment)
def _compiled(element: Fragment, compiler: Any, **options: Any) -> str:
    options.pop("add_to_result_map", None)  # the parts are no columns of the result

    def place(match: re.Match[str]) -> str:
        part = element.parts[int(match[1])]
        sql = compiler.process(part, **options)
        return sql if isinstance(part, _CLOSED) else f"({sql})"

    # A percent sign is the driver's.
    template = element.template.replace("%", "%%") if compiler.preparer._double_percents else element.template
    return _PLACE.sub(place, template)


def is_closed(template: str) -> bool:
    """Whether a template reads from nothing but what it is given."""
    return _FROM.search(_OWN_FROM.sub("", template)) is None
