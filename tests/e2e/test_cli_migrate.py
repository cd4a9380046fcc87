"""`afterturn migrate`: each part alone needs nothing of the others, and all can be repeated."""

from __future__ import annotations

from pathlib import Path

from memory.model.names import RECONCILE_SCHEDULE_ID, SEARCH_ATTRIBUTES, SWEEP_SCHEDULE_ID
from starter.engines import TemporalServer
from tests.e2e.command import afterturn
from tests.support.fleet import new_namespace, server_of
from tests.support.waiting import until


async def test_each_part_is_set_up_alone(tmp_path: Path, temporal_server: TemporalServer) -> None:
    client = await new_namespace(temporal_server.address)
    data_dir = tmp_path / "data"
    # A database that cannot be reached: those parts do not ask it.
    env = {**server_of(client), "AFTERTURN_DATABASE_URL": "postgresql+psycopg://nobody@127.0.0.1:1/none"}

    attributes = afterturn("migrate", "--search-attributes", "--json", data_dir=data_dir, env=env)
    assert attributes.code == 0, attributes.err
    assert set(attributes.json) == {"search_attributes_added"}
    assert set(attributes.json["search_attributes_added"]) <= set(SEARCH_ATTRIBUTES)

    made = [afterturn("migrate", "--schedules", "--json", data_dir=data_dir, env=env) for _ in range(2)]
    assert [one.code for one in made] == [0, 0], made[0].err
    assert [one.json for one in made] == [{"schedule_created": True}, {"schedule_created": False}]

    async def listed() -> bool:
        return {one.id async for one in await client.list_schedules()} == {SWEEP_SCHEDULE_ID, RECONCILE_SCHEDULE_ID}

    await until(listed)

    refused = afterturn("migrate", data_dir=data_dir, env=env)
    assert refused.code == 1
    assert "PostgreSQL at 127.0.0.1:1 is unavailable" in refused.complaint
