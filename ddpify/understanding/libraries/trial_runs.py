"""What was learned where code was tried on a rank's rows."""

from __future__ import annotations

from ddpify.understanding.facts import Facts


def mixes(learned: Facts) -> bool:
    """Whether anything was read that all samples make together, or may have been.

    Of sums and means in files that are converted, the results tell.
    """
    unseen = [one for one in learned.statistics.values() if not one.module.editable]
    found = (
        learned.demands,
        learned.regrouped,
        learned.taken_rows,
        learned.along_rows,
        learned.given_back,
        learned.unsure_dimensions,
    )
    return bool(unseen) or any(found)
