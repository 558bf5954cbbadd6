"""Processes that a script starts itself: which code they run, and which runs before them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ddpify.lint.scripts import starting
from ddpify.lint.scripts.ways import Ways
from ddpify.understanding.libraries.distributed import INIT_GROUP
from ddpify.understanding.structure import Guard
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import Bound, Function

# What starts the processes of a script; a name that ends with a dot is a prefix.
_STARTING = ("torch.multiprocessing.", "multiprocessing.", "torch.distributed.launcher.")
_STARTS_NOTHING = frozenset(
    "cpu_count current_process parent_process active_children freeze_support get_start_method"
    " set_start_method set_sharing_strategy get_sharing_strategy get_all_sharing_strategies"
    " Queue SimpleQueue JoinableQueue Pipe Lock RLock Event Condition Semaphore BoundedSemaphore"
    " Barrier Value Array RawValue RawArray get_logger log_to_stderr SharedMemory".split()
)
_SPARK = "pyspark.ml.torch.distributor.TorchDistributor"


class Started(Ways):
    """Questions about the ranks that a script starts."""

    @cached_property
    def spawned(self) -> set[cst.CSTNode]:
        """Functions that run in processes that the script starts itself."""
        found: set[cst.CSTNode] = set()
        for call in self._starting:
            for one in call.args:
                held = self.script.value(one.value)
                found |= {a.node for a in held.of(Function)}
                found |= {a.function.node for a in held.of(Bound)}
        return found

    def runs_before_spawning(self, node: cst.CSTNode) -> bool:
        """Whether a node surely runs in the process that starts the ranks with ``mp.spawn``."""
        if not self.spawned:
            return False
        function = self.script.structure_of(node).function(node)
        return function is None or function in self._spawners

    @cached_property
    def _spawns_ranks(self) -> bool:
        """Whether what the script starts joins a process group."""
        return any(map(self._joins_group, self.spawned))

    @property
    def starts_ranks(self) -> bool:
        """Whether what the script starts are ranks, not helpers of ranks that join elsewhere."""
        return bool(self.spawned) and (self._spawns_ranks or not self.script.uses(INIT_GROUP))

    def _joins_group(self, function: cst.CSTNode) -> bool:
        return any(
            isinstance(one, cst.Call) and INIT_GROUP in self.script.names(one.func)
            for one in self.script.reached(function)
        )

    def helps_ranks(self, function: cst.CSTNode) -> bool:
        """Whether a function runs in a process beside the ranks that the script starts, too."""
        return self._spawns_ranks and not self._joins_group(function)

    def is_only_before_spawning(self, node: cst.CSTNode) -> bool:
        """Whether a node is only reached in the process that starts the ranks."""
        return self._spawns_ranks and self.holds_on_every_way(
            node, self.runs_before_spawning, begins=self.spawned
        )

    def is_ruled_out_where_spawned(self, node: cst.CSTNode) -> bool:
        """Whether a condition on a node is one under which no ranks are started.

        ``if export or alone: worker(0) else: spawn(worker)``, and in the worker ``if export:``.
        """
        here = {code_of(one.test) for one in self.guards(node) if one.positive}
        return bool(here) and all(
            here & {text for one in self.guards(call) for text in _denied(one)}
            for call in self._starting
        )

    def starts_processes(self, node: cst.CSTNode) -> bool:
        """Whether the function around a node starts the ranks: it runs once."""
        around = self.script.structure_of(node).function(node)
        return around is not None and around in self._starters

    @cached_property
    def _spawners(self) -> set[cst.FunctionDef | None]:
        """Functions that call ``mp.spawn`` or start processes of their own, and are no ranks."""
        functions = {self.script.structure_of(call).function(call) for call in self._starting}
        return {one for one in functions if one not in self.spawned or not self._joins_group(one)}

    @cached_property
    def _starting(self) -> list[cst.Call]:
        """Calls that start processes of the ranks, or make what does."""
        runs = [
            call
            for call in self.script.method_calls("run", everywhere=True)
            if isinstance(call.func, cst.Attribute)
            and any(one.type == _SPARK for one in self.script.instances(call.func.value))
        ]
        calls = [
            call
            for call in self.script.calls(*_STARTING, everywhere=True)
            if not {name.rsplit(".", 1)[-1] for name in self.script.names(call.func)}
            & _STARTS_NOTHING
        ]
        return calls + runs

    @cached_property
    def _starters(self) -> set[cst.FunctionDef | None]:
        calls = starting.calls(self.script)
        return {self.script.structure_of(call).function(call) for call in calls}


def _denied(guard: Guard) -> Iterator[str]:
    """What surely does not hold where a guard stands: of ``a or b`` that failed, both."""
    if guard.positive:
        return
    todo = [guard.test]
    while todo:
        one = todo.pop()
        yield code_of(one)
        if isinstance(one, cst.BooleanOperation) and isinstance(one.operator, cst.Or):
            todo += [one.left, one.right]
