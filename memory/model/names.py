"""Names that starter, worker and operators share: task queues, workflow types, signals, updates, activities, search attributes."""

TASK_QUEUE = "afterturn"
"""Workflows and store steps."""
MODEL_TASK_QUEUE = "afterturn-llm"
"""Model calls; scaled and rate-limited on its own."""

POST_ANSWER_WORKFLOW = "PostAnswerWorkflow"
CONSOLIDATE_EVENTS_WORKFLOW = "ConsolidateEventsWorkflow"
SWEEP_WORKFLOW = "SweepWorkflow"
SWEEP_SCHEDULE_ID = "sweep"
RECONCILE_WORKFLOW = "ReconcileWorkflow"
RECONCILE_SCHEDULE_ID = "reconcile"
KNOWLEDGE_LOOP_WORKFLOW = "KnowledgeLoopWorkflow"
KNOWLEDGE_QUESTION_WORKFLOW = "KnowledgeQuestionWorkflow"
FORGET_USER_WORKFLOW = "ForgetUserWorkflow"
ROLLOUT_GATE_WORKFLOW = "RolloutGateWorkflow"

TURNS_RECORDED_SIGNAL = "turns_recorded"
EVENTS_RECORDED_SIGNAL = "events_recorded"
EDIT_UPDATE = "edit_profile"
ROLLBACK_UPDATE = "rollback_profile"
STATUS_QUERY = "status"
PAUSE_UPDATE = "pause"
RESUME_UPDATE = "resume"
INTERJECT_UPDATE = "interject"
ANSWER_UPDATE = "answer_clarification"
STOP_SIGNAL = "stop"
HISTORY_QUERY = "history"

SEARCH_TENANT = "AfterturnTenant"
SEARCH_USER = "AfterturnUser"
SEARCH_OUTCOME = "AfterturnOutcome"
SEARCH_STAGE = "AfterturnStage"
SEARCH_PROMPTS = "AfterturnPrompts"
"""Versions of the prompts that a run has used."""
SEARCH_ATTRIBUTE_TYPES = {
    SEARCH_TENANT: "Keyword",
    SEARCH_USER: "Keyword",
    SEARCH_OUTCOME: "Keyword",
    SEARCH_STAGE: "Keyword",
    SEARCH_PROMPTS: "KeywordList",
}
SEARCH_ATTRIBUTES = tuple(SEARCH_ATTRIBUTE_TYPES)

# Registered names of the activities: part of every workflow history, so never changed once a history holds them.
CLAIM_TURNS = "claim_turns"
GATE_TURNS = "gate_turns"
CONSOLIDATE_TURNS = "consolidate_turns"
UPLOAD_PROFILE = "upload_profile"
EDIT_PROFILE = "edit_profile"
ROLLBACK_PROFILE = "rollback_profile"
SEND_NOTICE = "send_notice"
FINISH_TURNS = "finish_turns"
SWEEP = "sweep"
PLAN_WINDOW = "plan_window"
EXTRACT_WINDOW = "extract_window"
APPLY_CATEGORY = "apply_category"
COMMIT_WINDOW = "commit_window"
INDEX_EVENTS = "index_events"
RECONCILE = "reconcile"
BEGIN_LOOP = "begin_loop"
THINK = "think"
USE_TOOL = "use_tool"
SETTLE_CALL = "settle_call"
FINISH_LOOP = "finish_loop"
ANSWER_QUESTION = "answer_question"
BEGIN_FORGET = "begin_forget"
STOP_USER_RUNS = "stop_user_runs"
ERASE_USER = "erase_user"
DELETE_USER_RUNS = "delete_user_runs"
MARK_FORGET = "mark_forget"
CHECK_STORES = "check_stores"
