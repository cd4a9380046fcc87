"""Passwords: after a telling word, in a sentence that sets one, in tables, on command lines, beside a user name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, pairwise

from memory.model.redaction_values import (
    ANY_DIGIT,
    ASSIGN,
    IS,
    NUMBER_PART,
    OPERATOR,
    SENTENCE_END,
    SPACE,
    assigned_value,
    cell_value,
    is_chosen,
    is_mixed,
    value_after,
)
from memory.model.redaction_words import ACCOUNT_WORDS, CHINESE_LOGIN_WORDS, LOGIN_WORDS, NOT_A_VALUE, PASS_BEFORE, PHRASE_WORDS

_Span = tuple[int, int, str]
_I = re.IGNORECASE

_PASSWORD = re.compile(rf"(?:{LOGIN_WORDS}|{CHINESE_LOGIN_WORDS})(?P<suffix>[A-Za-z0-9_]{{0,30}})", _I)
_LETTER = "[A-Za-zÀ-ÿ]"
_SHORT = re.compile(rf"(?<!{_LETTER})(?:(?P<unsure>pass)|pw|psk)(?!{_LETTER}|\d)", _I)
_CONSTANT = re.compile(r"(?<=[A-Z0-9]_)(?:PASS|PW)[ ]?(?=[=:])")
_WORD_BEFORE = re.compile(rf"({_LETTER}{{1,30}})[ \t]$")
_SPOKEN = re.compile(r"[^\n.!?,;。]{1,60}")


def find_password(text: str, position: int) -> _Span | None:
    """``position``: where a word for a password begins. So for all rules that take one."""
    word = _PASSWORD.match(text, position)
    if word is None:
        return None
    if word[0].startswith(("密", "口")):
        return _chinese(text, word.start(), word.end() - len(word["suffix"]))
    if assigned := ASSIGN.match(text, word.end()):
        return _password(assigned_value(text, assigned))
    if word["suffix"]:
        return None
    return (
        _element(text, position, word.end())
        or _linked(text, word.end())
        or _changed(text, position, word.end())
        or _beside(text, word.end())
        or _before(text, position, word.end())
    )


def find_short_password(text: str, position: int) -> _Span | None:
    """After "pw" and "pass", which may mean other things."""
    if constant := _CONSTANT.match(text, position):
        assigned = ASSIGN.match(text, constant.end())
        return _password(assigned_value(text, assigned)) if assigned else None
    word = _SHORT.match(text, position)
    if word is None:
        return None
    if word["unsure"]:
        before = _WORD_BEFORE.search(text, max(0, position - 32), position)
        if before and before[1].lower() in PASS_BEFORE:
            return None
    if assigned := ASSIGN.match(text, word.end()):
        found = assigned_value(text, assigned)
        if found is None or any(c in "[(" for c in text[found[0] : found[1]]):
            return None
        if word["unsure"] and not _has_digit_or_mark_and_letter(text[found[0] : found[1]]):
            return None
        quoted = text[found[1] : found[1] + 1] in {"'", '"', "`"}
        return _password(found if quoted or found[1] - found[0] >= 4 else None)
    linked = None if word["unsure"] else IS.match(text, word.end()) or SPACE.match(text, word.end())
    found = linked and value_after(text, linked.end())
    return _password(found) if found and is_chosen(text[found[0] : found[1]]) else None


def _password(found: tuple[int, int] | tuple[int, int, bool] | None) -> _Span | None:
    return (found[0], found[1], "password") if found else None


_LETTER_AND_MORE = re.compile(r"(?=.*[^\W\d_])(?=.*[\d!#$%^&*?+~§]).{6,}")
_NAME_IN_CODE = re.compile(r"\w*(?:[./:_-]\w*)+")


def _has_digit_or_mark_and_letter(value: str) -> bool:
    return _LETTER_AND_MORE.fullmatch(value) is not None and _NAME_IN_CODE.fullmatch(value) is None


_ELEMENT = re.compile(r">[ \t]{0,3}([^\s<>][^<>\n]{1,200})</")


def _element(text: str, start: int, end: int) -> _Span | None:
    """``<password>hunter2</password>``."""
    match = _ELEMENT.match(text, end) if "<" in text[max(0, start - 30) : start] else None
    found = match and value_after(text, match.start(1))
    return _password((found[0], match.start(1) + len(match[1].rstrip()))) if match and found else None


def _linked(text: str, position: int) -> _Span | None:
    """ "... is hunter2", "... für das WLAN lautet Sommerwind"."""
    linked = IS.match(text, position)
    if linked is None:
        return None
    weak = linked["short"] or linked["colon"] or linked["pause"]
    told = linked["verb"].lower().startswith(("laut", "=")) if linked["verb"] else not weak
    found = value_after(text, linked.end())
    if told and linked["verb"] and (found is None or not (found[2] or is_mixed(text[found[0] : found[1]]))):
        # several words, perhaps
        spoken = _SPOKEN.match(text, linked.end())
        if spoken and (linked["pause"] == ":" or found):
            return _password((spoken.start(), spoken.start() + len(spoken[0].rstrip())))
    if found is None:
        return None
    start, end, quoted = found
    if not quoted and (number := NUMBER_PART.match(text, end)) and not ANY_DIGIT.search(text, start, end):
        return start, number.end(1), "password"
    sure = told or (not weak and _few(linked["aside"]) and SENTENCE_END.match(text, end) is not None)
    if linked["colon"] and (" " in text[start:end] or not is_mixed(text[start:end])):
        return None
    return _password(found) if quoted or sure or is_mixed(text[start:end]) else None


def _few(aside: str | None) -> bool:
    return aside is None or len(aside.split()) <= 5


_TO = re.compile(r"[ \t](?:to|auf|in|zu|as|with|durch)[ \t]+", _I)
CHANGE = re.compile(
    r"(?<!\w)(?:chang|set(?!\w)|setting|reset|updat|switch|renew|rotat|replac|geänder|änder|(?:um|zurück|neu)?ge(?:setz|stell)|setz|"
    r"gewechsel|wechs|festgeleg|vergeben|aktualisier|ersetz|abgeänder|umgestell|zurückgesetz)",
    _I,
)
CHANGED_AFTER = re.compile(
    r"[!.]?[ \t]+(?:um|ab|neu|zurück)?(?:ge)?(?:änder|setz|stell|wechsel|legt|leg|aktualisier)(?:t|n|en)?(?!\w)", _I
)


def _changed(text: str, start: int, end: int) -> _Span | None:
    """ "I changed my password to Winter2025!", "das Passwort habe ich auf Sommerwind gesetzt"."""
    if text[end : end + 1] not in {" ", "\t"}:
        return None
    line_end = text.find("\n", end, end + 90)
    stop = min(len(text), end + 90) if line_end < 0 else line_end
    for link in islice(_TO.finditer(text, end, stop), 4):
        found = value_after(text, link.end())
        if found is None:
            continue
        closed = CHANGED_AFTER.match(text, found[1])
        value = text[found[0] : found[1]]
        likely = found[2] or (is_mixed(value) and not (value.isdigit() and "in" in link[0].lower()))
        if closed or (likely and (CHANGE.search(text, max(0, start - 60), start) or CHANGE.search(text, end, link.start() + 1))):
            return _password(found)
    return None


def _beside(text: str, position: int) -> _Span | None:
    """ "password hunter2"."""
    space = SPACE.match(text, position)
    found = space and value_after(text, space.end())
    if not found:
        return None
    start, end, quoted = found
    value = text[start:end]
    if (quoted and " " not in value) or (len(value) >= 6 and is_mixed(value) and any(c.isdigit() for c in value)):
        return start, end, "password"
    return None


_CONNECT = re.compile(r"[ \t](?:is|ist|was|war|as|als)[ \t]+(?:[\w-]{1,20}[ \t]+){0,3}[\w-]{0,20}$", _I)
_PURPOSE = re.compile(r"[ \t]+(?:for|für|of|von|at|on|bei|beim|im|to|there|here|now|jetzt)(?!\w)", _I)
_QUOTES = "\"'`“”„"


def _before(text: str, start: int, end: int) -> _Span | None:
    """ "Sommer2024! is my password"."""
    connect = _CONNECT.search(text, max(0, start - 60), start)
    if connect is None or not (SENTENCE_END.match(text, end) or _PURPOSE.match(text, end)):
        return None
    return _password(_chosen_word_before(text, connect.start()))


_LAST_WORD = re.compile(r"[^\s\u3000-\u30ff\u4e00-\u9fff]{1,60}$")


def _chosen_word_before(text: str, end: int) -> tuple[int, int] | None:
    match = _LAST_WORD.search(text, max(0, end - 60), end)
    if match is None:
        return None
    begin = end - len(match[0].lstrip(_QUOTES))
    value = match[0].strip(_QUOTES)
    made = is_chosen(value) or _has_digit_or_mark_and_letter(value)
    return (begin, begin + len(value)) if made else None


# ------------------------------------------------------------------------------------------------------------------- Chinese

_CHINESE_LINK = re.compile(
    r"(?:[ \t]?\([^()\n]{1,30}\))?[\u4e00-\u9fff]{0,8}?[ \t]?"
    r"(?:(?:修改|改|更新|更改|设置|设定|设|換|换|变更|变|重置|更換|設定|設置|設|變)(?:成|为|為|到|了)了?|用的是|用|叫|就是|还是|应该是|应为|是|为|為|[:=|])"
    r"(?:[ \t]{0,4}(?:\n[ \t]{0,4}){0,2})(?:[:][ \t]{0,2})?"
)
_CHINESE_GAP = re.compile(r"[ \t]{0,2}")
_TYPED = re.compile(r"[\"'`“]?([!#-&*-+./-:=?-_a-z{}~-]{3,100})")
_CHINESE_MEASURE = re.compile(r"[ \t]?(?:[位个個字天次年月日号号种年小分条]|加密|哈希|算法|编码|格式|存储|摘要)")
_CHINESE_CONNECT = re.compile(r"[ \t]?(?:是|作为|当作?|做)[\u4e00-\u9fff]{0,8}$")


def _chinese(text: str, start: int, end: int) -> _Span | None:
    """Chinese passwords are typed in ASCII, and words touch each other."""
    linked = _CHINESE_LINK.match(text, end)
    if linked and (found := _typed(text, linked.end(), linked=True)):
        return found
    gap = _CHINESE_GAP.match(text, end)
    if gap and (found := _typed(text, gap.end(), linked=False)):
        return found
    connect = _CHINESE_CONNECT.search(text, max(0, start - 12), start)
    return _password(_chosen_word_before(text, connect.start())) if connect else None


def _typed(text: str, position: int, *, linked: bool) -> _Span | None:
    match = _TYPED.match(text, position)
    found = match and value_after(text, match.start(1))
    if not match or not found:
        return None
    start, end = match.start(1), match.start(1) + len(match[1].rstrip(".:?"))
    value = text[start:end]
    digits = sum(c.isdigit() for c in value)
    if _CHINESE_MEASURE.match(text, end) or value.lower() in NOT_A_VALUE:
        return None
    if digits:
        return _password((start, end)) if (digits >= 4 or (len(value) >= (4 if linked else 6) and digits < len(value))) else None
    return _password((start, end)) if linked and len(value) >= 4 and SENTENCE_END.match(text, end) else None


# -------------------------------------------------------------------------------------------------------------- pass phrases

_PHRASE = re.compile(rf"(?:{PHRASE_WORDS})", _I)
_PHRASE_VALUE = re.compile(r"[\"'`“„]?\w{2,30}(?:[ ,]{1,2}\w{2,30}){2,24}[\"'`”“]?")


def find_phrase(text: str, position: int) -> _Span | None:
    word = _PHRASE.match(text, position)
    if word is None:
        return None
    assigned = ASSIGN.match(text, word.end())
    link = assigned or IS.match(text, word.end())
    if link is None:
        return None
    value = _PHRASE_VALUE.match(text, link.end())
    if value and (assigned or _is_row_of_words(value[0])):
        return _password(value.span())
    if assigned:
        return _password(assigned_value(text, assigned))
    found = value_after(text, link.end())
    return (
        _password(found)
        if found and (found[2] or SENTENCE_END.match(text, found[1]) or is_mixed(text[found[0] : found[1]]))
        else None
    )


def _is_row_of_words(value: str) -> bool:
    """And no sentence about phrases."""
    words = value.lower().replace(",", " ").split()
    return len(words) >= 4 and sum(word in NOT_A_VALUE for word in words) <= len(words) // 4


# ------------------------------------------------------------------------------------------------- user and password together

_ACCOUNT = re.compile(
    rf"(?<!{_LETTER})(?:{ACCOUNT_WORDS})"
    r"(?:[ \t]+(?:for|für|fürs|zum|zur|vom|von|bei|beim|to|on|at|of)(?:[ \t]+[^\s:=/]{1,30}){1,4}?)?"
    r"(?:[ \t]{0,3}(?P<sign>:|(?<=[ \t])(?:is|are|ist|sind|lauten|lautet)(?=[ \t:]):?)\s{0,3}|[ \t]+)"
    r"(?P<user>[A-Za-zÀ-ÿ][\w.@+-]{1,60})"
    r"(?P<between>[ \t]*(?:[/|,;:+]|und|and|mit|with)[ \t\n]*|[ \t]+|\n[ \t]*)",
    _I,
)


def find_account(text: str, position: int) -> _Span | None:
    """ "Zugangsdaten: anna / Blume99!"."""
    match = _ACCOUNT.match(text, position)
    if match is None or not (match["sign"] or match["between"].strip()):
        return None
    found = value_after(text, match.end())
    if found is None or not is_chosen(text[found[0] : found[1]]) or OPERATOR.match(text, found[1]):
        return None
    return _password(found)


_USER_OPTION = re.compile(r"(?:-u|--user|--proxy-user|-U|-a|--auth)[ =]{0,3}[\"']?[^\s:\"'/]{0,60}:([^\s\"']{2,200})")
_PASSWORD_OPTION = re.compile(r"-[pa](?P<space>[ \t]{0,2})[\"']?([^\s\"'-][^\s\"']{2,200})")
_USER_TOOLS = ("curl", "wget", "http")
_PASSWORD_TOOLS = ("mysql", "mariadb")
"""After a space their ``-p`` is followed by something else."""
_SPACED_PASSWORD_TOOLS = ("sshpass", "docker login", "podman login", "mongo", "redis-cli", "az login")


def find_option(text: str, position: int) -> _Span | None:
    """``curl -u anna:S3cret99``, ``mysql -pS3cret99``, ``sshpass -p S3cret99``: an option of a program known to take one."""
    if position == 0 or not text[position - 1].isspace():
        return None
    match, tools = _USER_OPTION.match(text, position), _USER_TOOLS
    value = 1
    if match is None:
        match, value = _PASSWORD_OPTION.match(text, position), 2
        tools = _SPACED_PASSWORD_TOOLS if match and match["space"] else _PASSWORD_TOOLS + _SPACED_PASSWORD_TOOLS
    if match is None or not _is_on_line(text, tools, position) or not value_after(text, match.start(value)):
        return None
    return _password(match.span(value))


def _is_on_line(text: str, tools: tuple[str, ...], position: int) -> bool:
    begin = max(0, position - 200)
    begin = max(begin, text.rfind("\n", begin, position))
    return any(text.find(tool, begin, position) >= 0 for tool in tools)


# -------------------------------------------------------------------------------------------------------------------- tables

_RULER = re.compile(r"\n[ \t]{0,8}\|?[ \t]*:?-{2,200}:?[ \t]*(?:\|[ \t]*:?-{1,200}:?[ \t]*){0,40}\|?[ \t]*(?:\n|$)")
_HEADING = re.compile(rf"(?:{LOGIN_WORDS}|{CHINESE_LOGIN_WORDS}|(?<!{_LETTER})(?:pw|pin)(?!{_LETTER}))", _I)
_USER_HEADING = re.compile(r"user|login|account|konto|mail|benutzer|name|nutzer", _I)
_PASS_HEADING = re.compile(r"[ \t*]{0,9}pass[ \t*]{0,9}", _I)
_BAR = re.compile(r"\|")
_MAX_LINE_CHARS = 2_000


def find_table_passwords(text: str) -> Iterator[_Span]:
    """Cells under a heading that tells of passwords, in Markdown tables."""
    if "|" not in text or "--" not in text:
        return
    for ruler in _RULER.finditer(text):
        header_start = max(text.rfind("\n", 0, ruler.start()) + 1, ruler.start() - _MAX_LINE_CHARS)
        header = _cells(text, header_start, ruler.start())
        users = _USER_HEADING.search(text, header_start, ruler.start())
        columns = [
            index
            for index, (start, end) in enumerate(header)
            if _HEADING.search(text, start, end) or (users and _PASS_HEADING.fullmatch(text, start, end))
        ]
        position = ruler.end()
        while columns and position < len(text) and not _RULER.match(text, position - 1):
            line_end = text.find("\n", position)
            line_end = len(text) if line_end < 0 else line_end
            cells = _cells(text, position, min(line_end, position + _MAX_LINE_CHARS))
            if len(cells) < 2 and not text.startswith("|", position):
                break
            for index in columns:
                if index < len(cells) and (value := cell_value(text, *cells[index])):
                    yield *value, "password"
            position = line_end + 1


def _cells(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Spans between the bars of a row; what is before the first bar counts only if it is not blank."""
    bars = [start - 1, *(match.start() for match in _BAR.finditer(text, start, end)), end]
    spans = [(left + 1, right) for left, right in pairwise(bars)]
    if spans and not text[spans[0][0] : spans[0][1]].strip():
        spans = spans[1:]
    return spans
