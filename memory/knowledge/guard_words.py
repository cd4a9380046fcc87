"""How people ask for a deletion, and how they forbid one: English, German, Chinese, French, Spanish, Italian, Portuguese, Dutch,
Russian, Japanese, Korean. Only forms that ask count (``delete``, ``lösche``); what merely speaks of deletions does not."""

from __future__ import annotations

import re
from typing import Final


def words(listed: str) -> str:
    """A pattern for whole words, given with blanks between; ``_`` within one stands for a blank."""
    return rf"\b(?:{'|'.join(listed.split())})\b".replace("_", " ")


def compiled(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE | re.DOTALL)


_NOT_A_NOUN = "".join(
    rf"(?<!\b{word} )" for word in ("the", "a", "an", "no", "this", "that", "das", "beim", "zum", "vom", "dem", "des")
)
_NOT_DONE = "".join(rf"(?<!\b{word} )" for word in ("was", "were", "been", "is", "are", "got", "be", "had", "has", "have"))
_OBJECT = words(
    "the all every any each tables? columns? rows? records? it them this that these those both my our its their everything"
    " duplicates?"
)
_DONE = words("deleted removed erased purged dropped wiped discarded gone")
_SHALL = words("must should shall can may have_to has_to needs?_to ought_to are_to is_to to")
_SOLL = words(
    "soll sollen sollte sollten muss müssen müsste müssten kann können darf dürfen möchte möchten will wollen bitte"
)  # fmt: skip

ASKS: Final = compiled(
    # English
    _NOT_A_NOUN + words("delete remove erase purge discard eliminate truncate get_rid_of dispose_of throw_(?:away|out)"),
    rf"{words('drop wipe clear empty scrap strike')}(?:\s+out|\s+away)?(?=\s+(?:{_OBJECT}|[␟ǂ§¤]))",
    r"\bby (?:deleting|removing|erasing|purging|dropping)\b",
    rf"{_SHALL} be (?:\w+ )?{_DONE}",
    rf"{words('want need would_like')}[^.?!]{{1,80}}?{_NOT_DONE}{_DONE}",
    # German
    _NOT_A_NOUN + r"\bl(?:ö|oe)sch(?:e|en|t)?\b",
    _NOT_A_NOUN + words("entferne entfernen tilgen? verwirf verwerfen streichen? beseitigen? eliminieren? vernichten?"),
    words(r"wirf werft schmei(?:ß|ss)\w*") + r"[^.?!]{1,80}?" + words("weg raus hinaus"),
    rf"{_SOLL}[^.?!]{{1,80}}?{words('gelöscht geloescht entfernt gestrichen beseitigt')}",
    # French, Spanish, Italian, Portuguese, Dutch
    words("supprime[rz]? supprimons efface[rz]? enl[eè]ve[rz]? retire[rz] élimine[rz]?"),
    r"\b(?:doit|doivent|devrait|devraient) être (?:supprimé|effacé)e?s?\b",
    r"\b(?:elim[ií]na|b[oó]rra|qu[ií]ta|supr[ií]me)(?:r|d)?(?:l[oa]s?)?\b",
    r"\b(?:elimine|borre|suprima|quite)n?(?:l[oa]s?)?\b",
    words("suprimir eliminare eliminate cancella cancellare cancellate rimuovi rimuovere rimuovete"),
    words("exclua excluir apague apagar apaga remova remover deletar verwijder verwijderen wis wissen schrap schrappen"),
    # Russian
    words("удали удалите удалить сотри сотрите стереть убери уберите убрать очисти очистите уничтожь уничтожить"),
    # Chinese, Japanese, Korean
    "删除|删掉|删去|清空|移除|去掉|销毁|清除|丢弃|刪除|刪掉|刪去|銷毀|丟棄",
    "削除(?:して(?!は|も)|する(?!な|こと|の)|せよ|しろ|を?お願い)|(?:消去して|消して|取り除いて)(?!は|も)",
    r"삭제\s?(?:해|하세요|하십시오|부탁)|지워|제거\s?(?:해|하세요)",
)
"""A form that asks, unless it is forbidden."""

END_STATES: Final = compiled(
    rf"{words('should must shall may')} (?:no longer|not) "
    rf"{words('exist contain appear have be_(?:there|in|listed|stored|kept)')}",
    rf"{words('soll sollen sollte sollten darf dürfen')}[^.?!,]{{0,60}}\bnicht mehr\b[^.?!,]{{0,40}}"
    rf"{words('existieren geben da_sein vorkommen vorhanden_sein enthalten stehen')}",
    "(?:应该?|应当|必须)不再(?:存在|包含)",
)
"""A state that needs a deletion, said with a word that would otherwise forbid one."""

STEMS: Final = compiled(
    r"\b(?:delet|remov|eras|purg|discard|eliminat|truncat|dropp(?:ed|ing)\b|drops?\b|wip(?:e|ing)|destroy|get rid|throw)",
    r"\b(?:ge)?l(?:ö|oe)sch|\bentfern|\bgestrichen|\bbeseitig|\bvernicht",
    r"\b(?:supprim|effac|enl[eè]v|élimin|elim[ií]n|borr|suprim|cancell|rimuov|rimoss|exclu[ai]|apag|verwijder|wis(?:sen)?\b)",
    r"\b(?:удал|сот[рё]|стер|уничтож)",
    "删|刪|清空|移除|清除|销毁|削除|消し|消さ|消去|삭제|지우|지워|제거",
)
"""Any form: for telling that deletions are forbidden."""

FORBIDS: Final = compiled(
    r"n['’]t\b",
    r"\bn['’](?=\w)",
    words(
        r"""not never no nothing none nobody without neither nor avoid\w* refrain\w* instead_of rather_than forbid\w* prohibit\w*
        prevent\w* cannot dont doesnt mustnt shouldnt wont cant
        nicht nichts keine?[nmrs]? keinesfalls keineswegs nie niemals ohne statt anstatt weder verbot\w* verbiet\w* untersag\w*
        vermeid\w* verhinder\w* ne pas jamais sans aucune? rien évite\w* nunca jamás sin nada ningun\w* ningún tampoco evit\w*
        non mai senza niente nulla nessun\w* não nao sem nenhum\w* niet geen nooit zonder niets
        не нет никогда без ничего нельзя запрещ\w*"""
    ),
)
"""Before the form that asks, in the same sentence."""
FORBIDS_DENSE: Final = re.compile(r"不|别|別|勿|莫|未|没|沒|禁止|无需|無需|避免|并非")
FORBIDS_AFTER: Final = compiled(
    r"^\W*(?:\w+\W+){0,3}?(?:"
    + words(r"nothing none no never neither nichts keine?\w* nie niemals rien nada niente nulla niets geen ничего нельзя")
    + r"|(?:is|are|ist|sind) "
    + words("not never forbidden prohibited verboten untersagt nicht")
    + r"|(?:is|are)n['’]t\b)"
)
FORBIDS_LATE: Final = compiled(words(r"nicht nichts keine?\w* nie niemals niet niets geen nooit pas rien нельзя"))
"""Where the word that forbids comes late in its clause (``Lösche die Tabelle nicht``)."""
FORBIDS_LATE_DENSE: Final = re.compile(
    r"ない|ません|せず|いけな|だめ|ダメ|지\s?(?:마|말)|말고|말아|금지|禁止|不得|不行|不可以|不允许|不要|是不"
)

HARMLESS: Final = compiled(
    r"\bno longer " + words("needs? needed used valid active relevant current required wanted in_use"),
    r"\bnicht mehr "
    + words(r"brauche\w* gebraucht\w* benötigt\w* verwendet\w* gültig\w* aktiv\w* aktuell\w* relevant\w* nötig\w*"),
    r"\bnon[- ]?(?:existent|active|valid|unique)\b",
    "不再需要的?|不需要的|不用的|不再使用的?|没用的|無用的|无用的|无效的|不存在的",
)
"""Words that forbid elsewhere and only describe here; blanked out first."""

CONTRASTS: Final = compiled(
    words("but however instead(?!_of) whereas aber sondern jedoch stattdessen mais pero sino però maar porém"),
    "但是?|而是|不过|然而|でも|しかし|하지만",
)
REPORTED: Final = compiled(
    "".join(rf"(?<!\b{word} )" for word in ("i", "we", "ich", "wir"))
    + words(
        """says? said tells? told reads asks? asked states? stated claims? writes wrote demands? demanded instructs? instructed
        suggests? suggested recommends? mentions? wants requests requested sagt sagte schreibt schrieb behauptet verlangt fordert
        bittet dit demande dice pide diz pede chiede zegt vraagt говорит просит пишет"""
    ),
    "(?<!我)(?:说|要求|声称|写道|表示)",
)
"""Before the form that asks: somebody else does."""
QUESTIONS: Final = compiled(
    r"^\W*(?:and |und |so |also )?"
    + words(
        r"""which what who whose whom when why how where did was were has have had is are should shall does do_(?:i|we|they) must
        wie welche\w* wer wem wen wann warum weshalb wieso wo soll sollte sollen hat haben hatte wurde wurden ist sind muss
        comment pourquoi quand quel\w* est-ce cómo por_qué cuándo qué cuál\w* quién come perché quando quale como por_que qual
        hoe waarom wanneer welke как почему когда зачем кто что"""
    )
    + r".*[?？]\s*$",
    "是否|怎么|怎樣|怎样|如何|为什么|為什麼|为何|哪些|哪个|吗|嗎|どうやって|なぜ|방법",
)
"""A sentence that wants to know something."""

GENERAL: Final = compiled(
    words(
        r"""anything nothing any it that them everything all something these those this data
        nichts alles etwas es das sie daten irgend\w* rien tout nada todo niente tutto tudo niets iets ничего всё все"""
    ),
    "任何|什么|所有|全部|一切|何も|아무",
)
OTHERS: Final = compiled(
    words(
        r"""else others? rest remaining further sonst andere\w* übrige\w* weitere\w* restliche\w* autres? demás otr[oa]s? altr[oi]
        outr[oa]s? ander\w* друг\w*"""
    ),
    "其他|其它|其余|别的|他の|ほか|다른",
)
"""Forbidden is what was not asked for; what was asked for stands."""

KEPT: Final = compiled(
    words(
        r"""keep leave retain preserve spare except excluding besides apart_from other_than behalte behalten lass lasse lassen
        außer ausgenommen bis_auf garder? gardez sauf conserva(?:r|d)? excepto salvo menos tieni tenere tranne eccetto mantenha
        exceto bewaar houd behalve сохрани оставь кроме"""
    )
    + r"[^,;.!?]*",
    "(?:保留|留下)[^，。；]*|除了?[^，。；]*?(?:以外|之外|外)|除了[^，。；]*",
)
"""What a sentence takes out of what it asks for."""
SPARED: Final = compiled(r"^\W*" + words("not nicht no pas non niet не") + ".*", "^不.*")
"""``…, but not Companies``."""

TABLE_WORDS: Final = compiled(
    words(r"tables? tabellen? tableaux? tablas? tabell[ae] tabelas? tabel таблиц\w*"),
    "表(?![示达明现面情])|テーブル|테이블",
)
COLUMN_WORDS: Final = compiled(
    words(
        r"""columns? fields? attributes? property properties spalten? feld felder felds colonnes? champs? columnas? campos?
        colonn[ae] camp[oi] colunas? kolom kolommen velden столб\w* колон\w* пол[еяй]"""
    ),
    "列|栏|字段|欄|カラム|フィールド|컬럼",
)
ROW_WORDS: Final = compiled(
    words(
        r"""rows? records? entry entries lines? items? duplicates? zeilen? einträge? eintrag datensatz datensätze dubletten?
        duplikate? lignes? enregistrements? entrées? doublons? filas? registros? entradas? duplicados? righ[ae] voc[ei] duplicati
        linhas? rijen regels? записи? строк\w*"""
    ),
    "行|记录|條目|条目|重复|レコード|행|레코드",
)
ALL_WORDS: Final = compiled(
    words(
        """everything all_(?:my_|our_|the_|of_)*(?:data|knowledge|tables|it) alles alle_(?:meine_|unsere_)?(?:daten|tabellen)
        tout todo tutto tudo всё"""
    ),
    "(?:所有|全部)(?:的?数据|的?内容|的?表)?|一切|すべて|全て|모두|모든",
)
WITHIN: Final = (
    r"(?:from|in|of|out of|within|inside|into|on|at|aus|von|im|bei|vom|de|dans|du|del|da|dal|dalla|della|do|van|uit|из|в)"
)
"""Before the name of a table in which something is deleted, not the table itself."""
