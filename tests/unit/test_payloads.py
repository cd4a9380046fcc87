"""The payload codec: what it stores, what it reads, what it refuses."""

from __future__ import annotations

import ast
import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from memory.model.errors import InvalidSettings
from memory.model.payload_key import PayloadKey, payload_keys
from memory.model.steps import PostAnswerInput, UserRef
from memory.settings import Settings, load_settings
from starter import payloads
from starter.payloads import AesPayloadCodec, data_converter

OLD = "2025:" + base64.b64encode(b"o" * 32).decode()
NEW = "2026:" + base64.b64encode(b"n" * 32).decode()
VALUE = PostAnswerInput(user=UserRef(tenant="acme", user="ada"))


def settings(keys: str | None) -> Settings:
    return load_settings({}, payload_keys=None if keys is None else SecretStr(keys))


async def stored(keys: str | None, value: Any = VALUE) -> Payload:
    (payload,) = await data_converter(settings(keys)).encode([value])
    return payload


async def read(keys: str | None, payload: Payload) -> Any:
    (value,) = await data_converter(settings(keys)).decode([payload], [PostAnswerInput])
    return value


async def test_what_is_stored_shows_the_key_s_id_and_nothing_of_the_value() -> None:
    payload = await stored(NEW)
    assert payload.metadata == {
        "encoding": b"binary/encrypted",
        "encryption-cipher": b"XAES-256-GCM",
        "encryption-key-id": b"2026",
    }
    assert b"acme" not in payload.data
    assert b"ada" not in payload.data
    assert payload.data != (await stored(NEW)).data, "no payload is stored the same way twice"
    assert await read(NEW, payload) == VALUE


@pytest.mark.parametrize("value", [None, b"\x00\xff", "text", datetime(2026, 6, 17, tzinfo=UTC), {"a": [1, 2.5, None]}])
async def test_all_that_the_converter_knows_comes_back(value: Any) -> None:
    converter = data_converter(settings(NEW))
    assert await converter.decode(await converter.encode([value, VALUE]), [type(value), PostAnswerInput]) == [value, VALUE]


async def test_keys_are_changed_while_everything_runs() -> None:
    """First known everywhere, then used, and the old one goes when no run that it encrypted is kept any more."""
    before_keys, by_old = await stored(None), await stored(OLD)
    for keys in (OLD, f"{OLD},{NEW}", f"{NEW},{OLD}"):
        assert await read(keys, before_keys) == VALUE, "payloads from before there were keys"
        assert await read(keys, by_old) == VALUE
    by_new = await stored(f"{NEW},{OLD}")
    assert by_new.metadata["encryption-key-id"] == b"2026"
    assert await read(f"{OLD},{NEW}", by_new) == VALUE, "a process that has not got the new order yet"
    with pytest.raises(InvalidSettings, match="'2025' of a payload is not among those"):
        await read(NEW, by_old)


async def test_without_keys_an_encrypted_payload_says_what_is_missing() -> None:
    payload = await stored(NEW)
    with pytest.raises(InvalidSettings, match=r"key '2026'.*set AFTERTURN_PAYLOAD_KEYS"):
        await read(None, payload)


async def test_a_payload_that_was_changed_is_refused() -> None:
    payload = await stored(f"{NEW},{OLD}")
    for place in (0, 11, 12, 23, 24, len(payload.data) - 1):
        data = bytearray(payload.data)
        data[place] ^= 1
        with pytest.raises(InvalidSettings, match="was changed"):
            await read(NEW, Payload(metadata=payload.metadata, data=bytes(data)))
    for size in (0, 23, 24, 39):
        with pytest.raises(InvalidSettings, match="was changed"):
            await read(NEW, Payload(metadata=payload.metadata, data=payload.data[:size]))
    renamed = {**payload.metadata, "encryption-key-id": b"2025"}
    with pytest.raises(InvalidSettings, match="was changed"):
        await read(f"{NEW},{OLD}", Payload(metadata=renamed, data=payload.data))
    same_secret = NEW.replace("2026", "2025")
    with pytest.raises(InvalidSettings, match="was changed"):
        await read(same_secret, Payload(metadata=renamed, data=payload.data))


async def test_a_payload_of_another_program_s_codec_is_named_as_such() -> None:
    foreign = Payload(metadata={"encoding": b"binary/encrypted", "encryption-key-id": b"2026"}, data=b"x" * 80)
    with pytest.raises(InvalidSettings, match="another program"):
        await read(NEW, foreign)


@pytest.mark.parametrize(
    ("key", "aad", "sealed"),
    [
        (b"\x01" * 32, b"", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
        (b"\x03" * 32, b"c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
    ],
)
def test_the_cipher_is_the_published_one(key: bytes, aad: bytes, sealed: str) -> None:
    """The vectors of its specification: a codec in another language reads what this one writes."""
    nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX"
    cipher = payloads._cipher(PayloadKey("k", key), nonce)  # pyright: ignore[reportPrivateUsage]
    assert cipher.encrypt(nonce[12:], b"XAES-256-GCM", aad).hex() == sealed


async def test_an_error_s_words_are_encrypted_and_its_type_is_not() -> None:
    converter = data_converter(settings(NEW))
    failure = Failure()
    await converter.encode_failure(ApplicationError("words of an error", type="ProfileConflict"), failure)
    raw = failure.SerializeToString()
    assert b"words of an error" not in raw
    assert b"ProfileConflict" in raw
    read_back = await data_converter(settings(f"{OLD},{NEW}")).decode_failure(failure)
    assert isinstance(read_back, ApplicationError)
    assert read_back.message == "words of an error"


def test_the_first_key_is_the_one_that_encrypts() -> None:
    assert [key.key_id for key in payload_keys(f"{NEW}, {OLD}")] == ["2026", "2025"]
    codec = AesPayloadCodec(payload_keys(f"{NEW},{OLD}"))
    assert "nnnn" not in repr(vars(codec)), "a key is not shown"
    urlsafe = base64.urlsafe_b64encode(b"\xff" * 32).decode().rstrip("=")
    assert payload_keys(f"k:{urlsafe}")[0].secret == b"\xff" * 32


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (base64.b64encode(b"s" * 32).decode(), "entry 1 has no usable id"),
        (f"{NEW},", "entry 2 has no usable id"),
        (f"{NEW},a b:{OLD[5:]}", "entry 2 has no usable id"),
        ("2026:not base64!", "entry 1 is not base64"),
        (f"2026:{base64.b64encode(b's' * 16).decode()}", "entry 1 has 16 bytes, not 32"),
        (f"{NEW},{NEW}", "two keys with one id"),
        (f"{NEW},other:{NEW[5:]}", "one key under two ids"),
        (",".join(f"k{n}:{base64.b64encode(bytes([n]) * 32).decode()}" for n in range(17)), "at most 16"),
    ],
)
def test_a_wrong_setting_stops_the_start_without_telling_a_key(given: str, told: str) -> None:
    with pytest.raises(InvalidSettings) as stopped:
        load_settings({}, payload_keys=SecretStr(given))
    message = str(stopped.value)
    assert message.startswith("AFTERTURN_PAYLOAD_KEYS: ")
    assert told in message
    assert not any(secret in message for secret in (OLD[5:], NEW[5:], base64.b64encode(b"s" * 32).decode(), "not base64!"))


def test_an_address_of_the_codec_server_is_checked() -> None:
    with pytest.raises(InvalidSettings, match="AFTERTURN_CODEC_ADDRESS: must be host:port"):
        load_settings({}, codec_address="8730")


def test_all_of_the_product_goes_through_the_one_data_converter() -> None:
    """Who connects or replays without it cannot read what others have encrypted, or stores it in clear."""
    root = Path(__file__).parents[2]
    folders = ("api", "activities", "bench", "memory", "starter", "workflows")
    files = [root / "worker.py", *(path for folder in folders for path in (root / folder).rglob("*.py"))]
    found: dict[str, set[str]] = {"pydantic_data_converter": set(), "Client.connect": set(), "Replayer": set()}
    for file in files:
        text = file.read_text("utf-8")
        for node in ast.walk(ast.parse(text if any(word in text for word in found) else "")):
            used = ast.unparse(node.func) if isinstance(node, ast.Call) else node.id if isinstance(node, ast.Name) else ""
            if used in found:
                found[used].add(str(file.relative_to(root)))
    assert found == {
        "pydantic_data_converter": {"starter/payloads.py"},
        # The second records scripted runs on a server of its own, in clear.
        "Client.connect": {"starter/temporal.py", "starter/record_histories.py"},
        "Replayer": {"starter/replay.py"},
    }
