"""Government ids: a check digit where there is one, and a telling word where the number alone could be anything."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module

_LINK = r"[\"'`]?[\s:=#.（(]{0,3}(?:(?:is|ist|lautet|es|est|là|number|no\.?|nummer|nr\.?|号码|号|是|为)[\s:：=#.]{0,3}){0,2}"


@dataclass(frozen=True, slots=True)
class _IdRule:
    """``number`` has one group, the id, and is tried where a trigger stands. ``validator``: of stdnum; None: the word has to do."""

    triggers: tuple[str, ...]
    number: re.Pattern[str]
    validator: str | None = None


def _told(words: str, number: str) -> re.Pattern[str]:
    return re.compile(rf"(?:{words}){_LINK}({number})(?![\w])", re.IGNORECASE)


_ALONE = r"(?<![^\W\d_])"
_TOLD = (
    _IdRule(
        ("ssn", "social security"),
        _told(rf"{_ALONE}ssn|social security(?: number| no\.?)?", r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
        "stdnum.us.ssn",
    ),
    _IdRule(("ssn", "social security"), _told(rf"{_ALONE}ssn|social security(?: number| no\.?)?", r"\d{3}([- ])\d{2}\2\d{4}")),
    _IdRule(
        ("steuer", "idnr", "identifikationsnummer", "tax id", "tax-id"),
        _told(
            r"steuer-?id(?:nr|entifikationsnummer|-nummer)?\.?|steuer-?identnummer|identifikationsnummer|idnr\.?|tax[ -]id",
            r"\d{2} ?\d{3} ?\d{3} ?\d{3}",
        ),
        "stdnum.de.idnr",
    ),
    _IdRule(
        ("versicherungsn", "sv-n", "svn"),
        _told(r"versicherungs(?:nummer|nr\.?)|sv-?(?:nummer|nr\.?)", r"\d{2} ?\d{6} ?[A-Z] ?\d{3}"),
    ),
    _IdRule(
        ("versicherungsn", "sv-n", "svn"),
        _told(r"versicherungs(?:nummer|nr\.?)|sv-?(?:nummer|nr\.?)", r"\d{4} ?\d{6}"),
        "stdnum.at.vnr",
    ),
    _IdRule(
        ("nino", "national insurance", "ni number"),
        _told(
            rf"{_ALONE}nino|national insurance(?: number| no\.?)?|{_ALONE}ni number",
            r"[A-CEGHJ-PR-TW-Z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-D]",
        ),
    ),
    _IdRule(("sécu", "nir"), _told(rf"{_ALONE}nir|sécu(?:rité sociale)?", r"[12](?: ?\d){14}"), "stdnum.fr.nir"),
    _IdRule(("dni",), _told(rf"{_ALONE}dni", r"\d{8}-?[A-Z]"), "stdnum.es.dni"),
    _IdRule(("nie",), _told(rf"{_ALONE}nie", r"[XYZ]-?\d{7}-?[A-Z]"), "stdnum.es.nie"),
    _IdRule(
        ("passport", "reisepass", "ausweis", "identity card", "id card", "licen", "führerschein", "护照", "身份证"),
        _told(
            r"passport|reisepass|ausweis|identity card|id card|licen[cs]e|führerschein|护照|身份证",
            r"(?=(?:[A-Z]{0,3}\d){5})[A-Z0-9]{7,12}",
        ),
    ),
)
_BARE = (
    _IdRule((), re.compile(r"(?<![A-Za-z0-9_])(\d{17}[\dXx])(?![A-Za-z0-9_])"), "stdnum.cn.ric"),
    _IdRule((), re.compile(r"(?<!\w)(756\.\d{4}\.\d{4}\.\d{2})(?!\w)"), "stdnum.ch.ssn"),
    _IdRule((), re.compile(r"(?<!\w)([A-Za-z]{6}\d{2}[A-Za-z]\d{2}[A-Za-z]\d{3}[A-Za-z])(?!\w)"), "stdnum.it.codicefiscale"),
)


def find_ids(text: str, lower: str) -> Iterator[tuple[int, int, str]]:
    """Spans of government ids. ``text``: folded; ``lower``: it in lower case, of the same length."""
    for rule in _TOLD:
        for trigger in rule.triggers:
            position = lower.find(trigger)
            while position >= 0:
                match = rule.number.match(text, position)
                if match and _is_valid(rule.validator, match[1]):
                    yield *match.span(1), "government_id"
                position = lower.find(trigger, match.end() if match else position + len(trigger))
    for rule in _BARE:
        for match in rule.number.finditer(text):
            if _is_valid(rule.validator, match[1]):
                yield *match.span(1), "government_id"


def _is_valid(module: str | None, number: str) -> bool:
    return module is None or _validator(module)(number)


@cache
def _validator(module: str) -> Callable[[str], bool]:
    return import_module(module).is_valid
