"""Made-up messages with the statistics of language: few words are frequent and most are rare, so that what is kept per term grows
as it would. Nobody wrote them."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from typing import Final

from bench.scripted_model import SLOW_MARK, UPDATE_MARK
from memory.model.event import MessageEvent
from memory.model.turn import Turn

VOCABULARY: Final = 20_000
USER_WORDS: Final = 30
ANSWER_WORDS: Final = 120
_CONSONANTS: Final = "bdfgklmnprstvz"
_VOWELS: Final = "aeiou"


def word(rank: int) -> str:
    """The word of this frequency rank, from 1: two or more syllables, no two alike."""
    syllables: list[str] = []
    number = rank
    while number or len(syllables) < 2:
        number, syllable = divmod(number, len(_CONSONANTS) * len(_VOWELS))
        syllables.append(_CONSONANTS[syllable // len(_VOWELS)] + _VOWELS[syllable % len(_VOWELS)])
    return "".join(syllables)


def sentences(seed: str, words: int) -> str:
    """So many words by Zipf's law, in sentences of twelve; the same for the same seed."""
    chance = random.Random(seed)
    chosen = [word(int(math.exp(chance.random() * math.log(VOCABULARY)))) for _ in range(words)]
    parts = [" ".join(chosen[start : start + 12]).capitalize() + "." for start in range(0, words, 12)]
    return " ".join(parts)


def load_turn(turn_id: str, *, update: bool, slow: bool = False) -> Turn:
    """``update``: the scripted gate will say UPDATE. ``slow``: the model takes its time."""
    marks = f"{UPDATE_MARK} " * update + f"{SLOW_MARK} " * slow
    return Turn(
        turn_id=turn_id,
        user_text=marks + sentences(f"{turn_id}:user", USER_WORDS),
        assistant_text=sentences(f"{turn_id}:assistant", ANSWER_WORDS),
        occurred_at=datetime.now(UTC),
        allow_user_memory=True,
    )


def message_before(user: str, number: int) -> MessageEvent:
    """Message ``number`` of those that a user has before the first turn; by user and assistant in turn, as long as theirs."""
    by_user = number % 2 == 0
    return MessageEvent(
        timestamp=datetime.now(UTC),
        sender_id="user" if by_user else "assistant",
        receiver_ids=("assistant",) if by_user else ("user",),
        content=sentences(f"{user}:before:{number}", USER_WORDS if by_user else ANSWER_WORDS),
        event_id=f"{user}:before:{number}",
    )
