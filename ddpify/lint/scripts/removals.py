"""Effects on files by which nothing is written: files are taken away, or opened to be read."""

from __future__ import annotations

from ddpify.understanding.facts import Effect
from ddpify.understanding.libraries.actions import COMMANDS
from ddpify.understanding.libraries.system_commands import takes_away

# What takes files away, and what is opened to read from it as well: by a path's methods, too.
_NO_WRITES = frozenset(
    {
        "os.remove", "os.unlink", "os.rmdir", "shutil.rmtree", "os.removedirs", "unlink", "rmdir",
        "sqlite3.connect", "shelve.open", "touch",
    }
)  # fmt: skip


def writes_nothing(effect: Effect) -> bool:
    """Whether no content comes into a file."""
    if effect.name in COMMANDS:
        return takes_away(effect.site.node)
    return effect.name in _NO_WRITES
