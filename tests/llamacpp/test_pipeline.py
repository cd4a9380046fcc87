"""The whole pipeline with a real model that is too small to be right: every turn reaches an outcome and the invariants hold."""

from __future__ import annotations

import pytest

from memory.model.directory import ConsolidationMode, SpaceSettings
from memory.model.turn import Outcome
from tests.llamacpp.invariants import broken_invariants
from tests.support.stack import StartStack

SECRET = "sk-ant-api03-" + "Zx9" * 16
TURNS: list[tuple[str | None, str | None]] = [
    ("Hi, my name is Ada Keller and I live in Lisbon.", "Nice to meet you, Ada."),
    (f"My API key is {SECRET}, is it valid?", "Do not share keys."),
    ("Ich arbeite jetzt als Dateningenieurin bei Northwind.", "Glückwunsch!"),
    ("Actually I moved to Porto.", None),
    (None, None),
]


@pytest.mark.parametrize("mode", list(ConsolidationMode))
@pytest.mark.timeout(900)
async def test_every_turn_reaches_an_outcome_and_the_invariants_hold(
    stack: StartStack, llama_url: str, mode: ConsolidationMode
) -> None:
    model = "openai:small"
    async with stack(language_model=model, openai_base_url=f"{llama_url}/v1", model_timeout_s=12.0, coalesce_turns=False) as s:
        user = s.user()
        await s.parts.directory.save_space(user.tenant, "default", SpaceSettings(consolidation_mode=mode, max_tokens=500))
        await s.memory.edit_profile(user, "## Identity\n- Name: Ada\n- Lives in Lisbon\n", expected_etag=None)
        count = s.parts.models.token_counter(model).count
        seen: list[Outcome] = []
        for user_text, assistant_text in TURNS:
            before = await s.profile(user)
            turn = await s.say(user, user_text, assistant_text)
            await s.settle(user, timeout_s=400)
            after, row = await s.profile(user), (await s.ledger(user))[turn]
            assert row.outcome is not None
            seen.append(row.outcome)
            broken = broken_invariants(
                before.body,
                after.body,
                outcome=row.outcome,
                count=count,
                max_tokens=500,
                versions=(before.version, after.version),
                secrets=[SECRET],
            )
            assert not broken, (row.outcome, row.reason, row.flags, broken)
        assert len(seen) == len(TURNS)
        assert seen[-1] is Outcome.NOOP
