"""``ddpify launch``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Optional

import typer

from ddpify.cli.app import app
from ddpify.cli.settings import from_command_line

_SLURM, _KUBERNETES, _NETWORK = "Slurm", "Kubernetes and Kubeflow", "Network"
System = Literal["torchrun", "slurm", "kubernetes", "kubeflow", "trainjob"]


@app.command()
def launch(
    context: typer.Context,
    script: Annotated[
        str,
        typer.Argument(help="The distributed script, as the nodes see it, or a module with -m."),
    ],
    on: Annotated[
        System,
        typer.Option(
            help="kubernetes: an Indexed Job; kubeflow: a PyTorchJob; trainjob: Trainer v2's."
        ),
    ] = "torchrun",
    nodes: Annotated[
        str, typer.Option("--nodes", "--nnodes", metavar="N|MIN:MAX", help="Nodes.")
    ] = "1",
    gpus_per_node: Annotated[
        str,
        typer.Option(
            "--gpus-per-node",
            "--nproc",
            "--nproc-per-node",
            metavar="N|auto",
            help="GPUs, and so processes, on each node; torchrun's auto: all that it has.",
        ),
    ] = "1",
    module: Annotated[
        bool, typer.Option("-m", "--module", help="Run a module, as python -m does.")
    ] = False,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("-o", "--output", help="Write it there instead of printing it."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an output file that is there already.")
    ] = False,
    cpu: Annotated[bool, typer.Option("--cpu", help="Train on the CPU: ask for no GPU.")] = False,
    name: Annotated[str, typer.Option(help="The job's name; default: the script's.")] = "",
    env: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="NAME=VALUE", help="An environment variable; may be repeated."),
    ] = None,
    setup: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="LINE", help="A shell command before torchrun; may be repeated."),
    ] = None,
    cpus_per_process: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=1,
            help="CPU cores for each process and its loader workers; default: 8, in pods 3.",
        ),
    ] = None,
    memory: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(min=1, help="GiB of each node's memory."),
    ] = None,
    max_restarts: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=0,
            help="How often torchrun starts again after a failure; default: 0, of MIN:MAX nodes 3.",
        ),
    ] = None,
    log_dir: Annotated[
        str,
        typer.Option(
            metavar="FOLDER", help="Also write each rank's output there, in files of its own."
        ),
    ] = "",
    hosts: Annotated[
        str,
        typer.Option(
            metavar="HOST,HOST",
            help="The nodes' names or addresses, as in a,b,c.",
            rich_help_panel=_NETWORK,
        ),
    ] = "",
    port: Annotated[
        int,
        typer.Option(
            min=1024,
            max=65535,
            help="The rendezvous's port on the first node.",
            rich_help_panel=_NETWORK,
        ),
    ] = 29500,
    interface: Annotated[
        str,
        typer.Option(
            help="The network interface between the nodes, such as eth0.",
            rich_help_panel=_NETWORK,
        ),
    ] = "",
    ib_hca: Annotated[
        str,
        typer.Option(
            help="The InfiniBand devices for NCCL, such as mlx5_0,mlx5_1.",
            rich_help_panel=_NETWORK,
        ),
    ] = "",
    nccl_debug: Annotated[
        str,
        typer.Option(
            metavar="FOLDER",
            help="Write NCCL's messages there, a file for each process.",
            rich_help_panel=_NETWORK,
        ),
    ] = "",
    time: Annotated[
        str,
        typer.Option(metavar="[DAYS-]HH:MM:SS", help="The time limit.", rich_help_panel=_SLURM),
    ] = "",
    partition: Annotated[str, typer.Option(help="The partition.", rich_help_panel=_SLURM)] = "",
    account: Annotated[
        str, typer.Option(help="The account that pays.", rich_help_panel=_SLURM)
    ] = "",
    qos: Annotated[str, typer.Option(help="The quality of service.", rich_help_panel=_SLURM)] = "",
    gres: Annotated[
        str,
        typer.Option(
            help="Generic resources, as in gpu:a100:8, in place of --gpus-per-node.",
            rich_help_panel=_SLURM,
        ),
    ] = "",
    exclusive: Annotated[
        bool,
        typer.Option("--exclusive", help="No other jobs on the nodes.", rich_help_panel=_SLURM),
    ] = False,
    requeue: Annotated[
        bool,
        typer.Option(
            "--requeue",
            help="Start again after a preemption, and after --signal.",
            rich_help_panel=_SLURM,
        ),
    ] = False,
    signal: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="Send SIGTERM so long before the limit, for a last snapshot.",
            rich_help_panel=_SLURM,
        ),
    ] = None,
    load_module: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="MODULE",
            help="An environment module to load; may be repeated.",
            rich_help_panel=_SLURM,
        ),
    ] = None,
    container: Annotated[
        str, typer.Option(help="An image that Apptainer runs.", rich_help_panel=_SLURM)
    ] = "",
    image: Annotated[
        str, typer.Option(help="The container image.", rich_help_panel=_KUBERNETES)
    ] = "",
    volume: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="CLAIM:/PATH",
            help="A persistent volume, as for checkpoints; may be repeated.",
            rich_help_panel=_KUBERNETES,
        ),
    ] = None,
    deadline: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="End the job then, as in 12h.", rich_help_panel=_KUBERNETES
        ),
    ] = "",
    ttl: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="Delete the finished job so long after its end.",
            rich_help_panel=_KUBERNETES,
        ),
    ] = "",
    rdma: Annotated[
        str,
        typer.Option(
            metavar="RESOURCE[=COUNT]",
            help="The cluster's device for RDMA, as in rdma/hca_shared_devices_a.",
            rich_help_panel=_KUBERNETES,
        ),
    ] = "",
    pod_restarts: Annotated[
        int,
        typer.Option(
            min=0,
            help="How often a node's pod is replaced; preemptions do not count.",
            rich_help_panel=_KUBERNETES,
        ),
    ] = 0,
    runtime: Annotated[
        str, typer.Option(help="The training runtime of a TrainJob.", rich_help_panel=_KUBERNETES)
    ] = "torch-distributed",
) -> None:
    """Write a launch file: for torchrun by hand, Slurm, Kubernetes or Kubeflow.

    Arguments after -- go to the script. The table tool.ddpify.launch of pyproject.toml
    may hold options.
    """
    from ddpify.launching import values
    from ddpify.launching.command import launch_file
    from ddpify.launching.launch import Launch
    from ddpify.launching.options import KubernetesOptions, SlurmOptions, check_options
    from ddpify.launching.output import put

    check_options(from_command_line(context), on)
    least, most = values.counts(nodes)
    request = Launch(
        script,
        context.obj or (),
        nodes=most,
        least_nodes=least,
        per_node=values.processes(gpus_per_node),
        cpu=cpu,
        name=name,
        hosts=values.hosts(hosts),
        port=port,
        interface=values.interfaces(interface),
        ib_hca=values.word("--ib-hca", ib_hca),
        nccl_debug=values.word("--nccl-debug", nccl_debug),
        variables=values.variables(env or ()),
        setup=values.setup(setup or ()),
        cpus_per_process=cpus_per_process,
        memory=memory or 0,
        max_restarts=max_restarts,
        log_dir=values.word("--log-dir", log_dir),
        module=module,
        slurm=SlurmOptions(
            time=values.slurm_time(time),
            partition=values.word("--partition", partition),
            account=values.word("--account", account),
            qos=values.word("--qos", qos),
            gres=values.word("--gres", gres),
            exclusive=exclusive,
            requeue=requeue,
            signal=signal or 0,
            modules=tuple(values.word("--load-module", one) for one in load_module or ()),
            container=values.word("--container", container),
        ),
        kubernetes=KubernetesOptions(
            image=values.word("--image", image),
            volumes=values.volumes(volume or ()),
            deadline=values.seconds("--deadline", deadline),
            ttl=values.seconds("--ttl", ttl),
            rdma=values.resource(rdma),
            pod_restarts=pod_restarts,
            runtime=values.word("--runtime", runtime),
        ),
    )
    put(launch_file(request, on), output, overwrite=overwrite)
