"""Billable actions of Temporal Cloud, counted from the history of a run.

By the definition of https://docs.temporal.io/cloud/actions: a start or a signal-with-start is one, as is each signal, accepted
update, scheduled activity, retry, timer and upsert of search attributes; all markers (local activities, patches) of one workflow
task are one together. What leaves no event is not counted here: heartbeats that reach the server, heartbeats of workflow tasks,
queries, and the two further actions of a schedule's pass, which :func:`billable_actions` adds where a schedule started the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

_SCHEDULED_BY: Final = "TemporalScheduledById"
_CHANGE_VERSION: Final = "TemporalChangeVersion"
_MOST_LOCAL_RETRIES: Final = 100

_ONE_EACH: Final = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: "activity",
    EventType.EVENT_TYPE_TIMER_STARTED: "timer",
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED: "start of a child intended",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED: "update",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_OPTIONS_UPDATED: "options",
    EventType.EVENT_TYPE_NEXUS_OPERATION_SCHEDULED: "nexus",
}


def billable_actions(events: Iterable[HistoryEvent]) -> Counter[str]:
    """Actions of one run by kind. ``events``: its whole history, in order."""
    found: Counter[str] = Counter()
    marked: set[int] = set()
    first_signal_is_the_start = False
    for place, event in enumerate(events):
        kind = event.event_type
        if kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            start = event.workflow_execution_started_event_attributes
            first_signal_is_the_start = True
            found["start"] += 1
            if _SCHEDULED_BY in start.search_attributes.indexed_fields:
                found["schedule"] += 2
        elif kind == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
            # Signal-with-start writes its signal right after the start; the two are one action.
            if not (place == 1 and first_signal_is_the_start):
                found["signal"] += 1
        elif kind == EventType.EVENT_TYPE_MARKER_RECORDED:
            marked.add(event.marker_recorded_event_attributes.workflow_task_completed_event_id)
        elif kind == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
            found["retry"] += max(0, event.activity_task_started_event_attributes.attempt - 1)
        elif kind == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            metering = event.workflow_task_completed_event_attributes.metering_metadata
            found["retry"] += min(metering.nonfirst_local_activity_execution_attempts, _MOST_LOCAL_RETRIES)
        elif kind == EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
            fields = event.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
            found["search attributes"] += set(fields) != {_CHANGE_VERSION}
        elif kind in _ONE_EACH:
            found[_ONE_EACH[kind]] += 1
    found["local activities"] += len(marked)
    return +found
