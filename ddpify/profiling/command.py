"""`ddpify profile`: one run for each number of processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version

from ddpify.errors import DdpifyError, ExitCode
from ddpify.profiling.runs import Request, measure
from ddpify.profiling.scaling import Profile


def profile(request: Request, counts: Sequence[int], echo: Callable[[str], None]) -> Profile:
    """Measure the script on each of the numbers of processes; ``echo`` is told of each run.

    Raises:
        DdpifyError: The script is not there, torch is missing, or a run failed.
    """
    if not request.script.is_file():
        raise DdpifyError(
            "no such script", path=request.script, remedy="name one", exit_code=ExitCode.USAGE
        )
    try:
        torch = version("torch")
    except PackageNotFoundError:
        remedy = "pip install 'ddpify[torch]'"
        raise DdpifyError(
            "torch is not installed in this environment", remedy=remedy, exit_code=ExitCode.USAGE
        ) from None
    request.arguments(1)  # a wrong option is an error now, not after the first run
    points = []
    for ranks in sorted(set(counts)):
        echo(f"{request.script} on {ranks} process(es)")
        points.append(measure(request, ranks))
    return Profile(str(request.script), torch, tuple(points), weak=bool(request.weak))
