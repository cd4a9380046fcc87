"""Running a read: its time is bounded, and what the database cannot do with it is said in words that its caller can act on."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from sqlalchemy import Row
from sqlalchemy.exc import DBAPIError

from memory.model.knowledge import ToolProblem
from memory.stores.tables.engine import STATEMENT_TIMEOUT_S
from memory.stores.tables.sources import Sources

_STEPS: Final = 50_000
"""Of SQLite's machine between two looks at the clock: less than a millisecond."""
_OUT_OF_RANGE: Final = "22"
_TIMED_OUT: Final = "57014"
_TOO_COMPLEX: Final = "54"
_SQLITE_COMPLEX: Final = ("parser stack overflow", "Expression tree is too large", "too many")

Build = Callable[[bool], Any]
"""``safe`` → the statement (see :func:`memory.stores.tables.knowledge.compile.compile_value`)."""


def run(sources: Sources, build: Build, *, timeout_s: float = STATEMENT_TIMEOUT_S) -> Sequence[Row[Any]]:
    """Run the quick form of a statement, and the safe one where a number went out of its range.

    Raises ToolProblem (``too_large``) when it takes too long or is too complex for the database.
    """
    for safe in (False, True):
        problem: ToolProblem
        try:
            with _bounded(sources, timeout_s):
                return sources.read(build(safe))
        except RecursionError:
            problem = _too_complex()
        except DBAPIError as error:
            found = _verdict(error.orig, timeout_s)
            if found is None and not _is_out_of_range(error.orig):
                raise
            if found is None and not safe:
                continue
            problem = found or _out_of_range()
        raise problem  # outside of the except block: the driver's error may quote values
    raise AssertionError("the safe form returns or raises")


@contextmanager
def _bounded(sources: Sources, timeout_s: float) -> Generator[None]:
    """SQLite has no time-out of its own; PostgreSQL has one on each connection."""
    driver = sources.driver
    if not isinstance(driver, sqlite3.Connection):
        yield
        return
    deadline = time.monotonic() + timeout_s
    driver.set_progress_handler(lambda: int(time.monotonic() > deadline), _STEPS)
    try:
        yield
    finally:
        driver.set_progress_handler(None, 0)


def _is_out_of_range(error: BaseException | None) -> bool:
    if isinstance(error, psycopg.Error):
        return (error.sqlstate or "").startswith(_OUT_OF_RANGE)
    return isinstance(error, sqlite3.Error) and "integer overflow" in str(error)


def _verdict(error: BaseException | None, timeout_s: float) -> ToolProblem | None:
    if isinstance(error, psycopg.Error):
        state = error.sqlstate or ""
        late, complex_ = state == _TIMED_OUT, state.startswith(_TOO_COMPLEX)
    elif isinstance(error, sqlite3.Error):
        text = str(error)
        late, complex_ = text == "interrupted", any(part in text for part in _SQLITE_COMPLEX)
    else:
        return None
    if late:
        hint = "narrow it down: a filter that leaves fewer rows, fewer tables, an == between the tables of a join"
        return ToolProblem("too_large", f"the database did not have the answer within {timeout_s:g} s; {hint}")
    if complex_:
        return _too_complex()
    return None


def _too_complex() -> ToolProblem:
    return ToolProblem("too_large", "this is too complex for the database; use shorter expressions or fewer columns")


def _out_of_range() -> ToolProblem:
    return ToolProblem("bad_expression", "a number in an expression, or one that it gives, is beyond what the database can compute")
