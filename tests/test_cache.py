"""A cache keeps the values used last, within its bounds, and counts their bytes right."""

from __future__ import annotations

import random

from penstock.cache import Cache


def test_what_was_read_is_kept_within_bounds() -> None:
    recent: Cache[object, str] = Cache(most_bytes=100)
    for number in range(10):
        recent.put(number, str(number), 40)
    assert recent.values() == ["8", "9"] and recent.get(7) is None
    recent.put("large", "large", 1_000)
    assert recent.values() == ["large"], "what is being used is kept, however large"


def test_the_value_that_was_not_used_for_longest_goes_first() -> None:
    cache: Cache[str, int] = Cache(most=2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_any_life_leaves_the_newest_values_and_the_sum_of_their_bytes() -> None:
    chance = random.Random(7)
    cache: Cache[int, int] = Cache(most=5, most_bytes=100)
    model: dict[int, int] = {}  # sizes by key, in order of use
    for _ in range(3_000):
        key, size, step = chance.randrange(9), chance.randrange(60), chance.random()
        if step < 0.5:
            model.pop(key, None)
            model[key] = size
            cache.put(key, size, size)
            while len(model) > 5 or (sum(model.values()) > 100 and len(model) > 1):
                del model[next(iter(model))]
        elif step < 0.9:
            assert cache.get(key) == model.get(key)
            if key in model:
                model[key] = model.pop(key)
        elif step < 0.99:
            cache.remove(key)
            model.pop(key, None)
        else:
            cache.clear()
            model.clear()
        assert cache.values() == list(model.values())
        assert (len(cache), cache.nbytes) == (len(model), sum(model.values()))


def test_values_that_were_not_used_lately_go_when_another_comes() -> None:
    now = [0.0]
    cache: Cache[str, int] = Cache(idle_s=10.0, clock=lambda: now[0])
    cache.put("a", 1)
    cache.put("b", 2)
    now[0] = 8.0
    assert cache.get("a") == 1
    now[0] = 12.0
    cache.put("c", 3)
    assert cache.values() == [1, 3]
    now[0] = 100.0
    assert cache.get("c") == 3, "until another comes"
    cache.put("d", 4)
    assert cache.values() == [3, 4]
