"""How the simulated model reads the prompt of a knowledge loop: by its structure, as any other model has to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from memory.model.knowledge import CONTACTS_TABLE
from memory.ports import ChatMessage, ChatRequest

RULES: Final = "Task: knowledge\n"
QUESTION: Final = "Task: knowledge_question\n"
STRUCTURE: Final = "Task: knowledge_structure\n"

_OPERATION = re.compile(r"^Operation: (\w+)$", re.MULTILINE)
_TABLES = re.compile(r"^<tables>\n(.*?)\n</tables>$", re.MULTILINE | re.DOTALL)
_DESTINATION = re.compile(r"^<destination>(.*)</destination>$", re.MULTILINE)
_CHAT = re.compile(r"^<chat>\n(.*?)\n</chat>$", re.MULTILINE | re.DOTALL)
_BROKEN_DOCUMENT = re.compile(r'\{"role": "document", "content": "(.*)$')
_SAID = re.compile(r"^<(request|interjection|answer)>\n(.*?)\n</\1>$", re.MULTILINE | re.DOTALL)
_LIMIT: Final = "<limit>\n"
_MANAGERS: Final = {
    "The store of this request is the address book": "contacts",
    "The store of this request is the user's task list": "tasks",
}


@dataclass(frozen=True, slots=True)
class TableView:
    """``key``: the unique key, the first column of the overview. ``columns``: name → type, the key among them."""

    name: str
    key: str
    columns: Mapping[str, str]
    description: str = ""

    @property
    def texts(self) -> list[str]:
        return [name for name, kind in self.columns.items() if kind == "str"]

    @property
    def label(self) -> str:
        """What a row is called by: its name or title, else its first text."""
        texts = self.texts
        return next((name for name in ("name", "title", *texts) if name in texts), self.key)

    @property
    def prose(self) -> str | None:
        """The column of free text."""
        wanted = ("description", "abstract", "summary", "statement", "text", "notes", "note", "bio", "content", "details")
        return next((name for name in wanted if name in self.texts), None)


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave. ``value``: its JSON; None where it is an error or no JSON. ``arguments`` None: they could not be read."""

    name: str
    arguments: Mapping[str, Any] | None = field(repr=False)
    value: Any = field(repr=False)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """Calls of a reply with their results, and what the caller said after them: (``interjection`` or ``answer``, text)."""

    results: tuple[Result, ...]
    said: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """``said``: before the first step. ``tools``: that are offered. ``manager``: knowledge, contacts or tasks.
    ``documents``: of the context. ``system``: the whole system prompt, with the instructions of the request."""

    operation: str
    request: str = field(repr=False)
    tables: Mapping[str, TableView] = field(repr=False)
    steps: tuple[Step, ...] = ()
    said: tuple[tuple[str, str], ...] = ()
    tools: frozenset[str] = frozenset()
    destination: str = "personal"
    last: bool = False
    manager: str = "knowledge"
    documents: tuple[str, ...] = ()
    system: str = field(default="", repr=False)

    @property
    def clarify(self) -> bool:
        return "request_clarification" in self.tools


def is_loop(request: ChatRequest) -> bool:
    return request.system_text.startswith(RULES) and bool(request.messages)


def read_loop(request: ChatRequest) -> Loop:
    """The parts of a prompt of :func:`memory.prompts.knowledge.loop_request`."""
    opening, *rest = request.messages
    operation = _OPERATION.search(request.system_text)
    tables = _TABLES.search(opening.text)
    said = _SAID.findall(opening.text)
    asked = next((text for tag, text in said if tag == "request"), "")
    destination = _DESTINATION.search(opening.text)
    return Loop(
        operation=operation[1] if operation else "ask",
        request=asked.strip(),
        tables=tables_of(overview_of(tables[1] if tables else "")),
        steps=tuple(_steps(rest)),
        said=tuple((tag, text) for tag, text in said if tag != "request"),
        tools=frozenset(tool.name for tool in request.tools),
        destination=str(_json(destination[1])) if destination else "personal",
        manager=next((name for mark, name in _MANAGERS.items() if mark in request.system_text), "knowledge"),
        documents=tuple(_documents(opening.text)),
        system=request.system_text,
        last=request.tool_choice == "none" or not request.tools or _LIMIT in request.messages[-1].text,
    )


def _documents(text: str) -> Iterator[str]:
    chat = _CHAT.search(text)
    for line in chat[1].splitlines() if chat else ():
        message = _json(line)
        if isinstance(message, dict):
            about = cast("dict[str, Any]", message)
            if about.get("role") == "document":
                yield str(about.get("content") or "")
        elif (broken := _BROKEN_DOCUMENT.match(line)) is not None:
            # Redaction can take a quote along with what it hides.
            yield broken[1].rstrip('"}').replace("\\n", "\n").replace('\\"', '"')


def overview_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in text.splitlines():
        value = _json(line)
        if isinstance(value, dict):
            found.update({name: one for name, one in cast("dict[str, Any]", value).items() if not name.startswith("_")})
    return found


def tables_of(overview: Mapping[str, Any]) -> dict[str, TableView]:
    """The tables of an overview, address book last."""
    found: dict[str, TableView] = {}
    for name, about in sorted(overview.items(), key=lambda item: item[0] == CONTACTS_TABLE):
        columns = cast("dict[str, str]", about.get("columns") or {}) if isinstance(about, dict) else {}
        if columns:
            description = cast("dict[str, Any]", about).get("description")
            found[name] = TableView(name, next(iter(columns)), columns, str(description or ""))
    return found


def _steps(messages: Sequence[ChatMessage]) -> list[Step]:
    steps: list[Step] = []
    for reply, after in zip(messages[::2], messages[1::2], strict=False):
        results = {one.call_id: one for one in after.tool_results}
        made: list[Result] = []
        for call in reply.tool_calls:
            one = results.get(call.call_id)
            value = _json(one.content) if one is not None and not one.is_error else None
            problem = None
            if one is None or one.is_error or value is None:
                told = _json(one.content) if one is not None else None
                given = cast("dict[str, Any]", told).get("message") if isinstance(told, dict) else None
                problem = str(given or "its result cannot be read")
            made.append(Result(call.name, call.arguments, value, problem))
        steps.append(Step(tuple(made), tuple((tag, text.strip()) for tag, text in _SAID.findall(after.text))))
    return steps


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
