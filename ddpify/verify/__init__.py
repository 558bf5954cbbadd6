"""Show that a converted script on several processes trains like the original on one.

Importing this package does not import torch: the scripts run in processes of their own.
"""

from ddpify.verify.api import RECORDED_STEPS, TIMEOUT, verify, warm_worker
from ddpify.verify.report.text import render
from ddpify.verify.verdict import Cause, Check, Comparison, Difference, Kind, Verdict, What

__all__ = [
    "RECORDED_STEPS",
    "TIMEOUT",
    "Cause",
    "Check",
    "Comparison",
    "Difference",
    "Kind",
    "Verdict",
    "What",
    "render",
    "verify",
    "warm_worker",
]
