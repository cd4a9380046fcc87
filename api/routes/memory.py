"""The memory for the next answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from api.answers import Json
from api.auth.access import Reader
from api.context import Context
from api.openapi import with_nulls
from api.routing import Space, make_router
from api.schemas.turns import MEMORY_EXAMPLE, Memory

router = make_router("memory")


@router.get(
    "/memory",
    summary="Load the memory for a turn",
    response_model=Memory,
    responses={
        200: {
            "description": "The memory, or none and why. `ETag`: that of the profile. `Server-Timing`: how long the load took.",
            "headers": {"ETag": {"schema": {"type": "string"}, "description": "of the profile; absent where there is none"}},
            "content": {"application/json": {"example": with_nulls(MEMORY_EXAMPLE)}},
        }
    },
)
async def load_memory(
    context: Context,
    acting: Reader,
    space: Space = "default",
    allow_user_memory: Annotated[bool, Query(description="consent for this turn; memory is off without it")] = False,
    web_search: Annotated[
        bool | None, Query(description="whether this turn searches the web; without it, as the space says")
    ] = None,
    language_model: Annotated[
        str | None,
        Query(
            max_length=200,
            description="the model that will answer; its tokenizer counts where the space says so",
            examples=["openai:gpt-5"],
        ),
    ] = None,
) -> Response:
    """For an orchestrator, before each answer: what is known about the user, ready for the system prompt.

    The answer comes within a time budget, whatever is down: where a store is slow or away it is 200 with a `reason` and no memory,
    and the turn goes on without.
    """
    loaded = await context.memory.load(
        acting.scope, space_id=space, allow_user_memory=allow_user_memory, web_search=web_search, language_model=language_model
    )
    # Built by hand, without a model in between: this is on the path of every answer.
    answer = Json(
        {
            "body": loaded.body,
            "system_prompt_section": context.memory.system_prompt_section(loaded),
            "active": loaded.active,
            "reason": loaded.reason,
            "reasons": loaded.reasons,
            "detail": loaded.detail,
            "version": loaded.version,
            "etag": loaded.etag,
            "tokens": loaded.tokens,
            "truncated": loaded.truncated,
        },
        headers={"Server-Timing": f"load;dur={loaded.elapsed_ms:.1f}"},
    )
    if loaded.etag is not None:
        answer.headers["ETag"] = f'"{loaded.etag}"'
    return answer
