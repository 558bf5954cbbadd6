"""Options of other launchers that ``run`` does not have, and what does the same here."""

from __future__ import annotations

_SCRIPT = "`ddpify convert` writes it into the script: convert with {}"
_HERE = "leave it out: {}"

_REMEDIES = {
    "--num-processes": "it counts the processes of all nodes: give those of one node, --nproc",
    "--multi-gpu": _HERE.format("--nproc auto, the default, takes all GPUs"),
    "--gpu-ids": "name the GPUs in the environment: --env CUDA_VISIBLE_DEVICES=0,1",
    "--include": "name the GPUs in the environment: --env CUDA_VISIBLE_DEVICES=0,1",
    "--hostfile": "name the hosts: --hosts node1,node2",
    "--accelerator": "--cpu hides the GPUs; without it they are used",
    "--use-cpu": "--cpu hides the GPUs",
    "--mixed-precision": _SCRIPT.format("--strategy fsdp --mixed-precision bfloat16"),
    "--precision": _SCRIPT.format("--strategy fsdp --mixed-precision bfloat16"),
    "--strategy": _SCRIPT.format("--strategy ddp, fsdp or auto"),
    "--use-fsdp": _SCRIPT.format("--strategy fsdp"),
    "--config-file": "put the options into [tool.ddpify.launch] of pyproject.toml",
    "--standalone": _HERE.format("one node is started so"),
    "--rdzv-backend": _HERE.format("several nodes meet by c10d"),
    "--rdzv-endpoint": "name the first node with --main-address, and its port with --port",
    "--rdzv-id": _HERE.format("it is made of the script's name"),
    "--tee": "--log-dir writes each rank's output to files, and to the terminal",
    "--redirects": "--log-dir writes each rank's output to files, and to the terminal",
}
"""By the option's name, with dashes: Accelerate's, Fabric's, DeepSpeed's and torchrun's."""


def remedy_for(error: Exception) -> str:
    """What to write in place of an option that another launcher has; "" where it is none."""
    command = getattr(getattr(error, "ctx", None), "info_name", "")
    option = getattr(error, "option_name", None)
    return _REMEDIES.get(option, "") if command == "run" and option else ""
