"""What a question asks for: table, column, metric, conditions, groups. Rules over English, for the simulated model only."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from memory.llm.simulated_knowledge_paths import Link, distance, is_upward, path_between
from memory.llm.simulated_knowledge_prompt import TableView
from memory.llm.simulated_knowledge_words import (
    GREATEST,
    SUPERLATIVES,
    UNITS,
    ColumnAt,
    Comparison,
    column_called,
    columns_in,
    comparisons_in,
    numeric,
    pieces,
    stem,
    tables_in,
    words,
)

METRICS: Final[Mapping[str, str]] = {
    "average": "mean", "mean": "mean", "median": "median", "total": "sum", "sum": "sum", "altogether": "sum", "variance": "var",
    "deviation": "std", "mode": "mode",
}  # fmt: skip
_ORDERED: Final = ("int", "float", "date", "datetime")
_COUNT = re.compile(r"\b(?:how many|number of|count(?: of)?|how much)\b", re.IGNORECASE)
_GROUP = re.compile(r"\b(?:per|by|for each|in each|of each|for every|by each|did each|does each|do each)\s+", re.IGNORECASE)
YEAR: Final = re.compile(r"\b(in|during|of|since|after|before|until|from)\s+((?:19|20)\d\d)\b", re.IGNORECASE)
_FAR: Final = 99
_YEAR_SIGNS: Final = {"since": ">=", "from": ">=", "after": ">", "before": "<", "until": "<="}
NEGATION: Final = re.compile(
    r"\b(?:not|except|outside|other than|excluding|\w{2,6}n['’]t)\s+"
    r"(?:(?:from|in|of|by|at|for|an?|the|made|called|based|located|come|comes|be)\s+)*[\"“]?$",
    re.IGNORECASE,
)
TEXTS: Final = re.compile(
    r"\b(?P<how>contain|contains|containing|includ(?:e|es|ing)|start(?:s|ing)? with|end(?:s|ing)? (?:with|in))\s+"
    r"(?:the\s+(?:words?|text|letters?)\s+)?[\"“]?(?P<what>[^\"”?!.,;]{1,80}?)[\"”]?"
    r"(?=\s+in\s+(?:the|their|its)\b|\s+and\s|\s*[?!.,;]|\s*$)",
    re.IGNORECASE,
)
_MEANING = re.compile(
    r"\b(?:(?<!how )about(?! how)|deal(?:s|ing)? with|related to|similar to|described as|good for|suitable for|suited (?:for|to)"
    r"|fit for|known for|on the topic of|concern(?:s|ing)?|mention(?:s|ing)?|(?:is|are|something) like|resembl\w+)"
    r"\s+(?P<what>[^?!]{2,300})",
    re.IGNORECASE,
)


class NotUnderstoodError(Exception):
    """Words of a question that no rule has understood; they are the message."""


@dataclass(slots=True)
class Question:
    """``named``: tables in the order in which they are said. ``columns``: of numbers and of texts."""

    text: str
    tables: Mapping[str, TableView]
    named: list[tuple[TableView, int, int]] = field(default_factory=list[tuple[TableView, int, int]])
    columns: list[ColumnAt] = field(default_factory=list[ColumnAt])
    links: list[Link] = field(default_factory=list[Link])

    @classmethod
    def of(cls, text: str, tables: Mapping[str, TableView], links: Sequence[Link] = ()) -> Question:
        """Without the tables and columns whose names are within the words of a value."""

        def free(start: int, end: int) -> bool:
            return not any(link.start <= start and end <= link.end for link in links)

        named = [one for one in tables_in(text, tables) if free(one[1], one[2])]
        columns = [one for one in columns_in(text, tables) if free(one.start, one.end)]
        return cls(text, tables, named, columns, list(links))

    @property
    def asked(self) -> TableView | None:
        """What ``which …``, ``how many …`` stands before: the first table that is named, else that of a kind that is (``SUVs``)."""
        of_kind = next((link.table for link in self.links if link.column != link.table.label), None)
        return self.named[0][0] if self.named else of_kind if len({link.table.name for link in self.links}) == 1 else None

    def meaning(self) -> str | None:
        """What rows should be like, where the question is about what a text means."""
        match = _MEANING.search(self.text)
        return match["what"].strip(" .") if match else None

    def is_count(self) -> bool:
        return _COUNT.search(self.text) is not None

    def counted(self) -> TableView | ColumnAt | None:
        """What ``how many`` is about: a table, or the numbers of a column."""
        match = _COUNT.search(self.text)
        return self._first_after(match.end()) if match else None

    def metric(self) -> str | None:
        return next((METRICS[word.lower()] for word, _, _ in words(self.text) if word.lower() in METRICS), None)

    def superlative(self) -> tuple[str, TableView | ColumnAt] | None:
        """``max`` or ``min``, and of what."""
        for word, start, end in words(self.text):
            lower = word.lower()
            if lower == "most" and re.match(r"\s+(?:expensive|costly)\b", self.text[end:], re.IGNORECASE):
                lower = "highest"
            if lower in ("first", "last") and re.match(r"\s*[?.!]*\s*$", self.text[end:]):
                before = [one for one in self.columns if one.end <= start and one.table.columns[one.name] in _ORDERED]
                if before:
                    return ("min" if lower == "first" else "max"), before[-1]
            if lower in GREATEST and not re.search(r"\bat\s+$", self.text[:start]):
                found = self._first_after(end) or self._last_before(start)
                if found is not None:
                    return GREATEST[lower], found
            if lower in SUPERLATIVES:
                metric, meant = SUPERLATIVES[lower]
                near = self._first_after(end)
                if isinstance(near, ColumnAt) and near.start - end < 20:
                    return metric, near
                column = column_called(self.asked, meant) if self.asked else None
                if self.asked and column:
                    return metric, ColumnAt(self.asked, column, start, end)
        return None

    def group(self) -> tuple[TableView, str] | None:
        """The column, or the table (by its key), for each of which a figure is wanted."""
        for match in _GROUP.finditer(self.text):
            near = [one for one in self._mentions() if 0 <= self._start(one) - match.end() <= 12]
            for one in near:
                if isinstance(one, ColumnAt):
                    # ``kind of venue``: the column of that table
                    of_named = [
                        c for c in self.columns if c.start == one.start and any(c.table.name == t.name for t, _, _ in self.named)
                    ]
                    best = min(of_named or [one], key=lambda c: self._rank(c.table))
                    return best.table, best.name
                return one[0], one[0].key
        return None

    def numeric_column(self) -> ColumnAt | None:
        """The first column of numbers that the question names."""
        return next(iter(self._numbers()), None)

    def column_of(self, table: TableView) -> str | None:
        """A column of this table that the question names."""
        return next((one.name for one in self.columns if one.table.name == table.name), None)

    # ------------------------------------------------------------------------------------------------------- conditions

    def conditions(self, target: TableView, *, without: Sequence[str] = ()) -> dict[str, list[str]]:
        """Filters by table, for a question about ``target``. Of several meanings of a word the nearest to it is taken."""
        found: dict[str, list[str]] = {}
        for span in sorted({(link.start, link.end) for link in self.links}):
            meant = [link for link in self.links if (link.start, link.end) == span and link.value not in without]
            near = min(
                meant,
                key=lambda link: (distance(link.table.name, target.name, self.tables), link.column != link.table.label),
                default=None,
            )
            if near is None or any(match.start() <= near.start < match.end() for match in TEXTS.finditer(self.text)):
                continue
            if distance(near.table.name, target.name, self.tables) == _FAR:
                raise NotUnderstoodError(near.value)
            sign = "==" if NEGATION.search(self.text[: near.start]) is None else "!="
            path = path_between(target.name, near.table.name, self.tables) or []
            if sign == "!=" and not is_upward(path, target.name):
                # ``papers not by Ann``: those with another author may be by Ann too
                raise NotUnderstoodError(f"not {near.value}")
            test = f"{near.column} {sign} {near.value!r}"
            here = found.setdefault(near.table.name, [])
            same = next((place for place, one in enumerate(here) if one.startswith(f"{near.column} == ")), None)
            if sign == "==" and same is not None:
                # ``from Germany and Norway``: a cell has one of them
                here[same] = f"{here[same]} or {test}"
            else:
                here.append(test)
        years = list(YEAR.finditer(self.text))
        for comparison in comparisons_in(self.text):
            if any(match.start() <= comparison.start < match.end() for match in years):
                continue
            column = self._compared(comparison, target)
            if column is None:
                raise NotUnderstoodError(self.text[comparison.start : comparison.end])
            found.setdefault(column.table.name, []).append(f"{column.name} {comparison.operator} {comparison.number}")
        for match in years:
            if any(link.start <= match.start() and match.end() <= link.end for link in self.links):
                continue
            expression = self._year(target, match[1].lower(), match[2])
            if expression is None:
                raise NotUnderstoodError(match[0])
            found.setdefault(expression[0], []).append(expression[1])
        for match in TEXTS.finditer(self.text):
            found.setdefault(target.name, []).append(self._text(target, match["how"].lower(), match["what"].strip()))
        return found

    def _text(self, target: TableView, how: str, what: str) -> str:
        said = [one.name for one in self.columns if one.table.name == target.name and one.name in target.texts]
        names = said[:1] or [name for name in (target.label, target.prose) if name in target.texts]
        if not names or not what:
            raise NotUnderstoodError(f"{how} {what}")
        if how.startswith(("start", "end")):
            method = "startswith" if how.startswith("start") else "endswith"
            return f"{names[0]}.lower().{method}({what.lower()!r})"
        part = (stem(what) if " " not in what else what).lower()
        return " or ".join(f"{part!r} in {name}.lower()" for name in dict.fromkeys(names))

    def _compared(self, comparison: Comparison, target: TableView) -> ColumnAt | None:
        numbers = [one for one in self.columns if numeric(one.table, one.name)]
        unit = next((UNITS[word.lower()] for word, _, _ in words(comparison.after[:20]) if word.lower() in UNITS), None)
        after = [one for one in numbers if 0 <= one.start - comparison.end <= 25]
        before = [one for one in numbers if 0 <= comparison.start - one.end <= 25]
        of_target = [one for one in [*after, *reversed(before)] if one.table.name == target.name]
        if near := of_target or [*after, *reversed(before)]:
            return near[0]
        named = next((name for name in target.columns if unit and pieces(name)[-1] == unit), None)
        return ColumnAt(target, named, 0, 0) if named else None

    def _year(self, target: TableView, word: str, year: str) -> tuple[str, str] | None:
        sign = _YEAR_SIGNS.get(word, "==")
        said = [one.name for one in self.columns if one.table.name == target.name]
        for name in [*said, *target.columns]:
            kind = target.columns[name]
            if kind in ("date", "datetime") and (name in said or "year" not in target.columns):
                if sign == "==":
                    return target.name, f"str({name}).startswith('{year}')"
                bound = int(year) + (sign in (">", "<="))
                return target.name, f"str({name}) {'>=' if '>' in sign else '<'} '{bound}'"
            if kind == "int" and (name == "year" or (name in said and name in ("founded", "first_year"))):
                return target.name, f"{name} {sign} {year}"
        return None

    # --------------------------------------------------------------------------------------------------------- mentions

    def _mentions(self) -> list[ColumnAt | tuple[TableView, int, int]]:
        """Columns before tables where both are said by the same words."""
        both: list[ColumnAt | tuple[TableView, int, int]] = [*self.columns, *self.named]
        return sorted(both, key=lambda one: (self._start(one), isinstance(one, tuple)))

    @staticmethod
    def _start(one: ColumnAt | tuple[TableView, int, int]) -> int:
        return one.start if isinstance(one, ColumnAt) else one[1]

    def _first_after(self, place: int) -> TableView | ColumnAt | None:
        """The nearest table or column of numbers behind a place; a verb (``sold``, ``written``) is passed over for a noun."""
        after = [one for one in self._mentions() if self._start(one) >= place]
        numbers = [one for one in after if isinstance(one, ColumnAt) and numeric(one.table, one.name)]
        tables = [one for one in after if isinstance(one, tuple)]
        first_number = min(numbers, key=lambda one: (one.start, self._rank(one.table)), default=None)
        first_table = tables[0] if tables else None
        if first_table is not None and (first_number is None or first_table[1] <= first_number.start):
            return first_table[0]
        return first_number

    def _last_before(self, place: int) -> ColumnAt | None:
        before = [one for one in self._numbers() if one.end <= place]
        return before[-1] if before else None

    def _numbers(self) -> list[ColumnAt]:
        found = [one for one in self.columns if numeric(one.table, one.name)]
        return sorted(found, key=lambda one: (one.start, self._rank(one.table)))

    def _rank(self, table: TableView) -> int:
        return next((place for place, one in enumerate(self.named) if one[0].name == table.name), 99)
