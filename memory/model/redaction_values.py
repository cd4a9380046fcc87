"""What stands between a telling word and its value, and what can be a value. Patterns are for folded text, and bounded."""

from __future__ import annotations

import re

from memory.model.redaction_words import NOT_A_VALUE

_I = re.IGNORECASE
_NOTE = r"(?P<note>[ \t]{0,2}\([^()\n]{1,40}\))?"
"""As in "PIN (card): 4711"."""
_NEW_LINE = r"(?P<line>(?:\r?\n[ \t>]{0,8}){1,3}(?:[-*•–][ \t]{1,3})?)?"
ASSIGN = re.compile(
    rf"[\"'`\])*_]{{0,4}}{_NOTE}[*_]{{0,2}}[ \t]{{0,4}}"
    rf"(?:(?P<sign>:=|=>|={{1,3}}|:)|(?P<loose>[|→➜]|-{{1,2}}>))[ \t*]{{0,4}}{_NEW_LINE}"
)
"""``loose``: a table cell or an arrow, ``line``: the value begins on a later line, ``note``: text in parentheses. All three are
weak: see :func:`assigned_value`."""
_PREPOSITION = (
    r"for|of|to|on|at|in|with|from|für|fürs|zum|zur|vom|von|bei|beim|im|ins|zu|auf|an|am|mit|"
    r"that|which|there|here|i|we|he|she|they|you|dort|hier|das|ich|wir"
)
_ADVERB = (
    r"now|currently|simply|just|still|again|always|probably|previously|formerly|originally"
    r"|jetzt|nun|noch|wieder|einfach|immer|aktuell|derzeit|früher|bisher|vorher|ab (?:heute|jetzt|sofort|morgen)"
)
IS = re.compile(
    rf"(?P<aside>,?[ \t]+(?:{_PREPOSITION})(?:[ \t]+[^\s:=.;!?]{{1,30}}){{0,6}}?)?"
    r"(?:(?:[ \t]+(?P<verb>is|was|are|used to be|will be|would be|should be|has been|="
    r"|ist|sind|lautet|lauten|war|wird|wäre|heißt|heisst|es|est|является)|(?P<short>['’]s))"
    rf"(?:[ \t]+(?:{_ADVERB}))?(?:[ \t]+(?:the following|as follows|folgendes|wie folgt))?"
    r"(?:[ \t]*(?P<pause>[:,])(?:[ \t]+|[ \t]*\n[ \t]*)|[ \t]+)|[ \t]?(?:是|为|為|は)[ \t]?"
    r"|(?(aside)[ \t]{0,2}(?P<colon>:)[ \t]+|(?!)))",
    _I,
)
"""``aside``: "for the wifi at home", ``pause``: a colon or comma after the verb, ``colon``: one instead of a verb."""
SPACE = re.compile(r"[ \t]+")
_VALUE = re.compile(r"[\"'`“„«](?P<quoted>[^\"'`“”„»\n]{1,200})[\"'`”“»]|(?P<bare>[^\s\"'`,;，。；、！？<>|]{2,200})")
SENTENCE_END = re.compile(r"[\s)\]]{0,3}(?:$|[\n.!?,;)，。；]|(?:and|und|but|aber|so|please|bitte|-|–|—)(?![\w]))", _I)
_LINE_END = re.compile(r"[ \t.!`\"'*]{0,3}(?:$|[\r\n])")
_CELL_END = re.compile(r"[`\"'*]{0,3}[ \t]{0,200}(?:$|[\r\n|])")
NUMBER_PART = re.compile(r"[ \t](\d{1,6}!?)(?=[\s)\]]{0,3}(?:$|[\n.!?,;]))")
"""As in "Sommer 2024"."""
ANY_DIGIT = re.compile(r"\d")
OPERATOR = re.compile(r"[ \t]{0,3}[:=(]")
MEASURE = re.compile(
    r"[ \t-]{0,2}(?:(?:char(?:acter)?s?|zeichen|stellen|symbols?|digits?|letters?|words?|buchstaben|ziffern|bytes?|bits?"
    r"|lines?|zeilen|tokens?|files?|dateien|long|lang|"
    r"days?|tage|minutes?|hours?|months?|years?|times|mal)(?![\w])|[位个個字天次年月分种])",
    _I,
)
_CODE_EXPRESSION = re.compile(
    r"[$%{<&#@(\[]|\w{1,40}(?:\.\w{1,40}){0,4}\(|(?:os|process|env|config|settings|self|this|System)\.|https?://|/"
)
_CLOSERS = ".!?:)]}*_"
ALNUM = re.compile(r"[^\W_]")
_MIXED = re.compile(
    r"(?=.*\d)(?:.*[^\W\d_]|.{4})"  # a digit beside letters, or several digits
    r"|.*[^\w\-'’./].+|.*_.+"  # a symbol inside
    r"|(?=.*[a-zß-ÿ]).+[A-ZÀ-Þ]",  # a capital in the middle
    re.DOTALL,
)
_CHOSEN = re.compile(r"(?=.*\d)(?=.*[^\W\d_])(?:(?=.*[!@#$%^&*?+=~§])|(?=.*[a-zß-ÿ])(?=(?:.*?\d){2})).{6,}")
_NOT_CHOSEN = re.compile(r"(?i)\w*v?\d+\.\d|https?:|[^\s@]+@[\w.-]+\.[a-z]{2,}$|\d{4}-\d\d|\d+[.:]\d")


def value_after(text: str, position: int) -> tuple[int, int, bool] | None:
    """Start, end and whether it is quoted, of the value that begins at ``position``; None for what cannot be one."""
    match = _VALUE.match(text, position)
    if match is None:
        return None
    quoted = match["quoted"] is not None
    start, end = match.span("quoted" if quoted else "bare")
    if not quoted:
        stripped = text[start:end].rstrip(_CLOSERS)
        # "hunter2!" keeps its mark, "secret." does not
        end = start + len(stripped) + (1 if text[start + len(stripped) : end].startswith("!") and is_mixed(stripped) else 0)
    value = text[start:end]
    if len(value) < 2 or not ALNUM.search(value) or value.lower().strip("'’") in NOT_A_VALUE:
        return None
    if not quoted and (_CODE_EXPRESSION.match(value) or (value[0].isdigit() and MEASURE.match(text, end))):
        return None
    return start, end, quoted


def assigned_value(text: str, assigned: re.Match[str]) -> tuple[int, int] | None:
    """The value after a match of ``ASSIGN``. On a later line or in a cell it must look like no ordinary word, or stand alone."""
    found = value_after(text, assigned.end())
    if found is None:
        return None
    start, end, quoted = found
    likely = quoted or is_mixed(text[start:end])
    alone = end - start >= 6 and _LINE_END.match(text, end)
    if assigned["line"] and (")" in assigned[0].partition(":")[0] or OPERATOR.match(text, end) or not (likely or alone)):
        return None
    if assigned["note"] and not (likely or alone):
        return None
    if assigned["loose"] == "|" and not (likely and _CELL_END.match(text, end)):
        return None
    if assigned["loose"] not in {None, "|"} and not is_chosen(text[start:end]):
        return None
    if not quoted and (number := NUMBER_PART.match(text, end)) and not ANY_DIGIT.search(text, start, end):
        end = number.end(1)
    return start, end


def is_mixed(value: str) -> bool:
    """Looks like no word of a language."""
    return _MIXED.match(value) is not None


def is_chosen(value: str) -> bool:
    """Looks like what people choose as a password, and like no name, version, address or date."""
    return _CHOSEN.fullmatch(value) is not None and _NOT_CHOSEN.match(value) is None


def cell_value(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The value in the table cell ``text[start:end]``, if that is all it holds and it looks like no ordinary word."""
    found = value_after(text, start + len(text[start:end]) - len(text[start:end].lstrip(" \t*`")))
    if found is None or found[1] > end or text[found[1] : end].strip(" \t*`\r") or not is_mixed(text[found[0] : found[1]]):
        return None
    return found[0], found[1]
