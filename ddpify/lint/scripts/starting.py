"""Calls by which a process has another start: a job of a cluster, or a Python script of its own.

The process that does so is no rank. A command of another kind, such as `git`, is no evidence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.syntax import code_of

if TYPE_CHECKING:
    from ddpify.lint.scripts.sharded_values import Reading

_COMMANDS = tuple(
    "subprocess.Popen subprocess.run subprocess.call subprocess.check_call subprocess.check_output"
    " os.system os.popen".split()
)
_LAUNCHES = re.compile(r"python|executable|torchrun|sbatch|srun|mpirun|__file__|argv|\.(?:py|sh)\b")
_CLUSTERS = ("submitit.", "simple_slurm.", "dask_jobqueue.", "sagemaker.", "ray.job_submission.")
_SUBMITS = ("submit", "map_array", "sbatch", "fit", "submit_job")


def calls(script: Reading) -> Iterator[cst.Call]:
    """The calls that start another script, or give a job to a cluster."""
    for call in script.calls(*_COMMANDS, everywhere=True):
        if any(_LAUNCHES.search(text) for text in _texts(script, call)):
            yield call
    for call in script.method_calls(*_SUBMITS, everywhere=True):
        assert isinstance(call.func, cst.Attribute)
        types = (one.type for one in script.instances(call.func.value))
        if any(isinstance(one, str) and one.startswith(_CLUSTERS) for one in types):
            yield call


def _texts(script: Reading, call: cst.Call) -> Iterator[str]:
    """A command as it is written, and what its names were set to."""
    module = script.owners.get(call, script.module)
    for given in call.args[:1]:
        yield code_of(given.value)
        locations = {
            one.location for one in script.flow.ancestry(given.value, module) if one.location
        }
        for edge in script.flow.edges_into(locations):
            if edge.value is not None:
                yield code_of(edge.value)
