"""From the exceptions of database drivers to the error tree. No message carries a parameter: that could be a user's text."""

from __future__ import annotations

import sqlite3

import psycopg
from sqlalchemy import URL
from sqlalchemy import exc as sa

from memory.model.errors import AfterturnError, InvalidInput, InvalidSettings, StoreUnavailable

MIGRATE = "run `afterturn migrate`"

_NO_TABLES = ("no such table", "no such column", "has no column named")
_PASSING_STATES = ("08", "40", "53", "55", "57", "58")
"""SQLSTATE classes: connection, rollback, resources, object in use, operator intervention, system."""


DRIVER_FAULTS = (sa.SQLAlchemyError, sqlite3.Error, psycopg.Error)


def translate(url: URL, error: Exception) -> AfterturnError:
    """The error to raise in place of one of :data:`DRIVER_FAULTS`.

    Raise it outside of the ``except`` block: the driver's error, which may quote values, must not travel on as its context.
    """
    if isinstance(error, sa.TimeoutError):
        return StoreUnavailable(f"{_where(url)} has no free connection")
    original = error.orig if isinstance(error, sa.StatementError) else error
    if isinstance(original, AfterturnError):
        return original
    if isinstance(original, sqlite3.Error | psycopg.Error):
        return _translate_driver(url, original)
    return InvalidInput(f"a value cannot be stored in the database ({type(original or error).__name__})")


def _translate_driver(url: URL, error: sqlite3.Error | psycopg.Error) -> AfterturnError:
    if isinstance(error, sqlite3.Error):
        return _translate_sqlite(url, error)
    state = error.sqlstate or ""
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        return InvalidSettings(f"{_where(url)} does not have the tables of this version: {MIGRATE}")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or state[:2] in _PASSING_STATES:
        # These come from the connection or the server, not from a row, so their first line holds no values.
        return StoreUnavailable(f"{_where(url)} is unavailable: {_first_line(error)}")
    if state.startswith("42"):
        # Names, privileges and syntax: these messages quote the statement, never a value.
        return InvalidSettings(f"{_where(url)} refused the statement: {_first_line(error)}")
    # The caller of a value may be a model or a user, who are told nothing of where the database is.
    return InvalidInput(f"the database refused a value ({type(error).__name__} {state})")


def _translate_sqlite(url: URL, error: sqlite3.Error) -> AfterturnError:
    message = _first_line(error)
    if any(part in message for part in _NO_TABLES):
        return InvalidSettings(f"{_where(url)} does not have the tables of this version: {MIGRATE}")
    if "already exists" in message:
        return InvalidSettings(f"{_where(url)} refused the statement: {message}")
    if "unable to open database file" in message:
        return InvalidSettings(f"{_where(url)} cannot be opened: {MIGRATE}, or check the path and its permissions")
    if "not a database" in message:
        return InvalidSettings(f"{_where(url)} is not a SQLite database")
    if isinstance(error, sqlite3.IntegrityError | sqlite3.DataError | sqlite3.NotSupportedError):
        return InvalidInput(f"the database refused a value ({type(error).__name__})")
    return StoreUnavailable(f"{_where(url)} is unavailable: {message}")


def _where(url: URL) -> str:
    if url.get_backend_name() == "sqlite":
        return f"the SQLite database {url.database or ':memory:'}"
    return f"PostgreSQL at {url.host or 'localhost'}:{url.port or 5432}"


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]
