# ruff: noqa: E501  (patterns)
"""What may become of a contact item: names of organisations, evidence for a merge, who speaks of themselves. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from memory.model.contact import UNIQUE_FIELDS, Contact
from memory.model.contact_rules import email_key
from memory.model.evidence import normalised
from memory.model.items import ContactItem
from memory.model.words import fold, tokens

NAME_FIELDS: Final = ("first_name", "surname")
FIELDS: Final = (*NAME_FIELDS, *UNIQUE_FIELDS, "timezone", "job_title")

_SAME: Final = re.compile(
    r"\b(?:is|are|was|were)\s+(?:in fact\s+|actually\s+|really\s+|indeed\s+)?(?:one and )?(?:the (?:very )?same|identical)\b|\bsame (?:person|contact|man|woman|guy|company|one)\b|\b(?:also known as|aka|a\.k\.a\.|goes by|formerly(?: known as)?|née|used to be called|now called|another name for|changed (?:her|his|their) name)\b"
    r"|\bmy other (?:number|address|account|e-?mail|phone)\b|\bmerge\b|\bduplicates?\b"
    r"|\b(?:dieselbe|derselbe|dasselbe|die ?gleiche|der ?gleiche|gleiche|identisch)\b(?:\s+(?:person|kontakt|frau|mann|firma|mensch))?|\bauch bekannt als\b|\bhieß früher\b|\bheißt jetzt\b|\bgeborene\b|\bzusammenführen\b|\bdoppelt\b"
    r"|同一个?人|同一個人|同一位|是一个人|就是|也叫|又名|原名|改名|合并",
    re.IGNORECASE,
)
_DENIED: Final = re.compile(
    r"\b(?:not|n['’]t|never|nicht|kein\w*|niemals)\b[^.!?]{0,30}\b(?:same|identical|duplicates?|dieselbe|derselbe|gleiche|identisch)|\bdon['’]?t merge\b|不是同一|不要合并|[?？]\s*$",
    re.IGNORECASE,
)
_MAILBOX: Final = re.compile(
    r"^(?:info|support|service|kontakt|contact|office|hello|hallo|help|helpdesk|billing|rechnung(?:en)?|invoices?|sales|vertrieb|no-?reply|do-?not-?reply|team|post|mail|kundenservice|buchhaltung|accounting|reception|rezeption|empfang|orders?|bestellung(?:en)?|bookings?|reservier\w*|reservations?|jobs|hr|press|presse|admin|webmaster|customer\w*|newsletter|notifications?)(?:[+._-][^@]*)?@",
    re.IGNORECASE,
)
_SERVICE: Final = re.compile(
    r"\b(?:hotline|help ?line|help ?desk|support(?: line| desk| team)?|customer (?:service|care|support)|call cent(?:er|re)|service (?:desk|team|line|number)|front desk|reception|switchboard|main number|office number|"
    r"kundendienst|kundenservice|zentrale|service-?center|empfang|rezeption|sekretariat|notdienst|störungsstelle)\b|客服|服务热线|热线|前台|总机|總機",
    re.IGNORECASE,
)
_ANSWERS: Final = re.compile(
    r"\b(?:ask(?:ing|ed)? for|spoke (?:to|with)|speak (?:to|with)|talked (?:to|with)|answered|picks? up|picked up|on the (?:phone|line)|at the (?:desk|reception)|who answers|whoever answers|got (?:a|one)|was served by|helped by|frag(?:e|en|st)?\b[^.!?]{0,12}\bnach|verlang\w*|am (?:apparat|telefon)|ging (?:ran|dran|ans telefon)|gesprochen mit|meldet sich)\b|找|接电话|接的电话",
    re.IGNORECASE,
)
_OF_ORGANISATIONS = """
    gmbh ag kg ug ohg mbh ev inc inc. ltd ltd. llc llp plc corp corp. corporation company co. sarl sa bv nv oy ab srl
    hotline helpdesk support service services bank hotel restaurant clinic hospital praxis klinik kanzlei werkstatt office
    reception rezeption agency agentur studio shop store university universität school schule versicherung insurance airlines
    verein foundation stiftung team department abteilung kundendienst kundenservice zentrale
"""
_ORGANISATION: Final = frozenset(map(fold, _OF_ORGANISATIONS.split()))
_ORGANISATION_DENSE: Final = re.compile(
    r"(?:公司|银行|酒店|饭店|餐厅|医院|诊所|大学|学校|集团|客服|热线|事务所|中心|部门|株式会社)$"
)
_OF_ONESELF: Final = re.compile(
    r"\b(?:my name is|this is|i am|i['’]m|it['’]s|call me|mein name ist|ich heiße|ich bin|hier ist|hier spricht|hier schreibt|je m['’]appelle|me llamo|mi chiamo)\b|我叫|我是|我的名字|这里是|私は",
    re.IGNORECASE,
)
_MINE: Final = re.compile(
    r"\b(?:my (?:new |other |private |work |personal |second )?(?:e-?mail|address|number|phone|mobile|cell|whatsapp)|(?:reach|call|write to|text) me|meine? (?:neue |andere |private |zweite )?(?:nummer|mail\w*|adresse|telefonnummer|handynummer)|erreichst mich|erreichen mich)\b|我的(?:新|另一个)?(?:邮箱|电话|手机|号码)",
    re.IGNORECASE,
)


def keeps_no_name(fields: Iterable[str], item: ContactItem, said: Sequence[str], contact: Contact | None) -> bool:
    """Whether the contact is an organisation or a service, whose name fields stay empty: whoever happens to answer is not its name.

    Args:
        fields: addresses and numbers that the item gives.
        said: the sentences of its quotes.
        contact: what is stored of it.
    """
    boxes = [*fields, *((contact.email_address or "", *contact.aliases) if contact is not None else ())]
    if any(_MAILBOX.match(box) for box in boxes if box):
        return True
    given = [value for value in (item.first_name, item.surname) if value]
    if any(fold(word.strip(",")) in _ORGANISATION for value in given for word in value.split()):
        return True
    if any(_ORGANISATION_DENSE.search(value) for value in given):
        return True
    about_service = any(_SERVICE.search(sentence) for sentence in said)
    return about_service and any(_ANSWERS.search(sentence) for sentence in said) and not any(map(_OF_ONESELF.search, said))


def is_plainly_same(one: Contact, other: Contact, said: Sequence[str], texts: Sequence[str]) -> bool:
    """Whether a sentence says that both are the same, and both are named in it (or in the message that it is from)."""
    for sentence in said:
        if not _SAME.search(sentence) or _DENIED.search(sentence):
            continue
        if names(one, sentence) and names(other, sentence):
            return True
        # "We are the same person", in a message that names both.
        if (names(one, sentence) or names(other, sentence)) and any(names(one, text) and names(other, text) for text in texts):
            return True
    return False


def share_field(one: Contact, other: Contact) -> bool:
    """Whether an address or number (or sender id) of one is one of the other's."""
    return not _identities(one).isdisjoint(_identities(other))


def claims_field(speaker: Contact, holder: Contact, said: Sequence[str]) -> bool:
    """Whether the speaker gives an address or number of another contact's as their own."""
    theirs = _identities(holder)
    return any(_MINE.search(sentence) and any(_has(sentence, value) for value in theirs) for sentence in said)


def speaks_of_self(item: ContactItem, said: Sequence[str]) -> bool:
    """Whether the sender of the quotes introduces themselves with the item's name."""
    given = [value for value in (item.first_name, item.surname) if value]
    return bool(given) and any(
        _OF_ONESELF.search(sentence) and all(normalised(value) in normalised(sentence) for value in given) for sentence in said
    )


def names(contact: Contact, text: str) -> bool:
    """Whether a text names a contact: by full name, by first name or surname as a word, by an address, number or sender id."""
    plain = normalised(text)
    words = {fold(token) for token in tokens(text)}
    for part in filter(None, (contact.first_name, contact.surname)):
        parts = [fold(token) for token in tokens(part)]
        if parts and (set(parts) <= words or (not part.isascii() and normalised(part) in plain)):
            return True
    return any(_has(text, value) for value in _identities(contact))


def _has(text: str, value: str) -> bool:
    if value.lstrip("+").isdigit() and len(value) >= 5:
        return value.lstrip("+").lstrip("0") in re.sub(r"\D", "", text)
    return re.search(rf"(?<![\w@.+-]){re.escape(normalised(value))}(?![\w@])", normalised(text)) is not None


def _identities(contact: Contact) -> set[str]:
    own = {value for name in UNIQUE_FIELDS if (value := getattr(contact, name))}
    return {email_key(value) for value in (*own, *contact.aliases) if value not in ("user", "assistant")}
