"""Show that a converted script on several processes trains like the original on one.

Importing this package does not import torch: the scripts run in processes of their own.
"""

from ddpify.verify.api import TIMEOUT, verify, warm_worker
from ddpify.verify.compare.causes import ALLOWABLE
from ddpify.verify.report.as_json import as_json
from ddpify.verify.report.page import as_html
from ddpify.verify.report.text import render
from ddpify.verify.verdict import Cause, Check, Comparison, Difference, Kind, Verdict, What

__all__ = [
    "ALLOWABLE",
    "TIMEOUT",
    "Cause",
    "Check",
    "Comparison",
    "Difference",
    "Kind",
    "Verdict",
    "What",
    "as_html",
    "as_json",
    "render",
    "verify",
    "warm_worker",
]
