"""Snapshot files: written in one step, checked by their sum, read without running anything.

A file is what ``torch.save`` writes, followed by a mark and the BLAKE2b sum of all before it;
``torch.load(path, weights_only=True)`` reads it as it is.
"""

import contextlib
import hashlib
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import torch

_MARK = b"ddpify-snapshot1"
_DIGEST = 32
_TAIL = len(_MARK) + _DIGEST
_KEPT = 2


class SnapshotFolder:
    """A folder of snapshots ``step-000000120.pt``; the newest two are kept."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()

    def check_writable(self) -> None:
        """Raise OSError, with a remedy, where no snapshot could be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass
        except OSError as error:
            raise OSError(
                f"no snapshot can be written to {self.path} ({error.strerror}): make the folder "
                "writable, or name another one in init(snapshots=...)"
            ) from None
        for draft in self.path.glob(".draft-*"):  # of a process that was killed as it wrote
            draft.unlink(missing_ok=True)

    def files(self) -> list[Path]:
        """The snapshots, oldest first."""
        return sorted(self.path.glob("step-*.pt"))

    def write(self, steps: int, state: Any) -> Path:
        """Store a state, in one step; older snapshots stay until it is there, whole.

        Raises OSError, and leaves the folder as it was, where it cannot be written.
        """
        target = self.path / f"step-{steps:09d}.pt"
        handle, draft = tempfile.mkstemp(prefix=".draft-", dir=self.path)
        try:
            with open(handle, "w+b") as file:
                _write(file, state)
            os.replace(draft, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise
        _sync_folder(self.path)
        for old in self.files()[:-_KEPT]:
            old.unlink(missing_ok=True)
        return target

    def newest(self) -> tuple[Path, bytes] | None:
        """The newest snapshot that is whole, and its content; each damaged one is reported."""
        for path in reversed(self.files()):
            try:
                return path, _checked(path.read_bytes())
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                print(
                    f"ddpify: the snapshot {path} cannot be used ({reason}); "
                    "trying the one before it",
                    file=sys.stderr,
                )
        return None

    def remove(self) -> None:
        """Remove the snapshots, and the folder if nothing else is in it."""
        for path in self.files():
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()


def parse(content: bytes) -> Any:
    """The state in a snapshot's content: tensors, numbers and plain containers, nothing else."""
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _write(file: BinaryIO, state: Any) -> None:
    try:
        torch.save(state, file)
    except RuntimeError as error:  # torch's own writer hides why it failed
        cause = error.__context__
        if isinstance(cause, OSError):
            raise cause from None
        raise OSError(None, f"torch.save failed: {error}") from None
    file.seek(0)
    digest = hashlib.blake2b(digest_size=_DIGEST)
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    file.write(_MARK + digest.digest())
    file.flush()
    os.fsync(file.fileno())


def _checked(data: bytes) -> bytes:
    content, tail = data[:-_TAIL], data[-_TAIL:]
    if len(data) <= _TAIL or not tail.startswith(_MARK):
        raise ValueError("it is cut off")
    if hashlib.blake2b(content, digest_size=_DIGEST).digest() != tail[len(_MARK) :]:
        raise ValueError("its checksum does not match")
    return content


def _sync_folder(path: Path) -> None:
    with contextlib.suppress(OSError):  # not every file system can
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
