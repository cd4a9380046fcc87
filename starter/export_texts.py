"""The files of an export that are written for people: what the archive holds, and facts, contacts and tasks as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from memory.model.contact import Contact
from memory.model.fact import Fact, FactStatus, Source
from memory.model.task import Task

MAX_QUOTES: Final = 5
"""Shown of one item; all of them are in the JSON."""
_MARKUP: Final = re.compile(r"([\\`*_\[\]<>#|~])")

README: Final = """# What is remembered about you

This archive holds everything that this memory keeps about one user, as it was when the archive was made.

For reading:

- `profile.md`: the profile as it is now; the assistant sees it before it answers.
- `facts.md`, `contacts.md`, `tasks.md`: what was learned beside it, with the words that it comes from.

For programs (UTF-8; lists of objects; times in ISO 8601 with their zone; a long list goes on in `name.2.json`, `name.3.json`, …):

- `profile/versions.json` and `profile/versions/`: every version of the profile that is kept, as the file that it was.
- `facts.json`: statements with their sources; those that no longer hold have another status than `active`, and
  `superseded_by` names what took their place: together they are the history.
- `contacts.json`: people and organisations, each with the changes of its fields and its sources. Contact 0 is the assistant,
  contact 1 is you.
- `tasks.json`: what was asked for or promised.
- `guidance.json`, `functions.json`: how things are done.
- `events.json`: the messages and calls that were recorded, in order. Text that is older than your company keeps it is gone.
- `turns.json`: what you and the assistant said, turn by turn, and what became of each.
- `windows.json`: what was read from the events, with what a model proposed and why some of it was not taken.
- `tables.json` and `tables/`: your own tables.
- `loops.json`: your questions and changes in your own words, step by step.
- `usage.json`: what language models were used for, in tokens.
- `account.json`: your choice whether there is a memory, and the teams that you are in.
- `erasures.json`: receipts of earlier deletions.

`manifest.json` says how many items each file has, and what was left out and why. What belongs to a team of yours is the team's and
is not in here.
"""


def facts_header(made_at: datetime) -> str:
    return f"# Facts\n\nAs of {_minute(made_at)}. Newest first.\n"


def fact_text(fact: Fact) -> str:
    over = "" if fact.status is FactStatus.ACTIVE else f" *(no longer holds: {fact.status.value})*"
    about = [f"{fact.kind.value}, said {_day(fact.observed_at)}"]
    if fact.subject:
        about.insert(0, _plain(fact.subject))
    if fact.valid_from is not None:
        about.append(f"from {_day(fact.valid_from)}")
    if fact.valid_until is not None:
        about.append(f"until {_day(fact.valid_until)}")
    return f"\n- {_plain(fact.statement)}{over}\n  ({'; '.join(about)})\n{_quotes(fact.sources)}"


def contacts_header(made_at: datetime) -> str:
    return f"# Contacts\n\nAs of {_minute(made_at)}.\n"


def contact_text(contact: Contact, sources: Sequence[Source]) -> str:
    name = contact.name or {0: "The assistant", 1: "You"}.get(contact.contact_id) or "Without a name"
    lines = [f"\n## {_plain(name)} ({contact.contact_id})\n"]
    for label, value in (
        ("Email", contact.email_address),
        ("Phone", contact.phone_number),
        ("WhatsApp", contact.whatsapp_number),
        ("Time zone", contact.timezone),
        ("Job", contact.job_title),
        ("Who it is", contact.bio),
        ("What has been going on", contact.rolling_summary),
        ("How to answer", contact.response_policy),
        ("Is answered", None if contact.should_respond else "no"),
        ("Writes as", ", ".join(contact.aliases)),
    ):
        if value:
            lines.append(f"- {label}: {_plain(value)}")
    return "\n".join(lines) + "\n" + _quotes(sources)


def tasks_header(made_at: datetime) -> str:
    return f"# Tasks\n\nAs of {_minute(made_at)}. Newest first.\n"


def task_text(task: Task) -> str:
    about = [task.status.value.replace("_", " "), f"priority {task.priority.value}"]
    if task.deadline is not None:
        about.append(f"due {_minute(task.deadline)}")
    if task.schedule is not None:
        about.append(f"repeats {_plain(task.schedule)}")
    if task.contact_id is not None:
        about.append(f"contact {task.contact_id}")
    if task.tags:
        about.append(", ".join(map(_plain, task.tags)))
    description = f"\n  {_plain(task.description)}" if task.description.strip() else ""
    done = "x" if task.status.value in ("done", "cancelled") else " "
    return f"\n- [{done}] {_plain(task.name)}{description}\n  ({'; '.join(about)})\n{_quotes(task.sources)}"


def _quotes(sources: Sequence[Source]) -> str:
    said = [source for source in sources if source.quote.strip()]
    lines = [f"  > “{_plain(one.quote)}”{f' ({_day(one.said_at)})' if one.said_at else ''}\n" for one in said[:MAX_QUOTES]]
    if len(said) > MAX_QUOTES:
        lines.append(f"  > … and {len(said) - MAX_QUOTES} more\n")
    return "".join(lines)


def _plain(text: str) -> str:
    """On one line, and nothing of it is markup."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def _day(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
