"""Watch a torchrun script for the errors of data-parallel training, without an original.

Importing this package does not import torch: the script runs in processes of its own.
"""

from ddpify.checking.api import check
from ddpify.checking.findings import Finding, Report
from ddpify.checking.show import as_json, render

__all__ = ["Finding", "Report", "as_json", "check", "render"]
