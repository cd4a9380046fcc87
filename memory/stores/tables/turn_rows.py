"""Turns as rows of the ledger and of the event log, and back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy.engine import RowMapping

from memory.model.event import ASSISTANT_ID, USER_ID, clean_message, turn_messages
from memory.model.ids import decode_segment, encode_segment
from memory.model.scope import Scope
from memory.model.transcript import clean_text
from memory.model.turn import Outcome, StoredTurn, Turn
from memory.ports import TurnResult, TurnSummary
from memory.stores.tables.columns import to_utc


def turn_rows(scope: Scope, turn: Turn, now: datetime) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    occurred_at = to_utc(turn.occurred_at, what="time of the turn")
    turn_key = encode_segment(turn.turn_id, what="turn id")
    medium = clean_text(turn.medium)
    messages = turn_messages(turn)
    said = {message.sender_id for message in messages}
    owner = {"tenant": scope.tenant, "user_id": scope.user}
    turn_row = {
        **owner,
        "turn_key": turn_key,
        "turn_id_long": _if_hashed(turn.turn_id, turn_key),
        "user_seq": None,
        "assistant_seq": None,
        "user_blank": None if USER_ID in said else clean_message(turn.user_text, sender=USER_ID),
        "assistant_blank": None if ASSISTANT_ID in said else clean_message(turn.assistant_text, sender=ASSISTANT_ID),
        "space_id": turn.space_id,
        "conversation_id": turn.conversation_id,
        "medium": medium,
        "language_model": _cleaned(turn.language_model),
        "allow_user_memory": turn.allow_user_memory,
        "web_search": turn.web_search,
        "occurred_at": occurred_at,
        "recorded_at": now,
        "attempt": 0,
        "state": "pending",
    }
    said_rows: list[dict[str, Any]] = [
        {
            **owner,
            "event_key": message.event_id,
            "kind": message.kind,
            "timestamp": occurred_at,
            "sender_id": message.sender_id,
            "receiver_ids": list(message.receiver_ids),
            "medium": medium,
            "content": message.content,
            "turn_key": turn_key,
            "space_id": turn.space_id,
            "recorded_at": now,
        }
        for message in messages
    ]
    return turn_row, said_rows


def finish_binds(scope: Scope, result: TurnResult, finished_at: datetime) -> dict[str, Any]:
    return {
        "b_tenant": scope.tenant,
        "b_user": scope.user,
        "b_key": encode_segment(result.turn_id, what="turn id"),
        "b_attempt": result.attempt,
        "v_outcome": result.outcome.value,
        "v_reason": _cleaned(result.reason),
        "v_flags": list(result.flags),
        "v_usage": {stage: dict(counts) for stage, counts in result.usage.items()},
        "v_durations_ms": dict(result.durations_ms),
        "v_model": _cleaned(result.model),
        "v_profile_version": result.profile_version,
        "v_run_id": result.run_id,
        "v_workflow_id": result.workflow_id,
        "v_finished_at": finished_at,
    }


def stored_turn(row: RowMapping) -> StoredTurn:
    # Not validated again: it was when it was recorded, and a rule that has become stricter must not strand old turns.
    return StoredTurn.model_construct(
        turn=Turn.model_construct(
            turn_id=row["turn_id_long"] or decode_segment(row["turn_key"]),
            user_text=row["user_blank"] if row["user_seq"] is None else row["said_user"],
            assistant_text=row["assistant_blank"] if row["assistant_seq"] is None else row["said_assistant"],
            occurred_at=row["occurred_at"],
            space_id=row["space_id"],
            conversation_id=row["conversation_id"],
            medium=row["medium"],
            language_model=row["language_model"],
            allow_user_memory=row["allow_user_memory"],
            web_search=row["web_search"],
        ),
        ordinal=row["ordinal"],
        attempt=row["attempt"],
        state=row["state"],
        outcome=outcome_of(row["outcome"]),
        reason=row["reason"],
        recorded_at=row["recorded_at"],
        finished_at=row["finished_at"],
        profile_version=row["profile_version"],
    )


def turn_summary(row: RowMapping) -> TurnSummary:
    return TurnSummary(
        scope=Scope(row["tenant"], row["user_id"]),
        turn_id=row["turn_id_long"] or decode_segment(row["turn_key"]),
        ordinal=row["ordinal"],
        attempt=row["attempt"],
        space_id=row["space_id"],
        state=row["state"],
        outcome=outcome_of(row["outcome"]),
        reason=row["reason"],
        flags=tuple(row["flags"] or ()),
        profile_version=row["profile_version"],
        recorded_at=row["recorded_at"],
        finished_at=row["finished_at"],
        run_id=row["run_id"],
        usage=row["usage"] or {},
        durations_ms=row["durations_ms"] or {},
        model=row["model"],
    )


def _if_hashed(raw: str, key: str) -> str | None:
    return raw if "=h" in key else None


def outcome_of(value: str | None) -> Outcome | None:
    return None if value is None else Outcome(value)


def _cleaned(text: str | None) -> str | None:
    return None if text is None else clean_text(text)
