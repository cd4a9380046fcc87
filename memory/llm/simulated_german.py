# ruff: noqa: E501  (tables of patterns read best one to a line)
"""German statements that the simulated model recognises."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memory.llm.simulated_patterns import Pattern, custom, fact, facts, favourite, gone, likes, reworded, say, tidy
from memory.llm.simulated_slots import Statement

_ADV = (
    r"(?:(?:jetzt|nun|aktuell|derzeit|gerade|momentan|zurzeit|zur Zeit|inzwischen|mittlerweile|auch|noch|ab jetzt|immer|sehr|gerne?|ja|hier|eigentlich|doch|"
    r"schon|wieder|bereits|daran|damit|seit\s+(?:\w+\s+){1,2}?|privat|beruflich|hauptsächlich)\s+){0,3}"
)
_STOP = (
    r"(?=\s*(?:$|[;!?()\n—。]|(?<!\b\d)(?<!\b\d\d)\.(?:\s|$)|,?\s+(?:und|aber|doch|denn)\s+(?:ich|mein\w*|wir|arbeite|wohne|lebe|bin|habe|mag|komme|das|es|kannst|bitte|heiße|spreche|lerne)\b|"
    r",\s+(?:weil|da|denn|aber|wo|der|die|das|und|bitte|ich|kannst|sondern)\b|\s+statt\s{comma}))"
)
_END = _STOP.format(comma=r"|,|\s+und\s")
_LIST_END = _STOP.format(comma=r"|,\s+nicht\s")
_V = rf"(?P<v>[^\n;!?]{{1,90}}?){_END}"
_LIST = rf"(?P<v>[^\n;!?]{{1,120}}?){_LIST_END}"
_NAME = r"(?-i:(?P<v>[A-ZÄÖÜ][\w'-]+(?:\s+(?:von|van|de|zu|der|[A-ZÄÖÜ][\w'-]*\.?)){0,3}))"
_CAPITAL = r"(?-i:[A-ZÄÖÜ0-9])"
_ORG = rf"(?P<employer>(?:der\s+|dem\s+|den\s+|die\s+)?{_CAPITAL}[^\n;!?,]{{0,60}}?){_END}"
_TO_THE_END = r"(?P<v>[^\n?!;]{3,160})"
_JOB = re.compile(
    r"\b\w*(?:er|erin|ist|istin|ent|entin|ant|antin|eur|eurin|or|orin|loge|login|leiter|leiterin|arzt|ärztin|anwalt|anwältin|kraft|mann|frau|chef|chefin|koch|köchin|"
    r"manager|managerin|designer|pädagoge|pädagogin|azubi|student|studentin)\b",
    re.IGNORECASE,
)
_NO_JOB = re.compile(
    r"\b(?:Vater|Mutter|Bruder|Schwester|Tochter|Deutscher|Österreicher|Schweizer|Berliner|Hamburger|Münchner|Kölner|\w*Fan|Anfänger(?:in)?|Vegetarier(?:in)?|Veganer(?:in)?|"
    r"Raucher(?:in)?|Kunde|Kundin|Nutzer(?:in)?|Wiener|Zürcher|Frankfurter|immer|wieder|aber|hier|sehr|Mann|Frau|sicher|unsicher|leider|weiter|später|spät|der|"
    r"wer|besser|älter|jünger|näher|schwer|froher?|guter|Patient(?:in)?)\b",
    re.IGNORECASE,
)
_NAME_LIKE_JOB = re.compile(
    r"(?:Peter|Oliver|Alexander|Werner|Günth?er|Dieter|Walter|Martin|Kevin|Robin|Kath?rin|Karin|Benjamin|Valentin|Jasmin|Christopher|Rainer|Holger|Xaver)\b"
)
_DUE = re.compile(
    r"\b(?:bis|vor|am|nächste\w*|morgen|übermorgen|heute|diese\w*|spätestens)\b.{0,30}|\b(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)\b",
    re.IGNORECASE,
)
_DID = (
    r"(?:geschickt|gesendet|versendet|abgeschickt|abgegeben|geschrieben|angerufen|gebucht|vorbereitet|geliefert|fertig\w*|erledigt|erneuert|überwiesen|bezahlt|bestellt|gekauft|"
    r"unterschrieben|hochgeladen|eingereicht|veröffentlicht|abgeschlossen|beendet|aktualisiert|präsentiert|kontaktiert|reserviert|angemeldet|gekündigt|storniert|gemacht|übersetzt|geprüft)"
)
_DATE = (
    r"(?=[^\n;!?]{0,40}(?:\d|januar|februar|märz|april|mai|juni|juli|august|september|oktober|november|dezember|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|"
    r"woche|monat|quartal|jahr|morgen|ende|anfang|mitte))"
)


def _ich(verb: str) -> str:
    """First person of a verb, in either order, or after "und"."""
    return rf"(?:\bich\s+{_ADV}{verb}|\b{verb}\s+ich|\bund\s+{_ADV}{verb})\s+{_ADV}"


def _is(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    value = tidy(match["role"])
    employer = tidy(match["employer"] or "")
    if not value or _NO_JOB.search(value):
        return
    if employer or (_JOB.search(value.split()[-1]) and not _NAME_LIKE_JOB.match(value)):
        yield say("set" if "jetzt" in match[0].lower() else "set_if_new", "role", "de", value)
        if employer:
            yield say("set", "employer", "de", employer)
    elif (
        re.fullmatch(r"(?:der\s+|die\s+)?[A-ZÄÖÜ]\w+(?:\s+[A-ZÄÖÜ]\w+){0,2}", value)
        and match[0].lower().startswith(("ich bin", "bin ich"))
        and match.start() == 0
    ):
        yield say("set_if_new", "name", "de", re.sub(r"^(?:der|die)\s+", "", value))


_FORGET = {
    "employer": r"arbeitgeber|job|arbeit|firma|wo ich arbeite",
    "place": r"wohnort|adresse|stadt|wo ich wohne|wo ich lebe",
    "name": r"namen?",
    "role": r"beruf|rolle|position",
    "time_zone": r"zeitzone",
}


def _forgets(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    value = tidy(match["v"], drop=r"dass|meinen|meine|mein")
    for slot, names in _FORGET.items():
        if re.fullmatch(names, value, re.IGNORECASE):
            yield Statement("remove", slot, "", slot)
            return
    if value:
        yield Statement("forget", "", "", "", "", value)


def _prefers(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    value = tidy(match["v"])
    if value and not _ABOUT_ANSWERS.search(value):
        yield say("set", "prefers", "de", value)


def _commits(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    value = tidy(re.split(r",\s+(?:weil|aber|also|damit)\s", match["v"], maxsplit=1)[0])
    if value and _DUE.search(value):
        yield say("add", "follow_up", "de", value)


_ABOUT_ANSWERS = re.compile(
    r"\b(?:antwort\w*|erklär\w*|stichpunkt\w*|aufzählung\w*|absätze|fließtext|emojis?|tabellen?|beispiele|knapp\w*|ausführlich\w*|förmlich|locker|duzen|siezen)\b",
    re.IGNORECASE,
)
_LANGUAGE = r"\b(?:auf|in|zu)\s+(?P<l>Deutsch|Englisch|Französisch|Spanisch|Italienisch|Portugiesisch|Niederländisch|Polnisch|Russisch|Chinesisch|Japanisch|Türkisch|Arabisch)\b"
_SHAPES: tuple[tuple[str, str, str], ...] = (
    ("answer_length", r"\b(?:ausführlich\w*|länger\w*|lang|lange|detailliert\w*|gründlich\w*)\b", "ausführlich"),
    ("answer_length", r"\b(?:kurz|kurze|kurzen|kürzer\w*|knapp\w*|prägnant\w*)\b(?!\s+Absätze)", "kurz"),
    ("answer_format", r"\b(?:ohne|keine)\s+(?:Stichpunkte|Aufzählungen|Listen)\b", "keine Stichpunkte"),
    ("answer_format", r"(?<!statt )\b(?:Stichpunkte\w*|Aufzählung\w*|stichpunktartig|Bullet ?points)\b", "Stichpunkte"),
    ("answer_format", r"(?<!statt )\b(?:Fließtext|ganze[nr]? Sätze\w*|Absätze\w*)\b", "Fließtext"),
    ("answer_format", r"(?<!statt )\bTabellen?\b", "Tabellen"),
    ("answer_format", r"\bSchritt für Schritt\b", "Schritt für Schritt"),
    ("emojis", r"\b(?:ohne|keine)\s+Emojis?\b", "keine"),
    ("emojis", r"\b(?:mit|gerne?)\s+Emojis?\b", "gern"),
    ("answer_tone", r"\b(?:duze?n?|per du|locker|informell)\b", "per Du, locker"),
    ("answer_tone", r"\b(?:sieze?n?|per sie|förmlich|formell)\b", "per Sie, förmlich"),
    ("answer_tone", r"\b(?:einfache[nr]? (?:Sprache|Worten?)|einfach erklärt)\b", "einfache Sprache"),
    ("units", r"\bmetrisch\w*\b|\bCelsius\b", "metrisch"),
)


def _shapes(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    text = match["v"]
    if language := re.search(_LANGUAGE, text, re.IGNORECASE):
        yield say("set", "answer_language", "de", language["l"])
    seen: set[str] = set()
    for slot, pattern, value in _SHAPES:
        if slot not in seen and re.search(pattern, text, re.IGNORECASE):
            seen.add(slot)
            yield say("set", slot, "de", value)


GERMAN: tuple[Pattern, ...] = (
    reworded(
        "de",
        r"(?P<v>[^;!?\n]{2,120}?),?\s+(?:statt|anstatt|anstelle von|und nicht|nicht)\s+(?P<old>[^,;!?\n]{2,40}?)(?=[,;!?]|\.(?:\s|$)|$)",
    ),
    # identity
    fact(
        "de", "name", rf"\bich\s+heiße\s+{_NAME}|\bmein\s+name\s+ist\s+(?-i:(?P<v2>[A-ZÄÖÜ][\w'-]+(?:\s+[A-ZÄÖÜ][\w'-]+){{0,3}}))"
    ),
    fact("de", "called", rf"\b(?:nenn|nennen sie)\s+mich\s+(?:bitte\s+)?{_NAME}"),
    gone(
        "de",
        "remove",
        "employer",
        rf"\b(?:ich\s+arbeite|arbeite\s+ich)\s+{_ADV}nicht\s+(?:mehr\s+)?(?:bei|für)\s+(?:der\s+|dem\s+)?{_V}",
    ),
    gone(
        "de",
        "remove",
        "employer",
        r"\bich\s+habe\s+(?:meinen\s+job\s+)?(?:gekündigt|verloren)\b|\bich\s+bin\s+(?:jetzt\s+)?(?:arbeitslos|in\s+rente|im\s+ruhestand)\b",
    ),
    gone("de", "remove", "place", rf"\b(?:ich\s+(?:wohne|lebe)|(?:wohne|lebe)\s+ich)\s+{_ADV}nicht\s+mehr\s+in\s+{_V}"),
    facts(
        "de",
        rf"\b(?:ich\s+arbeite|arbeite\s+ich)\s+{_ADV}nicht\s+(?:mehr\s+)?(?:bei|für)\s+[^\n;!?,]{{1,60}}?,\s+sondern\s+(?:jetzt\s+)?(?:bei|für)\s+{_ORG}",
        employer="set",
    ),
    fact(
        "de",
        "place",
        rf"\b(?:ich\s+(?:wohne|lebe)|(?:wohne|lebe)\s+ich)\s+{_ADV}nicht\s+(?:mehr\s+)?in\s+[^\n;!?,]{{1,60}}?,\s+sondern\s+(?:jetzt\s+)?in\s+(?P<v>{_CAPITAL}[^\n;!?,]{{1,60}}?){_END}",
    ),
    facts(
        "de", rf"{_ich('arbeite')}als\s+(?P<role>[^\n;!?,]{{2,60}}?)(?:\s+(?:bei|für)\s+{_ORG}|{_END})", role="set", employer="set"
    ),
    facts("de", rf"{_ich('arbeite')}(?:bei|für)\s+{_ORG}", employer="set"),
    facts("de", rf"\bmein\s+(?:neuer\s+)?arbeitgeber\s+ist\s+(?:jetzt\s+)?{_ORG}", employer="set"),
    facts(
        "de",
        rf"\bich\s+(?:bin|habe)\s+(?:jetzt\s+|gerade\s+)?(?:zur?m?|bei)\s+{_ORG.replace(_END, '')}\s+(?:gewechselt|angefangen)",
        employer="set",
    ),
    custom(
        "de",
        rf"{_ich('bin')}(?:ein\s+|eine\s+|der\s+|die\s+)?(?-i:(?P<role>[A-ZÄÖÜ][\w-]+(?:\s+[A-ZÄÖÜ][\w-]+){{0,2}}))(?:\s+(?:bei|für)\s+{_ORG}|{_END})",
        _is,
    ),
    fact("de", "role", rf"\bmein(?:e)?\s+(?:neue\s+|aktuelle\s+)?(?:beruf|rolle|position|job)\s+ist\s+(?:jetzt\s+)?{_V}"),
    fact(
        "de",
        "team",
        rf"\b(?:ich\s+bin|bin\s+ich|ich\s+arbeite)\s+{_ADV}im\s+(?:team\s+(?P<v>[\w&/ -]{{2,40}}?){_END}|(?P<v2>[\w&/-]{{2,40}}?)-?team\b)",
    ),
    fact("de", "team", rf"\bmein\s+(?:neues\s+)?team\s+(?:ist|heißt)\s+(?:jetzt\s+)?{_V}"),
    fact("de", "place", rf"{_ich('(?:wohne|lebe)')}in\s+(?P<v>{_CAPITAL}[^\n;!?,]{{1,60}}?){_END}"),
    fact(
        "de",
        "place",
        rf"\b(?:ich\s+bin|bin\s+ich)\s+{_ADV}(?:von\s+\w+\s+)?nach\s+(?P<v>{_CAPITAL}[^\n;!?,]{{1,40}}?)\s+(?:um)?gezogen",
    ),
    fact("de", "place", rf"\bich\s+ziehe\s+{_ADV}nach\s+(?P<v>{_CAPITAL}[^\n;!?,]{{1,40}}?)(?:\s+um)?{_END}"),
    fact("de", "origin", rf"{_ich('komme')}(?:ursprünglich\s+)?aus\s+(?P<v>{_CAPITAL}[^\n;!?,]{{1,40}}?){_END}"),
    fact("de", "time_zone", rf"\bmeine\s+zeitzone\s+ist\s+(?:jetzt\s+)?{_V}"),
    fact("de", "native", rf"\bmeine\s+muttersprache\s+ist\s+{_V}"),
    fact("de", "speaks", rf"{_ich('spreche')}(?:fließend\s+)?(?P<v>{_CAPITAL}[^\n;!?]{{1,80}}?){_LIST_END}", action="add"),
    gone("de", "remove", "likes", r"\b(?:ich\s+mag|mag\s+ich)\s+(?P<v>[^\n;!?,]{2,60}?)\s+nicht\s+mehr\b"),
    likes(
        "de",
        r"\b(?:ich\s+mag|mag\s+ich)\s+(?!es\b|das\b|dich\b)(?P<v>[^\n;!?,]{2,60}?)\s+(?:gar\s+|überhaupt\s+)?nicht\b(?!\s+mehr)",
        negative=True,
    ),
    likes("de", rf"\b(?:ich\s+mag\s+(?:gar\s+)?kein(?:e|en)?|ich\s+hasse)\s+{_LIST}", negative=True),
    likes(
        "de",
        rf"{_ich('(?:mag|liebe)')}(?!es\b|das\b|dich\b|kein|nicht|die\s+idee\b|deine?\b)(?![^\n.;!?,]{{0,60}}\bnicht\b){_LIST}",
        negative=False,
    ),
    favourite(
        "de",
        rf"\bmeine?\s+(?:neue[rs]?\s+)?lieblings-?(?P<thing>[\w-]{{2,40}})\s+(?:ist|sind|heißt)\s+(?:jetzt\s+|nun\s+|inzwischen\s+)?{_V}",
    ),
    custom("de", rf"{_ich('bevorzuge')}{_LIST}", _prefers),
    custom("de", rf"{_ich('(?:fahre|reise|sitze|trinke|esse|nehme)')}lieber\s+{_LIST}", _prefers),
    # how to answer
    custom(
        "de",
        r"(?:^|[,.:;!]\s*|\b(?:und|bitte|kannst du|könntest du|können sie)\s+)(?:bitte\s+)?(?P<v>(?:antworte\w*|antworten\s+sie|erkläre?|halte?|schreib(?:e)?\s+mir|sprich|wechsle|fass dich|benutze?|"
        r"verwende|duze?|sieze?|keine\s+emojis?|kürzere\s+antworten|ausführlichere\s+antworten|mir\s+(?:immer\s+|ab\s+jetzt\s+)?auf\s+\w+\s+antworten)\b"
        r"(?!\s+(?:mir\s+)?(?:ein\w*|das|diese\w*|auf\s+(?:die|diese|den)|ihm|ihr|ihnen|den|die|der)\b(?!\s+antworten?))[^\n?!;]{0,160})",
        _shapes,
        asks=True,
    ),
    custom(
        "de",
        rf"{_ich('(?:bevorzuge|möchte|mag|hätte gern|will|brauche)')}(?P<v>(?=[^\n;?!]{{0,100}}(?:{_ABOUT_ANSWERS.pattern}))[^\n;?!]{{2,160}})",
        _shapes,
    ),
    # work
    gone("de", "remove", "project", rf"\b(?:ich\s+arbeite|arbeite\s+ich)\s+{_ADV}nicht\s+mehr\s+(?:an|am)\s+{_V}"),
    fact(
        "de",
        "project",
        rf"\bmein\s+(?:neues\s+projekt\s+ist|projekt\s+ist\s+jetzt|aktuelles\s+projekt\s+ist(?:\s+jetzt)?)\s+{_V}",
        action="replace",
    ),
    fact(
        "de",
        "project",
        rf"\b(?:ich\s+bin|bin\s+ich|ich\s+wurde)\s+{_ADV}(?:zum|ins|auf\s+das)\s+projekt\s+(?P<v>[\w&/ -]{{2,50}}?)\s+(?:gewechselt|versetzt)",
        action="replace",
        drop="das|den|die",
    ),
    fact(
        "de",
        "project",
        rf"\b(?:ich\s+arbeite\s+jetzt|jetzt\s+arbeite\s+ich)\s+(?:an|am)\s+(?!dem\s+(?:fehler|bug|skript)\b|einem\s+(?:fehler|bug|skript)\b){_V}",
        action="replace",
    ),
    fact(
        "de",
        "project",
        rf"{_ich('arbeite')}(?:an|am)\s+(?!dem\s+(?:fehler|bug|skript)\b|einem\s+(?:fehler|bug|skript)\b){_V}",
        action="add",
    ),
    fact("de", "project", rf"\bwir\s+{_ADV}(?:entwickeln|bauen)\s+{_ADV}{_V}", action="add"),
    fact("de", "project", rf"\bmein\s+projekt\s+(?:ist|heißt)\s+{_V}", action="add"),
    fact("de", "goal", rf"\b(?:mein\s+|unser\s+|das\s+)?ziel\s+ist\s+(?:es,?\s+)?(?!es$){_LIST}", action="add"),
    fact(
        "de",
        "deadline",
        rf"\b(?:die|meine|unsere)\s+(?:frist|deadline)\s+(?:ist|endet|läuft|wurde\s+(?:auf|verschoben\s+auf))\s+(?:jetzt\s+)?(?:am\s+|auf\s+|bis\s+)?{_DATE}{_V}",
    ),
    custom(
        "de",
        rf"\b(?:die|meine|unsere)\s+(?:frist|deadline)\s+für\s+(?P<thing>[^\n,;!?]{{2,50}}?)\s+(?:ist|endet|wurde\s+(?:auf|verschoben\s+auf))\s+(?:jetzt\s+)?(?:am\s+|auf\s+)?{_DATE}{_V}",
        lambda match, stamp: [say("set", "deadline", "de", f"{tidy(match['thing'])}: {tidy(match['v'])}")],
    ),
    fact(
        "de",
        "milestone",
        rf"\b(?:die|der|das|unsere?|meine?)\s+(?P<v>(?:[\w-]+\s+){{0,3}}(?:beta|launch|release|go-live|demo|pilot|migration|präsentation|bericht|prüfung|projekt|produkt|app|website)\s+"
        rf"(?:geht|startet|beginnt|endet|ist\s+fällig|erscheint)\s+{_DATE}[^\n;!?]{{2,60}}?){_END}",
    ),
    # skills
    gone("de", "remove_like", "knows", r"\bich\s+(?:benutze|verwende|nutze)\s+(?P<v>[^\n;!?,]{2,60}?)\s+nicht\s+mehr\b"),
    fact("de", "knows", rf"{_ich('(?:beherrsche|programmiere in)')}{_LIST}", action="add"),
    fact(
        "de",
        "knows",
        rf"\bich\s+kann\s+(?:sehr\s+gut\s+|gut\s+)?(?P<v>{_CAPITAL}[\w+#./-]*(?:(?:,|\s+und)\s+{_CAPITAL}[\w+#./-]*)*(?:\s+(?:programmieren|sprechen|spielen))?){_LIST_END}",
        action="add",
    ),
    fact(
        "de",
        "knows",
        r"\bich\s+kenne\s+mich\s+(?:sehr\s+gut\s+|gut\s+)?(?:mit|in)\s+(?P<v>[^\n;!?,]{2,60}?)\s+(?:sehr\s+gut\s+|gut\s+)?aus\b",
        action="add",
    ),
    fact(
        "de",
        "experience",
        rf"{_ich('habe')}(?P<v>(?:\d+|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|viele)\s+jahre\s+erfahrung\s+(?:in|mit|als)\s+[^\n;!?,.]{{2,60}}?){_END}",
        action="add",
    ),
    fact("de", "learning", rf"{_ich('lerne')}(?!das\b|viel\b|es\b){_LIST}", action="add"),
    # follow-ups
    gone(
        "de",
        "remove_like",
        "follow_up",
        rf"\b(?:vergiss|streich|lösche?|storniere)\s+(?:bitte\s+)?(?:die\s+erinnerung|die\s+aufgabe|das\s+to-?do)(?:\s+(?:an|zu|für|mit))?\s+{_TO_THE_END}",
    ),
    gone(
        "de",
        "remove_like",
        "follow_up",
        r"\b(?:du\s+(?:musst|brauchst)\s+mich\s+nicht\s+(?:mehr\s+)?(?:daran\s+|an\s+)?)(?P<v>[^\n?!;]{3,160}?)\s*(?:zu\s+)?erinnern",
    ),
    gone(
        "de",
        "remove_like",
        "follow_up",
        r"\bich\s+(?:werde|muss|will)\s+(?P<v>[^\n?!;.]{3,120}?)\s+(?:doch\s+)?(?:nicht|nicht\s+mehr)\b[^\n?!;.]{0,40}",
    ),
    gone(
        "de", "remove_like", "follow_up", rf"\b(?:ich\s+habe|habe\s+ich|hab\s+ich|ich\s+hab)\s+(?P<v>[^\n?!;.]{{2,120}}?\b{_DID})\b"
    ),
    gone(
        "de",
        "remove_like",
        "follow_up",
        rf"(?:^|[,.;]\s*)(?P<v>[^\n?!;.]{{3,100}}?)\s+(?:habe\s+ich|hab\s+ich)\s+(?:schon\s+|bereits\s+|gestern\s+|heute\s+)?{_DID}\b",
    ),
    gone(
        "de",
        "remove_like",
        "follow_up",
        r"(?:^|[,.;]\s*)(?P<v>[^,.;!?\n]{3,80}?)\s+(?:ist|sind|wurde|wurden)\s+(?:jetzt\s+|schon\s+|bereits\s+)?(?:erledigt|fertig|abgeschlossen|abgesagt|storniert)\b",
    ),
    gone(
        "de",
        "remove",
        "project",
        r"(?:^|[,.;]\s*)(?:das\s+|die\s+|der\s+)?(?:projekt\s+)?(?P<v>[^,.;!?\n]{3,60}?)\s+(?:ist|wurde)\s+(?:jetzt\s+|schon\s+)?(?:fertig|abgeschlossen|beendet|eingestellt)\b",
    ),
    fact(
        "de",
        "follow_up",
        rf"\berinner(?:e|st\s+du|n\s+sie)?\s+mich\s+(?:bitte\s+)?(?:[^\n?!;,]{{0,30}}?\s)??(?:daran|an),?\s*(?:dass\s+ich\s+)?{_TO_THE_END}",
        action="add",
        asks=True,
    ),
    fact(
        "de",
        "follow_up",
        r"\b(?:kannst|könntest)\s+du\s+mich\s+(?:bitte\s+)?(?:[^\n?!;,]{0,30}?\s)??daran\s+erinnern,?\s*(?:dass\s+ich\s+)?(?P<v>[^\n?!;]{3,160})",
        action="add",
        asks=True,
    ),
    custom("de", rf"\b(?:ich\s+(?:muss|werde|soll)|(?:muss|werde)\s+ich)\s+(?![^\n?!;]{{0,120}}\bnicht\b){_TO_THE_END}", _commits),
    custom(
        "de",
        rf"\bich\s+(?P<v>(?:schicke|sende|schreibe|liefere|gebe|rufe|buche|reiche|bezahle|überweise|erledige|bereite)\s+{_TO_THE_END.replace('(?P<v>', '(?:')})",
        _commits,
    ),
    # the log
    fact(
        "de",
        "topic",
        rf"(?P<v>\bplane\s+ich\s+(?:gerade\s+)?[^\n;!?]{{3,100}}?){_LIST_END}|\bich\s+(?P<v2>(?:plane|überlege|vergleiche|recherchiere|organisiere)\s+(?!es\b|das\b)[^\n;!?]{{3,100}}?){_LIST_END}",
        action="add",
    ),
    fact(
        "de",
        "topic",
        r"\bhilf\s+mir\s+(?:bitte\s+)?(?:beim?|bei\s+der|dabei,?)\s+(?P<v>(?:planen|planung|vorbereitung|organisation|vergleich|auswahl|entscheidung)[^\n;!?]{3,100})",
        action="add",
    ),
    # forgetting
    custom(
        "de",
        r"^(?:bitte\s+)?(?:vergiss|lösche|entferne)\s+(?:bitte\s+)?,?\s*(?!es\b|das$|die\s+(?:erinnerung|aufgabe|datei|zeile))(?P<v>[^\n?!;]{2,100}?)(?:\s+aus\s+(?:deinem\s+gedächtnis|meinem\s+profil|deinen\s+notizen))?(?:[.!]|$)",
        _forgets,
    ),
)
