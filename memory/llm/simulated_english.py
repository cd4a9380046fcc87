# ruff: noqa: E501  (tables of patterns read best one to a line)
"""English statements that the simulated model recognises."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memory.llm.simulated_patterns import Pattern, custom, fact, facts, favourite, gone, likes, reworded, say, tidy
from memory.llm.simulated_slots import Statement
from memory.llm.simulated_text import word_set

_ADV = r"(?:(?:currently|now|also|just|actually|still|really|always|mostly|usually|recently|only|already|mainly|primarily|finally)\s+){0,2}"
_I = rf"(?:\bI\s+|\band\s+){_ADV}"
_AM = rf"(?:\bI(?:\s+am|'m)\s+|\band\s+(?:am\s+)){_ADV}"
_HAVE = rf"\bI(?:\s+have|'ve)?\s+{_ADV}"
_STOP = (
    r"(?=\s*(?:$|[;!?()\n—。]|(?<!\bSt)(?<!\bDr)(?<!\bInc)(?<!\bMt)\.(?:\s|$)|,?\s+(?:and|but|so|then)\s+(?:I|I'm|I've|my|we|our|it|that|am|work|live|please|you|can|could|this|the)\b|,?\s+(?:because|since|while|which|"
    r"who|where|when|if|though|although|btw|for now|as of|these days|instead of|rather than)\b{comma}))"
)
_END = _STOP.format(comma=r"|,|\s+(?:and|but)\s")
_LIST_END = _STOP.format(comma=r"|,\s+(?:I|I'm|my|we|so|but|it|that|please|can|could)\b|,?\s+not\s")
_V = rf"(?P<v>[^\n;!?]{{1,90}}?){_END}"
_LIST = rf"(?P<v>[^\n;!?]{{1,120}}?){_LIST_END}"
_NAME = r"(?-i:(?:(?:Dr|Prof|Mr|Mrs|Ms)\.?\s+)?(?P<v>[A-ZÀ-Þ][\w'-]+(?:\s+(?:de|van|von|der|da|del|bin|[A-ZÀ-Þ][\w'-]*\.?)){0,3}))"
_PLACE = rf"(?P<v>(?-i:[A-ZÀ-Þ])[^\n;!?,]{{1,60}}?(?:,\s+(?-i:(?!I\b)[A-Z])[\w. ]{{1,25}}?)?){_END}"
_ORG = rf"(?:the\s+)?(?P<employer>(?-i:[A-Z0-9À-Þ])[^\n;!?,]{{0,60}}?){_END}"
_TO_THE_END = r"(?P<v>[^\n?!;]{3,160})"

_NOT_NAMES = word_set(
    """
    german english french spanish italian american british chinese indian japanese korean russian polish dutch turkish
    austrian swiss canadian australian brazilian portuguese irish scottish swedish norwegian danish finnish greek
    european african asian mexican ok okay done sure sorry back here ready fine good great happy sad tired busy not just
    so very also still now currently from in at on a an christian muslim jewish hindu buddhist catholic
    """
)
_JOB = re.compile(
    r"\b(?:\w+(?:er|or|ist|ian|ant|eer|yst)|manager|nurse|lead|head|chief|architect|chef|cook|lawyer|analyst|c[etofi]o|vp|president|director|"
    r"intern|student|founder|assistant|agent|consultant|scientist|pilot|clerk|freelancer|professor|judge|dentist|vet|coach|guide|host)s?\b",
    re.IGNORECASE,
)
_NO_JOB = re.compile(
    r"\b(?:bit|little|lot|fan|huge|big|member|beginner|customer|user|lover|speaker|eater|reader|vegetarian|vegan|person|man|woman|guy|parent|"
    r"father|mother|sister|brother|daughter|number|winner|loser|newcomer|believer|follower|driver of|at heart|few|morning|early riser|stranger|"
    r"admirer|super|never|ever|over|better|older|younger|other|after|whether)\b",
    re.IGNORECASE,
)
_DUE = re.compile(
    r"\b(?:by|before|until|till|on|next|tomorrow|tonight|today|this)\b.{0,30}|\b(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b",
    re.IGNORECASE,
)
_DEED = (
    r"(?:send|write|finish|call|prepare|submit|review|deliver|book|schedule|e-?mail|publish|draft|present|contact|order|buy|pay|file|"
    r"deploy|ship|renew|return|sign|upload|complete|hand in|organi[sz]e|follow up|get back to|set up|migrate|register|cancel|invite|reply to|update)"
)
_DID = (
    r"(?:sent|finished|completed|submitted|wrote|written|called|booked|prepared|delivered|reviewed|updated|published|paid|ordered|bought|"
    r"scheduled|renewed|handed in|filed|shipped|presented|e-?mailed|cancelled|canceled|registered|signed|uploaded|drafted|deployed|returned|"
    r"contacted|organi[sz]ed|followed up|got back to|set up|migrated|invited|replied to|done|did)"
)
_DATE = (
    r"(?=[^\n.;!?]{0,40}(?:\d|january|february|march|april|may|june|july|august|september|october|november|december|monday|tuesday|wednesday|thursday|"
    r"friday|saturday|sunday|week|month|quarter|year|tomorrow|q[1-4]))"
)
_EVENT = r"(?:beta|launch|release|go-live|milestone|demo|pilot|migration|rollout|presentation|report|exam|thesis|sprint|product|project|website|app|book|conference|course)"


def _named(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    value = tidy(match["v"])
    if value and value.split()[0].lower() not in _NOT_NAMES:
        yield say("set_if_new" if match.group(0).lstrip().lower().startswith(("i am", "i'm")) else "set", "name", "en", value)


def _role(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    value = tidy(match["role"])
    if value and _JOB.search(value) and not _NO_JOB.search(value):
        yield say("set" if " now " in f" {match[0].lower()} " else "set_if_new", "role", "en", value)
        if employer := tidy(match["employer"] or ""):
            yield say("set", "employer", "en", employer)


def _prefers(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    value = tidy(match["v"])
    if value and not _ABOUT_ANSWERS.search(value) and not re.match(r"to\s+(?:know|be|have|see|go)\b", value):
        yield say("set", "prefers", "en", value)


def _commits(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    value = tidy(re.split(r",?\s+(?:so|but|because|and then)\s", match["v"], maxsplit=1)[0])
    promise = (match["verb"] or "").lower()
    firm = not promise.startswith(("have", "need", "'ve got", "must", "should", "am going", "'m going"))
    vague = re.match(rf"{_DEED}\s+(?:it|this|that|them|him|her|you)\b", value, re.IGNORECASE)
    if value and (_DUE.search(value) or (firm and not vague)):
        yield say("add", "follow_up", "en", value)


def _moved(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    if value := tidy(match["v"], drop="the"):
        slot = "team" if match["kind"].lower() in {"team", "department", "squad", "group"} else "project"
        text = value if slot == "team" else f"the {value} project"
        yield say("replace" if slot == "project" else "set", slot, "en", text)


_FORGET = {
    "employer": r"employer|job|company|where i work",
    "place": r"where i live|city|address|home ?town|location",
    "name": r"name",
    "role": r"role|job title|profession",
    "time_zone": r"time ?zone",
}


def _forgets(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    value = tidy(match["v"], drop=r"that|about|my|everything about my|what i said about")
    for slot, names in _FORGET.items():
        if re.fullmatch(names, value, re.IGNORECASE):
            yield Statement("remove", slot, "", slot)
            return
    if value:
        yield Statement("forget", "", "", "", "", value)


_ABOUT_ANSWERS = re.compile(
    r"\b(?:answers?|repl(?:y|ies)|respon[sd]\w*|explanations?|bullets?|bullet points?|paragraphs?|prose|emojis?|tables?|lists?|step by step|examples|summar(?:y|ies)"
    r"|metric|imperial|celsius|fahrenheit|formal|informal|tone|concise|brief|detailed)\b",
    re.IGNORECASE,
)
_LANGUAGE = r"\b(?:in|to|speak)\s+(?-i:(?P<l>English|German|French|Spanish|Italian|Portuguese|Dutch|Polish|Russian|Chinese|Mandarin|Japanese|Korean|Turkish|Arabic|Swedish))\b"
_SHAPES: tuple[tuple[str, str, str], ...] = (
    ("answer_length", r"\b(?:long|longer|detailed|in-depth|thorough|comprehensive|more detail)\b", "detailed"),
    ("answer_length", r"\b(?:short|shorter|brief|concise|terse|crisp|succinct|to the point)\b(?! paragraphs)", "short"),
    (
        "answer_format",
        r"\b(?:no|without|not? use|avoid|stop using)\s+(?:any\s+)?(?:bullet points|bullets|lists)\b",
        "no bullet points",
    ),
    ("answer_format", r"(?<!instead of )(?<!than )(?<!not )\b(?:bullet points|bullets|bulleted lists?)\b", "bullet points"),
    ("answer_format", r"(?<!instead of )(?<!than )(?<!not )\bshort paragraphs\b", "short paragraphs"),
    ("answer_format", r"(?<!instead of )(?<!than )(?<!not )\b(?<!short )(?:paragraphs|prose|full sentences)\b", "full sentences"),
    ("answer_format", r"(?<!instead of )(?<!than )(?<!not )\btables\b", "tables"),
    ("answer_format", r"\bstep[- ]by[- ]step\b", "step by step"),
    ("emojis", r"\b(?:no|without|not? use|don't use|avoid|stop using)\s+(?:any\s+)?emojis?\b", "none"),
    ("emojis", r"\b(?:use|with|like)\s+(?:some\s+|more\s+)?emojis?\b", "welcome"),
    ("answer_tone", r"\b(?:informal|casual|relaxed)\b", "informal"),
    ("answer_tone", r"\b(?:formal|professional)\s+(?:tone|language|answers?|style)\b|\bbe (?:more )?formal\b", "formal"),
    ("answer_tone", r"\b(?:simple|plain) (?:language|words|terms|english)\b", "plain words"),
    ("units", r"\bmetric\b|\bcelsius\b|\bkilomet(?:er|re)s\b", "metric"),
    ("units", r"\bimperial units?\b|\bfahrenheit\b", "imperial"),
)


def _shapes(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    text = match["v"]
    if language := re.search(_LANGUAGE, text, re.IGNORECASE):
        yield say("set", "answer_language", "en", language["l"])
    seen: set[str] = set()
    for slot, pattern, value in _SHAPES:
        if slot not in seen and re.search(pattern, text, re.IGNORECASE):
            seen.add(slot)
            yield say("set", slot, "en", value)


ENGLISH: tuple[Pattern, ...] = (
    reworded(
        "en",
        r"(?P<v>[^;!?\n]{2,120}?),?\s+(?:instead of|rather than|and not|not)\s+(?P<old>[^,;!?\n]{2,40}?)(?=[,;!?]|\.(?:\s|$)|$)",
    ),
    # identity
    custom("en", rf"\bmy\s+(?:full\s+)?name(?:\s+is|'s)\s+{_NAME}", _named),
    custom(
        "en",
        rf"(?:^|[!.,]\s*|\b(?:hi|hello|hey|there)\W+)(?:I'm|I\s+am|this\s+is)\s+{_NAME}(?=\s*(?:$|[.,!;]|and\b|from\b|-|\())",
        _named,
    ),
    fact("en", "called", rf"\b(?:(?:please\s+)?call\s+me|I\s+go\s+by)\s+{_NAME}"),
    gone("en", "remove", "employer", rf"\bI\s+(?:no\s+longer|don't|do\s+not)\s+work\s+(?:at|for|with)\s+{_V}"),
    gone(
        "en",
        "remove",
        "employer",
        rf"\bI(?:'ve|\s+have)?\s+{_ADV}(?:left|quit|resigned\s+from)\s+(?:my\s+job\s+at\s+)?(?P<v>(?-i:[A-Z])[^\n;!?,]{{1,60}}?){_END}",
    ),
    gone(
        "en",
        "remove",
        "employer",
        r"\bI(?:'ve|\s+have)?\s+(?:just\s+)?(?:quit|lost|left)\s+my\s+job\b|\bI(?:'m|\s+am)\s+(?:now\s+)?(?:unemployed|between jobs|retired)\b",
    ),
    gone("en", "remove", "place", rf"\bI\s+(?:no\s+longer|don't|do\s+not)\s+live\s+in\s+{_V}"),
    facts(
        "en",
        rf"\bno\s+longer\s+work\s+(?:at|for)\s+[^\n;!?,]{{1,60}}?,?\s+but\s+(?:now\s+)?(?:at|for)\s+{_ORG}",
        employer="set",
    ),
    custom(
        "en",
        rf"(?:I'm|I\s+am|this\s+is)\s+{_NAME.replace('(?P<v>', '(?:')},\s+(?:an?\s+|the\s+)?(?P<role>[^\n;!?,]{{2,60}}?)(?:\s+(?:at|for|with)\s+{_ORG}|{_END})",
        _role,
    ),
    facts(
        "en",
        rf"{_I}work(?:ing)?\s+{_ADV}as\s+(?:an?\s+|the\s+)?(?P<role>[^\n;!?,]{{2,60}}?)(?:\s+(?:at|for|with)\s+{_ORG}|{_END})",
        role="set",
        employer="set",
    ),
    facts("en", rf"{_I}work\s+{_ADV}(?:at|for)\s+{_ORG}", employer="set"),
    facts("en", rf"{_AM}(?:working|employed)\s+(?:at|for|by)\s+{_ORG}", employer="set"),
    facts(
        "en",
        rf"{_HAVE}(?:joined|started\s+(?:working\s+)?at|been\s+hired\s+by|started\s+a\s+(?:new\s+)?job\s+at)\s+(?!the\b[^.]*\bteam){_ORG}",
        employer="set",
    ),
    facts("en", rf"\bmy\s+(?:new\s+|current\s+)?(?:employer|company)\s+is\s+(?:now\s+)?{_ORG}", employer="set"),
    custom("en", rf"{_AM}(?:an?|the)\s+(?P<role>[^\n;!?,]{{2,60}}?)(?:\s+(?:at|for|with)\s+{_ORG}|{_END})", _role),
    fact(
        "en",
        "role",
        rf"\bmy\s+(?:new\s+|current\s+)?(?:role|job\s+title|title|position|job|profession)\s+is\s+(?:now\s+)?(?:an?\s+|the\s+)?{_V}",
    ),
    fact("en", "role", rf"\bI(?:'ve|\s+have|\s+was|'ve\s+been|\s+have\s+been|\s+got)\s+{_ADV}promoted\s+to\s+{_V}"),
    fact("en", "team", rf"{_AM}(?:on|in|part\s+of)\s+the\s+(?P<v>[\w&/ -]{{2,40}}?)\s+(?:team|department|squad)\b"),
    fact("en", "team", rf"\bmy\s+(?:new\s+)?team\s+is\s+(?:now\s+)?(?:called\s+)?(?:the\s+)?{_V}"),
    fact("en", "place", rf"(?:{_I}|\bwe\s+{_ADV})live\s+{_ADV}in\s+{_PLACE}"),
    fact("en", "place", rf"{_AM}(?:living|based|located)\s+(?:out\s+of\s+|in\s+){_PLACE}"),
    fact(
        "en",
        "place",
        rf"(?:{_HAVE}|\bwe(?:\s+have|'ve)?\s+{_ADV})(?:moved|relocated)\s+(?:from\s+[^\n,;.]{{1,40}}?\s+)?(?:back\s+)?to\s+(?!the\b){_PLACE}",
    ),
    fact("en", "origin", rf"\bI(?:'m|\s+am|\s+come)\s+(?:originally\s+)?from\s+{_PLACE}"),
    fact("en", "time_zone", rf"\bmy\s+time\s?zone\s+is\s+(?:now\s+)?{_V}"),
    fact("en", "time_zone", rf"{_AM}(?:on|in)\s+(?:the\s+)?(?P<v>[A-Za-z+/0-9:_-]{{2,40}})\s+time(?:\s?zone)?\b"),
    fact("en", "native", rf"\bmy\s+(?:native|first)\s+language\s+is\s+{_V}|\bmy\s+mother\s+tongue\s+is\s+(?P<v2>\w+)"),
    fact("en", "speaks", rf"{_I}(?:can\s+)?speak\s+(?:fluent\s+)?(?P<v>(?-i:[A-Z])[^\n;!?]{{1,80}}?){_LIST_END}", action="add"),
    gone(
        "en",
        "remove",
        "likes",
        rf"\bI\s+(?:no\s+longer|don't|do\s+not)\s+(?:really\s+)?(?:like|love|enjoy)\s+{_V}(?:\s+any\s?more)?",
    ),
    likes(
        "en",
        rf"\bI\s+(?:really\s+)?(?:don't|do\s+not)\s+(?:really\s+)?(?:like|enjoy)\s+(?!it\b|that\b|this\b|the way\b|how\b)(?![^\n.;!?]{{0,80}}\bany\s?more\b){_LIST}",
        negative=True,
    ),
    likes(
        "en",
        rf"{_I}(?:really\s+|absolutely\s+)?(?:hate|dislike|can't\s+stand|detest)\s+(?!it\b|that\b|this\b|when\b|how\b){_LIST}",
        negative=True,
    ),
    likes(
        "en",
        rf"{_I}(?:really\s+|absolutely\s+)?(?:like|love|enjoy|adore)\s+(?!it\b|that\b|this\b|the\s+(?:idea|way|sound)\b|your\b|how\b|to\s+(?:know|see|have)\b){_LIST}",
        negative=False,
    ),
    favourite(
        "en", rf"\bmy\s+(?:new\s+|all-time\s+)?favou?rite\s+(?P<thing>[\w -]{{2,40}}?)\s+(?:is|are)\s+(?:now\s+|actually\s+)?{_V}"
    ),
    favourite(
        "en",
        r"(?:^|[,.;]\s*)(?P<v>[^\n;!?,.]{2,50}?)\s+(?:is|are)\s+(?:now\s+)?my\s+(?:new\s+)?favou?rite\s+(?P<thing>[\w -]{2,40})",
    ),
    custom("en", rf"{_I}(?:would\s+)?prefer\s+{_LIST}", _prefers),
    # how to answer
    custom(
        "en",
        r"(?:^|[,.:;]\s*|\b(?:and|but|so|please|always|now on|could you|can you|would you)\s+)(?:please\s+|always\s+|just\s+)*(?P<v>(?:answer|reply|respond|keep\s+(?:your\s+|the\s+|all\s+)?(?:answers|replies|responses|it|"
        r"things)|be\s+(?:more\s+)?(?:concise|brief|short|terse|formal|informal|casual|detailed)|use\s+(?:bullet|short|simple|plain|metric|imperial|celsius|fahrenheit|emojis?|"
        r"tables|a\s+(?:formal|casual|informal))|do(?:n't|\s+not)\s+use|stop\s+using|no\s+(?:more\s+)?(?:emojis?|bullet)|avoid|switch\s+to|speak|write\s+to\s+me|talk\s+to\s+me)\b"
        r"(?!\s+(?:this|that|the\s+(?:question|following|e-?mail|letter|message)|him|her|them|yes|with\s+yes|to\s+(?:this|him|her|the|my))\b)[^\n?!;]{0,160})",
        _shapes,
        asks=True,
    ),
    custom(
        "en",
        rf"(?:{_I}(?:would\s+)?|\bI'd\s+)(?:prefer|like|love|want|need|appreciate)\s+(?P<v>(?=[^\n;?!]{{0,100}}(?:{_ABOUT_ANSWERS.pattern}))[^\n;?!]{{2,160}})",
        _shapes,
    ),
    custom(
        "en",
        r"(?P<v>\b(?:long|longer|short|shorter|detailed|brief)\s+(?:answers|replies|responses|explanations)\s+(?:are\s+(?:fine|better|best|good)|please))",
        _shapes,
    ),
    # work
    custom(
        "en",
        r"\bI(?:'ve|\s+have)?\s*(?:was|were|am|'m|been)?\s*(?:just\s+|now\s+)?(?:reassigned|moved|switched|transferred|assigned)\s+(?:from\s+[^\n,;.]{1,60}?\s+)?to\s+(?:the\s+)?"
        r"(?P<v>[\w&/ -]{2,50}?)\s+(?P<kind>team|project|department|squad)\b",
        _moved,
    ),
    gone(
        "en",
        "remove",
        "project",
        rf"\bI(?:'m|\s+am)\s+no\s+longer\s+(?:working\s+)?on\s+{_V}|\bI\s+(?:no\s+longer|don't|do\s+not)\s+work\s+on\s+(?P<v2>[^\n;!?,]{{2,80}}?){_END}",
    ),
    fact(
        "en",
        "project",
        rf"\bI(?:'m|\s+am)\s+now\s+working\s+on\s+(?!it\b|this\b|that\b|a\s+(?:bug|script|function|query)\b){_V}",
        action="replace",
    ),
    fact(
        "en",
        "project",
        rf"\bmy\s+(?:new\s+project\s+is|project\s+is\s+now|current\s+project\s+is(?:\s+now)?)\s+{_V}",
        action="replace",
    ),
    fact(
        "en",
        "project",
        rf"{_AM}working\s+{_ADV}on\s+(?!it\b|this\b|that\b|an?\s+(?:bug|script|function|query)\b){_V}",
        action="add",
    ),
    fact("en", "project", rf"{_I}work\s+{_ADV}on\s+(?!it\b|this\b|that\b|from\b){_V}", action="add"),
    fact(
        "en",
        "project",
        rf"\bwe(?:'re|\s+are)\s+{_ADV}(?:building|developing|working\s+on)\s+(?!it\b|this\b|that\b){_V}",
        action="add",
    ),
    fact("en", "project", rf"\bmy\s+(?:main\s+)?project\s+is\s+(?:called\s+)?{_V}", action="add"),
    fact("en", "goal", rf"\b(?:my|our)\s+(?:main\s+|current\s+)?goal\s+(?:this\s+\w+\s+)?is\s+(?:to\s+)?{_LIST}", action="add"),
    fact(
        "en",
        "deadline",
        rf"\b(?:the|our|my)\s+deadline\s+(?:is|(?:has\s+)?(?:been\s+)?(?:was\s+)?(?:moved|changed|shifted)\s+to)\s+(?:now\s+)?{_DATE}{_V}",
    ),
    custom(
        "en",
        rf"\b(?:the|our|my)\s+deadline\s+(?:for|of)\s+(?P<thing>[^\n,;!?]{{2,50}}?)\s+(?:is|(?:has\s+)?(?:been\s+)?(?:was\s+)?(?:moved|changed|shifted)\s+to)\s+(?:now\s+)?{_DATE}{_V}",
        lambda match, stamp: [say("set", "deadline", "en", f"{tidy(match['thing'])}: {tidy(match['v'])}")],
    ),
    fact(
        "en",
        "milestone",
        rf"\b(?:the|our|my)\s+(?P<v>(?:[\w-]+\s+){{0,3}}{_EVENT}\s+(?:is\s+due|goes\s+out|goes\s+live|launches|ships|starts|begins|ends|is\s+(?:planned|scheduled))\s+{_DATE}[^\n;!?]{{2,60}}?){_END}",
    ),
    # skills
    gone("en", "remove_like", "knows", rf"\bI\s+(?:no\s+longer\s+use|don't\s+use)\s+{_V}(?:\s+any\s?more)?"),
    fact(
        "en",
        "knows",
        rf"{_I}know\s+(?!that\b|what\b|how\b(?!\s+to\s)|why\b|who\b|where\b|it\b|you\b|this\b|him\b|her\b|them\b|nothing\b|a\s+lot\b|about\b|of\b|the\b|my\b|if\b|i\b){_LIST}",
        action="add",
    ),
    fact("en", "knows", rf"\bI\s+can\s+(?:program|code|write\s+code)\s+in\s+{_LIST}", action="add"),
    fact(
        "en",
        "good_at",
        rf"{_AM}(?:very\s+|quite\s+|pretty\s+)?(?:good|great|skilled|proficient|experienced|fluent|an\s+expert)\s+(?:at|in|with)\s+{_LIST}",
        action="add",
    ),
    fact(
        "en",
        "experience",
        rf"{_HAVE}(?P<v>(?:\d+|two|three|four|five|six|seven|eight|nine|ten|many|several)\+?\s+years(?:\s+of|')?\s+experience\s+(?:in|with|as)\s+[^\n;!?,.]{{2,60}}?){_END}",
        action="add",
    ),
    fact("en", "learning", rf"{_AM}learning\s+(?:how\s+to\s+|to\s+)?(?!a\s+lot\b|that\b|it\b|about\s+it\b){_LIST}", action="add"),
    # follow-ups
    gone(
        "en",
        "remove_like",
        "follow_up",
        rf"\b(?:never\s?mind|forget|drop|cancel|skip|remove|delete)\s+(?:about\s+)?(?:the\s+|my\s+|that\s+)?(?:reminder|task|follow-?up|to-?do)(?:\s+(?:to|about|for|of|with))?\s+{_TO_THE_END}",
    ),
    gone(
        "en",
        "remove_like",
        "follow_up",
        rf"\b(?:you\s+(?:don't|no\s+longer)\s+(?:need|have)\s+to|no\s+need\s+to|don't)\s+remind\s+me\s+(?:to|about|of)\s+{_TO_THE_END}",
    ),
    gone(
        "en",
        "remove_like",
        "follow_up",
        rf"\bI\s+(?:won't|will\s+not|no\s+longer\s+(?:need|have|want|plan)\s+to|don't\s+(?:need|have|want)\s+to|decided\s+not\s+to)\s+(?:be\s+)?{_TO_THE_END}",
    ),
    gone("en", "remove_like", "follow_up", rf"{_HAVE}(?P<v>{_DID}\b[^\n?!;]{{2,160}})"),
    gone(
        "en",
        "remove_like",
        "follow_up",
        rf"(?:^|[,.;]\s*)(?P<v>[^,.;!?\n]{{3,80}}?)\s+(?:is|are|was|has\s+been|have\s+been)\s+(?:now\s+|already\s+|all\s+)?(?:taken\s+care\s+of|{_DID})\b",
    ),
    gone(
        "en",
        "remove",
        "project",
        r"(?:^|[,.;]\s*)(?:the\s+|my\s+|our\s+)?(?P<v>[^,.;!?\n]{3,60}?)(?:\s+project)?\s+(?:is|was|has\s+been)\s+(?:now\s+|already\s+)?(?:done|finished|completed|cancelled|canceled|over|stopped)\b",
    ),
    gone("en", "remove", "project", rf"{_HAVE}(?:finished|completed|shipped|cancelled|canceled|stopped\s+working\s+on)\s+{_V}"),
    fact(
        "en",
        "follow_up",
        rf"\bremind\s+me\s+(?:again\s+)?(?:[^\n?!;,]{{0,30}}?\s)??(?:to|about|that\s+I\s+(?:have\s+to|need\s+to|should|must))\s+{_TO_THE_END}",
        action="add",
        asks=True,
    ),
    custom(
        "en",
        rf"\bI\s*(?P<verb>'ll|'m\s+going\s+to|'ve\s+got\s+to|\bwill|\bam\s+going\s+to|\bpromised?\s+to|\bcommitted\s+to|\bagreed\s+to|\bhave\s+to|\bneed\s+to|\bmust|\bshould)\s+(?P<v>{_DEED}\b[^\n?!;]{{2,160}})",
        _commits,
    ),
    # the log
    fact(
        "en",
        "topic",
        rf"{_AM}(?P<v>(?:planning|considering|thinking\s+(?:about|of)|researching|looking\s+into|comparing|preparing\s+for|organi[sz]ing)\s+(?!to\s|it\b|this\b|that\b)[^\n;!?]{{3,100}}?){_LIST_END}",
        action="add",
    ),
    fact(
        "en",
        "topic",
        rf"\bhelp\s+me\s+(?:to\s+)?(?P<v>(?:plan|prepare|organi[sz]e|choose|decide|compare|negotiate)\s+(?!it\b|this\b|that\b)[^\n;!?]{{3,100}}?){_LIST_END}",
        action="add",
        asks=True,
    ),
    # forgetting
    custom(
        "en",
        r"^(?:please\s+)?(?:forget|delete|remove|erase)\s+(?!it\b|about\s+it\b|this\b|the\s+(?:reminder|task|follow|file|row|line|first|last))(?P<v>[^\n?!;]{2,100}?)(?:\s+from\s+(?:your|my)\s+(?:memory|profile|notes))?(?:[.!]|$)",
        _forgets,
    ),
)
