"""Requests to the memory model, made from the prompt files of one version.

Stable parts come first and are marked cacheable (task, then profile); the exchange and everything that varies come last.
All text passes through :mod:`memory.model.transcript`, which cleans, redacts and quotes it.
"""

from memory.prompts.builders import (
    condense_request,
    consolidate_request,
    gate_request,
    loss_request,
    memory_section,
    repair_request,
    scrub_request,
    with_more_room,
)
from memory.prompts.texts import PROMPT_VERSION, all_prompt_texts

__all__ = [
    "PROMPT_VERSION",
    "all_prompt_texts",
    "condense_request",
    "consolidate_request",
    "gate_request",
    "loss_request",
    "memory_section",
    "repair_request",
    "scrub_request",
    "with_more_room",
]
