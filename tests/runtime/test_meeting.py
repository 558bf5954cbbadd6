"""Ranks that start again meet each other, not what former ranks have left in torchrun's store."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from torch._C._distributed_c10d import TCPStore

from ddpify.runtime.meeting import meet


@pytest.fixture
def server() -> Any:
    return TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def client(server: Any) -> Any:
    return TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)


def start(server: Any, ranks: list[int], size: int, seconds: float) -> list[Any]:
    """What each rank gets: its store, or its error."""

    def one(rank: int) -> Any:
        try:
            return meet(client(server), rank, size, timedelta(seconds=seconds))
        except RuntimeError as error:
            return str(error)

    with ThreadPoolExecutor() as pool:
        return list(pool.map(one, ranks))


def test_each_start_has_keys_of_its_own(server: Any) -> None:
    for attempt in range(3):
        stores = start(server, [0, 1, 2], 3, 60)
        assert not any(store.check(["address"]) for store in stores)
        stores[attempt].set("address", str(attempt))
        assert [store.get("address") for store in stores] == [str(attempt).encode()] * 3


def test_ranks_that_came_before_they_died_are_not_taken_for_new_ones(server: Any) -> None:
    start(server, [1, 2], 3, 0.1)
    assert (
        start(server, [0, 1], 3, 0.5)
        == ["the ranks did not meet: rank 2 did not come to init() within 0.5 seconds of this one"]
        * 2
    )
    stores = start(server, [0, 1, 2], 3, 60)
    stores[1].set("address", "new")
    assert stores[0].get("address") == stores[2].get("address") == b"new"


def test_without_rank_0_the_others_say_so(server: Any) -> None:
    (error,) = start(server, [1], 2, 0.1)
    assert "rank 0 did not come to init() within 0.1 seconds" in error
