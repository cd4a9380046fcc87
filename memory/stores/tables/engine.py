"""A database for asyncio: a blocking driver in a few threads, with a bound on everything that can wait.

SQLite has one writer thread (a second one would only wait for the first) and a few readers; PostgreSQL has a few of each. A call
waits for a free thread, then for the database, and gives up with ``StoreUnavailable`` after ``call_timeout_s`` in all. When the
database hangs, the connection is broken from outside, so that the thread comes back.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import psycopg
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import QueuePool, StaticPool

from memory.model.errors import InvalidSettings, StoreUnavailable
from memory.stores.tables.faults import DRIVER_FAULTS, translate
from memory.stores.tables.sqlite_functions import add_functions
from memory.telemetry import store_call

T = TypeVar("T")

BUSY_TIMEOUT_S = 5.0
"""SQLite waits this long for another process's write."""
CONNECT_TIMEOUT_S = 2
STATEMENT_TIMEOUT_S = 5.0
CALL_TIMEOUT_S = 8.0
ABORT_GRACE_S = 1.0
MAX_WAITING = 5_000
READERS = 4
WRITERS = 4

WRITE_OPTION = "afterturn_write"


def database_url(url: str) -> URL:
    """Check a database URL. Raises InvalidSettings, without the URL in it: it may hold a password."""
    hint = "use sqlite:///path or postgresql+psycopg://user:password@host:port/database"
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise InvalidSettings(f"AFTERTURN_DATABASE_URL is not a database URL; {hint}") from None
    backend = parsed.get_backend_name()
    if backend == "postgres":
        raise InvalidSettings(f"AFTERTURN_DATABASE_URL begins with postgres://; {hint}")
    if backend == "postgresql":
        if parsed.drivername not in {"postgresql", "postgresql+psycopg"}:
            raise InvalidSettings(f"AFTERTURN_DATABASE_URL names the driver {parsed.drivername}; {hint}")
        return parsed.set(drivername="postgresql+psycopg")
    if backend == "sqlite":
        if parsed.drivername not in {"sqlite", "sqlite+pysqlite"} or parsed.query:
            raise InvalidSettings(f"AFTERTURN_DATABASE_URL: no driver name and no options are supported for SQLite; {hint}")
        return parsed.set(drivername="sqlite")
    raise InvalidSettings(f"AFTERTURN_DATABASE_URL names the database {backend}, which is not supported; {hint}")


def is_in_memory(url: URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.database in {None, "", ":memory:"}


def sqlite_file(url: URL) -> Path | None:
    """The file of a SQLite URL; None for PostgreSQL and for a database in memory."""
    if url.get_backend_name() != "sqlite" or is_in_memory(url):
        return None
    return Path(url.database or "")


def make_engine(
    url: URL,
    *,
    pool_size: int,
    create_file: bool = False,
    statement_timeout_s: float = STATEMENT_TIMEOUT_S,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
) -> Engine:
    """An engine whose errors and logs hold no parameters. It connects on first use; a missing SQLite file is an error then."""
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url, pool_size, create_file, busy_timeout_s)
    timeout_ms = int(statement_timeout_s * 1000)
    asked = url.query.get("options", "")
    options = asked if isinstance(asked, str) else " ".join(asked)
    return create_engine(
        url.difference_update_query(["options"]),
        hide_parameters=True,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=CONNECT_TIMEOUT_S,
        pool_recycle=1800,
        pool_use_lifo=True,
        connect_args={
            "connect_timeout": CONNECT_TIMEOUT_S,
            "tcp_user_timeout": 5_000,
            "application_name": "afterturn",
            "options": f"{options} -c timezone=UTC -c statement_timeout={timeout_ms}"
            f" -c idle_in_transaction_session_timeout={timeout_ms * 2}".strip(),
        },
    )


def _sqlite_engine(url: URL, pool_size: int, create_file: bool, busy_timeout_s: float) -> Engine:
    path = sqlite_file(url)
    mode = "rwc" if create_file else "rw"

    def connect() -> sqlite3.Connection:
        # isolation_level None: this module says BEGIN itself, and says IMMEDIATE where a write follows a read.
        options: dict[str, Any] = {
            "timeout": busy_timeout_s,
            "isolation_level": None,
            "check_same_thread": False,
            "cached_statements": 256,
        }
        if path is None:
            connection = sqlite3.connect(":memory:", **options)
            add_functions(connection)
            return connection
        connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode={mode}", uri=True, **options)
        try:
            _set_up_sqlite(connection, busy_timeout_s)
            add_functions(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    pool: dict[str, Any] = (
        {"poolclass": StaticPool}
        if path is None
        else {"poolclass": QueuePool, "pool_size": pool_size, "max_overflow": 0, "pool_timeout": busy_timeout_s}
    )
    engine = create_engine("sqlite://", creator=connect, hide_parameters=True, **pool)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:  # pyright: ignore[reportUnusedFunction]
        if connection.get_execution_options().get(WRITE_OPTION):
            # Of the driver: as a statement of SQLAlchemy it would be a good part of a short transaction.
            driver: Any = connection.connection.dbapi_connection
            driver.execute("BEGIN IMMEDIATE")

    return engine


def _set_up_sqlite(connection: sqlite3.Connection, busy_timeout_s: float) -> None:
    deadline = time.monotonic() + busy_timeout_s
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            # The change to WAL needs the file alone and does not honour the busy timeout.
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")
    # What is deleted is overwritten in the file too: text that a user had deleted must not stay in free pages.
    connection.execute("PRAGMA secure_delete=ON")


class _DeadConnection(Exception):
    """The server had closed a pooled connection; nothing was committed, a fresh one may do."""


class _Call:
    """One piece of work on its way through a thread."""

    __slots__ = ("_connection", "_deadline", "_lock", "was_retried")

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self.was_retried = False
        self._lock = threading.Lock()
        self._connection: Any = None

    @property
    def is_late(self) -> bool:
        return time.monotonic() >= self._deadline

    def holds(self, connection: Any) -> None:
        with self._lock:
            self._connection = connection

    def abort(self) -> None:
        """Wake a thread that waits for a database which does not answer. Called from the event loop."""
        with self._lock:
            connection = self._connection
            if isinstance(connection, sqlite3.Connection):
                connection.interrupt()
            elif isinstance(connection, psycopg.Connection) and not connection.closed:
                with socket.socket(fileno=os.dup(connection.fileno())) as copy:
                    copy.shutdown(socket.SHUT_RDWR)


class Database:
    """Runs blocking work on connections in threads. Safe to use from many tasks; ``aclose`` may be called twice."""

    def __init__(self, url: URL, *, call_timeout_s: float = CALL_TIMEOUT_S, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.url = url
        self.is_sqlite = url.get_backend_name() == "sqlite"
        in_memory = is_in_memory(url)
        writers = 1 if self.is_sqlite else WRITERS
        readers = 0 if in_memory else READERS
        self.engine = make_engine(url, pool_size=writers + readers, busy_timeout_s=busy_timeout_s)
        self._call_timeout_s = call_timeout_s
        self._writer = self.engine.execution_options(**{WRITE_OPTION: True})
        # One statement needs no transaction: PostgreSQL then answers in one round trip.
        self._reader = self.engine if self.is_sqlite else self.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._write_threads = ThreadPoolExecutor(writers, "afterturn-sql-write")
        self._read_threads = ThreadPoolExecutor(readers, "afterturn-sql-read") if readers else self._write_threads
        self._waiting = 0

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` without a transaction: for single statements."""
        return await self._run(self._read_threads, self._reader, work, self._call_timeout_s)

    async def write(self, work: Callable[[Connection], T], *, timeout_s: float | None = None) -> T:
        """Run ``work`` in one transaction. It may run twice when the connection turns out dead before anything was committed.

        ``timeout_s``: for a change of many rows that may take longer than a call does elsewhere.
        """
        if timeout_s is None or timeout_s <= self._call_timeout_s:
            return await self._run(self._write_threads, self._writer, work, self._call_timeout_s)

        def patient(connection: Connection) -> T:
            if not self.is_sqlite:
                connection.exec_driver_sql(f"SET LOCAL statement_timeout = {int(timeout_s * 1000)}")
            return work(connection)

        return await self._run(self._write_threads, self._writer, patient, timeout_s)

    async def upkeep(self, work: Callable[[Connection], T], *, timeout_s: float) -> T:
        """Run ``work`` outside of any transaction, for what allows none; of SQLite nothing else is written by this process then."""
        return await self._run(self._write_threads, self._reader, work, timeout_s)

    async def _run(self, threads: ThreadPoolExecutor, engine: Engine, work: Callable[[Connection], T], timeout_s: float) -> T:
        with store_call("rows", work):
            return await self._in_thread(threads, engine, work, timeout_s)

    async def _in_thread(self, threads: ThreadPoolExecutor, engine: Engine, work: Callable[[Connection], T], timeout_s: float) -> T:
        if self._waiting >= MAX_WAITING:
            raise StoreUnavailable(f"the database is overloaded: {self._waiting} calls are waiting")
        call = _Call(time.monotonic() + timeout_s)
        try:
            future = threads.submit(self._perform, call, engine, work)
        except RuntimeError:
            raise StoreUnavailable("the connection to the database was closed") from None
        # Outlives a cancelled caller on purpose: the thread must come back whether or not someone still waits for it.
        alarm = asyncio.get_running_loop().call_later(timeout_s, call.abort)
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout_s + ABORT_GRACE_S):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise StoreUnavailable(f"the database did not answer within {timeout_s:g} s") from None
        finally:
            self._waiting -= 1
            if future.done():
                alarm.cancel()

    def _perform(self, call: _Call, engine: Engine, work: Callable[[Connection], T]) -> T:
        if call.is_late:
            raise StoreUnavailable(f"the database is busy: no turn within {self._call_timeout_s:g} s")
        try:
            try:
                return self._attempt(call, engine, work)
            except _DeadConnection:
                return self._attempt(call, engine, work)
        except DRIVER_FAULTS as error:
            problem = translate(self.url, error)
        raise problem

    @staticmethod
    def _attempt(call: _Call, engine: Engine, work: Callable[[Connection], T]) -> T:
        with engine.connect() as connection:
            call.holds(connection.connection.dbapi_connection)
            try:
                with connection.begin():
                    try:
                        return work(connection)
                    except DBAPIError as error:
                        if error.connection_invalidated and not call.was_retried and not call.is_late:
                            call.was_retried = True
                            raise _DeadConnection from None
                        raise
            finally:
                call.holds(None)

    async def aclose(self) -> None:
        """Let running work end, then close all connections."""

        def close() -> None:
            self._write_threads.shutdown(wait=True, cancel_futures=True)
            self._read_threads.shutdown(wait=True, cancel_futures=True)
            self.engine.dispose()

        await asyncio.to_thread(close)
