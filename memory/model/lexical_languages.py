"""Languages for lexical search: which one a text is written in, its most common words, its stemmer.

Stop lists are short on purpose: words that carry no meaning of their own. A long list takes words away that somebody looks for.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Final

import snowballstemmer
import stopwordsiso

from memory.model.lexical_text import normal_form

DEFAULT: Final = "en"

_OWN: Final = {
    "en": """
        a about again all also am an and any are aren as at be because been before being but by can could couldn d did
        didn do does doesn doing don down for from further had hadn has hasn have haven having he her here hers
        herself him himself his how i if in into is isn it its itself just ll m me more most my myself no nor not of
        off on once only or other our ours out over own re s same she should shouldn so some such t than that the
        their theirs them themselves then there these they this those through to too under until up ve very was wasn
        we were weren what when where which while who whom whose why will with won would wouldn you your yours
        yourself""",
    "de": """
        aber alle allem allen aller alles als also am an andere anderen anderer auch auf aus bei beim bin bis bist da
        damit dann das dass dein deine deinem deinen deiner dem den denn der des dich die dies diese diesem diesen
        dieser dieses dir doch dort du durch ein eine einem einen einer eines er es etwas euch euer eure für gegen
        habe haben hast hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja
        jede jedem jeden jeder jedes jetzt kann kein keine keinem keinen man mein meine meinem meinen meiner mich mir
        mit nach nicht nichts noch nun nur ob oder ohne sehr sein seine seinem seinen seiner seit sich sie sind so
        soll solche sondern um und uns unser unsere unter viel vom von vor wann war waren warum was weil weiter welche
        welchem welchen welcher welches wem wen wenn wer werde werden wie wieder will wir wird wirst wo wurde wurden
        zu zum zur zwar zwischen über""",
    "fr": """
        a ai ait as au aussi aux avait avant avec avez avons c ce cela ces cet cette ceux chez comme d dans de des
        donc du elle elles en es est et eu eux il ils j je l la le les leur leurs lui m ma mais me mes mon même n ne
        nos notre nous on ont ou où par pas plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa
        sans se sera ses si son sont sous sur t ta te tes toi ton tu un une vos votre vous y à été étaient était être""",
    "es": """
        a al algo ante antes aquel como con contra cual cuando cuándo cuál cómo de del desde donde dónde durante e el
        ella ellas ellos en entre era eran es esa esas ese eso esos esta estaba estas este esto estos está están fue
        fueron ha había han hasta hay he la las le les lo los me mi mis mucho muy más mí nada ni no nos nosotros o os
        otra otro para pero poco por porque que quien quién qué se ser si sin sobre somos son soy su sus sí también te
        tiene tienen todo todos tu tus un una uno unos y ya yo él""",
    "it": """
        a ad agli ai al alla alle allo anche avere aveva c che chi ci come con cosa cui d da dagli dai dal dalla dalle
        dallo de degli dei del dell della delle dello di dove e ed era erano essere fa gli ha hai hanno ho i il in io
        l la le lei li lo loro lui ma me mi mia mie miei mio ne nei nel nell nella nelle nello noi non nostra nostro o
        per perché più quale quando quanto quella quelle quelli quello questa queste questi questo se sei si sia siamo
        sono sta su sua sue sugli sui sul sulla sulle suo suoi te ti tra tu tua tue tuo un una uno vi voi è""",
    "pt": """
        a ao aos aquela aquele as até com como da das de dela dele do dos e ela elas ele eles em entre era essa esse
        esta está este eu foi foram há isso isto já lhe lhes mais mas me mesmo meu meus minha minhas muito na nas nem
        no nos nossa nosso não nós o onde os ou para pela pelas pelo pelos por porque qual quando que quem se sem ser
        seu seus sua suas são só também te tem teu tinha tu tua têm um uma você vocês à às é""",
    "nl": """
        aan al alles als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een en er ge geen
        geweest haar had heb hebben heeft hem het hier hij hoe hun ik in is ja je kan kon maar me meer men met mij
        mijn moet na naar niet niets nog nu of om omdat onder ons ook op over reeds te tegen toch toen tot u uit uw
        van veel voor waar waarom want waren was wat wel werd wie wij wil worden wordt ze zelf zich zij zijn zo zou""",
    "ru": """
        а без более бы был была были было быть в вам вас весь во вот все всего всех вы где да даже для до его ее её
        если есть еще ещё же за здесь и из или им их к как какая какой когда который кто ли либо мне может мы на над
        нам нас наш не него нее ней нет ни них но ну о об однако он она они оно от очень по под при про с сам свой
        себя со так также такой там те тем то того тоже той только том ты у уже хотя чего чей чем что чтобы чье эта
        эти это этого этой этом этот я""",
    "ar": """
        أن أنا أنت أنتم أو أي أين أيضا إذا إلا إلى إن إنه إنها التي الذي الذين الى ان انا او اي بعد بل بها به بين تلك
        ثم حتى حيث خلال ذلك عن عند على عليه عليها غير في فيه فيها قبل قد كان كانت كل كم كما كيف لا لقد لك لكن لم لماذا
        لن له لها لي ليس ما ماذا متى مع من منذ منه منها نحن نعم هذا هذه هل هم هنا هناك هو هي و يا""",
    "zh": "的 了 着 过 们 吗 呢 吧 啊 么 之 与 及",
    "ja": "の は が を に と も へ や か ね よ",
    "ko": "은 는 이 가 을 를 의 에 도 로",
}  # fmt: skip

_STEMMERS: Final = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi",
    "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch",
    "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish",
    "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
_LATIN: Final = (
    "en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "no", "fi", "pl", "cs", "tr", "ro", "hu", "ca", "id", "et", "lt", "eu",
    "ga", "hr", "sk", "sl", "lv", "vi", "sw", "tl", "af",
)  # fmt: skip
"""Of equal votes the first one wins."""
_GUESSES: Final = ("en", "de", "fr", "es", "it", "pt", "nl", "sv", "no", "pl", "tr", "fi", "hu", "ro", "cs", "id")
"""What a few words without a common one among them may be."""
COMPOUNDING: Final = frozenset({"de", "nl", "sv", "da", "no", "fi", "hu", "et", "af"})
"""Languages that write compounds as one word."""

_LONGEST_STOP: Final = 4
"""Letters; the lists of other languages are long, and many longer entries are words that mean something."""
_VOTERS: Final = 400
"""Words of a text that are looked at."""
_SURE: Final = 2
"""Common words of a language after which nothing else is guessed."""


@cache
def stop_words(language: str) -> frozenset[str]:
    """In small letters; empty for a language that is not known."""
    own = _OWN.get(language)
    if own is not None:
        return frozenset(normal_form(word) for word in own.split())
    if not stopwordsiso.has_lang(language):
        return frozenset()
    return frozenset(normal_form(word) for word in stopwordsiso.stopwords(language) if len(word) <= _LONGEST_STOP)


@cache
def _voters() -> dict[str, tuple[tuple[str, ...], float]]:
    """Common word → Latin-script languages that it is a sign of, and how much for each."""
    found: dict[str, list[str]] = {}
    for language in _LATIN:
        for word in stop_words(language):
            found.setdefault(word, []).append(language)
    return {word: (tuple(languages), 1.0 / len(languages) ** 0.5) for word, languages in found.items()}


@cache
def _order() -> dict[str, int]:
    return {language: place for place, language in enumerate(_LATIN)}


def latin_languages(words: Sequence[str]) -> tuple[str, ...]:
    """The languages that these words (small letters, Latin script) may be in, the likeliest first.

    One where the common words among them say so; several where the text is too short to tell.
    """
    votes: dict[str, float] = {}
    voters = _voters()
    common = [word for word in words[:_VOTERS] if word in voters]
    for word in common:
        languages, weight = voters[word]
        for language in languages:
            votes[language] = votes.get(language, 0.0) + weight
    if not votes:
        return _GUESSES
    most = max(votes.values())
    order = _order()
    ranked = sorted((language for language, some in votes.items() if some == most), key=order.__getitem__)
    best = ranked[0]
    if len({word for word in common if best in voters[word][0]}) >= _SURE:
        return (best,)
    return tuple(dict.fromkeys((*ranked[:3], *_GUESSES)))


def other_language(script: str, text: str) -> str:
    """The language of a script that is not Latin, told by letters that only some of its languages have."""
    match script:
        case "cyrillic":
            if any(letter in text for letter in "іїєґ"):
                return "uk"
            return "sr" if any(letter in text for letter in "ђјљњћџ") else "ru"
        case "arabic":
            if any(letter in text for letter in "ٹڈڑںےہھ"):
                return "ur"
            return "fa" if any(letter in text for letter in "پچژگ") else "ar"
        case "greek":
            return "el"
        case "hebrew":
            return "he"
        case "devanagari":
            return "hi"
        case "tamil":
            return "ta"
        case "armenian":
            return "hy"
        case "bengali":
            return "bn"
        case _:
            return ""


class _Stemmers(threading.local):
    """A stemmer has state, so each thread has its own."""

    def __init__(self) -> None:
        self.made: dict[str, Any] = {}


_stemmers = _Stemmers()


@lru_cache(maxsize=100_000)
def stem(language: str, word: str) -> str:
    """The stem of a word in small letters; the word itself where the language has no stemmer."""
    name = _STEMMERS.get(language)
    if name is None:
        return word
    made = _stemmers.made
    if name not in made:
        made[name] = snowballstemmer.stemmer(name)
    return made[name].stemWord(word) or word
