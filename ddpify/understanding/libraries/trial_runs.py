"""What was learned where code was tried on a rank's rows."""

from __future__ import annotations

from ddpify.understanding.facts import Facts


def mixes(learned: Facts) -> bool:
    """Whether anything was read that all samples make together, or may have been.

    Of sums and means in files that are converted, the results tell.
    """
    unseen = [one for one in learned.forwards.statistics.values() if not one.module.editable]
    found = (
        learned.demands,
        learned.rows.regrouped,
        learned.rows.taken_rows,
        learned.rows.along_rows,
        learned.loading.given_back,
        learned.sizes.unsure_dimensions,
    )
    return bool(unseen) or any(found)
