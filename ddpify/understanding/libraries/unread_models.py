"""Models and layers whose code is not read: they are taken to treat each sample by itself.

That holds for most networks, and nothing else could be converted; it is said where one is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from ddpify.understanding.arguments import local_data
from ddpify.understanding.libraries import object_kinds
from ddpify.understanding.syntax import code_of
from ddpify.understanding.values import Class, Instance, Value

if TYPE_CHECKING:
    from ddpify.understanding.run_state import RunState

# Packages whose networks are known to do so, but for batch normalisation.
_KNOWN = re.compile(
    r"(?:torch|torchvision|torchaudio|timm|transformers|efficientnet_pytorch|pretrainedmodels"
    r"|segmentation_models_pytorch|open_clip|clip|peft)\."
)


def called(
    run: RunState, node: cst.BaseExpression, target: Instance, given: Iterable[Value]
) -> None:
    """Note a call of one with rows."""
    model = object_kinds.is_model(target) or run.frames_forward()
    if not model or run.collating or object_kinds.is_loss(target) or _is_known(target):
        return
    if any(True for one in given for _ in local_data(one)):
        name = target.type if isinstance(target.type, str) and "." in target.type else _shown(node)
        run.facts.forwards.unread.setdefault(name, run.site(node))


def _is_known(target: Instance) -> bool:
    names = list(target.type.library_bases()) if isinstance(target.type, Class) else [target.type]
    return bool(names) and all(map(_KNOWN.match, names))


def _shown(node: cst.BaseExpression) -> str:
    return code_of(node.func) if isinstance(node, cst.Call) else code_of(node)
