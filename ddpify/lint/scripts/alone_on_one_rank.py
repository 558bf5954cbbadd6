"""Totals that one rank makes alone, of batches that no sampler shares out."""

from __future__ import annotations

import libcst as cst

from ddpify.lint.scripts.script import Script
from ddpify.understanding.structure import walk
from ddpify.understanding.taint.flow_edges import FlowEdge
from ddpify.understanding.taint.reaching_definitions import reaching_definition
from ddpify.understanding.taint.sources import LOCAL, TOTAL
from ddpify.understanding.values import Bound, Function


def is_made_by_one_rank(script: Script, edge: FlowEdge) -> bool:
    """Whether a value is added up in a loop that only some ranks go through, and over nothing that
    is split: what it draws there, such as ``data.batch(8)``, is of all of the data.
    """
    alone = _of_some_ranks(script, edge.node)
    if alone is None:
        return False
    within = set(walk(alone))
    read = within - {
        inner for one in within if isinstance(one, cst.AssignTarget) for inner in walk(one)
    }
    loops = [one for one in script.structure_of(edge.node).loops(edge.node) if one in within]
    iterated = [one.iter for one in loops if isinstance(one, cst.For)]
    if not loops or any(script.gives_parts(x) for one in iterated for x in script.loaders_in(one)):
        return False
    return all(_is_made_within(script, one, within) for one in read)


def _of_some_ranks(script: Script, node: cst.CSTNode) -> cst.CSTNode | None:
    """The statement or the function around a node that a condition on the rank leads to."""
    structure, control = script.structure_of(node), script.control
    guards = [one for one in control.rank_guards(node) if not one.left_early]
    if guards and isinstance(guards[-1].statement, cst.If):
        return guards[-1].statement.body
    function = structure.function(node)
    if not isinstance(function, cst.FunctionDef) or not control.on_some_ranks(node):
        return None
    return function


def _is_made_within(script: Script, node: cst.CSTNode, within: set[cst.CSTNode]) -> bool:
    """Whether a name or a call is no rank's own, or is made so among some nodes, by a model."""
    if not isinstance(node, (cst.Name, cst.Attribute, cst.Call)):
        return True
    if not script.labels(node) & {LOCAL, TOTAL}:
        return True
    if isinstance(node, cst.Call):
        own = any(isinstance(x, Function | Bound) for x in script.value(node.func).atoms)
        return not (own or "builtins.next" in script.names(node.func))
    edges = script.flow.edges_into(script.control.locations(node))
    structure, places = script.structure_of(node), [edge.node for edge in edges]
    last = reaching_definition(structure, node, places)
    edges = [edge for edge in edges if last in (None, edge.node)]
    return all(edge.node in within and not script.takes_batches(edge) for edge in edges)
