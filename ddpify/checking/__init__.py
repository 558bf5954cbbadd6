"""Watch a torchrun script for the errors of data-parallel training, without an original.

Importing this package does not import torch: the script runs in processes of its own.
"""

from ddpify.checking.api import check
from ddpify.checking.findings import Finding, Report
from ddpify.checking.page import as_html
from ddpify.checking.sarif import as_sarif
from ddpify.checking.show import as_json, render

__all__ = ["Finding", "Report", "as_html", "as_json", "as_sarif", "check", "render"]
