"""How the simulated model takes a document in: its sentences become rows, each with the file and page that it is from.

It sorts nothing: that takes a model that reads. What the document asks for is a sentence like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from memory.llm.simulated_knowledge_paths import Plan, read, rows_of
from memory.llm.simulated_knowledge_prompt import Loop, TableView, tables_of

STATEMENTS: Final = "Statements"
_REQUEST: Final = re.compile(r"\s*Take into the tables what the document\b")
MIN_CHARS: Final = 12
MAX_CHARS: Final = 400
MAX_SENTENCES: Final = 60
"""Of one document; the answer says how many are left out."""

_FILE = re.compile(r"\bsource_file = (.{1,200}?)(?= and source_page\b|\.\s|\.$)")
_NAME = re.compile(r"^The document is (.{1,200}?), (?:pages? \d|the whole of)", re.MULTILINE)
_PAGE = re.compile(r"^The document is .{1,200}?, page (\d+)\b", re.MULTILINE)
_PAGE_MARK = re.compile(r"^\[page (\d+)\]$")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+")


def is_of_a_document(loop: Loop) -> bool:
    """Whether the loop is one of an ingested file: by its request, or by a document whose source the instructions name."""
    asked = _REQUEST.match(loop.request) is not None
    return loop.operation == "update" and (asked or (bool(loop.documents) and _FILE.search(loop.system) is not None))


def take_in(documents: Sequence[str], system: str) -> Plan:
    """The plan. ``system``: where the instructions say what the file is called, and its page where it is one."""
    tables = tables_of((yield from read(("tables_overview", {}))))
    file, page = _NAME.search(system) or _FILE.search(system), _PAGE.search(system)
    said = [row for document in documents for row in _sentences(document, int(page[1]) if page else None)]
    taken, left_out = said[:MAX_SENTENCES], max(0, len(said) - MAX_SENTENCES)
    if not taken:
        return "The document says nothing that can be taken in."
    columns = {"text": "str", "source_file": "str", "source_page": "int"}
    table = tables.get(STATEMENTS)
    known: set[str] = set()
    if table is None:
        description = "Sentences of documents, with the file and page that they are from."
        made = {"name": STATEMENTS, "description": description, "columns": columns, "unique_key_name": "statement_id"}
        yield from read(("create_table", made))
        table = TableView(STATEMENTS, "statement_id", {"statement_id": "int", **columns})
    else:
        for start in range(0, len(taken), 15):
            texts = [text for text, _ in taken[start : start + 15]]
            known |= {str(row.get("text")) for row in (yield from rows_of(table, f"text in {texts!r}"))}
    rows: list[dict[str, Any]] = [
        {"text": text, "source_file": file[1].strip() if file else None, "source_page": where}
        for text, where in taken
        if text not in known
    ]
    if rows:
        yield from read(("add_rows", {"table": STATEMENTS, "rows": rows}))
    told = f"Added {len(rows)} sentences of the document to {STATEMENTS}; {len(taken) - len(rows)} were there already."
    return told + (f" {left_out} are left out." if left_out else "")


def _sentences(document: str, page: int | None) -> Iterator[tuple[str, int | None]]:
    """Sentences with their pages, each once; headings, rows of tables and scraps are no sentences."""
    seen: set[str] = set()
    for line in document.splitlines():
        mark = _PAGE_MARK.match(line.strip())
        if mark:
            page = int(mark[1])
            continue
        if line.lstrip().startswith(("#", "|", "```", "[…")):
            continue
        for sentence in _SENTENCE_END.split(line.strip(" \t-*•>")):
            text = " ".join(sentence.split())[:MAX_CHARS]
            if len(text) >= MIN_CHARS and text not in seen:
                seen.add(text)
                yield text, page
