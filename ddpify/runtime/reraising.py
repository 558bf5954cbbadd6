"""Errors of one rank, where a script would go on after them."""

import sys

from ddpify.runtime.process import world_size

_FLOW = (StopIteration, StopAsyncIteration, ImportError)
_LIBRARIES = ("builtins", "torch")


def reraise() -> None:
    """In an exception handler or a ``finally``, at several ranks: raise the error once more.

    An error of Python's or PyTorch's may be that of one rank alone. If it went on, or saved
    something, it would wait for the others in another collective than they wait in for it. An
    exception of the script's own is raised by all ranks alike, and passes; so do the ends of
    iterators, failed imports, exits and interrupts.
    """
    error = sys.exc_info()[1]
    if world_size() == 1 or not isinstance(error, Exception) or isinstance(error, _FLOW):
        return
    if type(error).__module__.partition(".")[0] in _LIBRARIES:
        raise error
