"""What travels between starter, ``KnowledgeLoopWorkflow`` and its activities: ids, names of tools, counts. Never user text.

These are Temporal payloads: add optional fields, never rename or remove (running workflows hold the old form).
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from memory.model.knowledge_loop import LoopState, Operation
from memory.model.steps import Payload, StageUsage, UserRef


class CallKind(StrEnum):
    READ = "read"
    """Calls of one step that only read run side by side."""
    WRITE = "write"
    """One after another, in the order of the reply."""
    CLARIFY = "clarify"
    NESTED = "nested"
    """A loop of its own (``ask`` within ``update``): a child workflow."""
    REFUSED = "refused"
    """Unknown, not offered in this operation, or beyond the limit of calls: answered with an error, nothing is done."""


class LoopRef(Payload):
    user: UserRef
    loop_id: str


class LoopProgress(Payload):
    """What a run hands to the next one, and the query ``status`` shows. ``seen``: number of the last entry that the model has read;
    ``steered``: of the last one by which somebody corrected or answered it."""

    step: int = 0
    seen: int = 0
    paused: bool = False
    stopping: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    worked_s: float = 0.0
    runs: int = 1
    steered: int = 0

    def next_run(self) -> LoopProgress:
        """What the run begins with that continues this one."""
        return self.model_copy(update={"runs": self.runs + 1})


class LoopPlan(Payload):
    """What the first step decided; a recorded result, so the workflow reads no settings. ``refused``: why nothing runs, a code.

    Of a loop whose earlier run was lost, what the store knows of that one: ``steered`` as in :class:`LoopProgress`, whether it is
    ``paused`` or ``stopping``, and ``thought``: its last step, whose calls may have been made although they have no result.
    """

    refused: str | None = None
    model: str = ""
    model_timeout_s: float = 60.0
    store_retry_for_s: float = 900.0
    max_steps: int = 40
    max_tokens: int = 400_000
    max_wall_s: float = 900.0
    clarification_wait_s: float = 3_600.0
    continue_after_steps: int = 50
    clarify: bool = False
    steered: int = 0
    paused: bool = False
    stopping: bool = False
    thought: int = 0


class LoopInput(Payload):
    """Start argument of ``KnowledgeLoopWorkflow``; its id is ``knowledge/<tenant>/<user>/<loop id>``."""

    user: UserRef
    loop_id: str
    operation: Operation
    plan: LoopPlan | None = None
    resumed: LoopProgress | None = None


class ThinkInput(Payload):
    """Argument of the model step. ``last``: a limit is near, the model has to answer now and gets no tools. ``structure``: the
    answer is put into the form that the caller asked for. ``problem``: of the reply before, which is asked for anew."""

    ref: LoopRef
    step: int
    plan: LoopPlan
    last: bool = False
    structure: bool = False
    problem: str | None = None


class CallRef(Payload):
    """One call of a reply, by its position. ``name``: of a known tool, or empty."""

    index: int
    name: str
    kind: CallKind


class ThinkReply(Payload):
    """``calls`` empty: the model is done; ``answered`` false: it said nothing that can be used, ``problem`` is a code.

    ``seen``: number of the last entry that the model read. ``entry``: number of the reply's own entry. ``unstructured``: the answer
    is not yet in the form that the caller asked for.
    """

    calls: tuple[CallRef, ...] = ()
    answered: bool = False
    problem: str | None = None
    usage: dict[str, StageUsage] = Field(default_factory=dict[str, StageUsage])
    elapsed_ms: int = 0
    seen: int = 0
    entry: int = 0
    unstructured: bool = False


class ToolInput(Payload):
    """``entry``: number of the reply that has the call. ``tokens_left``, ``wall_left_s``: what a loop of its own may use."""

    ref: LoopRef
    step: int
    index: int
    name: str
    kind: CallKind = CallKind.READ
    entry: int = 0
    tokens_left: int | None = None
    wall_left_s: float | None = None


class ToolReply(Payload):
    """``error``: a code. ``nested``: of a call that starts a loop of its own: that loop's id. ``clarification``: its id;
    ``answered``: there is nothing to wait for, an earlier run asked this question."""

    ok: bool
    error: str | None = None
    rows: int | None = None
    result_bytes: int = 0
    nested: str | None = None
    clarification: str | None = None
    elapsed_ms: int = 0
    answered: bool = False


class SettleInput(Payload):
    """Write the result of a call that waited: for a nested loop, or for an answer (``clarification``). ``outcome``: ``settled``;
    ``unanswered``: there was no answer in time; ``overtaken``: not made, because the caller said something meanwhile;
    ``in_doubt``: the same, and an earlier run may have made it; ``failed:<error type>``."""

    ref: LoopRef
    step: int
    index: int
    name: str
    nested: str | None = None
    clarification: str | None = None
    outcome: str = "settled"
    entry: int = 0
    kind: CallKind = CallKind.READ


class FinishInput(Payload):
    ref: LoopRef
    state: LoopState
    reason: str | None = None
    steps: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class LoopResult(Payload):
    """Result of the workflow; the answer is in the store. ``following``: the next loop of the user's windows, to be started."""

    state: LoopState
    reason: str | None = None
    steps: int = 0
    runs: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    following: str | None = None


class Steer(Payload):
    """Updates ``interject`` and ``answer_clarification``, and signal ``stop``: the text is entry ``entry`` of the store."""

    entry: int = 0
    clarification: str | None = None


class LoopStatus(Payload):
    """Query ``status``. ``doing``: ``starting``, ``thinking``, ``using``, ``waiting_for_answer``, ``paused``, ``stopping``,
    ``done``. ``tools``: those that run now."""

    doing: str
    progress: LoopProgress
    tools: tuple[str, ...] = ()
    clarification: str | None = None
    plan: LoopPlan | None = None


class LoopLine(Payload):
    """One model step. ``calls``: tools by position, with the code of an error: ``filter``, ``add_rows: bad_value``."""

    step: int
    calls: tuple[str, ...] = ()
    tokens: int = 0
    problem: str | None = None


class LoopHistory(Payload):
    """Query ``history``: the last steps of this run."""

    lines: tuple[LoopLine, ...] = ()
    runs: int = 1


class QuestionInput(Payload):
    """Start argument of ``KnowledgeQuestionWorkflow``: one side question about a loop, entry ``entry``."""

    ref: LoopRef
    entry: int
    plan: LoopPlan


class QuestionReply(Payload):
    answered: bool
    problem: str | None = None
    usage: dict[str, StageUsage] = Field(default_factory=dict[str, StageUsage])
