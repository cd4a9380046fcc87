"""The connection to Temporal by TLS with client certificates, or with an API key, which change while a process works."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from memory.model.turn import Outcome
from memory.settings import load_settings
from starter.connection import Connection
from starter.engines import S3Server, TemporalServer
from tests.faults.test_shutdown import USER, SlowModel, a_world, events, turn
from tests.support.fleet import worker_command
from tests.support.model_stub import ModelStub
from tests.support.tls_proxy import Authority, tls_proxy
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(240)

CONFIGURATION = """
[profile.default]
address = "{address}"
namespace = "{namespace}"
[profile.default.tls]
server_ca_cert_path = "{folder}/ca.pem"
client_cert_path = "{folder}/client.pem"
client_key_path = "{folder}/client.key"
"""


async def test_new_certificates_lead_to_a_new_connection_and_no_task_is_lost(
    tmp_path: Path, s3_server: S3Server, temporal_server: TemporalServer, model_stub: ModelStub
) -> None:
    model = SlowModel(model_stub)
    servers, old, new = Authority("servers"), Authority("old clients"), Authority("new clients")
    folder = tmp_path / "certificates"
    folder.mkdir()

    def put(certificate: bytes | None = None, key: bytes | None = None) -> None:
        for name, content in (("client.pem", certificate), ("client.key", key)):
            if content is not None:
                (folder / name).write_bytes(content)

    (folder / "ca.pem").write_bytes(servers.pem)
    put(*old.issue("worker"))
    values = {"language_model": "openai:stub", "certificates_check_s": 1, **model_stub.settings}
    async with (
        a_world(tmp_path, s3_server, temporal_server, **values) as world,
        tls_proxy(temporal_server.address, folder, server=servers, clients=old) as proxy,
    ):
        file = folder / "temporal.toml"
        file.write_text(CONFIGURATION.format(address=proxy.address, namespace=world.client.namespace, folder=folder), "utf-8")
        environment = {"TEMPORAL_CONFIG_FILE": str(file)}
        async with worker_command(world.settings, world.client, tmp_path / "worker.err", environment=environment) as worker:
            await world.record(USER, [turn(1)])
            await until(lambda: model.asked("rewrite") == 1, within_s=60)

            # In the middle of a model call: first the certificate alone, as one who writes two files does, then its key.
            certificate, key = new.issue("worker")
            put(certificate=certificate)
            await until(lambda: "temporal_connection_not_renewed" in worker.log(), within_s=60)
            await proxy.listen(new)
            put(key=key)
            await until(lambda: "temporal_connection_renewed" in worker.log(), within_s=60)
            model.release.set()
            await world.record(USER, [turn(2, "I live in Porto.")])
            await world.settle(USER)
            assert "worker_stopped" not in worker.log()
            worker.process.terminate()
            assert await worker.ended() == 0, worker.log()
        rows = await world.ledger(USER)
        started = [event for event in await events(world) if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED]
        for secret in (key.decode().splitlines()[1], certificate.decode().splitlines()[1]):
            assert secret not in worker.log()
    assert [row.outcome for row in rows.values()] == [Outcome.UPDATED] * 2
    assert {event.activity_task_started_event_attributes.attempt for event in started} == {1}
    assert model.asked("rewrite") == 2, "nothing was done twice"


async def test_a_new_api_key_leads_to_a_new_connection(
    tmp_path: Path, temporal_server: TemporalServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "temporal.toml"

    def put(key: str, address: str = temporal_server.address) -> None:
        lines = ["[profile.default]", f'address = "{address}"', f'namespace = "{temporal_server.namespace}"', f'api_key = "{key}"']
        file.write_text("\n".join([*lines, "[profile.default.tls]", "disabled = true"]), "utf-8")

    put("first-key")
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))
    monkeypatch.delenv("TEMPORAL_ADDRESS", raising=False)
    connection = Connection(load_settings({}, certificates_check_s=1))
    taken: list[Client] = []
    connection.follow(taken.append)
    async with connection.watched():
        first = await connection.current()
        assert first.service_client.config.api_key == "first-key"
        await asyncio.sleep(2.5)
        assert await connection.current() is first, "nothing has changed"
        put("second-key")
        await until(lambda: bool(taken), within_s=30)
        assert await connection.current() is taken[0]
        assert taken[0].service_client.config.api_key == "second-key"
        assert await taken[0].service_client.check_health()
        # Another place is another deployment: that needs a new start.
        put("third-key", "127.0.0.1:1")
        await asyncio.sleep(2.5)
        assert connection.client is taken[0]
    assert [key for key in ("first-key", "second-key") if key in "".join(capsys.readouterr())] == []
