"""FAULTS 1, 5, 6, 8, 9, 10, 15, 16, 18, 21, 28, 30, 31 on the turn path: real Temporal, S3 and SQLite, whole product."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import datetime

import pytest

from memory.model.errors import ModelRateLimited, ModelUnavailable, StoreUnavailable
from memory.model.scope import Scope
from memory.model.steps import WriteStatus
from memory.model.turn import MAX_MESSAGE_BYTES, Outcome
from memory.ports import ChatReply, ChatRequest, EventLog, TurnResult
from starter.views import ReceiptStatus
from tests.support.models import ScriptedModel, profile_text
from tests.support.stack import StartStack, make_turn
from tests.support.waiting import until


class Slow(ScriptedModel):
    """Waits at a stage until the test lets it go on."""

    def __init__(self, stage: str, replies: dict[str, object]) -> None:
        super().__init__(replies)  # type: ignore[arg-type]
        self.stage = stage
        self.reached = asyncio.Event()
        self.release = asyncio.Event()

    async def complete(self, request: ChatRequest) -> ChatReply:
        if request.stage == self.stage:
            self.reached.set()
            await self.release.wait()
        return await super().complete(request)


def adds(line: str) -> object:
    """A consolidation that keeps what the prompt shows of the profile and adds one identity bullet."""

    def reply(request: ChatRequest) -> str:
        shown = re.search(r"<profile[^>]*>(.*?)</profile", request.messages[0].text, re.DOTALL)
        assert shown is not None
        known = re.search(r"## Identity\n(.*?)\n\n?## ", shown[1] + "\n## ", re.DOTALL)
        old = [x for x in (known[1] if known else "").splitlines() if x.startswith("- ")]
        return profile_text(identity="\n".join([*old, f"- {line}"]))

    return reply


# ------------------------------------------------------------------------------------------------- 1: lost or duplicated


async def test_a_save_while_the_model_works_survives_the_turn(stack: StartStack) -> None:
    model = Slow("consolidate", {"gate": "UPDATE", "consolidate": adds("Lives in Porto")})
    async with stack(model=model) as s:
        user = s.user()
        turn = await s.say(user, "I live in Porto.")
        async with asyncio.timeout(30):
            await model.reached.wait()
        saved = await s.memory.edit_profile(user, "## Identity\n- My own words\n", expected_etag=None)
        assert saved.status is WriteStatus.SAVED
        model.release.set()
        await s.settle(user)
        view, ledger = await s.profile(user), await s.ledger(user)
    assert "- My own words" in view.body
    assert "- Lives in Porto" in view.body
    assert view.version == 2
    assert ledger[turn].outcome is Outcome.UPDATED
    assert "conflict" in ledger[turn].flags


async def test_two_saves_from_the_same_version_are_a_conflict_that_shows_both(stack: StartStack) -> None:
    async with stack() as s:
        user = s.user()
        await s.memory.edit_profile(user, "## Identity\n- First\n", expected_etag=None)
        read = await s.profile(user)
        one = await s.memory.edit_profile(user, "## Identity\n- Second\n", expected_etag=read.etag)
        other = await s.memory.edit_profile(user, "## Identity\n- Third\n", expected_etag=read.etag)
        now = await s.profile(user)
    assert one.saved
    assert other.status is WriteStatus.CONFLICT
    assert "Third" in (other.yours or "")
    assert "Second" in (other.theirs or "")
    assert "Second" in now.body
    assert "Third" not in now.body


async def test_the_same_turn_twice_is_one(stack: StartStack) -> None:
    async with stack() as s:
        user = s.user()
        turn = make_turn("My name is Ada Keller.")
        first, second = await s.memory.after_answer(user, turn), await s.memory.after_answer(user, turn)
        await s.settle(user)
        third = await s.memory.after_answer(user, turn)
        await s.settle(user)
        view, ledger = await s.profile(user), await s.ledger(user)
    assert [r.status for r in (first, second, third)] == [ReceiptStatus.RECORDED, ReceiptStatus.DUPLICATE, ReceiptStatus.DUPLICATE]
    assert view.version == 1
    assert len(ledger) == 1


async def test_the_profile_fed_back_as_assistant_text_is_not_learned_again(stack: StartStack) -> None:
    async with stack() as s:
        user = s.user()
        await s.say(user, "My name is Ada Keller, I work at Northwind as a data engineer and I live in Lisbon.")
        await s.settle(user)
        first = await s.profile(user)
        for _ in range(20):
            loaded = await s.memory.load(user, allow_user_memory=True)
            await s.say(user, "What do you know about me?", s.memory.system_prompt_section(loaded))
            await s.settle(user)
        last = await s.profile(user)
    assert first.version == 1
    assert last.body == first.body


# --------------------------------------------------------------------------------------------------------- 9, 10: wrong


@pytest.mark.parametrize(
    ("statements", "stays", "gone"),
    [
        (["I live in Lisbon.", "I moved to Porto."], "Porto", "Lisbon"),
        (["I work at Northwind.", "I no longer work at Northwind, I work at Fabrikam now."], "Fabrikam", "Northwind"),
        (["Ich wohne in Köln.", "Ich bin nach Bremen umgezogen."], "Bremen", "Köln"),
        (["My favourite editor is Emacs.", "Actually, my favourite editor is Helix now."], "Helix", "Emacs"),
    ],
)
async def test_the_newest_statement_wins_and_the_old_one_goes(
    stack: StartStack, statements: Sequence[str], stays: str, gone: str
) -> None:
    async with stack() as s:
        user = s.user()
        for statement in statements:
            await s.say(user, statement)
            await s.settle(user)
        body = (await s.profile(user)).body
    assert stays in body
    assert not re.search(rf"^- .*\b{gone}\b(?!.*{stays})", body, re.MULTILINE)


# ------------------------------------------------------------------------------------------------ 15, 16, 30: odd input


async def test_odd_turns_reach_an_outcome(stack: StartStack) -> None:
    async with stack() as s:
        user = s.user()
        surrogate = await s.memory.after_answer(
            user, {"turn_id": "a", "user_text": "My name is Ada \ud83d.", "allow_user_memory": True}
        )
        nul = await s.say(user, "I live in \x00 Porto.")
        only_tool_call = await s.say(user, "I work at Northwind.", None)
        nothing = await s.say(user, None, None)
        await s.settle(user)
        view, ledger = await s.profile(user), await s.ledger(user)
    assert surrogate.status is not ReceiptStatus.LOST
    assert ledger[nul].outcome is Outcome.UPDATED
    assert ledger[only_tool_call].outcome is Outcome.UPDATED
    assert (ledger[nothing].outcome, ledger[nothing].reason) == (Outcome.NOOP, "empty_exchange")
    assert "\x00" not in view.body
    assert "Northwind" in view.body


async def test_three_megabytes_are_refused_clearly_and_one_is_handled(stack: StartStack) -> None:
    async with stack() as s:
        user = s.user()
        refused = await s.memory.after_answer(user, make_turn("x" * (3 * 1024 * 1024)))
        big = "I live in Porto. " + "word " * ((MAX_MESSAGE_BYTES - 40) // 5)
        kept = await s.say(user, big)
        await s.settle(user)
        ledger = await s.ledger(user)
    assert refused.status is ReceiptStatus.REFUSED
    assert "1048576" in (refused.reason or "") or "1 MiB" in (refused.reason or "")
    assert list(ledger) == [kept]
    assert ledger[kept].outcome in {Outcome.UPDATED, Outcome.NOOP}


# -------------------------------------------------------------------------------------------------------- 18, 21: users


HOSTILE = ["../x", "a/b", "%2e%2e", "nul\x00", ".hidden", "y" * 1000, "🧠", "..", "memory.md"]


async def test_hostile_ids_neither_leave_their_folder_nor_meet(stack: StartStack) -> None:
    async with stack() as s:
        users = [Scope.of("acme", raw) for raw in HOSTILE]
        for number, user in enumerate(users):
            await s.say(user, f"My name is Person{number}.")
        await s.settle(*users)
        bodies = [(await s.profile(user)).body for user in users]
    for number, body in enumerate(bodies):
        assert set(re.findall(r"Person\d+", body)) == {f"Person{number}"}


async def test_fifty_users_at_once_do_not_mix(stack: StartStack) -> None:
    async with stack() as s:
        users = [s.user(f"u{n}") for n in range(50)]

        async def talk(number: int) -> None:
            await s.say(users[number], f"My name is Person{number}. I live in City{number}.")
            await s.say(users[number], "Thanks!")
            await s.say(users[number], f"I work at Company{number}.")

        await asyncio.gather(*(talk(n) for n in range(50)))
        await s.settle(*users, timeout_s=90)
        for number, user in enumerate(users):
            view, ledger = await s.profile(user), await s.ledger(user)
            assert set(re.findall(r"(?:Person|City|Company)(\d+)", view.body)) == {str(number)}
            assert len(ledger) == 3
            assert all(row.state == "done" for row in ledger.values())


# ------------------------------------------------------------------------------------- 5: a record lost after its effect


class LosesOutcomes:
    """An event log that cannot record outcomes until the test lets it."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.lost = asyncio.Event()
        self.back = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)

    async def finish(self, scope: Scope, results: Sequence[TurnResult], *, now: datetime) -> int:
        if not self.back:
            self.lost.set()
            raise StoreUnavailable("away")
        return await self._log.finish(scope, results, now=now)


async def test_a_turn_whose_outcome_was_lost_after_its_upload_is_not_written_again(stack: StartStack) -> None:
    model = ScriptedModel({"gate": "UPDATE", "consolidate": adds("Lives in Porto")})  # type: ignore[dict-item]
    async with stack(workers=False) as s:
        log = LosesOutcomes(s.parts.log)
        async with stack(model=model, parts={"log": log}) as working:
            user = s.user()
            turn = await working.say(user, "I live in Porto.")
            async with asyncio.timeout(30):
                await log.lost.wait()
            # The run is gone for good, with all that it knew.
            await working.client.get_workflow_handle(user.post_answer_workflow_id).terminate()
            log.back = True
            await working.parts.waker.wake(user, (turn,))
            await working.settle(user)
            view, ledger = await working.profile(user), await working.ledger(user)
    assert view.version == 1
    assert view.body.count("Lives in Porto") == 1
    assert (ledger[turn].outcome, ledger[turn].profile_version) == (Outcome.UPDATED, 1)
    assert "already_applied" in ledger[turn].flags
    assert len(model.asked("gate")) == len(model.asked("consolidate")) == 1


# ---------------------------------------------------------------------------------------------------- 28: rate limits


@pytest.mark.parametrize("retry_after", [None, 0.2])
async def test_rate_limits_in_the_middle_are_waited_for(stack: StartStack, retry_after: float | None) -> None:
    limited = ModelRateLimited("429", retry_after)
    model = ScriptedModel({"gate": [limited, "UPDATE"], "consolidate": [limited, limited, adds("Lives in Porto")]})  # type: ignore[dict-item]
    async with stack(model=model) as s:
        user = s.user()
        turn = await s.say(user, "I live in Porto.")
        await s.settle(user)
        view, ledger = await s.profile(user), await s.ledger(user)
    assert ledger[turn].outcome is Outcome.UPDATED
    assert view.version == 1
    assert len(model.asked("consolidate")) == 3


async def test_a_model_that_stays_away_keeps_the_profile_and_a_rerun_brings_the_turn_home(stack: StartStack) -> None:
    down = ModelUnavailable("503")
    model = ScriptedModel({"gate": "UPDATE", "consolidate": [down, down, down, down, adds("Lives in Porto")]})  # type: ignore[dict-item]
    async with stack(model=model, model_retry_for_s=0) as s:
        user = s.user()
        turn = await s.say(user, "I live in Porto.")
        await s.settle(user, timeout_s=90)
        kept, before = (await s.ledger(user))[turn], await s.profile(user)
        await s.memory.rerun(scope=user)
        await s.settle(user)
        done, after = (await s.ledger(user))[turn], await s.profile(user)
    assert (kept.outcome, kept.reason) == (Outcome.KEPT, "consolidate_failed:ModelUnavailable")
    assert not before.exists
    assert (done.outcome, done.attempt) == (Outcome.UPDATED, 1)
    assert "Lives in Porto" in after.body


# ------------------------------------------------------------------------------------------------------ sweeping, opting out


async def test_turns_recorded_while_nobody_could_be_told_are_started_by_the_sweeper(stack: StartStack) -> None:
    from activities.sweep import SweepActivities
    from memory.model.steps import SweepInput

    async with stack() as s:
        user = s.user()
        turn = make_turn("My name is Ada Keller.")
        await s.parts.log.record_turn(user, turn, now=turn.occurred_at)
        sweeper = SweepActivities(
            s.parts.log,
            s.parts.directory,
            s.parts.profiles,
            s.parts.waker,
            ledger=s.parts.ledger,
            loops=s.parts.loops,
            index=s.parts.index,
            meter=s.parts.meter,
            rules=s.parts.window_rules,
        )
        report = await sweeper.sweep(SweepInput(grace_s=0))
        await s.settle(user)
        ledger = await s.ledger(user)
        again = await sweeper.sweep(SweepInput(grace_s=0))
    assert report.users_started == 1
    assert ledger[turn.turn_id].outcome is Outcome.UPDATED
    assert again.users_started == 0


async def test_opting_out_between_the_answer_and_the_run_skips_the_turn(stack: StartStack) -> None:
    async with stack(workers=False) as s:
        user = s.user()
        turn = await s.say(user, "My name is Ada Keller.")
        await s.memory.set_preference(user, allow_user_memory=False)
        async with stack() as working:
            await working.settle(user)
            ledger, view = await working.ledger(user), await working.profile(user)
        refused = await s.memory.after_answer(user, make_turn("I live in Porto."))
        loaded = await s.memory.load(user, allow_user_memory=True)
    assert ledger[turn].outcome is Outcome.SKIPPED
    assert not view.exists
    assert refused.status is ReceiptStatus.SKIPPED
    assert not loaded.active


async def test_the_model_is_not_kept_busy_for_users_that_are_waiting_for_nothing(stack: StartStack) -> None:
    model = ScriptedModel({"gate": "NOOP"})
    async with stack(model=model) as s:
        user = s.user()
        for _ in range(3):
            await s.say(user, "Nice weather today.")
        await s.settle(user)
        await until(lambda: len(model.asked("gate")) >= 1)
        ledger = await s.ledger(user)
    assert {row.outcome for row in ledger.values()} == {Outcome.NOOP}
    assert model.asked("consolidate") == []
