"""Tables in memory that answer a model's calls in plain Python, to play plans of the simulated model without a store.

Nothing of the product runs on it; loops over the real tools and stores are in ``tests/contract/test_scenarios.py``.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memory.llm.simulated_knowledge import Move, next_move
from memory.model.knowledge_loop import Entry, EntryKind, Loop, Operation
from memory.model.tools import ToolDefinition
from memory.prompts.knowledge import LoopView, loop_request

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
CLARIFY = "request_clarification"
_METRICS = {"mean": statistics.mean, "median": statistics.median, "min": min, "max": max, "std": statistics.pstdev}


class Twin:
    """``calls``: all that were made, in order."""

    def __init__(self, tables: Sequence[Mapping[str, Any]] = ()) -> None:
        self.tables: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        for table in tables:
            key = table["unique_key_name"]
            self.create_table(name=table["name"], description=table["description"], columns=table["columns"], unique_key_name=key)
            self.add_rows(table=table["name"], rows=table["rows"])

    @property
    def names(self) -> list[str]:
        return [name for name in vars(type(self)) if not name.startswith("_") and name not in ("names", "rows", "overview")]

    def rows(self, table: str, where: str | None = None) -> list[dict[str, Any]]:
        return [row for row in self.tables[table]["rows"] if _holds(where, row)]

    def overview(self) -> dict[str, Any]:
        return {
            name: {"description": table["description"], "columns": {table["key"]: "int", **table["columns"]}}
            for name, table in self.tables.items()
        }

    def tables_overview(self) -> Any:
        return self.overview()

    def filter(self, *, filter: str | None = None, offset: int = 0, limit: int = 100, tables: Sequence[str]) -> Any:  # noqa: A002
        return {name: self.rows(name, filter)[::-1][offset : offset + limit] for name in tables}

    def reduce(self, *, table: str, metric: str, keys: str, filter: str | None = None, group_by: str | None = None) -> Any:  # noqa: A002
        groups: dict[str, list[Any]] = {}
        for row in self.rows(table, filter):
            group = groups.setdefault(str(row[group_by]) if group_by else "", [])
            if row[keys] is not None:
                group.append(row[keys])
        made = {name: _metric(metric, values) for name, values in groups.items()}
        return made if group_by else made.get("", _metric(metric, []))

    def search(self, *, table: str, references: Mapping[str, str], k: int = 10) -> Any:
        ((column, text),) = references.items()
        wanted = _stems(text)
        return sorted(self.rows(table), key=lambda row: -len(_stems(row[column]) & wanted))[:k]

    def filter_join(
        self, *, tables: Sequence[str], join_expr: str, select: Mapping[str, str], left_where: str | None = None, result_limit: int
    ) -> Any:
        left, right = (side.strip().split(".") for side in join_expr.split("=="))
        pairs = [
            {left[0]: one, right[0]: other}
            for one in self.rows(left[0], left_where)
            for other in self.rows(right[0])
            if one[left[1]] == other[right[1]]
        ]
        return [{name: pair[at.split(".")[0]][at.split(".")[1]] for at, name in select.items()} for pair in pairs][:result_limit]

    def create_table(self, *, name: str, description: str, columns: Mapping[str, str], unique_key_name: str) -> Any:
        if name in self.tables:
            raise ValueError(f"there is a table {name} already")
        self.tables[name] = {"description": description, "key": unique_key_name, "columns": dict(columns), "rows": [], "next": 0}
        return {"outcome": "table created"}

    def rename_table(self, *, old_name: str, new_name: str) -> Any:
        self.tables[new_name] = self.tables.pop(old_name)
        return {"outcome": "renamed"}

    def delete_tables(self, *, tables: Sequence[str]) -> Any:
        for name in tables:
            del self.tables[name]
        return {"outcome": "deleted"}

    def create_empty_column(self, *, table: str, column_name: str, column_type: str) -> Any:
        self.tables[table]["columns"][column_name] = column_type
        for row in self.rows(table):
            row[column_name] = None
        return {"outcome": "made"}

    def rename_column(self, *, table: str, old_name: str, new_name: str) -> Any:
        about = self.tables[table]
        about["columns"] = {new_name if name == old_name else name: kind for name, kind in about["columns"].items()}
        for row in self.rows(table):
            row[new_name] = row.pop(old_name)
        return {"outcome": "renamed"}

    def copy_column(self, *, source_table: str, column_name: str, dest_table: str) -> Any:
        dest = self.tables[dest_table]
        dest["columns"][column_name] = self.tables[source_table]["columns"][column_name]
        for row in self.rows(source_table):
            key = row[self.tables[source_table]["key"]]
            at = next((one for one in dest["rows"] if one[dest["key"]] == key), None)
            if at is None:
                at = {dest["key"]: key, **dict.fromkeys(dest["columns"])}
                dest["rows"].append(at)
            at[column_name] = row[column_name]
        return {"outcome": "copied"}

    def delete_column(self, *, table: str, column_name: str) -> Any:
        del self.tables[table]["columns"][column_name]
        for row in self.rows(table):
            del row[column_name]
        return {"outcome": "deleted"}

    def add_rows(self, *, table: str, rows: Sequence[Mapping[str, Any]]) -> Any:
        about = self.tables[table]
        for row in rows:
            for name, value in row.items():
                about["columns"].setdefault(name, type(value).__name__)
            about["rows"].append({about["key"]: about["next"], **dict.fromkeys(about["columns"]), **row})
            about["next"] += 1
        return {"outcome": "rows added successfully", "details": {"length": len(rows)}}

    def update_rows(self, *, table: str, updates: Mapping[str, Mapping[str, Any]]) -> Any:
        about = self.tables[table]
        for key, values in updates.items():
            if values.keys() - about["columns"].keys():
                raise ValueError("an unknown column")
            (row,) = self.rows(table, f"{about['key']} == {key}")
            row.update(values)
        return {"outcome": "updated"}

    def delete_rows(self, *, filter: str, tables: Sequence[str], limit: int = 100) -> Any:  # noqa: A002
        for name in tables:
            self.tables[name]["rows"] = [row for row in self.rows(name) if not _holds(filter, row)]
        return {"outcome": "deleted"}


def play(
    twin: Twin,
    text: str,
    operation: Operation = Operation.ASK,
    *,
    answers: Sequence[str | None] | None = None,
    said: Mapping[int, str] | None = None,
    steps: int = 40,
    broken: Mapping[int, str] | None = None,
    **given: Any,
) -> str:
    """The answer of a whole loop. ``answers``: to clarifications, None for no answer; not given: nobody is asked.

    ``said``: interjections after a step. ``broken``: steps whose first call comes out as this name, or without arguments ("").
    """
    loop = Loop("l", operation, text, "personal", NOW, clarify=answers is not None, **given)
    left = list(answers or ())
    names = [*twin.names, *([CLARIFY] if answers is not None else [])]
    tools = tuple(ToolDefinition(name, name, {}) for name in names)
    entries: list[Entry] = []
    for step in range(1, steps + 1):
        view = LoopView(
            loop=loop, entries=entries, overview=twin.overview(), now=NOW, tools=tools, timeout_s=5.0, last=step == steps
        )
        move = next_move(loop_request(view))
        if not move.calls:
            return move.text
        entries.extend(_carried_out(twin, move, step, left, (broken or {}).get(step)))
        if told := (said or {}).get(step):
            entries.append(Entry(f"i/{step}", EntryKind.INTERJECTION, step, {"text": told}))
    raise AssertionError("it called tools in its last step")


def _carried_out(twin: Twin, move: Move, step: int, answers: list[str | None], broken: str | None) -> list[Entry]:
    calls = [{"call_id": call.call_id, "name": call.name, "arguments": call.arguments, "raw": ""} for call in move.calls]
    if broken is not None:
        calls[0] |= {"name": broken} if broken else {"arguments": None, "raw": '{"oops'}
    entries = [Entry(f"model/{step}", EntryKind.MODEL, step, {"text": move.text, "calls": calls})]
    for place, call in enumerate(calls):
        name, is_error = str(call["name"]), False
        if name == CLARIFY:
            given = answers.pop(0)
            content: Any = {"outcome": "answered" if given is not None else "no answer in time"}
            if given is not None:
                entries.append(Entry(f"answer/{step}", EntryKind.ANSWER, step, {"text": given}))
        else:
            try:
                arguments: Any = call["arguments"]
                content = getattr(twin, name)(**arguments)
                twin.calls.append((name, arguments))
            except Exception as error:  # noqa: BLE001 - told to the model
                content, is_error = {"error": "bad_arguments", "message": str(error)}, True
        body = {"call_id": call["call_id"], "name": name, "content": json.dumps(content), "is_error": is_error}
        entries.append(Entry(f"result/{step}/{place}", EntryKind.RESULT, step, body))
    return entries


def says(answer: str, contains: Sequence[str]) -> bool:
    """Whether an answer says each of these, as a word of its own."""
    return all(re.search(rf"(?<![\w.]){re.escape(one)}(?![\w])", answer) for one in contains)


def _holds(where: str | None, row: Mapping[str, Any]) -> bool:
    if where is None:
        return True
    names = {"__builtins__": {}, "len": len, "str": str, "int": int, "float": float, "bool": bool}
    try:
        return bool(eval(where, names, dict(row)))
    except (AttributeError, TypeError):
        return False


def _metric(metric: str, values: list[Any]) -> Any:
    if metric in ("count", "sum"):
        return len(values) if metric == "count" else sum(values)
    return _METRICS[metric](values) if values else None


def _stems(text: str) -> set[str]:
    return {re.sub(r"(?:ing|s|e)$", "", word) for word in re.findall(r"\w{4,}", text.lower())}
