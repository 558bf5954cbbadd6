"""When snapshots are taken, what they hold, and how all ranks come to agree on it."""

import atexit
import contextlib
import hashlib
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ddpify.runtime.failures import all_have_left
from ddpify.runtime.position import Level, position
from ddpify.runtime.process import device, is_main, kept, rank, world_size
from ddpify.runtime.rng import (
    capture_own_stream,
    capture_streams,
    fork_own_stream,
    reinstate_own_stream,
    reinstate_streams,
)
from ddpify.runtime.snapshot_files import SnapshotFolder, parse
from ddpify.runtime.state import changed_in_place, encode, forms_alone, restore, take_left_out
from ddpify.runtime.terminate import STOPPED, asked_to_stop, watch_for_sigterm

_DUE, _STOP = 1, 2


class Agreement:
    """What any rank asks for, known to all ranks a step later.

    The exchange of one step runs while the step is computed, so that nothing waits for it.
    """

    def __init__(self) -> None:
        self.flag: torch.Tensor | None = None
        self.work: Any = None

    def ask(self, what: int) -> None:
        """Say what this rank asks for; the largest number of all ranks holds."""
        self.flag = torch.tensor([what])
        if world_size() > 1:
            self.work = dist.all_reduce(kept(self.flag), dist.ReduceOp.MAX, async_op=True)

    def answer(self) -> int:
        """What was asked for last, once."""
        if self.work is not None:
            self.work.wait()
        found = 0 if self.flag is None else int(self.flag.item())
        self.flag = self.work = None
        return found


class Snapshots:
    """The snapshots of this training.

    ``every_steps``: a snapshot after so many calls of snapshot(); where it is None, after
    ``every_seconds`` by rank 0's clock.
    """

    def __init__(
        self, folder: str | os.PathLike[str], every_steps: int | None, every_seconds: float
    ) -> None:
        self.folder = SnapshotFolder(folder)
        self.every_steps = every_steps
        self.every_seconds = every_seconds
        self.taken_at = time.monotonic()
        self.steps = 0
        self.wanted = 0
        self.streams: Any = None
        self.checked = False
        self.agreement = Agreement()
        self.muted: int | None = None
        self.failing = False  # whether the last snapshot could not be written

    def load(self) -> dict[str, Any] | None:
        """The newest whole snapshot, on all ranks; None where there is none. A collective.

        Raises OSError where snapshots could not be written, RuntimeError where those in the
        folder are another script's.
        """
        found = self._read() if is_main() else None
        _raise_alike(found)
        content = _from_main(found[1] if isinstance(found, tuple) else b"")
        watch_for_sigterm()
        atexit.register(self._end)
        if not content:
            return None
        target: dict[str, Any] = parse(content)
        if target["script"] != _script():
            raise RuntimeError(
                f"{self.folder.path} holds snapshots of {target['script']}, and this is "
                f"{_script()}: name another folder in init(snapshots=...)"
            )
        target["passes"] = restore(target["passes"], None)
        self.steps = target["steps"] - 1  # the step of the snapshot begins again
        self._mute()
        if is_main() and isinstance(found, tuple):
            print(
                f"ddpify: resuming from the snapshot {found[0]} (to start anew, remove it)",
                file=sys.stderr,
            )
        return target

    def _read(self) -> tuple[Path, bytes] | OSError | None:
        try:
            self.folder.check_writable()
            return self.folder.newest()
        except OSError as error:
            return error

    def before_fetch(self) -> None:
        """A loop is about to take its next item: what it draws for it must be drawn again."""
        self.wanted = max(self.wanted, self.agreement.answer())
        if self.wanted:
            self.streams = _capture_random()

    def boundary(self, level: Level) -> None:
        """The start of an iteration: take a snapshot if all ranks have agreed on one."""
        if position().target is not None:
            return
        self.steps += 1
        if not self.checked and level.first:
            self.checked = True
            with forms_alone():
                self._levels()  # raises here, and not after hours, for what cannot be stored
        if self.wanted and level.first and self.streams is not None:
            self._take()
        self.agreement.ask(self._asked())

    def resumed(self) -> None:
        """The position of the loaded snapshot is reached: go on as if nothing had been."""
        position().target = None
        self.taken_at = time.monotonic()
        self._unmute()

    def _asked(self) -> int:
        if asked_to_stop():
            return _STOP
        if self.every_steps is not None:
            return _DUE if self.steps % self.every_steps == 0 else 0
        return _DUE if is_main() and time.monotonic() > self.taken_at + self.every_seconds else 0

    def _take(self) -> None:
        stop = self.wanted == _STOP
        state = self._state()
        error = None if state is None else self._write(state)
        self.wanted, self.streams, self.taken_at = 0, None, time.monotonic()
        if stop:
            if is_main():
                kept_one = "a snapshot is written" if state and not error else "no new snapshot"
                print(f"ddpify: SIGTERM: {kept_one}; ending", file=sys.stderr)
            raise SystemExit(STOPPED)

    def _state(self) -> dict[str, Any] | None:
        """All that a snapshot holds; None, with a warning, where a loop could not be taken up."""
        passes = [one.store() for one in position().passes]
        if any(one is None for one in passes):
            if is_main():
                warnings.warn(
                    "no snapshot: a loader's batches are taken with next(), outside of the "
                    "resumable loop's own iterable",
                    stacklevel=4,
                )
            return None
        return {
            "script": _script(),
            "steps": self.steps,
            "levels": self._levels(),
            "passes": encode(passes),
            "random": _gather_random(self.streams),
        }

    def _levels(self) -> list[dict[str, Any]]:
        return [_stored(one) for one in position().levels]

    def _write(self, state: dict[str, Any]) -> bool:
        """Write on rank 0; whether that failed, on all ranks. Training goes on in any case."""
        error = None
        if is_main():
            # What is printed before the snapshot is not printed again after a restart.
            sys.stdout.flush()
            try:
                self.folder.write(self.steps, state)
            except OSError as raised:
                error = raised
            self._report(error)
            if new := take_left_out():
                print(
                    f"ddpify: no snapshot holds {', '.join(new)}: "
                    "after a restart they are as the script makes them",
                    file=sys.stderr,
                )
        return bool(_from_main(b"1" if error else b""))

    def _report(self, error: OSError | None) -> None:
        """Say once that snapshots fail, and once that they are written again."""
        if error is not None and not self.failing:
            print(
                f"ddpify: no snapshot at step {self.steps}: {self.folder.path}: "
                f"{error.strerror or error}; the one before it stays, and training continues "
                "(further failures are not reported)",
                file=sys.stderr,
            )
        elif error is None and self.failing:
            print(f"ddpify: snapshots are written again, at step {self.steps}", file=sys.stderr)
        self.failing = error is not None

    def _end(self) -> None:
        """At the end of the process: a training that has come to its end needs no snapshots."""
        self._unmute()
        here = position()
        over = self.checked and not here.levels and not asked_to_stop() and here.target is None
        if over and sys.exc_info()[0] is None and all_have_left() and is_main():
            self.folder.remove()

    def _mute(self) -> None:
        """What a restarted script prints on its way to the snapshot was printed before."""
        if is_main():
            sys.stdout.flush()
            self.muted = os.dup(1)
            with open(os.devnull, "w") as sink:
                os.dup2(sink.fileno(), 1)

    def _unmute(self) -> None:
        if self.muted is not None:
            with contextlib.suppress(ValueError):  # closed
                sys.stdout.flush()
            os.dup2(self.muted, 1)
            os.close(self.muted)
            self.muted = None


def _stored(level: Level) -> dict[str, Any]:
    """A loop's iteration, and the state of what it changes."""
    with changed_in_place(level.entered):
        objects = [encode(o, f"argument {i + 2}") for i, o in enumerate(level.objects)]
    return {
        "count": level.count,
        "item": level.item,
        "objects": objects,
        "values": [encode(v, f"value {i + 1}") for i, v in enumerate(level.values)],
    }


def restore_random(saved: list[dict[str, Any]]) -> None:
    """Put this rank's random streams back; those of a rank that was not there derive anew."""
    own = saved[rank()] if rank() < len(saved) else saved[0]
    reinstate_streams(restore(own["streams"] or saved[0]["streams"], None))
    reinstate_own_stream(restore(own["own"], None))
    if len(saved) != world_size():
        fork_own_stream(rank())
    if own["device"] is not None and device().type != "cpu":
        torch.get_device_module(device()).set_rng_state(restore(own["device"], None))


def _capture_random() -> dict[str, Any]:
    """This rank's random states: shared stream, own stream, accelerator."""
    place = device()
    generator = None if place.type == "cpu" else torch.get_device_module(place).get_rng_state()
    return {"streams": capture_streams(), "own": capture_own_stream(), "device": generator}


def _gather_random(own: dict[str, Any]) -> list[dict[str, Any]]:
    """Each rank's random states; the shared stream's only where they are not rank 0's."""
    entry = {name: encode(value) for name, value in own.items()}
    if world_size() == 1:
        return [entry]
    digest = hashlib.blake2b(repr(_as_numbers(entry["streams"])).encode()).digest()
    if _from_main(digest) == digest and rank():
        entry["streams"] = None
    entries: list[Any] = [None] * world_size()
    dist.all_gather_object(entries, entry)
    return entries


def _as_numbers(code: Any) -> Any:
    """An encoded state with bytes in place of tensors, to compare."""
    if isinstance(code, torch.Tensor):
        return code.numpy().tobytes()
    return [_as_numbers(c) for c in code] if isinstance(code, list | tuple) else code


def _from_main(data: bytes) -> bytes:
    """Rank 0's bytes, on every rank. A collective."""
    if world_size() == 1:
        return data
    length = kept(torch.tensor([len(data)]))
    dist.broadcast(length, src=0)
    content = torch.empty(int(length.item()), dtype=torch.uint8)
    if is_main() and data:
        content.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    if len(content):
        dist.broadcast(kept(content), src=0)
    return content.numpy().tobytes() if not is_main() else data


def _raise_alike(found: Any) -> None:
    """Raise on all ranks what rank 0 has met with."""
    text = _from_main(str(found).encode() if isinstance(found, OSError) else b"")
    if text:
        raise OSError(text.decode())


def _script() -> str:
    return Path(sys.argv[0]).name
