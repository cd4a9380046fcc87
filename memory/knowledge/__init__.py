"""Knowledge: the tools of its loops, what they may do, and search over tables by meaning."""

from memory.knowledge.toolbox import Toolbox, ToolOutcome

__all__ = ["ToolOutcome", "Toolbox"]
