"""Options of other launchers that ``run`` does not have, and what does the same here."""

from __future__ import annotations

_SCRIPT = "`ddpify convert` writes it into the script: convert with {}"
_HERE = "leave it out: {}"
_TORCHRUN = "ddpify run --dry-run prints the torchrun command: add {} to it"
_PRECISION = _SCRIPT.format("--mixed-precision bfloat16")
_GPUS = "name the GPUs in the environment: --env CUDA_VISIBLE_DEVICES=0,1"
_LOGS = "--log-dir writes each rank's output to files, and to the terminal"
_OWN = _HERE.format("it is for the script to say, and convert keeps what it says")
_COMPILE = _HERE.format("a script that calls torch.compile is compiled on all ranks")
_NOT_HERE = _HERE.format("ddpify starts torchrun with CUDA or the CPU, and has no {}")

_REMEDIES = {
    "--num-processes": "it counts the processes of all nodes: give those of one node, --nproc",
    "--multi-gpu": _HERE.format("--nproc auto, the default, takes all GPUs"),
    "--gpu-ids": _GPUS,
    "--include": _GPUS,
    "--exclude": _GPUS,
    "--hostfile": "name the hosts: --hosts node1,node2",
    "--accelerator": "--cpu hides the GPUs; without it they are used",
    "--use-cpu": "--cpu hides the GPUs",
    "--mixed-precision": _PRECISION,
    "--precision": _PRECISION,
    "--strategy": _SCRIPT.format("--strategy ddp, fsdp or auto"),
    "--use-fsdp": _SCRIPT.format("--strategy fsdp"),
    "--fsdp-activation-checkpointing": _SCRIPT.format("--activation-checkpointing"),
    "--config-file": "put the options into [tool.ddpify.launch] of pyproject.toml",
    "--standalone": _HERE.format("one node is started so"),
    "--rdzv-backend": _HERE.format("several nodes meet by c10d"),
    "--rdzv-endpoint": "name the first node with --main-address, and its port with --port",
    "--rdzv-id": _HERE.format("it is made of the script's name"),
    "--same-network": _HERE.format("several nodes meet by c10d"),
    "--tee": _LOGS,
    "--redirects": _LOGS,
    "--enable-each-rank-log": _LOGS,
    "--num-cpu-threads-per-process": "set them in the environment: --env OMP_NUM_THREADS=8",
    "--enable-cpu-affinity": _TORCHRUN.format("--numa-binding=node"),
    "--bind-cores-to-rank": _TORCHRUN.format("--numa-binding=node"),
    "--bind-core-list": _TORCHRUN.format("--numa-binding=node"),
    "--gradient-accumulation-steps": _OWN,
    "--gradient-clipping": _OWN,
    "--launcher": "`ddpify launch --on slurm` writes a batch script; --hosts starts over ssh",
    "--launcher-args": "`ddpify launch` has options of Slurm; --ssh reaches hosts",
    "--ssh-port": 'give it to ssh: --ssh "ssh -p PORT"',
    "--no-ssh": "start each node by itself, with --main-address and --node-rank",
    "--no-ssh-check": _HERE.format("hosts are not tried beforehand"),
    "--force-multi": _HERE.format("--hosts starts over ssh, one host too"),
    "--venv-script": _HERE.format("each host takes the Python that runs ddpify here"),
    "--no-local-rank": _HERE.format("torchrun passes no such option to the script"),
    "--save-pid": _HERE.format("on one node torchrun has the process id of ddpify run"),
    "--debug": "set TORCH_DISTRIBUTED_DEBUG=DETAIL with --env, or run `ddpify check`",
    "--log-level": "set it in the environment: --env TORCHELASTIC_LOG_LEVEL=INFO",
    "--quiet": _HERE.format("ddpify run prints nothing of its own"),
    "--autotuning": "`ddpify profile` measures, and `ddpify plan` says which batch fits",
    "--downcast-bf16": _NOT_HERE.format("TPU"),
    "--vm": _NOT_HERE.format("TPU"),
    "--main-training-function": _NOT_HERE.format("TPU"),
}
"""By the option's name, with dashes: Accelerate's, Fabric's, DeepSpeed's and torchrun's."""

_FAMILIES = {
    "--tpu": _NOT_HERE.format("TPU"),
    "--no-tpu": _NOT_HERE.format("TPU"),
    "--aws-": _NOT_HERE.format("SageMaker"),
    "--mpirun-": _NOT_HERE.format("MPI"),
    "--megatron-lm-": _NOT_HERE.format("Megatron-LM"),
    "--use-megatron-lm": _NOT_HERE.format("Megatron-LM"),
    "--parallelism-config-": _NOT_HERE.format("tensor, context or sequence parallelism"),
    "--use-parallelism-config": _NOT_HERE.format("tensor, context or sequence parallelism"),
    "--fp8-": _NOT_HERE.format("8-bit floats"),
    "--deepspeed-": _NOT_HERE.format("DeepSpeed: convert --strategy fsdp shards models"),
    "--use-deepspeed": _NOT_HERE.format("DeepSpeed: convert --strategy fsdp shards models"),
    "--zero": _NOT_HERE.format("DeepSpeed: convert --strategy fsdp shards models"),
    "--offload-": _NOT_HERE.format("offloading: convert --strategy fsdp shards models"),
    "--fsdp-": _SCRIPT.format("--strategy fsdp; docs/fsdp.md says what it wraps"),
    "--dynamo-": _COMPILE,
}
"""By how the option's name begins; :data:`_REMEDIES` go before them."""

_OF_TORCHRUN = (
    "--duplicate-stderr-filters", "--duplicate-stdout-filters", "--event-log-handler",
    "--local-addr", "--local-ranks-filter", "--logs-specs", "--monitor-interval", "--no-python",
    "--numa-binding", "--rdzv-conf", "--role", "--run-path", "--shutdown-timeout",
    "--signals-to-handle", "--start-method", "--virtual-local-rank",
)  # fmt: skip
_TAKE_A_SCRIPT = ("run", "launch", "profile", "plan", "verify", "check")


def remedy_for(error: Exception) -> str:
    """What to write in place of an option that a command does not have; "" where nothing is known.

    It may be another launcher's, or the script's own.
    """
    command = getattr(getattr(error, "ctx", None), "info_name", "")
    option = getattr(error, "option_name", None)
    if not option or command not in _TAKE_A_SCRIPT:
        return ""
    known = _of_a_launcher(option) if command == "run" else ""
    return known or f"options of the script go after --: ddpify {command} SCRIPT -- {option}"


def _of_a_launcher(option: str) -> str:
    if option in _OF_TORCHRUN:
        return _TORCHRUN.format(option)
    families = (remedy for start, remedy in _FAMILIES.items() if option.startswith(start))
    return _REMEDIES.get(option) or next(families, "")
