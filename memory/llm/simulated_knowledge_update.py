"""How the simulated model brings tables to a state that is said in plain sentences. English.

    Add the company Volta from Norway, founded 2012
    Record that model Kite sold 1200 units in Germany in 2024
    Set the price of the Kite to 26,500
    Delete the company Volta

What fits no rule is kept as a row of a table of notes.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from memory.llm.simulated_knowledge_ask import clarified
from memory.llm.simulated_knowledge_parts import (
    Change,
    bare,
    changes_in,
    column_name,
    column_of,
    counted_column,
    is_change,
    misfits,
    name_and_rest,
    table_name,
    thing_of,
    type_of,
    typed,
    values_in,
)
from memory.llm.simulated_knowledge_paths import Call, GivesUp, Plan, edges_of, read, rows_of
from memory.llm.simulated_knowledge_prompt import Loop, Result, TableView, tables_of
from memory.llm.simulated_knowledge_words import pieces, shown, stem, tables_in
from memory.model.knowledge import CONTACTS_TABLE

NOTES: Final = "Notes"
_YEAR = re.compile(r"\bin\s+((?:19|20)\d\d)\b")
_PLACE = re.compile(r"\b(?:in|to|at|for)\s+((?:the\s+)?[A-Z][\w'’-]*(?:\s+[A-Z][\w'’-]*)*)")

__all__ = ["Book", "Told", "changed", "done", "is_change", "update"]

Told = Generator[list[Call], list[Result], str]


def update(loop: Loop, text: str) -> Plan:
    """The plan for a request. Its answer says what was changed and what was assumed."""
    # Of the conversation and not of the prompt: the prompt of a later step shows the tables as they are then.
    book = Book(loop, tables_of((yield from read(("tables_overview", {})))))
    told: list[str] = []
    for change in changes_in(text):
        told.append((yield from _carry_out(book, change)))
    return " ".join(told) or "There is nothing to do."


class Book:
    """The tables as the plan knows them, with what it has made itself. ``mine``: rows of this destination only are changed."""

    def __init__(self, loop: Loop, tables: dict[str, TableView]) -> None:
        self.loop = loop
        self.tables = {name: table for name, table in tables.items() if name != CONTACTS_TABLE}

    def mine(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return [row for row in rows if row.get("_source") in (None, self.loop.destination)]

    def named(self, noun: str) -> TableView | None:
        found = tables_in(noun, self.tables)
        return found[0][0] if found else None

    def add_columns(self, table: TableView, columns: Mapping[str, str]) -> TableView:
        new = replace(table, columns={**table.columns, **columns})
        self.tables[table.name] = new
        return new


def _carry_out(book: Book, change: Change) -> Told:
    parts = change.parts
    match change.kind:
        case "add":
            return (yield from _add(book, parts["rest"]))
        case "record":
            return (yield from _record(book, parts["rest"]))
        case "set":
            return (yield from _set(book, parts["column"], parts["thing"], parts["value"]))
        case "remove":
            return (yield from _remove(book, parts["rest"]))
        case "rename":
            return (yield from _rename(book, parts))
        case "column":
            return (yield from _new_column(book, parts))
        case _:
            return (yield from _note(book, change.text))


# ------------------------------------------------------------------------------------------------------------------ adding


def _add(book: Book, text: str) -> Told:
    table, noun, rest = thing_of(text, book.tables)
    if table is None and not noun:
        return (yield from _note(book, text))
    name, about = name_and_rest(rest)
    given = values_in(about, table)
    parent = given.pop("@", None)
    if table is None:
        values = {column: typed(value, None) for column, value in given.items()}
        columns = {"name": "str", **{column: type_of(value) for column, value in values.items()}}
        made = table_name(noun)
        key = f"{stem(noun)}_id"
        yield from done(
            "create_table",
            {"name": made, "description": f"Each row is one {noun}.", "columns": columns, "unique_key_name": key},
        )
        table = TableView(made, key, {key: "int", **columns})
        book.tables[made] = table
    else:
        if (wrong := misfits(given, table)) is not None:
            return f"{name or noun} was not added: {wrong}."
        values = {column: typed(value, table.columns.get(column)) for column, value in given.items()}
    notes: list[str] = []
    if parent is not None:
        link = yield from _parent(book, table, parent)
        if link is None:
            values.setdefault("made_by", parent)
        else:
            values[link[0]] = link[1]
    if not name:
        raise GivesUp(f"the request does not say what the new {noun} is called")
    row = {table.label: name, **values}
    known = book.mine((yield from rows_of(table, f"{table.label}.lower() == {name.lower()!r}", limit=5)))
    if known:
        return (yield from changed(book, table, known[0], values, name)) + "".join(notes)
    yield from done("add_rows", {"table": table.name, "rows": [row]})
    book.add_columns(table, {column: type_of(value) for column, value in row.items() if column not in table.columns})
    said = ", ".join(f"{' '.join(pieces(column))} {shown(value)}" for column, value in values.items())
    return f"Added {name} to {table.name}" + (f": {said}." if said else ".")


def _parent(book: Book, table: TableView, name: str) -> Generator[list[Call], list[Result], tuple[str, int] | None]:
    """The referring column and the key of the row that a thing belongs to."""
    for edge in edges_of(book.tables):
        if edge.child == table.name:
            other = book.tables[edge.parent]
            rows = yield from rows_of(other, f"{other.label}.lower() == {name.lower()!r}", limit=5)
            if rows:
                return edge.column, int(rows[0][other.key])
    return None


def changed(book: Book, table: TableView, row: Mapping[str, Any], values: Mapping[str, Any], name: str) -> Told:
    """Bring a row that is there to these values."""
    differing = {column: value for column, value in values.items() if row.get(column) != value}
    if not differing:
        return f"{name} is in {table.name} already; nothing was changed."
    for column, value in differing.items():
        if column not in table.columns:
            yield from done("create_empty_column", {"table": table.name, "column_name": column, "column_type": type_of(value)})
            table = book.add_columns(table, {column: type_of(value)})
    yield from done("update_rows", {"table": table.name, "updates": {str(row[table.key]): differing}})
    said = ", ".join(f"{' '.join(pieces(column))} is now {shown(value)}" for column, value in differing.items())
    return f"Changed {name} in {table.name}: {said}."


def _note(book: Book, text: str) -> Told:
    table = book.tables.get(NOTES)
    if table is None:
        columns = {"text": "str"}
        yield from done(
            "create_table",
            {"name": NOTES, "description": "What fits no other table.", "columns": columns, "unique_key_name": "note_id"},
        )
        table = book.tables[NOTES] = TableView(NOTES, "note_id", {"note_id": "int", **columns})
    known = book.mine((yield from rows_of(table, f"text.lower() == {text.lower()!r}", limit=1)))
    if known:
        return f"That is in {NOTES} already; nothing was changed."
    yield from done("add_rows", {"table": NOTES, "rows": [{"text": text}]})
    return f"Kept as a row of {NOTES}, because no rule fits it."


# ---------------------------------------------------------------------------------------------------------------- recording


def _record(book: Book, text: str) -> Told:
    """A figure of things that are in tables: a row of the table that refers to them."""
    counted = counted_column(text, book.tables)
    if counted is None:
        return (yield from _stated(book, text))
    table, column, figure = counted
    subject = re.split(r"\s+(?:sold|sells|had|has|have|got|made|received|reached)\s+", text, maxsplit=1)[0]
    parents = [(edge, book.tables[edge.parent]) for edge in edges_of(book.tables) if edge.child == table.name]
    if not parents:
        return (yield from _set(book, column, subject, figure))
    row: dict[str, Any] = {}
    said: list[str] = []
    names = [bare(thing_of(subject, book.tables)[2]), *(bare(match[1]) for match in _PLACE.finditer(text))]
    if not names[0]:
        raise GivesUp("the request does not say what the figure is of; nothing was recorded")
    left = list(parents)
    for place, name in enumerate(names):
        found: tuple[str, int] | None = None
        for edge, other in left:
            rows = yield from rows_of(other, f"{other.label}.lower() == {name.lower()!r}", limit=5)
            if rows:
                found = edge.column, int(rows[0][other.key])
                left.remove((edge, other))
                break
        if found is None:
            wanted = thing_of(subject, book.tables)[0] if place == 0 else None
            target = next(((edge, other) for edge, other in left if wanted is None or other.name == wanted.name), None)
            if target is None:
                raise GivesUp(f"no table that {table.name} refers to has {name}; nothing was recorded")
            left.remove(target)
            found = target[0].column, (yield from _made(book, target[1], name))
            said.append(f"{name} was added to {target[1].name}.")
        row[found[0]] = found[1]
    year = _YEAR.search(text)
    if year and "year" in table.columns:
        row["year"] = int(year[1])
    same = " and ".join(f"{name} == {value}" for name, value in row.items())
    known = book.mine((yield from rows_of(table, same or None, limit=5))) if row else []
    values = {column: typed(figure, table.columns[column])}
    what = " ".join([names[0], *said[:0]])
    if known:
        told = yield from changed(book, table, known[0], values, what)
    else:
        yield from done("add_rows", {"table": table.name, "rows": [{**row, **values}]})
        told = f"Added a row to {table.name}: {' '.join(pieces(column))} {shown(values[column])} of {what}."
    return " ".join([told, *said])


def _made(book: Book, table: TableView, name: str) -> Generator[list[Call], list[Result], int]:
    """The key of a row that had to be added first; somebody who listens is asked before."""
    if book.loop.clarify:
        answer = yield from clarified(f"There is no {name} in {table.name}. Shall I add it?")
        if answer is not None and not re.match(r"\s*(?:yes|y|ok|sure|do|please|ja|add)\b", answer, re.IGNORECASE):
            raise GivesUp(f"{name} is not in {table.name}, and it was not to be added; nothing was recorded")
    yield from done("add_rows", {"table": table.name, "rows": [{table.label: name}]})
    rows = yield from rows_of(table, f"{table.label} == {name!r}", limit=1)
    if not rows:
        raise GivesUp(f"{name} was added to {table.name} and cannot be found there")
    return int(rows[0][table.key])


def _stated(book: Book, text: str) -> Told:
    """``the range of the Kite is 445 km``, ``Kite has a range of 445 km``: a value of a row; else a note."""
    match = re.match(r"(?:the\s+)?([\w ]{1,60}?)\s+of\s+(.{1,200}?)\s+(?:is|was)\s+(.+)$", text, re.IGNORECASE)
    if match:
        return (yield from _set(book, match[1], match[2], match[3]))
    match = re.match(r"(.{1,200}?)\s+(?:has|have)\s+(?:an?\s+)?([\w ]{1,60}?)\s+of\s+(.+)$", text, re.IGNORECASE)
    if match:
        return (yield from _set(book, match[2], match[1], match[3]))
    return (yield from _note(book, text))


# ---------------------------------------------------------------------------------------------------- changing and removing


def _set(book: Book, column: str, thing: str, value: str) -> Told:
    named, _, rest = thing_of(thing, book.tables)
    name = bare(rest if named is not None else thing)
    if not name:
        return f"The request does not say whose {column} it is; nothing was changed."
    candidates = [named] if named is not None else list(book.tables.values())
    with_column = [table for table in candidates if table.texts and column_of(table, (column,))]
    for table in with_column or [table for table in candidates if table.texts]:
        rows = book.mine((yield from rows_of(table, f"{table.label}.lower() == {name.lower()!r}", limit=10)))
        if rows:
            row = yield from _the_one(book, table, rows, name)
            target = column_of(table, (column,)) or column_name(column)
            if (wrong := misfits({target: value}, table)) is not None:
                return f"{name} was not changed: {wrong}."
            return (yield from changed(book, table, row, {target: typed(value, table.columns.get(target))}, name))
    if book.loop.clarify:
        said = yield from clarified(f"I find no {name}. What is it called in the tables?")
        if said is not None and bare(said).lower() != name.lower():
            return (yield from _set(book, column, said, value))
    return f"There is no {name} in the tables; nothing was changed."


def _the_one(
    book: Book, table: TableView, rows: Sequence[Mapping[str, Any]], name: str
) -> Generator[list[Call], list[Result], Mapping[str, Any]]:
    """The row that is meant; where there are several, who listens is asked, else it is the oldest."""
    if len(rows) == 1 or not book.loop.clarify:
        return rows[-1]
    options = "; ".join(
        f"{table.key} {row[table.key]}"
        + "".join(
            f", {column} {shown(row[column])}"
            for column in table.texts
            if column not in (table.label, table.prose) and row.get(column)
        )
        for row in rows
    )
    said = yield from clarified(f"There are {len(rows)} rows called {name} in {table.name}: {options}. Which one?")
    numbers = re.findall(r"\d+", said or "")
    chosen = [row for row in rows if str(row[table.key]) in numbers] or [
        row
        for row in rows
        if said
        and any(
            str(value).lower() in said.lower()
            for column, value in row.items()
            if column in table.texts and column != table.label and value
        )
    ]
    if len(chosen) != 1:
        raise GivesUp(f"it is not clear which {name} is meant; nothing was changed")
    return chosen[0]


def _remove(book: Book, text: str) -> Told:
    if match := re.match(r"(?:the\s+)?table\s+([\w ]+)$", text, re.IGNORECASE):
        table = book.named(match[1])
        if table is None:
            return f"There is no table {match[1]}; nothing was deleted."
        yield from done("delete_tables", {"tables": [table.name]})
        book.tables.pop(table.name, None)
        return f"Deleted the table {table.name} with all its rows."
    if match := re.match(
        r"(?:the\s+)?column\s+([\w ]+?)\s+(?:of|from|in)\s+(?:the\s+)?(?:table\s+)?([\w ]+)$", text, re.IGNORECASE
    ):
        table = book.named(match[2])
        column = column_of(table, (match[1],)) if table else None
        if table is None or column is None:
            return f"There is no column {match[1]} of {match[2]}; nothing was deleted."
        yield from done("delete_column", {"table": table.name, "column_name": column})
        return f"Deleted the column {column} of {table.name}."
    every = re.match(r"(?:all|every)\s+(?:(?:the\s+)?rows?\s+(?:of|from|in)\s+)?(.+)$", text, re.IGNORECASE)
    named, _, rest = thing_of(every[1] if every else text, book.tables)
    if named is not None and not rest and every:
        yield from done("delete_rows", {"filter": f"{named.key} >= 0", "tables": [named.name], "limit": 1000})
        return f"Deleted the rows of {named.name}."
    name = bare(name_and_rest(rest)[0] if named is not None else text)
    if not name:
        return f"The request does not say which row{f' of {named.name}' if named else ''}; nothing was deleted."
    if named is None and name.lower().split(" ")[0] in ("everything", "anything", "all", "every"):
        return "I delete what is named only: say which table, or which row; nothing was deleted."
    for table in [named] if named is not None else book.tables.values():
        if not table.texts:
            continue
        rows = book.mine((yield from rows_of(table, f"{table.label}.lower() == {name.lower()!r}", limit=10)))
        if rows:
            row = yield from _the_one(book, table, rows, name)
            yield from done("delete_rows", {"filter": f"{table.key} == {row[table.key]}", "tables": [table.name]})
            return f"Deleted {name} from {table.name} ({table.key} {row[table.key]})."
    return f"There is no {name} in the tables; nothing was deleted."


def _rename(book: Book, parts: Mapping[str, str]) -> Told:
    table = book.named(parts.get("table") or parts["old"])
    if table is None:
        return f"There is no table {parts.get('table') or parts['old']}; nothing was renamed."
    if "table" in parts:
        column = column_of(table, (parts["old"],))
        if column is None:
            return f"{table.name} has no column {parts['old']}; nothing was renamed."
        new = column_name(parts["new"])
        yield from done("rename_column", {"table": table.name, "old_name": column, "new_name": new})
        return f"Renamed the column {column} of {table.name} to {new}."
    made = "".join(part[:1].upper() + part[1:] for part in parts["new"].split())
    yield from done("rename_table", {"old_name": table.name, "new_name": made})
    return f"Renamed {table.name} to {made}."


def _new_column(book: Book, parts: Mapping[str, str]) -> Told:
    table = book.named(parts["table"])
    if table is None:
        return f"There is no table {parts['table']}; no column was made."
    name, kind = column_name(parts["column"]), (parts.get("type") or "str").lower()
    yield from done("create_empty_column", {"table": table.name, "column_name": name, "column_type": kind})
    book.add_columns(table, {name: kind})
    return f"Made the column {name} ({kind}) of {table.name}."


def done(name: str, arguments: dict[str, Any]) -> Generator[list[Call], list[Result], Any]:
    return (yield from read((name, arguments)))
