"""What the interpreter learned about a script: the one place where a pitfall is known."""

from ddpify.understanding.facts.batches import (
    OWN,
    BatchDimensions,
    Batches,
    Dimensions,
    LateUse,
    Loading,
)
from ddpify.understanding.facts.draws import Draw, Draws
from ddpify.understanding.facts.events import Demand, Effect, Event, Switch
from ddpify.understanding.facts.facts import Facts
from ddpify.understanding.facts.forwards import Forwards, ReplicatedCall, SampleHook
from ddpify.understanding.facts.gradients import Gradients
from ddpify.understanding.facts.handmade import Entry, HandmadeBatches
from ddpify.understanding.facts.places import Calls, Place, Site
from ddpify.understanding.facts.reductions import Reductions
from ddpify.understanding.facts.rows import Regrouped, Rows, Sizes, States
from ddpify.understanding.facts.runtime import RuntimeUses

__all__ = [
    "OWN",
    "BatchDimensions",
    "Batches",
    "Calls",
    "Demand",
    "Dimensions",
    "Draw",
    "Draws",
    "Effect",
    "Entry",
    "Event",
    "Facts",
    "Forwards",
    "Gradients",
    "HandmadeBatches",
    "LateUse",
    "Loading",
    "Place",
    "Reductions",
    "Regrouped",
    "ReplicatedCall",
    "Rows",
    "RuntimeUses",
    "SampleHook",
    "Site",
    "Sizes",
    "States",
    "Switch",
]
