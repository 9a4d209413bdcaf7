"""What a reader keeps of the texts that it has read: the same answers, less work, no more bytes than allowed."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from reader_cases import ASKED, CITY, LONG, PARTS, SHEET, SHORT, network, reader, same, tokenizer

from masquerade.errors import MasqueradeError
from masquerade.reading import reader as module
from masquerade.reading.layouts import Window
from masquerade.reading.memory import EncodedPassage, Memory, encode_passages
from masquerade.reading.reader import Reader, Settings


@pytest.mark.parametrize("fork", range(4))
def test_what_is_remembered_is_answered_the_same_and_read_no_more(fork: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = reader(fork).ask_many(ASKED, 4)
    exact, halved = (reader(fork, stored=stored) for stored in (torch.float32, torch.float16))
    for warm in (exact, halved):
        warm.remember([SHORT, CITY, SHORT + CITY, LONG, ""])
    read = list[Window]()
    monkeypatch.setattr(module, "encode_passages", lambda model, sheet, windows: read.extend(windows) or [])
    assert all(same(one, other) for one, other in zip(cold, exact.ask_many(ASKED, 4), strict=True))
    for one, other in zip(cold, halved.ask_many(ASKED, 4), strict=True):
        assert one.score == pytest.approx(other.score, abs=2e-2)
    assert not read


@pytest.mark.parametrize("fork", range(4))
def test_what_was_read_for_one_call_is_not_read_again_for_the_next(fork: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asker = reader(fork, memory=2**23)
    first = asker.ask_many(ASKED, 4)
    monkeypatch.setattr(module, "encode_passages", lambda *given: pytest.fail("a window is encoded twice"))
    assert all(same(one, other) for one, other in zip(first, asker.ask_many(ASKED, 4), strict=True))
    assert not len(asker.memory), "only what is remembered by name is kept there"
    assert asker.recent.used <= asker.recent.size


def test_a_reader_says_in_which_precision_it_remembers() -> None:
    for stored in (torch.float16, torch.float32):
        name = str(stored).removeprefix("torch.")
        asker = Reader(Settings(SHEET.slots, SHEET.question, PARTS, stored=name).put(network()))
        asker.remember(SHORT)
        assert {layer.dtype for held in asker.memory.held.values() for layer in held.layers} == {stored}
    with pytest.raises(MasqueradeError, match="float16 or float32, not 'int8'"):
        Reader(Settings(SHEET.slots, SHEET.question, PARTS, stored="int8").put(network()))


def test_half_of_the_passages_may_be_remembered() -> None:
    warm = reader()
    warm.remember(CITY)
    for one, other in zip(warm.ask_many(ASKED), reader().ask_many(ASKED), strict=True):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, abs=2e-2)


def kept(n: int) -> EncodedPassage:
    """A passage of n tokens, 64 · n bytes in float32, besides its layout."""
    return EncodedPassage(SHEET.trunk([9] * n)[:n], torch.ones(n, 4), (torch.ones(2, 2, n, 3),))


def test_memory_is_bounded_and_what_was_not_asked_for_longest_goes_first() -> None:
    one = kept(10).to(torch.float16).size
    memory = Memory(3 * one, torch.float16)
    for number in range(3):
        memory.put((number,), kept(10))
    assert (len(memory), memory.used) == (3, 3 * one)
    assert memory.get((0,)) is not None  # now 1 is the oldest
    memory.put((3,), kept(10))
    assert [number for number in range(4) if (number,) in memory.held] == [0, 2, 3]
    memory.put((2,), kept(10))  # again: it is the newest, and counted once
    assert memory.used == 3 * one
    memory.put((4,), kept(15))  # two have to go
    assert list(memory.held) == [(2,), (4,)]
    assert memory.used == sum(each.size for each in memory.held.values()) <= memory.size
    assert memory.get((0,)) is None
    memory.put((5,), kept(31))
    assert list(memory.held) == [(2,), (4,)], "what is too large for all the room drives nothing out"


def test_what_is_remembered_takes_no_more_bytes_than_it_says() -> None:
    for stored in (torch.float16, torch.float32):
        asker = reader(fork=2, stored=stored)
        asker.remember([SHORT, CITY, LONG])
        memory, storages = asker.memory, dict[int, int]()
        for each in memory.held.values():
            for tensor in (each.layout.stacked, each.states, *each.layers):
                storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        assert sum(storages.values()) <= memory.used
        assert memory.used == sum(each.size for each in memory.held.values())
    narrow = reader(fork=2, memory=memory.used // 2, stored=torch.float32)
    narrow.remember([SHORT, CITY, LONG])
    assert 0 < len(narrow.memory) < len(memory)
    assert narrow.memory.used <= narrow.memory.size


def test_no_more_is_read_to_be_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOGETHER", 1)
    read, texts = list[int](), [f"{SHORT} {number}" for number in "１２0"] + [LONG]
    wide = reader()
    wide.remember(texts, read.append)
    assert sum(read) == len(wide.memory) > 4
    room, few = sum(each.size for each in list(wide.memory.held.values())[:2]), list[int]()
    narrow = reader(memory=room)
    narrow.remember(texts, few.append)
    assert 0 < len(narrow.memory) <= sum(few) <= 3


def test_a_reader_asked_from_eight_threads_answers_as_alone() -> None:
    asked = [(question, passage) for question in ("Who?", "Where is the cat?") for passage in (SHORT, CITY, LONG)] * 4
    alone = [reader(stored=torch.float32).ask(*each) for each in asked]
    room = max(each.size for each in encode_passages(network(), SHEET, SHEET.windows(tokenizer(), [LONG]))) * 3
    busy = reader(stored=torch.float32, memory=room)  # so small that threads drop what others hold
    with ThreadPoolExecutor(8) as threads:
        kept = [threads.submit(busy.remember, [LONG, SHORT, CITY]) for _ in range(8)]
        found = list(threads.map(lambda each: busy.ask(*each), asked))
        assert all(each.result() is None for each in kept)
    assert all(same(one, other) for one, other in zip(alone, found, strict=True))
    assert busy.memory.used == sum(each.size for each in busy.memory.held.values()) <= room


def test_a_memory_counts_its_bytes_right_under_threads() -> None:
    passages = encode_passages(network(), SHEET, [Window(0, (6, 7, 8), (), (0, 3))])
    memory = Memory(passages[0].to(torch.float32).size * 5, torch.float32)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns as often as they can
    try:
        with ThreadPoolExecutor(8) as threads:
            jobs = [
                threads.submit(lambda n=n: (memory.put((n % 9,), passages[0]), memory.get((n % 7,))))
                for n in range(3000)
            ]
            for job in jobs:
                job.result()
    finally:
        sys.setswitchinterval(switch)
    assert memory.used == sum(each.size for each in memory.held.values()) == 5 * passages[0].to(torch.float32).size
