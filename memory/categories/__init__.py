"""The categories of the event window: one entry each in ``REGISTRY``, in the order in which they are applied.

Adding a category is one :class:`~memory.categories.spec.CategorySpec` in ``REGISTRY``, made of

* its name, a member of :class:`memory.model.category.Category` (from which it gets its switches per deployment and per space),
* ``prompt``: its section, a file ``memory/prompts/v1/<prompt>.md``,
* ``item``: the type of its items, a subclass of :class:`memory.model.items.Item`. Its JSON schema is the section of the reply,
* ``apply``: writes grounded items. It gets what it needs in :class:`~memory.categories.spec.ApplyContext`, writes every item under
  its key in one transaction of a store, and gives counts; the same items again change nothing,
* ``check``, where an item that is well quoted can still be none of the category's (pure),
* ``shielded_by``: managers whose calls in the window make an item handled,

and golden cases in ``tests/golden``. Nothing else has to know: extraction asks for the sections of the plan, grounding and dropping
are the same for all, the steps look the entry up by name. A running window never looks here for what it has to do: its categories
are recorded in its plan.

An apply function may give refs a meaning for the categories after it (``Applied.refs``): contacts come first, so that ``new1`` of
the reply is the contact that they made of it.
"""

from memory.categories import bios, contacts, knowledge, response_policies, rolling_summaries, tasks
from memory.categories.spec import CategorySpec
from memory.model.category import Category

REGISTRY: tuple[CategorySpec, ...] = (
    contacts.SPEC,
    bios.SPEC,
    rolling_summaries.SPEC,
    response_policies.SPEC,
    knowledge.SPEC,
    tasks.SPEC,
)


def spec_of(category: Category) -> CategorySpec:
    """Raises KeyError for a category that is not registered."""
    for spec in REGISTRY:
        if spec.category == category:
            return spec
    raise KeyError(category)


__all__ = ["REGISTRY", "CategorySpec", "spec_of"]
