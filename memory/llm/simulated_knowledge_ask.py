"""How the simulated model answers questions over tables: with ``reduce``, ``filter`` and ``search``, by rules."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final, cast

from memory.llm.simulated_knowledge_figures import extremes, figure, grouped
from memory.llm.simulated_knowledge_paths import (
    Call,
    Edge,
    GivesUp,
    Plan,
    among,
    edges_of,
    find_values,
    joined,
    reach,
    read,
    rows_of,
)
from memory.llm.simulated_knowledge_prompt import Loop, Result, TableView
from memory.llm.simulated_knowledge_question import NotUnderstoodError, Question
from memory.llm.simulated_knowledge_unclear import unclear
from memory.llm.simulated_knowledge_words import ColumnAt, column_called, shown, spoken_column, stem
from memory.model.knowledge import CONTACTS_TABLE

NEAREST: Final = 3
MAX_LISTED: Final = 40
MAX_QUESTION_CHARS: Final = 2_000
"""What comes after is not read: the rules run on the event loop."""
_PEOPLE = re.compile(
    r"\b(?:contacts?|address book|e-?mails?|phones?|telephone|mobile|whatsapp|surnames?|job title)\b", re.IGNORECASE
)
_NAMES: Final[Mapping[str, str]] = {
    "sum": "Total", "mean": "Average", "median": "Median", "min": "Lowest", "max": "Highest", "count": "Number of",
    "var": "Variance of",
    "std": "Standard deviation of", "mode": "Most frequent",
}  # fmt: skip


def ask(loop: Loop, text: str) -> Plan:
    """The plan for a question. Its answer is without the mark of the simulation."""
    tables, text = loop.tables, text[:MAX_QUESTION_CHARS]
    if loop.manager == "contacts" and CONTACTS_TABLE in tables:
        tables = {CONTACTS_TABLE: tables[CONTACTS_TABLE]}
        text = re.sub(r"^\s*who\b", "Which contacts", text, flags=re.IGNORECASE)
    if not tables:
        return "There are no tables yet."
    own = {name: table for name, table in tables.items() if name != CONTACTS_TABLE}
    about_people = loop.manager == "contacts" or _about_people(text, own)
    if not own and not about_people:
        return "There are no tables yet."
    tables = tables if about_people else own
    question = Question.of(text, tables)
    if (meaning := question.meaning()) is not None and (table := _described(question)) is not None:
        return (yield from _nearest(table, meaning))
    question = Question.of(text, tables, (yield from find_values(text, tables.values())))
    if question.asked is None and not question.links and not question.columns:
        if not loop.clarify:
            return f"I find nothing in this question that is in a table. There are: {', '.join(tables)}."
        which = "Which of these do you mean:" if len(tables) > 1 else "What do you want to know of"
        said = yield from clarified(f"{which} {', '.join(tables)}?")
        if said is None:
            return f"It is not clear which table is meant. There are: {', '.join(tables)}."
        text = f"{text} {said}"
        question = Question.of(text, tables, (yield from find_values(text, tables.values())))
    try:
        if (words := unclear(question)) is not None:
            raise NotUnderstoodError(words)
        return (yield from _answer(question))
    except NotUnderstoodError as left:
        return f"I do not understand '{left}' here: no table, column, value or rule of mine fits it."


def _about_people(text: str, own: Mapping[str, TableView]) -> bool:
    """Whether the address book may be asked for: it is never looked into for a question about tables of the user's own."""
    if _PEOPLE.search(text):
        return True
    named = Question.of(text, own)
    return not named.named and not named.columns and re.match(r"\s*(?:who|whose|where)\b", text, re.IGNORECASE) is not None


def clarified(question: str) -> Generator[list[Call], list[Result], str | None]:
    """The caller's answer; None where there was none in time."""
    (result,) = yield [("request_clarification", {"question": question})]
    return result.value if isinstance(result.value, str) else None


def _answer(question: Question) -> Plan:
    metric, superlative, group = question.metric(), question.superlative(), question.group()
    asked = question.asked
    if superlative is not None and asked is not None and not group and _wants_a_thing(question):
        return (yield from _top(question, asked, *superlative))
    if superlative is not None and isinstance(superlative[1], ColumnAt) and metric is None:
        return (yield from _figure(question, superlative[1].table, superlative[0], superlative[1].name))
    if metric is not None and metric != "sum":
        column = question.numeric_column()
        if column is not None:
            return (yield from _figure(question, column.table, metric, column.name))
    if metric == "sum" or question.is_count():
        counted = question.counted() or question.numeric_column()
        if isinstance(counted, ColumnAt):
            return (yield from _figure(question, counted.table, "sum", counted.name))
        table = counted or asked
        if table is not None:
            return (yield from _figure(question, table, "count", None))
    return (yield from _rows(question))


def _wants_a_thing(question: Question) -> bool:
    return question.text.strip().lower().startswith(("which", "what", "who", "name", "find", "list", "show")) and not (
        question.text.lower().startswith("what is the") and question.asked is not None and question.counted() is not None
    )


# ------------------------------------------------------------------------------------------------------------------- figures


def _figure(question: Question, table: TableView, metric: str, column: str | None) -> Plan:
    conditions = question.conditions(table)
    group = question.group()
    what = f"{_NAMES[metric]} {table.name if column is None else spoken_column(column)}"
    if group is not None:
        values = yield from grouped(table, metric, column, conditions, group, question.tables)
        named = yield from _labelled(values, group)
        listed = "; ".join(f"{key}: {shown(value)}" for key, value in sorted(named.items()))
        return f"{what} by {group[1] if group[1] != group[0].key else group[0].name}: {listed or 'nothing'}."
    where = yield from reach(table, conditions, question.tables)
    value = yield from figure(table, metric, column, where)
    return f"{what}{_under(conditions)}: {shown(value)}."


def _labelled(values: Mapping[str, float], group: tuple[TableView, str]) -> Generator[list[Call], list[Result], dict[str, float]]:
    """Groups by a key, by the names of the rows."""
    table, name = group
    if name != table.key or table.label == table.key:
        return dict(values)
    rows = yield from rows_of(table, among(table.key, (int(key) for key in values if key.isdigit())))
    names = {str(row.get(table.key)): str(row.get(table.label)) for row in rows}
    return {names.get(key, key): value for key, value in values.items()}


def _top(question: Question, asked: TableView, metric: str, of: TableView | ColumnAt) -> Plan:
    table, column = (of.table, of.name) if isinstance(of, ColumnAt) else (of, None)
    conditions = question.conditions(table)
    word = {"max": "most", "min": "least"}[metric]
    if table.name == asked.name and column is not None:
        where = yield from reach(table, conditions, question.tables)
        best = yield from figure(table, metric, column, where)
        if best is None:
            return f"There is no such row in {table.name}."
        value = repr(best) if isinstance(best, str) else shown(best) if float(best).is_integer() else repr(best)
        test = f"str({column}) == {value}" if isinstance(best, str) else f"{column} == {value}"
        rows = yield from rows_of(table, joined([test, *([where] if where else [])]), limit=MAX_LISTED)
        return f"{_listed(rows, table)}: {spoken_column(column)} {shown(best)}."
    values = yield from grouped(
        table, "count" if column is None else "sum", column, conditions, (asked, asked.key), question.tables
    )
    keys, best = extremes(values, metric)
    if best is None:
        return f"There is nothing of {table.name} that belongs to {asked.name}."
    rows = yield from rows_of(asked, among(asked.key, (int(key) for key in keys if key.isdigit())), limit=MAX_LISTED)
    what = table.name if column is None else spoken_column(column)
    return f"{_listed(rows, asked)}: {word} {what}, {shown(best)}."


# ---------------------------------------------------------------------------------------------------------------------- rows


def _rows(question: Question) -> Plan:
    looked_up = _looked_up(question)
    if looked_up is not None:
        return looked_up
    table = question.asked or (question.links[0].table if question.links else None)
    if table is None and question.columns:
        table = question.columns[0].table
    if table is None:
        raise GivesUp("I have no rule for this question")
    conditions = question.conditions(table)
    where = yield from reach(table, conditions, question.tables)
    other = _beside(question, table)
    if other is not None:
        return (yield from _paired(table, other, question.tables[other.parent].label, where))
    rows = yield from rows_of(table, where, limit=MAX_LISTED + 1)
    if not rows:
        return f"There is nothing of that kind in {table.name}."
    column = question.column_of(table) if not conditions else None
    if column is not None and len(rows) <= MAX_LISTED:
        return "; ".join(f"{row.get(table.label)}: {shown(row.get(column))}" for row in reversed(rows)) + "."
    return f"{table.name}{_under(conditions)}: {_listed(rows, table)}."


def _beside(question: Question, table: TableView) -> Edge | None:
    """``models with their company``: the reference to the table that is wanted beside the first one."""
    match = re.search(r"\b(?:with|and|together with) (?:their|its|the) ([^\W\d]+)", question.text, re.IGNORECASE)
    if match is None:
        return None
    return next(
        (
            edge
            for edge in edges_of(question.tables)
            if edge.child == table.name and stem(edge.parent) == stem(match[1]) and question.tables[edge.parent].texts
        ),
        None,
    )


def _paired(table: TableView, edge: Edge, other_label: str, where: str | None) -> Plan:
    """Two tables by one join; only where the tool is there, which it is where there are several tables."""
    other = edge.parent
    arguments: dict[str, Any] = {
        "tables": [table.name, other],
        "join_expr": f"{table.name}.{edge.column} == {other}.{edge.column}",
        "select": {f"{table.name}.{table.key}": "key", f"{table.name}.{table.label}": "label", f"{other}.{other_label}": "other"},
        "result_limit": MAX_LISTED,
    }
    if where:
        arguments["left_where"] = where
    found = yield from read(("filter_join", arguments))
    rows = sorted(cast("list[dict[str, Any]]", found) if isinstance(found, list) else [], key=lambda row: row.get("key") or 0)
    return (
        "; ".join(f"{shown(row.get('label'))}: {shown(row.get('other'))}" for row in rows) + "."
        if rows
        else "There is nothing of that kind."
    )


def _looked_up(question: Question) -> str | None:
    """``What is the price of X``, ``when was X founded``, ``where is X from``: a value of a row that is named."""
    first = question.text.strip().lower().split(" ")[0]
    for link in question.links:
        table = link.table
        if question.asked is not None and question.asked.name != table.name and not first.startswith(("when", "where")):
            continue
        if link.column not in (table.label, "first_name", "surname"):
            continue
        column = question.column_of(table)
        if column is None and first == "where":
            column = column_called(table, ("country", "city", "place", "town", "address"))
        if column is None and first == "when":
            column = next((name for name, kind in table.columns.items() if kind in ("date", "datetime") or name == "year"), None)
        if column is not None and first in ("what", "when", "where", "how", "whats", "what's", "give", "tell", "show"):
            named = [one for one in question.links if one.table.name == table.name and one.column == table.label]
            if len(named) > 1:
                each = (f"{one.value}: {', '.join(dict.fromkeys(shown(row.get(column)) for row in one.rows))}" for one in named)
                return f"{spoken_column(column)} of {'; '.join(each)}."
            # First name and surname together are one person.
            keys: list[set[Any]] = [
                {row.get(table.key) for row in one.rows} for one in question.links if one.table.name == table.name
            ]
            both = keys[0].intersection(*keys) or keys[0]
            rows = [row for row in link.rows if row.get(table.key) in both] or link.rows
            values = dict.fromkeys(shown(row.get(column)) for row in rows)
            return f"{spoken_column(column)} of {link.value}: {', '.join(values)}."
    return None


def _described(question: Question) -> TableView | None:
    """The table with free text that the question is about."""
    if question.asked is not None and question.asked.texts:
        return question.asked
    return next((table for table in question.tables.values() if table.prose), None)


def _nearest(table: TableView, meaning: str) -> Plan:
    column = table.prose or table.label
    found = yield from read(("search", {"table": table.name, "references": {column: meaning}, "k": NEAREST}))
    rows = cast("list[dict[str, Any]]", found) if isinstance(found, list) else []
    if not rows:
        return f"{table.name} has nothing to compare."
    best, *others = [str(row.get(table.label)) for row in rows]
    return f"Closest in {table.name}: {best}" + (f" (then {', '.join(others)})." if others else ".")


def _listed(rows: Sequence[Mapping[str, Any]], table: TableView) -> str:
    """By name, oldest first."""
    names = [shown(row.get(table.label)) for row in reversed(rows)]
    return ", ".join(names[:MAX_LISTED]) + (" and more" if len(names) > MAX_LISTED else "")


def _under(conditions: Mapping[str, Sequence[str]]) -> str:
    said = [_spoken(one) for some in conditions.values() for one in some]
    return f" with {' and '.join(said)}" if said else ""


def _spoken(condition: str) -> str:
    """A filter as an answer says it."""
    if match := re.fullmatch(r"str\((\w+)\)\.startswith\('(\d+)'\)", condition):
        return f"{spoken_column(match[1])} in {match[2]}"
    if match := re.fullmatch(r"str\((\w+)\) (<|>=) '(\d+)'", condition):
        return f"{spoken_column(match[1])} {'before' if match[2] == '<' else 'since'} {match[3]}"
    if match := re.match(r"'([^']+)' in \w+\.lower\(\)", condition):
        names = [spoken_column(name) for name in re.findall(r" in (\w+)\.lower\(\)", condition)]
        return f"{match[1]} in the {' or '.join(names)}"
    if match := re.fullmatch(r"(\w+)\.lower\(\)\.(start|end)swith\('(.+)'\)", condition):
        return f"{spoken_column(match[1])} {match[2]}ing with {match[3]}"
    return re.sub(r" == ", " ", condition).replace(" != ", " not ")
