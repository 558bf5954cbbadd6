"""One of two ranks that run many small scripts one after the other: what each did, as JSON.

``python fix_worker.py FOLDER RANK PORT``: the scripts are ``FOLDER/*.py``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

_PATIENCE = timedelta(seconds=30)
_start = dist.init_process_group


def _meet(folder: Path, name: str, rank: int) -> None:
    """Wait for the other rank."""
    (folder / f"{name}.{rank}").touch()
    end = time.monotonic() + 4 * _PATIENCE.total_seconds()
    while not (folder / f"{name}.{1 - rank}").exists():
        if time.monotonic() > end:
            raise TimeoutError(name)
        time.sleep(0.002)


def _run(script: Path, folder: Path, rank: int, shared: dist.Store) -> dict[str, Any]:
    """Run one script in a folder of its own, with a group of its own."""
    here = folder / script.stem
    here.mkdir(exist_ok=True)
    os.chdir(here)
    printed, error = io.StringIO(), None

    def init(*args: object, **given: object) -> None:
        store = dist.PrefixStore(script.stem, shared)
        _start(args[0] if args else "gloo", store=store, rank=rank, world_size=2, timeout=_PATIENCE)

    dist.init_process_group = init
    torch.manual_seed(0)
    kept = dict(os.environ)
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(script.read_text(), str(script), "exec"), {"__name__": "__main__"})
    except BaseException as failure:
        error = type(failure).__name__
    os.environ.clear()
    os.environ.update(kept)
    _meet(folder, f"{script.stem}.done", rank)  # neither leaves while the other still joins
    if dist.is_initialized():
        dist.destroy_process_group()
    files = sorted(str(one.relative_to(here)) for one in here.rglob("*"))
    return {"error": error, "printed": printed.getvalue(), "files": files}


def main() -> None:
    """Run all scripts, and write what happened."""
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    torch.set_num_threads(1)
    shared = dist.TCPStore("127.0.0.1", int(sys.argv[3]), 2, rank == 0)
    done = {one.stem: _run(one, folder, rank, shared) for one in sorted(folder.glob("*.py"))}
    (folder / f"rank{rank}.json").write_text(json.dumps(done))
    _meet(folder, "end", rank)  # rank 0 has the store
    os._exit(0)  # threads of groups that failed may never end


if __name__ == "__main__":
    main()
