"""Documents into the tables: uploaded, read in a process of their own, taken in part by part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import asdict
from typing import Any, Final

from fastapi import Request, Response
from starlette.datastructures import UploadFile

from api.auth.access import Writer
from api.context import Context
from api.problems import ApiError, TooMany
from api.routing import make_router, media_type
from api.streams import Event, EventStream, OpenStreams, responses
from memory.files import FORMATS, MAX_FILE_BYTES, ParsedFile, parse
from memory.model.errors import AfterturnError, InvalidInput
from memory.model.knowledge import PERSONAL
from memory.model.scope import Scope
from starter.ingest import ingest
from starter.knowledge import Knowledge

READING_S: Final = 60.0
PLACE_S: Final = 10.0
"""So long a document waits for one that is being read."""

router = make_router("knowledge")

_EXAMPLE: Final = (
    "retry: 2000\n\n"
    'event: part\ndata: {"file":"prices.csv","part":1,"parts":1,"what":"table","rows":2,"skipped":0,"table":"Prices",…}\n\n'
    'event: end\ndata: {"parts":1,"rows":2,"failed":0}\n\n'
)


# Read by the route itself: nobody uploads anything before it is known who they are.
_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["file"],
    "properties": {
        "file": {
            "type": "string",
            "format": "binary",
            "description": f"its name ends in {', '.join(sorted(FORMATS))}; at most {MAX_FILE_BYTES} bytes",
        },
        "destination": {"type": "string", "default": PERSONAL, "description": "`personal` or `team:<id>`"},
        "table": {"type": "string", "description": "name for its tables; default: from the file's name"},
    },
}


@router.post(
    "/knowledge/documents",
    response_class=Response,
    responses={
        **responses("What became of each part of the document", _EXAMPLE),
        413: {"description": "The document is too large"},
        415: {"description": "Not multipart/form-data"},
    },
    openapi_extra={"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}},
    summary="Take in a document",
)
async def ingest_document(request: Request, acting: Writer, context: Context, streams: OpenStreams) -> Response:
    """Rows of tables go in as they are, text by `update` loops, a few pages each. Every row says which file and page it is from.

    Answers with server-sent events: `part` for each part that is done, and `end`. A document that is sent again, whole or after a
    break, adds nothing twice: whoever loses the connection sends it again.
    """
    if media_type(request) != "multipart/form-data":
        raise ApiError(415, "unsupported-media-type", "send the document as the field `file` of multipart/form-data")
    async with request.form(max_files=1, max_fields=2) as form:
        file, destination, table = form.get("file"), form.get("destination") or PERSONAL, form.get("table") or None
        if not isinstance(file, UploadFile) or not isinstance(destination, str) or isinstance(table, UploadFile):
            raise InvalidInput("the form has a file `file`, and may have the texts `destination` and `table`")
        data, name = await file.read(MAX_FILE_BYTES + 1), file.filename or ""
    if len(data) > MAX_FILE_BYTES:
        raise ApiError(413, "too-large", f"a document has at most {MAX_FILE_BYTES} bytes")
    # What cannot be is told as an error, before the answer begins.
    await context.memory.knowledge.check_destination(acting.scope, destination)
    readers: asyncio.Semaphore = request.app.state.readers
    try:
        async with asyncio.timeout(PLACE_S):
            await readers.acquire()
    except TimeoutError:
        raise TooMany("other documents are being read; come back in a moment", retry_after_s=PLACE_S) from None
    try:
        parsed = await parse(data, name=name, timeout_s=READING_S)
    finally:
        readers.release()
    return EventStream(streams, _taken_in(context.memory.knowledge, acting.scope, parsed, destination, table))


async def _taken_in(
    knowledge: Knowledge, scope: Scope, parsed: ParsedFile, destination: str, table: str | None
) -> AsyncGenerator[Event]:
    parts = rows = failed = 0
    problem: str | None = None
    try:
        async for done in ingest(knowledge, scope, parsed, destination=destination, table=table):
            parts += 1
            rows += done.rows
            failed += not done.ok
            yield Event("part", {**asdict(done), "ok": done.ok})
    except AfterturnError as error:
        problem = error.message
    except TimeoutError:
        problem = "a loop still runs; send the document again to wait for it"
    yield Event("end", {"parts": parts, "rows": rows, "failed": failed, "problem": problem})
