"""Plain torchrun: a script for one node, or one for all of several."""

from __future__ import annotations

from collections.abc import Sequence

from ddpify.launching.launch import Launch, comment, continued, strict
from ddpify.launching.variables import exports

_NODE = """
hosts=({hosts})
node=${{1:?the number of this node, from 0 to {last}}}
: "${{hosts[node]:?there is no such node}}"
"""


def torchrun(launch: Launch) -> str:
    """The text of the launch file."""
    lines = _several(launch) if launch.nodes > 1 else _one_node(launch)
    return "\n".join(["#!/bin/bash", *lines]) + "\n"


def _one_node(launch: Launch) -> list[str]:
    lines = [*comment(f"{launch.title}."), *_prepared(launch)]
    lines += comment("--standalone finds a free port, so that runs on one machine never meet.")
    parts = [
        "exec torchrun",
        "--standalone",
        *launch.options(),
        *launch.logs(""),
        " ".join(launch.command),
    ]
    return [*lines, continued(parts)]


def _several(launch: Launch) -> list[str]:
    """A script that is the same on all nodes, and is told on which of them it runs."""
    hosts = launch.hosts or [f"node{number}" for number in range(launch.nodes)]
    lines = comment(f"{launch.title}: run it on each node with the node's number, in any order.")
    lines += comment(f"bash THIS_FILE 0 on {hosts[0]}, bash THIS_FILE 1 on {hosts[1]}, ...")
    if not launch.hosts:
        lines += comment("Replace the hosts by your nodes' names or addresses.")
    lines += comment(
        f"The first must be reachable from the others at port {launch.port}, and all of them from "
        "each other at any port."
    )
    lines += _prepared(launch)
    return [*lines, _meeting(launch, hosts), continued(_command(launch))]


def _prepared(launch: Launch) -> list[str]:
    """What comes before torchrun on every node."""
    return [*strict(launch.setup), *exports(launch.environment), *launch.before]


def _meeting(launch: Launch, hosts: Sequence[str]) -> str:
    named = " ".join(hosts)
    return _NODE.format(hosts=named, last=len(hosts) - 1)


def _command(launch: Launch) -> list[str]:
    return [
        "exec torchrun",
        *launch.options(),
        *launch.rendezvous(launch.job_name, f'"${{hosts[0]}}:{launch.port}"'),
        *launch.own_place("$((node == 0))", "${hosts[node]}"),
        " ".join(launch.command),
    ]
