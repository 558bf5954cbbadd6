"""Environment variables: of the launcher, of the backends, of CUDA."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from ddpify.doctor.findings import Finding, error, note, warning
from ddpify.launching.variables import LAUNCHER, RENAMED, UNREAD

AREA = "variables"
_TASKS = {
    "SLURM_STEP_NUM_TASKS": "srun",
    "OMPI_COMM_WORLD_SIZE": "mpirun",
    "PMI_SIZE": "mpiexec",
}
"""Variables with the number of tasks that a launcher other than torchrun has started."""
_TORCHRUN = "start it with torchrun --standalone --nproc-per-node=N SCRIPT"
_SLOW = {
    ("CUDA_LAUNCH_BLOCKING", "1"): "every kernel is waited for",
    ("NCCL_P2P_DISABLE", "1"): "GPUs of a node exchange data through the host",
    ("NCCL_SHM_DISABLE", "1"): "GPUs of a node exchange data through the network",
    ("NCCL_IB_DISABLE", "1"): "nodes exchange data over TCP although there may be InfiniBand",
    ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"): "every collective is checked on all ranks first",
    ("NCCL_DEBUG", "TRACE"): "NCCL writes a line for every call",
}


def check_variables(env: Mapping[str, str], interfaces: Mapping[str, str]) -> Iterator[Finding]:
    """Findings in the environment ``env`` of a process; ``interfaces``: addresses by name."""
    yield from _launcher(env)
    yield from _names(env)
    yield from _slow(env)
    yield from _interfaces(env, interfaces)
    yield from _share_of_the_machine(env)


def _launcher(env: Mapping[str, str]) -> Iterator[Finding]:
    present = [name for name in LAUNCHER if env.get(name)]
    missing = [name for name in LAUNCHER if not env.get(name)]
    if "RANK" not in present and "WORLD_SIZE" not in present:
        yield from _started_without_ranks(env)
        yield note(AREA, "no launcher's variables: a script started here runs as one process")
        return
    if missing:
        yield error(AREA, f"{', '.join(missing)} not set, but {', '.join(present)} is", _TORCHRUN)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"):
        if env.get(name) and not env[name].isdecimal():
            yield error(AREA, f"{name}={env[name]!r} is not a number", _TORCHRUN)
            return
    if env.get("MASTER_PORT") and not 0 < int(env["MASTER_PORT"]) < 65536:
        message = f"MASTER_PORT={env['MASTER_PORT']} is no port"
        yield error(AREA, message, "set it to one from 1024 to 65535, the same for all ranks")
    if not missing and int(env["RANK"]) >= int(env["WORLD_SIZE"]):
        yield error(AREA, f"RANK={env['RANK']} of WORLD_SIZE={env['WORLD_SIZE']}", _TORCHRUN)


def _started_without_ranks(env: Mapping[str, str]) -> Iterator[Finding]:
    """Several tasks of a cluster's launcher, which sets none of what PyTorch reads."""
    for name, program in _TASKS.items():
        tasks = env.get(name, "")
        if tasks.isdecimal() and int(tasks) > 1:
            message = f"{program} has started {tasks} tasks that are not told their ranks"
            remedy = "start one torchrun a node, as `ddpify launch --on slurm` writes it"
            yield error(AREA, f"{message}: each would train by itself", remedy)


def _names(env: Mapping[str, str]) -> Iterator[Finding]:
    for name in sorted(set(env) & set(RENAMED)):
        yield warning(AREA, f"{name} is not read any more", f"set {RENAMED[name]} instead")
    for name in sorted(set(env) & set(UNREAD)):
        remedy = "give init_process_group a timeout (ddpify: DDPIFY_TIMEOUT, in seconds)"
        yield warning(AREA, f"nothing reads {name}", remedy)


def _slow(env: Mapping[str, str]) -> Iterator[Finding]:
    for (name, value), effect in _SLOW.items():
        if env.get(name, "").upper() == value:
            remedy = f"unset {name} unless you are looking for a fault"
            yield warning(AREA, f"{name}={value}: {effect}", remedy)


def _interfaces(env: Mapping[str, str], known: Mapping[str, str]) -> Iterator[Finding]:
    for variable in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        asked = env.get(variable, "")
        # NCCL takes prefixes, "=" for exact names and "^" for all but these.
        names = [name.lstrip("=") for name in asked.split(",") if name]
        if not names or asked.startswith("^") or not known:
            continue
        if not any(has.startswith(name) for name in names for has in known):
            remedy = f"name one of {', '.join(known)}, or unset it"
            yield error(AREA, f"{variable}={asked}: this machine has no such interface", remedy)
            continue
        chosen = [has for has in known if any(has.startswith(name) for name in names)]
        alone = all(known[has].startswith("127.") for has in chosen)
        if alone and env.get("GROUP_WORLD_SIZE", "1") != "1":
            message = f"{variable}={asked} is each node itself: nodes cannot exchange data there"
            yield error(AREA, message, f"name one of {', '.join(known)} that the nodes share")


def _share_of_the_machine(env: Mapping[str, str]) -> Iterator[Finding]:
    ranks = env.get("LOCAL_WORLD_SIZE", "1")
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if not ranks.isdecimal():
        return
    if visible and len(visible.split(",")) < int(ranks):
        message = f"CUDA_VISIBLE_DEVICES={visible} for {ranks} ranks on this node"
        yield error(AREA, message, "show as many devices as torchrun's --nproc-per-node")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads = env.get("OMP_NUM_THREADS", "")
    if threads and not threads.replace(",", "").isdecimal():
        message = f"OMP_NUM_THREADS={threads} is not a number: OpenMP ignores it"
        yield warning(AREA, message, "set a number of threads for each rank, or unset it")
    if cores and threads.isdecimal() and int(threads) * int(ranks) > cores:
        message = f"OMP_NUM_THREADS={threads} for {ranks} rank(s) on {cores} core(s)"
        yield warning(AREA, message, f"set OMP_NUM_THREADS={max(cores // int(ranks), 1)}")
