"""The statements of the hot paths, built once per dialect: SQLAlchemy then only binds the values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Executable, Select, and_, bindparam, func, insert, literal, literal_column, select, true, update
from sqlalchemy.dialects import postgresql, sqlite

from memory.model.enablement import ReasonCode
from memory.stores.tables.rows import EVENTS, PREFERENCES, ROOTS, SPACES, TURNS, USER_COUNTERS
from memory.stores.tables.rows_api import ERASED_USERS
from memory.stores.tables.rows_window import TEAM_MEMBERS

# A literal, not a parameter: only then can the planner use the partial indexes.
IS_PENDING = TURNS.c.state == literal_column("'pending'")
IS_KEPT = TURNS.c.outcome == literal_column("'kept'")
IS_SKIPPED = and_(
    TURNS.c.outcome == literal_column("'skipped'"),
    func.coalesce(TURNS.c.reason, "").not_like(f"%{ReasonCode.USER_OPTED_OUT.value.replace('_', '!_')}%", escape="!"),
)
"""But not by the user's own wish."""

_USER = EVENTS.alias("user_event")
_ASSISTANT = EVENTS.alias("assistant_event")

SAID = "said"
"""Prefix of the text columns in :data:`TURN_WITH_TEXT`."""


def _side(event: Any, seq: Any) -> Any:
    return and_(event.c.tenant == TURNS.c.tenant, event.c.user_id == TURNS.c.user_id, event.c.seq == seq)


def turns_with_text() -> Select[Any]:
    """Ledger rows with ``said_user`` and ``said_assistant``, the texts of their events."""
    return select(TURNS, _USER.c.content.label("said_user"), _ASSISTANT.c.content.label("said_assistant")).select_from(
        TURNS.outerjoin(_USER, _side(_USER, TURNS.c.user_seq)).outerjoin(_ASSISTANT, _side(_ASSISTANT, TURNS.c.assistant_seq))
    )


def of_user(table: Any) -> Any:
    """``WHERE`` of one user's rows; binds ``b_tenant`` and ``b_user``."""
    return and_(table.c.tenant == bindparam("b_tenant"), table.c.user_id == bindparam("b_user"))


PENDING = turns_with_text().where(of_user(TURNS), IS_PENDING).order_by(TURNS.c.ordinal).limit(bindparam("b_limit"))
BY_KEY = (
    turns_with_text().where(of_user(TURNS), TURNS.c.turn_key.in_(bindparam("b_keys", expanding=True))).order_by(TURNS.c.ordinal)
)
FIND_TURN = select(TURNS.c.ordinal, TURNS.c.outcome).where(of_user(TURNS), TURNS.c.turn_key == bindparam("b_key"))
INSERT_EVENTS = insert(EVENTS)
KNOWN_EVENTS = select(EVENTS.c.event_key).where(of_user(EVENTS), EVENTS.c.event_key.in_(bindparam("b_keys", expanding=True)))
COUNTERS = select(USER_COUNTERS).where(of_user(USER_COUNTERS))

FINISH = (
    update(TURNS)
    .where(of_user(TURNS), TURNS.c.turn_key == bindparam("b_key"), TURNS.c.attempt == bindparam("b_attempt"), IS_PENDING)
    .values(
        state="done",
        **{
            name: bindparam(f"v_{name}", type_=TURNS.c[name].type)
            for name in (
                "outcome",
                "reason",
                "flags",
                "usage",
                "durations_ms",
                "model",
                "profile_version",
                "run_id",
                "workflow_id",
                "finished_at",
            )
        },
    )
    .returning(TURNS.c.recorded_at, TURNS.c.attempt)
)
_SOME_PENDING = select(TURNS.c.recorded_at).where(IS_PENDING).limit(bindparam("b_limit")).subquery("some_pending")
WAITING = select(func.count(), func.min(_SOME_PENDING.c.recorded_at))
"""Read from the index of pending turns alone."""

_ONE = select(literal(1).label("one")).subquery("one")
IS_ERASED_USER = and_(ERASED_USERS.c.tenant == bindparam("b_tenant"), ERASED_USERS.c.user_hash == bindparam("b_user_hash"))
FORGETTING = select(ERASED_USERS.c.forgetting).where(IS_ERASED_USER)
FACTS = select(
    SPACES.c.settings,
    PREFERENCES.c.allow_user_memory,
    ROOTS.c.folder,
    ERASED_USERS.c.forgetting,
    ERASED_USERS.c.forgotten_before,
).select_from(
    _ONE.outerjoin(SPACES, and_(SPACES.c.tenant == bindparam("b_tenant"), SPACES.c.space_key == bindparam("b_space")))
    .outerjoin(PREFERENCES, of_user(PREFERENCES))
    .outerjoin(ERASED_USERS, IS_ERASED_USER)
    .outerjoin(ROOTS, and_(ROOTS.c.tenant == bindparam("b_tenant"), ROOTS.c.active == true()))
)
"""One row per active root, and one row without a root when there is none."""

MEMBERSHIPS = (
    select(TEAM_MEMBERS.c.team_key, TEAM_MEMBERS.c.team_id_long, TEAM_MEMBERS.c.can_write)
    .where(of_user(TEAM_MEMBERS))
    .order_by(TEAM_MEMBERS.c.team_key)
)


@dataclass(frozen=True, slots=True)
class Writes:
    """Statements with ``ON CONFLICT``."""

    take_numbers: Executable
    """Gives out ``b_turns`` ordinals and ``b_events`` sequence numbers; holds the user's row until commit.

    ``b_at``: the time of the newest event; null where there is none.
    """
    insert_turn: Executable
    """Returns the ordinal, or no row where the turn id is there already."""
    save_space: Executable
    save_preference: Executable
    save_root: Executable
    """``active`` of an existing root is overwritten."""
    save_team: Executable
    """``can_write`` of an existing membership is overwritten."""


def writes(dialect_name: str) -> Writes:
    upsert: Any = sqlite.insert if dialect_name == "sqlite" else postgresql.insert
    numbers = upsert(USER_COUNTERS).values(
        tenant=bindparam("b_tenant"),
        user_id=bindparam("b_user"),
        last_seq=bindparam("b_events"),
        last_ordinal=bindparam("b_turns"),
        waiting=bindparam("b_events"),
        last_event_at=bindparam("b_at"),
        text_since=bindparam("b_at"),
    )
    spaces, preferences, roots, teams = upsert(SPACES), upsert(PREFERENCES), upsert(ROOTS), upsert(TEAM_MEMBERS)
    return Writes(
        take_numbers=numbers.on_conflict_do_update(
            index_elements=["tenant", "user_id"],
            set_={
                "last_seq": USER_COUNTERS.c.last_seq + numbers.excluded.last_seq,
                "last_ordinal": USER_COUNTERS.c.last_ordinal + numbers.excluded.last_ordinal,
                "waiting": USER_COUNTERS.c.waiting + numbers.excluded.waiting,
                "last_event_at": func.coalesce(numbers.excluded.last_event_at, USER_COUNTERS.c.last_event_at),
                "text_since": func.coalesce(USER_COUNTERS.c.text_since, numbers.excluded.text_since),
            },
        ).returning(USER_COUNTERS.c.last_seq, USER_COUNTERS.c.last_ordinal, USER_COUNTERS.c.waiting),
        insert_turn=upsert(TURNS)
        .on_conflict_do_nothing(index_elements=["tenant", "user_id", "turn_key"])
        .returning(TURNS.c.ordinal),
        save_space=spaces.on_conflict_do_update(
            index_elements=["tenant", "space_key"], set_={"settings": spaces.excluded.settings}
        ),
        save_preference=preferences.on_conflict_do_update(
            index_elements=["tenant", "user_id"], set_={"allow_user_memory": preferences.excluded.allow_user_memory}
        ),
        save_root=roots.on_conflict_do_update(index_elements=["tenant", "folder"], set_={"active": roots.excluded.active}),
        save_team=teams.on_conflict_do_update(
            index_elements=["tenant", "user_id", "team_key"], set_={"can_write": teams.excluded.can_write}
        ),
    )
