"""FAULTS 2, 8, 9, 10, 11, 12, 13, 14: whatever a model says, the result is the old profile or a complete, checked new one."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from memory.consolidation import Consolidation, Consolidator, Rules
from memory.gate import ask_gate
from memory.model.directory import ConsolidationMode
from memory.model.errors import ModelRejected, ModelUnavailable
from memory.model.profile import EMPTY_PROFILE, Profile, parse_body, render_body
from memory.model.turn import Turn
from memory.ports import ChatReply, StopReason, Usage
from tests.support.models import Reply, ScriptedModel, Words, cut, profile_text

AT = datetime(2026, 6, 17, 12, 0, tzinfo=UTC)
OLD = parse_body(
    profile_text(
        identity="- Name: Ada Keller\n- Works at Northwind as a data engineer\n- Lives in Lisbon",
        preferences="- Prefers short answers\n- Wants examples in Python",
        work="- Builds the invoice pipeline, due in September",
        follow_ups="- Send the report to the team by Friday",
    )
)
GOOD = profile_text(
    identity="- Name: Ada Keller\n- Works at Northwind as a data engineer\n- Lives in Porto",
    preferences="- Prefers short answers\n- Wants examples in Python",
    work="- Builds the invoice pipeline, due in September",
    follow_ups="- Send the report to the team by Friday",
)


def said(user: str | None, assistant: str | None = "Noted.") -> Turn:
    return Turn(turn_id="t1", user_text=user, assistant_text=assistant, occurred_at=AT, allow_user_memory=True)


MOVED = said("I moved to Porto last week.")


async def consolidate(
    replies: Reply | list[Reply],
    *,
    old: Profile = OLD,
    turn: Turn = MOVED,
    mode: ConsolidationMode = ConsolidationMode.REWRITE,
    max_tokens: int = 2000,
    scrub: Reply | None = None,
    **more: Reply | list[Reply],
) -> tuple[Consolidation, ScriptedModel]:
    script: dict[str, Reply | list[Reply]] = {"consolidate": replies, "repair": replies, **more}
    if scrub is not None:
        script["scrub"] = scrub
    model = ScriptedModel(script)
    rules = Rules(mode, max_tokens, scrub is not None, 0.5, 2, 5.0)
    result = await Consolidator(model, Words(), rules).run(old, [turn], now=AT)
    return result, model


def bullets(result: Consolidation) -> str:
    assert result.profile is not None
    return render_body(result.profile)


# ------------------------------------------------------------------------------------------------------------ 2, 12, 13


@pytest.mark.parametrize(
    "wrapped",
    [
        GOOD,
        f"```markdown\n{GOOD}```",
        f"````\n```md\n{GOOD}```\n````",
        f"Here is the updated profile:\n\n{GOOD}",
        f"<think>Should I keep Lisbon? No.</think>\n{GOOD}",
        f"---\nuser_id: intruder\nturn_count: 999\n---\n\n# User Memory\n\n{GOOD}",
        f"{GOOD}\n\nLet me know if you would like any other change!",
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,
    ],
)
async def test_wrapping_around_a_good_profile_is_taken_off(wrapped: str) -> None:
    result, _ = await consolidate(wrapped)
    assert result.profile == parse_body(GOOD)
    assert result.kept is None


@pytest.mark.parametrize("length", [10, 60, 200, 300])
async def test_a_reply_cut_at_its_limit_is_never_stored_however_well_it_parses(length: int) -> None:
    result, model = await consolidate(cut(GOOD[: len(GOOD) - length]))
    assert result.profile is None
    assert result.kept == "malformed_output"
    (retried,) = model.asked("repair")
    assert retried.max_output_tokens > model.asked("consolidate")[0].max_output_tokens


async def test_after_a_cut_reply_the_retry_with_more_room_is_stored_whole() -> None:
    result, _ = await consolidate(cut(GOOD[:-40]), repair=GOOD)
    assert result.profile == parse_body(GOOD)
    assert "repaired" in result.flags


async def test_a_profile_that_stops_after_its_last_heading_is_repaired_or_kept_out() -> None:
    # The provider says "end", and all six headings are there: only the guard sees that the bullets are gone.
    beheaded = profile_text()
    result, model = await consolidate(beheaded, repair=beheaded)
    assert result.profile is None
    assert result.kept == "loss_guard"
    assert "loss_guard" in result.flags
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "   \n",
        "Sorry, I can't help with that.",
        GOOD.replace("## Skills & Expertise", "Skills"),
        GOOD.split("## Recent Topics")[0],
        "<think>thinking without an end about the profile",
        '{"profile": "no"}',
        "null",
    ],
)
async def test_what_does_not_parse_is_repaired_once_then_the_old_profile_is_kept(broken: str) -> None:
    result, model = await consolidate(broken)
    assert (result.profile, result.kept) == (None, "malformed_output")
    assert [request.stage for request in model.requests] == ["consolidate", "repair"]


async def test_the_repair_attempt_says_what_was_wrong() -> None:
    result, model = await consolidate(GOOD.replace("## Follow-ups", ""), repair=GOOD)
    assert result.profile == parse_body(GOOD)
    assert "Follow-ups" in model.asked("repair")[0].messages[-1].text


@pytest.mark.parametrize("reply", ["NOOP", "noop.", "`NOOP`", "<think>UPDATE?</think> NOOP"])
async def test_noop_leaves_the_profile_alone(reply: str) -> None:
    result, _ = await consolidate(reply)
    assert (result.profile, result.kept) == (None, None)


async def test_a_rewrite_that_changes_nothing_is_a_noop() -> None:
    result, _ = await consolidate(render_body(OLD))
    assert (result.profile, result.kept) == (None, None)


async def test_a_refusal_is_an_error_that_is_not_retried() -> None:
    refusal = ChatReply("I can't.", StopReason.REFUSED, Usage(1, 1), "scripted:test")
    with pytest.raises(ModelRejected):
        await consolidate(refusal)


@pytest.mark.parametrize(
    "edits",
    [
        '{"edits": [{"op": "update", "target": "I3", "text": "Lives in Porto"}]}',
        '```json\n{"edits": [{"op": "update", "target": "I3", "text": "Lives in Porto"}]}\n```',
        'Sure! {"edits": [{"op": "update", "target": "I3", "text": "Lives in Porto"}]} Done.',
    ],
)
async def test_edits_change_what_they_name_and_nothing_else(edits: str) -> None:
    result, _ = await consolidate(edits, mode=ConsolidationMode.EDITS)
    assert result.profile == parse_body(GOOD)


@pytest.mark.parametrize(
    "edits",
    [
        '{"edits": [{"op": "delete", "target": "I99"}]}',
        '{"edits": [{"op": "update", "target": "I3"',
        '{"edits": [{"op": "drop_everything"}]}',
        '{"edits": "none"}',
        "",
    ],
)
async def test_edits_that_do_not_fit_delete_nothing(edits: str) -> None:
    result, _ = await consolidate(edits, mode=ConsolidationMode.EDITS)
    assert (result.profile, result.kept) == (None, "malformed_output")


# ------------------------------------------------------------------------------------------------------- loss and budget


async def test_a_loss_that_the_turn_does_not_explain_is_refused_with_an_explanation_and_then_accepted_whole() -> None:
    forgetful = profile_text(identity="- Lives in Porto")
    result, model = await consolidate(forgetful, loss=GOOD, repair=GOOD)
    assert result.profile == parse_body(GOOD)
    assert "loss_guard" in result.flags
    assert any("Ada Keller" in request.messages[-1].text for request in model.requests[1:])


async def test_a_loss_that_the_user_asked_for_is_no_loss() -> None:
    turn = said("Please forget everything you know about me.")
    result, _ = await consolidate(profile_text(), turn=turn)
    assert result.profile == EMPTY_PROFILE


async def test_over_budget_the_model_condenses_and_an_invention_is_not_taken() -> None:
    long = profile_text(
        identity="- Name: Ada Keller", work="\n".join(f"- Task number {n} of the invoice project is open" for n in range(80))
    )
    invented = profile_text(identity="- Name: Ada Keller", work="- Runs the Zanzibar project with 4711 people")
    fine = profile_text(identity="- Name: Ada Keller", work="- Many open tasks of the invoice project")
    turn = said("Here is what is open in my invoice project …")
    result, _ = await consolidate(long, turn=turn, max_tokens=200, condense=invented, old=EMPTY_PROFILE)
    assert "Zanzibar" not in bullets(result)
    assert "truncated" in result.flags
    assert Words().count(bullets(result)) <= 200
    result, _ = await consolidate(long, turn=turn, max_tokens=200, condense=fine, old=EMPTY_PROFILE)
    assert "condensed" in result.flags


async def test_a_condense_call_that_fails_does_not_lose_the_rewrite() -> None:
    long = profile_text(
        identity="- Name: Ada Keller", topics="\n".join(f"- 2026-06-{n:02} 10:00 UTC: asked about topic {n}" for n in range(1, 29))
    )
    result, _ = await consolidate(
        long, turn=said("My name is Ada Keller."), max_tokens=100, condense=ModelUnavailable("503"), old=EMPTY_PROFILE
    )
    assert "condense_failed" in result.flags
    assert "Name: Ada Keller" in bullets(result)
    assert Words().count(bullets(result)) <= 100


# ----------------------------------------------------------------------------------------------------- secrets and people


async def test_a_secret_in_the_turn_reaches_no_prompt_and_one_in_the_reply_no_profile() -> None:
    key = "sk-ant-api03-" + "A1b2C3d4" * 8
    leaky = GOOD.replace("- Wants examples in Python", f"- Wants examples in Python\n- API key {key}")
    result, model = await consolidate(leaky, turn=said(f"I moved to Porto. My key is {key}", f"Your key {key} is noted"))
    assert all(key not in message.text for request in model.requests for message in request.messages)
    assert key not in bullets(result)
    assert "redacted" in result.flags


async def test_the_privacy_pass_can_clean_vouch_or_keep_the_old_profile() -> None:
    gossip = GOOD.replace("- Builds the invoice", "- Her client Bob Stone, bob@stone.example, is in debt\n- Builds the invoice")
    result, _ = await consolidate(gossip, scrub=GOOD)
    assert "Stone" not in bullets(result)
    assert "scrubbed" in result.flags
    result, _ = await consolidate(GOOD, scrub="CLEAN")
    assert result.profile == parse_body(GOOD)
    for cannot_vouch in ("", "I am not sure.", cut(GOOD), GOOD + "\n- and Eve Adams was added with 12345"):
        result, _ = await consolidate(gossip, scrub=cannot_vouch)
        assert (result.profile, result.kept) == (None, "privacy_scrub")


# ------------------------------------------------------------------------------------------------------------ 11, 14, gate


async def test_an_empty_exchange_makes_no_call() -> None:
    result, model = await consolidate("must not be asked", turn=said(None, None))
    assert (result.profile, result.kept, model.requests) == (None, None, [])


async def test_a_turn_that_is_only_a_tool_call_is_fine() -> None:
    result, _ = await consolidate(GOOD, turn=said("I moved to Porto.", None))
    assert result.profile is not None


@pytest.mark.parametrize("text", ["我住在上海，我是一名护士。", "Ich wohne in Köln und arbeite als Pflegerin."])
async def test_the_language_of_the_user_is_kept_on_the_way(text: str) -> None:
    result, model = await consolidate(profile_text(identity=f"- {text}"), turn=said(text), old=EMPTY_PROFILE)
    assert f"- {text}" in bullets(result)
    assert text in model.requests[0].messages[-1].text


@pytest.mark.parametrize(
    ("reply", "update"),
    [("NOOP", False), ("noop", False), ("UPDATE", True), ("", True), ("maybe", True), ("UPDATE or NOOP", True), (cut("NO"), True)],
)
async def test_only_an_explicit_noop_closes_the_gate(reply: Reply, update: bool) -> None:
    decision = await ask_gate(ScriptedModel({"gate": reply}), OLD, [MOVED], timeout_s=5)
    assert decision.update is update


async def test_a_reasoning_model_gets_room_to_think_at_the_gate() -> None:
    plain, reasoning = ScriptedModel({"gate": "NOOP"}), ScriptedModel({"gate": "NOOP"}, reasoning=True)
    for model in (plain, reasoning):
        await ask_gate(model, OLD, [MOVED], timeout_s=5)
    assert reasoning.requests[0].max_output_tokens > 10 * plain.requests[0].max_output_tokens


async def test_a_hand_made_profile_far_over_budget_is_cut_before_it_goes_to_a_model() -> None:
    huge = parse_body(profile_text(identity="- Name: Ada Keller", work="\n".join(f"- Project number {n}" for n in range(20_000))))
    result, model = await consolidate("NOOP", old=huge, max_tokens=500)
    assert Words().count(model.requests[0].messages[0].text) < 2000
    assert "Ada Keller" in model.requests[0].messages[0].text
    assert (result.profile, result.kept, result.flags) == (None, None, ("input_cut",))


# ---------------------------------------------------------------------------------------- what the second calls may not do


KEY = "sk-ant-api03-" + "A1b2C3d4" * 8
BLANK = profile_text()


@pytest.mark.parametrize(
    "verdict",
    [
        BLANK,
        profile_text(identity="- Lives in Porto", preferences="- Prefers short answers"),
        GOOD.replace("- Name: Ada Keller\n- Works at Northwind as a data engineer\n- Lives in Porto", "_(empty)_"),
        GOOD.replace("- Prefers short answers\n- Wants examples in Python", "_(empty)_"),
        GOOD[: GOOD.index("report to") + 3],
    ],
)
async def test_a_privacy_pass_that_takes_much_away_does_not_vouch_for_the_profile(verdict: str) -> None:
    result, _ = await consolidate(GOOD, scrub=verdict)
    assert (result.profile, result.kept) == (None, "privacy_scrub")


async def test_a_privacy_pass_may_rephrase_and_shorten() -> None:
    told = GOOD.replace("- Builds the", "- Reviews the portfolios of the clients Bob Stone and Eve Adams\n- Builds the")
    cleaned = GOOD.replace("- Builds the", "- Reviews portfolios of clients\n- Builds the")
    result, _ = await consolidate(told, scrub=cleaned)
    assert result.profile == parse_body(cleaned)


async def test_a_secret_that_the_privacy_pass_gives_back_is_taken_out() -> None:
    # The secret is made of two bullets of the profile, so it is no invention of the pass.
    work = "- Builds the invoice pipeline, due in September"
    split = GOOD.replace(work, f"{work}\n- The first word is password\n- The second word is Wq7hunter2")
    joined = GOOD.replace(work, f"{work}\n- The first word is password\n- password: Wq7hunter2")
    result, _ = await consolidate(split, scrub=joined)
    assert "hunter2" not in bullets(result)
    assert {"scrubbed", "redacted"} <= set(result.flags)


async def test_a_secret_that_condensing_gives_back_is_taken_out() -> None:
    tasks = "\n".join(f"- Task number {n} of the invoice project is open" for n in range(80))
    long = profile_text(
        identity="- Name: Ada Keller", work=f"{tasks}\n- The first word is password\n- The second word is Wq7hunter2"
    )
    short = profile_text(identity="- Name: Ada Keller", work="- Many open tasks of the invoice project\n- password: Wq7hunter2")
    result, _ = await consolidate(long, turn=said("My name is Ada Keller"), max_tokens=200, condense=short, old=EMPTY_PROFILE)
    assert "hunter2" not in bullets(result)
    assert {"condensed", "redacted"} <= set(result.flags)


async def test_condensing_may_not_lose_who_the_user_is() -> None:
    tasks = "\n".join(f"- Task number {n} of the invoice project is open" for n in range(80))
    long = GOOD.replace("- Builds the invoice pipeline, due in September", tasks)
    lossy = profile_text(
        identity="- Lives in Porto", preferences="- Prefers short answers", work="- Many open tasks of the invoice project"
    )
    result, _ = await consolidate(long, max_tokens=200, condense=lossy)
    assert {"condense_refused", "truncated"} <= set(result.flags)
    assert "condensed" not in result.flags
    for name in ("Identity", "Communication Preferences"):
        assert result.profile is not None
        assert result.profile.section(name) == parse_body(GOOD).section(name)
    assert Words().count(bullets(result)) <= 200


async def test_two_halves_are_not_lost_one_after_the_other() -> None:
    four = "- Name: Ada Keller\n- Works at Northwind as a data engineer\n- Lives in Lisbon\n- Speaks Portuguese"
    old = parse_body(profile_text(identity=four))
    tasks = "\n".join(f"- Task number {n} of the invoice project is open" for n in range(80))
    half = profile_text(identity="- Name: Ada Keller\n- Lives in Lisbon", work=tasks)
    quarter = profile_text(identity="- Name: Ada Keller", work="- Many open tasks of the invoice project")
    result, _ = await consolidate(half, old=old, turn=said("I have many tasks."), max_tokens=200, condense=quarter)
    assert "condense_refused" in result.flags
    assert "Lives in Lisbon" in bullets(result)


# ------------------------------------------------------------------------------------------------------------ 11, 12 again


THREE_TO_DO = "- Send the report to the team by Friday\n- Book the hotel for the offsite\n- Call the tax adviser about the return"


@pytest.mark.parametrize("missing", [3, 20, 38, 42, 60, 80])
async def test_a_reply_that_ends_early_though_the_provider_says_it_is_complete_is_not_stored(missing: int) -> None:
    old = parse_body(profile_text(identity="- Name: Ada Keller", follow_ups=THREE_TO_DO))
    whole = profile_text(identity="- Name: Ada Keller\n- Lives in Porto", follow_ups=THREE_TO_DO)
    early = whole.rstrip()[:-missing]
    result, model = await consolidate(early, old=old, loss=early)
    assert result.profile is None
    assert result.kept in ("malformed_output", "loss_guard")
    result, _ = await consolidate([early, whole], old=old, repair=whole)
    assert result.profile == parse_body(whole)
    assert len(model.requests) == 2


async def test_an_emptied_section_outside_of_the_core_is_sent_back() -> None:
    work = "- Builds the invoice pipeline\n- Plans the move to Kafka\n- Wants to lead the platform team"
    old = parse_body(profile_text(identity="- Name: Ada Keller", work=work))
    emptied = profile_text(identity="- Name: Ada Keller\n- Lives in Porto")
    result, _ = await consolidate(emptied, old=old)
    assert (result.profile, result.kept) == (None, "loss_guard")
    done = said("The invoice pipeline is done, the move to Kafka is cancelled, and I no longer want to lead the platform team.")
    result, _ = await consolidate(profile_text(identity="- Name: Ada Keller"), old=old, turn=done)
    assert result.kept is None
    assert "Kafka" not in bullets(result)


async def test_a_swapped_person_is_not_stored() -> None:
    other = GOOD.replace("Ada Keller", "Bernd Maier").replace("Northwind", "Contoso").replace("Porto", "Berlin")
    result, _ = await consolidate(other, turn=said("What is the capital of Portugal?"))
    assert (result.profile, result.kept) == (None, "loss_guard")


ECHOES = [
    "name, role, employer, team, place, time zone, language.",
    "**Identity:** name, role, employer, team, place, time zone, language",
    "Only tasks the user committed to or asked to be reminded of",
    "ADD durable facts the user states about themselves.",
    "A short log of what fits nowhere else, newest last",
    "Answer with that one word, UPDATE or NOOP.",
    "2026-06-17 12:00 UTC: a short log of what fits nowhere else",
]


@pytest.mark.parametrize("echo", ECHOES)
async def test_text_of_the_prompt_is_not_stored(echo: str) -> None:
    result, _ = await consolidate(GOOD.replace("- Name: Ada", f"- {echo}\n  - Likes tea\n- Name: Ada"))
    assert result.profile is not None
    assert result.profile.section("Identity")[0].text == "Likes tea"
    assert "prompt_echo" in result.flags
    edit = json.dumps({"edits": [{"op": "add", "to": "I", "text": echo}]})
    result, _ = await consolidate(edit, mode=ConsolidationMode.EDITS)
    assert (result.profile, result.kept, result.flags) == (None, None, ("prompt_echo",))


async def test_the_users_own_words_are_no_echo_of_the_prompt() -> None:
    text = "name, role, employer, team, place, time zone, language"
    told = GOOD.replace("- Builds", f"- Form fields: {text}\n- {text}\n- Builds")
    result, _ = await consolidate(told, turn=said(f"I moved to Porto. My form has these fields: {text}."))
    assert result.profile == parse_body(told)
    result, _ = await consolidate(told, old=parse_body(told.replace("Porto", "Lisbon")))
    assert result.profile == parse_body(told)
    assert "prompt_echo" not in result.flags
