"""Samples of data sets without indices (``IterableDataset``): they are known by their content."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch.utils.data._utils import fetch as fetchers

from ddpify.verify.inside.patching import replace

Watch = Callable[[str, Any], None]
MAX_KEPT = 100_000


class Stream:
    """The samples of one pass over such a data set.

    Args:
        samples: The data set's iterator.
        content: A number for a sample, 0 where nothing is known of it.
        watch: Takes each sample that is yielded, with the name of its content.
    """

    def __init__(
        self, samples: Iterator[Any], content: Callable[[Any], float], watch: Watch
    ) -> None:
        self._samples, self._content, self._watch = samples, content, watch
        self._kept: dict[str, Any] = {}

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Any:
        item = next(self._samples)
        name = self._name(item)
        if name:
            self._watch(name, item)
        return item

    def take(self, name: str) -> Any:
        """The sample of that content, whether it has come already or comes later.

        Raises:
            RuntimeError: There is none.
        """
        while name not in self._kept:
            item = next(self._samples, None)
            if item is None or len(self._kept) > MAX_KEPT:
                raise RuntimeError("ddpify verify: the stream has no such sample")
            self._kept[self._name(item)] = item
        self._watch(name, self._kept[name])
        return self._kept[name]

    def _name(self, item: Any) -> str:
        mark = self._content(item)
        return f"{mark:.10g}" if mark and mark == mark else ""


def install(content: Callable[[Any], float], watch: Watch) -> None:
    """Make loaders read streams in this way; ``content`` and ``watch`` as of ``Stream``."""
    fetcher = fetchers._IterableDatasetFetcher
    begin: Any = fetcher.__init__
    fetch: Any = fetcher.fetch

    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self.dataset_iter = Stream(self.dataset_iter, content, watch)

    def fetched(self: Any, index: Any) -> Any:
        names = index if isinstance(index, list) else [index]
        if not any(isinstance(name, str) for name in names):
            return fetch(self, index)
        items = [self.dataset_iter.take(name) for name in names]
        return self.collate_fn(items if self.auto_collation else items[0])

    replace(fetcher, "__init__", construct)
    replace(fetcher, "fetch", fetched)
