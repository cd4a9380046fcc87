# ruff: noqa: E501  (patterns)
"""Whether what was said is a commitment: a concrete request or a promise. Duties, wishes and things to remember are none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from memory.model.items import DropReason, Item, TaskItem
from memory.model.sentences import quoted_sentences
from memory.model.window import StoredEvent
from memory.model.words import STOP_WORDS, fold, is_dense, tokens

MIN_WORDS: Final = 2
"""Telling words of a task's name; one alone ("Call") says too little to act on."""

_REMEMBER: Final = re.compile(
    r"\b(?:remember|keep in mind|bear in mind|note|don['’]?t forget|do not forget|be aware)(?:,)? that\b|\bfor (?:your|the) (?:record|information)\b|^\W*(?:fyi|for info)\b"
    r"|\b(?:merke? dir|merken sie sich|denke?n? (?:sie )?(?:bitte )?dr?a?ran|vergiss (?:bitte )?nicht|vergessen sie nicht|beachte|beachten sie|behalte? im (?:kopf|hinterkopf))\b,?\s*(?:bitte,?\s*)?dass\b|\bzur info(?:rmation)?\b"
    r"|(?:请)?(?:记住|记得|別忘了|别忘了|注意)[，,：:]?(?![^。！？]{0,6}(?:发|给|买|打电话|预订|提醒|联系|交|付|带|取|寄))|供参考",
    re.IGNORECASE,
)
_DUTY: Final = re.compile(
    r"\b(?:is|are|am|was|were|['’]re|['’]s|['’]m) (?:always |usually |also |mainly )?(?:responsible for|in charge of|accountable for)\b|\b(?:usually|normally|always|generally|typically|regularly) (?:handles?|does|do|takes? care|prepares?|sends?|writes?|manages?|answers?|runs?|books?)\b"
    r"|\b(?:your|her|his|their|my|the) (?:main |daily )?(?:job|duty|duties|role|task|tasks|responsibilit(?:y|ies)|work) (?:is|are|includes?|consists? of|involves?)\b|\byou(?:r job|['’]re| are) (?:there |here )?to\b|\bas (?:an?|the) (?:assistant|secretary|manager)\b"
    r"|\b(?:ist|sind|bin|bist|seid) (?:immer |auch )?(?:dafür )?(?:zuständig|verantwortlich)\b|\b(?:deine|ihre|seine|meine|unsere) (?:aufgaben?|pflichte?n?|arbeit|rolle|job) (?:ist|sind|besteht|umfasst)\b|\bkümmer\w* (?:sich|dich) (?:normalerweise|immer|sonst|üblicherweise)\b|\bzu (?:ihren|seinen|meinen|deinen) aufgaben gehör\w*\b"
    r"|(?:你|您|她|他|我|们|[\u4e00-\u9fff]{2,3})(?:平时|通常|一直)?负责(?!把|给)|(?:工作|职责|任务|角色)(?:是|包括)|平时(?:负责|处理)",
    re.IGNORECASE,
)
_WISH: Final = re.compile(
    r"^\W*(?:i wish|if only|it would be (?:nice|great|good|lovely)|wouldn['’]t it be|one day|some ?day|maybe (?:we|i|you) (?:could|should)|perhaps (?:we|i|you)|we (?:could|might) |i (?:might|may|could) |imagine|suppose|what if|"
    r"es wäre (?:schön|toll|gut|nett)|ich wünschte|irgendwann|vielleicht (?:könnte|sollte)\w*|man (?:könnte|müsste|sollte)|wir könnten|stell dir vor|angenommen)\b|^(?:要是|如果能|希望有一天|也许|或许|假如|总有一天)",
    re.IGNORECASE,
)
_WAS_DONE: Final = re.compile(
    r"^\W*(?:i|we|she|he|they)(?:['’]ve|['’]s| have| has| had)? (?:just |already )?(?:sent|paid|booked|done|did|finished|called|wrote|ordered|signed|submitted|completed|delivered|bought|cancelled|canceled)\b"
    r"|^\W*(?:ich|wir|sie|er) (?:habe?n?|hat|hatten?)\b[^.!?]*\b(?:geschickt|gesendet|bezahlt|gebucht|erledigt|angerufen|geschrieben|bestellt|unterschrieben|eingereicht|gekauft)\b|^(?:我|我们|她|他)(?:已经|都)?[^。]{0,12}(?:完成|发|付|订|办|买|寄|交)(?:好|完)?了",
    re.IGNORECASE,
)
_ASKS: Final = re.compile(
    r"^\W*(?:(?:can|could|would|do) you (?:please )?(?:tell me|know|explain|say|remember|think)\b|what|who|when|where|why|how|which|is|are|does|did|was|were|has|have)\b[^.!]*\?\s*$"
    r"|^\W*(?:kannst du mir (?:sagen|erklären)|weißt du|was|wer|wann|wo|warum|wie|welche\w*|ist|sind|hat|war)\b[^.!]*\?\s*$|^[^。！]{0,30}(?:吗|呢|什么|几点|谁|哪里|为什么)[？?]\s*$",
    re.IGNORECASE,
)
"""A question is answered in the conversation."""
_LITTLE = """
    fix make do get better good something anything everything thing things stuff please this that these those somehow sometime later
    soon handle sort out take care look mach mache machen etwas alles irgendwas sache sachen das dies bitte besser gut später bald
    kümmere regel regle erledige erledigen
"""
_EMPTY_WORDS: Final = STOP_WORDS | frozenset(map(fold, _LITTLE.split()))


def is_commitment(said: str) -> bool:
    """Whether a sentence asks for something to be done, or promises it; when nothing speaks against it, it does."""
    none = (_REMEMBER, _DUTY, _WISH, _WAS_DONE, _ASKS)
    return not any(pattern.search(said) for pattern in none)


def is_concrete(name: str) -> bool:
    """Whether a task's name says enough to act on."""
    telling = 0
    for token in tokens(name):
        if is_dense(token):
            telling += len(token) // 2
        elif fold(token) not in _EMPTY_WORDS and len(token) > 1:
            telling += 1
    return telling >= MIN_WORDS or (telling == 1 and any(len(token) >= 9 for token in tokens(name)))


def check(item: Item, cited: Sequence[StoredEvent]) -> str | None:
    """A new task needs a commitment among what it quotes; a change of one that is known needs only to name it."""
    if not isinstance(item, TaskItem):
        return DropReason.MALFORMED
    if item.action != "create":
        return DropReason.UNKNOWN_REF if item.task is None else None
    if not is_concrete(f"{item.name} {item.description}"):
        return DropReason.NOT_A_COMMITMENT
    if any(map(is_commitment, quoted_sentences(item, cited))):
        return None
    return DropReason.NOT_A_COMMITMENT
