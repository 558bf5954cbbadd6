"""Plain torchrun: a script for one node, or a line for each of several."""

from __future__ import annotations

from ddpify.launching.launch import Launch, comment, continued, own_place


def torchrun(launch: Launch) -> str:
    """The text of the launch file."""
    return _one_node(launch) if launch.nodes == 1 else _lines(launch)


def _one_node(launch: Launch) -> str:
    lines = ["#!/bin/bash", *comment(f"{launch.title}.")]
    lines += [f"export {name}={value}" for name, value in launch.environment.items()]
    lines += comment("--standalone finds a free port, so that runs on one machine never meet.")
    parts = ["exec torchrun", "--standalone", *launch.options(), " ".join(launch.command)]
    return "\n".join([*lines, continued(parts)]) + "\n"


def _lines(launch: Launch) -> str:
    hosts = launch.hosts or [f"node{number}" for number in range(launch.nodes)]
    lines = comment(
        f"{launch.title}: run each line on its node, in any order. They wait for each other."
    )
    if not launch.hosts:
        lines += comment(f"Replace {hosts[0]} to {hosts[-1]} by your nodes' names or addresses.")
    lines += comment(
        f"{hosts[0]} must be reachable from the others at port {launch.port}, and all of them from "
        "each other at any port."
    )
    for number, host in enumerate(hosts):
        lines += ["", f"# on {host}", _line(launch, number, hosts[0], host)]
    return "\n".join(lines) + "\n"


def _line(launch: Launch, number: int, first: str, host: str) -> str:
    variables = [f"{name}={value}" for name, value in launch.environment.items()]
    meeting = launch.rendezvous(launch.job_name, f"{first}:{launch.port}")
    place = own_place("1" if number == 0 else "0", host)
    parts = [*variables, "torchrun", *launch.options(), *meeting, *place, *launch.command]
    return " ".join(parts)
