"""How the simulated model keeps contacts and tasks that are said in plain sentences. English.

Add the contact Anna Keller, plumber, anna@example.org, +49 30 5550101
Set the phone number of Anna Keller to +49 30 5550102
Remind me to call the plumber by 2026-06-20
Mark "call the plumber" as done
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, cast

from memory.llm.simulated_knowledge_ask import clarified
from memory.llm.simulated_knowledge_parts import bare, changes_in
from memory.llm.simulated_knowledge_paths import Call, GivesUp, Plan, read, rows_of
from memory.llm.simulated_knowledge_prompt import Loop, Result
from memory.model.knowledge import CONTACTS_TABLE

_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_PHONE = re.compile(r"\+?\d[\d ()/-]{5,20}\d")
_JOB = re.compile(r"(?:works as|is|job title:?|title:?|as)\s+(?:an?\s+)?([^,.;]{2,80})", re.IGNORECASE)
_NAMED = re.compile(r"(?:the\s+|a\s+)?(?:new\s+)?(?:contact|person)?\s*((?:[^\W\d_a-z][\w'’-]*\s?){1,4})")
_CONTACT_FIELDS: Final[Mapping[str, str]] = {
    "email": "email_address", "mail": "email_address", "phone": "phone_number", "telephone": "phone_number",
    "mobile": "phone_number",
    "whatsapp": "whatsapp_number", "job": "job_title", "title": "job_title", "profession": "job_title", "timezone": "timezone",
    "bio": "bio", "surname": "surname", "policy": "response_policy",
}  # fmt: skip
_DATE = re.compile(r"\s*\b(?:by|until|before|on|due)\s+(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d))?\b")
_NEW_TASK = re.compile(
    r"^(?:please\s+)?(?:(?:add|create|make|note)\s+(?:a\s+|the\s+)?(?:new\s+)?(?:task|to-?do)(?:\s+to|:)?|remind me to)"
    r"\s+(?P<name>.+)$",
    re.IGNORECASE | re.DOTALL,
)
_DONE_TASK = re.compile(
    r"^(?:please\s+)?(?:mark|set)\s+(?P<name>.+?)\s+(?:as|to)\s+(?P<status>done|open|in progress|cancelled)$", re.IGNORECASE
)
_SAID_DONE = re.compile(r"^(?P<name>.+?)\s+is\s+(?P<status>done|finished|cancelled)$", re.IGNORECASE)
_CANCEL = re.compile(r"^(?:please\s+)?(?:cancel|give up|drop)\s+(?P<name>.+)$", re.IGNORECASE)
_SET_TASK = re.compile(
    r"^(?:please\s+)?(?:set|change)\s+the\s+(?P<field>priority|deadline)\s+of\s+(?P<name>.+?)\s+to\s+(?P<value>.+)$", re.IGNORECASE
)


def update_contacts(loop: Loop, text: str) -> Plan:
    """The plan for ``contacts.update``."""
    told: list[str] = []
    for change in changes_in(text):
        if change.kind == "set":
            field = next((name for word, name in _CONTACT_FIELDS.items() if word in change.parts["column"].lower()), None)
            if field is None:
                told.append(f"A contact has no {change.parts['column']}; nothing was changed.")
                continue
            told.append((yield from _contact(loop, bare(change.parts["thing"]), {field: bare(change.parts["value"])}, new=False)))
            continue
        rest = change.parts.get("rest", change.text)
        match = _NAMED.match(rest)
        name = match[1].strip() if match else ""
        if not name:
            told.append("I read no contact in this; nothing was changed.")
            continue
        told.append((yield from _contact(loop, name, _fields_in(rest[match.end() :] if match else rest), new=change.kind == "add")))
    return " ".join(told)


def _fields_in(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    if email := _EMAIL.search(text):
        found["email_address"] = email[0]
        text = text.replace(email[0], "")
    if phone := _PHONE.search(text):
        found["whatsapp_number" if "whatsapp" in text.lower() else "phone_number"] = phone[0]
        text = text.replace(phone[0], "")
    job = _JOB.search(text) or re.match(r"\s*,\s*([a-z][\w -]{2,60})(?:,|$)", text)
    if job:
        found["job_title"] = job[1].strip()
    return found


def _contact(loop: Loop, name: str, fields: dict[str, str], *, new: bool) -> Plan:
    table = loop.tables.get(CONTACTS_TABLE)
    first, _, surname = name.rpartition(" ") if " " in name else (name, "", "")
    wanted = [f"first_name.lower() == {first.lower()!r}", *([f"surname.lower() == {surname.lower()!r}"] if surname else [])]
    rows = (yield from rows_of(table, " and ".join(wanted))) if table is not None else []
    if len(rows) > 1:
        rows = yield from _chosen(loop, rows, name)
    if rows:
        same = {field: value for field, value in fields.items() if rows[0].get(field) != value}
        if not same:
            return f"{name} is known already; nothing was changed."
        yield from read(("update_contact", {"contact_id": rows[0]["contact_id"], **same}))
        return f"Changed {name}: {', '.join(f'{field} {value}' for field, value in same.items())}."
    if not new:
        return f"There is no contact {name}; nothing was changed."
    given = {"first_name": first, **({"surname": surname} if surname else {}), **fields}
    yield from read(("create_contact", given))
    return f"Added the contact {name}."


def _chosen(loop: Loop, rows: Sequence[Mapping[str, Any]], name: str) -> Generator[list[Call], list[Result], list[dict[str, Any]]]:
    options = "; ".join(f"{row['contact_id']}: {row.get('first_name')} {row.get('surname') or ''}".strip() for row in rows)
    said = (yield from clarified(f"There are several contacts called {name}: {options}. Which one?")) if loop.clarify else None
    chosen = [dict(row) for row in rows if str(row["contact_id"]) in re.findall(r"\d+", said or "")]
    if len(chosen) != 1:
        raise GivesUp(f"it is not clear which {name} is meant; nothing was changed")
    return chosen


# -------------------------------------------------------------------------------------------------------------------- tasks


def ask_tasks(text: str) -> Plan:
    """The plan for ``tasks.ask``."""
    lower = text.lower()
    statuses = [one for one in ("done", "cancelled") if one in lower] or (
        ["open", "in_progress"] if re.search(r"open|to do|left|due|have", lower) else None
    )
    about = re.search(r"\b(?:about|with|for|concerning)\s+([^?!.]{2,200})", text)
    if about:
        found = yield from read(("search_tasks", {"text": about[1], "k": 5}))
    else:
        found = yield from read(("list_tasks", {"statuses": statuses, "limit": 100} if statuses else {"limit": 100}))
    tasks = _tasks(found)
    if "how many" in lower:
        return f"Number of tasks: {len(tasks)}."
    return f"Tasks: {'; '.join(_said(task) for task in tasks)}." if tasks else "There are no such tasks."


def update_tasks(text: str) -> Plan:
    """The plan for ``tasks.update``."""
    told: list[str] = []
    for change in changes_in(text):
        said = change.text
        if match := _NEW_TASK.match(said):
            told.append((yield from _new_task(match["name"])))
        elif match := _SET_TASK.match(said):
            fields = {match["field"].lower(): _value(match["field"].lower(), match["value"])}
            told.append((yield from _change_task(match["name"], fields)))
        elif match := _DONE_TASK.match(said) or _SAID_DONE.match(said):
            status = {"finished": "done", "in progress": "in_progress"}.get(match["status"].lower(), match["status"].lower())
            told.append((yield from _change_task(match["name"], {"status": status})))
        elif match := _CANCEL.match(said):
            told.append((yield from _change_task(match["name"], {"status": "cancelled"})))
        else:
            told.append("I read no task in this; nothing was changed.")
    return " ".join(told)


def _new_task(name: str) -> Plan:
    due = _DATE.search(name)
    arguments: dict[str, Any] = {"name": bare(_DATE.sub("", name))[:200]}
    if due:
        arguments["deadline"] = f"{due[1]}T{due[2] or '00:00'}:00+00:00"
    yield from read(("create_task", arguments))
    return f"Added the task: {arguments['name']}."


def _change_task(name: str, fields: Mapping[str, Any]) -> Plan:
    wanted = re.sub(r"^(?:the\s+)?(?:task|to-?do)\s+(?:to\s+)?", "", bare(name), flags=re.IGNORECASE)
    tasks = _tasks((yield from read(("search_tasks", {"text": wanted, "k": 5}))))
    found = next((task for task in tasks if str(task["name"]).lower() == wanted.lower()), tasks[0] if tasks else None)
    if found is None:
        return f"There is no task {wanted}; nothing was changed."
    yield from read(("update_task", {"task_id": found["task_id"], **fields}))
    return f"Changed the task {found['name']}: {', '.join(f'{field} {value}' for field, value in fields.items())}."


def _value(field: str, text: str) -> str:
    date = re.search(r"\d{4}-\d\d-\d\d", text)
    return f"{date[0]}T00:00:00+00:00" if field == "deadline" and date else bare(text).lower()


def _tasks(found: Any) -> list[dict[str, Any]]:
    given: Any = cast("dict[str, Any]", found).get("Tasks") if isinstance(found, dict) else None
    return cast("list[dict[str, Any]]", given) if isinstance(given, list) else []


def _said(task: Mapping[str, Any]) -> str:
    due = f", due {str(task['deadline'])[:10]}" if task.get("deadline") else ""
    return f"{task.get('name')} ({task.get('status')}{due})"
