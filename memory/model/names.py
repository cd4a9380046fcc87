"""Names that starter, worker and operators share: task queues, workflow types, signals, updates, activities, search attributes."""

TASK_QUEUE = "afterturn"
"""Workflows and store steps."""
MODEL_TASK_QUEUE = "afterturn-llm"
"""Model calls; scaled and rate-limited on its own."""

POST_ANSWER_WORKFLOW = "PostAnswerWorkflow"
SWEEP_WORKFLOW = "SweepWorkflow"
SWEEP_SCHEDULE_ID = "sweep"

TURNS_RECORDED_SIGNAL = "turns_recorded"
EDIT_UPDATE = "edit_profile"
ROLLBACK_UPDATE = "rollback_profile"
STATUS_QUERY = "status"

SEARCH_TENANT = "AfterturnTenant"
SEARCH_USER = "AfterturnUser"
SEARCH_OUTCOME = "AfterturnOutcome"
SEARCH_STAGE = "AfterturnStage"
SEARCH_ATTRIBUTES = (SEARCH_TENANT, SEARCH_USER, SEARCH_OUTCOME, SEARCH_STAGE)
"""All of type Keyword."""

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
