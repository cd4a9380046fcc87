"""The expression language: what is read, what it means for one row, and what is refused with a word on what is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from memory.model.expression import kind_of, parse_expression
from memory.model.expression_json import from_text, to_text
from memory.model.expression_text import MAX_EXPRESSION_CHARS
from memory.model.expression_tree import Loose
from memory.model.expression_value import value_of
from memory.model.knowledge import ColumnType, ToolProblem
from memory.model.knowledge_values import to_shown, to_stored

COLUMNS = {
    "x": ColumnType.INT,
    "y": ColumnType.FLOAT,
    "name": ColumnType.STR,
    "due": ColumnType.DATE,
    "at": ColumnType.DATETIME,
    "took": ColumnType.TIMEDELTA,
    "tags": ColumnType.LIST,
    "info": ColumnType.DICT,
    "done": ColumnType.BOOL,
    "nothing": ColumnType.INT,
    "größe": ColumnType.INT,
    "picture": ColumnType.VECTOR,
}
ROW = {
    "x": 7,
    "y": 2.5,
    "name": " Straße ",
    "due": to_stored("2026-03-31", ColumnType.DATE),
    "at": to_stored("2026-03-31T14:00:00+02:00", ColumnType.DATETIME),
    "took": to_stored("PT90M", ColumnType.TIMEDELTA),
    "tags": ["red", 1, True, None, [2]],
    "info": {"k": {"z": [1, 2.0]}, "t": "text"},
    "done": 1,
    "nothing": None,
    "größe": 3,
}


def value(text: str) -> Any:
    """Through the tree's text form, which is how SQLite gets it."""
    expression = parse_expression(text, COLUMNS)
    found = value_of(from_text(to_text(expression.node)), ROW)
    kind = expression.type
    return to_shown(found, kind) if isinstance(kind, ColumnType) else found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", 7),
        ("{x}", 7),
        ("({x}**2 + {y}**2)**0.5", 7.433034373659253),
        ("größe + 1", 4),
        ("x > 5 and y < 3", True),
        ("1 < x <= 7", True),
        ("x in [1, 7, None]", True),
        ("x not in (1, 2)", True),
        ("nothing in [1, None]", True),
        ("'red' in tags", True),
        ("'r' in 'red'", True),
        ("1 in tags", True),
        ("None in tags", True),
        ("'k' in info", True),
        ("'k' in {info}", True),
        ("info['k']['z'][-1] == 2", True),
        ("info['missing'] is None", True),
        ("info['missing']['deeper'] is None", True),
        ("tags[9] is None", True),
        ("tags[2] == 1", False),  # true is no number there
        ("tags[0].upper() + '!'", "RED!"),
        ("name.strip().upper()", "STRASSE"),
        ("name.strip(' Se')", "traß"),
        ("name.strip().startswith(('x', 'Str'))", True),
        ("name.endswith('e')", False),
        ("name[1]", "S"),
        ("name[-99]", None),
        ("len(name) + len(tags) + len(info)", 15),
        ("not name", False),
        ("not nothing", True),
        ("not nothing > 5", True),
        ("nothing > 5", False),
        ("nothing != 5", True),
        ("nothing == None", True),
        ("nothing is not None", False),
        ("nothing + 1", None),
        ("x / 0", None),
        ("x // 0", None),
        ("-x // 2", -4),
        ("-x % 3", 2),
        ("x * 9223372036854775807", None),
        ("x ** 22", 3909821048582988049),
        ("x ** 23", None),
        ("(0 - x) ** 0.5", None),
        ("int('12') + int(' 3_0 ') + int('x1')", None),
        ("int('٣')", 3),
        ("int(y)", 2),
        ("float('1e3')", 1000.0),
        ("float('nan')", None),
        ("str(due)", "2026-03-31"),
        ("str(y) + str(done)", "2.5True"),
        ("done + 1", 2),
        ("done is True", True),
        ("nothing or x", 7),
        ("x and y", 2.5),
        ("name or x", 1),
        ("due > '2026-01-01'", True),
        ("due + 'P1D'", "2026-04-01"),
        ("due - '2026-03-01'", "P30D"),
        ("at == '2026-03-31T12:00:00Z'", True),
        ("at - took", "2026-03-31T10:30:00+00:00"),
        ("took > 'PT1H'", True),
        ("took * 2", "PT3H"),
        ("tags == ['red', 1.0, True, None, [2]]", True),
        ("tags != ['red', 1, 1, None, [2]]", True),
        ("info == {'t': 'text', 'k': {'z': [1, 2]}}", True),
        ("-9223372036854775808 < x", True),
        ("x  # a comment\n > 5", True),
        ("'''a'b''' == \"a'b\"", True),
    ],
)
def test_means_what_it_means_in_python(text: str, expected: Any) -> None:
    found = value(text)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("x >", "not a Python expression"),
        ("x; y", "not a Python expression"),
        ("x = 1", "not a Python expression"),
        ("import os", "not a Python expression"),
        ("SELECT * FROM facts", "not a Python expression"),
        ("lambda: 1", "lambda is not allowed"),
        ("[t for t in tags]", "a comprehension is not allowed"),
        ("f'{x}'", "an f-string is not allowed"),
        ("x if done else y", "if … else is not allowed"),
        ("(z := 1)", ":= is not allowed"),
        ("__import__('os')", "__import__"),
        ("eval('1')", "eval"),
        ("x.__class__", "x.__class__ is not allowed"),
        ("name.format(x)", "name.format"),
        ("''.join(tags)", "join"),
        ("len(name, key=1)", "keyword argument"),
        ("len()", "number of arguments"),
        ("name[0:2]", "name[0:2] is not allowed"),
        ("x & 1", "is not allowed"),
        ("~x", "is not allowed"),
        ("b'x' == name", "literal of type bytes"),
        ("1j", "literal of type complex"),
        ("...", "is not allowed"),
        ("[x, 1] == tags", "anything but literals"),
        ("name == 5", "different types"),
        ("x == '7'", "different types"),
        ("x in ['1', '2']", "different types"),
        ("name < 5", "different types"),
        ("due < at", "different types"),
        ("due > 'soon'", "ISO 8601"),
        ("name + 1", "str()"),
        ("name * 1000000000", "not possible"),
        ("x + None", "always be None"),
        ("tags < tags", "no order"),
        ("x is 5", "compare values with =="),
        ("tags['a']", "lists and texts take an int"),
        ("info[0]", "dicts a text"),
        ("str(tags)", "does not take"),
        ("int(due)", "does not take"),
        ("y // 2", "whole numbers"),
        ("picture == 1", "vector"),
        ("9223372036854775808", "64 bits"),
        ("1e999", "infinity"),
        ("'a\\x00b' == name", "NUL"),
        ("'\\ud800' == name", "surrogate"),
        ("(name or x) == 1", "different types"),
        ("'a' in x", "not possible"),
        ("x in tags in info", "chain"),
        ("(" * 300 + "x", "not a Python expression"),
        ("-" * 5_000 + "x", "nested too deeply"),
        ("x" + "+x" * 60, "too large"),
        ("x == 1 or " * 1_000 + "x == 2", "characters"),
    ],
)
def test_refuses_what_it_does_not_know(text: str, said: str) -> None:
    with pytest.raises(ToolProblem) as refused:
        parse_expression(text, COLUMNS, what="left_where")
    assert refused.value.code == "bad_expression"
    assert said in refused.value.message
    assert refused.value.message.startswith("left_where: ")


def test_says_what_is_allowed_and_which_columns_there_are() -> None:
    with pytest.raises(ToolProblem, match="bad_expression") as refused:
        parse_expression("sorted(tags)", COLUMNS)
    assert "startswith()" in refused.value.message
    with pytest.raises(ToolProblem, match="unknown_column") as unknown:
        parse_expression("z > 1", COLUMNS)
    assert "x, y, name" in unknown.value.message


def test_names_of_joins() -> None:
    columns = {"A.x": ColumnType.INT, "__prev__.x": ColumnType.INT, "__team.x": ColumnType.INT}
    aliases = {"$prev": "__prev__", "_": "__prev__", "team:a.b-c.T": "__team"}
    for text in ("A.x == $prev.x", "{A.x} == {_.x}", "A.x == __prev__.x"):
        assert parse_expression(text, columns, aliases=aliases).names == {"A.x", "__prev__.x"}
    assert parse_expression("team:a.b-c.T.x == A.x", columns, aliases=aliases).names == {"A.x", "__team.x"}
    # Within a literal nothing is a name.
    assert parse_expression("'$prev' == \"_ 'team:a.b-c.T' _\"", columns, aliases=aliases).names == frozenset()


def test_what_type_a_column_of_it_has() -> None:
    assert kind_of(parse_expression("x + y", COLUMNS)) is ColumnType.FLOAT
    assert kind_of(parse_expression("x > y", COLUMNS)) is ColumnType.BOOL
    assert parse_expression("info['k']", COLUMNS).type is Loose.ANY
    for text, said in (("info['k']", "say which with"), ("None", "always None"), ("name or x", "different types")):
        with pytest.raises(ToolProblem) as refused:
            kind_of(parse_expression(text, COLUMNS))
        assert said in refused.value.message


def test_bounds() -> None:
    with pytest.raises(ToolProblem, match="bad_expression"):
        parse_expression("x" * (MAX_EXPRESSION_CHARS + 1), COLUMNS)
    assert len(parse_expression(f"x in {list(range(1_000))}", COLUMNS).names) == 1


@pytest.mark.parametrize(
    "text",
    [
        "x" + ".b" * 1_500,
        "-(-9223372036854775808)",
        "x" + "[0]" * 1_500,
        "s" + ".lower()" * 1_000,
        "-" * 5_000 + "1",
        "not " * 2_000 + "x",
        " + ".join(["x"] * 2_000),
        " ** ".join(["2"] * 2_000),
        "x" + " if x else x" * 700,
        "lambda: " * 1_000 + "x",
        "x in " + "[" * 150 + "]" * 150,
        "f(" * 150 + ")" * 150,
        "(1 < " * 25 + "x" + " < y)" * 25,  # doubled at each level
    ],
)
def test_what_is_nested_deeply_is_refused_before_it_is_read(text: str) -> None:
    for aliases in (None, {"T": "x"}):
        with pytest.raises(ToolProblem) as refused:
            parse_expression(text, COLUMNS, aliases=aliases)
        assert refused.value.code == "bad_expression"
