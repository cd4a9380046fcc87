"""Random rows and random expressions over them, each with what it means in plain Python, for comparison with the databases."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

COLUMNS = {
    "x": "int", "y": "int", "f": "float", "s": "str", "t": "str", "b": "bool", "at": "datetime", "due": "date", "tags": "list",
    "info": "dict",
}  # fmt: skip
INT_RANGE = (-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Meant:
    """An expression and its value for a row of Python values (dates as dates)."""

    text: str
    value: Callable[[Mapping[str, Any]], Any]


# ---------------------------------------------------------------------------------------------------------------------- rows

_letters = st.sampled_from([*"aAbB ", "Ä", "ß", "Σ", "İ", "ﬁ", "中", "😀", "é", "\u0301", "%", "_", "'", '"', "\\", "\u00a0"])
texts = st.one_of(st.text(_letters, max_size=5), st.sampled_from(["12", " 7 ", "1e3", "x", "red", "None", ""]))
ints = st.one_of(st.integers(-9, 9), st.sampled_from([*INT_RANGE, 2**53 + 1, -(2**53) - 1, 2**62]))
floats = st.one_of(
    st.sampled_from([0.0, 0.5, -2.5, 1.0, 3.0, float(2**53), 1e300, -1e300, 5e-324]), st.floats(-1e6, 1e6, allow_nan=False)
)
_scalars = st.one_of(
    st.none(), st.integers(-3, 3), st.sampled_from([0.5, 1.0]), st.booleans(), st.sampled_from(["", "a", "red", "7"])
)
lists = st.lists(st.one_of(_scalars, st.lists(_scalars, max_size=2)), max_size=3)
dicts = st.dictionaries(st.sampled_from(["k", "a", "ä"]), st.one_of(_scalars, lists), max_size=3)
_zones = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-8))])
_FIRST, _LAST = datetime(1969, 12, 30), datetime(1970, 1, 3)  # noqa: DTZ001 - the zone is drawn too
moments = st.datetimes(_FIRST, _LAST, timezones=_zones)
dates = st.dates(date(1969, 12, 28), date(1970, 1, 4))
_values: dict[str, Any] = {
    "int": ints,
    "float": floats,
    "str": texts,
    "bool": st.booleans(),
    "datetime": moments,
    "date": dates,
    "list": lists,
    "dict": dicts,
}
rows = st.lists(
    st.fixed_dictionaries({name: st.one_of(st.none(), _values[kind], _values[kind]) for name, kind in COLUMNS.items()}), max_size=6
)


def given(row: Mapping[str, Any]) -> dict[str, Any]:
    """As a caller writes it: dates and times as text, with their zones."""
    return {name: value.isoformat() if isinstance(value, date) else value for name, value in row.items()}


# --------------------------------------------------------------------------------------------------------------- expressions


def _strict(work: Callable[..., Any]) -> Callable[..., Any]:
    """None of None, and of what cannot be computed; an int beyond 64 bits is None."""

    def run(*values: Any) -> Any:
        if any(value is None for value in values):
            return None
        try:
            found = work(*values)
        except (ArithmeticError, ValueError, LookupError, TypeError):
            return None
        if isinstance(found, int) and not isinstance(found, bool) and not INT_RANGE[0] <= found <= INT_RANGE[1]:
            return None
        return None if isinstance(found, float) and math.isnan(found) else found

    return run


def _made(template: str, work: Callable[..., Any], *parts: Meant) -> Meant:
    return Meant(template.format(*(part.text for part in parts)), lambda row: work(*(part.value(row) for part in parts)))


def _calls(template: str, work: Callable[..., Any], *kinds: st.SearchStrategy[Meant]) -> st.SearchStrategy[Meant]:
    return st.tuples(*kinds).map(lambda parts: _made(template, work, *parts))


def _columns(*names: str) -> st.SearchStrategy[Meant]:
    forms = st.sampled_from(["{}", "{{{}}}"])
    return st.tuples(st.sampled_from(names), forms).map(lambda p: Meant(p[1].format(p[0]), lambda row: row[p[0]]))


def _literals(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Meant]:
    return values.map(lambda value: Meant(f"({value!r})" if isinstance(value, int | float) else repr(value), lambda row: value))


def _ordered(op: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda a, b: a is not None and b is not None and op(a, b)


def _same_json(a: Any, b: Any) -> bool:
    """In lists and dicts true and false are no numbers."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_same_json, a, b))
    return a == b and isinstance(a, bool) == isinstance(b, bool)


ints_ = st.deferred(lambda: st.one_of(_columns("x", "y"), _columns("x", "y"), _literals(st.integers(-9, 9)), _int_calls))
_int_calls = st.deferred(
    lambda: st.one_of(
        *(_calls(f"({{}} {sign} {{}})", _strict(op), ints_, ints_) for sign, op in _WHOLE.items()),
        _calls("(-{})", _strict(operator.neg), ints_),
        _calls("len({})", _strict(len), strs_),
        _calls("len({})", _strict(len), st.one_of(_columns("tags"), _columns("info"))),
        _calls("int({})", _strict(int), st.one_of(strs_, _columns("b"))),
        _calls("({} ** 2)", _strict(lambda a: a**2), ints_),
    )
)
_WHOLE = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}
numbers_ = st.deferred(lambda: st.one_of(ints_, _columns("f"), _columns("b"), _literals(floats), _float_calls))
_float_calls = st.deferred(
    lambda: st.one_of(
        *(_calls(f"({{}} {sign} {{}})", _strict(op), _columns("f"), numbers_) for sign, op in _REAL.items()),
        _calls("float({})", _strict(float), ints_),
    )
)
_REAL = {
    "+": lambda a, b: a + float(b), "-": lambda a, b: a - float(b), "*": lambda a, b: a * float(b), "/": lambda a, b: a / float(b),
}  # fmt: skip
strs_ = st.deferred(lambda: st.one_of(_columns("s", "t"), _columns("s", "t"), _literals(texts), _str_calls))
_str_calls = st.deferred(
    lambda: st.one_of(
        _calls("({} + {})", _strict(operator.add), strs_, strs_),
        _calls("{}.lower()", _strict(str.lower), strs_),
        _calls("{}.upper()", _strict(str.upper), strs_),
        _calls("{}.strip()", _strict(str.strip), strs_),
        _calls("{}.strip({})", _strict(str.strip), strs_, strs_),
        _calls("str({})", _strict(str), ints_),
        _calls("str({})", _strict(str), _columns("b", "due")),
        _calls("{}[{}]", _strict(operator.getitem), strs_, _literals(st.integers(-3, 3))),
    )
)
anys_ = st.one_of(
    _calls("{}[{}]", _strict(operator.getitem), _columns("tags"), _literals(st.integers(-3, 3))),
    _calls("{}[{}]", _strict(operator.getitem), _columns("info"), _literals(st.sampled_from(["k", "a", "ä", "z"]))),
)
_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def _moment(op: Callable[[Any, Any], bool], column: str, values: st.SearchStrategy[Any], sign: str) -> st.SearchStrategy[Meant]:
    literals = values.map(lambda value: Meant(repr(value.isoformat()), lambda row: value))
    return _calls(f"({{}} {sign} {{}})", op, _columns(column), literals)


def _any_order(op: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def run(a: Any, b: Any) -> bool:
        if isinstance(a, bool) or isinstance(b, bool):
            return False
        both = (isinstance(a, str) and isinstance(b, str)) or (isinstance(a, int | float) and isinstance(b, int | float))
        return both and op(a, b)

    return run


conditions = st.deferred(
    lambda: st.one_of(
        *(_calls(f"({{}} {sign} {{}})", _ordered(op), numbers_, numbers_) for sign, op in _ORDERS.items()),
        *(_calls(f"({{}} {sign} {{}})", _ordered(op), strs_, strs_) for sign, op in _ORDERS.items()),
        *(_moment(_ordered(op), "at", moments, sign) for sign, op in _ORDERS.items()),
        *(_moment(_ordered(op), "due", dates, sign) for sign, op in _ORDERS.items()),
        _calls("({} == {})", operator.eq, numbers_, numbers_),
        _calls("({} != {})", operator.ne, numbers_, numbers_),
        _calls("({} == {})", operator.eq, strs_, strs_),
        _calls("({} != {})", operator.ne, strs_, strs_),
        _moment(operator.eq, "at", moments, "=="),
        _calls("({} == {})", _same_json, anys_, anys_),
        _calls("({} == {})", _same_json, anys_, st.one_of(strs_, ints_)),
        _calls("({} != {})", lambda a, b: not _same_json(a, b), anys_, st.one_of(strs_, ints_)),
        *(_calls(f"({{}} {sign} {{}})", _any_order(op), anys_, st.one_of(strs_, ints_)) for sign, op in _ORDERS.items()),
        _calls("({} in {})", _contained, strs_, strs_),
        _calls("({} in {})", _element, st.one_of(strs_, ints_), _columns("tags")),
        _calls("({} in {})", lambda a, b: b is not None and a is not None and a in b, strs_, _columns("info")),
        _calls("({} in [{}, None, {}])", lambda a, *b: a is None or a in b, ints_, ints_, ints_),
        _calls("({} not in ({}, {}))", lambda a, *b: a not in b, strs_, strs_, strs_),
        _calls("({} is None)", lambda a: a is None, st.one_of(numbers_, strs_, anys_)),
        _calls("({} is not None)", lambda a: a is not None, st.one_of(numbers_, strs_, anys_)),
        _calls("{}.startswith({})", lambda a, b: bool(_strict(str.startswith)(a, b)), strs_, strs_),
        _calls("{}.endswith({})", lambda a, b: bool(_strict(str.endswith)(a, b)), strs_, strs_),
        _calls("({} and {})", lambda a, b: a and b, _truths, conditions),
        _calls("({} or {})", lambda a, b: a or b, _truths, conditions),
        _calls("(not {})", operator.not_, _truths),
    )
)
_truths = st.deferred(lambda: st.one_of(conditions, conditions, numbers_, strs_, anys_, _columns("tags", "info", "at", "due", "b")))


def _contained(a: Any, b: Any) -> bool:
    return a is not None and b is not None and a in b


def _element(a: Any, b: Any) -> bool:
    return b is not None and any(_same_json(a, one) for one in b)
