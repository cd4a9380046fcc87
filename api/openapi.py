"""The OpenAPI document: what the framework makes of the routes, put right where it cannot know better."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from fastapi import FastAPI
from fastapi.routing import APIRoute

from api.problems import PROBLEM_JSON

PROBLEM: Final = "#/components/schemas/Problem"
SECURITY: Final[dict[str, Any]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "a JWT of the configured issuer, or a service token (`aft_…`, made by `afterturn tokens create`)",
    },
}
"""What to send to be known; the same for all of ``/v1``."""
_NULL: Final = "\x00null"
_OF_BODIES: Final = {"413": "Content Too Large", "415": "Unsupported Media Type"}
TAGS: Final = {
    "memory": "Before an answer: what is known about the user.",
    "turns": "After an answer: what was said.",
    "events": "What happened outside of turns.",
    "profile": "The user's one profile: read, edit, undo.",
    "facts": "What is known beside the profile.",
    "contacts": "The people around the user.",
    "tasks": "What was asked for or promised.",
    "library": "How things are done: guidance and functions.",
    "windows": "How the log of events becomes contacts, facts and tasks.",
    "search": "Everything at once.",
    "status": "Is memory on, where does it stand.",
    "preference": "The user's own choice.",
    "usage": "What it costs.",
    "data": "Export, delete everything.",
    "knowledge": "Tables in the words of their users.",
    "loops": "What is asked of tables, contacts and tasks in plain language, step by step.",
    "notices": "What a chat front end shows while memory works.",
    "graphql": "The user's own memory and preference, as GraphQL.",
    "account": "Who the token belongs to.",
    "admin": "Settings, roots, usage and failed runs of the company; nobody's memory.",
}


def install(app: FastAPI) -> None:
    """Have the document of this application put right. It is made once, at first use."""
    make = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            document: dict[str, Any] = _replaced(make(), _NULL, None)
            for operation in _operations(document):
                _put_right(operation)
            document.setdefault("components", {})["securitySchemes"] = SECURITY
            document["security"] = [{name: []} for name in SECURITY]
            told = {tag for operation in _operations(document) for tag in operation.get("tags", ())}
            document["tags"] = [{"name": name, "description": text} for name, text in TAGS.items() if name in told]
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = described


def operation_id(route: APIRoute) -> str:
    """The name of its function: unique, and the same for ever."""
    return route.name


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document.get("paths", {}).values():
        yield from (operation for operation in path.values() if isinstance(operation, dict))


def with_nulls(value: Any) -> Any:
    """An example as it has to be given to the framework, which drops every null from its document."""
    return _replaced(value, None, _NULL)


def _replaced(value: Any, old: str | None, new: str | None) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(inner, old, new) for name, inner in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [_replaced(inner, old, new) for inner in cast(list[Any], value)]
    return new if value == old and not isinstance(value, bool) else value


def _put_right(operation: dict[str, Any]) -> None:
    responses: dict[str, Any] = operation["responses"]
    if "requestBody" in operation:
        for status, text in _OF_BODIES.items():
            responses.setdefault(status, {"description": text, "content": {PROBLEM_JSON: {"schema": {"$ref": PROBLEM}}}})
    for status, response in responses.items():
        if status.isdecimal() and int(status) >= 400:
            response.setdefault("content", {PROBLEM_JSON: {"schema": {"$ref": PROBLEM}}})
        # Errors are problem+json; the framework says so of the media type of the route's own answer.
        for kind, told in list(response.get("content", {}).items()):
            if kind != PROBLEM_JSON and told.get("schema", {}).get("$ref") == PROBLEM:
                del response["content"][kind]
                response["content"][PROBLEM_JSON] = {"schema": {"$ref": PROBLEM}}
    for parameter in operation.get("parameters", ()):
        # One that may be left out; there is no null in an address or a header.
        kinds = [kind for kind in parameter["schema"].get("anyOf", ()) if kind != {"type": "null"}]
        if len(kinds) == 1:
            del parameter["schema"]["anyOf"]
            parameter["schema"] |= kinds[0]
