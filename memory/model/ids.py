"""Ids that come from outside, made safe for object keys, file systems, workflow ids and SQL.

``encode_segment`` is injective: two different ids never meet in one key. ASCII letters, digits and ``-_@.`` stand for
themselves; every other byte of the id's UTF-8 form becomes ``=XX``. A dot is escaped unless it stands between two plain
characters, so no segment is ``.`` or ``..`` or begins with a dot. An id whose encoding is longer than 160 characters becomes
its first 80 plain characters, ``=h`` and the SHA-256 of the id (``=h`` never occurs in the plain form). The limit leaves room in
what holds a segment with more beside it: 255 bytes for a name in a file system and for a search attribute or a workflow id in the
SQL tables of Temporal.
"""

from __future__ import annotations

import hashlib
import re
import uuid

from memory.model.errors import InvalidInput

MAX_ID_CHARS = 4096
_MAX_ENCODED = 160
_PLAIN = re.compile(rb"[A-Za-z0-9_@-]")
_ALL_PLAIN = re.compile(rf"[A-Za-z0-9_@-]{{1,{_MAX_ENCODED}}}")
_SEGMENT = re.compile(r"(?:[A-Za-z0-9_@.-]|=[0-9A-F]{2})+|[A-Za-z0-9_@-]{0,80}=h[0-9a-f]{64}")


def encode_segment(raw: str, *, what: str = "id") -> str:
    """The safe form of an outside id.

    Args:
        raw: 1 to 4,096 characters, anything in them (NUL, slashes, emoji, lone surrogates).
        what: named in the error, for instance ``"user id"``.

    Returns:
        1 to about 150 characters of ``[A-Za-z0-9_@.=-]``, never beginning with a dot.

    Raises:
        InvalidInput: empty, not a string, or too long.
    """
    if not isinstance(raw, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"the {what} must be a string, not {type(raw).__name__}")
    if not raw:
        raise InvalidInput(f"the {what} is empty")
    if len(raw) > MAX_ID_CHARS:
        raise InvalidInput(f"the {what} has {len(raw)} characters; at most {MAX_ID_CHARS} are accepted")
    if _ALL_PLAIN.fullmatch(raw):
        return raw
    data = raw.encode("utf-8", "surrogatepass")
    out: list[str] = []
    for position, value in enumerate(data):
        byte = bytes([value])
        inner_dot = byte == b"." and 0 < position < len(data) - 1 and data[position - 1 : position] != b"."
        out.append(byte.decode("ascii") if inner_dot or _PLAIN.fullmatch(byte) else f"={value:02X}")
    encoded = "".join(out)
    if len(encoded) <= _MAX_ENCODED:
        return encoded
    head = re.sub(r"=.{0,2}|\.", "", encoded)[:80]
    return f"{head}=h{hashlib.sha256(data).hexdigest()}"


def decode_segment(segment: str) -> str:
    """The outside id of a segment; a segment that was hashed for its length is returned as it is."""
    if "=" not in segment or "=h" in segment:
        return segment
    data = re.sub(rb"=([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), segment.encode("ascii"))
    return data.decode("utf-8", "surrogatepass")


def is_segment(text: str) -> bool:
    """Whether ``text`` is in the encoded form."""
    return bool(_SEGMENT.fullmatch(text)) and not text.startswith(".")


def short_hash(*parts: str) -> str:
    """16 hex digits that name these parts in this order; for effect keys and metadata, not for secrecy."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:16]


def body_hash(text: str) -> str:
    """SHA-256 (hex) of a text's UTF-8 form."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def new_id() -> str:
    """A random id (UUID 4). Never called from workflow code."""
    return str(uuid.uuid4())
