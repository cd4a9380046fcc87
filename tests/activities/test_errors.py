"""What leaves an activity: typed, bounded, retryable or not, and never a word of the user."""

from __future__ import annotations

from datetime import timedelta

import pytest
from temporalio.exceptions import ApplicationError

from activities.errors import to_application_error, translated
from memory.model import errors

CANARY = "the canary sings at midnight"


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (errors.ModelRejected("no"), True),
        (errors.ProfileConflict("no"), True),
        (errors.InvalidInput("no"), True),
        (errors.RootClash("no"), True),
        (errors.ModelUnavailable("no"), False),
        (errors.ModelTimedOut("no"), False),
        (errors.MalformedOutput("no"), False),
        (errors.StoreUnavailable("no"), False),
    ],
)
def test_types_and_retryability(error: errors.AfterturnError, final: bool) -> None:
    translated_error = to_application_error(error)
    assert (translated_error.type, translated_error.non_retryable) == (type(error).__name__, final)


def test_retry_after_becomes_the_next_delay() -> None:
    assert to_application_error(errors.ModelRateLimited("429", 7.5)).next_retry_delay == timedelta(seconds=7.5)
    assert to_application_error(errors.ModelRateLimited("429")).next_retry_delay is None


def test_messages_are_bounded() -> None:
    assert len(str(errors.InvalidInput("x" * 10_000))) <= errors.MAX_MESSAGE_CHARS


async def test_an_unexpected_exception_keeps_its_class_and_place_and_loses_its_words() -> None:
    class Steps:
        @translated
        async def step(self) -> None:
            raise KeyError(CANARY)

    with pytest.raises(ApplicationError) as caught:
        await Steps().step()
    shown = f"{caught.value!r} {caught.value.__cause__!r} {caught.value.message}"
    assert CANARY not in shown
    assert "KeyError in step" in caught.value.message
    assert caught.value.type == "Unexpected"
    assert caught.value.__suppress_context__


def test_every_error_of_the_tree_is_on_the_page() -> None:
    page = errors.__doc__ or ""
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, errors.AfterturnError):
            assert name in page
            assert value.__doc__
