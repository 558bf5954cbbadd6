"""The global random states, as short numbers."""

from __future__ import annotations

import random
import sys
import zlib

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
