"""From a provider's status and headers to an error and a wait."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory.llm.wire import MAX_RETRY_AFTER_S, CallFailed, Option, retry_after_s, status_error, wire_text
from memory.model.errors import ModelError, ModelRateLimited, ModelRejected, ModelTimedOut, ModelUnavailable

NOW = datetime(2026, 6, 17, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "86400"}, MAX_RETRY_AFTER_S),
        ({"retry-after": "Wed, 17 Jun 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 17 Jun 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 17 Jun 2099 12:00:00 GMT"}, MAX_RETRY_AFTER_S),
        ({"retry-after": "Wed, 17 Jun 2026 12:00:30 -0000"}, 30.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "99999999999999999999999999"}, MAX_RETRY_AFTER_S),
        ({"retry-after": "Wed, 99 Jun 2026 12:00:30 GMT"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (301, ModelRejected),
        (400, ModelRejected),
        (401, ModelRejected),
        (402, ModelRejected),
        (403, ModelRejected),
        (404, ModelRejected),
        (408, ModelTimedOut),
        (409, ModelUnavailable),
        (413, ModelRejected),
        (422, ModelRejected),
        (425, ModelUnavailable),
        (429, ModelRateLimited),
        (500, ModelUnavailable),
        (502, ModelUnavailable),
        (503, ModelUnavailable),
        (504, ModelUnavailable),
        (529, ModelRateLimited),
    ],
)
def test_every_status_has_its_error(status: int, kind: type[ModelError]) -> None:
    error = status_error("openai:m", status, headers={}, code="some_code", request_id="req_1", key_name="OPENAI_API_KEY")
    assert type(error) is kind
    assert error.message.startswith(f"openai:m answered {status} (some_code), request req_1")


def test_a_server_error_that_says_when_to_come_back_is_a_rate_limit() -> None:
    error = status_error("openai:m", 503, headers={"retry-after": "4"})
    assert isinstance(error, ModelRateLimited)
    assert error.retry_after_s == 4


def test_hints_name_what_to_change() -> None:
    assert "ANTHROPIC_API_KEY" in status_error("anthropic:m", 401, headers={}, key_name="ANTHROPIC_API_KEY").message
    assert "base URL" in status_error("anthropic:m", 404, headers={}).message
    assert "redirects" in status_error("anthropic:m", 307, headers={}).message


def test_only_codes_reach_a_message() -> None:
    """A server may put anything into its code and request id, the prompt too."""
    error = status_error("openai:m", 400, headers={}, code="my name is Ada", request_id="x" * 500)
    assert error.message == "openai:m answered 400"


@pytest.mark.parametrize(
    ("status", "detail", "in_use", "refused"),
    [
        (400, "'response_format' of type json_schema is not supported", set(Option), Option.STRUCTURED),
        (400, "output_config: Extra inputs are not permitted", set(Option), Option.STRUCTURED),
        (400, "output_config: Extra inputs are not permitted", {Option.LIMIT}, None),
        (400, "Unsupported value: 'temperature' does not support 0 with this model", set(Option), Option.TEMPERATURE),
        (400, "Unsupported parameter: 'max_tokens' is not supported with this model", set(Option), Option.LIMIT),
        (400, "max_tokens is too large: 90000; this model gives at most 16384", set(Option), None),
        (400, "the context is too long", set(Option), None),
        (429, "response_format", set(Option), None),
        (500, "response_format", set(Option), None),
    ],
)
def test_which_option_was_refused(status: int, detail: str, in_use: set[Option], refused: Option | None) -> None:
    failed = CallFailed(ModelRejected("x"), status=status, detail=detail)
    assert failed.refused_option(frozenset(in_use)) is refused


def test_text_for_the_wire() -> None:
    assert wire_text("Köln 数据 😀") == "Köln 数据 😀"
    assert wire_text("a\ud83db") == "a?b"
