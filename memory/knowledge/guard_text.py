"""The caller's own words in a text: without what is quoted in it, sentence by sentence.

A request may carry text of others: a cell, a mail, a note to be stored. Such text asks for nothing. It is taken out where it shows:
within quotation marks of any script, in code fences, in quoted lines, after words like ``the mail says:``. In doubt it is out: a
request that is not heard costs a second one, one that nobody made costs data.
"""

from __future__ import annotations

import re
from typing import Final

from memory.knowledge.guard_speech import HANDED_OVER, LETTER, STORES
from memory.knowledge.guard_words import STEMS

OUT: Final = "␟"
NAMED: Final = "ǂ"
"""Before each word of a quoted name: a letter, so that the word is no other word."""
MAX_NAME_WORDS: Final = 4
MAX_DEPTH: Final = 6
"""Quotations within quotations that are told apart."""
_LOOK_BACK = 16
MAX_CHARS: Final = 65_536
"""Of one text; the rest is not listened to."""

_PAIRS: Final = {
    '"': '"',
    "“": "”",
    "„": "“”",
    "«": "»",
    "»": "«",
    "‹": "›",
    "「": "」",
    "『": "』",
    "《": "》",
    "〈": "〉",
    "〝": "〞〟",
    "＂": "＂",
    "`": "`",
}
_NAME: Final = re.compile(r"[^\W_][\w.$-]{0,63}")
_SINGLE: Final = re.compile(r"(?<![^\W_])'[^'\n]{1,2000}'(?![^\W_])|[‘‚][^’‘\n]{1,2000}[’‘](?![^\W_])")
_FENCES: Final = re.compile(r"(```|~~~).*?(?:\1|\Z)", re.DOTALL)
_LINES: Final = re.compile(r"^[ \t]{0,3}[>＞|].*$", re.MULTILINE)
_MARKUP: Final = re.compile(r"<(\w{1,40})\b[^>]{0,200}>.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE)
_REPORTED_BY = """
    note notes text message mail e-?mail letter comment review transcript article document page file cell row description title
    contents? quote post tweet ticket chat log prompt data csv json
    says said reads wrote writes tells told states claims reports answered replied
    notiz nachricht brief kommentar beschreibung inhalt titel zitat zelle zeile dokument daten
    sagt sagte schreibt schrieb lautet meint behauptet texte courriel contenu commentaire dit écrit
    texto mensaje correo nota contenido comentario dice escribió mensagem conteúdo diz escreveu testo messaggio contenuto scrive
    tekst bericht inhoud opmerking zegt schrijft текст сообщение письмо заметка заметку комментарий содержание говорит пишет
"""
_REPORTS: Final = re.compile(
    rf"(?:\b(?:{'|'.join(_REPORTED_BY.split())})\b(?:\s+[^\W\d_]+){{0,3}}"
    "|内容|文本|文字|备注|消息|邮件|评论|标题|描述|单元格|笔记|原文|说|写道|注释|訊息|郵件|備註|本文|メモ|メール|コメント|메모|메일|내용)"
    r"\s*[:：]",
    re.IGNORECASE,
)
_COLON: Final = re.compile(r"[:：=]|[ \t][-–—]+[ \t]|->")
_SENTENCE: Final = re.compile(r"[.!?](?=\s)|[。！？\n]")
_BLANK: Final = re.compile(r"(?<![:：,，])\s*\n\s*\n\s*")
_END: Final = re.compile(r"[.!?]+[)\]]*(?=\s|$)|[。！？!?]+|…(?=\s|$)")
_SHORT: Final = re.compile(
    r"(?:^|[\s(])(?:\w|[\w.]*\.\w|"
    r"etc|bzw|usw|ca|vgl|sog|evtl|ggf|inkl|bspw|resp|incl|approx|vs|no|nr|dr|mr|mrs|ms|st|ej|ex|par|ecc|bijv|т|д)\Z",
    re.IGNORECASE,
)


def own_words(text: str) -> str:
    """The text with ``␟`` in place of what is quoted. A quoted name (``the table "Cars"``) stays, marked with ``ǂ``: it names
    something and cannot ask for anything."""
    text = text[:MAX_CHARS].replace("\r\n", "\n").replace("␟", " ").replace(NAMED, " ")
    text = _FENCES.sub(f" {OUT} ", text)
    text = _MARKUP.sub(f" {OUT} ", text)
    text = _LINES.sub(OUT, text)
    text = _SINGLE.sub(lambda found: _shown(found.group()[1:-1]), text)
    return _without_reported(_without_quoted(text))


def _shown(quoted: str) -> str:
    words = quoted.split()
    is_name = 0 < len(words) <= MAX_NAME_WORDS and all(_NAME.fullmatch(word) for word in words) and not STEMS.search(quoted)
    return f" {' '.join(NAMED + word for word in words)} " if is_name else f" {OUT} "


def _without_quoted(text: str) -> str:
    """A quotation that is never closed goes to the end."""
    kept: list[str] = []
    open_marks: list[str] = []
    start = 0
    for place, char in enumerate(text):
        depth = next((number for number in range(len(open_marks), 0, -1) if char in _PAIRS[open_marks[number - 1]]), 0)
        if depth:
            del open_marks[depth - 1 :]
            if not open_marks:
                kept.append(_shown(text[start:place]))
        elif char in _PAIRS and not (char in '"`“' and _closes(text, place)):
            if not open_marks:
                start = place + 1
            if len(open_marks) < MAX_DEPTH:
                open_marks.append(char)
        elif not open_marks:
            kept.append(char)
    return "".join([*kept, f" {OUT} "] if open_marks else kept)


def _closes(text: str, place: int) -> bool:
    """A mark right behind a letter or a digit opens nothing (15")."""
    return place > 0 and text[place - 1].isalnum() and not _is_dense(text[place - 1])


def _is_dense(char: str) -> bool:
    return "\u3040" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7a3"


def _without_reported(text: str) -> str:
    """After words like ``the note says:`` or ``store the following.`` all that comes is somebody's text, however long it is."""
    ends = [found.end() for found in (_REPORTS.search(text), HANDED_OVER.search(text), _kept_after_colon(text)) if found]
    if letter := LETTER.search(text):
        ends.append(letter.start())
    return f"{text[: min(ends)]} {OUT} " if ends else text


def _kept_after_colon(text: str) -> re.Match[str] | None:
    """``Add a to-do for tomorrow: …``"""
    return next((found for found in _COLON.finditer(text) if STORES.search(_SENTENCE.split(text[: found.start()])[-1])), None)


def sentences(text: str) -> list[str]:
    """Where one ends is told strictly: what belongs together must not be torn, or a ``do not`` would lose what it forbids."""
    found: list[str] = []
    for part in _BLANK.split(text):
        start = 0
        for end in _END.finditer(part):
            before = part[max(start, end.start() - _LOOK_BACK) : end.start()]
            if end.group().startswith(".") and (before[-1:].isdigit() or _SHORT.search(before)):
                continue
            found.append(part[start : end.end()])
            start = end.end()
        found.append(part[start:])
    return [" ".join(one.split()) for one in found if one.strip()]
