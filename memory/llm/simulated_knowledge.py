"""The simulated model in a knowledge loop: plans by rule, so that real loops run without a key.

It plays its plan again from the start with every prompt, with the results that the conversation holds, and says the next step. It
recognises a limited set of questions and changes in English (``docs/knowledge.md`` has examples), says ``(simulated)`` in every
answer, and is no measure of what a real model understands. A script in place of rules: see
:mod:`memory.llm.simulated_knowledge_script`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from memory.llm.simulated_knowledge_ask import ask
from memory.llm.simulated_knowledge_claims import enter
from memory.llm.simulated_knowledge_documents import is_of_a_document, take_in
from memory.llm.simulated_knowledge_parts import corrected
from memory.llm.simulated_knowledge_paths import Call, GivesUp, Plan
from memory.llm.simulated_knowledge_people import ask_tasks, update_contacts, update_tasks
from memory.llm.simulated_knowledge_prompt import QUESTION, STRUCTURE, Loop, Result, Step, is_loop, read_loop
from memory.llm.simulated_knowledge_refactor import refactor
from memory.llm.simulated_knowledge_script import script_of, scripted
from memory.llm.simulated_knowledge_side import side_answer, structured_answer
from memory.llm.simulated_knowledge_update import is_change, update
from memory.llm.tool_calls import numbered
from memory.model.table_claims import REQUEST
from memory.model.tools import ToolCall
from memory.ports import ChatRequest

MARK: Final = "(simulated) "


@dataclass(frozen=True, slots=True)
class Move:
    """A step of the plan, or its answer: ``calls`` is empty then."""

    text: str = field(repr=False)
    calls: tuple[ToolCall, ...] = ()


def is_knowledge(request: ChatRequest) -> bool:
    return request.system_text.startswith((QUESTION, STRUCTURE)) or is_loop(request)


def next_move(request: ChatRequest, *, script: bool = False) -> Move:
    """What the model says to a prompt of :mod:`memory.prompts.knowledge`. ``script``: the request itself holds one."""
    if request.system_text.startswith(QUESTION):
        return Move(MARK + side_answer(request))
    if request.system_text.startswith(STRUCTURE):
        return Move(structured_answer(request))
    loop = read_loop(request)
    steps = script_of(request.system_text, loop.request if script else "")
    if steps is not None:
        text, calls = scripted(steps, len(loop.steps), last=loop.last)
        return Move(text, numbered((None, name, arguments) for name, arguments in calls))
    if loop.last:
        return Move(MARK + stopped_short(loop))
    try:
        calls, answer = _played(loop)
    except GivesUp as end:
        return Move(f"{MARK}I could not finish: {end}")
    return Move(MARK + answer) if answer is not None else Move("", numbered((None, name, arguments) for name, arguments in calls))


def stopped_short(loop: Loop) -> str:
    """What is said when a limit ends the loop."""
    done = [one.name for step in loop.steps for one in step.results if one.problem is None]
    used = ", ".join(f"{name} ({done.count(name)})" for name in dict.fromkeys(done)) or "nothing"
    return f"A limit ended this before I was done. Carried out so far: {used}. What was changed stands; the rest is left undone."


def _played(loop: Loop) -> tuple[list[Call], str | None]:
    """The calls of the next step, or the answer. Something the caller says in between begins the plan anew with it."""
    text, steps = loop.request, list(loop.steps)
    for said in loop.said:
        text = _amended(loop, text, said[1])
    place = 0
    while True:
        plan = _plan(loop, text)
        try:
            calls = next(plan)
            while place < len(steps):
                step = steps[place]
                place += 1
                results = _fitting(step, calls)
                heard = [told for kind, told in step.said if kind == "interjection"]
                if heard:
                    for told in heard:
                        text = _amended(loop, text, told)
                    break
                if results is not None:
                    calls = plan.send(results)
            else:
                return calls, None
        except StopIteration as end:
            return [], str(end.value)


def _plan(loop: Loop, text: str) -> Plan:
    if text == REQUEST and loop.documents:
        return enter(loop)
    if is_of_a_document(loop):
        return take_in(loop.documents, loop.system)
    match loop.manager, loop.operation:
        case "contacts", "update":
            return update_contacts(loop, text)
        case "tasks", "update":
            return update_tasks(text)
        case "tasks", _:
            return ask_tasks(text)
        case _, "update":
            return update(loop, text)
        case _, "refactor":
            return refactor(loop, text)
        case _:
            return ask(loop, text)


def _amended(loop: Loop, text: str, told: str) -> str:
    """The request after an interjection: replaced by one that can stand alone, else with it as an addition."""
    alone = is_change(told) if loop.operation == "update" else told.rstrip().endswith("?")
    if not alone and loop.operation == "update" and (better := corrected(text, told)) is not None:
        return better
    return told if alone else f"{text.rstrip(' .?!')} {told}"


def _fitting(step: Step, calls: Sequence[Call]) -> list[Result] | None:
    """The results of a step for the calls that the plan wants there; None where the step is of another plan.

    The answer to a clarification takes the place of its result.
    """
    if [one.name for one in step.results] != [name for name, _ in calls]:
        return None
    # A call that came out garbled is made again; one that failed as it was meant is the plan's to deal with.
    if any(one.problem and one.arguments is None for one in step.results):
        return None
    answers = [text for kind, text in step.said if kind == "answer"]
    results: list[Result] = []
    for one in step.results:
        value: Any = one.value
        if one.name == "request_clarification":
            value = answers.pop(0) if answers else None
        results.append(replace(one, value=value))
    return results
