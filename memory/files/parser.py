"""Runs the readers in a process of their own."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import sys
from pathlib import Path, PurePath
from typing import Final

from pydantic import ValidationError

from memory.files.document import MAX_FILE_BYTES, ChildReply, ParsedFile, format_of
from memory.model.errors import InvalidInput

PARSE_TIMEOUT_S: Final = 120.0

_log = logging.getLogger(__name__)


async def parse(data: bytes | Path, *, name: str | None = None, timeout_s: float = PARSE_TIMEOUT_S) -> ParsedFile:
    """Read a document.

    Args:
        data: its bytes, or the path of a local file.
        name: its name, whose end says the format; by default the path's.
        timeout_s: after this many seconds the reading is given up.

    Raises:
        InvalidInput: an unknown format, an empty, too large, damaged or encrypted file; says which.
    """
    if isinstance(data, Path):
        name = name or data.name
        data = await asyncio.to_thread(_read, data)
    if not name:
        raise InvalidInput("bytes need a name whose end says the format")
    kind = format_of(name)
    if not data:
        raise InvalidInput("the file is empty")
    if len(data) > MAX_FILE_BYTES:
        raise InvalidInput(f"the file has {len(data)} bytes; at most {MAX_FILE_BYTES} are read")
    reply = await _in_a_process(kind, data, timeout_s)
    digest = hashlib.sha256(data).hexdigest()
    return ParsedFile(
        name=PurePath(name).name.encode("utf-8", "replace").decode().replace("\0", ""),
        format=kind,
        sha256=digest,
        parts=reply.parts,
        notes=reply.notes,
    )


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"the file cannot be read: {error.strerror or type(error).__name__}") from None


async def _in_a_process(kind: str, data: bytes, timeout_s: float) -> ChildReply:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-c",
        # Isolated from the caller's folder and variables, with this program's own import path.
        "import sys; sys.path[:] = sys.argv[2].split(chr(10)); from memory.files.child import main; main(sys.argv[1])",
        kind,
        "\n".join(path or os.getcwd() for path in sys.path),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(timeout_s):
            out, _ = await process.communicate(data)
    except TimeoutError:
        raise InvalidInput(f"the file could not be read within {timeout_s:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    try:
        reply = ChildReply.model_validate_json(out)
    except ValidationError:
        _log.warning("a reader of %s files gave no result (exit %s, %d bytes)", kind, process.returncode, len(out))
        raise InvalidInput(f"the {kind} file could not be read: it is damaged, or larger than it looks") from None
    if reply.error is not None:
        raise InvalidInput(reply.error)
    return reply
