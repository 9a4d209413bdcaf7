"""Batches that are divided over threads: the same answers in the same order, each text in one part, one thread each."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from serve_cases import CHINESE, PASSAGE, client, sources

from masquerade.serve.batch_threads import BatchThreads, in_similar_lengths


@pytest.fixture
def two() -> Iterator[BatchThreads]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    made = BatchThreads()
    yield made
    made.close()
    torch.set_num_threads(before)


def test_parts_run_beside_each_other_in_one_thread_each_and_keep_the_order(two: BatchThreads) -> None:
    both, seen = threading.Barrier(2, timeout=30), list[tuple[list[str], int]]()

    def work(items: Sequence[str]) -> list[str]:
        both.wait()  # passes only if the other part runs too
        seen.append((list(items), torch.get_num_threads()))
        return [each.upper() for each in items]

    items = ["a1", "b1", "a2", "c1", "a3"]
    assert two.run(work, items, len, lambda each: each[0]) == ["A1", "B1", "A2", "C1", "A3"]
    assert sorted(part for part, _ in seen) == [["a1", "a2", "a3"], ["b1", "c1"]]
    assert [threads for _, threads in seen] == [1, 1] and torch.get_num_threads() == 2
    with ThreadPoolExecutor(1) as later:
        assert later.submit(torch.get_num_threads).result() == 2


def test_few_texts_run_at_once_with_all_threads(two: BatchThreads) -> None:
    here = list[tuple[int, int]]()

    def work(items: Sequence[str]) -> list[str]:
        here.append((threading.get_ident(), torch.get_num_threads()))
        return list(items)

    assert two.run(work, ["a1", "a2"], len, lambda each: each[0]) == ["a1", "a2"]
    assert here == [(threading.get_ident(), 2)]


def test_an_error_comes_after_all_parts_have_ended(two: BatchThreads) -> None:
    ended = threading.Event()

    def work(items: Sequence[str]) -> list[str]:
        if items == ["bad"]:
            raise ValueError("bad")
        threading.Event().wait(0.2)
        ended.set()
        return list(items)

    with pytest.raises(ValueError, match="bad"):
        two.run(work, ["good", "bad"], len, lambda each: each)
    assert ended.is_set()


def test_what_is_alike_is_computed_together_with_little_padding() -> None:
    ran = list[list[int]]()

    def work(items: Sequence[int]) -> list[str]:
        ran.append(list(items))
        return [f"{each}!" for each in items]

    sizes = [200, 20, 190, 22, 21, 210, 20]
    assert in_similar_lengths(work, sizes, int) == [f"{each}!" for each in sizes]
    assert ran == [[20, 20, 21, 22], [190, 200, 210]]
    assert in_similar_lengths(work, [], int) == []
    for some in ran:  # those of one length are never parted
        assert len(some) * max(some) - sum(some) <= 0.25 * len(some) * max(some)


def test_answers_of_a_divided_batch_are_those_of_each_question_alone(two: BatchThreads, tmp_path: Path) -> None:
    texts = [PASSAGE, CHINESE, "a dog walks by the sea .", PASSAGE, "the mat is red ."]
    items = [{"question": f"who {word} ?", "passages": [text]} for word, text in zip("abcde", texts, strict=True)]
    with client(sources(tmp_path)) as service:
        alone = [service.post("/v1/answer", json=item).json() for item in items]
        together = service.post("/v1/answer/batch", json={"items": items}).json()["answers"]
        assert service.app.state.service.models.threads.count == 2  # type: ignore[attr-defined]
    for one, other in zip(alone, together, strict=True):
        assert one["answer"] == other["answer"] and one["score"] == pytest.approx(other["score"], abs=1e-5)
