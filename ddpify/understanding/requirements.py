"""Which PyTorch a project says it needs, from the files beside a script and above it."""

from __future__ import annotations

import re
from pathlib import Path

_FILES = ("pyproject.toml", "requirements.txt", "requirements.in", "setup.cfg", "setup.py",
          "environment.yml", "environment.yaml")  # fmt: skip
_LEVELS = 4
_TORCH = re.compile(r"""(?<![\w.-])torch\s*(?:>=|==|~=|>|=)\s*v?(\d+)\.(\d+)""")


def declaring_file(script: Path) -> Path | None:
    """The nearest file, up to the repository's root, that says which versions of torch will do."""
    folder = script.resolve().parent
    for above in (folder, *folder.parents[: _LEVELS - 1]):
        for name in _FILES:
            candidate = above / name
            if candidate.is_file() and _TORCH.search(_text(candidate)):
                return candidate
        if (above / ".git").exists():
            break
    return None


def minimum_torch(declared: Path) -> tuple[int, int]:
    """The oldest major and minor version of torch that a file of requirements allows.

    Raises ValueError where it names none.
    """
    found = _TORCH.findall(_text(declared))
    return min((int(major), int(minor)) for major, minor in found)


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace")
