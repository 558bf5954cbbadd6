"""One run of one script, as the launcher asks the worker for it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

CACHES = ("MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR")
"""Variables that name a folder in which a library keeps what it found out."""


@dataclass(frozen=True)
class Job:
    """What to run and how.

    Attributes:
        script: Absolute path of the script (in its copy).
        shown_as: ``sys.argv[0]``: the script's path as a person would type it in ``cwd``.
        args: The script's arguments.
        cwd: Absolute working folder.
        root: The copy of the user's folder.
        sandbox: Folder that holds the copy; the script may write below it.
        leads: See ``launch.python_path``.
        protected: Folders of the user: nothing below them is ever written.
        out: Folder for the records.
        world_size: Number of ranks; 1 starts the script as plain ``python`` does.
        cuda: Redirect CUDA to the CPU.
        gpus: Run on the machine's GPUs, one a rank.
        noise: Relative size of the noise put on what meets a parameter; 0 for none.
        replay: A file of the batches that the loaders yield; empty for their own.
        ghost: Normalise batches as so many ranks do that do not synchronise it; 0 for as usual.
        strided: Whether those ranks take every n-th row instead of contiguous parts.
        hidden: Folder of other runs and records, which the script may not read.
        hash_seeds: Start each rank with its own seed for the hashes of strings.
        equal_at: Places in the training loop (pass, batch, number of the draw) whose random tensors
            have equal rows.
        listings: List folders in another order on each rank other than 0.
        checking: Leave chance as it is, and record the lines of output, writes and loaders, and the
            optimizers' states: what ``ddpify check`` needs.
        steps: Optimizer steps that are recorded.
        stop: End the script after ``steps`` steps.
        timeout: Seconds after which every rank is ended.
        stall: Seconds without any rank using the processor, one of them in a collective, that count
            as a hang.
    """

    script: str
    shown_as: str
    args: tuple[str, ...]
    cwd: str
    root: str
    sandbox: str
    protected: tuple[str, ...]
    out: str
    leads: tuple[tuple[str, str], ...] = ()
    world_size: int = 1
    cuda: bool = False
    gpus: bool = False
    noise: float = 0.0
    replay: str = ""
    ghost: int = 0
    strided: bool = False
    hidden: str = ""
    hash_seeds: bool = False
    equal_at: tuple[tuple[int, int, int], ...] = ()
    listings: bool = True
    checking: bool = False
    steps: int = 200
    stop: bool = False
    timeout: float = 600.0
    stall: float = 20.0
    env: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A dictionary for ``from_json`` on the other side of a pipe."""
        return asdict(self)

    @staticmethod
    def from_json(values: dict[str, Any]) -> Job:
        """The job that ``to_json`` was called on."""
        tuples = {name: tuple(values[name]) for name in ("args", "protected")}
        leads = tuple((mine, there) for mine, there in values["leads"])
        equal = tuple((turn, batch, number) for turn, batch, number in values["equal_at"])
        return Job(**{**values, **tuples, "leads": leads, "equal_at": equal})
