"""The schema by command: from nothing, raced, behind, ahead, damaged; on SQLite and on PostgreSQL."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from memory.model.errors import InvalidSettings, StoreUnavailable
from memory.settings import Settings
from memory.stores import migrations
from memory.stores.migrations import check_schema, config, head, migrate
from memory.stores.tables import build_tables
from memory.stores.tables.engine import WRITE_OPTION, database_url, make_engine
from memory.stores.tables.rows import METADATA


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("empty_postgres_url")
    return f"sqlite:///{tmp_path / 'a folder' / 'deeper' / 'new%20.db'}"


@pytest.fixture
def connection(empty_url: str) -> Iterator[Connection]:
    migrate(empty_url)
    engine = make_engine(database_url(empty_url), pool_size=1)
    with engine.execution_options(**{WRITE_OPTION: True}).begin() as opened:
        yield opened
    engine.dispose()


def execute(url: str, statement: str) -> Any:
    engine = make_engine(database_url(url), pool_size=1)
    try:
        with engine.begin() as connection:
            result = connection.execute(text(statement))
            return result.scalar() if result.returns_rows else None
    finally:
        engine.dispose()


def test_from_nothing_and_again(empty_url: str) -> None:
    with pytest.raises(InvalidSettings, match="run `afterturn migrate`"):
        check_schema(empty_url)
    assert migrate(empty_url) == head()
    check_schema(empty_url)
    execute(empty_url, "INSERT INTO user_preferences VALUES ('acme', 'ann', false)")
    assert migrate(empty_url) == head()
    assert execute(empty_url, "SELECT count(*) FROM user_preferences") == 1


def test_a_check_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="there is no database"):
        check_schema(f"sqlite:///{tmp_path / 'none' / 'x.db'}")
    assert list(tmp_path.iterdir()) == []


def test_the_models_and_the_migrations_agree(connection: Connection) -> None:
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
    assert compare_metadata(context, METADATA) == []


def test_the_partial_indexes_are_partial(connection: Connection) -> None:
    partial = {
        index["name"]: index["dialect_options"][f"{connection.dialect.name}_where"]
        for index in inspect(connection).get_indexes("turns")
        if f"{connection.dialect.name}_where" in index.get("dialect_options", {})
    }
    assert {name: str(where).replace("::text", "").strip("()") for name, where in partial.items()} == {
        "ix_turns_pending": "state = 'pending'",
        "ix_turns_kept": "outcome = 'kept'",
    }


def test_down_and_up_again(connection: Connection) -> None:
    command.downgrade(config(connection), "base")
    assert set(inspect(connection).get_table_names()) == {"alembic_version"}
    command.upgrade(config(connection), "head")
    assert set(inspect(connection).get_table_names()) == {"alembic_version", *METADATA.tables}


def test_several_processes_migrate_at_once(empty_url: str) -> None:
    code = "import sys; from memory.stores.migrations import migrate; print(migrate(sys.stdin.read()))"
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write(empty_url)
        process.stdin.close()
        process.stdin = None
    done = [(*process.communicate(timeout=60), process.returncode) for process in started]
    assert done == [(f"{head()}\n", "", 0)] * 4
    check_schema(empty_url)


def test_behind_and_ahead(empty_url: str) -> None:
    migrate(empty_url)
    execute(empty_url, "UPDATE alembic_version SET version_num = '9999'")
    for call in (check_schema, migrate):
        with pytest.raises(InvalidSettings, match=r"schema 9999, which a newer afterturn made: update afterturn"):
            call(empty_url)
    execute(empty_url, "DELETE FROM alembic_version")
    with pytest.raises(InvalidSettings, match=rf"at schema none, this version needs {head()}: run `afterturn migrate`"):
        check_schema(empty_url)


@pytest.fixture
def newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``newer("0006", None)``: the code of a later version, with two more migrations that say this of earlier code; ``newer()``: of
    this one."""
    ours = Path(migrations.__file__).parent

    def use(*says: str | None) -> None:
        theirs = tmp_path / f"later-{'-'.join(map(str, says))}"
        shutil.copytree(ours, theirs, dirs_exist_ok=True)
        before = "0006"
        for number, oldest in enumerate(says, start=7):
            said = "" if oldest is None else f"oldest_code = {oldest!r}\n"
            adds = f"    op.execute('CREATE TABLE later_{number} (x INTEGER)')"
            (theirs / "versions" / f"000{number}_later.py").write_text(
                f"from alembic import op\nrevision = '000{number}'\ndown_revision = '{before}'\n{said}def upgrade():\n{adds}\n"
            )
            before = f"000{number}"
        monkeypatch.setattr(migrations, "__file__", str(theirs / "__init__.py"))
        for cached in (migrations.head, migrations.oldest_code, migrations._order):  # pyright: ignore[reportPrivateUsage]
            cached.cache_clear()

    yield use  # type: ignore[misc]
    monkeypatch.undo()
    use()
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("says", "serves"),
    [
        (("0006",), True),
        (("0006", "0006"), True),
        (("0006", "0007"), False),
        (("0007", "0006"), False),  # the second one speaks for itself alone
        ((None,), False),
        (("0006", None), False),
    ],
)
async def test_a_newer_schema_says_whether_this_version_may_run_on_it(
    empty_url: str, newer: Callable[..., None], says: tuple[str | None, ...], serves: bool
) -> None:
    migrate(empty_url)
    newer(*says)
    with pytest.raises(InvalidSettings, match=r"at schema 0006, this version needs 000[78]: run `afterturn migrate`"):
        check_schema(empty_url)
    assert migrate(empty_url) == migrate(empty_url) == f"000{6 + len(says)}"

    newer()  # the version before comes back
    assert head() == "0006"
    if serves:
        check_schema(empty_url)
        assert migrate(empty_url) == f"000{6 + len(says)}", "its job of migration has nothing to do, and says so"
        tables = build_tables(Settings(database_url=empty_url, _env_file=None))  # type: ignore[call-arg]
        await tables.log.ping()
        await tables.aclose()
        assert execute(empty_url, "SELECT count(*) FROM later_7") == 0
    else:
        for call in (check_schema, migrate):
            with pytest.raises(InvalidSettings, match="which a newer afterturn made: update afterturn"):
                call(empty_url)


def test_a_version_that_serves_nobody_else_takes_back_what_an_earlier_one_said(empty_url: str, newer: Callable[..., None]) -> None:
    newer("0006")
    migrate(empty_url)
    assert execute(empty_url, "SELECT oldest FROM schema_support") == "0006"
    newer("0006", None)
    migrate(empty_url)
    assert execute(empty_url, "SELECT count(*) FROM schema_support") == 0


def test_every_migration_says_which_code_may_run_on_it() -> None:
    order = migrations._order()  # pyright: ignore[reportPrivateUsage]
    for path in sorted((Path(migrations.__file__).parent / "versions").glob("[0-9]*.py")):
        revision = path.name[:4]
        if revision > "0005":
            said = [line for line in path.read_text().splitlines() if line.startswith("oldest_code = ")]
            assert len(said) == 1, f"{path.name}: see memory/stores/migrations"
            assert said[0].partition('"')[2].rstrip('"') in order[: order.index(revision) + 1]


def test_a_failed_migration_leaves_nothing_half_done(empty_url: str) -> None:
    migrate(empty_url)
    execute(empty_url, "DROP TABLE alembic_version")
    for name in METADATA.tables:
        if name != "turns":
            execute(empty_url, f"DROP TABLE {name}")
    # The tables before "turns" are made, then it is in the way.
    with pytest.raises(InvalidSettings, match=r"turns\W* already exists"):
        migrate(empty_url)
    engine = make_engine(database_url(empty_url), pool_size=1)
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["turns"]
    engine.dispose()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("dear diary, this is not a database at all\n" * 50)
    for call in (migrate, check_schema):
        with pytest.raises(InvalidSettings, match=r"notes\.db is not a SQLite database"):
            call(f"sqlite:///{path}")
    assert path.read_text().startswith("dear diary")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidSettings, match="cannot be made"):
        migrate(f"sqlite:///{tmp_path / 'file' / 'x.db'}")


def test_a_server_that_is_away_and_a_wrong_password(postgres_url: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"PostgreSQL at 127\.0\.0\.1:1 is unavailable"):
        migrate("postgresql+psycopg://app:hunter2@127.0.0.1:1/x")
    wrong = database_url(postgres_url).set(password="hunter2").render_as_string(hide_password=False)
    with pytest.raises(StoreUnavailable, match="password authentication failed") as caught:
        check_schema(wrong)
    assert "hunter2" not in str(caught.value)


def test_the_migrated_file_is_in_wal_mode(tmp_path: Path) -> None:
    migrate(f"sqlite:///{tmp_path / 'x.db'}")
    with sqlite3.connect(tmp_path / "x.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
