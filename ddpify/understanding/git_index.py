"""The folders that a repository holds, as its index says: a checkout has them."""

from __future__ import annotations

import struct
from pathlib import Path, PurePosixPath

_HEADER, _ENTRY, _PADDING = 12, 62, 8  # bytes of an index, of what stands before a name
_EXTENDED = 0x4000


def index_of(root: Path) -> Path:
    """The file in which git keeps what a repository holds."""
    return root / ".git" / "index"


def folders_in(index: Path) -> frozenset[str]:
    """The folders of all files in an index, by their paths from the root."""
    try:
        names = _names(index.read_bytes())
    except (OSError, ValueError, struct.error):
        return frozenset()
    return frozenset(str(one) for name in names for one in PurePosixPath(name).parents)


def _names(data: bytes) -> list[str]:
    """The paths in an index of version 2 or 3; none of version 4, which writes parts of them."""
    signature, version, count = struct.unpack_from(">4sLL", data)
    if signature != b"DIRC" or version not in (2, 3):
        return []
    found, start = [], _HEADER
    for _ in range(count):
        (flags,) = struct.unpack_from(">H", data, start + _ENTRY - 2)
        name = start + _ENTRY + (2 if flags & _EXTENDED else 0)
        end = data.index(b"\0", name)
        found.append(data[name:end].decode())
        start += (end - start) // _PADDING * _PADDING + _PADDING
    return found
