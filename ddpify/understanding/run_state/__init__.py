"""The state of a run on abstract values, and the questions about it.

What runs the code itself is :mod:`ddpify.understanding.interpreter`; the code for each construct of
the language and for each library knows the run by :class:`RunState` alone.
"""

from ddpify.understanding.run_state.run_state import RunState

__all__ = ["RunState"]
