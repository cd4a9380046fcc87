"""The archive of everything that is kept about a user: all of it is in there, and nothing of anybody else's."""

from __future__ import annotations

import io
import json
import re
import zipfile
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory.model.category import Category
from memory.model.errors import BeingForgotten, InvalidInput, MemoryUnavailable
from memory.model.event import ManagerMethodEvent, MessageEvent
from memory.model.knowledge_loop import Entry, EntryKind, Loop, Operation
from memory.model.owner import Owner
from memory.model.scope import Scope
from memory.model.window import CategoryExtraction, Extraction, Window, WindowState
from memory.ports import CreateContact, MergeContacts, UpdateContact, Usage, WindowResult
from memory.stores.tables.erasures import BY_OWNER, BY_USER, STAYS
from starter import export, export_archive
from starter.export import EXPORTED, LEFT_OUT
from tests.starter.conftest import World
from tests.support.records import add, create_task, said

ANN, BOB, NOBODY = ("acme", "ann/…"), ("acme", "bob"), ("acme", "nobody")
NOW = datetime(2026, 6, 17, 12, tzinfo=UTC)
TEXT = re.compile(r"canary\d+")


class Words:
    """Each word is another one, and is found again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    @property
    def next(self) -> str:
        self._count += 1
        return f"{self._name}{self._count}"


async def fill(world: World, who: tuple[str, str], name: str) -> None:
    """Something in every table that holds what a user said or what was learned."""
    memory, scope, tables, word = world.client(), Scope.of(*who), world.tables, Words(name)
    owner = Owner.user(scope)
    for _ in range(2):
        await world.save(who, f"# User Memory\n\n## Identity\n- {word.next} 🦊 <script>\n")
    for number in range(3):
        await memory.after_answer(
            who,
            {
                "turn_id": f"t{number}",
                "user_text": word.next,
                "assistant_text": word.next if number else None,
                "space_id": word.next,
                "conversation_id": word.next,
                "allow_user_memory": True,
            },
        )
    events = [
        MessageEvent(event_id="e 🦊1", timestamp=NOW, sender_id=word.next, receiver_ids=(word.next,), content=word.next),
        ManagerMethodEvent(
            event_id="e2",
            timestamp=NOW,
            manager="TaskManager",
            method="update",
            phase="incoming",
            calling_id="call",
            payload={"text": word.next},
        ),
    ]
    assert (await memory.record_events(who, events, allow_user_memory=True)).recorded == 2
    last = (await tables.windows.progress(scope)).last_seq
    window = Window(scope=scope, window_id="w1", first_seq=1, last_seq=last, events=last, guidance=word.next, planned_at=NOW)
    await tables.windows.plan(window)
    taken = CategoryExtraction(category=Category.KNOWLEDGE, items=({"statement": word.next},))
    await tables.windows.save_extraction(
        scope, Extraction(window_id="w1", attempt=0, prompt_version="v1", model="m", categories=(taken,))
    )
    await tables.windows.commit(scope, "w1", 0, WindowResult(WindowState.DONE), now=NOW)
    chunk = [MessageEvent(event_id="c1", timestamp=NOW, sender_id="user", content=word.next)]
    await tables.windows.open_chunk(
        scope, chunk, chunk_id="chunk-1", categories=(Category.TASKS,), guidance=None, model=None, now=NOW
    )
    facts = [
        add("f1", owner=owner, statement=word.next, subject=word.next, topics=(word.next,), sources=(said(word.next),)),
        add("f2", owner=owner, statement=word.next, supersedes=("f1",)),
    ]
    await tables.facts.apply(owner, facts, now=NOW)
    people = [
        CreateContact("a", {"first_name": word.next, "bio": word.next}, (word.next,), (said(word.next),)),
        CreateContact("b", {"surname": word.next}, (word.next,)),
        MergeContacts("c", 2, 3),
        UpdateContact("d", 2, {"bio": word.next}),
    ]
    await tables.contacts.apply(scope, people, origin="manual", now=NOW)
    tasks = [create_task("t1", name=word.next, description=word.next, tags=(word.next,), contact_id=2, sources=(said(word.next),))]
    await tables.tasks.apply(scope, tasks, now=NOW)
    await memory.guidance.add(who, word.next, word.next, tags=[word.next])
    await memory.functions.add(who, word.next, word.next, docstring=word.next)
    rows = [{"shelf": word.next, "height": number} for number in range(450)]
    await memory.knowledge.import_rows(who, f"Shelves_{name}", rows, description=word.next)
    loop = Loop(loop_id="l1", operation=Operation.ASK, text=word.next, destination="personal", created_at=NOW)
    await tables.loops.open(scope, loop)
    lines = [Entry(f"model/{number}", EntryKind.MODEL, number, {"text": word.next}) for number in range(3)]
    await tables.loops.append(scope, "l1", lines, now=NOW)
    await tables.usage.add(scope, stage="gate", model=word.next, usage=Usage(5, 2), now=NOW)
    await memory.set_preference(who, allow_user_memory=False)
    await memory.set_teams(who, [word.next], read_only=[])


async def archive(world: World, who: tuple[str, str]) -> zipfile.ZipFile:
    pieces = [piece async for piece in world.client().export(who)]
    made = zipfile.ZipFile(io.BytesIO(b"".join(pieces)))
    assert made.testzip() is None
    assert len(pieces) > 10
    return made


def lists(made: zipfile.ZipFile) -> dict[str, Any]:
    return {name: json.loads(made.read(name)) for name in made.namelist() if name.endswith(".json")}


def texts(made: zipfile.ZipFile) -> str:
    return "\n".join(made.read(name).decode("utf-8") for name in made.namelist())


def stored(world: World, table: str, user: str) -> list[str]:
    """Rows of a user, as text."""
    with world.tables.engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        columns = [row[1] for row in driver.execute(f"PRAGMA table_info({table})")]
        column, value = ("owner_key", f"u/{user}") if "owner_key" in columns else ("user_id", user)
        if column not in columns:
            return []
        found = driver.execute(f"SELECT * FROM {table} WHERE {column} = ?", [value])
        return [json.dumps(row, default=str, ensure_ascii=False) for row in found]


def test_every_table_that_holds_something_of_a_user_is_exported_or_left_out_for_a_reason() -> None:
    of_users = {table.name for table in (*BY_USER, *BY_OWNER)} | set(STAYS)
    assert set(EXPORTED) | set(LEFT_OUT) == of_users
    assert not set(EXPORTED) & set(LEFT_OUT)
    assert all(LEFT_OUT.values())


async def test_all_that_is_stored_of_a_user_is_in_the_archive_and_nothing_of_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(world, ANN, "canary")
    await fill(world, BOB, "stranger")
    team = Owner.team("acme", "stranger team")
    await world.tables.facts.apply(team, [add("f9", owner=team, statement="stranger99")], now=NOW)
    await world.client().set_teams(ANN, ["stranger team"])
    monkeypatch.setattr(export, "PAGE", 200)
    monkeypatch.setattr(export, "SMALL_PAGE", 2)
    monkeypatch.setattr(export_archive, "MAX_FILE_BYTES", 8_000)
    made = await archive(world, ANN)
    everything, files = texts(made), lists(made)

    user = Scope.of(*ANN).user
    for table in EXPORTED:
        rows = stored(world, table, user)
        assert rows or table in ("erasures", "team_members"), f"nothing of {table} is tested"
        missing = {word for row in rows for word in TEXT.findall(row)} - set(TEXT.findall(everything))
        assert not missing, f"{table}: {sorted(missing)}"
    for table in LEFT_OUT:
        assert not any(TEXT.search(row) for row in stored(world, table, user)), f"{table} holds text"
    assert "stranger" not in everything.replace("stranger team", "")

    assert {name.partition(".")[0].partition("/")[0] for name in files} >= set(EXPORTED.values())
    assert files["account.json"] == {
        "tenant_id": "acme",
        "user_id": "ann/…",
        "allow_user_memory": False,
        "teams": [{"team_id": "stranger team", "can_write": True}],
    }
    assert {fact["fact_id"]: (fact["status"], fact["superseded_by"]) for fact in files["facts.json"]} == {
        "f1": ("superseded", "f2"),
        "f2": ("active", None),
    }
    (contact,) = [one for one in files["contacts.json"] if one["contact_id"] == 2]
    assert {change["origin"] for change in contact["changes"]} == {"manual", "merge:3"}
    assert len(contact["sources"]) == 1
    assert [turn["turn"]["turn_id"] for turn in files["turns.json"]] == ["t2", "t1", "t0"]
    assert [event["seq"] for event in files["events.json"]] == list(range(1, 8))
    assert files["events.json"][-2]["event"]["event_id"] == "e 🦊1"
    assert {window["window_id"] for window in files["windows.json"]} == {"w1", "chunk-1"}
    assert [line["number"] for line in files["loops.json"][0]["conversation"]] == [1, 2, 3]
    (table,) = files["tables.json"]
    parts = [name for name in made.namelist() if name.startswith(table["file"].removesuffix(".json"))]
    assert len(parts) > 1, "a long list goes on in further files"
    assert [row["height"] for name in parts for row in files[name]] == list(range(450))
    versions = files["profile/versions.json"]
    assert [one["version"] for one in versions] == [2, 1]
    assert made.read("profile.md") == made.read("profile/versions/000002.md") != made.read("profile/versions/000001.md")

    manifest = files["manifest.json"]
    counts = {one["name"]: one.get("items") for one in manifest["files"]}
    assert set(counts) | {"manifest.json"} == set(made.namelist())
    assert all(counts[name] == len(found) for name, found in files.items() if isinstance(found, list))
    assert {one["what"] for one in manifest["left_out"]} >= {"rows of teams", *LEFT_OUT}
    facts = made.read("facts.md").decode()
    assert "(no longer holds: superseded)" in facts
    assert "Nothing." not in facts


async def test_text_in_markdown_is_no_markup(world: World) -> None:
    scope = Scope.of(*ANN)
    nasty = "<img src=x onerror=alert(1)> [click](javascript:alert(1))\n# Title `code`"
    await world.tables.tasks.apply(scope, [create_task("t1", name=nasty, sources=(said(nasty),))], now=NOW)
    text = (await archive(world, ANN)).read("tasks.md").decode()
    assert "\\<img src=x" in text
    assert "\\[click\\](javascript" in text
    assert len(re.findall(r"^#", text, re.MULTILINE)) == 1


async def test_a_user_of_whom_nothing_is_known_gets_an_archive_that_says_so(world: World) -> None:
    made = await archive(world, NOBODY)
    files = lists(made)
    assert made.read("profile.md") == b"There is no profile (memory.md).\n"
    assert {name: found for name, found in files.items() if isinstance(found, list) and found} == {
        "contacts.json": files["contacts.json"]
    }
    assert [one["contact_id"] for one in files["contacts.json"]] == [0, 1]
    assert made.read("facts.md").decode().endswith("\nNothing.\n")
    assert "README.md" in made.namelist()


async def test_what_is_wrong_is_said_before_the_first_piece(world: World) -> None:
    memory = world.client()
    with pytest.raises(InvalidInput):
        memory.export(("acme", ""))
    world.directory.down = True
    with pytest.raises(MemoryUnavailable):
        await anext(memory.export(ANN))
    world.directory.down = False
    await world.tables.erasures.open(Scope.of(*ANN), erasure_id="x", requested_by="test", now=NOW - timedelta(days=1))
    with pytest.raises(BeingForgotten):
        await anext(memory.export(ANN))


async def test_an_outage_in_the_middle_leaves_no_archive_that_could_be_taken_for_a_whole_one(world: World) -> None:
    await fill(world, ANN, "canary")
    pieces: list[bytes] = []

    async def receive() -> None:
        async for piece in world.client().export(ANN):
            pieces.append(piece)
            await world.tables.aclose()

    with pytest.raises(MemoryUnavailable):
        await receive()
    assert pieces
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(io.BytesIO(b"".join(pieces)))


async def test_an_export_that_a_forget_overtakes_is_no_archive_either(world: World) -> None:
    await fill(world, ANN, "canary")
    scope, erasures = Scope.of(*ANN), world.tables.erasures
    for is_over in (False, True):  # it still runs when the last piece is made, or is over by then
        pieces: list[bytes] = []

        async def receive(*, is_over: bool, pieces: list[bytes]) -> None:
            async for piece in world.client().export(ANN):
                pieces.append(piece)
                if len(pieces) == 1:
                    opened = await erasures.open(scope, erasure_id=f"e{is_over}", requested_by="user", now=datetime.now(UTC))
                    await erasures.erase_rows(scope)
                    if is_over:
                        await erasures.done("acme", opened.erasure_id, problems=(), now=datetime.now(UTC))

        with pytest.raises(BeingForgotten):
            await receive(is_over=is_over, pieces=pieces)
        assert pieces
        with pytest.raises(zipfile.BadZipFile):
            zipfile.ZipFile(io.BytesIO(b"".join(pieces)))
        for one in await erasures.of_user(scope):
            await erasures.done("acme", one.erasure_id, problems=(), now=datetime.now(UTC))
