"""``POST /graphql``: JSON in, JSON out. There is no GET, no batch, no multipart and no page to try it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import FastAPI, Request
from graphql import GraphQLError
from pydantic import BaseModel, ConfigDict, Field, model_validator
from strawberry.exceptions import MissingQueryError
from strawberry.schema.exceptions import CannotGetOperationTypeError, InvalidOperationTypeError

from api.answers import Json
from api.auth.access import Reader
from api.context import Context
from api.graphql.bounds import MAX_CHARS
from api.graphql.schema import Asked, schema
from api.problems import STATUSES
from api.routing import make_router
from memory.model.errors import AfterturnError

MAX_ERRORS: Final = 20
MAX_MESSAGE_CHARS: Final = 300
GRAPHQL_JSON: Final = "application/graphql-response+json"

_VALUE = re.compile(r"(found (?:Block)?String|value:).*", re.DOTALL)
_EXAMPLE: Final[dict[str, Any]] = {"query": "{ getMyContextMemory { state document version etag tokens maxTokens } }"}

router = make_router("graphql")


class GraphQLRequest(BaseModel):
    """One operation. What a user wrote belongs into ``variables``."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    query: Annotated[str, Field(min_length=1, max_length=MAX_CHARS)]
    variables: dict[str, Any] | None = None
    operation_name: Annotated[str | None, Field(alias="operationName", max_length=200)] = None

    @model_validator(mode="before")
    @classmethod
    def _one(cls, given: Any) -> Any:
        if isinstance(given, list):
            raise ValueError("one operation at a time: batches are refused")
        return given


class GraphQLAnswer(BaseModel):
    """As the GraphQL specification has it."""

    data: dict[str, Any] | None = None
    errors: list[dict[str, Any]] | None = None


@router.post("/graphql", response_model=GraphQLAnswer, summary="GraphQL")
async def graphql(request: Request, acting: Reader, context: Context, body: GraphQLRequest) -> Json:
    """`getMyContextMemory`, `updateMyContextMemory(document, expectedEtag)` and the user's preference, for the authenticated user
    only. The schema can be asked for by introspection.

    An operation is bounded: 32 KiB, 1,000 tokens, 5 levels, 10 aliases, a cost of 1,000 (a read costs 50, a write 200).
    """
    try:
        result = await schema.execute(
            body.query,
            variable_values=body.variables,
            context_value=Asked(context, acting),
            operation_name=body.operation_name,
        )
        data, errors = result.data, list(result.errors or ())
    except (MissingQueryError, CannotGetOperationTypeError, InvalidOperationTypeError):
        data, errors = None, [GraphQLError("the document has no operation of this name")]
    answer: dict[str, Any] = {}
    if errors:
        answer["errors"] = [_told(error) for error in errors[:MAX_ERRORS]]
    began = data is not None or any(error.path for error in errors)
    if began:
        answer["data"] = data
    modern = GRAPHQL_JSON in request.headers.get("accept", "")
    # A client of the older form reads errors from an answer that says 200.
    return Json(answer, 200 if began or not modern else 400, media_type=GRAPHQL_JSON if modern else "application/json")


def _told(error: GraphQLError) -> dict[str, Any]:
    """An error without a value that was sent: only names that stand in the document are told back."""
    original = error.original_error
    told: dict[str, Any] = {}
    if isinstance(original, AfterturnError):
        kind = next((kind for cls, _, kind in STATUSES if isinstance(original, cls)), "error")
        told["message"], code = original.message, kind
    elif isinstance(original, RecursionError):
        told["message"], code = "the document is nested too deeply", "invalid-request"
    elif original is not None and not isinstance(original, GraphQLError):
        told["message"], code = "a fault of this program; its log has more", "error"
    else:
        told["message"], code = _VALUE.sub(r"\1", error.message)[:MAX_MESSAGE_CHARS].rstrip(":"), "invalid-request"
    if error.locations:
        told["locations"] = [{"line": one.line, "column": one.column} for one in error.locations]
    if error.path:
        told["path"] = list(error.path)
    return {**told, "extensions": {"code": code}}


def install(app: FastAPI) -> None:
    app.include_router(router)
