"""From the tree of an expression to SQLAlchemy Core. Literals become bound parameters; nothing of a caller's text is in the SQL.

A condition that is NULL is false: ``not`` is ``IS NOT TRUE``. SQLite computes what it computes as Python does, and calls
:mod:`memory.stores.tables.sqlite_functions` for the rest; PostgreSQL does all by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sqlalchemy import ColumnElement

from memory.model.expression_tree import Expression, Node
from memory.stores.tables.knowledge.compile_postgres import PostgresCompiler
from memory.stores.tables.knowledge.compile_sqlite import SqliteCompiler

Columns = Mapping[str, ColumnElement[Any]]


class Compiler(Protocol):
    def value(self, node: Node) -> ColumnElement[Any]: ...

    def condition(self, node: Node) -> ColumnElement[bool]: ...

    def stored(self, node: Node) -> ColumnElement[Any]: ...


def compiler(columns: Columns, dialect: str, *, safe: bool = True) -> Compiler:
    """See :func:`compile_value`."""
    return SqliteCompiler(columns) if dialect == "sqlite" else PostgresCompiler(columns, safe=safe)


def compile_value(expression: Expression, columns: Columns, dialect: str, *, safe: bool = True) -> ColumnElement[Any]:
    """The expression's value in stored form; a float that is infinite is None.

    Args:
        columns: name, as in the expression → the values in stored form; lists and dicts as JSON text (SQLite) or JSONB.
        dialect: ``sqlite`` or ``postgresql``.
        safe: False: quicker on PostgreSQL, which then fails (SQLSTATE class 22) where a number goes out of its range. Only where
            the statement can be run again.
    """
    return compiler(columns, dialect, safe=safe).stored(expression.node)


def compile_condition(expression: Expression, columns: Columns, dialect: str, *, safe: bool = True) -> ColumnElement[bool]:
    """Whether the expression holds, for a WHERE or an ON: true, false or NULL, which counts as false."""
    return compiler(columns, dialect, safe=safe).condition(expression.node)
