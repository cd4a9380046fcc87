"""Where running processes disagree."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from memory.model.process_flags import FlagValue, differences
from memory.ports.service import Process
from memory.settings import load_settings
from starter.heartbeat import flags_of

NOW = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)


def process(process_id: str, **flags: Any) -> Process:
    return Process(process_id, "worker", "0.1.0", NOW, NOW, flags)


def test_processes_that_agree_differ_in_nothing() -> None:
    assert differences([]) == []
    one = flags_of(load_settings({}, feature_flag="acme,globex"))
    other = flags_of(load_settings({}, feature_flag="globex,acme"))
    assert one["feature_flag"] == ["acme", "globex"]
    assert differences([process("a", **one), process("b", **other)]) == []


def test_a_difference_says_who_has_what_most_of_them_first() -> None:
    found = differences(
        [
            process("w1", feature_flag=False, window_size=50),
            process("w2", feature_flag=["acme"], window_size=50),
            process("a1", feature_flag=["acme"], window_size=50),
        ]
    )
    [difference] = found
    assert difference.flag == "feature_flag"
    assert difference.values == (FlagValue(["acme"], ("a1", "w2")), FlagValue(False, ("w1",)))
    assert difference.told == 'feature_flag: ["acme"] (a1, w2), false (w1)'


def test_true_is_not_one_and_what_another_version_does_not_know_does_not_count() -> None:
    assert [one.flag for one in differences([process("a", flag=True), process("b", flag=1)])] == ["flag"]
    assert differences([process("a", flag=True), process("b", other=1)]) == []
