"""Several words a step: each parallel method is what its definition says, alone, in a batch, with and without a cache;
and between blocks of one word and a block of all of them lies everything from greedy to masked diffusion."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from masquerade import Layout, Model, Spec, build
from masquerade.decoding.constraints import TokenSet
from masquerade.drawing.steps import steps
from masquerade.errors import MasqueradeError
from masquerade.families.own import mass
from masquerade.layout import FIELDS, Kind, join
from masquerade.masks import bidirectional, blocks, prefix
from masquerade.text.training import train_tokenizer
from masquerade.writing.fill import fill, infill
from masquerade.writing.generate import GeneratedText, generate
from masquerade.writing.prompts import Cloze, Continue, Frame, Prefix, frame_for

SMALL: dict[str, Any] = {"vocab": 50, "width": 16, "layers": 2, "heads": 2, "feedforward": 24, "longest": 40}
SPECS: dict[str, Spec] = {
    "bert": Spec(outputs=("lm",), **SMALL),
    "unilm": Spec(segments=6, outputs=("lm",), **SMALL),
    "nezha": Spec(positions=("nezha",), outputs=("lm",), **SMALL),
    "gpt": Spec(mask="causal", norm_first=True, segments=0, outputs=("lm",), **SMALL),
    "glm": Spec(segments=0, positions=("learned", "inner"), outputs=("lm",), **SMALL),
    "xlnet": Spec(
        segments=0, positions=("transformer-xl",), segment_relation=True, query_vector=True, embedding_norm=False,
        attention_bias=False, lm_dense=False, outputs=("lm",), **SMALL,
    ),
    "mass": mass(**SMALL),
}  # fmt: skip
PAD, UNK, CLS, SEP, MASK = range(5)
TOKENIZER = train_tokenizer(["北京是首都 写读也名城历史中国的一座"], "wordpiece", size=50)
PROMPTS = [[2, 10, 11, 12, 3], [2, 20, 3], [2, 13, 14, 15, 16, 17, 18, 3], [2, 30, 31, 32, 3]]
MOST = 7
FRAMES = [("bert", None), ("bert", "continue"), ("unilm", None), ("unilm", "continue"), ("nezha", None)]
DECODING_METHODS: list[tuple[str, dict[str, Any]]] = [
    ("parallel", {}),
    ("parallel", {"copies": 4}),
    ("parallel", {"lengths": [2, 3, 5], "copies": 4}),
    ("parallel", {"both_ways": False}),
    ("mask-predict", {"rounds": 3}),
    ("mask-predict", {"rounds": 4, "lengths": [1, 4, 6], "copies": 3, "both_ways": False}),
    ("diffusion", {"rounds": 3}),
    ("diffusion", {"each": 2, "both_ways": False}),
    ("diffusion", {"temperature": 1.5, "seed": 3, "copies": 2, "rounds": 4, "schedule": "cosine"}),
    ("blocks", {"size": 1}),
    ("blocks", {"size": 3}),
    ("blocks", {"size": 4, "rounds": 2}),
    ("blocks", {"size": 2, "temperature": 1.0, "seed": 4, "copies": 3, "rounds": 2}),
]


@cache
def model_of(name: str) -> Model:
    """A tiny network that does not say the same everywhere: no word is the best one by itself, and every tenth is the
    end."""
    torch.manual_seed(11)
    model = build(SPECS[name]).eval()
    for key, weight in model.named_parameters():
        torch.nn.init.normal_(weight, 1.0 if "norm.weight" in key else 0.0, 0.2 if weight.dim() == 1 else 0.6)
    model.tokenizer = TOKENIZER
    if name in ("bert", "unilm", "nezha"):
        layouts = [prefix(prompt, [MASK] * MOST) for prompt in PROMPTS]
        with torch.no_grad():
            scores = torch.cat([model.scores(layout)[0, -MOST:] for layout in layouts])
            bias = model.heads["lm"].bias
            bias -= scores.mean(0)
            bias[[PAD, UNK, CLS, MASK]] = -50.0
            scores = scores + bias
            bias[SEP] += (scores.amax(-1) - scores[:, SEP]).quantile(0.1)
    return model


def all_of(written: GeneratedText) -> list[GeneratedText]:
    return [written, *written.alternatives]


def texts(written: list[GeneratedText]) -> list[list[list[int]]]:
    return [[text.ids + [SEP] * text.ended for text in all_of(one)] for one in written]


def cut(ids: list[int]) -> list[int]:
    return ids[: ids.index(SEP) + 1] if SEP in ids else ids


def logs_at(model: Model, layout: Layout, slots: int) -> Tensor:
    """Log-probabilities at the last tokens of a layout, (slots, vocab)."""
    with torch.no_grad():
        return model.scores(layout)[0, -slots:].log_softmax(-1)


def both_ways(name: str, frame: str | None, prompt: list[int], slots: list[int]) -> Layout:
    """Prompt and slots, where everybody sees everybody."""
    segment = [0] * len(prompt) + [0 if frame == "continue" else 1] * len(slots)
    return bidirectional([*prompt, *slots], segment)


@pytest.mark.parametrize(("name", "frame"), FRAMES)
@pytest.mark.parametrize(("method", "own"), DECODING_METHODS)
def test_alone_in_a_batch_cached_or_not_the_texts_are_the_same(
    name: str, frame: str | None, method: str, own: dict[str, Any]
) -> None:
    model = model_of(name)
    settings = own | {"max_new": MOST, "frame": frame}
    alone = [generate(model, [prompt], method, **settings)[0] for prompt in PROMPTS]
    together = generate(model, PROMPTS, method, **settings)
    anew = generate(model, PROMPTS, method, cache=False, **settings)
    assert texts(together) == texts(alone) == texts(anew)
    for one, other in zip(alone, together, strict=True):
        assert [text.score for text in all_of(one)] == pytest.approx([t.score for t in all_of(other)], abs=1e-4)


@pytest.mark.parametrize(("name", "frame"), FRAMES)
def test_parallel_writes_the_best_word_in_every_slot_up_to_the_first_end(name: str, frame: str | None) -> None:
    model = model_of(name)
    written = generate(model, PROMPTS, "parallel", max_new=MOST, frame=frame)
    for prompt, text in zip(PROMPTS, written, strict=True):
        logs = logs_at(model, both_ways(name, frame, prompt, [MASK] * MOST), MOST)
        expected = cut(logs.argmax(-1).tolist())
        assert text.ids + [SEP] * text.ended == expected
        assert text.score == pytest.approx(sum(float(logs[i, n]) for i, n in enumerate(expected)), abs=1e-4)
        assert [(commit.step, commit.index, commit.id) for commit in text.trace] == [
            (0, place, number) for place, number in enumerate(expected)
        ]
    assert len({len(text.ids) for text in written}) > 1, "the cases have to see ends"


def test_fewer_words_than_asked_for_come_from_where_fewer_fit() -> None:
    model = model_of("bert")
    long = [CLS, *range(10, 44), SEP]  # 36 tokens: room for 4
    got = generate(model, [PROMPTS[0], long], "parallel")
    assert texts(got)[1] == texts(generate(model, [long], "parallel", max_new=4))[0]
    assert texts(got)[0] == texts(generate(model, PROMPTS[:1], "parallel", max_new=35))[0]


def by_mask_predict(model: Model, prompt: list[int], n: int, rounds: int) -> list[int]:
    """Mask-predict as published, on a text of n slots."""
    slots, sure = [MASK] * n, [-math.inf] * n
    masked = list(range(n))
    for done in range(1, rounds + 1):
        logs = logs_at(model, both_ways("bert", None, prompt, slots), n)
        for place in masked:
            slots[place] = int(logs[place].argmax())
            sure[place] = float(logs[place].max())
        masked = sorted(range(n), key=lambda place: sure[place])[: n * (rounds - done) // rounds]
        if done < rounds:
            slots = [MASK if place in masked else word for place, word in enumerate(slots)]
    return cut(slots)


@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 9])
def test_mask_predict_masks_the_least_certain_again(rounds: int) -> None:
    model = model_of("bert")
    got = generate(model, PROMPTS, "mask-predict", rounds=rounds, max_new=MOST)
    assert [ids for (ids,) in texts(got)] == [by_mask_predict(model, prompt, MOST, rounds) for prompt in PROMPTS]


def by_diffusion(model: Model, layout: Any, n: int, each: int) -> tuple[list[int], list[tuple[int, int, int]]]:
    """The most certain words of every round, for good; and when each of them came."""
    slots, done, trace = [MASK] * n, 0, []
    while MASK in cut(slots):
        logs = logs_at(model, layout(slots), n)
        open_to = [place for place in range(n) if slots[place] == MASK]
        for place in sorted(open_to, key=lambda place: -float(logs[place].max()))[:each]:
            slots[place] = int(logs[place].argmax())
            trace.append((done, place, slots[place]))
        done += 1
    final = cut(slots)
    return final, sorted(entry for entry in trace if entry[1] < len(final))


@pytest.mark.parametrize("each", [1, 2, 3, MOST])
def test_diffusion_keeps_the_most_certain_words_of_every_round(each: int) -> None:
    model = model_of("bert")
    for prompt, text in zip(PROMPTS, generate(model, PROMPTS, "diffusion", each=each, max_new=MOST), strict=True):
        ids, trace = by_diffusion(model, lambda slots, p=prompt: both_ways("bert", None, p, slots), MOST, each)
        assert text.ids + [SEP] * text.ended == ids
        assert sorted((commit.step, commit.index, commit.id) for commit in text.trace) == trace


@pytest.mark.parametrize(("rounds", "schedule"), [(1, "linear"), (3, "linear"), (3, "cosine"), (30, "linear")])
def test_a_schedule_says_how_many_words_a_round_keeps(rounds: int, schedule: str) -> None:
    model = model_of("bert")
    frame = Quiet(CLS, SEP, MASK)
    text = generate(model, PROMPTS[:1], "diffusion", rounds=rounds, schedule=schedule, max_new=9, frame=frame)[0]
    counts = [len(step.new) for step in steps(text.trace)]
    assert (
        counts
        == {(1, "linear"): [9], (3, "linear"): [3, 3, 3], (3, "cosine"): [2, 3, 4], (30, "linear"): [1] * 9}[
            rounds, schedule
        ]
    )


class Quiet(Prefix):
    """A frame in which nothing ends."""

    @property
    def end(self) -> None:  # type: ignore[override]
        return None


# From one word a step to all of them


@pytest.mark.parametrize(("name", "frame"), FRAMES)
def test_blocks_of_one_word_are_greedy(name: str, frame: str | None) -> None:
    model = model_of(name)
    greedy = generate(model, PROMPTS, "greedy", max_new=MOST, frame=frame)
    for rounds in (1, 3):
        got = generate(model, PROMPTS, "blocks", size=1, rounds=rounds, max_new=MOST, frame=frame)
        assert texts(got) == texts(greedy)
        assert [text.score for text in got] == pytest.approx([text.score for text in greedy], abs=1e-4)
        assert [text.trace for text in got] == [text.trace for text in greedy]


@pytest.mark.parametrize("rounds", [1, 3, MOST])
@pytest.mark.parametrize("name", ["bert", "unilm"])
def test_one_block_of_a_text_and_its_prompt_is_masked_diffusion(name: str, rounds: int) -> None:
    model = model_of(name)
    if name == "unilm":  # it tells its masks apart by segments: here by none
        frame: Frame = replace(frame_for(model, "continue"), segment=0)  # type: ignore[type-var]
    else:
        frame = frame_for(model, "continue")
    whole = generate(model, PROMPTS, "diffusion", rounds=rounds, max_new=MOST, frame=frame)
    got = generate(model, PROMPTS, "blocks", size=99, rounds=rounds, max_new=MOST, frame=frame)
    assert texts(got) == texts(whole)
    assert [text.trace for text in got] == [text.trace for text in whole]
    if rounds == 1:
        assert texts(got) == texts(generate(model, PROMPTS, "parallel", max_new=MOST, frame=frame))


@pytest.mark.parametrize("name", ["bert", "unilm"])
def test_one_block_behind_a_source_is_diffusion_that_the_source_does_not_see(name: str) -> None:
    model = model_of(name)
    for rounds in (1, 3):
        settings: dict[str, Any] = {"rounds": rounds, "max_new": MOST}
        got = generate(model, PROMPTS, "blocks", size=MOST, **settings)
        assert texts(got) == texts(generate(model, PROMPTS, "diffusion", both_ways=False, **settings))


def in_blocks(model: Model, prompt: list[int], n: int, size: int) -> list[int]:
    """Blocks behind a source by their definition, everything run anew for each block."""
    written: list[int] = []
    while len(written) < n and SEP not in written:
        now = min(size, n - len(written))
        layout = prefix(prompt, [*written, *[MASK] * now])
        rank = layout.rank.clone()
        rank[len(prompt) :] = 1 + torch.arange(len(written) + now) // size
        masks = torch.arange(len(layout)) >= len(layout) - now
        layout = layout.replace(
            rank=rank, horizon=rank - masks.long(), kind=torch.where(masks, int(Kind.PEER), int(Kind.CONTENT))
        )
        written += logs_at(model, layout, now).argmax(-1).tolist()
    return cut(written)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 20])
def test_blocks_see_the_source_the_blocks_before_and_themselves(size: int) -> None:
    model = model_of("bert")
    got = generate(model, PROMPTS, "blocks", size=size, max_new=MOST)
    assert [ids for (ids,) in texts(got)] == [in_blocks(model, prompt, MOST, size) for prompt in PROMPTS]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 50])
def test_blocks_that_go_on_from_a_text_are_those_of_block_diffusion(size: int) -> None:
    """The whole text is laid out as the model is trained, by ``masks.blocks``: the prompt is in blocks, too."""
    model = model_of("bert")
    for prompt, text in zip(
        PROMPTS, generate(model, PROMPTS, "blocks", size=size, max_new=MOST, frame="continue"), strict=True
    ):
        ids, end = list(prompt), len(prompt) + MOST
        while len(ids) < end and SEP not in ids[len(prompt) :]:
            stop = min(size * (len(ids) // size + 1), end)
            noisy = ids + [MASK] * (stop - len(ids))
            with torch.no_grad():
                scores = model.scores(blocks(noisy, size, noisy=noisy))[0, stop:]
            ids += scores[len(ids) :].argmax(-1).tolist()
        assert text.ids + [SEP] * text.ended == cut(ids[len(prompt) :])


def test_a_page_in_blocks_is_laid_out_as_the_mask_says() -> None:
    text, size = list(range(10, 21)), 4
    expected = blocks(text, size, noisy=text)
    canvas, tail = Continue(SEP, query_kind=Kind.CONTENT, mask=MASK).canvas([text[:6]]).blocked(size)
    assert tail.tolist() == [text[4:6]]
    written = torch.tensor([text[4:]])
    clean = join([canvas.prompt, canvas.settled(written[:, :4], 0, 0), canvas.settled(written[:, 4:], 4, 1)]).row(0)
    noisy = join([canvas.slots(written[:, :4], 0, 0), canvas.slots(written[:, 4:], 4, 1)]).row(0)
    for name in FIELDS:
        assert torch.equal(getattr(clean, name), getattr(expected[:11], name)), name
        assert torch.equal(getattr(noisy, name), getattr(expected[15:], name)), name


def test_what_is_committed_is_kept_in_the_cache_and_not_run_again() -> None:
    model, seen = model_of("bert"), []
    hook = model.embeddings.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[1].ids.shape[1]))
    generate(model, PROMPTS[:1], "blocks", size=3, rounds=2, max_new=9, frame=Quiet(CLS, SEP, MASK))
    hook.remove()
    assert seen == [5 + 3, 3, 3 + 3, 3, 3 + 3, 3]


# Masks inside of a text


def test_masks_inside_a_text_are_filled_as_fill_fills_them() -> None:
    model = model_of("bert")
    for text in ("北[MASK]是[MASK]都", "[MASK]", "[MASK][MASK][MASK]写"):
        expected = [guesses[0].id for guesses in fill(model, text).guesses]
        assert generate(model, text, "parallel", frame="masks")[0].ids == expected


def test_a_text_is_given_back_with_its_masks_filled() -> None:
    model, text = model_of("bert"), "北[MASK]是[MASK]都"
    assert infill(model, text, "parallel").text == fill(model, text).text
    filled = infill(model, text, "mask-predict", rounds=2)
    ids = TOKENIZER.encode(text, specials=True)
    assert [new for new, old in zip(filled.ids, ids, strict=True) if old == MASK] == filled.written[0].ids
    assert [new for new, old in zip(filled.ids, ids, strict=True) if old != MASK] == [n for n in ids if n != MASK]
    assert filled.text == TOKENIZER.decode(filled.ids)
    with pytest.raises(MasqueradeError, match="cannot write in the frame 'masks'"):
        infill(model_of("gpt"), text)


def test_masks_of_several_texts_are_filled_in_one_batch_by_every_method() -> None:
    model = model_of("bert")
    prompts = [[CLS, 9, MASK, 10, MASK, SEP], [CLS, MASK, SEP], [CLS, MASK, 11, 12, MASK, MASK, SEP]]
    for method, own in [*DECODING_METHODS, ("greedy", {}), ("beam", {"beams": 3, "copies": 2})]:
        if "lengths" in own:
            continue
        settings = own | {"frame": "masks"}
        alone = [generate(model, [prompt], method, **settings)[0] for prompt in prompts]
        together = generate(model, prompts, method, **settings)
        assert [[text.ids for text in all_of(one)] for one in together] == [
            [text.ids for text in all_of(one)] for one in alone
        ]
        assert [len(text.ids) for text in together] == [2, 1, 3]
    by_hand = generate(model, prompts[2:], "diffusion", each=1, frame="masks")[0]
    ids = torch.tensor(prompts[2])
    while (ids == MASK).any():
        with torch.no_grad():
            logs = model.scores(bidirectional(ids))[0].log_softmax(-1)
        best = logs.amax(-1).masked_fill(ids != MASK, -torch.inf).argmax()
        ids[best] = logs[best].argmax()
    assert by_hand.ids == ids[torch.tensor(prompts[2]) == MASK].tolist()


def test_masks_are_filled_from_left_to_right_by_greedy() -> None:
    model, ids = model_of("bert"), [CLS, MASK, 11, MASK, SEP]
    got = generate(model, [ids], "greedy", frame="masks")[0].ids
    words: list[int] = []
    text = Layout.of([CLS, 11, SEP], position=[0, 2, 4])
    for place in (1, 3):
        slots = [*words, MASK]
        rank = torch.arange(1, len(slots) + 1)
        layout = join([text, Layout.of(slots, position=[1, 3][: len(slots)], rank=rank)])
        words.append(int(logs_at(model, layout, 1).argmax()))
        assert place == [1, 3][len(words) - 1]
    assert got == words


# What cannot be done


@pytest.mark.parametrize("method", ["parallel", "mask-predict", "diffusion", "blocks"])
@pytest.mark.parametrize(
    ("name", "frame", "why"),
    [
        ("gpt", None, "its mask is causal"),
        ("mass", None, "its decoder is causal"),
        ("glm", None, "it fills its blanks one token at a time"),
        ("xlnet", None, "its query tokens do not see each other"),
        ("bert", "shifted", "this frame predicts from the previous token instead of a"),
    ],
)
def test_a_mask_that_cannot_is_refused(method: str, name: str, frame: str | None, why: str) -> None:
    with pytest.raises(MasqueradeError, match=f"cannot write several tokens at once: .*{why}"):
        generate(model_of(name), [[2, 9, 3]], method, frame=frame, max_new=4)


def test_a_causal_model_is_refused_in_a_frame_of_ones_own() -> None:
    with pytest.raises(MasqueradeError, match="its mask is causal"):
        generate(model_of("gpt"), [[9]], "parallel", frame=Continue(SEP, query_kind=Kind.CONTENT, mask=MASK), max_new=4)


@pytest.mark.parametrize(
    ("method", "settings", "sentence"),
    [
        ("mask-predict", {"rounds": 0}, "Nothing is written in 0 rounds"),
        ("diffusion", {"rounds": -1}, "Nothing is written in -1 rounds"),
        ("blocks", {"rounds": 0}, "Nothing is written in 0 rounds"),
        ("blocks", {"size": 0}, "Blocks of 0 tokens do not exist"),
        ("diffusion", {"each": 0}, "A round that commits 0 tokens"),
        ("diffusion", {"temperature": 0.0}, "A temperature of 0.0 cannot be sampled at"),
        ("diffusion", {"schedule": "steep"}, "no schedule 'steep'; choose from linear, cosine"),
        ("diffusion", {"copies": 2}, "2 texts need as many lengths, or a temperature"),
        ("mask-predict", {"copies": 3, "lengths": [1, 2]}, "3 texts need as many lengths"),
        ("parallel", {"copies": 0}, "0 texts cannot be written"),
        ("parallel", {"lengths": 0}, "A text of 0 words cannot be written"),
        ("parallel", {"lengths": []}, "A text of no words cannot be written"),
        ("parallel", {"lengths": [2, 4]}, "A text of 4 words does not fit where 3 can be"),
        ("parallel", {"no_repeat": 2}, "'no_repeat' and 'repetition' do not work"),
        ("blocks", {"repetition": 1.2}, "'no_repeat' and 'repetition' do not work"),
        ("blocks", {"lengths": 2}, "'lengths' is no setting of the method 'blocks'"),
    ],
)
def test_impossible_settings_are_told_in_a_sentence(method: str, settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MasqueradeError, match=sentence):
        generate(model_of("bert"), PROMPTS, method, **{"max_new": 4} | settings)


def test_impossible_masks_are_told_in_a_sentence() -> None:
    with pytest.raises(MasqueradeError, match="has no \\[MASK\\] to fill"):
        Cloze(MASK).canvas([[CLS, 9, SEP]])
    with pytest.raises(MasqueradeError, match="Prompt 1 has 1 \\[MASK\\]s, all of which are filled"):
        generate(model_of("bert"), [[CLS, MASK, SEP]], "parallel", frame="masks", max_new=3)
    with pytest.raises(MasqueradeError, match="Prompt 1 does not fit"):
        generate(model_of("bert"), [[9] * 40 + [MASK]], "parallel", frame="masks")


def test_masks_are_filled_with_words_of_a_set() -> None:
    model, kept = model_of("bert"), [20, 21, 22]
    prompts = [[CLS, 9, MASK, 10, MASK, SEP], [CLS, MASK, SEP]]
    for method, own in [*DECODING_METHODS, ("greedy", {}), ("beam", {"beams": 3, "copies": 2})]:
        if "lengths" not in own:
            got = generate(model, prompts, method, frame="masks", constraint=TokenSet(kept), **own)
            assert all(set(text.ids) <= set(kept) for one in got for text in all_of(one))
    with torch.no_grad():
        logs = model.scores(bidirectional(prompts[1]))[0, 1].log_softmax(-1)[kept]
    best = generate(model, prompts[1:], "parallel", frame="masks", constraint=TokenSet(kept))[0]
    assert (best.ids, best.score) == ([kept[int(logs.argmax())]], pytest.approx(float(logs.max()), abs=1e-5))


def test_the_first_words_may_have_to_be_words() -> None:
    model = model_of("bert")
    for method in ("parallel", "mask-predict", "diffusion", "blocks"):
        for text in generate(model, PROMPTS, method, min_new=5, max_new=MOST):
            assert len(text.ids) >= 5
