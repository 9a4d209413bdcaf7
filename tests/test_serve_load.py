"""The load tool: percentiles, measurements that are not made twice, and what its checks say."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_percentiles_are_nearest_ranks() -> None:
    from serving_load import percentile

    seconds = [each / 1000 for each in range(1, 101)]
    random.Random(0).shuffle(seconds)
    assert [percentile(seconds, each) for each in (50, 95, 99, 100)] == [50.0, 95.0, 99.0, 100.0]
    assert percentile([0.5], 99) == 500.0 and percentile([], 50) is None


def test_every_passage_of_the_load_is_new() -> None:
    from serving_load import Texts

    rng = random.Random(0)
    for language in ("en", "zh"):
        passages = [json.loads(Texts(language).body(rng))["passages"][0] for _ in range(500)]
        assert len(set(passages)) == 500 and max(map(len, passages)) > 3 * min(map(len, passages))


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    from serving import Kept

    made = list[int]()
    for _ in range(2):  # the second time as after an interruption
        kept = Kept(tmp_path / "out.json", {"seconds": 1})
        for count in ("1", "2"):
            kept.measure(("closed", "alone", count), lambda: made.append(1) or {"answers_per_second": len(made)})
    assert len(made) == 2 and kept.get("closed", "alone", "2") == {"answers_per_second": 2}
    with pytest.raises(SystemExit):
        Kept(tmp_path / "out.json", {"seconds": 2})


def test_the_checks_fail_where_a_claim_does_not_hold() -> None:
    from serving import Kept, checks

    kept = Kept(None, {})
    good = {
        "closed": {"gain": {"16": 1.6}}, "poisson": {"held": {"per_second": 4.0}}, "memory": {"growth": 1.01},
        "overload": {"statuses": {"200": 9, "429": 5}, "afterwards": {"status": 200}}, "same": {"different": 0},
    }  # fmt: skip
    kept.found |= good
    assert len(checks(kept)) == 6 and all(checks(kept).values())
    kept.found |= {
        "closed": {"gain": {"16": 1.4}}, "poisson": {"held": {"per_second": 0.0}}, "memory": {"growth": 1.2},
        "overload": {"statuses": {"200": 9, "broken": 5}, "afterwards": {"status": 429}}, "same": {"different": 1},
    }  # fmt: skip
    assert len(checks(kept)) == 6 and not any(checks(kept).values())
