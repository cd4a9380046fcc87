"""Policies are named and checked when they are built."""

from __future__ import annotations

from datetime import timedelta

import pytest

from workflows import policies
from workflows.policies import ModelStep, Patience, StoreStep


def test_attempts_are_bounded_as_designed() -> None:
    assert policies.GATE.options(60)["retry_policy"].maximum_attempts == 2
    assert policies.CONSOLIDATE.options(60)["retry_policy"].maximum_attempts == 4


def test_a_model_step_has_room_for_all_its_calls_and_a_heartbeat_in_seconds() -> None:
    options = policies.CONSOLIDATE.options(60)
    assert options["start_to_close_timeout"] >= timedelta(seconds=60 * policies.MODEL_CALLS_PER_CONSOLIDATION)
    assert options["heartbeat_timeout"] <= timedelta(seconds=10)


@pytest.mark.parametrize(
    "build",
    [
        lambda: ModelStep("x", attempts=0, calls=1),
        lambda: ModelStep("x", attempts=1, calls=0),
        lambda: ModelStep("x", attempts=1, calls=1, initial_backoff_s=9, max_backoff_s=1),
        lambda: StoreStep("x", start_to_close_s=0),
        lambda: StoreStep("x", start_to_close_s=1, attempts=0),
    ],
)
def test_a_senseless_policy_is_refused_by_name(build: object) -> None:
    with pytest.raises(ValueError, match="x:"):
        build()  # type: ignore[operator]


def test_patience_grows_and_is_bounded() -> None:
    patience = Patience(first_s=1, longest_s=8)
    assert [patience.delay(n).total_seconds() for n in (1, 2, 3, 4, 5, 99)] == [1, 2, 4, 8, 8, 8]


def test_rejected_requests_and_absent_stores_are_not_retried_by_the_server() -> None:
    types = policies.CONSOLIDATE.options(60)["retry_policy"].non_retryable_error_types
    assert {"ModelRejected", "StoreUnavailable", "InvalidInput"} <= set(types)
