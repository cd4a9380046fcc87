"""Settings of spaces, preferences of users and memory roots, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import event, func, select

from memory.model.category import Category
from memory.model.directory import ConsolidationMode, MemoryFacts, MemoryRoot, SpaceSettings
from memory.model.errors import InvalidInput, InvalidSettings
from memory.model.scope import Scope
from memory.stores.tables import SqlDirectory, Tables, build_tables
from memory.stores.tables.rows import METADATA
from memory.stores.tables.scoping import RECORD_TABLES

ANN = Scope.of("acme", "ann")
EVERY_KEY = SpaceSettings(
    context_memory=False,
    web_search=True,
    use_orchestrator_language_model=False,
    language_model="openai:gpt-5-mini",
    max_tokens=700,
    consolidation_gate_enabled=False,
    consolidation_mode=ConsolidationMode.EDITS,
    privacy_scrub=True,
    show_update_notice=False,
    root_folder="team-memory",
)
AWKWARD_IDS = ["a/b", "nul\x00", "lone \ud83d", "💥", "x" * 4096, "é" * 4096, "back\\slash"]


@pytest.fixture
async def tables(sql_url: str) -> AsyncIterator[Tables]:
    made = build_tables(sql_url)
    yield made
    await made.aclose()


@pytest.fixture
def directory(tables: Tables) -> SqlDirectory:
    return tables.directory


async def root_names(directory: SqlDirectory, *, active: bool = True) -> list[str]:
    return [root.folder for root in await directory.roots(ANN.tenant) if root.active == active]


class TestFacts:
    async def test_nothing_stored_means_the_defaults_and_creates_nothing(self, tables: Tables) -> None:
        facts = await tables.directory.facts(ANN, "anything")
        assert facts == MemoryFacts(space=SpaceSettings(), user_allows=True, active_roots=())
        for table in METADATA.sorted_tables:
            if table in RECORD_TABLES:
                continue  # nobody reads these without an owner
            assert await tables.database.read(lambda c, t=table: c.execute(select(func.count()).select_from(t)).scalar()) == 0

    async def test_all_that_was_stored_in_one_statement(self, tables: Tables) -> None:
        directory = tables.directory
        await directory.save_space("acme", "sales", EVERY_KEY)
        await directory.provision_root("acme", "another")
        await directory.set_preference(ANN, allow_user_memory=False)
        seen: list[str] = []
        event.listen(tables.database.engine, "before_cursor_execute", lambda *args: seen.append(args[2]))
        facts = await directory.facts(ANN, "sales")
        assert facts == MemoryFacts(space=EVERY_KEY, user_allows=False, active_roots=("another", "team-memory"))
        assert len(seen) == 1

    async def test_others_are_not_touched(self, directory: SqlDirectory) -> None:
        await directory.save_space("acme", "sales", EVERY_KEY)
        await directory.set_preference(ANN, allow_user_memory=False)
        elsewhere = MemoryFacts(space=SpaceSettings(), user_allows=True, active_roots=())
        assert await directory.facts(Scope.of("globex", "ann"), "sales") == elsewhere
        assert (await directory.facts(Scope.of("acme", "bob"), "sales")).user_allows
        assert (await directory.facts(ANN, "hr")).space.max_tokens == SpaceSettings().max_tokens

    async def test_a_preference_can_change_its_mind(self, directory: SqlDirectory) -> None:
        for allowed in (False, True, False):
            await directory.set_preference(ANN, allow_user_memory=allowed)
            assert (await directory.facts(ANN, "s")).user_allows is allowed

    async def test_an_empty_space_id_is_refused(self, directory: SqlDirectory) -> None:
        with pytest.raises(InvalidInput, match="space id is empty"):
            await directory.facts(ANN, "")


class TestSpaces:
    async def test_settings_come_back(self, directory: SqlDirectory) -> None:
        assert await directory.space("acme", "sales") is None
        await directory.save_space("acme", "sales", EVERY_KEY)
        assert await directory.space("acme", "sales") == EVERY_KEY
        await directory.save_space("acme", "sales", SpaceSettings(max_tokens=900, root_folder="team-memory"))
        assert await directory.space("acme", "sales") == SpaceSettings(max_tokens=900, root_folder="team-memory")
        assert await directory.space("globex", "sales") is None

    async def test_an_absent_toggle_stays_absent(self, directory: SqlDirectory) -> None:
        await directory.save_space("acme", "sales", SpaceSettings(max_tokens=900))
        settings = await directory.space("acme", "sales")
        assert settings is not None
        assert settings.context_memory is None
        assert settings.model_fields_set == {"max_tokens", "root_folder"}

    async def test_any_outside_id_comes_back(self, directory: SqlDirectory) -> None:
        for number, space_id in enumerate(AWKWARD_IDS):
            await directory.save_space("acme", space_id, SpaceSettings(max_tokens=500 + number))
        assert {name: s.max_tokens for name, s in (await directory.spaces("acme")).items()} == {
            name: 500 + number for number, name in enumerate(AWKWARD_IDS)
        }
        assert (await directory.facts(ANN, AWKWARD_IDS[4])).space.max_tokens == 504
        assert await directory.spaces("globex") == {}

    async def test_a_key_of_a_newer_version_is_left_alone_and_a_wrong_value_is_named(self, tables: Tables) -> None:
        await tables.directory.save_space("acme", "sales", SpaceSettings())
        await _store(tables, '{"max_tokens": 800, "mood": "sunny"}')
        assert (await tables.directory.facts(ANN, "sales")).space.max_tokens == 800
        await _store(tables, '{"max_tokens": 9}')
        with pytest.raises(InvalidSettings, match=r"space sales .* max_tokens: .* greater than or equal to 500"):
            await tables.directory.facts(ANN, "sales")

    async def test_categories_of_the_window_come_back_and_one_of_a_newer_version_is_left_alone(self, tables: Tables) -> None:
        chosen = {Category.KNOWLEDGE: True, Category.BIOS: False}
        await tables.directory.save_space("acme", "sales", SpaceSettings(memory_categories=chosen))
        assert (await tables.directory.facts(ANN, "sales")).space.memory_categories == chosen
        assert (await tables.directory.facts(ANN, "other")).space.memory_categories == {}
        await _store(tables, '{"memory_categories": {"knowledge": false, "of_a_newer_version": true}}')
        assert (await tables.directory.facts(ANN, "sales")).space.memory_categories == {Category.KNOWLEDGE: False}


async def _store(tables: Tables, settings: str) -> None:
    await tables.database.write(lambda c: c.exec_driver_sql(f"UPDATE space_settings SET settings = '{settings}'"))


class TestRoots:
    async def test_saving_a_space_provisions_its_root(self, directory: SqlDirectory) -> None:
        await directory.save_space("acme", "sales", SpaceSettings())
        assert await directory.roots("acme") == [MemoryRoot("user-memory", active=True)]
        await directory.save_space("acme", "hr", SpaceSettings(root_folder="hr-memory"))
        assert await root_names(directory) == ["hr-memory", "user-memory"]
        assert (await directory.facts(ANN, "sales")).active_roots == ("hr-memory", "user-memory")

    async def test_a_space_that_names_no_root_lives_in_the_one_that_is_there(self, directory: SqlDirectory) -> None:
        await directory.provision_root("acme", "our-memory")
        await directory.save_space("acme", "sales", SpaceSettings(max_tokens=600))
        assert await root_names(directory) == ["our-memory"]
        assert (await directory.facts(ANN, "sales")).space.root_folder == "our-memory"
        assert (await directory.facts(ANN, "never saved")).space.root_folder == "our-memory"
        assert {s.root_folder for s in (await directory.spaces("acme")).values()} == {"our-memory"}

    async def test_provisioning_is_idempotent_and_safe_to_race(self, directory: SqlDirectory) -> None:
        made = await asyncio.gather(*(directory.provision_root("acme", "user-memory") for _ in range(20)))
        assert set(made) == {MemoryRoot("user-memory", active=True)}
        assert await directory.roots("acme") == [MemoryRoot("user-memory", active=True)]

    async def test_renaming_the_duplicate_repairs_a_clash(self, directory: SqlDirectory) -> None:
        await directory.save_space("acme", "sales", SpaceSettings(root_folder="user-memory"))
        await directory.save_space("acme", "hr", SpaceSettings(root_folder="usermemory", max_tokens=900))
        assert len((await directory.facts(ANN, "hr")).active_roots) == 2
        await directory.rename_root("acme", "usermemory", "user-memory")
        facts = await directory.facts(ANN, "hr")
        assert facts.active_roots == ("user-memory",)
        assert (facts.space.root_folder, facts.space.max_tokens) == ("user-memory", 900)
        assert await directory.roots("acme") == [MemoryRoot("user-memory", active=True)]

    async def test_a_root_can_have_a_new_name(self, directory: SqlDirectory) -> None:
        await directory.save_space("acme", "sales", SpaceSettings(root_folder="old"))
        await directory.save_space("acme", "hr", SpaceSettings())
        assert await directory.rename_root("acme", "old", "new", nothing_in_it=True) == MemoryRoot("new", active=True)
        assert await directory.roots("acme") == [MemoryRoot("new", active=True)]
        for space_id in ("sales", "hr"):
            assert (await directory.facts(ANN, space_id)).space.root_folder == "new"
        await directory.rename_root("acme", "new", "new")
        assert await directory.roots("acme") == [MemoryRoot("new", active=True)]

    async def test_an_active_root_merged_into_a_removed_one_stays_active(self, directory: SqlDirectory) -> None:
        await directory.provision_root("acme", "a")
        await directory.provision_root("acme", "b")
        await directory.remove_root("acme", "b")
        await directory.rename_root("acme", "a", "b", nothing_in_it=True)
        assert await directory.roots("acme") == [MemoryRoot("b", active=True)]

    async def test_the_only_root_is_not_taken_from_its_profiles(self, directory: SqlDirectory) -> None:
        await directory.save_space("acme", "sales", SpaceSettings(root_folder="ours"))
        await directory.provision_root("acme", "former")
        await directory.remove_root("acme", "former")
        before = await directory.roots("acme")
        for new in ("new", "former"):
            with pytest.raises(InvalidInput, match=f"ours is the company's only active root.* move them to {new}/"):
                await directory.rename_root("acme", "ours", new)
        with pytest.raises(InvalidInput, match="ours is the company's only active root"):
            await directory.remove_root("acme", "ours")
        assert await directory.roots("acme") == before
        assert (await directory.facts(ANN, "sales")).space.root_folder == "ours"
        await directory.rename_root("acme", "former", "old")
        assert await root_names(directory, active=False) == ["old"]
        await directory.remove_root("acme", "ours", nothing_in_it=True)
        assert (await directory.facts(ANN, "sales")) == MemoryFacts(SpaceSettings(), user_allows=True, active_roots=())

    @pytest.mark.parametrize("new_folder", ["set-aside", "former"])
    async def test_a_new_name_for_the_duplicate_repairs_a_clash(self, directory: SqlDirectory, new_folder: str) -> None:
        await directory.provision_root("acme", "former")
        await directory.save_space("acme", "sales", SpaceSettings(root_folder="user-memory"))
        await directory.remove_root("acme", "former")
        await directory.save_space("acme", "hr", SpaceSettings(root_folder="usermemory", max_tokens=900))
        assert await directory.rename_root("acme", "usermemory", new_folder) == MemoryRoot(new_folder, active=False)
        facts = await directory.facts(ANN, "hr")
        assert facts.active_roots == ("user-memory",)
        assert (facts.space.root_folder, facts.space.max_tokens) == ("user-memory", 900)
        # Saved again as it was read, the space does not bring the clash back.
        await directory.save_space("acme", "hr", facts.space)
        assert await root_names(directory) == ["user-memory"]

    async def test_of_two_who_each_remove_a_duplicate_one_root_stays(self, directory: SqlDirectory) -> None:
        for folder in ("a", "b"):
            await directory.provision_root("acme", folder)
        results = await asyncio.gather(*(directory.remove_root("acme", folder) for folder in "ab"), return_exceptions=True)
        assert sorted(type(result) for result in results if result is not None) == [InvalidInput]
        assert len(await root_names(directory)) == 1

    async def test_removing_the_duplicate_repairs_a_clash(self, directory: SqlDirectory) -> None:
        await directory.save_space("acme", "sales", SpaceSettings(root_folder="user-memory"))
        await directory.save_space("acme", "hr", SpaceSettings(root_folder="hr-memory", privacy_scrub=True))
        await directory.remove_root("acme", "hr-memory")
        facts = await directory.facts(ANN, "hr")
        assert facts.active_roots == ("user-memory",)
        assert (facts.space.root_folder, facts.space.privacy_scrub) == ("user-memory", True)
        assert await root_names(directory, active=False) == ["hr-memory"]
        await directory.provision_root("acme", "hr-memory")
        assert await root_names(directory) == ["hr-memory", "user-memory"]

    async def test_unknown_and_unusable_names_are_refused(self, directory: SqlDirectory) -> None:
        with pytest.raises(InvalidInput, match="no memory root named nothing"):
            await directory.rename_root("acme", "nothing", "new")
        with pytest.raises(InvalidInput, match="no memory root named nothing"):
            await directory.remove_root("acme", "nothing")
        await directory.provision_root("acme", "good")
        for bad in ("", "../up", "a/b", ".x", "x" * 64, "nul\x00"):
            with pytest.raises(InvalidInput, match="root folder is"):
                await directory.provision_root("acme", bad)
            with pytest.raises(InvalidInput, match="root folder is"):
                await directory.rename_root("acme", "good", bad)
        assert await directory.roots("acme") == [MemoryRoot("good", active=True)]

    async def test_tenants_are_those_with_a_root(self, directory: SqlDirectory) -> None:
        assert await directory.tenants() == []
        for tenant in ("globex", "acme"):
            await directory.provision_root(tenant, "a")
            await directory.provision_root(tenant, "b")
        await directory.set_preference(Scope.of("zeta", "z"), allow_user_memory=True)
        assert await directory.tenants() == ["acme", "globex"]
