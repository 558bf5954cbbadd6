"""A batch script for Slurm: one task a node, which is that node's torchrun."""

from __future__ import annotations

from ddpify.launching.launch import Launch, comment, continued, own_place

_MEETING = """
# The nodes meet on the first one of them, at a port that other jobs there do not have.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
port=$((20000 + SLURM_JOB_ID % 10000))

# srun starts one torchrun a node. Which node it is on, only the task itself can tell.
# shellcheck disable=SC2016
""".strip("\n")


def slurm(launch: Launch) -> str:
    """The text of the batch script."""
    exports = [f"export {name}={value}" for name, value in launch.environment.items()]
    lines = ["#!/bin/bash", *comment(f"{launch.title}: sbatch THIS_FILE"), *_resources(launch), ""]
    lines += ["set -euo pipefail", *exports, "", _MEETING, _command(launch)]
    return "\n".join(lines) + "\n"


def _resources(launch: Launch) -> list[str]:
    lines = [
        f"#SBATCH --job-name={launch.job_name}",
        "#SBATCH --output=%x-%j.out",
        f"#SBATCH --nodes={launch.nodes}",
        "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --cpus-per-task={launch.per_node * launch.cpus_per_process}",
    ]
    if not launch.cpu:
        lines.append(f"#SBATCH --gpus-per-node={launch.per_node}")
    if launch.time:
        return [*lines, f"#SBATCH --time={launch.time}"]
    return [
        *lines,
        *comment("Add what your cluster asks for: --partition, --account, --time, --mem."),
    ]


def _command(launch: Launch) -> str:
    """``srun``; what the single quotes hold is evaluated by each task, the rest once."""
    place = own_place("$((SLURM_NODEID == 0))", "$SLURMD_NODENAME")
    task = " ".join(["exec torchrun", *(f'"{option}"' for option in place), '"$@"'])
    parts = [
        'srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK"',
        f"bash -c '{task}' torchrun",
        *launch.rendezvous('"$SLURM_JOB_ID"', '"${nodes[0]}:$port"'),
        *launch.options(),
        " ".join(launch.command),
    ]
    return continued(parts)
