"""One builder per stage. See :mod:`memory.prompts`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from string import Template

from memory.model.directory import MAX_BUDGET_TOKENS, ConsolidationMode
from memory.model.edits import EDITS_SCHEMA, number_bullets
from memory.model.loss_guard import Loss
from memory.model.profile import EMPTY_MARK, TITLE, Profile, render_body
from memory.model.redaction import redact
from memory.model.transcript import clean_text, defuse, quote_block, quote_turns, shorten_middle, stamp
from memory.model.turn import Turn
from memory.ports import ChatMessage, ChatRequest, PromptPart
from memory.prompts.texts import prompt_text

GATE_OUTPUT_TOKENS = 16
"""Room for one word."""
REASONING_TOKENS = 4096
"""What a reasoning model may think before it answers, on top of the answer."""
EDITS_OUTPUT_TOKENS = 2048
MAX_REPLY_BYTES = 64 * 1024
"""An earlier reply that is shown to the model again is shortened in the middle to this."""

_MAX_LOST_SHOWN = 40


def gate_request(profile: Profile, turns: Sequence[Turn], *, reasoning: bool, timeout_s: float) -> ChatRequest:
    """UPDATE or NOOP for these turns together. ``reasoning``: the model needs room to think before the one word."""
    return ChatRequest(
        stage="gate",
        system=(PromptPart(prompt_text("gate"), cacheable=True),),
        messages=_messages(_untitled(profile), turns, ""),
        max_output_tokens=GATE_OUTPUT_TOKENS + (REASONING_TOKENS if reasoning else 0),
        timeout_s=timeout_s,
    )


def consolidate_request(
    profile: Profile,
    turns: Sequence[Turn],
    *,
    mode: ConsolidationMode,
    max_tokens: int,
    now: datetime,
    timeout_s: float,
    reasoning: bool = False,
) -> ChatRequest:
    """NOOP or the new profile: whole (``rewrite``) or as operations on numbered bullets (``edits``).

    Args:
        profile: as it stands; the caller has it within the budget.
        turns: one or more turns, in order.
        max_tokens: the profile's budget.
        now: the day from which the model judges what is stale.
        reasoning: whether the model thinks before it answers.
    """
    edits = mode is ConsolidationMode.EDITS
    task = prompt_text("rules") + "\n\n" + prompt_text("edits" if edits else "rewrite")
    ask = f"Today is {stamp(now)[:10]}. The profile may have {max_tokens} tokens. Answer as the task says."
    room = EDITS_OUTPUT_TOKENS if edits else _room(max_tokens)
    return ChatRequest(
        stage="consolidate",
        system=(PromptPart(task, cacheable=True),),
        messages=_messages(number_bullets(profile) if edits else _untitled(profile), turns, ask),
        max_output_tokens=room + (REASONING_TOKENS if reasoning else 0),
        timeout_s=timeout_s,
        schema=EDITS_SCHEMA if edits else None,
        schema_name="profile_edits" if edits else "reply",
    )


def with_more_room(request: ChatRequest) -> ChatRequest:
    """The same question with twice the output limit, for a reply that was cut off by it; nothing of that reply is shown."""
    return replace(request, stage="repair", max_output_tokens=request.max_output_tokens * 2)


def repair_request(request: ChatRequest, reply_text: str, problem: str) -> ChatRequest:
    """The one further attempt after a reply that could not be used: the same conversation and what was wrong.

    Args:
        request: the request that was answered badly.
        reply_text: that answer; it may be empty.
        problem: what is wrong with it, for the model to read.
    """
    return _continued(request, reply_text, Template(prompt_text("repair")).substitute(problem=redact(clean_text(problem)).text))


def loss_request(request: ChatRequest, reply_text: str, loss: Loss) -> ChatRequest:
    """The one further attempt after the loss guard refused a rewrite: which bullets are missing without a reason."""
    shown = [f"> {_one_line(bullet)}" for bullet in loss.bullets[:_MAX_LOST_SHOWN]]
    text = Template(prompt_text("loss")).substitute(lost=loss.lost, total=loss.total, bullets=redact("\n".join(shown)).text)
    return _continued(request, reply_text, text)


def condense_request(profile: Profile, *, target_tokens: int, timeout_s: float, reasoning: bool = False) -> ChatRequest:
    """A profile over its budget, to be made smaller than ``target_tokens`` without losing what matters."""
    return ChatRequest(
        stage="condense",
        system=(PromptPart(prompt_text("condense"), cacheable=True),),
        messages=(
            ChatMessage(
                "user",
                (
                    PromptPart(quote_block("profile", _untitled(profile)), cacheable=True),
                    PromptPart(f"\n\nAt most {target_tokens} tokens."),
                ),
            ),
        ),
        max_output_tokens=_room(target_tokens) + (REASONING_TOKENS if reasoning else 0),
        timeout_s=timeout_s,
    )


def scrub_request(profile: Profile, *, timeout_s: float, reasoning: bool = False) -> ChatRequest:
    """The privacy pass over a changed profile: CLEAN, or the profile without other people and secrets."""
    block = quote_block("profile", _untitled(profile))
    return ChatRequest(
        stage="scrub",
        system=(PromptPart(prompt_text("scrub"), cacheable=True),),
        messages=(ChatMessage("user", (PromptPart(block), PromptPart("\n\nCLEAN, or the cleaned profile?"))),),
        # two bytes a token is the worst that common scripts do
        max_output_tokens=_room(min(MAX_BUDGET_TOKENS, len(block.encode("utf-8")) // 2)) + (REASONING_TOKENS if reasoning else 0),
        timeout_s=timeout_s,
    )


def memory_section(body: str) -> str:
    """The part of the assistant's system prompt that holds the profile; empty when the profile says nothing.

    Args:
        body: the profile without frontmatter; it goes in verbatim.
    """
    if not any(map(_is_told, body.splitlines())):
        return ""
    return f"{prompt_text('memory_section')}\n\n{body}"


def _is_told(line: str) -> bool:
    """Whether a line of a body says something: no heading, comment or mark of an empty section."""
    text = line.strip()
    return bool(text) and text != EMPTY_MARK and not text.startswith(("#", "<!--"))


def _untitled(profile: Profile) -> str:
    return render_body(profile).removeprefix(f"# {TITLE}").strip()


def _messages(profile_text: str, turns: Sequence[Turn], ask: str) -> tuple[ChatMessage, ...]:
    profile = PromptPart(quote_block("profile", profile_text) + "\n\n", cacheable=True)
    exchange = PromptPart(quote_turns(turns) + (f"\n\n{ask}" if ask else ""))
    return (ChatMessage("user", (profile, exchange)),)


def _continued(request: ChatRequest, reply_text: str, text: str) -> ChatRequest:
    shown = shorten_middle(redact(clean_text(reply_text)).text.strip(), MAX_REPLY_BYTES) or "(empty)"
    return replace(
        request,
        stage="repair",
        messages=(
            *request.messages,
            ChatMessage("assistant", (PromptPart(shown),)),
            ChatMessage("user", (PromptPart(text),)),
        ),
    )


def _room(tokens: int) -> int:
    """Output limit for a profile of so many tokens: a rewrite may overshoot, and other tokenizers count higher."""
    return tokens + tokens // 2 + 256


def _one_line(text: str) -> str:
    return " ".join(defuse(clean_text(text)).split())
