"""What every object store adapter checks in the same way before it sends anything."""

from __future__ import annotations

import re
from collections.abc import Mapping

from memory.model.errors import InvalidInput

MAX_OBJECT_BYTES = 64 * 1024 * 1024
MAX_METADATA_BYTES = 2048
"""S3's own limit: names and values of the user metadata together."""

_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_METADATA_KEY = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_METADATA_VALUE = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")


def check_bucket_name(bucket: str) -> None:
    """Raises InvalidInput unless it is 3 to 63 characters of ``a-z0-9-`` that begin and end with a letter or digit."""
    if not _BUCKET.fullmatch(bucket):
        raise InvalidInput(f"{bucket[:70]!r} is not a bucket name: 3 to 63 characters of a-z, 0-9 and -, no - at its ends")


def check_key(key: str) -> None:
    """Raises InvalidInput for a key that a server could resolve to another place, or that is too long (1,024 bytes)."""
    if len(key.encode("utf-8", "surrogatepass")) > 1024:
        raise InvalidInput("the object key has more than 1,024 bytes")
    if not key.isprintable() or "\\" in key or any(part in {"", ".", ".."} for part in key.split("/")):
        raise InvalidInput("the object key holds an empty or relative segment, a backslash or a character that is not printable")


def check_body(data: bytes) -> None:
    """Raises InvalidInput for more than 64 MiB."""
    if len(data) > MAX_OBJECT_BYTES:
        raise InvalidInput(f"the object has {len(data)} bytes; at most {MAX_OBJECT_BYTES} are accepted")


def checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str]:
    """With lower-case keys. Raises InvalidInput for what HTTP headers and the request's signature would not keep as it is."""
    out: dict[str, str] = {}
    for name, value in (metadata or {}).items():
        key = name.lower()
        if not _METADATA_KEY.fullmatch(key):
            raise InvalidInput(f"object metadata {name[:70]!r}: a key is at most 64 characters of a-z, 0-9 and -")
        if not _METADATA_VALUE.fullmatch(value):
            raise InvalidInput(f"object metadata {key}: the value must be printable ASCII without spaces at its ends")
        out[key] = value
    size = sum(len(key) + len(value) for key, value in out.items())
    if size > MAX_METADATA_BYTES:
        raise InvalidInput(f"the object metadata has {size} bytes; at most {MAX_METADATA_BYTES} are accepted")
    return out
