"""Scripts of another kind altogether, as far as trees alone tell: told in a moment.

What is not sure by the trees, such as a call under a flag that is ``False`` in the text, is left to
interpreting the script.
"""

from __future__ import annotations

import os

from ddpify.planning import other_kinds
from ddpify.planning.sure_calls import SureCalls
from ddpify.understanding.project import Project
from ddpify.understanding.text_imports import may_reach

_MOST_FILES = 2000  # that are searched for a word


def refuse_at_once(project: Project) -> None:
    """Refuse entries that are converted, distributed or a framework's, or that train nothing.

    Raises:
        Refusal: The same as after the script has been interpreted.
    """
    other_kinds.refuse_converted(project, project.entries)
    for entry in project.entries:
        for name, site in SureCalls(project).of(entry, other_kinds.DISTRIBUTED):
            raise other_kinds.already_distributed(name, site)
    other_kinds.refuse_imported_frameworks(project.entries)
    if not _may_train(project):
        raise other_kinds.no_training_loop(project)


def _may_train(project: Project) -> bool:
    """Whether ``backward`` stands in an entry, or in a file that one imports."""
    if any("backward" in entry.source.text for entry in project.entries):
        return True
    entries = [os.path.realpath(entry.source.path) for entry in project.entries]
    return may_reach("backward", entries, [str(root) for root in project.roots], _MOST_FILES)
