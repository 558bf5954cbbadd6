"""Rewrites a single-process training script so that it trains the same on many ranks."""

from ddpify.convert.conversion import Conversion, convert_file
from ddpify.planning.conversion_options import Options
from ddpify.planning.refusals import Refusal

__all__ = ["Conversion", "Options", "Refusal", "convert_file"]
