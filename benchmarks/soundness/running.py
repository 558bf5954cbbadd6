"""Runs scripts one after the other in one process, and records what each does."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import random
import sys
import traceback
import types
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook

from ddpify.runtime import gather, pending, position, process, rng, share
from ddpify.runtime.trained_tensors import are_trained_rows


@dataclass
class Record:
    """What one process did with one script.

    Attributes:
        error: Traceback of the exception that ended the script; None if it came to its end.
        stdout: What it printed.
        steps: After each optimizer step its parameters and learning rates.
        elements: Elements of the inputs of all layers in training mode, summed.
        written: Files of its folder that it opened for writing.
    """

    error: str | None = None
    stdout: str = ""
    steps: list[list[Any]] = field(default_factory=list)
    elements: int = 0
    written: list[str] = field(default_factory=list)


class Recorder:
    """Watches what the scripts of this process do; made once a process."""

    def __init__(self) -> None:
        self._record = Record()
        self._folder: Path | None = None
        register_optimizer_step_post_hook(self._after_step)
        register_module_forward_pre_hook(self._before_layer)
        sys.addaudithook(self._audit)
        self._save = torch.save
        torch.save = self._saving

    def run(self, text: str, folder: str) -> Record:
        """Run a script in ``folder`` as ``__main__``, from the state of a new process."""
        self._record, self._folder = Record(), Path(folder)
        os.chdir(folder)
        forget()
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
                execute(text)
        except SystemExit as end:
            if end.code:
                self._record.error = traceback.format_exc()
        except BaseException:
            self._record.error = traceback.format_exc()
        self._folder = None
        self._record.stdout = printed.getvalue()
        gc.collect()
        return self._record

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        groups = optimizer.param_groups
        trained = [p for group in groups for p in group["params"]]
        whole = [gather(p.detach()) if are_trained_rows(p) else p.detach() for p in trained]
        parameters = [one.numpy().copy() for one in whole]
        self._record.steps.append([[float(group["lr"]) for group in groups], *parameters])

    def _before_layer(self, module: torch.nn.Module, args: tuple[Any, ...]) -> None:
        is_leaf = next(module.children(), None) is None
        if module.training and is_leaf and args and isinstance(args[0], torch.Tensor):
            self._record.elements += args[0].numel()

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or self._folder is None:
            return
        if isinstance(args[0], str) and args[2] & (os.O_WRONLY | os.O_RDWR):
            self._note(args[0])

    def _saving(self, obj: object, f: Any, *args: Any, **kwargs: Any) -> None:
        """torch.save opens its file below the level of Python's audit events."""
        if isinstance(f, (str, os.PathLike)):
            self._note(os.fspath(f))
        self._save(obj, f, *args, **kwargs)

    def _note(self, path: str) -> None:
        assert self._folder is not None
        absolute = Path(self._folder, path).resolve()
        if absolute.is_relative_to(self._folder):
            self._record.written.append(str(absolute.relative_to(self._folder)))


def execute(text: str) -> None:
    """Run a script's text in a module of its own that is called ``__main__``."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, "script.py", "exec"), module.__dict__)


def forget() -> None:
    """Put back what a script leaves behind in torch and in ddpify's runtime.

    The runtime holds its state in modules, since a process runs one script.
    """
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    share._loops.__init__()  # type: ignore[misc]
    rng._own_stream.__init__()  # type: ignore[misc]
    position._position.__init__()  # type: ignore[misc]
    pending._exchanges.clear()
    process.warn_once.cache_clear()
