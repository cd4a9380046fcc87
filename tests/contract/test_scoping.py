"""Row-level scoping: no statement on the records without a tenant and its owners, and nobody reaches another's rows."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import (
    Connection,
    bindparam,
    delete,
    event,
    exists,
    func,
    insert,
    literal,
    literal_column,
    not_,
    null,
    or_,
    select,
    tablesample,
    text,
    true,
    tuple_,
    union,
    update,
)
from sqlalchemy import table as sql_table

from memory.model.errors import InvalidInput, NotPermitted
from memory.model.fact import FactStatus
from memory.model.library import FunctionRecord, Guidance
from memory.model.owner import Owner, View
from memory.model.scope import Scope
from memory.model.task import TaskStatus
from memory.ports import ConfirmFact, CreateContact, EndFact, IndexMark, MergeContacts, UpdateContact, UpdateTask
from memory.stores.tables import Tables, build_tables
from memory.stores.tables.fragments import Fragment, is_closed
from memory.stores.tables.rows import TURNS
from memory.stores.tables.rows_records import CONTACT_ALIASES, CONTACTS, FACTS, RECORD_OWNERS, RECORD_TABLES, TASKS
from memory.stores.tables.scoping import OPTION, EveryOwner, PreparedUpdate, Records, Unscoped, guard
from memory.stores.tables.sources import Sources
from tests.support.records import ANN, ANNS, BOB, BOBS, NOW, OTHER_ANN, SALES, a_fact, add, create_task, said, see

STORES = Path(__file__).parents[2] / "memory/stores/tables"
KNOWS_SCOPING = {"facts", "contacts", "contact_writer", "tasks", "library", "provenance", "effects", "indexing", "forgotten"}


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


BARE: dict[str, Any] = {
    "select": select(FACTS),
    "one column": select(FACTS.c.fact_id).where(FACTS.c.tenant == "acme", FACTS.c.owner_key == "u/ann"),
    "count": select(func.count()).select_from(TASKS),
    "exists": select(exists().where(CONTACTS.c.contact_id == 0)),
    "alias": select(FACTS.alias("other").c.fact_id),
    "common table expression": select(select(FACTS.c.fact_id).cte("found")),
    "subquery of another table": select(TURNS.c.tenant).where(TURNS.c.tenant.in_(select(FACTS.c.tenant))),
    "union": union(select(FACTS.c.fact_id), select(TASKS.c.task_id)),
    "insert": insert(RECORD_OWNERS).values(tenant="acme", owner_key="u/ann", last_contact_id=1, last_change=0),
    "insert from select": insert(TURNS).from_select(["tenant"], select(FACTS.c.tenant)),
    "update": update(FACTS).values(status="invalidated"),
    "delete": delete(FACTS).where(FACTS.c.tenant == "acme"),
    "text": text("SELECT * FROM facts"),
    "text in capitals": text("DELETE FROM Contacts"),
    "columns as text": select(literal_column("statement FROM facts")),
    "table as text": select(text("*")).select_from(text("tasks")),
}


OTHER = FACTS.alias("other")


def pair(**changed: Any) -> dict[str, Any]:
    given = {"other": OTHER, "on": (OTHER.c.fact_id == "f1",), "value": OTHER.c.statement}
    return {**given, "values": lambda value: {"statement": value}, **changed}


class TestNoWayRound:
    @pytest.mark.parametrize("name", BARE)
    async def test_a_statement_without_a_scope_is_not_run(self, tables: Tables, name: str) -> None:
        await tables.facts.apply(ANNS, [add()], now=NOW)
        for run in (tables.database.read, tables.database.write):
            with pytest.raises(NotPermitted, match="records"):
                await run(lambda c: c.execute(BARE[name]).all())
        assert set(await tables.facts.get(see(ANN), ["f1"])) == {"f1"}

    async def test_nor_as_plain_sql_of_the_driver(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add()], now=NOW)
        for sql in ("DELETE FROM facts", 'UPDATE "facts" SET tenant = tenant', "SELECT 1 FROM facts"):
            with pytest.raises(NotPermitted):
                await tables.database.write(lambda c, sql=sql: c.exec_driver_sql(sql))
        assert len(await tables.facts.list(see(ANN))) == 1

    async def test_other_tables_are_not_concerned(self, tables: Tables) -> None:
        assert await tables.database.read(lambda c: c.execute(select(TURNS)).all()) == []
        assert await tables.database.read(lambda c: c.exec_driver_sql("SELECT 1").scalar()) == 1

    async def test_the_mark_alone_is_not_enough(self, tables: Tables) -> None:
        """A statement that carries the scope and has lost the condition is refused too."""
        marks: list[Any] = []

        def work(connection: Connection) -> None:
            records = Records(connection, ANNS)
            marks.append(records._options)
            connection.execute(select(FACTS), execution_options=marks[0])

        with pytest.raises(Unscoped, match="lost its tenant or its owners"):
            await tables.database.read(work)
        forged = insert(RECORD_OWNERS).values(tenant="acme", owner_key="u/bob", last_contact_id=1, last_change=0)
        with pytest.raises(Unscoped, match="lost its tenant or its owners"):
            await tables.database.write(lambda c: c.execute(forged, execution_options=marks[0]))

    @pytest.mark.parametrize(
        "ask",
        [
            lambda r: r.rows(select(FACTS, TASKS)),
            lambda r: r.rows(select(FACTS).join(TASKS, TASKS.c.task_id == FACTS.c.fact_id)),
            lambda r: r.rows(select(FACTS).where(FACTS.c.fact_id.in_(select(TASKS.c.task_id)))),
            lambda r: r.rows(select(FACTS).where(FACTS.c.fact_id == TASKS.c.task_id)),
            lambda r: r.rows(select(FACTS.alias("other"))),
            lambda r: r.rows(select(FACTS).where(text("1 = 1 OR 1 = 1"))),
            lambda r: r.rows(select(FACTS).where(literal_column("1 = 1 OR 1"))),
            lambda r: r.rows(union(select(FACTS), select(FACTS))),
            lambda r: r.rows(text("SELECT * FROM facts")),
            lambda r: r.rows(select(FACTS).suffix_with("OR 1 = 1")),
            lambda r: r.rows(select(func.count()).select_from(FACTS).where(exists().where(TASKS.c.task_id == "t1"))),
            lambda r: r.rows(select(func.current_timestamp())),
            lambda r: r.rows(select(TURNS)),
            lambda r: r.update(FACTS, TASKS.c.task_id == FACTS.c.fact_id, values={"status": "active"}),
            lambda r: r.update(FACTS, values={"statement": select(TASKS.c.name).scalar_subquery()}),
            lambda r: r.update(FACTS, values={"tenant": "globex"}),
            lambda r: r.update(FACTS, values={"owner_key": "u/bob"}),
            lambda r: r.insert(RECORD_OWNERS, [{"owner_key": "u/bob", "last_contact_id": 1, "last_change": 0}]),
            lambda r: r.delete(FACTS, exists().where(TASKS.c.task_id == "t1")),
            lambda r: r.delete(TURNS),
            lambda r: r.insert_columns(TURNS, {"turn_id": ["t1"]}),
            lambda r: r.insert_columns(TASKS, {"owner_key": ["u/bob"], "task_id": ["t1"]}),
            lambda r: r.insert_from(FACTS, values={"owner_key": "u/bob"}),
            lambda r: r.insert_from(FACTS, values={"fact_id": TASKS.c.task_id}),
            lambda r: r.insert_from(FACTS, FACTS.c.fact_id == select(TASKS.c.task_id).scalar_subquery(), values={}),
            lambda r: r.update_from(FACTS, **pair(value=TASKS.c.name)),
            lambda r: r.update_from(FACTS, **pair(on=(OTHER.c.fact_id == TASKS.c.task_id,))),
            lambda r: r.update_from(FACTS, **pair(other=TASKS.alias())),
            lambda r: r.update_from(FACTS, **pair(other=FACTS)),
            lambda r: r.update_from(FACTS, **pair(values=lambda value: {"tenant": value})),
            lambda r: r.update_from(FACTS, **pair(values=lambda _: {"statement": select(TASKS.c.name).scalar_subquery()})),
            lambda r: r.update_from(FACTS, FACTS.c.fact_id == FACTS.alias().c.fact_id, **pair()),
        ],
    )
    async def test_a_statement_that_cannot_be_narrowed_is_not_built(self, tables: Tables, ask: Callable[[Records], Any]) -> None:
        with pytest.raises(Unscoped):
            await tables.database.write(lambda c: ask(Records(c, ANNS)))

    async def test_a_view_is_for_reading(self, tables: Tables) -> None:
        view = see(ANN, "sales")
        for write in (
            lambda r: r.insert(RECORD_OWNERS, []),
            lambda r: r.update(FACTS, values={"status": "active"}),
            lambda r: r.delete(FACTS),
            lambda r: r.insert_columns(FACTS, {"fact_id": ["f1"]}),
            lambda r: r.insert_from(FACTS, values={}),
            lambda r: r.update_from(FACTS, **pair()),
            lambda r: r.lock(),
        ):
            with pytest.raises(Unscoped, match="as one Owner"):
                await tables.database.write(lambda c, write=write: write(Records(c, view)))

    async def test_rows_written_for_the_driver_are_of_the_owner_too(self, tables: Tables) -> None:
        columns = {"alias_key": ["k1", "k2"], "alias": ["a", "b"], "contact_id": [1, 2]}
        await tables.database.write(lambda c: Records(c, ANNS).insert_columns(CONTACT_ALIASES, columns))
        for owner, keys in ((ANNS, ["k1", "k2"]), (BOBS, [])):
            rows = await tables.database.read(lambda c, owner=owner: Records(c, owner).rows(select(CONTACT_ALIASES)))
            assert sorted(row.alias_key for row in rows) == keys

        marks: list[Any] = []

        def seen(_: Any, __: Any, sql: str, ___: Any, context: Any, ____: bool) -> None:
            if sql.startswith("INSERT INTO contact_aliases"):
                marks.append((sql, context.execution_options))

        event.listen(tables.engine, "before_cursor_execute", seen)
        again = {**columns, "alias_key": ["k3", "k4"]}
        await tables.database.write(lambda c: Records(c, ANNS).insert_columns(CONTACT_ALIASES, again))
        event.remove(tables.engine, "before_cursor_execute", seen)
        sql, options = marks[0]
        forged = [("acme", "u/ann", "k5", "a", 1), ("acme", "u/bob", "k5", "a", 1)]
        for statement, rows in ((sql, forged), ("DELETE FROM contact_aliases", forged[:1])):
            with pytest.raises(Unscoped, match="lost its tenant or its owners"):
                await tables.database.write(lambda c, s=statement, r=rows: c.exec_driver_sql(s, r, options))

    async def test_many_rows_in_one_statement_are_of_the_owner_each(self, tables: Tables) -> None:
        seen: list[Any] = []

        def see_it(_: Any, __: Any, sql: str, parameters: Any, context: Any, ____: bool) -> None:
            if sql.startswith("INSERT INTO contact_aliases"):
                seen.append((sql, parameters, context.execution_options))

        event.listen(tables.engine, "before_cursor_execute", see_it)
        keys = [f"k{number}" for number in range(613)]
        columns = {"alias_key": keys, "alias": keys, "contact_id": range(613)}
        await tables.database.write(lambda c: Records(c, ANNS).insert_columns(CONTACT_ALIASES, columns))
        event.remove(tables.engine, "before_cursor_execute", see_it)
        rows = await tables.database.read(lambda c: Records(c, ANNS).rows(select(CONTACT_ALIASES)))
        assert sorted((row.contact_id, row.alias_key, row.alias) for row in rows) == [(n, f"k{n}", f"k{n}") for n in range(613)]
        if not tables.database.is_sqlite:
            return
        assert [len(parameters) for _, parameters, _ in seen] == [1_250, 1_250, 113]
        sql, good, options = seen[0]
        for at, value in ((0, "other"), (601, "u/bob"), (1_246, "u/bob")):
            forged = (*good[:at], value, *good[at + 1 :])
            with pytest.raises(Unscoped, match="lost its tenant or its owners"):
                await tables.database.write(lambda c, forged=forged: c.exec_driver_sql(sql, forged, options))
        with pytest.raises(Unscoped, match="lost its tenant or its owners"):
            await tables.database.write(lambda c: c.exec_driver_sql(sql, good[:-1], options))

    async def test_a_prepared_change_is_narrowed_and_of_one_owner(self, tables: Tables) -> None:
        for owner in (ANNS, BOBS):
            await tables.database.write(lambda c, owner=owner: Records(c, owner).lock())
        change = PreparedUpdate(RECORD_OWNERS, values={"last_change": "b_change"})
        assert await tables.database.write(lambda c: Records(c, ANNS).run(change, {"b_change": 7})) == 1
        for owner, last in ((ANNS, 7), (BOBS, 0)):
            row = await tables.database.read(lambda c, owner=owner: Records(c, owner).row(select(RECORD_OWNERS.c.last_change)))
            assert row is not None
            assert row.last_change == last
        with pytest.raises(Unscoped, match="as one Owner"):
            await tables.database.write(lambda c: Records(c, see(ANN, "sales")).run(change, {"b_change": 8}))
        with pytest.raises(Unscoped, match="keeps it"):
            PreparedUpdate(RECORD_OWNERS, values={"owner_key": "b_owner"})
        with pytest.raises(Unscoped):
            PreparedUpdate(RECORD_OWNERS, FACTS.c.fact_id == "f1", values={"last_change": "b_change"})

    async def test_rows_are_made_of_and_changed_by_rows_of_the_same_owner(self, tables: Tables) -> None:
        for owner, statement in ((ANNS, "Ann's."), (BOBS, "Bob's.")):
            facts = [add(owner=owner, statement=statement), add("f2", owner=owner, statement="Another.")]
            await tables.facts.apply(owner, facts, now=NOW)
        await tables.database.write(lambda c: Records(c, ANNS).update_from(FACTS, FACTS.c.fact_id == "f2", **pair()))
        copied = {"fact_id": literal("f3"), "fact_key": null()}
        copied |= {column.name: column for column in FACTS.c if column.name not in {"tenant", "owner_key", *copied}}
        for _ in range(2):
            await tables.database.write(lambda c: Records(c, ANNS).insert_from(FACTS, FACTS.c.fact_id == "f1", values=copied))
        seen = {fact.fact_id: fact.statement for fact in await tables.facts.list(see(ANN))}
        assert seen == {"f1": "Ann's.", "f2": "Ann's.", "f3": "Ann's."}
        assert {fact.fact_id: fact.statement for fact in await tables.facts.list(see(BOB))} == {"f1": "Bob's.", "f2": "Another."}

    @pytest.mark.parametrize("whose", [None, "u/ann", ("acme", "ann"), ANN])
    async def test_nothing_else_is_a_scope(self, tables: Tables, whose: Any) -> None:
        with pytest.raises(Unscoped):
            await tables.database.read(lambda c: Records(c, whose))

    async def test_reading_over_all_owners_is_only_reading(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add()], now=NOW)
        await tables.facts.apply(BOBS, [add(owner=BOBS)], now=NOW)
        rows = await tables.database.read(lambda c: EveryOwner(c).rows(select(FACTS.c.owner_key)))
        assert sorted(row.owner_key for row in rows) == ["u/ann", "u/bob"]
        for statement in (delete(FACTS), update(FACTS).values(status="active")):
            with pytest.raises(Unscoped):
                await tables.database.write(lambda c, statement=statement: EveryOwner(c).rows(statement))

    async def test_the_guard_is_on_every_store_and_only_once(self, tables: Tables) -> None:
        guard(tables.engine)
        for run in (tables.engine.connect, tables.engine.execution_options(isolation_level="SERIALIZABLE").connect):
            with run() as connection, pytest.raises(Unscoped):
                connection.execute(select(FACTS))


def places(connection: Connection, view: View = see(ANN, "sales")) -> Sources:  # noqa: B008 - frozen
    return Sources(connection, view)


def anns_facts(sources: Sources, owner: Owner = ANNS) -> Any:
    return sources.rows(FACTS, owner, [FACTS.c.fact_id, FACTS.c.tenant, FACTS.c.statement]).subquery()


def bound(number: int, tenant: str = "acme", owner: str = "u/ann") -> tuple[Any, Any]:
    """What :meth:`Sources.rows` makes, made by hand."""
    return (
        FACTS.c.tenant == bindparam(f"source_tenant_{number}", tenant),
        FACTS.c.owner_key == bindparam(f"source_owner_{number}", owner),
    )


MINE = bound(0)


def placed(sources: Sources, *place: Any) -> Any:
    return sources.read(select(sources.rows(*place).subquery()))


ATTACKS: dict[str, Callable[[Sources], Any]] = {
    "the table itself": lambda s: s.read(select(FACTS.c.fact_id)),
    "beside a place": lambda s: s.read(select(anns_facts(s), FACTS.c.statement)),
    "joined to a place": lambda s: s.read(select((mine := anns_facts(s)).join(FACTS, FACTS.c.fact_id == mine.c.fact_id))),
    "joined to a place, another table": lambda s: s.read(
        select((mine := anns_facts(s)).join(TASKS, TASKS.c.tenant == mine.c.tenant))
    ),
    "joined to a place, a table of no records": lambda s: s.read(
        select((mine := anns_facts(s)).join(TURNS, TURNS.c.tenant == mine.c.tenant))
    ),
    "in an alias": lambda s: s.read(select(anns_facts(s), FACTS.alias("other").c.fact_id)),
    "in a subquery": lambda s: s.read(select(anns_facts(s)).where(exists().where(FACTS.c.fact_id == "f1"))),
    "in a scalar subquery": lambda s: s.read(select(anns_facts(s), select(FACTS.c.statement).limit(1).scalar_subquery())),
    "in a correlated subquery": lambda s: s.read(
        select((mine := anns_facts(s)), select(FACTS.c.statement).where(FACTS.c.fact_id == mine.c.fact_id).scalar_subquery())
    ),
    "in a common table expression": lambda s: s.read(select(anns_facts(s), select(FACTS.c.fact_id).cte("other").c.fact_id)),
    "in a union": lambda s: s.read(union(s.rows(FACTS, ANNS, [FACTS.c.fact_id]), select(FACTS.c.fact_id))),
    "in an intersection within": lambda s: s.read(
        select(union(s.rows(FACTS, ANNS, [FACTS.c.fact_id]), select(FACTS.alias().c.fact_id)).subquery())
    ),
    "in an order": lambda s: s.read(select(anns_facts(s)).order_by(select(FACTS.c.statement).limit(1).scalar_subquery())),
    "in a group": lambda s: s.read(select(func.count(literal(1))).select_from(anns_facts(s)).group_by(FACTS.c.tenant)),
    "as a bare name": lambda s: s.read(select(anns_facts(s)).select_from(sql_table("facts"))),
    "lateral": lambda s: s.read(select(anns_facts(s), select(FACTS.c.fact_id).lateral().c.fact_id)),
    "sampled": lambda s: s.read(select(anns_facts(s), tablesample(FACTS, 100).c.fact_id)),
    "a place without an owner": lambda s: s.read(select(select(FACTS.c.fact_id).where(MINE[0]).subquery())),
    "a place without a tenant": lambda s: s.read(select(select(FACTS.c.fact_id).where(MINE[1]).subquery())),
    "a place whose owner is one of two": lambda s: s.read(select(select(FACTS.c.fact_id).where(MINE[0], or_(*MINE)).subquery())),
    "a place whose owner is not so": lambda s: s.read(select(select(FACTS.c.fact_id).where(MINE[0], not_(MINE[1])).subquery())),
    "a place with numbers of two": lambda s: s.read(select(select(FACTS.c.fact_id).where(MINE[0], bound(1)[1]).subquery())),
    "a place with values in it": lambda s: s.read(
        select(select(FACTS.c.fact_id).where(FACTS.c.tenant == "acme", FACTS.c.owner_key == "u/ann").subquery())
    ),
    "a place of another owner": lambda s: s.read(select(select(FACTS.c.fact_id).where(*bound(0, owner="u/bob")).subquery())),
    "a place of another tenant": lambda s: s.read(select(select(FACTS.c.fact_id).where(*bound(0, tenant="globex")).subquery())),
    "a place of another team": lambda s: s.read(select(select(FACTS.c.fact_id).where(*bound(0, owner="t/support")).subquery())),
    "a place of one's name elsewhere": lambda s: s.read(
        select(select(FACTS.c.fact_id).where(*bound(0, tenant="=62uilt-in")).subquery())
    ),
    "a place asked for as another": lambda s: s.rows(FACTS, BOBS, [FACTS.c.fact_id]),
    "a place asked for as another team": lambda s: s.rows(FACTS, Owner.team("acme", "support"), [FACTS.c.fact_id]),
    "a place of no records": lambda s: s.rows(TURNS, ANNS, [TURNS.c.tenant]),
    "a place with a second table": lambda s: placed(s, FACTS, ANNS, [FACTS.c.fact_id, TASKS.c.task_id]),
    "a place with a second table in its condition": lambda s: placed(
        s, FACTS, ANNS, [FACTS.c.fact_id], FACTS.c.fact_id == TASKS.c.task_id
    ),
    "a place with a subquery": lambda s: placed(s, FACTS, ANNS, [FACTS.c.fact_id], exists().where(TASKS.c.task_id == "t1")),
    "a place with plain SQL": lambda s: placed(s, FACTS, ANNS, [FACTS.c.fact_id], text("1 = 1 OR 1 = 1")),
    "a place with a literal column": lambda s: placed(s, FACTS, ANNS, [literal_column("statement FROM facts --")]),
    "a place with a piece that reads": lambda s: placed(s, FACTS, ANNS, [Fragment("(SELECT statement FROM facts)").label("x")]),
    "plain SQL": lambda s: s.read(select(anns_facts(s)).where(text("1 = 1"))),
    "a literal column": lambda s: s.read(select(anns_facts(s), literal_column("(SELECT 1)"))),
    "a suffix": lambda s: s.read(select(anns_facts(s)).suffix_with("UNION SELECT * FROM facts")),
    "a prefix": lambda s: s.read(select(anns_facts(s)).prefix_with("statement FROM facts --")),
    "a piece that reads": lambda s: s.read(select(anns_facts(s), Fragment("(SELECT statement FROM facts)").label("x"))),
    "a piece that writes": lambda s: s.read(select(anns_facts(s), Fragment("1); DELETE FROM tasks; --").label("x"))),
    "a function that runs SQL": lambda s: s.read(select(anns_facts(s), func.query_to_xml("SELECT * FROM facts", True, False, ""))),
    "a function that reads files": lambda s: s.read(select(anns_facts(s), func.pg_read_file("/etc/passwd"))),
    "plain text": lambda s: s.read(cast("Any", text("SELECT * FROM facts"))),
    "a change": lambda s: s.read(cast("Any", delete(FACTS).where(*MINE))),
    "a change within": lambda s: s.read(select(delete(FACTS).where(*MINE).returning(FACTS.c.fact_id).cte("gone"))),
    "nothing of one's own": lambda s: s.read(select(literal(1), select(TURNS.c.tenant).subquery())),
}


class TestSeveralPlaces:
    """Statements over several places are bound at each of them."""

    @pytest.mark.filterwarnings("ignore:SELECT statement has a cartesian product")
    async def test_what_is_not_bound_is_refused(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1")], now=NOW)
        await tables.facts.apply(BOBS, [add("f2", owner=BOBS)], now=NOW)

        async def is_refused(run: Any, attack: Callable[[Sources], Any]) -> bool:
            try:
                await run(lambda c: attack(places(c)))
            except Unscoped:
                return True
            return False

        for run in (tables.database.read, tables.database.write):
            assert [name for name, attack in ATTACKS.items() if not await is_refused(run, attack)] == []
        assert {f.fact_id for f in await tables.facts.list(see(BOB))} == {"f2"}

    async def test_a_view_reads_its_own_places_only(self, tables: Tables) -> None:
        for owner, number in ((ANNS, 1), (BOBS, 2), (SALES, 3), (Owner.team("acme", "support"), 4), (Owner.user(OTHER_ANN), 5)):
            await tables.facts.apply(owner, [add(f"f{number}", owner=owner)], now=NOW)

        def all_of_it(connection: Connection) -> set[str]:
            sources = places(connection)
            one, other = anns_facts(sources), anns_facts(sources, SALES)
            both = union(*(sources.rows(FACTS, owner, [FACTS.c.fact_id]) for owner in (ANNS, SALES, Owner.built_in()))).subquery()
            joined = select(both.c.fact_id).join(one, true()).join(other, one.c.tenant == other.c.tenant)
            joined = joined.where(exists(select(literal(1)).select_from(anns_facts(sources))))
            return {row.fact_id for row in sources.read(joined)}

        assert await tables.database.read(all_of_it) == {"f1", "f3"}

    async def test_a_statement_of_one_view_is_not_run_in_another(self, tables: Tables) -> None:
        await tables.facts.apply(BOBS, [add("f2", owner=BOBS)], now=NOW)

        def borrowed(connection: Connection) -> Any:
            return places(connection).read(select(anns_facts(places(connection, see(BOB)), BOBS)))

        with pytest.raises(Unscoped, match="lost its tenant or its owners"):
            await tables.database.read(borrowed)

        def kept(connection: Connection) -> Any:
            # The same statement, compiled once and kept: the values count, not the text.
            bobs, anns = places(connection, see(BOB)), places(connection)
            assert len(bobs.read(select(anns_facts(bobs, BOBS)))) == 1
            assert anns.read(select(anns_facts(anns))) == []
            return anns.read(select(anns_facts(places(connection, see(BOB)), BOBS)))

        with pytest.raises(Unscoped, match="lost its tenant or its owners"):
            await tables.database.read(kept)

    async def test_the_mark_alone_is_not_enough(self, tables: Tables) -> None:
        def work(connection: Connection, sql: Any) -> Any:
            marked = connection.execution_options(**{OPTION: places(connection)._reach})
            return marked.exec_driver_sql(sql) if isinstance(sql, str) else marked.execute(sql)

        for sql in (select(FACTS), select(FACTS.alias()), "SELECT * FROM facts", text("SELECT * FROM facts"), delete(FACTS)):
            with pytest.raises(Unscoped):
                await tables.database.write(lambda c, sql=sql: work(c, sql))

    @pytest.mark.parametrize("whose", [None, ANNS, "u/ann", ANN])
    async def test_nothing_but_a_view_shows_places(self, tables: Tables, whose: Any) -> None:
        with pytest.raises(Unscoped):
            await tables.database.read(lambda c: Sources(c, whose))

    async def test_pieces_of_sql_in_other_statements(self, tables: Tables) -> None:
        reads = Fragment("(SELECT count(*) FROM tasks)")
        for ask in (
            lambda r: r.rows(select(FACTS).where(reads == 0)),
            lambda r: r.update(FACTS, values={"statement": reads}),
            lambda r: r.delete(FACTS, reads == 0),
        ):
            with pytest.raises(Unscoped):
                await tables.database.write(lambda c, ask=ask: ask(Records(c, ANNS)))
        for bare in (select(Fragment("(SELECT count(*) FROM facts)")), select(TURNS).where(Fragment("1 IN (SELECT 1 FROM facts)"))):
            with pytest.raises(Unscoped):
                await tables.database.read(lambda c, bare=bare: c.execute(bare).all())


@pytest.mark.parametrize(
    ("template", "closed"),
    [
        ("({0} IS NOT DISTINCT FROM {1})", True),
        ("(SELECT {0} FROM (SELECT {1} AS v0, {2} AS v1 OFFSET 0) AS let_1)", True),
        ("(EXISTS (SELECT 1 FROM jsonb_array_elements({1}) AS e(v) WHERE e.v = {0}))", True),
        ("(SELECT {0} FROM (SELECT {1} AS v0 OFFSET 0) AS a, facts)", True),  # refused by its name, see below
        ("(SELECT 1 FROM facts)", False),
        ("1) UNION (SELECT {0}", False),
        ("1; DROP TABLE x", False),
        ("{0} FROM (SELECT {1} AS v0 OFFSET 0) AS a JOIN b ON true", False),
        ("x IN (TABLE facts)", False),
    ],
)
def test_pieces_read_from_what_they_are_given(template: str, closed: bool) -> None:
    assert is_closed(template) == closed


def test_every_row_has_an_owner_first() -> None:
    for table in RECORD_TABLES:
        assert [column.name for column in table.primary_key][:2] == ["tenant", "owner_key"], table.name
        for index in table.indexes:
            assert [column.name for column in index.columns][:2] == ["tenant", "owner_key"], index.name
        assert not table.foreign_keys, table.name


def test_only_the_scope_runs_statements_on_records() -> None:
    """The stores hold no bare connection to run something on, and the tables are named nowhere else."""
    for file in sorted(STORES.glob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        imported = {node.module: {a.name for a in node.names} for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        names_tables = "memory.stores.tables.rows_records" in imported
        made_here = file.stem in {"effects", "rows_records", "rows_knowledge"}
        assert names_tables == (file.stem in KNOWS_SCOPING | {"scoping"}) or made_here, file.stem
        if file.stem not in KNOWS_SCOPING:
            continue
        called = {node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
        assert not called & {"execute", "exec_driver_sql", "scalar", "scalars", "connect", "begin", "raw_connection"}, file.stem
        assert "EveryOwner" not in imported.get("memory.stores.tables.scoping", set()) or file.stem == "indexing"
    for file in sorted((STORES / "knowledge").glob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        called = {node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
        assert not called & {"execute", "exec_driver_sql", "scalar", "scalars", "connect", "begin", "raw_connection"}, file.stem
        assert "EveryOwner" not in file.read_text("utf-8") or file.stem == "embeddings", file.stem


def test_what_keeps_the_tables_of_knowledge_runs_nothing_by_itself() -> None:
    for file in sorted((STORES / "knowledge").glob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        called = {node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
        assert not called & {"execute", "exec_driver_sql", "scalar", "scalars", "connect", "begin", "raw_connection"}, file.stem
        assert ("EveryOwner" in file.read_text("utf-8")) <= (file.stem == "embeddings"), file.stem


# --------------------------------------------------------------------------------------------------- what a user would see

STRANGERS = [BOBS, Owner.user(OTHER_ANN), Owner.team("acme", "ann"), Owner.team("globex", "sales")]


class TestFactsOfOthers:
    @pytest.mark.parametrize("stranger", STRANGERS, ids=lambda owner: owner.path)
    async def test_cannot_be_confirmed_superseded_ended_or_deleted(self, tables: Tables, stranger: Owner) -> None:
        mine = [add("f1", sources=(said("I live in Berlin"),)), add("f2", statement="Ann likes tea.")]
        await tables.facts.apply(ANNS, mine, now=NOW)
        before = await tables.facts.get(see(ANN), ["f1", "f2"], sources=True)

        results = await tables.facts.apply(
            stranger,
            [
                ConfirmFact("c", "f1", (said("a planted quote", "e9"),)),
                EndFact("x", "f2"),
                add("f3", "key of f1", owner=stranger, supersedes=("f1", "f2"), statement="Ann lives in Bonn."),
                add("f1", "another key", owner=stranger, statement="Ann lives on the moon."),
            ],
            now=NOW,
        )
        assert [(r.did, r.superseded) for r in results] == [("nothing", ()), ("nothing", ()), ("added", ()), ("added", ())]
        assert await tables.facts.delete(stranger, ["f1", "f2"], now=NOW) == 1  # the stranger's own f1

        assert await tables.facts.get(see(ANN), ["f1", "f2", "f3"], sources=True) == before
        assert {fact.fact_id for fact in await tables.facts.list(see(ANN))} == {"f1", "f2"}

    async def test_cannot_be_read(self, tables: Tables) -> None:
        await tables.facts.apply(ANNS, [add("f1"), add("f2", supersedes=("f1",))], now=NOW)
        for scope in (BOB, OTHER_ANN):
            view = see(scope, "sales", "ann")
            assert await tables.facts.get(view, ["f1", "f2"], sources=True) == {}
            assert await tables.facts.list(view, statuses=tuple(FactStatus)) == []
            assert await tables.facts.list(view, as_of=NOW) == []
            assert await tables.facts.history(view, "f1") == []
            assert await tables.facts.by_key(Owner.user(scope), ["key of f2"]) == {}
            with pytest.raises(InvalidInput):  # an id is no way to learn that somebody has it
                await tables.facts.list(view, after="f1")

    async def test_of_a_team_are_seen_by_its_members_only(self, tables: Tables) -> None:
        await tables.facts.apply(SALES, [add("s1", owner=SALES, statement="Discounts need a signature.")], now=NOW)
        assert [f.fact_id for f in await tables.facts.list(see(ANN, "sales"))] == ["s1"]
        for view in (see(ANN), see(ANN, "support"), see(OTHER_ANN, "sales")):
            assert await tables.facts.list(view) == []
            assert await tables.facts.history(view, "s1") == []
        with pytest.raises(InvalidInput):
            View(ANN, (Owner.team("globex", "sales"),))

    async def test_that_say_they_belong_to_somebody_else_are_refused(self, tables: Tables) -> None:
        with pytest.raises(InvalidInput, match="the owner that it names"):
            await tables.facts.apply(ANNS, [add("f1", owner=BOBS)], now=NOW)

    async def test_effects_of_others_are_not_taken_for_ones_own(self, tables: Tables) -> None:
        for owner in (ANNS, BOBS, SALES, Owner.user(OTHER_ANN)):
            [result] = await tables.facts.apply(owner, [add("f1", owner=owner, effect="the same")], now=NOW)
            assert (result.did, result.repeated) == ("added", False)

    async def test_forgetting_one_user_leaves_the_others(self, tables: Tables) -> None:
        owners = [ANNS, BOBS, SALES, Owner.user(OTHER_ANN)]
        for owner in owners:
            await tables.facts.apply(owner, [add("f1", owner=owner, sources=(said("a quote"),))], now=NOW)
        assert await tables.facts.delete(ANNS, ["f1"], now=NOW) == 1
        await tables.facts.mark_indexed([IndexMark("f1", ANNS, 2, (), 0)])
        assert await tables.facts.list(see(ANN)) == []
        for view in (see(BOB), see(ANN, "sales"), see(OTHER_ANN)):
            [fact] = await tables.facts.list(view, sources=True)
            assert [source.quote for source in fact.sources] == ["a quote"]

    async def test_marks_of_the_index_reach_one_owner(self, tables: Tables) -> None:
        for owner in (ANNS, BOBS):
            await tables.facts.apply(owner, [add("f1", owner=owner)], now=NOW)
        assert await tables.facts.mark_indexed([IndexMark("f1", ANNS, 1, (7, 8), 2)]) == 1
        assert [d.owner for d in await tables.facts.pending()] == [BOBS]
        assert (await tables.terms.statistics("acme", ["u/bob"], "facts", [7])).documents == 0


class TestContactsTasksAndLibraryOfOthers:
    async def test_contacts(self, tables: Tables) -> None:
        created = CreateContact("c", {"first_name": "Bo", "email_address": "bo@example.com"}, ("bo-1",))
        for scope in (ANN, BOB, OTHER_ANN):
            [result] = await tables.contacts.apply(scope, [created], origin="manual", now=NOW)
            assert (result.contact_id, result.did) == (2, "created")
        before = await tables.contacts.list(ANN)
        changes = [
            UpdateContact("u", 2, {"first_name": "Mallory", "bio": "was here"}),
            UpdateContact("s", 1, {"bio": "was here"}),
            MergeContacts("m", 1, 2),
        ]
        for scope in (BOB, OTHER_ANN):
            await tables.contacts.apply(scope, changes, origin="manual", now=NOW)
        assert await tables.contacts.list(ANN) == before
        assert {change.field for change in await tables.contacts.history(ANN, 2)} == {"first_name", "email_address"}
        assert await tables.contacts.history(ANN, 1) == []
        assert (await tables.contacts.by_alias(ANN, ["bo-1"]))["bo-1"].first_name == "Bo"

    async def test_tasks(self, tables: Tables) -> None:
        await tables.tasks.apply(ANN, [create_task(sources=(said("call"),))], now=NOW)
        before = await tables.tasks.list(ANN, sources=True)
        for scope in (BOB, OTHER_ANN):
            update_it = UpdateTask("u", "t1", {"status": TaskStatus.CANCELLED}, (said("no", "e9"),))
            [result] = await tables.tasks.apply(scope, [update_it], now=NOW)
            assert result.did == "nothing"
            [own] = await tables.tasks.apply(scope, [create_task("t1", "key of t1", name="Other")], now=NOW)
            assert own.did == "created"
            assert [task.name for task in await tables.tasks.list(scope)] == ["Other"]
        assert await tables.tasks.list(ANN, sources=True) == before

    @pytest.mark.parametrize("stranger", STRANGERS, ids=lambda owner: owner.path)
    async def test_guidance_and_functions(self, tables: Tables, stranger: Owner) -> None:
        def guidance(owner: Owner, content: str) -> Guidance:
            return Guidance(guidance_id="g", owner=owner.key, title="Refunds", content=content, created_at=NOW, updated_at=NOW)

        def function(owner: Owner, source: str) -> FunctionRecord:
            return FunctionRecord(function_id="f", owner=owner.key, name="refund", source=source, created_at=NOW, updated_at=NOW)

        await tables.guidance.add(ANNS, [guidance(ANNS, "Ask first.")], now=NOW)
        await tables.functions.add(ANNS, [function(ANNS, "pass")], now=NOW)
        await tables.guidance.add(stranger, [guidance(stranger, "Never ask.")], now=NOW)
        await tables.functions.add(stranger, [function(stranger, "boom()")], now=NOW)
        assert await tables.guidance.delete(stranger, ["g"], now=NOW) == 1
        assert await tables.functions.delete(stranger, ["f"], now=NOW) == 1
        assert [g.content for g in await tables.guidance.list(see(ANN))] == ["Ask first."]
        assert [f.source for f in await tables.functions.list(see(ANN))] == ["pass"]
        planted = BOBS if stranger != BOBS else ANNS
        with pytest.raises(InvalidInput, match="the owner that it names"):
            await tables.guidance.add(stranger, [guidance(planted, "planted")], now=NOW)
        with pytest.raises(InvalidInput, match="the owner that it names"):
            await tables.functions.add(stranger, [function(planted, "planted()")], now=NOW)

    async def test_fifty_users_at_once_on_one_store(self, tables: Tables) -> None:
        scopes = [Scope.of("acme", f"user {number}") for number in range(50)]

        async def live(scope: Scope) -> None:
            owner = Owner.user(scope)
            statement = f"The secret of {scope.user_id}."
            await tables.facts.apply(owner, [add("f1", owner=owner, statement=statement)], now=NOW)
            person = CreateContact("c", {"first_name": "Bo", "bio": statement}, ("bo-1",))
            await tables.contacts.apply(scope, [person], origin="manual", now=NOW)
            await tables.tasks.apply(scope, [create_task(name=statement)], now=NOW)

        await asyncio.gather(*(live(scope) for scope in scopes))
        for scope in scopes:
            statement = f"The secret of {scope.user_id}."
            assert [fact.statement for fact in await tables.facts.list(see(scope))] == [statement]
            assert (await tables.contacts.by_alias(scope, ["bo-1"]))["bo-1"].bio == statement
            assert [task.name for task in await tables.tasks.list(scope)] == [statement]


async def test_a_tuple_comparison_goes_through(tables: Tables) -> None:
    """What the pages of lists are made with."""
    await tables.facts.apply(ANNS, [add("f1"), add("f2")], now=NOW)
    wanted = select(FACTS.c.fact_id).where(tuple_(FACTS.c.created_at, FACTS.c.fact_id) < tuple_(NOW, "f2"))
    rows = await tables.database.read(lambda c: Records(c, ANNS).rows(wanted))
    assert [row.fact_id for row in rows] == ["f1"]
    assert a_fact().owner == ANNS.key
