"""NumPy's global generator, put aside and back in microseconds.

``numpy.random.get_state()`` and ``set_state()`` take a tenth of a millisecond each, and every batch
needs both. The words of a Mersenne Twister lie at an address that NumPy publishes; only a normal
number that is kept for the next call is nowhere but in the full state.
"""

import ctypes
import sys
from typing import Any

_BYTES = 624 * 4 + 4  # the key and the position in it


class NumpyState:
    """NumPy's global generator; does nothing where NumPy has not been imported."""

    def __init__(self) -> None:
        self.generator: Any = None
        self.address: int | None = None
        self.known: tuple[bytes, Any] = (b"", None)
        self.seeded = b""

    def save(self) -> Any:
        """The full state, as ``numpy.random.get_state()`` gives it; None without NumPy."""
        numpy = sys.modules.get("numpy")
        if numpy is None:
            return None
        words, state = self.known
        generator = numpy.random.mtrand._rand._bit_generator
        same = self.address is not None and generator is self.generator
        if not same or state[3] or words != self._words():
            state = numpy.random.get_state()
            self.generator, self.address = generator, _address(generator, state)
            self.known = (self._words(), state)
        return state

    def seed(self, seed: int) -> None:
        """Start another stream, from a seed below 2**32."""
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed)
            self.seeded = self._words()

    def restore(self, state: Any) -> None:
        """Put back what save() gave last."""
        if state is None:
            return
        words = self.known[0]
        if self.address is not None and not state[3] and self._words() == self.seeded:
            ctypes.memmove(self.address, words, _BYTES)
        else:
            sys.modules["numpy"].random.set_state(state)

    def _words(self) -> bytes:
        return b"" if self.address is None else ctypes.string_at(self.address, _BYTES)


def _address(generator: Any, state: Any) -> int | None:
    """The address of a generator's words; None where they are not there as expected."""
    if state[0] != "MT19937":
        return None
    address: int = generator.ctypes.state_address
    expected = state[1].tobytes() + int(state[2]).to_bytes(4, sys.byteorder)
    return address if ctypes.string_at(address, _BYTES) == expected else None
