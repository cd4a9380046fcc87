"""What a user asks to be forgotten: everything, or a topic.

"Delete all rows of the table" is no such request. A verb of forgetting alone only counts with "everything" right behind it; else
the request has to name what is kept about the user ("about me", "my profile", "关于我"), or a topic as the user's own ("my job").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memory.model.words import key_words

_FORGET = re.compile(
    r"(?<!don't )(?<!don’t )(?<!do not )(?<!not )(?<!never )(?<!i )(?<!won't )(?<!i'll )\b"
    r"(?:forget|erase|delete|remove|wipe|drop|clear)\b(?! not\b)|"
    r"\b(?:vergiss|vergesst|vergessen sie|lösche?n?|streiche?|entferne)\b(?! nicht\b)|"
    r"\b(?:oublie[zr]?|supprime[zr]?|efface[zr]?|olvida|borra|elimina)\b|(?<!不要)(?<!别)(?<!不)(?:忘记|忘掉|忘了|删除|删掉|清除)",
    re.IGNORECASE,
)
_FORGET_EVERYTHING = re.compile(
    r"\bforget\s+(?:absolutely\s+)?(?:everything|all)"
    r"(?=\s*(?:$|[,:)–—-]|please\b|now\b|again\b|you\s+(?:know|remember|learn|have)|i(?:'ve|’ve|\s+have)?\s+(?:ever\s+)?(?:told|said|shared)"
    r"(?:\s+(?:to\s+)?you)?\s*$))"
    r"|\b(?:vergiss|vergesst|vergessen\s+sie)\s+(?:bitte\s+)?(?:wirklich\s+)?alles(?=\s*(?:$|[,:)–—-]|bitte\b|wieder\b|was\s+(?:du|sie|ihr)\b))"
    r"|\boublie[zr]?\s+tout(?=\s*(?:$|,|ce\s+que))|\bolvida(?:lo)?\s+todo(?=\s*(?:$|,|lo\s+que))"
    r"|(?:忘记|忘掉|忘了)(?:一切|所有|全部)(?=\s*(?:$|[,，]|吧|的?(?:事|东西|内容|信息)))|(?:一切|所有|全部)(?:的?(?:事|东西|内容))?(?:都|全)?(?:忘记|忘掉|忘了)",
    re.IGNORECASE,
)
_ABOUT_THE_USER = re.compile(
    r"\b(?:about|regarding|on)\s+me\b(?!\s+\w+ing\b)|\b(?:über|ueber|von)\s+mich\b|\bzu\s+meiner\s+person\b|\bsur\s+moi\b|\bsobre\s+mí|关于我(?:的(?:一切|所有|全部|事|信息|资料|记忆)|(?!的))"
    r"|\b(?:my|your|mein(?:e[nrms]?)?|dein(?:e[nrms]?)?|ihre?n?|mon|ma|ta|mi|tu)\s+(?:(?:whole|entire|complete|user|ganze[sn]?|gesamte[sn]?)\s+)*"
    r"(?:memory|memories|profile|gedächtnis|erinnerung(?:en)?|profil|mémoire|perfil|memoria)\b(?!\s+(?!about|of\s+me|please|now|and|bitte|jetzt|und)\w)"
    r"|\b(?:the|das|dein)\s+(?:whole|entire|complete|ganze|gesamte)\s+(?:memory|profile|gedächtnis|profil)\s*(?:about|of|über|$)"
    r"|(?:你|我)的?(?:全部|所有|整个)?(?:记忆|档案|画像|个人资料)|(?:全部|所有)记忆",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"\b(?:my|mine|mein(?:e[nmrs]?)?|mon|ma|mes|mis?)\b|\b(?:about|that|where|what|who|how|which)\s+(?:me|i)\b|\b(?:über|von)\s+(?:mich|mir)\b"
    r"|\b(?:dass|wo|was|wer|wie|welche\w*)\s+ich\b|我",
    re.IGNORECASE,
)
_OWN_CHARS = 40
_OWN_WORDS = 4
_TOPICS: dict[str, re.Pattern[str]] = {
    "work": re.compile(
        r"\b(?:jobs?|work(?:s|ing|ed|place)?|employ(?:er|ed|ment|s)?|compan(?:y|ies)|roles?|positions?|careers?|professions?|titles?|teams?|"
        r"arbeit(?:e[tn]?|geber\w*|splatz)?|beruf\w*|stelle|firma|unternehmen|rolle|travail|emploi|trabajo|empleo)\b|"
        r"工作|公司|职业|职位|雇主|团队",
        re.IGNORECASE,
    ),
    "place": re.compile(
        r"\b(?:live[sd]?|living|lives|address|home|city|town|country|place|location|based|moved?|resid\w+|wohn\w*|adresse|stadt|ort|"
        r"zuhause|umgezogen|habite|ville|vive|ciudad|time ?zones?|zeitzone)\b|住|地址|城市|地点|时区",
        re.IGNORECASE,
    ),
    "name": re.compile(
        r"\b(?:names?|named|called|nickname|hei(?:ß|ss)e?[nt]?|vorname|nachname|pronouns?|nom|nombre)\b"
        r"|名字|姓名|叫",
        re.IGNORECASE,
    ),
    "language": re.compile(
        r"\b(?:languages?|speaks?|native|sprachen?|sprichst|spricht|muttersprache|english|german|deutsch|englisch|chinese|french|spanish|"
        r"langue|idioma)\b|语言|中文|英文|德语",
        re.IGNORECASE,
    ),
    "style": re.compile(
        r"\b(?:style|tone|format\w*|answers?|replies|reply|responses?|respond|prefer\w*|communicat\w*|bullets?|emojis?|length|stil|ton|antwort\w*|"
        r"bevorzug\w*|präferenz\w*|kommunikation\w*|préférences?|preferencias?)\b|回答|风格|偏好|语气|格式|沟通",
        re.IGNORECASE,
    ),
}


@dataclass(frozen=True, slots=True)
class Request:
    """One sentence that asks to forget something: everything, some topics of the user's, or things of the user's by name."""

    everything: bool
    topics: frozenset[str]
    is_own: bool
    words: frozenset[str]

    def covers(self, line: str, values: frozenset[str], *, is_style: bool) -> bool:
        """Whether the request speaks of this bullet.

        Args:
            values: names and numbers of the bullet.
            is_style: the bullet stands in Communication Preferences.
        """
        if self.everything or (self.is_own and not values.isdisjoint(self.words)):
            return True
        if not self.topics:
            return False
        own = _topics(line)
        if own:
            return not self.topics.isdisjoint(own)
        # A bullet of no known topic ("Data engineer at Siemens"): the user gets the benefit of the doubt within the section.
        return ("style" in self.topics) == is_style


def read_request(sentence: str) -> Request | None:
    """The request that a sentence is, or None."""
    if _FORGET.search(sentence) is None:
        return None
    topics = _own_topics(sentence)
    about_user = _ABOUT_THE_USER.search(sentence) is not None
    everything = not topics and (_FORGET_EVERYTHING.search(sentence) is not None or (about_user and not _topics(sentence)))
    return Request(everything, frozenset(topics), about_user or _OWN.search(sentence) is not None, key_words(sentence))


def _own_topics(request: str) -> set[str]:
    """The topics that stand right behind a word for the user."""
    found: set[str] = set()
    for pointer in _OWN.finditer(request):
        behind = request[pointer.end() : pointer.end() + _OWN_CHARS].split()
        found |= _topics(" ".join(behind[:_OWN_WORDS]))
    return found


def _topics(text: str) -> set[str]:
    return {name for name, pattern in _TOPICS.items() if pattern.search(text)}
