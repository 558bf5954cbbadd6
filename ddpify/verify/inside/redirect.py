"""CUDA answered by the CPU, for scripts that accept nothing else. Every faked call is counted."""

from __future__ import annotations

import contextlib
import sys
from types import SimpleNamespace
from typing import Any

import torch

from ddpify.verify.inside.patching import answer, current_gpu, devices, faked, replace

_NAME = "CPU in place of a GPU"
_MEMORY = 16 << 30
_GPU = torch.device("cuda")  # made before devices that a script makes become the CPU
_NOTHING = [
    "synchronize",
    "empty_cache",
    "init",
    "_lazy_init",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "reset_peak_memory_stats",
    "reset_max_memory_allocated",
    "set_per_process_memory_fraction",
    "ipc_collect",
    "set_rng_state",
    "set_rng_state_all",
]
_ZERO = [
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "memory_cached",
    "max_memory_cached",
    "utilization",
]


def install(devices: int) -> None:
    """Make torch behave as on a machine with ``devices`` GPUs, all of which are the CPU."""
    _queries(devices)
    _memory_and_streams()
    _modules()
    _processes()
    _scalers()
    for name in ("FloatTensor", "DoubleTensor", "HalfTensor"):
        replace(torch.cuda, name, torch.DoubleTensor)
    for name in ("LongTensor", "IntTensor", "ByteTensor", "BoolTensor"):
        replace(torch.cuda, name, getattr(torch, name))


def _answer(name: str, value: Any) -> None:
    answer(torch.cuda, name, value, f"torch.cuda.{name}")


def _queries(devices: int) -> None:
    def set_device(device: Any) -> None:
        index = torch.device(device).index if isinstance(device, str) else device
        index = getattr(index, "index", index)
        if index is not None and index >= devices:
            raise RuntimeError(
                f"CUDA error: invalid device ordinal {index} (of {devices} simulated)"
            )
        current_gpu[0] = index or 0

    properties = SimpleNamespace(
        name=_NAME, total_memory=_MEMORY, major=8, minor=0, multi_processor_count=1
    )
    answers = {
        "is_available": True,
        "device_count": devices,
        "current_device": lambda: current_gpu[0],
        "set_device": set_device,
        "get_device_name": _NAME,
        "get_device_capability": (8, 0),
        "get_device_properties": lambda *args: properties,
        "is_bf16_supported": True,
        "is_initialized": True,
        "is_current_stream_capturing": False,
    }
    for name, value in answers.items():
        _answer(name, value)
    _accelerator(devices, set_device)


def _accelerator(devices: int, set_device: Any) -> None:
    """``torch.accelerator``: for the script, the redirected GPUs; for torch and for ddpify's
    runtime, which find a device of their own, what a build for CPUs says."""

    def answered(name: str, value: Any, else_: Any) -> None:
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            asker = str(sys._getframe(1).f_globals.get("__name__", ""))
            if asker.split(".")[0] in ("torch", "ddpify", "ddpify_runtime"):
                return else_
            faked[f"torch.accelerator.{name}"] += 1
            return value(*args, **kwargs) if callable(value) else value

        replace(torch.accelerator, name, stand_in)

    answered("current_accelerator", _GPU, None)
    answered("is_available", True, False)
    answered("device_count", devices, 0)
    answered("current_device_index", lambda: current_gpu[0], 0)
    answered("synchronize", None, None)
    for name in ("set_device_index", "set_device_idx"):
        answered(name, set_device, None)


def _memory_and_streams() -> None:
    for name in _NOTHING:
        _answer(name, None)
    for name in _ZERO:
        _answer(name, 0)
    _answer("mem_get_info", (_MEMORY, _MEMORY))
    _answer("memory_summary", "")
    _answer("get_rng_state", lambda *args: torch.get_rng_state())
    _answer("get_rng_state_all", lambda: [torch.get_rng_state()])
    replace(torch.cuda, "Event", _Event)
    replace(torch.cuda, "Stream", _Stream)
    for name in ("current_stream", "default_stream"):
        _answer(name, lambda *args: _Stream())
    for name in ("stream", "device"):
        _answer(name, lambda *args: contextlib.nullcontext())


class _Event:
    """An event that every stream has already passed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        faked["torch.cuda.Event"] += 1

    def record(self, *args: Any) -> None:
        """Do nothing."""

    synchronize = wait = record

    def query(self) -> bool:
        """Whether the work before the event is done: always."""
        return True

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds up to ``other``: always one."""
        return 1.0


class _Stream:
    """A stream whose work is done when its calls return."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        faked["torch.cuda.Stream"] += 1

    def synchronize(self, *args: Any) -> None:
        """Do nothing."""

    wait_stream = wait_event = record_event = synchronize

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *args: object) -> None:
        return None


def _modules() -> None:
    _moves()
    answer(torch.nn.Module, "cuda", _module_cuda, "Module.cuda")
    _data_parallel()
    load = torch.load

    def load_on_cpu(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if map_location is None:
            faked["torch.load without map_location"] += 1
        return load(file, "cpu", *args, **kwargs)

    replace(torch, "load", load_on_cpu)
    replace(torch, "Generator", _generator(torch.Generator))
    set_default = torch.set_default_device
    replace(torch, "set_default_device", lambda device: set_default("cpu"))


def _scalers() -> None:
    """The state of a gradient scaler, which is off where there is no GPU: scripts log it."""
    scaler: Any = torch.amp.GradScaler
    state_dict = scaler.state_dict

    def state(self: Any) -> dict[str, Any]:
        faked["GradScaler"] += 1
        return state_dict(self) or {"scale": 1.0, "_growth_tracker": 0}

    replace(scaler, "state_dict", state)


def _moves() -> None:
    """``to`` with a plain integer for a GPU."""
    module_to = torch.nn.Module.to

    def to(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = _by_index(args, kwargs)
        return module_to(self, *args, **kwargs)

    def tensor_to(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = _by_index(args, kwargs)
        return real_tensor_to(self, *args, **kwargs)

    real_tensor_to = torch.Tensor.to
    replace(torch.nn.Module, "to", to)
    replace(torch.Tensor, "to", tensor_to)


def _module_cuda(module: Any, device: Any = None) -> Any:
    devices[device if type(device) is int else current_gpu[0]] += 1
    return module


def _by_index(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Arguments of ``to`` where a plain integer is a GPU."""

    def on_cpu(value: Any) -> Any:
        if type(value) is not int:
            return value
        devices[value] += 1
        return "cpu"

    return tuple(map(on_cpu, args)), {**kwargs, "device": on_cpu(kwargs["device"])} if (
        "device" in kwargs
    ) else kwargs


def _generator(real: Any) -> Any:
    class Generator(real):  # type: ignore[misc]
        def __new__(cls, device: Any = "cpu") -> Any:
            return super().__new__(cls, device="cpu")

    return Generator


def _data_parallel() -> None:
    def init(
        self: Any, module: Any, device_ids: Any = None, output: Any = None, dim: int = 0
    ) -> None:
        faked["DataParallel"] += 1
        torch.nn.Module.__init__(self)
        # torch's own forward calls the module alone where there are no device_ids.
        self.module, self.device_ids, self.output_device, self.dim = module, [], None, dim

    replace(torch.nn.DataParallel, "__init__", init)


def _processes() -> None:
    """Process groups with gloo, DDP without devices."""
    import torch.distributed as dist

    init, ddp_init = dist.init_process_group, torch.nn.parallel.DistributedDataParallel.__init__

    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        faked["init_process_group (gloo)"] += 1
        kwargs.pop("device_id", None)
        return init("gloo", *args, **kwargs)

    def ddp(self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any,
            **kwargs: Any) -> None:  # fmt: skip
        faked["DistributedDataParallel (device_ids)"] += 1
        ddp_init(self, module, None, None, *args, **kwargs)

    replace(dist, "init_process_group", init_process_group)
    replace(dist.distributed_c10d, "init_process_group", init_process_group)
    replace(torch.nn.parallel.DistributedDataParallel, "__init__", ddp)
