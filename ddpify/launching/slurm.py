"""A batch script for Slurm: one task a node, which is that node's torchrun."""

from __future__ import annotations

from ddpify.launching.launch import USUAL_CORES, Launch, comment, continued, strict
from ddpify.launching.variables import exports

_MEETING = """
# The nodes meet on the first one of them, at a port that other jobs there do not have.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
port=$((20000 + SLURM_JOB_ID % 10000))

# srun starts one torchrun a node. Which node it is on, only the task itself can tell.
# shellcheck disable=SC2016
""".strip("\n")
_AGAIN = """
# The signal before the limit has ended it: the same job goes on from the snapshot.
if ((code != 0 && SLURM_JOB_END_TIME - $(date +%s) < {seconds})); then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""
_SITE = ("partition", "account", "time", "mem")
"""What clusters ask for most often."""


def slurm(launch: Launch) -> str:
    """The text of the batch script."""
    lines = ["#!/bin/bash", *comment(f"{launch.title}: sbatch THIS_FILE"), *_resources(launch), ""]
    lines += [*_setup(launch), *exports(launch.environment), "", _MEETING]
    again = launch.slurm.requeue and launch.slurm.signal
    if again:
        lines = [*lines[:-1], _MEETING.replace("\n# srun starts", "code=0\n\n# srun starts")]
    lines.append(_command(launch) + (" || code=$?" if again else ""))
    # Processes end up to half a minute after the signal, with time to spare for a slow clock.
    end = _AGAIN.format(seconds=launch.slurm.signal + 60) if again else ""
    return "\n".join(lines) + "\n" + end


def _resources(launch: Launch) -> list[str]:
    asked = {
        "job-name": launch.job_name,
        "output": "%x-%j.out",
        "nodes": launch.nodes,
        "ntasks-per-node": 1,
        "cpus-per-task": launch.cores(USUAL_CORES),
        **_devices(launch),
        "mem": f"{launch.memory}G" if launch.memory else "",
        **{name: getattr(launch.slurm, name) for name in ("partition", "account", "qos", "time")},
    }
    lines = [f"#SBATCH --{name}={value}" for name, value in asked.items() if value]
    if launch.slurm.exclusive:
        lines.append("#SBATCH --exclusive")
    missing = [f"--{name}" for name in _SITE if not asked[name]]
    reminder = comment(f"Add what your cluster asks for: {', '.join(missing)}.") if missing else []
    return [*lines, *_ends(launch), *reminder]


def _devices(launch: Launch) -> dict[str, object]:
    if launch.slurm.gres:
        return {"gres": launch.slurm.gres}
    return {} if launch.cpu else {"gpus-per-node": launch.per_node}


def _ends(launch: Launch) -> list[str]:
    """What happens at the time limit, and after a preemption."""
    lines = []
    if launch.slurm.signal:
        text = "All processes get SIGTERM before the limit: scripts converted with --resume take a"
        lines += comment(f"{text} snapshot and end.")
        lines.append(f"#SBATCH --signal=TERM@{launch.slurm.signal}")
    if launch.slurm.requeue:
        lines += comment("After a preemption the job starts again, and adds to the same output.")
        return [*lines, "#SBATCH --requeue", "#SBATCH --open-mode=append"]
    return lines


def _setup(launch: Launch) -> list[str]:
    """Before the nodes meet; srun hands the environment on to them."""
    lines = [f"module load {name}" for name in launch.slurm.modules]
    if lines:
        lines.insert(0, "module purge")
    return strict([*lines, *launch.setup])


def _command(launch: Launch) -> str:
    """``srun``; what the single quotes hold is evaluated by each task, the rest once."""
    place = launch.own_place("$((SLURM_NODEID == 0))", "$SLURMD_NODENAME")
    task = " && ".join([*launch.before, " ".join([_torchrun(launch), *place, '"$@"'])])
    parts = [
        'srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK"',
        f"bash -c '{task}' torchrun",
        *launch.rendezvous('"$SLURM_JOB_ID"', '"${nodes[0]}:$port"'),
        *launch.options(),
        " ".join(launch.command),
    ]
    return continued(parts)


def _torchrun(launch: Launch) -> str:
    if not launch.slurm.container:
        return "exec torchrun"
    gpus = "" if launch.cpu else "--nv "
    return f'exec apptainer exec {gpus}--bind "$PWD" {launch.slurm.container} torchrun'
