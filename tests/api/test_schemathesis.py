"""The OpenAPI document against the server: whatever is sent, no server error, and every answer is as the document says.

What is sent is made from the document, valid and broken, for each operation and each kind of caller. `make fuzz` sends much more.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.api import Api, StartApi, as_admin, as_person, as_service

EXAMPLES: Final = 4
"""Per operation: half of them valid, half broken, from one caller after the other; see `--fuzz-examples`."""
CALL_S: Final = 30.0
STREAM: Final = "text/event-stream"
OURS: Final = {"authorization", "afterturn-user", "cookie"}
NOT_HTTP: Final = "Invalid HTTP request received."
"""The server's own words, for a header or an address that HTTP does not have; no application is asked then."""
CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def callers(a: Api) -> Mapping[str, dict[str, str]]:
    """Each with a user of its own: what one deletes is not missed by another."""
    return {
        "administrator": as_admin("acme", a.stack.user("admin").user_id),
        "service": as_service("acme", a.stack.user("service").user_id, permissions=("read", "write", "forget")),
        "person": as_person(a.stack.user("person")),
    }


def is_stream(operation: Any) -> bool:
    """It has no end, so it is no example: tests/api/test_notices.py and test_loops.py read them."""
    answers = operation.definition.raw.get("responses", {})
    return any(STREAM in answer.get("content", {}) for answer in answers.values())


def run(document: dict[str, Any], base: str, who: Mapping[str, dict[str, str]], examples: int) -> list[str]:
    """What went wrong, a line for each operation and kind of fault."""
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=base)
    operations = [one.ok() for one in schema.get_all_operations()]
    assert operations
    callers = itertools.cycle(who.items())
    with requests.Session() as session:
        return [line for one in operations if not is_stream(one) for line in _tried(one, session, callers, examples)]


def _tried(operation: Any, session: requests.Session, callers: Iterator[tuple[str, dict[str, str]]], examples: int) -> list[str]:
    """Valid requests, then broken ones. What goes wrong is noted and not raised: a search for a smaller example would send it again
    and again."""
    found: dict[str, str] = {}
    for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

        @settings(
            max_examples=examples // 2,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(mode))
        def attempt(case: Any) -> None:
            name, headers = next(callers)
            # The caller is who we say, not what was made up.
            case.headers = {key: value for key, value in (case.headers or {}).items() if key.lower() not in OURS}
            answer = case.call(session=session, headers=headers, timeout=CALL_S)
            if answer.status_code == 400 and answer.text == NOT_HTTP:
                return
            try:
                case.validate_response(answer, checks=CHECKS)
            except FailureGroup as group:
                for one in group.exceptions:
                    found.setdefault(type(one).__name__, f"{name}: {operation.label}: {one}\n{answer.text[:300]}")

        attempt()
    return list(found.values())


@pytest.mark.timeout(3600)
async def test_no_request_made_from_the_document_breaks_the_server(api: StartApi, pytestconfig: pytest.Config) -> None:
    examples = pytestconfig.getoption("--fuzz-examples", default=None) or EXAMPLES
    async with api(api_rate_per_minute=0, forget_settle_s=0) as a:
        document = (await a.http.get("/openapi.json")).json()
        found = await asyncio.to_thread(run, document, a.base, callers(a), examples)
    assert not found, "\n\n".join(found)
