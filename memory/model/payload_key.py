"""Keys for what Temporal stores: ``id:base64`` by commas, as the setting AFTERTURN_PAYLOAD_KEYS has them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass, field

KEY_BYTES = 32
MAX_KEYS = 16
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOW = "a key is id:base64 of 32 random bytes, for instance 2026-06:$(openssl rand -base64 32)"


@dataclass(frozen=True, slots=True)
class PayloadKey:
    """``key_id`` stands in clear beside every payload; ``secret``: 32 bytes."""

    key_id: str
    secret: bytes = field(repr=False)

    @property
    def mark(self) -> str:
        """Tells two keys apart that are called the same. Sixteen bits of a hash: no help to who guesses."""
        return f"{self.key_id}:{hashlib.sha256(b'afterturn payload key ' + self.secret).hexdigest()[:4]}"


def payload_keys(text: str) -> tuple[PayloadKey, ...]:
    """The keys in their order: the first encrypts, all decrypt.

    Raises ValueError: which entry cannot be used (by its place, since an entry without an id may be a bare secret), and why.
    """
    entries = [entry.strip() for entry in text.split(",")]
    if len(entries) > MAX_KEYS:
        raise ValueError(f"has {len(entries)} keys; at most {MAX_KEYS} are accepted")
    keys = tuple(_key(entry, place) for place, entry in enumerate(entries, start=1))
    if len({key.key_id for key in keys}) < len(keys):
        raise ValueError("has two keys with one id")
    if len({key.secret for key in keys}) < len(keys):
        raise ValueError("has one key under two ids")
    return keys


def _key(entry: str, place: int) -> PayloadKey:
    key_id, colon, encoded = entry.partition(":")
    if not colon or not _ID.fullmatch(key_id):
        raise ValueError(f"entry {place} has no usable id (1 to 64 letters, digits, . _ -) before a colon; {_HOW}")
    # Both alphabets, with or without padding: what tools print differs.
    plain = encoded.strip().replace("-", "+").replace("_", "/").rstrip("=")
    try:
        secret = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"entry {place} is not base64 behind its id; {_HOW}") from None
    if len(secret) != KEY_BYTES:
        raise ValueError(f"entry {place} has {len(secret)} bytes, not {KEY_BYTES}; {_HOW}")
    return PayloadKey(key_id, secret)
