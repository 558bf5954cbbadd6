"""Tests for machines with a GPU of NVIDIA's; without one they are skipped."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _a_gpu() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")


@pytest.fixture(scope="session")
def counts() -> list[int]:
    """Numbers of ranks to try: NCCL takes one a GPU at most."""
    return [1, 2] if torch.cuda.device_count() > 1 else [1]
