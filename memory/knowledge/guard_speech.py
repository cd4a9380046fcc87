"""How people hand over a text that is to be kept, how they begin an order, and how they take one back; languages as in
:mod:`memory.knowledge.guard_words`."""

from __future__ import annotations

import re
from typing import Final

from memory.knowledge.guard_words import compiled, words

DENSE: Final = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]"

_STORES: Final = words(
    r"""add note store save record log write remember insert put enter append create keep translate send reply draft tell say post
    make jot memori[sz]e file summari[sz]e quote copy_down take_down here_is here_are here['’]s
    speicher\w* merke? notier\w* trag\w* füge? schreib\w* erfass\w* hinterleg\w* leg\w* erstell\w* übersetz\w* hier_ist hier_kommt
    enregistre\w* ajoute\w* notez? écri\w* crée\w* garde\w* mémorise\w* voici guard[ae]r? añad\w* anot\w* agreg\w*
        registr\w* cre[ae]r?
    escrib\w* recuerd\w* aquí_está aggiung\w* salva\w* scriv\w* ricord\w* ecco adicion\w* salv\w* escrev\w* lembr\w*
    bewaar opslaan sla voeg noteer schrijf maak onthoud добав\w* сохран\w* запиш\w* запомн\w* создай\w*"""
)
_STORES_DENSE: Final = (
    "添加|新增|保存|存储|存成|存为|记录下?|记下|记住|写入|写下|加入|翻译|追加|登録|記録|保管|メモ|추가|저장|기록|메모"
)
STORES: Final = compiled(_STORES, _STORES_DENSE)
HANDED_OVER: Final = re.compile(
    rf"(?:{_STORES}[^.!?\n:]*?|{_STORES_DENSE}[^。！？\n：]*?)"
    r"(?:\b(?:the following|as follows|below|(?:this|that|the) (?:e-?mail|mail|message|text|letter|note|remark|comment|review|"
    r"transcript|quote|document|post|request|instruction|sentence|paragraph|chat|conversation)|of \w+\s*$|"
    r"folgende\w*|dies\w* (?:mail|e-mail|nachricht|text|brief|notiz|kommentar)|suivante?s?|ce(?:tte)? (?:message|texte|"
    r"note|lettre)|"
    r"siguientes?|este (?:mensaje|texto|correo)|seguent[ei]|questo (?:messaggio|testo)|seguintes?|esta mensagem|"
    r"volgende|dit bericht|"
    r"следующ\w*|это (?:письмо|сообщение))\b|以下|下面|下列|如下|这封|这条|这段|次の|以下の|"
    r"다음)[^.!?\n。！？]*(?:[.!?。！？\n]|\Z)",
    re.IGNORECASE,
)
"""A sentence after which somebody's text comes."""
LETTER: Final = re.compile(
    r"(?<=\n)[ \t]*(?:hi|hello|hey|dear|hallo|liebe[rs]?|sehr geehrte\w*|guten (?:tag|morgen)|bonjour|salut|cher|chère|"
    r"hola|querid[oa]|"
    r"estimad[oa]|ciao|gentile|olá|prezad[oa]|beste|geachte|здравствуйте|привет|уважаем\w*|from:|subject:|von:|betreff:|"
    r"你好|您好|尊敬的)\b",
    re.IGNORECASE,
)
"""A line within a text that begins a letter."""
STORED: Final = compiled(
    words(
        r"""to-?dos? tasks? reminders? remind remember memo memos rules? polic(?:y|ies) records?_that log_(?:that|the|a) titled?
        called named headline slogan motto phrase wording caption requests? instructions? remarks? comments? notes? messages?
        e-?mails? mails? letters? sentences? titles?
        sayings? quotes? books? saying asks asking asked told telling says said writes wrote wants reads reading text subject topic
        aufgaben? erinner\w* merke? notiz(?:en)? regeln? richtlinien? titel nachricht brief satz anweisung wunsch bittet
        tâches? rappel\w* rappelle\w* règles? note titre demande tareas? recu[eé]rda\w* recordatorio reglas? título nota mensaje
        compit[oi] promemoria ricorda\w* regol[ae] titolo tarefas? lembr\w* regras? taak taken herinner\w* regels? notitie
        задач\w* напомни\w* правил\w* заметк\w* письм\w*"""
    ),
    "任务|待办|提醒|备忘|规则|规定|政策|标题|备注|笔记|留言|邮件|消息|要求我|让我|タスク|リマインド|メモ|ルール|と(?:書|"
    "記録|追加|登録)|할 ?일|알림|메모|규칙",
)
"""Before an order in its sentence: then it is a text to be kept, or what somebody else wants."""
STORED_BEHIND: Final = compiled(
    words("note write store save record add log put remember jot keep") + r"\s+(?:it|this|that|these)\b",
    words("notiere? schreib\\w* speicher\\w* merke?") + r"\s+(?:es|das|dies)\b|(?:记|存|写)(?:下来|一下|入)|メモして|記録して",
)
"""Behind an order: it was a text to be kept."""

LEAD: Final = re.compile(
    r"\W*(?:(?:please|kindly|now|then|also|and|so|ok|okay|yes|well|finally|lastly|next|first|second|third|afterwards|"
    r"just|instead|once more|go ahead|"
    r"(?:can|could|would|will|may|might) (?:you|we)|you (?:can|could|may|should|must|shall|have to|need to)|"
    r"(?:i|we)(?:['’]d| would)? (?:want|need|like|ask|wish|would like|prefer)(?: you)?(?: to)?|let['’]?s|let us|feel free to|"
    r"(?:in|from|within|of|for|on) (?:(?:the|my|our) )?(?:tables? )?[\wǂ§¤]+|as well|too|both|step \d+|\d+[.)]|"
    r"bitte|dann|danach|anschließend|auch|jetzt|nun|und|also|doch|noch|zuerst|außerdem|kannst du|könntest du|würdest du|du sollst|"
    r"ich möchte,? dass du|in|aus|der tabelle|s['’]il (?:te|vous) pla[iî]t|veuillez|merci de|puis|ensuite|aussi|et|"
    r"(?:peux|pourrais)-tu|(?:pouvez|pourriez)-vous|je (?:veux|voudrais|souhaite)|por favor|y|luego|después|también|ahora|"
    r"puedes|podrías|puede|quiero|quisiera|per favore|poi|anche|ora|puoi|potresti|vorrei|voglio|agora|depois|também|pode|poderia|"
    r"quero|alsjeblieft|graag|dan|ook|nu|en|kun je|wil je|пожалуйста|и|потом|затем|также|теперь|можешь|можете|хочу|нужно|надо)"
    r"(?:\W+|$))*",
    re.IGNORECASE,
)
"""What may stand between the beginning of a clause and its order."""
DENSE_LEAD: Final = re.compile(
    r"\W*(?:(?:请你?|麻烦你?|帮我|帮忙|请帮我|并且?|然后|接着|再|也|就|都|全部|一起|一并|可以|能否|能不能|可否|你|给我|"
    r"我想要?|我要|我希望|需要|"
    r"应该?|必须|立即|马上|现在|直接|同时|先|最后|好|請|幫我|(?:把|将|將|从|從|在|对).{1,80}|.{1,60}(?:请|請|都|全部|要|"
    r"应该?|必须|可以)))*",
    re.DOTALL,
)
CLAUSES: Final = re.compile(
    r"[,;:!?，；：、。！？\n]|\s[-–—*•]+\s|\s\d+[.)](?=\s)|\b(?:and|then|or|so|und|dann|oder|et|puis|ou|y|luego|o|e|poi|"
    r"depois|en|dan|of|и|или|потом|затем)\b"
    r"|并且?|然后|和|再",
    re.IGNORECASE,
)
MODALS: Final = compiled(
    words(
        r"""can could would will may please kannst könntest könnten würdest würden bitte peux pouvez pourr\w* vous_plaît te_plaît
        puedes podr\w* puede favor puoi potresti pode poderia kun kunt wil можешь можете пожалуйста"""
    ),
    "可以|能|请|請|麻烦|好吗|ます|ください|주세요|줄래|수 있",
)
"""An order with a question mark is one with these."""
PARTS: Final = compiled(
    words(
        r"""whitespaces? white_space spaces? blanks? prefix(?:es)? suffix(?:es)? dots? periods? commas? typos? letters? characters?
        accents? hyphens? dashes punctuation trailing leading formatting capitals? symbols? units? brackets? parenthes[ei]s quotes?
        apostrophes? digits? substrings? spelling linebreaks? line_breaks? umlauts? signs? currency
        leerzeichen präfix\w* suffix\w* punkte? kommas? buchstaben? zeichen tippfehler klammern bindestriche? akzente?
        espaces? préfixes? suffixes? virgules? fautes? espacios? prefijos? sufijos? comas? errores spazi prefiss[oi] espaços?
        prefixos?"""
    ),
    "空格|前缀|后缀|逗号|句号|标点|字符|字母|错别字|括号|引号|空白|接頭|스페이스|공백",
)
"""What is a part of a value."""
VALUES: Final = (
    r"(?:lists?(?!\s+of\s+(?:(?:the|my|our|all)\s+)?[§¤])|names?|values?|texts?|descriptions?|titles?|cells?|columns?|"
    r"fields?|address(?:es)?|"
    r"numbers?|strings?|namen|werten?|texten?|spalten?|feld(?:ern)?|noms?|nombres?|nomi|nomes)"
)

RETRACTS: Final = compiled(
    r"n['’]t\b",
    words(
        r"""no not never nope nah none nothing dont stop wait hold halt hang_on cancel\w* abort\w* undo undone forget\w* skip revert
        keep leave changed_my_mind second_thoughts? on_reflection sorry meant mean mistake oops actually instead rather
        still_need\w*
        need wrong careful why hmm+ hm unsure sure important only just rename archive maybe perhaps later first postpone
        nein nee nicht nichts kein\w* doch lass\w* warte\w* stopp moment abbrech\w* abbruch vergiss\w* vergesst behalt\w* irrtum
        quatsch
        meinte falsch brauch\w* lieber zurück später wichtig\w* nur umbenenn\w* vielleicht erst
        non ne pas rien jamais attend\w* arrête\w* annul\w* laisse\w* oublie\w* garde\w* pardon erreur plutôt besoin seulement
        nunca nada espera\w* para\w* deja\w* dejad cancel\w* olvid\w* perdón error conserva\w* mejor necesit\w*
        niente aspetta\w* ferm\w* lascia\w* scusa\w* errore tieni invece serve
        não nao pare espere deixa\w* esqueça desculp\w* erro mantenha preciso
        nee niet niets wacht laat vergeet annuleer sorry bedoelde houd bewaar
        нет не стой стоп подожди\w* отмен\w* остав\w* забудь\w* передумал\w* ошиб\w* нуж\w* лучше никогда"""
    ),
    "不|别|別|勿|莫|只|仅|重要|确定|算了|取消|等等|等一下|等下|停|错|錯|保留|留着|撤销|撤回|后悔|弄错|还要|还需要|先别|"
    "没有?|為什麼|为什么|吗",
    "いや|いいえ|ない|ません|やめ|待って|キャンセル|取り消|中止|間違|ストップ|아니|안 |취소|잠깐|그만|마세요|말아|말고|멈|필요",
)
"""In a later text of the caller: what was asked for is in doubt."""
SHORT_WORDS: Final = 6
"""Of a sentence that takes back what stands before it in the same text."""
SHORT_RETRACTS: Final = compiled(
    r"^\W*"
    + words("no nope never stop wait cancel don['’]t do_not forget undo sorry nein doch_nicht stopp warte halt non annule nee нет"),
    "^\\W*(?:不|别|別|算了|取消|等)",
    words("keep_(?:it|them|that) leave_(?:it|them|that)"),
)

ELSEWHERE: Final = compiled(
    words(
        "elsewhere everywhere anywhere all_(?:the_|"
        "my_)?tables überall sonst andernorts alle\\w*_tabellen partout todas_partes ovunque"
    ),
    "所有(?:的)?表|到处|各处",
)
CLEARS: Final = compiled(
    words(r"clear empty unset blank_out blank reset nullify void leave_blank leave_empty"),
    words("(?:set|make|mark|change|turn|put|update|reset|replace|leave|convert)")
    + r"[^.?!]{0,200}?"
    + words("unknown empty blank none null nothing unset missing na n/a void"),
    words(r"leere leeren vide[rz]? vacía vaciar vacia svuota svuotare limpa limpe limpar leeg leegmaken очисти очистить"),
    words("setze? mach\\w* änder\\w* ersetz\\w* trag\\w*") + r"[^.?!]{0,200}?" + words("leer unbekannt nichts keinen? none null"),
    words("mets mettez pon ponga metti imposta defina coloque zet stel установи поставь сделай")
    + r"[^.?!]{0,200}?"
    + words(
        "inconnue?s? vide desconocid[oa]s? vací[oa]s? sconosciut[oaie] vuot[oaie] desconhecid[oa]s? vazi[oa]s? onbekend leeg null"
        " неизвестн\\w* пуст\\w*"
    ),
    "置空|设为空|设置为空|改为空|改成空|留空|(?:设|改|标)(?:置|成|为|為|记)*(?:未知|不详|空)|清掉|空に(?:して)|未設定に|"
    "비워|미정으로",
)
"""Orders to empty values, beside those to delete."""
MERGES: Final = compiled(
    words(
        r"""merge merged combine join unify same_person same_contact one_person one_contact identical duplicates?
        zusammen(?:führen|fassen|legen)
        zusammen führe vereinige\w* dieselbe\w*_person gleiche\w*_person derselbe doppelt\w* dubletten?
        fusionn\w* même_personne doublons? fusiona\w* misma_persona duplicad\w* unisci\w* stessa_persona mescla\w* mesma_pessoa
        samenvoeg\w* voeg zelfde_persoon объедин\w* один_и_тот_же одно_лицо"""
    ),
    "合并|合併|同一个?人|同一人物|同一個人|重复|統合|マージ|병합|합쳐|같은 사람|동일인",
)
