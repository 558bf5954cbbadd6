"""Keep a run inside its copy of the user's folder, and learn which paths it writes.

An audit hook sees a write before it happens. A large file that the copy only links to is made a
real copy first; a write into the user's own folders is refused. Writes by compiled code other than
torch.save are not seen here: they are found afterwards by what changed on disk.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ddpify.verify.inside.saves import Saves
from ddpify.verify.launch.job import CACHES, Job

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ONE_PATH = frozenset({"os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree"})
_TWO_PATHS = frozenset({"os.rename", "os.link", "os.symlink"})


class Guard:
    """The rules of one run.

    Args:
        job: Its sandbox and the folders it protects.
        emit: Takes each event: a kind and its values.
        caller: Tells the script's line that is running.
    """

    def __init__(
        self, job: Job, emit: Callable[..., None], caller: Callable[[], str] = lambda: ""
    ) -> None:
        self.sandbox = Path(job.sandbox).resolve()
        self.cwd = Path(job.cwd).resolve()
        self.hidden = str(Path(job.hidden).resolve()) + os.sep if job.hidden else ""
        self.protected = [Path(folder).resolve() for folder in job.protected]
        # Found before anything is watched: it is looked for by writing, under a lock.
        self.temporary = Path(tempfile.gettempdir()).resolve()
        self.caches = [Path(os.environ[name]).resolve() for name in CACHES if name in os.environ]
        self.emit, self.caller = emit, caller
        self._busy = False

    def install(self) -> None:
        """Watch this process; an audit hook stays until the process ends."""
        sys.addaudithook(self._audit)
        Saves(self._before_save, self._saved).install()

    def _before_save(self, path: Any) -> None:
        self.before_write(path, truncates=True)

    def _saved(self, path: Any, content: dict[str, Any]) -> None:
        self.emit("save", path=self._shown(path), tree=content)

    def before_write(self, path: Any, *, truncates: bool) -> None:
        """Allow, prepare or refuse a write to ``path``."""
        target = Path(os.fsdecode(path)).absolute()
        real = target.resolve()
        if self._is_hidden(str(real)):
            raise PermissionError(f"ddpify verify: the script writes to another run: {path}")
        if self.sandbox not in real.parents:
            self._leave(target, real, truncates)
        if not self._is_cache(real):
            self.emit("write", path=self._shown(target), at=self.caller())

    def _before_read(self, path: Any) -> None:
        """Refuse a look at other runs and at records."""
        if self._is_hidden(os.path.abspath(os.fsdecode(path))):
            raise PermissionError(f"ddpify verify: the script reads another run: {path}")

    def _is_hidden(self, name: str) -> bool:
        inside = bool(self.hidden) and name.startswith(self.hidden)
        return inside and self.sandbox not in Path(name).parents

    def _leave(self, target: Path, real: Path, truncates: bool) -> None:
        """Turn a link out of the copy into a file of its own; refuse other writes outside."""
        folder = target.parent.resolve()
        inside = folder == self.sandbox or self.sandbox in folder.parents
        if inside and target.is_symlink():
            target.unlink()
            if not truncates and real.is_file():
                shutil.copyfile(real, target)
        elif not self._free(real):
            raise PermissionError(f"ddpify verify: the script writes outside its folder: {target}")

    def _free(self, real: Path) -> bool:
        """Whether ``real`` is a place that belongs to nobody: devices, temporary and cache
        folders."""
        if any(folder == real or folder in real.parents for folder in self.protected):
            return False
        free = [Path("/dev"), Path("/proc"), self.temporary]
        # A temporary file without a name is opened as its folder.
        if any(folder == real or folder in real.parents for folder in free):
            return True
        return self._is_cache(real)

    def _is_cache(self, real: Path) -> bool:
        """Whether a library keeps ``real`` for itself: no file that the script means to write."""
        if any(folder in real.parents for folder in self.caches):
            return True
        home = Path.home()
        return home in real.parents and real.relative_to(home).parts[0].startswith(".")

    def _shown(self, path: Any) -> str:
        full = Path(os.fsdecode(path)).absolute()
        full = full.parent.resolve() / full.name
        return os.path.relpath(full, self.cwd) if self.sandbox in full.parents else str(full)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "import" and str(args[0]).startswith("ddpify.verify"):
            raise PermissionError("ddpify verify: the script imports what judges it")
        if event != "open" and event not in _ONE_PATH and event not in _TWO_PATHS:
            return
        if self._busy or not args or isinstance(args[0], int):
            return
        self._busy = True
        try:
            self._judge(event, args)
        finally:
            self._busy = False

    def _judge(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            flags = args[2] if isinstance(args[2], int) else 0
            if args[0] is None:
                return
            if flags & _WRITING:
                self.before_write(args[0], truncates=bool(flags & os.O_TRUNC))
            else:
                self._before_read(args[0])
        elif event in _ONE_PATH:
            if event != "os.mkdir" or not Path(os.fsdecode(args[0])).is_dir():
                self._must_be_ours(args[0])
        else:
            self._must_be_ours(args[1])
            if event == "os.rename":
                self._must_be_ours(args[0])
                self.emit("rename", old=self._shown(args[0]), new=self._shown(args[1]))

    def _must_be_ours(self, path: Any) -> None:
        """Refuse a change of a folder's entries outside the sandbox."""
        target = Path(os.fsdecode(path)).absolute()
        real = target.parent.resolve() / target.name
        if self.sandbox in real.parents or self._free(real):
            return
        raise PermissionError(f"ddpify verify: the script writes outside its folder: {target}")
