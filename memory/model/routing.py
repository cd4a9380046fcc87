# ruff: noqa: E501  (word lists)
"""Where a piece of content belongs: stores that stay apart. Lexical rules in English, German and Chinese; when in doubt, a fact."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from memory.model.redaction import redact
from memory.model.transcript import clean_text


class Store(StrEnum):
    GUIDANCE = "guidance"
    FUNCTIONS = "functions"
    FACTS = "facts"
    CONTACTS = "contacts"
    PROFILE = "profile"
    TASKS = "tasks"
    NOWHERE = "nowhere"
    """Secrets, and what says nothing."""


@dataclass(frozen=True, slots=True)
class Route:
    """``reason``: in words, without the content. ``write_path``: what puts it there."""

    store: Store
    reason: str
    write_path: str


_PATHS = {
    Store.GUIDANCE: "add_guidance",
    Store.FUNCTIONS: "add_functions",
    Store.FACTS: "knowledge.update",
    Store.CONTACTS: "consolidation, and contacts.update",
    Store.PROFILE: "the post-answer pipeline",
    Store.TASKS: "consolidation, and tasks.update",
    Store.NOWHERE: "none",
}

_CODE = re.compile(
    r"^\s*(?:async\s+)?(?:def|function|fn|func)\s+\w+\s*\(|^\s*(?:export\s+)?(?:const|let)\s+\w+\s*=\s*\(.*\)\s*=>", re.MULTILINE
)
_HOW_TO = re.compile(
    r"\bhow to\b|\bsteps? (?:to|for)\b|\bin order to\b.{0,80}\b(?:click|run|open|press|go to|select)\b"
    r"|\bfirst\b.{1,120}\bthen\b|\b(?:first|zuerst|als erstes)\b.{1,160}\b(?:then|next|finally|dann|danach|anschließend|zum schluss)\b"
    r"|\bstep \d\b|\bschritt \d\b|\bso (?:geht|funktioniert|macht man|richtet man)\b|\banleitung\b|\bum .{3,80}(?: zu \w{2,30}|\w{2,20}zu\w{2,20}en), (?:muss|musst|müssen|klick|öffne|wähl|geh)"
    r"|\b(?:to|when you) .{3,60}, (?:click|run|open|press|go to|select|type)\b"
    r"|(?:如何|怎么|怎样).{1,30}(?:步骤|方法)|首先.{1,60}(?:然后|接着|再)|第一步.{1,60}第二步",
    re.IGNORECASE | re.DOTALL,
)
_LISTED = re.compile(r"^\s*(?:\d+[.)]|[-*•])\s+\S", re.MULTILINE)
_REQUEST = re.compile(
    r"^\s*(?:please|bitte|请|麻烦)\b|\b(?:can|could|would) you (?:please )?(?:send|prepare|book|call|write|schedule|remind|order|check)\b"
    r"|\b(?:kannst|könntest|können|könnten) (?:du|sie) (?:bitte )?\b|\bremind me to\b|\berinnere mich\b|(?:请|麻烦).{0,20}(?:发|准备|预订|提醒|联系)",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"^\s*(?:i|i'm|i am|my|mine|we both|ich|mein|meine|mir|mich)\b(?!.{0,80}\b(?:company|team|project|firma|projekt)\b)"
    r"|\b(?:i prefer|i like|i live|i work as|call me|ich mag|ich bevorzuge|ich wohne|ich heiße)\b|^我(?:叫|喜欢|住|是|的)",
    re.IGNORECASE,
)
_PERSON = re.compile(
    r"\b(?i:his|her|their|seine|ihre|deren) (?i:phone|mobile|number|e-?mail|address|birthday|telefonnummer|handynummer|nummer|adresse|geburtstag)\b"
    r"|\b(?i:e-?mail|phone|telephone|mobile|telefon|handy)(?i: number| address|-?nummer|-?adresse)?\s*(?:(?i:is|ist|lautet)\b|[:：])\s*[+\d(]?\S*[\d@]"
    r"|(?:电话|手机|邮箱|电子邮件)(?:号码|地址)?(?:是|为|[:：])"
    r"|\b[A-ZÄÖÜ]\w+(?: [A-ZÄÖÜ]\w+)? (?:is|was|ist|wurde) (?:married|born|divorced|\d+ years old|verheiratet|geschieden|geboren|\d+ Jahre alt|(?:am|in|im) [^.]{1,40} geboren)\b"
    r"|[\w.+-]+@[\w-]+\.\w+",
)


def route(content: str) -> Route:
    """Where this belongs. Never raises; looks at the first 20,000 characters."""
    text = clean_text(content)[:20_000].strip()
    if len(text) < 3:
        return _to(Store.NOWHERE, "it says nothing")
    if redact(text).kinds:
        return _to(Store.NOWHERE, "it holds a secret")
    if _CODE.search(text):
        return _to(Store.FUNCTIONS, "it is the source of a function")
    if is_how_to(text):
        return _to(Store.GUIDANCE, "it says how something is done, step by step")
    if _REQUEST.search(text):
        return _to(Store.TASKS, "it asks for something to be done")
    if _PERSON.search(text):
        return _to(Store.CONTACTS, "it is an attribute of a person")
    if _OWN.search(text):
        return _to(Store.PROFILE, "it is about the user's own person or preferences")
    return _to(Store.FACTS, "it states something about the world")


def is_how_to(text: str) -> bool:
    """Whether a text is procedural."""
    return _HOW_TO.search(text) is not None or len(_LISTED.findall(text)) >= 3


def _to(store: Store, reason: str) -> Route:
    return Route(store, reason, _PATHS[store])
