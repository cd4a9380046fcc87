"""The request of an extraction, from the prompt files. See :mod:`memory.prompts`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from memory.model.category import Category
from memory.model.contact import ASSISTANT_CONTACT, TEXT_FIELDS, USER_CONTACT, Contact
from memory.model.extraction_schema import SCHEMA_NAME
from memory.model.fact import Fact
from memory.model.task import Task
from memory.model.transcript import clean_text, defuse, presentable, quote_block, stamp
from memory.model.window import StoredEvent
from memory.model.window_transcript import render_transcript
from memory.ports import ChatMessage, ChatRequest, PromptPart
from memory.prompts.builders import REASONING_TOKENS
from memory.prompts.texts import prompt_text

OUTPUT_TOKENS: Final = 4096
OUTPUT_TOKENS_PER_CATEGORY: Final = 1024
STAGE: Final = "extract"
KNOWN_TEXT_BYTES: Final = 8 * 1024
"""Of one text in the known block."""
KNOWN_BYTES: Final = 64 * 1024
"""Of all bios, summaries and policies together; they share it evenly where they would be more."""
MIN_KNOWN_TEXT_BYTES: Final = 600
GUIDANCE_BYTES: Final = 8 * 1024

_CONTACT_FIELDS = (
    "email_address",
    "phone_number",
    "whatsapp_number",
    "timezone",
    "job_title",
    *TEXT_FIELDS,
)


@dataclass(frozen=True, slots=True)
class Known:
    """What an extraction is told of. ``names``: contact names by sender id, for the transcript."""

    contacts: tuple[Contact, ...] = ()
    tasks: tuple[Task, ...] = ()
    facts: tuple[Fact, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def refs(self) -> dict[str, str]:
        """What the refs of the prompt stand for: ``{"c3": "3", "t1": "<task id>", "f1": "<fact id>"}``."""
        return {
            **{f"c{contact.contact_id}": str(contact.contact_id) for contact in self.contacts},
            **{f"t{number}": task.task_id for number, task in enumerate(self.tasks, 1)},
            **{f"f{number}": fact.fact_id for number, fact in enumerate(self.facts, 1)},
        }


def extraction_request(
    events: Sequence[StoredEvent],
    known: Known,
    sections: Mapping[Category, str],
    *,
    schema: Mapping[str, Any],
    guidance: str | None,
    now: datetime,
    timeout_s: float,
    reasoning: bool,
    stage: str = STAGE,
) -> ChatRequest:
    """One call for all these categories.

    Args:
        sections: name of the prompt file by category, in order.
        schema: of the reply.
        guidance: free text of the caller: what to look for.
        now: "today" for dates that are said relatively.
    """
    system = "\n\n".join([prompt_text("extract"), *(prompt_text(name) for name in sections.values())])
    asked = ", ".join(category.value for category in sections)
    last = f"Today is {stamp(now)[:10]}. Categories: {asked}."
    if guidance:
        last += "\nGuidance of the caller: " + " ".join(defuse(presentable(guidance, GUIDANCE_BYTES)).split())
    room = OUTPUT_TOKENS + OUTPUT_TOKENS_PER_CATEGORY * len(sections) + (REASONING_TOKENS if reasoning else 0)
    return ChatRequest(
        stage=stage,
        system=(PromptPart(system, cacheable=True),),
        messages=(
            ChatMessage(
                "user",
                (
                    PromptPart(f"{known_block(known)}\n", cacheable=True),
                    PromptPart(f"<transcript>\n{render_transcript(events, known.names)}\n</transcript>\n"),
                    PromptPart(last),
                ),
            ),
        ),
        max_output_tokens=room,
        timeout_s=timeout_s,
        schema=schema,
        schema_name=SCHEMA_NAME,
    )


def known_block(known: Known) -> str:
    """Contacts, tasks and facts as JSON lines; only fields that are set."""
    lines = [
        *(_contact(contact) for contact in known.contacts),
        *(_task(number, task) for number, task in enumerate(known.tasks, 1)),
        *(_fact(number, fact) for number, fact in enumerate(known.facts, 1)),
    ]
    texts = sum(name in TEXT_FIELDS and bool(value) for line in lines for name, value in line.items())
    limit = max(MIN_KNOWN_TEXT_BYTES, min(KNOWN_TEXT_BYTES, KNOWN_BYTES // max(1, texts)))
    return quote_block("known", "\n".join(_json_line(line, limit) for line in lines))


def _contact(contact: Contact) -> dict[str, Any]:
    line: dict[str, Any] = {"ref": f"c{contact.contact_id}", "name": contact.name}
    if contact.contact_id == ASSISTANT_CONTACT:
        line["assistant"] = True
    if contact.contact_id == USER_CONTACT:
        line["user"] = True
    line.update({name: value for name in _CONTACT_FIELDS if (value := getattr(contact, name))})
    if contact.aliases:
        line["sender_ids"] = list(contact.aliases[:10])
    return line


def _task(number: int, task: Task) -> dict[str, Any]:
    return {
        "ref": f"t{number}",
        "name": task.name,
        "description": task.description,
        "status": task.status.value,
        "priority": task.priority.value,
        "deadline": task.deadline.isoformat() if task.deadline else None,
        "schedule": task.schedule,
        "contact": None if task.contact_id is None else f"c{task.contact_id}",
    }


def _fact(number: int, fact: Fact) -> dict[str, Any]:
    return {
        "ref": f"f{number}",
        "subject": fact.subject,
        "statement": fact.statement,
        "kind": fact.kind.value,
        "observed_at": stamp(fact.observed_at)[:10],
        "valid_until": stamp(fact.valid_until)[:10] if fact.valid_until else None,
        "of_a_team": True if fact.owner.startswith("t/") else None,
    }


def _json_line(line: Mapping[str, Any], limit: int) -> str:
    def shown(value: Any) -> Any:
        return presentable(value, limit) if isinstance(value, str) else value

    kept = {name: shown(value) for name, value in line.items() if value not in (None, "") or name == "name"}
    return clean_text(json.dumps(kept, ensure_ascii=False))
