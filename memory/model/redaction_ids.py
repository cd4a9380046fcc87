"""Government ids: a check digit where there is one, and a telling word where the number alone could be anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module

_LINK = r"[\"'`]?[\s:=#.（(]{0,3}(?:(?:is|ist|lautet|es|est|là|number|no\.?|nummer|nr\.?|号码|号|是|为)[\s:：=#.]{0,3}){0,2}"


@dataclass(frozen=True, slots=True)
class _IdRule:
    """``number`` has one group, the id. ``validator``: a module of stdnum; None: the telling word has to do."""

    triggers: tuple[str, ...]
    number: re.Pattern[str]
    validator: str | None = None


def _told(words: str, number: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W\d_])(?:{words}){_LINK}({number})(?![\w])", re.IGNORECASE)


_RULES = (
    _IdRule(
        ("ssn", "social security"),
        _told(r"ssn|social security(?: number| no\.?)?", r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
        "stdnum.us.ssn",
    ),
    _IdRule(
        ("steuer", "idnr", "tax"),
        _told(
            r"steuer-?id(?:nr|entifikationsnummer|-nummer)?\.?|steuer-?identnummer|steuerliche identifikationsnummer|idnr\.?|tax[ -]?id",
            r"\d{2} ?\d{3} ?\d{3} ?\d{3}",
        ),
        "stdnum.de.idnr",
    ),
    _IdRule(
        ("sozialversicherung", "rentenversicherung", "sv-nummer"),
        _told(r"(?:sozial|renten)versicherungs(?:nummer|nr\.?)|sv-nummer", r"\d{2} ?\d{6} ?[A-Z] ?\d{3}"),
    ),
    _IdRule(("sozialversicherung", "sv-nummer"), _told(r"sozialversicherungsnummer|sv-nummer", r"\d{4} ?\d{6}"), "stdnum.at.vnr"),
    _IdRule(
        ("nino", "national insurance", "ni number"),
        _told(r"nino|national insurance(?: number| no\.?)?|ni number", r"[A-CEGHJ-PR-TW-Z]{2} ?\d{2} ?\d{2} ?\d{2} ?[A-D]"),
    ),
    _IdRule(("sécu", "nir"), _told(r"nir|(?:numéro de )?sécu(?:rité sociale)?", r"[12](?: ?\d){14}"), "stdnum.fr.nir"),
    _IdRule(("dni",), _told(r"dni", r"\d{8}-?[A-Z]"), "stdnum.es.dni"),
    _IdRule(("nie",), _told(r"nie", r"[XYZ]-?\d{7}-?[A-Z]"), "stdnum.es.nie"),
    _IdRule(
        ("passport", "reisepass", "ausweis", "identity card", "id card", "licen", "führerschein", "护照", "身份证"),
        _told(
            r"passport|reisepass|personalausweis|ausweis|identity card|id card|driver'?s? licen[cs]e|driving licen[cs]e|führerschein|护照|身份证",
            r"(?=(?:[A-Z]*\d){5})[A-Z0-9]{7,12}",
        ),
    ),
    _IdRule((), re.compile(r"(?<!\w)(\d{17}[\dXx])(?!\w)"), "stdnum.cn.ric"),
    _IdRule((), re.compile(r"(?<!\w)(756\.\d{4}\.\d{4}\.\d{2})(?!\w)"), "stdnum.ch.ssn"),
    _IdRule((), re.compile(r"(?<!\w)([A-Za-z]{6}\d{2}[A-Za-z]\d{2}[A-Za-z]\d{3}[A-Za-z])(?!\w)"), "stdnum.it.codicefiscale"),
)


def find_ids(text: str, lower: str) -> Iterator[tuple[int, int, str]]:
    """Spans of government ids. ``lower``: ``text`` in lower case."""
    for rule in _RULES:
        if rule.triggers and not any(trigger in lower for trigger in rule.triggers):
            continue
        for match in rule.number.finditer(text):
            if rule.validator is None or _is_valid(rule.validator, match[1]):
                yield *match.span(1), "government_id"


def _is_valid(module: str, number: str) -> bool:
    return bool(number.isascii() and _validator(module)(number))


@cache
def _validator(module: str):  # noqa: ANN202
    return import_module(module).is_valid
