"""A logger that does nothing, for the ranks that do not log."""

import atexit
import functools
import shutil
import tempfile
from typing import Any


class SilentLogger:
    """Stands for any logger: each attribute, call and item is the object itself.

    It is false, has no elements and may be used as a context manager. As a path, such as a folder
    that the logger writes to, it is a folder of this process, which is gone when it ends.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> "SilentLogger":
        """Whatever was to be logged is not."""
        return self

    def __getattr__(self, name: str) -> "SilentLogger":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, key: Any) -> "SilentLogger":
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __enter__(self) -> "SilentLogger":
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __fspath__(self) -> str:
        return _own_folder()

    def __str__(self) -> str:
        return _own_folder()

    def __add__(self, other: str) -> str:
        return _own_folder() + other

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 0


@functools.cache
def _own_folder() -> str:
    """Where what a script puts beside a log does no harm."""
    folder = tempfile.mkdtemp(prefix="ddpify-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def silent() -> SilentLogger:
    """What the ranks other than 0 use where rank 0 has its logger."""
    return SilentLogger()
