"""Finished turns: record them, see what became of them, run those again that a failure kept out."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from api.auth.access import Reader, Writer
from api.context import Context
from api.problems import RESPONSES, ApiError
from api.routing import Cursor, Limit, cursor_of, make_router, page_of, read_cursor
from api.schemas.turns import RerunGiven, RerunView, TurnGiven, TurnPage, TurnReceipt, TurnView
from memory.model.turn import MAX_MESSAGE_BYTES, Outcome
from starter.views import Receipt, ReceiptStatus

router = make_router("turns")

AT_ONCE = (ReceiptStatus.DUPLICATE, ReceiptStatus.SKIPPED)
"""Nothing follows: 200. All others go on in the background: 202."""


@router.post(
    "/turns",
    summary="Record a finished turn",
    status_code=202,
    responses={
        200: {"model": TurnReceipt, "description": "Known already, or memory is off for this turn (`reasons` says why)"},
        413: RESPONSES[400] | {"description": "A message of more than 1 MiB"},
    },
)
async def record_turn(context: Context, acting: Writer, turn: TurnGiven, response: Response) -> TurnReceipt:
    """For an orchestrator, after each answer. The profile is updated in the background; the answer does not wait for it.

    The same `turn_id` again is recognised, so a caller that got no answer sends the turn again. 503: it was not recorded.
    """
    for name, text in (("user_text", turn.user_text), ("assistant_text", turn.assistant_text)):
        check_size(name, text)
    fields = turn.model_dump(exclude_none=True)
    receipt = await context.memory.after_answer(acting.scope, fields)
    response.status_code = status_of(receipt, "turn")
    return TurnReceipt.of(turn.turn_id, receipt)


def check_size(name: str, text: str | None) -> None:
    """Raises ApiError (413) for a message that is longer than the log keeps."""
    if text is not None and len(text) * 4 > MAX_MESSAGE_BYTES:
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > MAX_MESSAGE_BYTES:
            raise ApiError(
                413,
                "too-large",
                f"{name} has {size} bytes of UTF-8; at most {MAX_MESSAGE_BYTES} are accepted; nothing was recorded",
            )


def status_of(receipt: Receipt, what: str) -> int:
    """The status of an answer with this receipt. Raises ApiError where nothing was recorded and should have been."""
    if receipt.status is ReceiptStatus.REFUSED:
        raise ApiError(400, "invalid-input", receipt.reason or f"the {what} cannot be used")
    if receipt.status is ReceiptStatus.LOST:
        raise ApiError(503, "unavailable", f"the {what} was not recorded; send it again ({receipt.reason})")
    return 200 if receipt.status in AT_ONCE else 202


@router.get("/turns", summary="List turns")
async def list_turns(
    context: Context,
    acting: Reader,
    outcome: Annotated[Outcome | None, Query(description="only turns that ended so")] = None,
    state: Annotated[str | None, Query(pattern="^(pending|done)$", description="`pending` or `done`")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> TurnPage:
    """The user's turns, newest first, without their text: what became of each, and why."""
    below: int | None = None
    if cursor is not None:
        (below,) = read_cursor(cursor, "turns", int)
    found = await context.log.summaries(scope=acting.scope, outcome=outcome, state=state, below=below, limit=limit + 1)
    page, last = page_of(found, limit)
    return TurnPage(items=[TurnView.of(turn) for turn in page], next=None if last is None else cursor_of("turns", last.ordinal))


@router.post("/rerun", summary="Run turns again")
async def rerun_turns(context: Context, acting: Writer, wanted: RerunGiven) -> RerunView:
    """Turns that a failure kept out, or that were skipped because memory was off.

    A turn that was skipped because its user had opted out stays so, and one for which memory is still off is skipped again.
    """
    result = await context.memory.rerun(
        scope=acting.scope, turn_ids=wanted.turn_ids, outcomes=tuple(wanted.outcomes), limit=wanted.limit
    )
    return RerunView(turns=[TurnView.of(turn) for turn in result.reopened], started=result.waiting == 0)
