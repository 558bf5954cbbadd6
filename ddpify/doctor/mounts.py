"""Which file system a folder is on."""

from __future__ import annotations

from pathlib import Path

_MOUNTS = Path("/proc/self/mounts")


def file_system(folder: Path, mounts: Path = _MOUNTS) -> str:
    """The type of the file system that a folder is on, such as ext4, nfs4 or lustre."""
    if not mounts.is_file():
        return "file system unknown"
    lines = (line.split() for line in mounts.read_text().splitlines())
    points = [(words[1].replace("\\040", " "), words[2]) for words in lines]
    # The longest mount point above the folder; of two equal ones, the later hides the earlier.
    above = [(len(at), n, kind) for n, (at, kind) in enumerate(points) if folder.is_relative_to(at)]
    return max(above)[2] if above else "file system unknown"
