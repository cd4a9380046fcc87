"""The stamps of Recent Topics."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.model.profile import Bullet, Profile, stamp_recent_topics
from memory.model.recent import format_stamp, read_stamp
from tests.support.profiles import PROFILES

NOON = datetime(2026, 6, 17, 14, 0, 59, tzinfo=timezone(timedelta(hours=2)))
OLD = Profile.of(
    {
        "Recent Topics": [
            "2026-06-01 08:00 UTC: Kafka retention",
            "2026-06-02 09:30 UTC: compared cloud prices",
            "old without a stamp",
        ]
    }
)


def stamped(*topics: str | Bullet, old: Profile = OLD, at: datetime | list[datetime] = NOON) -> list[str]:
    new = stamp_recent_topics(old, Profile.of({"Recent Topics": topics}), at)
    return [bullet.text for bullet in new.section("Recent Topics")]


@pytest.mark.parametrize(
    "topic",
    [
        "Pulsar",
        "2020-01-01 00:00 UTC: Pulsar",
        "2026-06-17 12:00 UTC: Pulsar",
        "2026-06-17T12:00:31Z: Pulsar",
        "2026-06-17: Pulsar",
        "[2026-06-17 14:00] Pulsar",
        "2026-06-17 14:00 – Pulsar",
        "2026-02-31 08:00 UTC: Pulsar",
        "2026-06-17 14:00 +02:00: Pulsar",
    ],
)
def test_a_new_topic_gets_the_time_of_its_turn(topic: str):
    assert stamped(topic) == ["2026-06-17 12:00 UTC: Pulsar"]


def test_old_topics_keep_their_stamps_whatever_the_model_did():
    assert stamped(
        "2026-06-01 08:00 UTC: Kafka retention",
        "compared cloud prices",
        "2026-06-17 12:01 UTC: old without a stamp",
    ) == ["2026-06-01 08:00 UTC: Kafka retention", "2026-06-02 09:30 UTC: compared cloud prices", "old without a stamp"]
    assert stamped("2026-06-05 08:00 UTC: Kafka retention") == ["2026-06-01 08:00 UTC: Kafka retention"]


def test_a_refined_topic_keeps_its_stamp_and_another_under_an_old_stamp_does_not():
    assert stamped("2026-06-01 08:00 UTC: Kafka retention times") == ["2026-06-01 08:00 UTC: Kafka retention times"]
    assert stamped("2026-06-01 08:00 UTC: holiday plans") == ["2026-06-17 12:00 UTC: holiday plans"]


def test_newest_last():
    assert stamped("Pulsar", "2026-06-02 09:30 UTC: compared cloud prices", "2026-06-01 08:00 UTC: Kafka retention") == [
        "2026-06-01 08:00 UTC: Kafka retention",
        "2026-06-02 09:30 UTC: compared cloud prices",
        "2026-06-17 12:00 UTC: Pulsar",
    ]


def test_a_late_turn_finds_its_place():
    assert stamped("2026-06-02 09:30 UTC: compared cloud prices", "Pulsar", at=datetime(2026, 6, 1, 9, tzinfo=UTC)) == [
        "2026-06-01 09:00 UTC: Pulsar",
        "2026-06-02 09:30 UTC: compared cloud prices",
    ]


def test_turns_together_keep_their_own_times():
    times = [NOON - timedelta(minutes=5), NOON]
    assert stamped("2026-06-17 11:55 UTC: a", "2026-06-17 12:00 UTC: b", "c", "2026-06-17 11:58 UTC: d", at=times) == [
        "2026-06-17 11:55 UTC: a",
        "2026-06-17 12:00 UTC: b",
        "2026-06-17 12:00 UTC: c",
        "2026-06-17 12:00 UTC: d",
    ]


def test_sub_bullets_and_other_sections_stay():
    new = Profile.of({"Identity": ["Anna"], "Recent Topics": [Bullet("Pulsar", ("and Kafka",))]})
    assert stamp_recent_topics(OLD, new, NOON) == Profile.of(
        {"Identity": ["Anna"], "Recent Topics": [Bullet("2026-06-17 12:00 UTC: Pulsar", ("and Kafka",))]}
    )


def test_times_need_a_zone():
    with pytest.raises(ValueError, match="zone"):
        format_stamp(datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(ValueError, match="at least one"):
        stamped("a", at=[])


TIMES = st.integers(0, 4_102_444_800).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))


@given(PROFILES, PROFILES, TIMES)
def test_every_new_topic_is_stamped_and_it_is_done_once(old: Profile, new: Profile, at: datetime):
    once = stamp_recent_topics(old, new, at)
    assert len(once.section("Recent Topics")) == len(new.section("Recent Topics"))
    known = {bullet.text for bullet in old.section("Recent Topics")}
    assert all(bullet.text in known or read_stamp(bullet.text)[0] is not None for bullet in once.section("Recent Topics"))
    assert stamp_recent_topics(once, once, at) == once
