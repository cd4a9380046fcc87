# ruff: noqa: E501  (patterns)
"""The simulated model's tasks: concrete requests and promises, and what becomes of tasks that are known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from memory.llm.simulated_extraction_dates import find_date, priority_of, repeat_rule
from memory.llm.simulated_extraction_policies import is_directive
from memory.llm.simulated_extraction_prompt import Brief, KnownTask, Said, known_names
from memory.llm.simulated_extraction_shield import handled
from memory.llm.simulated_text import words
from memory.model.category import Category

_VERBS_EN: Final = (
    r"send|write|draft|prepare|schedule|book|order|buy|pay|file|review|create|update|organi[sz]e|arrange|follow up|renew|contact|invite|set up|submit|call|ring|phone|e-?mail|publish|sign|"
    r"upload|migrate|deploy|register|reserve|print|collect|pick up|deliver|check|fix|finish|complete|return|clean|back up|plan|make|get|find|transfer|forward|archive|collate|run|compile|ask|tell|remind"
)
_ASKED_EN = re.compile(
    rf"(?:^|[,;:]\s*|\b(?:hi|hello|hey)\W+(?:\w+\W+)?|\band\s+)(?:(?:also|then|so|ok|urgent|important|asap)[,:!]?\s+)?(?:please|kindly|(?:can|could|would|will)\s+you(?:\s+please|\s+kindly)?|I(?:'d| would)? (?:need|like|want) you to|you need to|make sure to|don't forget to)\s+(?:also\s+|please\s+)?(?P<what>(?:{_VERBS_EN})\b[^.?!;\n]{{3,200}})",
    re.IGNORECASE,
)
_IMPERATIVE_EN = re.compile(rf"^(?P<what>(?:{_VERBS_EN})\s+[^.?!;\n]{{3,200}})", re.IGNORECASE)
_REMIND_EN = re.compile(
    r"\bremind me\s+(?P<when>[^.?!;\n]{0,40}?)\s*\b(?:to|about|of)\s+(?P<what>(?:[^.?!;\n]|(?<=\d)\.(?=\s?\w)){3,200})",
    re.IGNORECASE,
)
_PROMISE_EN = re.compile(
    rf"\b(?:I|we)(?:'ll| will| promise to| am going to| have to| need to| must)\s+(?P<what>(?:{_VERBS_EN})\b[^.?!;\n]{{3,200}})",
    re.IGNORECASE,
)
_ASKED_DE = re.compile(
    r"(?:^|[,;:]\s*|\b(?:hallo|hi)\W+(?:\w+\W+)?|\bund\s+)(?:(?:bitte\s+)?(?P<imp>(?:schick|schreib|bestell|buch|bereit|plan|bezahl|überweis|prüf|erstell|aktualisier|organisier|verläng(?:er)?|kontaktier|lad|reich|ruf|kauf|besorg|sende|druck|leite?|unterschreib|reservier|kümmer)\w*)(?:\s+bitte)?|(?:kannst|könntest|würdest)\s+du(?:\s+bitte)?|(?:können|könnten|würden)\s+sie(?:\s+bitte)?)\s+(?P<what>(?:[^.?!;\n]|(?<=\d)\.(?=\s?\w)){4,200})",
    re.IGNORECASE,
)
_REMIND_DE = re.compile(
    r"\b(?:erinner(?:e|n sie)?\s+mich|mich)\s+(?P<when>[^.?!;\n]{0,40}?)\s*\b(?:daran,?\s*(?:dass ich\s+)?|an\s+)(?P<what>(?:[^.?!;\n]|(?<=\d)\.(?=\s?\w)){3,200})",
    re.IGNORECASE,
)
_VERB_DE = re.compile(
    r"\b(?:\w*(?:schicken|senden|schreiben|bestellen|buchen|vorbereiten|planen|bezahlen|überweisen|prüfen|erstellen|aktualisieren|organisieren|verlängern|kontaktieren|einladen|einreichen|anrufen|kaufen|besorgen|drucken|weiterleiten|unterschreiben|reservieren|kündigen|vereinbaren|abholen))\b",
    re.IGNORECASE,
)
_PROMISE_DE = re.compile(r"\bich\s+(?:werde|muss)\s+(?P<what>(?:[^.?!;\n]|(?<=\d)\.(?=\s?\w)){4,200})", re.IGNORECASE)
_ASKED_ZH = re.compile(
    r"(?:请(?:帮我|你)?|帮我|麻烦你|你能不能|能帮我|能不能帮我)(?P<what>(?:把|给|在|于|明天|后天|今天|下?周.|\d+月\d+[日号]|[^，。！？]{0,8}?)?(?:发送?|写|准备|预订|订|安排|买|支付|付|提交|更新|联系|打电话|续签|检查|创建|整理|寄)[^。！？]{2,60})"
)
_REMIND_ZH = re.compile(r"提醒我(?P<what>[^。！？]{3,60})")
_NOT_A_TASK = re.compile(
    r"\b(?:remember that|keep in mind|note that|your (?:job|duty|role|responsibilit\w+)|you(?:'re| are) responsible|you always|you usually|denk daran, dass|merk dir|deine aufgabe ist|du bist (?:dafür )?zuständig|zu deinen aufgaben)\b|记住|你负责|你的(?:职责|工作)是",
    re.IGNORECASE,
)
_AT_ONCE = re.compile(
    r"^(?:tell|ask me|get back|check (?:if|whether)|find out|make sure|run me through|call me|write (?:me )?(?:a|an|the)?\s*(?:poem|haiku|story|joke)|get me (?:up|started)|make it|get it|make sense|fix (?:it|this|that)|remind)\b",
    re.IGNORECASE,
)
_VAGUE = re.compile(
    r"^(?:\w+\s+){0,2}(?:it|this|that|them|him|her|me|us|something|anything|das|es|dies|etwas|这|那|它)\W*$", re.IGNORECASE
)
DONE = re.compile(
    r"\b(?:is|are|was|were|has been|have been|'s)\s+(?:now\s+|already\s+|all\s+)?(?:done|sent|finished|completed|paid|booked|delivered|submitted|signed|taken care of|sorted|ordered|filed|published|renewed)\b|"
    r"\b(?:I|we)(?:'ve| have)?\s+(?:just\s+|already\s+)?(?:done|did|sent|finished|completed|paid|booked|delivered|submitted|signed|ordered|filed|published|called|wrote|renewed|prepared|bought)\b|"
    r"\b(?:ist|sind|wurden?)\s+(?:\w+\s+)?(?:erledigt|fertig|abgeschlossen|verschickt|gesendet|bezahlt|gebucht|bestellt|eingereicht)\b|\bhabe?n? (?:ich|wir)\b[^.!?]{0,80}\b(?:erledigt|verschickt|gesendet|bezahlt|gebucht|bestellt|eingereicht|geschickt|angerufen)\b|"
    r"\b(?:ich habe|wir haben|hab)\b[^.!?]{0,80}\b(?:erledigt|verschickt|gesendet|bezahlt|gebucht|bestellt|eingereicht|geschickt|angerufen)\b|(?:已经|都)?(?:完成|做完|办好|搞定|发送|付|订好|寄出|提交)了|^(?:done|erledigt)\b",
    re.IGNORECASE,
)
_CANCEL = re.compile(
    r"\b(?:cancel|call off|forget about|never ?mind|drop|scrap|no need to|you (?:don't|do not) (?:need|have) to|no longer (?:need|necessary|needed)|isn't needed|storniere?|sag\w*\b[^.!?]{0,60}\bab|streich\w*|vergiss|nicht mehr (?:nötig|notwendig|erforderlich)|brauchst (?:du )?nicht mehr|hat sich erledigt)\b|取消|不用再?|不必",
    re.IGNORECASE,
)
_MOVE = re.compile(
    r"\b(?:move|postpone|push|reschedule|shift|delay|bring forward|verschieb\w*|verleg\w*|zieh\w*)\b|改到|推迟到|提前到|延期到",
    re.IGNORECASE,
)
_STARTED = re.compile(
    r"\b(?:I|we)(?:'ve| have|'m| am)?\s+(?:just\s+)?(?:started|begun|begin|working on|in the middle of)\b|\bhabe? (?:ich )?(?:mit )?[^.!?]{0,60}\b(?:angefangen|begonnen)\b|已经开始",
    re.IGNORECASE,
)
_ANAPHOR = re.compile(r"\b(?:that|it|this|das|es|dies)\b|这个|那个|这件事|那件事|它", re.IGNORECASE)
_TAG = re.compile(r"(?<!\w)#([^\W\d_][\w-]{1,30})")
_TIDY = re.compile(
    r"\s*(?:,?\s*\b(?:please|thanks|thank you|asap|as soon as possible|bitte|danke|urgently|dringend|it's urgent|no rush)\b|[,;:.!?，。！]|尽快)+\s*$",
    re.IGNORECASE,
)
_COMMON = frozenset(
    words(
        "please task today tomorrow move postpone cancel done already friday monday tuesday wednesday thursday saturday sunday bitte"
    )
)
_LIKE = 0.5
_MAX_NAME = 120
_MAX_ABOUT = 12


@dataclass(slots=True)
class _Task:
    """A task that the window makes."""

    name: str = field(repr=False)
    item: dict[str, Any] = field(repr=False)


class Tasks:
    def __init__(self, brief: Brief) -> None:
        self._brief = brief
        self._names = known_names(brief)
        self._made: list[_Task] = []
        self._changes: dict[str, dict[str, Any]] = {}
        self._last: KnownTask | _Task | None = None

    def hear(self, heard: Said) -> None:
        if heard.language not in ("en", "de", "zh") or _NOT_A_TASK.search(heard.text) or is_directive(heard):
            return
        if not self._news_of_known(heard):
            self._request(heard)

    def items(self) -> Iterator[dict[str, Any]]:
        yield from self._changes.values()
        for task in self._made:
            yield task.item

    # ------------------------------------------------------------------------------------------------------ known tasks

    def _news_of_known(self, heard: Said) -> bool:
        cancels, moves, done, started = (pattern.search(heard.text) for pattern in (_CANCEL, _MOVE, DONE, _STARTED))
        if not (cancels or moves or done or started) or (heard.question and not (cancels or moves)):
            return False
        task = self._meant(heard)
        if task is None:
            return bool(moves or done)
        if cancels:
            self._change(task, heard, action="cancel")
        elif moves:
            if when := find_date(heard.text, heard.line.at):
                self._change(task, heard, deadline=when.text)
        elif done:
            self._change(task, heard, status="done")
        else:
            self._change(task, heard, status="in_progress")
        return True

    def _meant(self, heard: Said) -> KnownTask | _Task | None:
        """The task whose words the sentence has; "that" means the one last spoken of, or the only one."""
        said_words = set(words(heard.text)) - _COMMON
        best: tuple[float, KnownTask | _Task] | None = None
        for task in (*self._brief.tasks, *self._made):
            own = set(words(task.name)) - _COMMON
            if (
                own
                and (share := len(own & said_words) / min(len(own), max(len(said_words), 1), 4)) >= _LIKE
                and (best is None or share > best[0])
            ):
                best = share, task
        if best is not None:
            self._last = best[1]
            return best[1]
        if not _ANAPHOR.search(heard.text) and len(said_words) > 1:
            return None
        if self._last is not None:
            return self._last
        return self._brief.tasks[0] if len(self._brief.tasks) == 1 and not self._made else None

    def _change(self, task: KnownTask | _Task, heard: Said, **fields: str) -> None:
        if handled(self._brief, Category.TASKS, task.name):
            return
        self._last = task
        if isinstance(task, _Task):
            if fields.get("action") == "cancel":
                self._made.remove(task)
                self._last = None
            else:
                task.item.update(fields)
                task.item["evidence"].append(heard.evidence)
            return
        if all(task.fields.get(name, "").startswith(value) for name, value in fields.items()):
            return
        item = self._changes.setdefault(task.ref, {"action": "update", "task": task.ref, "evidence": []})
        item.update(fields)
        if fields.get("action") == "cancel":
            item["status"] = "cancelled"
        item["evidence"].append(heard.evidence)

    # ----------------------------------------------------------------------------------------------------------- requests

    def _request(self, heard: Said) -> None:
        what = _wanted(heard)
        if not what:
            return
        when = find_date(heard.text, heard.line.at)
        item: dict[str, Any] = {"action": "create", "name": _short(what), "description": heard.text.strip()}
        if when and repeat_rule(heard.text) is None:
            item["deadline"] = when.text
        if priority := priority_of(heard.text):
            item["priority"] = priority
        if rule := repeat_rule(heard.text):
            item["schedule"] = rule
        if tags := _TAG.findall(heard.line.text):
            item["tags"] = list(dict.fromkeys(tags))
        if contact := self._contact(heard, what):
            item["contact"] = contact
        if handled(self._brief, Category.TASKS, what):
            return
        if (known := self._same(what)) is not None:
            if isinstance(known, KnownTask):
                news = {name: item[name] for name in ("deadline", "priority", "schedule") if name in item}
                news = {name: value for name, value in news.items() if not known.fields.get(name, "").startswith(value)}
                if news:
                    self._change(known, heard, **news)
            self._last = known
            return
        made = _Task(what, {**item, "evidence": [heard.evidence]})
        self._made.append(made)
        self._last = made

    def _same(self, what: str) -> KnownTask | _Task | None:
        new = set(words(what)) - _COMMON
        for task in (*self._brief.tasks, *self._made):
            own = set(words(task.name)) - _COMMON
            if own and len(own & new) / min(len(own), len(new) or 1) >= 0.75:
                return task
        return None

    def _contact(self, heard: Said, what: str) -> str | None:
        sender = self._brief.contact(heard.line.sender)
        if sender is not None and not sender.is_user:
            return sender.ref
        for name, contact in self._names.items():
            if not contact.is_user and re.search(
                rf"(?<!\w){re.escape(name)}(?:s|'s)?(?!\w)" if name.isascii() else re.escape(name), what, re.IGNORECASE
            ):
                return contact.ref
        return None


def tasks(brief: Brief) -> Iterator[dict[str, Any]]:
    book = Tasks(brief)
    for heard in brief.said:
        book.hear(heard)
    yield from book.items()


def _wanted(heard: Said) -> str:
    """What is asked for or promised, in the words of the sentence; "" for talk and for what is answered at once."""
    text, found = heard.text, ""
    if heard.language == "zh":
        match = _REMIND_ZH.search(text) or _ASKED_ZH.search(text)
        # 合同请在周五之前寄来: what it is about stands before the request
        about = re.split(r"[，,。：]", text[: match.start()])[-1] if match else ""
        found = (about if 1 < len(about) <= _MAX_ABOUT else "") + match["what"] if match else ""
    elif heard.language == "de":
        if match := _REMIND_DE.search(text):
            found = match["what"]
        elif match := _ASKED_DE.search(text):
            found = f"{match['imp']} {match['what']}" if match["imp"] else match["what"] if _VERB_DE.search(match["what"]) else ""
        elif (
            (match := _PROMISE_DE.search(text))
            and _VERB_DE.search(match["what"])
            and find_date(text, heard.line.at)
            and not heard.question
        ):
            found = match["what"]
    else:
        match = _REMIND_EN.search(text) or _ASKED_EN.search(text)
        if match is None and find_date(text, heard.line.at) and not heard.question:
            match = _PROMISE_EN.search(text)
        if match is None and (find_date(text, heard.line.at) or repeat_rule(text)):
            match = _IMPERATIVE_EN.search(text)
        found = match["what"] if match else ""
    found = _TIDY.sub("", found.strip()).strip()
    if not found or _VAGUE.match(found) or _AT_ONCE.match(found):
        return ""
    return found if len(set(words(found))) >= 2 else ""


def _short(what: str) -> str:
    name = what[:1].upper() + what[1:]
    return name if len(name) <= _MAX_NAME else name[:_MAX_NAME].rsplit(" ", 1)[0]
