"""What a run notes of reads of values that ranks hold in part, and of effects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from ddpify.understanding import uses
from ddpify.understanding.facts import Demand, Effect, Site
from ddpify.understanding.forms import Layout
from ddpify.understanding.placement import Placement
from ddpify.understanding.run_state.state import State
from ddpify.understanding.syntax import displayed, dotted
from ddpify.understanding.values import NO_ROWS, Atom, Data, Instance, Value, deep_atoms, value


class Demands(State):
    """Notes who reads what ranks hold in part, and who acts on the outside world."""

    def demand(self, node: cst.CSTNode, what: Value, reader: str) -> None:
        """Note that something reads a value that ranks hold only in part."""
        for atom in what.atoms:
            for counting in (
                atom.definition_sites if isinstance(atom, Data) and atom.is_position else ()
            ):
                self.demand(counting, self.seen(counting), uses.ROWS_OF_ALL)
        if self.collating:
            self.mixes(node, *what.data)
            return
        for data in what.data:
            if data.form is Layout.PERMUTATION:
                continue  # of all rows, on every rank
            if data.behind:  # which of its dimensions is that of the rows is not known
                for met in data.behind:
                    self.demand(met, self.seen(met), reader)
                continue
            alone = self.frame.in_forward and data.placement is Placement.SHARD
            if alone and reader == uses.A_CONDITION:
                continue  # several rows have no truth value: something else comes here
            # What is gathered for one call may make the next one's global; a count stands alone.
            counted = data.definition_sites if data.placement is Placement.COUNT else None
            self._note_demand((node, data.placement, counted), node, data, reader)

    def _note_demand(
        self, key: tuple[object, ...], node: cst.CSTNode, data: Data, reader: str
    ) -> None:
        """Note the first way to a reader, and one for each call that leads to it on others."""
        path, known = self.call_path, self.facts.demands.get(key)
        if known is None:
            site = Site(node, self.project.owner(node) or self.module)
            self.facts.demands[key] = Demand(site, data, reader, path)
        elif path and path != known.calls:
            again = self.facts.demands_again.setdefault(known, {})
            if path[-1] not in again:
                again[path[-1]] = Demand(known.site, data, reader, path)

    def mixes(self, node: cst.CSTNode, *mixed: Data) -> None:
        """Note that samples of a batch depend on each other in a collate function, from here on."""
        for data in mixed:
            if data.dim != NO_ROWS and data.form is not Layout.SAMPLES:
                self.mixes_batches(node, data.loaders)

    def mixes_batches(self, node: cst.CSTNode, loaders: Iterable[Instance]) -> None:
        """Note that a collate function needs whole batches of these loaders, from here on."""
        for loader in loaders:
            self.facts.loading.mixed.setdefault(loader, self.site(node))

    def demand_all(self, node: cst.BaseExpression, what: Value, reader: str) -> None:
        """Note that something reads a value and, where it is a display, each of its parts."""
        parts = displayed(node)
        if parts is None:
            self.demand(node, what, reader)
        for part in parts or ():
            self.demand_all(part, self.seen(part), reader)

    def demand_held(self, node: cst.BaseExpression, what: Value, reader: str) -> None:
        """Note that something reads all that a value holds; in a display, where it stands."""
        parts = displayed(node)
        for part in parts or ():
            self.demand_held(part, self.seen(part), reader)
        for atom in self._generated(what) if parts is None else ():
            if isinstance(atom, Data) and (atom.placement.local or atom.is_position):
                self.demand(node, value(atom), reader)
        if parts is None:
            self.lengthen(deep_atoms(what))

    def lengthen(self, held: Iterable[Atom]) -> None:
        """Let ``[len(row) for row in x]`` be as long as all rows are, where it is read as it is.

        A list with something of each row is told by that.
        """
        for made in (one for one in held if isinstance(one, Instance)):
            through = _gone_through(made.site)
            inside = (one for one in deep_atoms(made.elements) if isinstance(one, Data))
            if through is None or any(one.placement.local for one in inside):
                continue
            rows = deep_atoms(self.iterate(through, self.seen(through)))
            picked = (one for one in rows if isinstance(one, Data) and one.is_of_one_sample)
            self.demand(through, value(*picked), uses.A_TABLE)

    def _generated(self, what: Value) -> Iterator[Atom]:
        """All that a value holds, and what its generators give, if that is no batch of a loader."""
        for atom in deep_atoms(what):
            yield atom
            if not isinstance(atom, Instance) or atom.kind != "generator":
                continue
            if atom not in self.over_loaders:
                yield from deep_atoms(atom.elements)

    def effect(self, kind: str, node: cst.CSTNode, name: str) -> None:
        """Note an action on the outside world; in a file that stays, for each call from outside."""
        made = Effect(kind, self.site(node), name, self.call_path)
        known = self.facts.effects.setdefault((kind, node), made)
        call = made.reached_from
        if call is not None and call != known.reached_from:
            self.facts.effects.setdefault((kind, call.node), made)


def _gone_through(made: cst.CSTNode) -> cst.BaseExpression | None:
    """What a comprehension, or ``map(len, rows)``, goes through; None for others."""
    if isinstance(made, cst.BaseSimpleComp):
        return made.for_in.iter
    call = made if isinstance(made, cst.Call) else None
    if call is not None and len(call.args) == 1:  # list() or tuple()
        return _gone_through(call.args[0].value)
    if call is None or len(call.args) != 2 or dotted(call.func) != "map":
        return None
    return call.args[1].value
