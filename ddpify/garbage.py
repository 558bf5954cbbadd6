"""How often Python looks for garbage: rarely, in each process that works on trees.

Trees are many small objects that stay, and looking for garbage among them is a tenth of the time.
"""

from __future__ import annotations

import gc


def look_rarely() -> None:
    """Look for garbage after so many new objects as a tree has, and seldom among older ones."""
    gc.set_threshold(100_000, 20, 20)
