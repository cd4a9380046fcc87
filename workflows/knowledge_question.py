"""A side question about a knowledge loop, answered beside it: the loop neither waits nor hears of it. Works after its end too.

Question and answer are entries of the store; here are their numbers.
"""

from __future__ import annotations

from temporalio import workflow
from temporalio.common import VersioningBehavior
from temporalio.exceptions import is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from memory.model.knowledge_steps import QuestionInput, QuestionReply
    from memory.model.names import ANSWER_QUESTION, KNOWLEDGE_QUESTION_WORKFLOW, MODEL_TASK_QUEUE
    from workflows import policies
    from workflows.patience import STEP_FAILED, Patience, error_type


@workflow.defn(name=KNOWLEDGE_QUESTION_WORKFLOW, versioning_behavior=VersioningBehavior.PINNED)
class KnowledgeQuestionWorkflow:
    """One question. Id: ``knowledge/<tenant>/<user>/<loop id>/<question>``."""

    @workflow.run
    async def run(self, start: QuestionInput) -> QuestionReply:
        async def call() -> QuestionReply:
            return await workflow.execute_activity(
                ANSWER_QUESTION,
                start,
                result_type=QuestionReply,
                task_queue=MODEL_TASK_QUEUE,
                summary=f"question {start.entry}",
                **policies.QUESTION.options(start.plan.model_timeout_s),
            )

        try:
            return await Patience(lambda: None).run(call, policies.QUESTION_STORE_S)
        except STEP_FAILED as error:
            if is_cancelled_exception(error):
                raise
            return QuestionReply(answered=False, problem=f"model_failed:{error_type(error)}")
