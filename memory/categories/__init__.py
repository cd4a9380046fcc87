"""The categories of the event window.

Adding one takes one entry in ``REGISTRY``: a :class:`~memory.categories.spec.CategorySpec` with

* its name in :class:`memory.model.category.Category`, and whether it is on by default (a setting ``memory_<name>`` of its own),
* its prompt section ``memory/prompts/v1/<prompt>.md``,
* its item type, whose JSON schema becomes part of the reply's,
* its apply function, which writes items to the stores under their keys,

and a golden case in ``tests/golden``. The order is the one in which they are applied: contacts come first, since others refer to
contacts that they make. A running window never looks here for what it has to do: its categories are recorded in its plan.
"""

from memory.categories import contacts, knowledge, tasks, texts
from memory.categories.spec import CategorySpec
from memory.model.category import Category

REGISTRY: tuple[CategorySpec, ...] = (
    contacts.SPEC,
    texts.BIOS,
    texts.ROLLING_SUMMARIES,
    texts.RESPONSE_POLICIES,
    knowledge.SPEC,
    tasks.SPEC,
)

_BY_CATEGORY = {spec.category: spec for spec in REGISTRY}


def spec_of(category: Category) -> CategorySpec:
    """Raises KeyError for a category that is not registered."""
    return _BY_CATEGORY[category]


__all__ = ["REGISTRY", "CategorySpec", "spec_of"]
