"""The schema of the database and its versions (Alembic), run by command and checked at start.

A change of :mod:`memory.stores.tables.rows` needs a new file in ``versions``; ``python -m memory.stores.migrations "what changes"``
drafts one. Each says in ``oldest_code`` which earlier code can work with what it leaves (without a word: none), and the database is
told: so code that knows nothing of a newer schema learns from the database whether it may go on, which a roll-back needs.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, text

from memory.model.errors import AfterturnError, InvalidSettings, StoreUnavailable
from memory.stores.tables.engine import WRITE_OPTION, database_url, make_engine, sqlite_file
from memory.stores.tables.faults import DRIVER_FAULTS, MIGRATE, translate

LOCK_WAIT_S = 60.0
"""A migration waits this long for another one that is running."""

_LOCK_KEY = 0x61667465
"""PostgreSQL advisory lock; any number that no one else uses."""

_VERSION = text("SELECT version_num FROM alembic_version")
_OLDEST = text("SELECT oldest FROM schema_support")


def migrate(url: str) -> str:
    """Bring the database to the schema of this version; creates a SQLite file and its folder. Returns the version.

    All or nothing in one transaction. Several at once wait for each other; a database that is there already, or at a newer schema
    that serves this version too, is left as it is.

    Raises:
        InvalidSettings: not a URL of a supported database, or a newer afterturn made it such that this one cannot use it.
        StoreUnavailable: it cannot be reached, or another migration takes longer than a minute.
    """
    parsed = database_url(url)
    path = sqlite_file(parsed)
    if path is not None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidSettings(f"the folder {path.parent} cannot be made: {error.strerror}") from None
    engine = make_engine(parsed, pool_size=1, create_file=True, statement_timeout_s=0, busy_timeout_s=LOCK_WAIT_S)
    problem: AfterturnError
    try:
        with engine.execution_options(**{WRITE_OPTION: True}).begin() as connection:
            if path is None:
                connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_WAIT_S:g}s'"))
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
            return upgrade(connection)
    except DRIVER_FAULTS as error:
        problem = translate(parsed, error)
    finally:
        engine.dispose()
    raise problem


def upgrade(connection: Connection) -> str:
    """Run what is missing on this connection, inside its transaction. Returns the version. Raises InvalidSettings."""
    found = _version(connection)
    if found is not None and found not in _order():
        _check_newer(connection, found)
        return found
    command.upgrade(config(connection), "head")
    connection.execute(text("DELETE FROM schema_support"))
    if oldest_code() != head():
        connection.execute(text("INSERT INTO schema_support (oldest) VALUES (:oldest)"), {"oldest": oldest_code()})
    return head()


def check_schema(url: str) -> None:
    """Creates nothing. Raises InvalidSettings when the schema does not serve this version, StoreUnavailable when it is away."""
    parsed = database_url(url)
    path = sqlite_file(parsed)
    if path is not None and not path.exists():
        raise InvalidSettings(f"there is no database {path} yet: {MIGRATE}")
    engine = make_engine(parsed, pool_size=1)
    problem: AfterturnError
    try:
        with engine.connect() as connection:
            check_version(connection, parsed)
        return
    except DRIVER_FAULTS as error:
        problem = translate(parsed, error)
    finally:
        engine.dispose()
    raise problem


def check_version(connection: Connection, url: URL) -> None:
    """Raises InvalidSettings when the schema behind this connection is older than this version's, or newer and not made for it."""
    found = connection.execute(_VERSION).scalar()
    if found == head():
        return
    if found is None or found in _order():
        raise InvalidSettings(f"the database is at schema {found or 'none'}, this version needs {head()}: {MIGRATE}")
    _check_newer(connection, found)


def _check_newer(connection: Connection, found: str) -> None:
    """The newer code has left word whether code of our schema may run on its own. Raises InvalidSettings."""
    supported = connection.dialect.has_table(connection, "schema_support")
    oldest = connection.execute(_OLDEST).scalar() if supported else None
    # History is one line: who knows the oldest one is at it or behind it.
    if oldest is None or oldest not in _order():
        raise InvalidSettings(
            f"the database has schema {found}, which a newer afterturn made: update afterturn, or use that database with the "
            "version that made it"
        )


def _version(connection: Connection) -> str | None:
    if not connection.dialect.has_table(connection, "alembic_version"):
        return None
    return connection.execute(_VERSION).scalar()


def config(connection: Connection | None = None) -> Config:
    """Alembic's configuration, without a file: it works from an installed package."""
    made = Config()
    made.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    made.attributes["connection"] = connection
    return made


@cache
def head() -> str:
    """The schema that this version needs."""
    found = ScriptDirectory.from_config(config()).get_current_head()
    if found is None:
        raise StoreUnavailable("the installation is damaged: no migrations were found")
    return found


@cache
def oldest_code() -> str:
    """The oldest schema whose code may run on that of this version: each migration speaks for itself, the strictest counts."""
    scripts = ScriptDirectory.from_config(config()).walk_revisions()
    return max((getattr(script.module, "oldest_code", script.revision) for script in scripts), key=_order().index)


@cache
def _order() -> tuple[str, ...]:
    """The schemas that this version knows, oldest first."""
    return tuple(script.revision for script in ScriptDirectory.from_config(config()).walk_revisions())[::-1]
