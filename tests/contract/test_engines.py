"""The engines of one machine, as real processes."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sysconfig
import urllib.request
from pathlib import Path

import psutil
import pytest
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from memory.model.errors import FolderInUse, InvalidSettings, MemoryUnavailable
from memory.model.names import SEARCH_ATTRIBUTES
from memory.settings import load_settings
from memory.stores.objects.minio import MinioObjectStore
from starter.engines import S3Server, TemporalServer, engine_binary


async def test_s3_keeps_keys_ports_and_data_over_a_stop(tmp_path: Path) -> None:
    server = S3Server(tmp_path, stop_grace_s=10)
    async with server:
        endpoint, settings = server.endpoint, server.settings
        store = MinioObjectStore.from_settings(load_settings({}, data_dir=tmp_path, **settings))
        await store.ensure_bucket("bucket")
        await store.put("bucket", "k", b"kept")
        await store.aclose()
    assert not server.running
    async with S3Server(tmp_path, stop_grace_s=10) as again:
        assert (again.endpoint, again.settings) == (endpoint, settings)
        store = MinioObjectStore.from_settings(load_settings({}, data_dir=tmp_path, **again.settings))
        got = await store.get("bucket", "k")
        assert got is not None
        assert got.data == b"kept"
        await store.aclose()


def test_secrets_are_in_a_private_file_and_not_on_the_command_line(s3_server: S3Server) -> None:
    secret = s3_server.settings["object_store_secret_key"]
    assert len(secret) >= 32
    path = s3_server.folder / "keys.json"
    assert json.loads(path.read_text())["secret_key"] == secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(s3_server.folder.stat().st_mode) == 0o700
    assert s3_server.pid is not None
    process = psutil.Process(s3_server.pid)
    assert secret not in " ".join(process.cmdline())
    assert secret not in s3_server.log.read_text()
    assert secret not in repr(s3_server)


@pytest.mark.parametrize("fixture", ["s3_server", "temporal_server"])
def test_an_engine_listens_on_loopback_only(request: pytest.FixtureRequest, fixture: str) -> None:
    server: S3Server | TemporalServer = request.getfixturevalue(fixture)
    assert server.pid is not None
    listening = [one for one in psutil.Process(server.pid).net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    assert {one.laddr.ip for one in listening} == {"127.0.0.1"}


async def test_a_second_process_on_the_folder_is_refused(s3_server: S3Server, temporal_server: TemporalServer) -> None:
    for second in (S3Server(s3_server.data_dir), TemporalServer(temporal_server.data_dir)):
        with pytest.raises(FolderInUse, match=str(os.getpid())):
            await second.start()
        assert not second.running
    assert s3_server.running
    assert temporal_server.running


async def test_a_cancelled_start_leaves_nothing_behind(tmp_path: Path) -> None:
    server = S3Server(tmp_path, stop_grace_s=2)
    starting = asyncio.create_task(server.start())
    while server.pid is None:
        await asyncio.sleep(0)
    pid = server.pid
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not server.running
    assert not psutil.pid_exists(pid)
    async with S3Server(tmp_path, stop_grace_s=2) as again:  # the folder is free
        assert again.running


async def test_an_engine_that_does_not_start_names_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(S3Server, "_argv", lambda _: ["/bin/false"])
    server = S3Server(tmp_path)
    with pytest.raises(MemoryUnavailable, match=r"exit code 1, 3 times; see .*s3\.log"):
        await server.start()
    monkeypatch.setattr(S3Server, "_argv", lambda _: ["/bin/sleep", "600"])
    with pytest.raises(MemoryUnavailable, match=r"did not answer within 0\.3 s; see .*s3\.log"):
        await S3Server(tmp_path, start_timeout_s=0.3).start()


async def test_the_end_of_an_engine_is_noticed(own_temporal_server: TemporalServer) -> None:
    waiting = asyncio.create_task(own_temporal_server.wait())
    await own_temporal_server.kill()
    assert await waiting == -9
    await own_temporal_server.stop()
    await own_temporal_server.stop()
    assert await own_temporal_server.wait() is None


def test_missing_engines_name_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(InvalidSettings, match=r"afterturn\[engines\]"):
        engine_binary("weed")
    server = S3Server(tmp_path / "data")
    with pytest.raises(InvalidSettings, match=r"afterturn\[engines\]"):
        server.start_blocking()
    assert not server.running


def test_damaged_keys_name_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "s3"
    folder.mkdir()
    (folder / "keys.json").write_text("{")
    with pytest.raises(InvalidSettings, match=r"keys\.json"):
        S3Server(tmp_path).start_blocking()


async def test_temporal_has_our_search_attributes_from_the_start(temporal_server: TemporalServer) -> None:
    client = await Client.connect(temporal_server.address)
    known = await client.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace="default"))
    assert set(SEARCH_ATTRIBUTES) <= set(known.custom_attributes)
    assert [one async for one in client.list_workflows(f"{SEARCH_ATTRIBUTES[0]} = 'nobody'")] == []


async def test_temporal_with_a_file_keeps_workflows_over_a_kill(own_temporal_server: TemporalServer) -> None:
    address = own_temporal_server.address
    client = await Client.connect(address)
    handle = await client.start_workflow("Nothing", id="survivor", task_queue="nobody-polls")
    await own_temporal_server.kill()
    await own_temporal_server.restart()
    assert own_temporal_server.address == address
    described = await (await Client.connect(address)).get_workflow_handle("survivor").describe()
    assert described.run_id == handle.result_run_id


async def test_the_web_ui_is_there_when_asked_for(tmp_path: Path) -> None:
    async with TemporalServer(tmp_path, in_memory=True, stop_grace_s=2) as server:
        assert server.ui_url is not None
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def fetch(path: str) -> tuple[str, bytes]:
            with opener.open(f"{server.ui_url}{path}", timeout=10) as response:
                return response.headers.get_content_type(), response.read()

        assert (await asyncio.to_thread(fetch, "/"))[0] == "text/html"
        kind, settings = await asyncio.to_thread(fetch, "/api/v1/settings")
        assert kind == "application/json"
        assert "Version" in json.loads(settings)
    assert TemporalServer(tmp_path, ui=False).ui_url is None


async def test_the_workflow_environment_works(temporal_client: Client, workflow_environment: WorkflowEnvironment) -> None:
    assert workflow_environment.client is temporal_client
    assert await temporal_client.service_client.check_health()
