"""Parts and attributes of tensors, batches and shapes."""

from __future__ import annotations

from ddpify.records import replace
from ddpify.understanding.arithmetic import (
    sequences,
    tensor_pairs,
)
from ddpify.understanding.arithmetic.tensor_dimensions import OVER_A_DIMENSION
from ddpify.understanding.batching import collating, item_dimensions
from ddpify.understanding.forms import Layout, NumberKind
from ddpify.understanding.placement import Placement
from ddpify.understanding.shapes import tensor_sizes, transpositions
from ddpify.understanding.values import (
    REPLICATED,
    Const,
    Data,
    Method,
    Value,
    join,
    library_value,
    value,
)

# What a tensor says of itself that is the same for a part of its rows.
_ALIKE = frozenset(
    "device dtype ndim requires_grad layout grad_fn is_cuda is_cpu is_xpu is_mps is_meta is_leaf"
    " is_sparse is_quantized is_mkldnn is_nested itemsize names output_nr retains_grad".split()
)
_OF_BOTH = ("min", "max")  # methods of a tensor, and the tensors that aminmax() gives


def _is_an_operator(atom: Data, name: str) -> bool:
    """Whether ``x.sum`` of a tensor, which is not called here, is a method, and no part of it."""
    tensor = atom.form is Layout.TENSOR and not atom.opaque and name != "size"
    return tensor and name in OVER_A_DIMENSION


def picked(placement: Placement) -> Placement:
    """The placement of rows taken by position."""
    return Placement.ROWS if placement is Placement.SHARD else placement


def part(atom: Data, position: int) -> Value:
    """One element of an unpacked tensor, batch or shape."""
    if atom.form is Layout.PACKED:
        return value((sequences.sizes if position else sequences.elements)(atom))
    if atom.form is NumberKind.SHAPE:
        return value(tensor_sizes.first_size(atom)) if position == atom.dim else REPLICATED
    if atom.form is Layout.SAMPLE:
        return value(collating.part_of_sample(atom, position))
    if atom.form is Layout.PIECES:
        return value(replace(atom, form=Layout.TENSOR))
    if atom.form in (Layout.BATCH, Layout.PART):
        ndim = item_dimensions.of_part(atom, position)
        part_ = replace(atom, form=Layout.TENSOR, ndim=ndim)
        return value(replace(part_, one_each=atom.one_each and not ndim))
    if atom.form is Layout.GATHERED and atom.dim == 0 and not atom.opaque:
        return value(atom.placed(Placement.REPLICATE))
    behind = atom.dim > 0 and not atom.opaque  # what is unpacked is the dimension before the rows
    return value(replace(atom, dim=atom.dim - behind, ndim=0))


def attribute(atom: Data, name: str, *, called: bool) -> Value:
    """An attribute of a tensor, or of an unseen structure of tensors."""
    if name == "shape" and not atom.placement.local:
        gathered = atom.form is Layout.GATHERED
        return value(tensor_sizes.shape(atom)) if gathered else REPLICATED
    if name == "shape":
        return tensor_sizes.global_size(atom) or value(tensor_sizes.shape(atom))
    if name == "ndim" and atom.ndim:
        return value(Const(atom.ndim))
    if name in _ALIKE:
        return REPLICATED
    if atom.form is Layout.PACKED and name == "data":
        return value(sequences.elements(atom))
    if atom.form is Layout.PACKED and name in sequences.SIZES:
        return value(sequences.sizes(atom))
    if name in transpositions.ATTRIBUTES:
        place = transpositions.place(name, atom.dim, atom.ndim, (), {})
        ndim = atom.ndim or 2 * (name in ("T", "H"))
        return value(replace(atom, dim=atom.dim if place is None else place, ndim=ndim))
    if name in ("data", "real"):
        return value(replace(atom, definition_sites=tensor_pairs.definition_sites(atom)))
    if name == "__class__":
        return library_value("torch.Tensor")
    if called or (_is_an_operator(atom, name) and name not in _OF_BOTH):
        return value(Method(value(atom), name))
    if name == "size":  # a NumPy array's number of elements
        return tensor_sizes.elements(atom)
    field = value(replace(atom, definition_sites=tensor_pairs.definition_sites(atom), ndim=0))
    return join(field, value(Method(value(atom), name))) if _is_an_operator(atom, name) else field
