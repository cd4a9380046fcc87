"""What Temporal stores of us: pydantic models as JSON, encrypted where there are keys for it.

The scheme is XAES-256-GCM (C2SP): AES-256-GCM under a key that is derived for every payload from the key of the settings and half
of a random nonce of 24 bytes. So the limit of plain AES-GCM with random nonces (2^32 payloads a key, which a large installation
reaches in weeks) does not count. The key's id stands in the payload's metadata and is authenticated.

Temporal needs some things in clear: workflow ids and search attributes (both name company and user), types, times, an error's type,
and what the SDK notes for itself of a local step (its type, attempt and times).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.cmac import CMAC
from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticPayloadConverter, pydantic_data_converter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverterWithEncodedAttributes,
    EncodingPayloadConverter,
    PayloadCodec,
)

from memory.model.errors import UnreadablePayload
from memory.model.payload_key import PayloadKey, payload_keys
from memory.settings import Settings

ENCODING: Final = "binary/encrypted"
CIPHER: Final = "XAES-256-GCM"
KEY_ID: Final = "encryption-key-id"
_CIPHER_NAME: Final = "encryption-cipher"
_NONCE_BYTES: Final = 24
_DERIVING_BYTES: Final = 12
_TAG_BYTES: Final = 16


class AesPayloadCodec(PayloadCodec):
    """Encrypts with the first key and decrypts with each. Payloads in clear, from before there were keys, stay readable.

    A repeat with another key changes nothing that is stored: old payloads need their key for as long as their runs are kept.
    """

    def __init__(self, keys: Sequence[PayloadKey]) -> None:
        """``keys``: at least one."""
        self._first = keys[0]
        self._keys: Mapping[str, PayloadKey] = {key.key_id: key for key in keys}

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._encrypted(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Raises UnreadablePayload: a key is missing here, or a payload is not what one of our keys has encrypted."""
        return [self._decrypted(payload) for payload in payloads]

    def _encrypted(self, payload: Payload) -> Payload:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = _cipher(self._first, nonce).encrypt(
            nonce[_DERIVING_BYTES:], payload.SerializeToString(), _authenticated(self._first.key_id)
        )
        return Payload(
            metadata={
                "encoding": ENCODING.encode(),
                _CIPHER_NAME: CIPHER.encode(),
                KEY_ID: self._first.key_id.encode(),
            },
            data=nonce + sealed,
        )

    def _decrypted(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCODING.encode():
            return payload
        key_id = payload.metadata.get(KEY_ID, b"").decode("ascii", "replace")
        cipher = payload.metadata.get(_CIPHER_NAME, b"").decode("ascii", "replace")
        key = self._keys.get(key_id)
        if cipher != CIPHER:
            raise UnreadablePayload(f"a payload is encrypted by another program: {ascii(cipher)[:40]} is not {CIPHER}")
        if key is None:
            raise UnreadablePayload(f"the key {ascii(key_id)[:80]} of a payload is not among those of AFTERTURN_PAYLOAD_KEYS here")
        nonce, sealed = payload.data[:_NONCE_BYTES], payload.data[_NONCE_BYTES:]
        damaged = f"a payload was changed, or its key {ascii(key_id)[:80]} is another one here"
        if len(sealed) < _TAG_BYTES:
            raise UnreadablePayload(damaged)
        try:
            return Payload.FromString(_cipher(key, nonce).decrypt(nonce[_DERIVING_BYTES:], sealed, _authenticated(key_id)))
        except (InvalidTag, DecodeError):
            raise UnreadablePayload(damaged) from None


def _cipher(key: PayloadKey, nonce: bytes) -> AESGCM:
    """The payload's own cipher: NIST SP 800-108 in counter mode over CMAC, as XAES-256-GCM lays it out."""
    derived = b""
    for counter in (1, 2):
        block = CMAC(algorithms.AES(key.secret))
        block.update(bytes((0, counter)) + b"X\x00" + nonce[:_DERIVING_BYTES])
        derived += block.finalize()
    return AESGCM(derived)


def _authenticated(key_id: str) -> bytes:
    return b"afterturn payload " + key_id.encode("ascii", "replace")


class _UnreadableWithoutKeys(EncodingPayloadConverter):
    """Says what is missing where an encrypted payload was not decrypted before: no keys are set."""

    @property
    def encoding(self) -> str:
        return ENCODING

    def to_payload(self, value: Any) -> Payload | None:
        return None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        key_id = payload.metadata.get(KEY_ID, b"?").decode("ascii", "replace")
        raise UnreadablePayload(
            f"this run's payloads are encrypted (key {ascii(key_id)[:80]}): set AFTERTURN_PAYLOAD_KEYS here as its workers have it"
        )


class _Converter(PydanticPayloadConverter):
    def __init__(self) -> None:
        super().__init__()
        CompositePayloadConverter.__init__(self, *self.converters.values(), _UnreadableWithoutKeys())


IN_CLEAR: Final = replace(pydantic_data_converter, payload_converter_class=_Converter)
"""The data converter without keys."""


def data_converter(settings: Settings) -> DataConverter:
    """The one data converter: of clients, workers and replayers alike. With keys, messages of errors are encrypted too."""
    if settings.payload_keys is None:
        return IN_CLEAR
    codec = AesPayloadCodec(payload_keys(settings.payload_keys.get_secret_value()))
    return replace(IN_CLEAR, payload_codec=codec, failure_converter_class=DefaultFailureConverterWithEncodedAttributes)
