"""The states of random generators, as short numbers."""

from __future__ import annotations

import random
import sys
import zlib
from typing import Any

import torch


def states() -> dict[str, int]:
    """A checksum of each global generator's state: torch's, Python's, and NumPy's if loaded."""
    found = {
        "torch": zlib.crc32(torch.get_rng_state().numpy().tobytes()),
        "python": hash(random.getstate()[1]),
    }
    if "numpy" in sys.modules:
        _, keys, position, *_ = sys.modules["numpy"].random.get_state()
        found["numpy"] = zlib.crc32(keys.tobytes()) ^ position
    return found


def state(device: torch.device, given: Any = None) -> int:
    """A checksum of the state of what a device's draws come from, or of the generator ``given``."""
    with torch._C.DisableTorchFunction():
        if given is not None:
            kept = given.get_state()
        elif device.type == "cuda":
            kept = torch.cuda.get_rng_state(device)
        else:
            kept = torch.get_rng_state()
        return zlib.crc32(kept.numpy().tobytes())
