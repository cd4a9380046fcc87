"""The codec server over HTTP: what it makes of payloads, and whom it serves."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
from google.protobuf import json_format
from pydantic import SecretStr
from temporalio.api.common.v1 import Payload, Payloads

from api.codec_server import LARGE_AT_ONCE, MAX_BODY_BYTES, codec_for, origin_of, web_ui_origins
from memory.model.errors import InvalidSettings
from memory.settings import Settings, load_settings
from memory.stores.http_server import serving
from starter.payloads import data_converter
from tests.support.issuer import Keys, providing

NEW = "2026:" + base64.b64encode(b"n" * 32).decode()
OLD = "2025:" + base64.b64encode(b"o" * 32).decode()
UI = "https://temporal.example.com"
KEYS = Keys("k1")


def settings(**given: Any) -> Settings:
    return load_settings({}, **{"payload_keys": SecretStr(NEW), "temporal_ui_url": f"{UI}/namespaces", **given})


@asynccontextmanager
async def served(chosen: Settings) -> AsyncGenerator[httpx2.AsyncClient]:
    async with (
        codec_for(chosen, origins=web_ui_origins(chosen)) as app,
        serving(app, name="the codec server") as base,
        httpx2.AsyncClient(base_url=base) as http,
    ):
        yield http


async def stored(value: Any, keys: str = NEW) -> Payload:
    (payload,) = await data_converter(settings(payload_keys=SecretStr(keys))).encode([value])
    return payload


def body(*payloads: Payload) -> dict[str, Any]:
    return json_format.MessageToDict(Payloads(payloads=payloads))


def values(answer: httpx2.Response) -> list[Any]:
    """The JSON in the payloads of an answer; None for one that is still encrypted."""
    assert answer.status_code == 200, answer.text
    found = [json_format.ParseDict(one, Payload()) for one in answer.json()["payloads"]]
    return [json.loads(one.data) if one.metadata["encoding"] == b"json/plain" else None for one in found]


async def test_payloads_are_decrypted_and_encrypted_under_any_path() -> None:
    async with served(settings()) as http:
        for path in ("/decode", "/default/decode", "/a/b/decode"):
            answer = await http.post(path, json=body(await stored("one"), await stored({"two": 2})))
            assert values(answer) == ["one", {"two": 2}]
        in_clear = Payload(metadata={"encoding": b"json/plain"}, data=b'"clear"')
        assert values(await http.post("/decode", json=body(in_clear))) == ["clear"]
        encrypted = await http.post("/default/encode", json=body(in_clear))
        assert values(encrypted) == [None]
        assert values(await http.post("/decode", json=encrypted.json())) == ["clear"]
        assert values(await http.post("/decode", json=body(*[await stored("x" * 5_000)] * 60))) == ["x" * 5_000] * 60
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        assert (await http.get("/decode")).status_code == 405
        assert (await http.post("/download", json={})).status_code == 404


async def test_a_payload_without_its_key_does_not_hide_the_others() -> None:
    async with served(settings()) as http:
        by_old = await stored("old", OLD)
        answer = await http.post("/decode", json=body(await stored("new"), by_old))
        assert values(answer) == ["new", None]
        refused = await http.post("/decode", json=body(by_old))
        assert refused.status_code == 400
        assert "'2025' of a payload is not among those of AFTERTURN_PAYLOAD_KEYS" in refused.json()["error"]


async def test_only_pages_of_the_web_ui_may_ask() -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,x-namespace,authorization"}
    async with served(settings()) as http:
        allowed = await http.request("OPTIONS", "/decode", headers={"Origin": UI, **asked})
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == UI
        assert allowed.headers["access-control-allow-credentials"] == "true"
        names = allowed.headers["access-control-allow-headers"].lower()
        assert all(name in names for name in ("content-type", "x-namespace", "authorization"))
        payload = body(await stored("one"))
        answer = await http.post("/decode", json=payload, headers={"Origin": UI, "X-Namespace": "default"})
        assert values(answer) == ["one"]
        assert answer.headers["access-control-allow-origin"] == UI
        for origin in ("https://evil.example", "null", UI + ".evil.example", UI.replace("https", "http")):
            assert (await http.request("OPTIONS", "/decode", headers={"Origin": origin, **asked})).status_code == 400
            refused = await http.post("/decode", json=payload, headers={"Origin": origin})
            assert refused.status_code == 403
            assert "access-control-allow-origin" not in refused.headers
        simple = await http.post("/decode", content=json.dumps(payload), headers={"Content-Type": "text/plain"})
        assert simple.status_code == 415, "what a page may send without asking first"
        rebound = await http.post("/decode", json=payload, headers={"Host": "evil.example"})
        assert rebound.status_code == 421, "a page whose own name leads to this machine"


async def test_what_is_no_list_of_payloads_is_refused() -> None:
    async with served(settings()) as http:
        for wrong in (b"", b"{", b"[1]", b'{"payloads": 1}', b'{"payloads": [{"data": 1}]}', b"\xff", b"[" * 100_000):
            answer = await http.post("/decode", content=wrong, headers={"Content-Type": "application/json"})
            assert answer.status_code == 400, wrong[:20]
            assert "payloads" in answer.json()["error"]
        large = await http.post("/decode", content=b" " * (MAX_BODY_BYTES + 1), headers={"Content-Type": "application/json"})
        assert large.status_code == 413
        many = b'{"payloads": [' + b",".join([b"{}"] * 20_001) + b"]}"
        assert (await http.post("/decode", content=many, headers={"Content-Type": "application/json"})).status_code == 413


async def test_bodies_that_dawdle_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.codec_server.BODY_WITHIN_S", 0.5)
    head = b"POST /decode HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9999999\r\n\r\n{"
    async with served(settings()) as http, AsyncExitStack() as stack:
        slow: list[asyncio.StreamReader] = []
        for _ in range(LARGE_AT_ONCE + 2):
            reader, writer = await asyncio.open_connection("127.0.0.1", http.base_url.port)
            stack.callback(writer.close)
            writer.write(head)
            slow.append(reader)
        assert values(await http.post("/decode", json=body(await stored("one")))) == ["one"]
        large = await http.post("/decode", json=body(*[await stored("x" * 5_000)] * 60))
        assert len(values(large)) == 60, "has waited until the first ones were given up"
        for reader in slow:
            assert b"408" in await asyncio.wait_for(reader.readline(), 30)


async def test_beyond_this_machine_only_operators_decode() -> None:
    with pytest.raises(InvalidSettings, match="set AFTERTURN_OIDC_ISSUER"):
        async with codec_for(settings(codec_address="0.0.0.0:8730"), origins=()):
            pass
    async with providing(KEYS) as issuer:
        chosen = settings(codec_address="0.0.0.0:8730", oidc_issuer=issuer.url, codec_audience="web-ui", claim_roles="groups")
        async with served(chosen) as http:
            payload = body(await stored("one"))

            async def asked(**claims: Any) -> httpx2.Response:
                token = issuer.token(aud="web-ui", **claims)
                return await http.post("/decode", json=payload, headers={"Authorization": f"Bearer {token}", "Origin": UI})

            assert values(await asked(groups=["operator"], tenant=None)) == ["one"]
            unnamed = await http.post("/decode", json=payload, headers={"Origin": UI})
            assert unnamed.status_code == 401
            assert unnamed.headers["access-control-allow-origin"] == UI, "the page can read why"
            assert (await asked(groups=["admin"])).status_code == 403
            assert (await asked(groups=["operator"], exp=1)).status_code == 401
            of_the_api = issuer.token(groups=["operator"])
            refused = await http.post("/decode", json=payload, headers={"Authorization": f"Bearer {of_the_api}"})
            assert refused.status_code == 401
            assert "audience" in refused.json()["error"]
            issuer.away = True
            unknown = issuer.token(Keys("k2"), aud="web-ui", groups=["operator"])
            answer = await http.post("/decode", json=payload, headers={"Authorization": f"Bearer {unknown}"})
            assert answer.status_code in {401, 503}


async def test_without_keys_there_is_nothing_to_serve() -> None:
    with pytest.raises(InvalidSettings, match="AFTERTURN_PAYLOAD_KEYS is missing"):
        async with codec_for(settings(payload_keys=None), origins=()):
            pass


def test_an_origin_is_written_as_browsers_write_it() -> None:
    assert origin_of("https://Temporal.example.com:443/namespaces") == "https://temporal.example.com"
    assert origin_of("http://[::1]:8233") == "http://[::1]:8233"
    here = web_ui_origins(settings(temporal_ui_url="http://localhost:8233"))
    assert set(here) == {"http://localhost:8233", "http://127.0.0.1:8233", "http://[::1]:8233"}
    assert web_ui_origins(settings(temporal_ui_url=None)) == ()
