"""Record locally, on each rank, what training did. No collective is added, so recording cannot
hang."""

from __future__ import annotations

import json
import os
from typing import Any

from ddpify.verify.inside import calls
from ddpify.verify.inside.collectives import Collectives
from ddpify.verify.inside.imports import Outside
from ddpify.verify.inside.loaders import Loaders
from ddpify.verify.inside.moves import Moves
from ddpify.verify.inside.patching import devices, faked
from ddpify.verify.inside.place import PLACE
from ddpify.verify.inside.replay import Replay
from ddpify.verify.inside.steps import Steps
from ddpify.verify.inside.world import World
from ddpify.verify.launch.job import Job


class Recorder:
    """Writes one JSON object a line to ``path``.

    Args:
        path: The rank's file of events.
        world: Its counter of work.
        job: What is run.
        replay: The batches that the loaders are to yield.
    """

    def __init__(self, path: str, world: World, job: Job, replay: Replay | None) -> None:
        self._out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        self._world = world
        self._collectives = Collectives(self.emit, job.root)
        self.caller = self._collectives.caller
        self._loaders = Loaders(self.emit, replay, self.caller)
        self._steps = Steps(self.emit, job, self._loaders, self._collectives)
        self._outside = Outside(job.sandbox)
        self._listings: set[str] = set()

    def emit(self, kind: str, **values: Any) -> None:
        """Append one event and hand it to the operating system."""
        os.write(self._out, (json.dumps({"event": kind, **values}) + "\n").encode())

    def install(self) -> None:
        """Hook everything that is recorded."""
        self._loaders.install()
        self._collectives.install()
        calls.install()
        Moves(self._collectives.wrapped, self._moved).install()
        self._steps.install()

    def _moved(self, how: str) -> None:
        self.emit("moved", how=how, at=self._collectives.caller())

    def listed(self) -> None:
        """A folder was listed in another order than on rank 0."""
        at = self._collectives.caller(importing=False)
        if at and at not in self._listings:
            self._listings.add(at)
            self.emit("listing", at=at)

    def finish(self) -> None:
        """The totals, when the script has ended."""
        self._steps.note_update()
        self.emit(
            "end",
            steps=self._steps.count,
            work=self._world.work,
            faked=faked,
            devices=devices,
            drawn=PLACE.rows,
            seeds=PLACE.seeds,
            outside=self._outside.found(),
        )
