"""Event log, ledgers, directory and records in SQL: SQLite by default, PostgreSQL by URL.

Make or upgrade the tables with :func:`memory.stores.migrations.migrate` first.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine

from memory.settings import Settings
from memory.stores.tables.contacts import SqlContacts
from memory.stores.tables.directory import SqlDirectory
from memory.stores.tables.engine import BUSY_TIMEOUT_S, CALL_TIMEOUT_S, WRITE_OPTION, Database, database_url, is_in_memory
from memory.stores.tables.erasures import SqlErasures
from memory.stores.tables.event_log import SqlEventLog
from memory.stores.tables.facts import SqlFacts
from memory.stores.tables.knowledge import SqlKnowledge
from memory.stores.tables.knowledge.embeddings import SqlEmbeddings
from memory.stores.tables.library import SqlFunctions, SqlGuidance
from memory.stores.tables.loops import SqlLoops
from memory.stores.tables.notice_box import SqlNoticeBox
from memory.stores.tables.processes import SqlProcesses
from memory.stores.tables.reports import SqlReports
from memory.stores.tables.service_tokens import SqlServiceTokens
from memory.stores.tables.spaces import SqlSpaces
from memory.stores.tables.tasks import SqlTasks
from memory.stores.tables.terms import SqlTerms
from memory.stores.tables.usage import SqlUsage
from memory.stores.tables.windows import SqlWindows

__all__ = [
    "SqlContacts",
    "SqlDirectory",
    "SqlEmbeddings",
    "SqlErasures",
    "SqlEventLog",
    "SqlFacts",
    "SqlFunctions",
    "SqlGuidance",
    "SqlKnowledge",
    "SqlLoops",
    "SqlNoticeBox",
    "SqlProcesses",
    "SqlReports",
    "SqlServiceTokens",
    "SqlSpaces",
    "SqlTasks",
    "SqlTerms",
    "SqlUsage",
    "SqlWindows",
    "Tables",
    "build_tables",
]


@dataclass(frozen=True, slots=True)
class Tables:
    """The SQL stores on one pool of connections."""

    log: SqlEventLog
    directory: SqlDirectory
    windows: SqlWindows
    terms: SqlTerms
    usage: SqlUsage
    facts: SqlFacts
    contacts: SqlContacts
    tasks: SqlTasks
    guidance: SqlGuidance
    functions: SqlFunctions
    knowledge: SqlKnowledge
    embeddings: SqlEmbeddings
    loops: SqlLoops
    erasures: SqlErasures
    tokens: SqlServiceTokens
    notices: SqlNoticeBox
    processes: SqlProcesses
    spaces: SqlSpaces
    reports: SqlReports
    database: Database

    @property
    def engine(self) -> Engine:
        """For scripts and tests; its calls block."""
        return self.database.engine

    async def aclose(self) -> None:
        """Let running calls end and close all connections; may be called twice."""
        await self.database.aclose()


def build_tables(
    settings: Settings | str, *, call_timeout_s: float = CALL_TIMEOUT_S, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> Tables:
    """The SQL stores for the settings, or for a database URL. Connects on first use.

    A SQLite database in memory (``sqlite://``) gets its tables at once, for tests.

    Args:
        call_timeout_s: a call gives up with StoreUnavailable after this many seconds, waiting for a thread included.
        busy_timeout_s: SQLite waits this long for the write of another process before it does.

    Raises:
        InvalidSettings: not a SQLite or PostgreSQL URL.
    """
    url = settings if isinstance(settings, str) else settings.sqlalchemy_url
    database = Database(database_url(url), call_timeout_s=call_timeout_s, busy_timeout_s=busy_timeout_s)
    if is_in_memory(database.url):
        from memory.stores.migrations import upgrade  # Alembic is slow to load

        with database.engine.execution_options(**{WRITE_OPTION: True}).begin() as connection:
            upgrade(connection)
    return Tables(
        log=SqlEventLog(database),
        directory=SqlDirectory(database),
        windows=SqlWindows(database),
        terms=SqlTerms(database),
        usage=SqlUsage(database),
        facts=SqlFacts(database),
        contacts=SqlContacts(database),
        tasks=SqlTasks(database),
        guidance=SqlGuidance(database),
        functions=SqlFunctions(database),
        knowledge=SqlKnowledge(database),
        embeddings=SqlEmbeddings(database),
        loops=SqlLoops(database),
        erasures=SqlErasures(database),
        tokens=SqlServiceTokens(database),
        notices=SqlNoticeBox(database),
        processes=SqlProcesses(database),
        spaces=SqlSpaces(database),
        reports=SqlReports(database),
        database=database,
    )
