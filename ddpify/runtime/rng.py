"""Random streams: one that every rank shares, and one of each rank's own.

The script's own code, samplers and shuffling draw from torch's, Python's and NumPy's global
generators and from the accelerator's, which hold the same states on all ranks (the shared stream).
Work on a rank's own samples, which may draw a different number of times on each rank, runs in the
rank's own stream, seeded anew at every entry, so that it neither disturbs the shared stream nor
repeats another rank's draws.
"""

import contextlib
import hashlib
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from ddpify.runtime.numpy_state import NumpyState

T = TypeVar("T")


class SharedStream:
    """The shared stream of a device while the rank's own is in place: its state, or a generator."""

    def __init__(self, device: torch.device, state: torch.Tensor) -> None:
        self.device = device
        self.initial = state
        self.drawn: torch.Generator | None = None

    @property
    def generator(self) -> torch.Generator:
        """What draws from it."""
        if self.drawn is None:
            self.drawn = torch.Generator(self.device)
            self.drawn.set_state(self.initial)
        return self.drawn

    @property
    def state(self) -> torch.Tensor:
        """Where it stands after what was drawn."""
        return self.initial if self.drawn is None else self.drawn.get_state()


class OwnStream:
    """This rank's own stream: where its seeds come from, and what it put aside to be in place."""

    def __init__(self) -> None:
        self.base = b""
        self.entries = 0
        self.shared: tuple[Any, Any, Any] | None = None
        self.numpy = NumpyState()
        self.put_aside: dict[str, SharedStream] = {}

    def next_seed(self) -> int:
        """A 63-bit seed, different at every call and on every rank."""
        self.entries += 1
        digest = hashlib.blake2b(self.base + self.entries.to_bytes(8, "little"), digest_size=8)
        return int.from_bytes(digest.digest(), "little") >> 1


_own_stream = OwnStream()


def broadcast_random_state(generators: Sequence[torch.Generator]) -> None:
    """Give every rank rank 0's global random states and those of ``generators`` (a collective)."""
    states = [None if dist.get_rank() else (_random_state(), [g.get_state() for g in generators])]
    dist.broadcast_object_list(states, src=0, device=torch.device("cpu"))
    if dist.get_rank():
        assert states[0] is not None
        _set_random_state(states[0][0])
        for generator, state in zip(generators, states[0][1], strict=True):
            generator.set_state(state)


def broadcast_device_state(place: torch.device) -> None:
    """Give the generator of every rank's accelerator rank 0's state (a collective)."""
    generator = torch.get_device_module(place)
    states = [None if dist.get_rank() else generator.get_rng_state()]
    dist.broadcast_object_list(states, src=0, device=torch.device("cpu"))
    if dist.get_rank():
        generator.set_rng_state(states[0])


def capture_streams(generators: Sequence[torch.Generator] = ()) -> list[Any]:
    """The shared stream's states and those of ``generators``, for reinstate_streams()."""
    return [_random_state(), [generator.get_state() for generator in generators]]


def reinstate_streams(states: list[Any], generators: Sequence[torch.Generator] = ()) -> None:
    """Put the shared stream and ``generators`` back to where capture_streams() found them."""
    _set_random_state(states[0])
    for generator, state in zip(generators, states[1], strict=True):
        generator.set_state(state)


def capture_own_stream() -> list[Any]:
    """Where this rank's own stream stands."""
    return [list(_own_stream.base), _own_stream.entries]


def reinstate_own_stream(state: list[Any]) -> None:
    """Put this rank's own stream back to where capture_own_stream() found it."""
    _own_stream.base, _own_stream.entries = bytes(state[0]), state[1]


def fork_own_stream(rank: int) -> None:
    """Derive this rank's stream from the shared one, without drawing from it.

    A seeded script so gives seeded augmentation. ``entries`` goes on counting: where nothing
    has been drawn from the shared stream since the last fork, the seeds still differ.
    """
    state = torch.get_rng_state().numpy().tobytes()
    _own_stream.base = hashlib.blake2b(state + rank.to_bytes(4, "little")).digest()


def enter_own_stream() -> None:
    """Put this rank's own stream in place of the shared one, until leave_own_stream()."""
    stream = _own_stream
    if stream.shared is None:
        stream.shared = torch.get_rng_state(), random.getstate(), stream.numpy.save()
        seed = stream.next_seed()
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        stream.numpy.seed((seed >> 31) & 0xFFFFFFFF)


def leave_own_stream() -> None:
    """Put the shared stream back as enter_own_stream() found it; nothing where it is in place."""
    stream = _own_stream
    if stream.shared is not None:
        torch_state, python_state, numpy_state = stream.shared
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        stream.numpy.restore(numpy_state)
        stream.shared = None


@contextlib.contextmanager
def own_torch_stream(place: torch.device) -> Iterator[None]:
    """Draw from this rank's own stream, on the CPU and on ``place``: what a forward uses.

    Nothing here waits for an accelerator: the states of its generator are the host's.
    """
    modules: dict[torch.device, Any] = {torch.device("cpu"): torch}
    if place.type != "cpu":
        modules[place] = torch.get_device_module(place)
    shared = [SharedStream(device, module.get_rng_state()) for device, module in modules.items()]
    outermost = not _own_stream.put_aside
    if outermost:
        _own_stream.put_aside = {stream.device.type: stream for stream in shared}
    seed = _own_stream.next_seed()
    torch.default_generator.manual_seed(seed)  # torch.manual_seed() would seed all accelerators
    for device in list(modules)[1:]:
        modules[device].manual_seed(seed)
    try:
        yield
    finally:
        for stream in shared:
            modules[stream.device].set_rng_state(stream.state)
        if outermost:
            _own_stream.put_aside = {}


@contextlib.contextmanager
def shared_torch_stream() -> Iterator[None]:
    """Draw from the shared stream again, inside own_torch_stream(); elsewhere it is in place."""
    own = {}
    for kind, stream in _own_stream.put_aside.items():
        module: Any = torch if kind == "cpu" else torch.get_device_module(stream.device)
        own[kind] = module, module.get_rng_state()
        module.set_rng_state(stream.state)
    try:
        yield
    finally:
        for kind, (module, state) in own.items():
            _own_stream.put_aside[kind].generator.set_state(module.get_rng_state())
            module.set_rng_state(state)


def shared_generator(device: Any = "cpu") -> torch.Generator:
    """The generator of a device that draws the same numbers on all ranks, in a forward too.

    device: a device or its name. There each rank's default generator draws for the rank's own rows.
    """
    place = torch.device(device)
    stream = _own_stream.put_aside.get(place.type)
    if stream is not None:
        return stream.generator
    if place.type == "cpu":
        return torch.default_generator
    module: Any = torch.get_device_module(place)
    generator: torch.Generator = module.default_generators[place.index or module.current_device()]
    return generator


def drawn_alike(draw: Callable[[], T]) -> T:
    """What ``draw()`` gives, with the same numbers on all ranks, in a forward too."""
    with shared_torch_stream():
        return draw()


@contextlib.contextmanager
def undrawn() -> Iterator[None]:
    """Let what is drawn inside be as if it had never been."""
    state = _random_state()
    try:
        yield
    finally:
        _set_random_state(state)


def _random_state() -> tuple[Any, Any, Any]:
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy else None
    return torch.get_rng_state(), random.getstate(), numpy_state


def _set_random_state(state: tuple[Any, Any, Any]) -> None:
    torch_state, python_state, numpy_state = state
    torch.set_rng_state(torch_state)
    random.setstate(python_state)
    if numpy_state is not None and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(numpy_state)
