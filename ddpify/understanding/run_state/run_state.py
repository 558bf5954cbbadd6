"""The state of a run on abstract values, and the questions about it."""

from __future__ import annotations

from ddpify.understanding.run_state.blocks import Blocks
from ddpify.understanding.run_state.demands import Demands
from ddpify.understanding.run_state.objects import Objects
from ddpify.understanding.run_state.rounds import Rounds


class RunState(Objects, Demands, Blocks, Rounds):
    """A run over a project, and what the code for each construct of the language asks of it."""
