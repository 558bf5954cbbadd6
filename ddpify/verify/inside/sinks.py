"""Where numbers leave the computation: text, loggers, schedulers, files and decisions."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import lr_scheduler

from ddpify.verify.inside.origins import Origins, Provenance
from ddpify.verify.inside.patching import replace
from ddpify.verify.inside.tracked import Watch, numbers, plain

LOGGERS = (
    ("torch.utils.tensorboard.writer", "SummaryWriter", ("add_scalar", "add_scalars")),
    ("tensorboardX", "SummaryWriter", ("add_scalar", "add_scalars")),
    ("wandb", "", ("log",)),
    ("wandb.sdk.wandb_run", "Run", ("log",)),
    ("mlflow", "", ("log_metric", "log_metrics")),
)
"""Functions that take numbers to show: module, class, names."""
MAX_TEXTS = 64


class Sinks:
    """Watches the sinks of one rank.

    Args:
        provenance: Where origins are kept.
        folder: The script's folder.
    """

    def __init__(self, provenance: Provenance, folder: str) -> None:
        self._provenance, self._folder = provenance, folder.rstrip("/") + "/"
        self._texts: deque[tuple[str, Origins, str]] = deque(maxlen=MAX_TEXTS)
        self._logged: set[tuple[str, str]] = set()

    def install(self) -> None:
        """Hook all sinks; loggers that the script imports later, when ``refresh`` is called."""
        Watch.text = self._text
        Watch.decision = self._decision
        self._watch(lr_scheduler.ReduceLROnPlateau, "step", "scheduler")
        for name in ("dump", "dumps"):
            self._watch(json, name, "json")
        self._watch(torch, "save", "save")
        self.refresh()

    def refresh(self) -> None:
        """Hook the loggers that have been imported since."""
        for module, kind, names in LOGGERS:
            owner = sys.modules.get(module)
            owner = getattr(owner, kind, None) if owner is not None and kind else owner
            if owner is not None and (module, kind) not in self._logged:
                self._logged.add((module, kind))
                for name in names:
                    self._watch(owner, name, "logger")

    def printed(self, line: str) -> Origins:
        """The origins of the numbers that were written into ``line``."""
        at, _ = self._provenance.place("print")
        found: dict[int, None] = {}
        for text, origins, made_at in reversed(self._texts):
            if text.strip() in line and (made_at == at or len(text.strip()) >= 4):
                found.update(dict.fromkeys(origins))
        return tuple(found)

    def _text(self, text: str, origins: Origins) -> None:
        at, key = self._provenance.place("text")
        if origins and at:
            self._texts.append((text, origins, at))
            self._sink("text", at, key, origins, text[:40])

    def _decision(self, result: bool, origins: Origins, frame: Any) -> None:
        if not origins or not isinstance(result, bool):
            return
        if frame is not None and not frame.f_code.co_filename.startswith(self._folder):
            return
        at, key = self._provenance.place("decision")
        self._sink("decision", at, key, origins, str(result))

    def _watch(self, owner: Any, name: str, kind: str) -> None:
        real: Callable[..., Any] | None = getattr(owner, name, None)
        if real is None:  # a folder of the logger's name, as wandb makes, imports as a module, too
            return

        def call(*args: Any, **kwargs: Any) -> Any:
            if kind == "save":
                origins = numbers(args[0]) if args else ()
            else:
                origins = self._provenance.of([*args, *kwargs.values()])
            at, key = self._provenance.place(kind)
            if origins and at:
                self._sink(kind, at, key, origins, name)
            if kind in ("save", "json"):
                args = (plain(args[0]), *args[1:]) if args else args
            return real(*args, **kwargs)

        call.__name__ = name
        replace(owner, name, call)

    def _sink(self, kind: str, at: str, key: str, origins: Origins, text: str) -> None:
        self._provenance.emit("sink", sort=kind, at=at, key=key, origins=list(origins), text=text)
