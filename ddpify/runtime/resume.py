"""A restart that goes on where the last snapshot of a training was taken.

A restarted script runs from its top. Its resumable loops leave out the iterations that are done,
without loading their batches; where the snapshot was taken, everything is put back to what it was.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from ddpify.runtime.position import Level, position
from ddpify.runtime.snapshots import Snapshots, restore_random
from ddpify.runtime.state import restore

Item = TypeVar("Item")

_snapshots: Snapshots | None = None


def take_snapshots(snapshots: Snapshots) -> None:
    """Begin: resumable() and snapshot() work from now on."""
    global _snapshots
    _snapshots = snapshots
    position().active = True
    position().target = snapshots.load()


def resumable(iterable: Iterable[Item], *objects: Any) -> Iterable[Item]:
    """The iterable of a ``for`` loop that a restart takes up in the iteration that was reached.

    ``objects``: what the loop changes in place (models, optimizers, schedulers, scalers,
    generators, lists, dicts, objects of the script's own classes). Snapshots hold their state.
    Without ``init(snapshots=...)``, the iterable itself.

    Raises RuntimeError where a restarted loop ends before the iteration of the snapshot.
    """
    return _loop(iterable, objects) if position().active else iterable


def snapshot(*values: Any) -> Any:
    """Take a snapshot, if one is due; in a restarted run, go back to the one that was taken.

    To be called at the start of the body of a resumable loop. ``values``: the local variables
    that an iteration takes over from those before it; they are returned (one as itself, several
    as a tuple), restored in the first iteration after a restart. Ends the process, with status
    143, when SIGTERM has come and the snapshot is written. A collective.
    """
    if _snapshots is not None:
        level = position().innermost
        level.values = values = _restored_values(level, values)
        _snapshots.boundary(level)
    return values[0] if len(values) == 1 else values


def _loop(iterable: Iterable[Item], objects: tuple[Any, ...]) -> Iterator[Item]:
    here = position()
    level = here.enter(objects)
    try:
        with _advancing(level):
            iterator = _at_start(level, iterable)
        while True:
            try:
                item = _next(level, iterator)
            except StopIteration:
                break
            level.next_iteration(item)
            _restore_objects(level)
            yield item
        if here.saved_level(level) is not None:
            raise _not_reached(level)
    finally:
        here.leave(level)


def _at_start(level: Level, iterable: Iterable[Item]) -> Iterator[Item]:
    """The iterable's iterator, after the iterations that a restart leaves out."""
    here = position()
    saved = here.saved_level(level)
    if saved is None:
        return iter(iterable)
    if isinstance(iterable, range) and saved["item"] is not None:
        # By its value: a script that has resumed by itself begins with a later one.
        if saved["item"] not in iterable:
            raise _not_reached(level)
        level.count = iterable.index(saved["item"]) - 1
        rest: Any = iterable[level.count + 1 :]
        return iter(rest)
    iterator = iter(iterable)
    here.skipping = True
    try:
        for _ in range(saved["count"]):
            level.next_iteration(_next(level, iterator))
    except StopIteration:
        raise _not_reached(level) from None
    finally:
        here.skipping = False
    return iterator


def _next(level: Level, iterator: Iterator[Item]) -> Item:
    here = position()
    assert _snapshots is not None
    saved = here.saved_level(level)
    if saved is None:
        _snapshots.before_fetch()
    elif not here.skipping and _is_target(level):
        assert here.target is not None
        restore_random(here.target["random"])
    with _advancing(level):
        return next(iterator)


@contextlib.contextmanager
def _advancing(level: Level) -> Iterator[None]:
    """Inside, a loop takes its next item; its body does not run."""
    here = position()
    before, here.advancing = here.advancing, level
    try:
        yield
    finally:
        here.advancing = before


def _restored_values(level: Level, values: tuple[Any, ...]) -> tuple[Any, ...]:
    here = position()
    saved = here.saved_level(level)
    if saved is None:
        return values
    codes = saved["values"]
    if len(codes) != len(values):
        raise RuntimeError(
            f"the snapshot holds {len(codes)} values for a loop that has {len(values)}: it is of "
            "another version of the script; remove the snapshots to start anew"
        )
    found = tuple(restore(code, old) for code, old in zip(codes, values, strict=True))
    if _is_target(level):
        for one in here.levels:
            _restore_objects(one)
        assert _snapshots is not None
        _snapshots.resumed()
    return found


def _restore_objects(level: Level) -> None:
    saved = position().saved_level(level)
    if saved is None:
        return
    for index, (code, into) in enumerate(zip(saved["objects"], level.objects, strict=True)):
        name = f"argument {index + 2} of resumable()"
        found = restore(code, into, name)
        if type(found) in (bool, int, float, str) and found != into:
            raise RuntimeError(
                f"{name} is a {type(found).__name__}, which cannot be changed in place: give the "
                "variable to snapshot() instead"
            )


def _is_target(level: Level) -> bool:
    """Whether the snapshot was taken in this loop, not in one inside it."""
    target = position().target
    return target is not None and level.depth == len(target["levels"]) - 1


def _not_reached(level: Level) -> RuntimeError:
    saved = position().saved_level(level)
    assert saved is not None
    place = saved["count"] if saved["item"] is None else saved["item"]
    return RuntimeError(
        f"the snapshot was taken in iteration {place} of a loop that now has no such iteration: "
        "start with the settings of the first run, or remove the snapshots to start anew"
    )
