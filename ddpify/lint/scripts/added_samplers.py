"""The edits that give a loader a sampler for its rank."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.diagnostics import Applicability, Edit, Fix
from ddpify.lint.scripts.group_state import is_joined
from ddpify.lint.scripts.repairs import add_argument, spelled
from ddpify.lint.scripts.script import Script
from ddpify.understanding.libraries.distributed import SAMPLER
from ddpify.understanding.syntax import argument, code_of, spreads

_LOADER = "torch.utils.data.DataLoader"
_OTHERS = (("sampler", 3), ("batch_sampler", 4))
_TITLE = "give it a DistributedSampler"


def sampler_for(script: Script, call: cst.Call) -> Fix | None:
    """Give a loader of PyTorch a ``DistributedSampler`` that shuffles as the loader did.

    None where the process group may not exist yet, or where the data set has no name.
    """
    dataset, shuffle = argument(call, "dataset", 0), argument(call, "shuffle", 2)
    if script.names(call.func) != {_LOADER} or spreads(call) or dataset is None:
        return None
    if not isinstance(dataset.value, (cst.Name, cst.Attribute)) or any(
        argument(call, name, place) is not None for name, place in _OTHERS
    ):
        return None
    shuffles = script.value(shuffle.value).constant() if shuffle is not None else False
    made = _sampler(script)
    if not isinstance(shuffles, bool) or made is None or not is_joined(script.control, call):
        return None
    kept = "" if shuffles else ", shuffle=False"
    text = f"sampler={made}({code_of(dataset.value)}{kept})"
    if shuffle is None:
        return add_argument(script, call, text, _TITLE, Applicability.UNSAFE)
    return Fix(_TITLE, _instead(script, call, shuffle, text), Applicability.UNSAFE)


def _instead(script: Script, call: cst.Call, shuffle: cst.Arg, text: str) -> tuple[Edit, ...]:
    """Put the sampler in the place of ``shuffle=``; by position, shuffling is only turned off."""
    start, end = script.positions.offsets(shuffle if shuffle.keyword else shuffle.value)
    if shuffle.keyword is not None:
        end = script.positions.offsets(shuffle)[1]
        return (Edit(start, end, text),)
    added = add_argument(script, call, text, _TITLE).edits
    return (Edit(start, end, "False"), *added)


def _sampler(script: Script) -> str | None:
    """How the file can write ``DistributedSampler``."""
    names = [spelled(script, one) for one in (SAMPLER, "torch.utils.data.DistributedSampler")]
    known = [one for one in names if one is not None]
    data = spelled(script, "torch.utils.data")
    whole = [f"{data}.distributed.DistributedSampler"] if data is not None else []
    return min([*known, *whole], key=len, default=None)
