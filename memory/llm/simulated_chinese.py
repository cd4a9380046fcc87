"""Simple Chinese statements that the simulated model recognises."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memory.llm.simulated_patterns import Pattern, custom, fact, favourite, gone, likes, reworded, say, tidy
from memory.llm.simulated_slots import Statement

_END = r"(?=[，,。！!？?；;、\s]|和我|但|因为|$)"
_LIST_END = r"(?=[，,。！!？?；;\n]|但|因为|$)"
_NOW = r"(?:现在|目前|已经|也|还|最近|一直|平时)?"
_V = rf"(?P<v>[^，,。！!？?；;\n]{{1,40}}?)(?:了)?{_END}"
_LIST = rf"(?P<v>[^，,。！!？?；;\n]{{1,60}}?)(?:了)?{_LIST_END}"
_REST = r"(?P<v>[^。！!？?；;\n]{2,80})"


def _shapes(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    text = match[0]
    if language := re.search(r"用(?P<l>中文|英文|英语|德语|法语|日语|西班牙语|韩语|汉语)", text):
        yield say("set", "answer_language", "zh", language["l"])
    if re.search(r"简短|简洁|简单|短一点|短一些|精简", text):
        yield say("set", "answer_length", "zh", "简短")
    elif re.search(r"详细|长一点|具体一些", text):
        yield say("set", "answer_length", "zh", "详细")
    if re.search(r"要点|列表|分点", text):
        yield say("set", "answer_format", "zh", "要点")
    if re.search(r"(?:不要|别|不用)(?:使用|用)?表情", text):
        yield say("set", "emojis", "zh", "不用")


def _role(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    if value := tidy(match["v"]):
        yield say("set", "role", "zh", value)


def _forgets(match: re.Match[str], stamp: str) -> Iterator[Statement]:
    value = re.sub(r"^(?:关于)?我的?", "", tidy(match["v"]))
    for slot, names in {
        "employer": "公司|工作|雇主",
        "place": "住址|地址|城市|住的地方",
        "name": "名字|姓名",
        "role": "职业|职位",
    }.items():
        if re.fullmatch(names, value):
            yield Statement("remove", slot, "", slot)
            return
    if value:
        yield Statement("forget", "", "", "", "", value)


CHINESE: tuple[Pattern, ...] = (
    reworded("zh", r"(?P<v>[^。！？\n]{1,60}?)[，,]?(?:而不是|不是)(?P<old>[^，,。！？\n]{1,20})"),
    fact("zh", "name", rf"我(?:的名字)?(?:叫|是叫|的名字是|名叫)(?!什么|我)(?:做)?(?P<v>[^，,。！!？?；;\s是]{{1,12}}){_END}"),
    fact("zh", "called", rf"(?:请)?叫我(?P<v>[^，,。！!？?；;\s]{{1,12}}?)(?:吧|就好|就行)?{_END}"),
    custom(
        "zh",
        rf"(?:我{_NOW}?是|[，,]是|我的(?:职业|工作|职位)是)(?:一名|一个|一位|名|个|位)(?P<v>[^，,。！!？?；;\n的]{{2,20}}){_END}",
        _role,
    ),
    fact("zh", "role", rf"我的(?:职业|职位)(?:现在)?是{_V}"),
    gone(
        "zh",
        "remove",
        "employer",
        r"我(?:已经|现在)?(?:不再|不)在(?P<v>[^，,。！？\n]{1,30}?)(?:工作|上班)了?|我(?:已经)?(?:离职|辞职)了",
    ),
    gone("zh", "remove", "place", r"我(?:已经|现在)?(?:不再|不)住在?(?P<v>[^，,。！？\n]{1,20}?)了"),
    fact("zh", "employer", rf"我{_NOW}在(?!家|这|那|做)(?P<v>[^，,。！!？?；;\n]{{1,30}}?)(?:工作|上班|任职){_END}"),
    fact("zh", "employer", rf"我(?:刚)?(?:加入|入职|跳槽到)了?{_V}"),
    fact("zh", "place", rf"我{_NOW}(?:住在|生活在|定居在){_V}"),
    fact("zh", "place", rf"我(?:刚|已经|最近)?(?:搬到|搬去|搬家到)了?{_V}"),
    fact("zh", "origin", rf"我(?:是)?来自{_V}"),
    fact("zh", "time_zone", rf"我的时区是{_V}"),
    fact("zh", "native", rf"我的母语是{_V}"),
    fact("zh", "speaks", rf"我{_NOW}会说{_LIST}", action="add"),
    favourite("zh", rf"我(?:现在)?最喜欢的(?P<thing>[^，,。！？是\n]{{1,12}}?)(?:现在)?(?:是|变成了){_V}"),
    gone("zh", "remove", "likes", r"我(?:已经)?不再?喜欢(?P<v>[^，,。！？\n]{1,30}?)了"),
    likes(
        "zh",
        rf"我(?:很|特别|非常)?(?:不喜欢|讨厌)(?!这|那|你|它)(?P<v>[^，,。！!？?；;\n]{{1,40}}?)(?<!了){_LIST_END}",
        negative=True,
    ),
    likes(
        "zh",
        rf"我(?:也|很|特别|非常|更|一直)?(?:喜欢|喜爱|热爱)(?!的|这|那|你|它)(?P<v>[^，,。！!？?；;\n]{{1,40}}?){_LIST_END}",
        negative=False,
    ),
    custom(
        "zh",
        r"(?:请|以后|希望你|麻烦你|从现在起|我希望|我喜欢|能不能|可以)[^。！？\n]{0,12}(?:用(?:中文|英文|英语|德语|法语|日语|汉语|要点)|回答|回复|答案|不要用表情|别用表情)[^。！？\n]{0,20}",
        _shapes,
        asks=True,
    ),
    custom("zh", r"(?:回答|回复|答案)(?:请)?(?:要|尽量|再)?(?:简短|简洁|详细)[^。！？\n]{0,10}", _shapes),
    gone("zh", "remove", "project", r"我(?:已经)?(?:不再|不)(?:做|负责)(?P<v>[^，,。！？\n]{2,30}?)(?:项目)?了"),
    fact("zh", "project", rf"我(?:现在|最近)(?:改做|转到|调到|换到|负责)(?:了)?{_V}", action="replace"),
    fact("zh", "project", rf"我{_NOW}(?:正在|在)(?:做|开发|负责|准备|写)(?!什么|这|那){_V}", action="add"),
    fact("zh", "project", rf"我{_NOW}负责(?!什么|这|那){_V}", action="add"),
    fact("zh", "goal", rf"我的目标是{_LIST}", action="add"),
    fact(
        "zh",
        "deadline",
        rf"(?:我的|项目的?)?截止(?:日期|时间)(?:现在|改)?(?:是|到|为)(?=[^，。]*[\d一二三四五六七八九十周月年]){_V}",
    ),
    fact("zh", "learning", rf"我{_NOW}(?:正在|在)学(?:习)?{_LIST}", action="add"),
    fact("zh", "good_at", rf"我{_NOW}(?:很|非常)?擅长{_LIST}", action="add"),
    fact(
        "zh",
        "knows",
        rf"我{_NOW}(?:会(?:用|写)?|精通|熟悉)(?!说|议|不会|去|来|在|把|尽|努力|再|继续|试|考虑|想|给|告诉)(?P<v>[A-Za-z][^，,。！!？?；;\n]{{0,40}}?|编程|游泳|开车|钢琴|吉他|弹钢琴|弹吉他|画画|摄影|下棋){_LIST_END}",
        action="add",
    ),
    gone("zh", "remove_like", "follow_up", rf"(?:不用|不必|别)(?:再)?提醒我{_REST}"),
    gone(
        "zh",
        "remove_like",
        "follow_up",
        r"(?P<v>[^，,。！？\n]{2,40}?)(?:我)?(?:已经|都)[^，,。！？\n]{0,12}?(?:好了|完了|了|完成)(?=[，,。！!\s]|$)",
    ),
    gone("zh", "remove_like", "follow_up", r"我(?:已经|刚)(?P<v>[^，,。！？\n]{2,40}?)了(?=[，,。！!\s]|$)"),
    gone("zh", "remove_like", "follow_up", r"(?P<v>[^，,。！？\n]{2,40}?)(?:这件事)?(?:做完了|完成了|搞定了|取消了)"),
    fact("zh", "follow_up", rf"(?<!不用)(?<!不必)(?<!别)(?<!再)提醒我(?:一下)?(?:要)?{_REST}", action="add", asks=True),
    fact(
        "zh",
        "follow_up",
        r"我(?:必须|需要|得|要)(?:在)?(?P<v>(?:[^，,。！？\n]{0,10}(?:周[一二三四五六日天]|星期[一二三四五六日天]|\d+[月日号]|明天|后天|下周|月底)[^，,。！？\n]{0,6}(?:之?前|以前|内)?)[^，,。！？\n]{2,40})",
        action="add",
    ),
    fact(
        "zh",
        "topic",
        rf"我(?:们)?(?:正在|最近在|在)?(?P<v>(?:计划|打算|考虑|准备)(?:去|买|换|办|在|学|租|搬)[^，,。！？\n]{{2,40}}?){_LIST_END}",
        action="add",
    ),
    custom("zh", r"^(?:请)?(?:忘记|忘掉|删除|删掉)(?!提醒|文件|这)(?P<v>[^。！？\n]{2,40})", _forgets),
)
