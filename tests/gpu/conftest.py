"""Tests for machines with a GPU of NVIDIA's; without one they are skipped.

``--on-cpu`` tries what of them the CPU can show: their scripts, with gloo and the CPU in place of
NCCL and CUDA (:mod:`tests.cuda_on_cpu`).
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.conftest import FIXTURES

ON_CPU = """\
from tests.cuda_on_cpu import redirect_cuda_to_cpu

redirect_cuda_to_cpu()
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--on-cpu", action="store_true", help="try scripts with CUDA on the CPU")


@pytest.fixture(autouse=True)
def _a_gpu(request: pytest.FixtureRequest) -> None:
    shown = _on_cpu(request.config) and request.node.get_closest_marker("on_cpu")
    if not torch.cuda.is_available() and not shown:
        pytest.skip("needs a GPU")


def _on_cpu(config: pytest.Config) -> bool:
    """Whether it was asked for; the option is known where this folder is named."""
    return bool(config.getoption("--on-cpu", default=False))


@pytest.fixture(scope="session")
def variables(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """What the scripts' processes are given."""
    root = str(FIXTURES.parent)
    if not _on_cpu(request.config):
        return {"PYTHONPATH": root, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    folder = tmp_path_factory.mktemp("on_cpu")
    Path(folder, "sitecustomize.py").write_text(ON_CPU)
    return {"PYTHONPATH": f"{folder}:{root}", "DDPIFY_BACKEND": "gloo"}


@pytest.fixture(scope="session")
def counts(request: pytest.FixtureRequest) -> list[int]:
    """Numbers of ranks to try: NCCL takes one a GPU at most."""
    several = torch.cuda.device_count() > 1 or _on_cpu(request.config)
    return [1, 2] if several else [1]
