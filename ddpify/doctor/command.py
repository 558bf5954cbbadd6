"""`ddpify doctor`: one rank's part under a launcher; else this machine, and a group of its own."""

from __future__ import annotations

import json
import os
import subprocess

from ddpify.doctor.findings import Finding, Level, error
from ddpify.doctor.machine import check_machine
from ddpify.doctor.network import check_network, interfaces
from ddpify.doctor.variables import check_variables
from ddpify.launching.local import environment, torchrun_here

GROUP_SECONDS = 300.0
WAIT_SECONDS = 60.0


def examine(nproc: int | None, wait: float = WAIT_SECONDS) -> list[Finding] | None:
    """All findings; None on ranks other than 0, whose findings rank 0 has.

    Under a launcher, all ranks must call it. Where they cannot join, each rank has its own: the
    first of a node all that it has found, the others the errors.

    Args:
        nproc: Ranks to start on this machine where there is no launcher; None: one for each GPU,
            or two.
        wait: Seconds that ranks wait for each other.
    """
    env = os.environ
    known = interfaces()
    own = list(check_variables(env, known))
    patience = 0.0 if any(one.level is Level.ERROR for one in own) else wait
    own += [*check_machine(env), *check_network(env, known, patience)]
    if "RANK" in env:
        return _among_the_ranks(own, wait)
    if any(_keeps_from_joining(one) for one in own):
        return own
    ranks = nproc or _usual_ranks()
    started = _started(ranks) if ranks > 1 else []
    return own + [one for one in started if one.area in ("ranks", "files")]


def _among_the_ranks(own: list[Finding], wait: float) -> list[Finding] | None:
    found: list[Finding] | None = own
    if not any(_keeps_from_joining(one) for one in own):
        from ddpify.doctor.group import check_group
        from ddpify.doctor.joining import Place

        found = check_group(own, Place.of(os.environ), wait)
    if found is None or os.environ.get("LOCAL_RANK") in (None, "", "0"):
        return found
    return [one for one in found if one.level is Level.ERROR]


def _keeps_from_joining(finding: Finding) -> bool:
    return finding.level is Level.ERROR and finding.area in ("variables", "versions", "network")


def _usual_ranks() -> int:
    import torch

    return torch.cuda.device_count() or 2


def _started(ranks: int) -> list[Finding]:
    """What a group of ranks on this machine finds."""
    command = [*torchrun_here(ranks), "-m", "ddpify", "doctor", "--json"]
    try:
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=GROUP_SECONDS
        )
        return [Finding.from_json(one) for one in json.loads(done.stdout)["findings"]]
    except subprocess.TimeoutExpired:
        reason = f"they did not end within {GROUP_SECONDS:.0f} s"
    except (ValueError, KeyError):
        lines = [line for line in done.stderr.splitlines() if "Error" in line]
        reason = lines[0].strip() if lines else f"exit code {done.returncode}"
    remedy = f"see all of it: {' '.join(['torchrun', *command[3:-1]])}"
    return [error("ranks", f"{ranks} ranks on this machine failed: {reason}", remedy)]


def as_text(findings: list[Finding]) -> str:
    """A list by area, the remedy under each finding."""
    lines: list[str] = []
    for area in dict.fromkeys(one.area for one in findings):
        lines.append(area)
        for one in (one for one in findings if one.area == area):
            level = "" if one.level is Level.NOTE else f"{one.level.value}: "
            ranks = f" (rank {', '.join(map(str, one.ranks))})" if one.ranks else ""
            lines.append(f"  {level}{one.message}{ranks}")
            if one.remedy:
                lines.append(f"    remedy: {one.remedy}")
    serious = [one for one in findings if one.level is not Level.NOTE]
    lines.append(f"{len(serious)} finding(s)" if serious else "nothing found")
    return "\n".join(lines)


def as_json(findings: list[Finding]) -> str:
    """The findings as one JSON object."""
    return json.dumps({"findings": [one.to_json() for one in findings]}, indent=2)


def exit_code(findings: list[Finding]) -> int:
    """1 where something was found, else 0."""
    return int(any(one.level is not Level.NOTE for one in findings))
