"""Record locally, on each rank, what training did. No collective is added, so recording cannot
hang."""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable
from typing import Any

from ddpify.verify.inside import (
    calls,
    conversions,
    dropout,
    groups,
    output,
    samples,
    scales,
    tracked,
    writes,
)
from ddpify.verify.inside.acts import Acts
from ddpify.verify.inside.collectives import Collectives
from ddpify.verify.inside.equal_chance import EqualChance
from ddpify.verify.inside.following import Following, FollowingMode
from ddpify.verify.inside.imports import Outside
from ddpify.verify.inside.light import LightSteps
from ddpify.verify.inside.loaders import Loaders
from ddpify.verify.inside.moves import Moves
from ddpify.verify.inside.origins import Provenance
from ddpify.verify.inside.patching import devices_used, faked
from ddpify.verify.inside.place import PLACE
from ddpify.verify.inside.replay import Replay
from ddpify.verify.inside.sinks import Sinks
from ddpify.verify.inside.steps import Steps
from ddpify.verify.inside.world import World
from ddpify.verify.launch.job import Job

_DUMPS = json.dumps  # the real one, whatever is watched later


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
        self._world, self._job, self._latest = world, job, time.monotonic()
        self._collectives = Collectives(self.emit, job.root)
        self.caller = self._collectives.caller
        self._loaders = Loaders(self.emit, replay, self.caller)
        self._steps = Steps(self.emit, job, self._loaders, self._collectives)
        self._outside = Outside(job.sandbox)
        self._listings: set[str] = set()
        self._light: LightSteps | None = None

    def emit(self, kind: str, **values: Any) -> None:
        """Append one event and hand it to the operating system."""
        self._latest = time.monotonic()
        os.write(self._out, (_DUMPS({"event": kind, **values}) + "\n").encode())

    def install(self) -> None:
        """Hook everything that is recorded."""
        self._loaders.install()
        self._collectives.install()
        calls.install()
        Moves(self._collectives.wrapped, self._moved).install()
        self._steps.install()

    def install_light(self, done: Callable[[], None]) -> None:
        """Hook collectives and steps alone, for fingerprints; ``done``: called after the last."""
        groups.install()
        self._collectives.install()
        job = self._job
        self._light = LightSteps(self.emit, self._collectives, job.root, job.steps, done)
        self._light.stop = self._job.stop
        self._light.install()

    def install_real(self) -> None:
        """Hook what can be recorded in a job that is not changed otherwise."""
        groups.install()
        samples.watch()
        self.install()
        writes.install(self.emit, self.caller)
        scales.watch(self.emit, self.caller)
        sinks = self.follow_numbers(self._job.root)
        output.install(self.emit, self.caller, sinks.printed)

    def forget(self) -> None:
        """Drop what was recorded so far."""
        os.ftruncate(self._out, 0)

    def waited(self) -> float:
        """Seconds inside of a collective, or in backward, since the last event."""
        return time.monotonic() - self._latest if self._collectives.inside else 0.0

    def follow_numbers(self, root: str) -> Sinks:
        """Hook what follows numbers from the batches to where they are used, and outer acts."""
        provenance = Provenance(self.emit, root, lambda: self._steps.count)
        following = Following(provenance)
        self._loaders.yielded = following.batch
        self._collectives.exchanged = provenance.exchanged
        tracked.install()
        conversions.install(root, following.converted, following.formatted)
        sinks = Sinks(provenance, root)
        sinks.install()
        Acts(self.emit, functools.partial(self.caller, importing=False)).install()
        self._steps.stepping = sinks.refresh
        chance = EqualChance(self.emit, provenance)
        chance.watch(self._loaders)
        FollowingMode(following, chance).__enter__()  # type: ignore[no-untyped-call]
        return sinks

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
            steps=(self._light or self._steps).count,
            work=self._world.work,
            faked=faked,
            devices=devices_used(),
            draws=PLACE.draws,
            drops=dropout.dropped,
            outside=self._outside.found(),
        )
