"""The process that reads one document: bytes on standard input, JSON on standard output."""

from __future__ import annotations

import resource
import sys
from typing import Final

from memory.files.document import MAX_PARTS, MAX_TEXT_CHARS, ChildReply, Part
from memory.files.readers import Unreadable, read

MAX_MEMORY_BYTES: Final = 2 * 1024**3
MAX_CPU_S: Final = 110


def main(kind: str) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_S, MAX_CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    data = sys.stdin.buffer.read()
    try:
        answer = _read(kind, data)
    except Unreadable as error:
        answer = ChildReply(error=str(error))
    except MemoryError:
        answer = ChildReply(error=f"the {kind} file needs more memory than a document may")
    except Exception as error:  # noqa: BLE001  # whatever a library makes of a damaged file; the name says what kind
        answer = ChildReply(error=f"the {kind} file is damaged or not what its name says ({type(error).__name__})")
    sys.stdout.write(answer.model_dump_json(ensure_ascii=True))
    sys.stdout.flush()


def _read(kind: str, data: bytes) -> ChildReply:
    parts: list[Part] = []
    notes: list[str] = []
    chars = 0
    reading = read(kind, data, notes)
    for part in reading:
        if len(parts) >= MAX_PARTS:
            notes.append(f"only the first {MAX_PARTS} parts were read")
            break
        chars += len(part.text)
        if chars > MAX_TEXT_CHARS:
            notes.append(f"only the first {len(parts)} parts were read: more than {MAX_TEXT_CHARS} characters of text")
            break
        parts.append(part)
    reading.close()
    if not any(part.text.strip() or part.rows for part in parts):
        raise Unreadable(f"the {kind} file has no text" + (" (pages that are pictures are not read)" if kind == "pdf" else ""))
    return ChildReply(parts=tuple(parts), notes=tuple(notes))
