"""``ddpify run``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Optional

import typer

from ddpify.cli.app import app
from ddpify.cli.settings import from_command_line

_NODES = "Several nodes"


@app.command()
def run(
    context: typer.Context,
    script: Annotated[str, typer.Argument(help="The distributed script, or a module with -m.")],
    nproc: Annotated[
        str,
        typer.Option(
            "--nproc",
            "--nproc-per-node",
            "--devices",
            "--num-gpus",
            "--num-accelerators",
            metavar="N|auto|gpu|cpu",
            help="Processes on each node; auto: one a GPU, without GPUs one a CPU core.",
        ),
    ] = "auto",
    module: Annotated[
        bool, typer.Option("-m", "--module", help="Run a module, as python -m does.")
    ] = False,
    max_restarts: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            min=0, help="How often to start again after a failure; default: 0, of MIN:MAX nodes 3."
        ),
    ] = None,
    log_dir: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Also write each rank's output there, in files of its own."),
    ] = None,
    env: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="NAME=VALUE", help="An environment variable; may be repeated."),
    ] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="Hide the GPUs.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be started.")
    ] = False,
    nodes: Annotated[
        str,
        typer.Option(
            "--nodes",
            "--nnodes",
            "--num-nodes",
            "--num-machines",
            metavar="N|MIN:MAX",
            help="Nodes; of a range all but the first may leave.",
            rich_help_panel=_NODES,
        ),
    ] = "1",
    hosts: Annotated[
        str,
        typer.Option(
            metavar="HOST,HOST",
            help="Start on these hosts over ssh, as in a,b,c.",
            rich_help_panel=_NODES,
        ),
    ] = "",
    main_address: Annotated[
        str,
        typer.Option(
            "--main-address",
            "--master-addr",
            "--main-process-ip",
            help="The first node, where each is started by itself.",
            rich_help_panel=_NODES,
        ),
    ] = "",
    node_rank: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--node-rank",
            "--machine-rank",
            min=0,
            help="Which node this is, from 0; default: as torchrun finds out.",
            rich_help_panel=_NODES,
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            "--port",
            "--master-port",
            "--main-port",
            "--main-process-port",
            min=1024,
            max=65535,
            help="The rendezvous's port on the first node.",
            rich_help_panel=_NODES,
        ),
    ] = 29500,
    interface: Annotated[
        str,
        typer.Option(
            help="The network interface between the nodes, such as eth0.",
            rich_help_panel=_NODES,
        ),
    ] = "",
    ssh: Annotated[
        str,
        typer.Option(help="The command that reaches a host.", rich_help_panel=_NODES),
    ] = "ssh -tt -o BatchMode=yes",
) -> None:
    """Start training with torchrun: here, as one of several nodes, or over ssh on all of them.

    Arguments after -- go to the script. The table tool.ddpify.launch of pyproject.toml
    may hold options. Over ssh, each host needs the same folder and Python at the same paths.
    """
    from ddpify.launching import values
    from ddpify.launching.launch import Launch
    from ddpify.launching.run import Run, check_given, commands, start

    counts, named = values.counts(nodes), values.hosts(hosts)
    check_given(from_command_line(context), nodes=counts[1], hosts=len(named))
    given = Launch(
        script,
        nodes=max(counts[1], len(named)),
        least_nodes=counts[0] if counts[1] > 1 else 0,
        max_restarts=max_restarts,
        interface=values.interfaces(interface),
        variables={**({"CUDA_VISIBLE_DEVICES": ""} if cpu else {}), **values.variables(env or ())},
    )
    request = Run(
        script,
        context.obj or (),
        module=module,
        nproc=nproc,
        nodes=counts,
        hosts=named,
        node_rank=node_rank,
        address=values.host("--main-address", main_address),
        port=port,
        log_dir=log_dir,
        max_restarts=max_restarts,
        variables=given.environment,
        ssh=ssh,
    )
    if dry_run:
        print("\n".join(shlex.join(command) for command in commands(request)))
    else:
        raise typer.Exit(start(request))
