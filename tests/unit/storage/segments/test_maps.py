from __future__ import annotations

import threading

from penstock.storage.segments.maps import MapCache


class Loads:
    """Loads a view and counts how often it had to."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def get(self, maps: MapCache, path: str) -> memoryview:
        def load() -> memoryview:
            self.paths.append(path)
            return memoryview(path.encode())

        return maps.get(path, memoryview, load)


def test_a_view_is_loaded_once() -> None:
    maps, loads = MapCache(2), Loads()

    assert loads.get(maps, "/a") is loads.get(maps, "/a")
    assert loads.paths == ["/a"]


def test_the_least_recently_used_goes_first() -> None:
    maps, loads = MapCache(2), Loads()
    for path in ("/a", "/b", "/a", "/c", "/a", "/b"):
        loads.get(maps, path)

    assert loads.paths == ["/a", "/b", "/c", "/b"]


def test_a_view_that_was_let_go_stays_valid_for_its_holder() -> None:
    maps, loads = MapCache(1), Loads()

    held = loads.get(maps, "/a")
    loads.get(maps, "/b")

    assert bytes(held) == b"/a"


def test_forgetting_takes_what_begins_with_a_prefix() -> None:
    maps, loads = MapCache(9), Loads()
    for path in ("/a.data", "/a.idx", "/b.data"):
        loads.get(maps, path)

    maps.forget("/a.")
    for path in ("/a.data", "/b.data"):
        loads.get(maps, path)

    assert loads.paths == ["/a.data", "/a.idx", "/b.data", "/a.data"]


def test_two_kinds_of_view_of_one_path_are_kept_apart() -> None:
    maps = MapCache(9)

    maps.get("/a", list, lambda: [1])

    assert maps.get("/a", tuple, lambda: (2,)) == (2,)
    assert maps.get("/a", list, lambda: [3]) == [1]


def test_threads_may_load_at_the_same_time() -> None:
    maps, loads = MapCache(3), Loads()
    wrong: list[str] = []

    def work() -> None:
        for number in range(200):
            path = f"/{number % 5}"
            if bytes(loads.get(maps, path)) != path.encode():
                wrong.append(path)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)

    assert wrong == []
