"""Frames lay out what is written as the masks define it, whatever the batch, with and without a cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from masquerade import Cache, Layout, Model, Spec, build
from masquerade.decoding.canvas import Canvas
from masquerade.errors import LayoutError, MasqueradeError
from masquerade.families.own import mass, palm
from masquerade.layout import FIELDS, Kind, batch, join, visible
from masquerade.masks import bidirectional, causal, infill, prefix, two_stream
from masquerade.text.training import train_tokenizer
from masquerade.writing.fill import infill as fill_gaps
from masquerade.writing.generate import GeneratedText, generate
from masquerade.writing.prompts import NAMES, Blank, Continue, Decode, Frame, Prefix, frame_for

SMALL: dict[str, Any] = {"width": 16, "layers": 2, "heads": 2, "feedforward": 24, "longest": 40, "init_std": 0.7}
SPECS: dict[str, Spec] = {
    "gpt": Spec(vocab=50, mask="causal", norm_first=True, segments=0, outputs=("lm",), **SMALL),
    "bert": Spec(vocab=50, outputs=("lm",), **SMALL),
    "roberta": Spec(vocab=50, segments=1, position_offset=2, outputs=("lm",), **SMALL),
    "unilm": Spec(vocab=50, segments=6, positions=("learned", "buckets"), outputs=("lm",), **SMALL),
    "glm": Spec(vocab=50, segments=0, positions=("learned", "inner"), outputs=("lm",), **SMALL),
    "xlnet": Spec(
        vocab=50, segments=0, positions=("transformer-xl",), segment_relation=True, query_vector=True,
        embedding_norm=False, attention_bias=False, lm_dense=False, outputs=("lm",),
        **{key: value for key, value in SMALL.items() if key != "longest"},
    ),
    "mass": mass(vocab=50, **SMALL),
    "palm": palm(vocab=50, **SMALL),
}  # fmt: skip
PAD, UNK, CLS, SEP, MASK = range(5)
TOKENIZER = train_tokenizer(["北京是首都 写读也名城历史中国的一座"], "wordpiece", size=50)
PROMPTS = [[2, 10, 11, 12, 3], [2, 20, 3], [2, 13, 14, 15, 16, 17, 18, 3], [2, 30, 31, 32, 3]]
FRAMES = [(name, None) for name in SPECS] + [("bert", "shifted"), ("bert", "continue"), ("unilm", "continue")]


def model_of(spec: str) -> Model:
    torch.manual_seed(7)
    model = build(SPECS[spec]).eval()
    for name, weight in model.named_parameters():
        if weight.dim() == 1:
            torch.nn.init.normal_(weight, 1.0 if "norm.weight" in name else 0.0, 0.2)
    model.tokenizer = TOKENIZER
    return model


def texts(written: list[GeneratedText]) -> list[list[list[int]]]:
    return [[text.ids + [SEP] * text.ended for text in (one, *one.alternatives)] for one in written]


def same(got: Layout, expected: Layout, fields: tuple[str, ...] = FIELDS) -> None:
    for name in fields:
        assert torch.equal(getattr(got, name), getattr(expected, name).to(getattr(got, name))), name


@pytest.mark.parametrize(("name", "frame"), FRAMES)
@pytest.mark.parametrize("method", ["greedy", "sample", "beam"])
def test_alone_in_a_batch_cached_or_not_the_texts_are_the_same(name: str, frame: str | None, method: str) -> None:
    model = model_of(name)
    own: dict[str, Any] = {"greedy": {}, "sample": {"seed": 1, "top_k": 9}, "beam": {"beams": 3, "copies": 3}}[method]
    settings = own | {"max_new": 7, "frame": frame, "no_repeat": 3}
    alone = [generate(model, [prompt], method, **settings)[0] for prompt in PROMPTS]
    together = generate(model, PROMPTS, method, **settings)
    anew = generate(model, PROMPTS, method, cache=False, **settings)
    assert texts(together) == texts(alone) == texts(anew)
    assert len({tuple(text[0]) for text in texts(alone)}) > 1
    assert [text.score for text in together] == pytest.approx([text.score for text in alone], abs=1e-4)


def by_hand(model: Model, name: str, frame: str | None, prompt: list[int], n: int) -> list[int]:
    """Greedy writing by the masks' own definitions, everything laid out and run anew for each token."""
    written: list[int] = []
    for _ in range(n):
        source = None
        if frame == "continue" and name in ("bert", "unilm"):
            layout = causal([*prompt, *written, MASK]).replace(segment=2 if name == "unilm" else 0)
        elif name == "gpt":
            layout = causal([*prompt, *written])
        elif name == "xlnet":
            n_all = len(prompt) + len(written) + 1
            layout = two_stream([*prompt, *written, MASK], list(range(n_all)), mask=MASK, predict=1)
        elif name == "glm":
            context = [*prompt[:-1], MASK, prompt[-1]]
            layout = infill(context, [(len(prompt) - 1, [CLS, *written])])
        elif name in ("mass", "palm"):
            layout, source = causal([MASK if name == "mass" else CLS, *written]), bidirectional(prompt)
        else:
            asked = [] if frame == "shifted" else [MASK]
            layout = prefix(prompt, [*written, *asked])
            if name == "roberta":
                layout = layout.replace(segment=0)
            if name == "unilm":
                layout = layout.replace(segment=layout.segment + 4)
        with torch.no_grad():
            written.append(int(model.scores(layout, source=source)[0, -1].argmax()))
        if written[-1] == SEP:
            break
    return written


@pytest.mark.parametrize(("name", "frame"), FRAMES)
def test_a_frame_lays_out_what_the_published_mask_says(name: str, frame: str | None) -> None:
    model = model_of(name)
    for prompt, written in zip(PROMPTS, generate(model, PROMPTS, max_new=6, frame=frame), strict=True):
        assert written.ids + [SEP] * written.ended == by_hand(model, name, frame, prompt, 6)


def written_layout(canvas: Canvas, row: int, ids: list[int]) -> Layout:
    """A row's prompt with tokens written behind it, its padding taken out."""
    several = torch.tensor([ids]).expand(canvas.first.rows, -1)
    return join([canvas.prompt.row(row), canvas.place(several, 0).row(row)])


def test_pages_are_the_masks_of_source_and_target() -> None:
    sources = [[2, 10, 3], [2, 11, 12, 13, 3]]
    canvas = Prefix(CLS, SEP, None).canvas(sources)
    for row, source in enumerate(sources):
        same(written_layout(canvas, row, [20, 21]), prefix(source, [20, 21]))
    canvas = Continue(SEP).canvas(sources)
    for row, source in enumerate(sources):
        same(written_layout(canvas, row, [20, 21]), causal([*source, 20, 21]))
    canvas = Blank((MASK,), CLS, SEP, closing=SEP).canvas([[2, MASK, 9, 3], [2, 9, 9, 3]])
    same(written_layout(canvas, 0, [20, 21]), infill([2, MASK, 9, 3], [(1, [CLS, 20, 21])]))
    same(written_layout(canvas, 1, [20, 21]), infill([2, 9, 9, MASK, 3], [(3, [CLS, 20, 21])]))
    canvas = Decode((CLS,), SEP).canvas(sources)
    assert canvas.source is not None
    same(canvas.source, batch([bidirectional(source) for source in sources]))
    same(written_layout(canvas, 1, [20, 21]), causal([CLS, 20, 21]))


def test_a_mask_that_asks_stands_where_its_word_will_and_is_seen_by_nobody_before() -> None:
    canvas = Prefix(CLS, SEP, MASK).canvas([[2, 10, 3]])
    words, asked = canvas.place(torch.tensor([[20, 21]]), 0), canvas.queries(2)
    assert asked is not None
    whole = join([canvas.prompt, words, asked])
    assert whole.position.tolist() == [[0, 1, 2, 3, 4, 5]]
    seen = visible(whole)[0]
    assert seen[5].all() and not seen[:5, 5].any()
    query = Continue(SEP, query_kind=Kind.QUERY, mask=MASK).canvas([[5, 6]]).queries(0)
    assert query is not None and query.kind.tolist() == [[Kind.QUERY]] and query.position.tolist() == [[2]]


def test_blanks_are_filled_from_left_to_right_each_seeing_those_before() -> None:
    model = model_of("glm")
    prompt = [2, 10, MASK, 11, MASK, 3]
    filled = fill_gaps(model, prompt, max_new=4)
    first, second = filled.written
    expected: list[int] = []
    while len(expected) < 4 and SEP not in expected:
        with torch.no_grad():
            layout = infill(prompt, [(2, [CLS, *first.ids]), (4, [CLS, *expected])])
            expected.append(int(model.scores(layout)[0, -1].argmax()))
    assert second.ids + [SEP] * second.ended == expected
    assert first.ids == generate(model, [prompt], max_new=4)[0].ids
    assert filled.ids == [2, 10, *first.ids, 11, *second.ids, 3]
    assert filled.text == TOKENIZER.decode(filled.ids)
    frame = frame_for(model)
    assert isinstance(frame, Blank)
    with pytest.raises(MasqueradeError, match="All 2 blanks of the prompt are filled"):
        replace(frame, filled=((5,), (6,))).canvas([prompt])


def test_the_frame_of_a_model_is_the_one_its_mask_is_made_for() -> None:
    expected: dict[str, Frame] = {
        "gpt": Continue(SEP, CLS),
        "bert": Prefix(CLS, SEP, MASK, (0, 1)),
        "roberta": Prefix(CLS, SEP, MASK, (0, 0)),
        "unilm": Prefix(CLS, SEP, MASK, (4, 5)),
        "glm": Blank((MASK,), CLS, SEP, SEP),
        "xlnet": Continue(SEP, CLS, Kind.QUERY, MASK),
        "mass": Decode((MASK,), SEP, MASK),
        "palm": Decode((CLS,), SEP),
    }
    assert {name: frame_for(model_of(name)) for name in SPECS} == expected


def test_configurations_name_start_and_end() -> None:
    model = model_of("palm")
    model.config = {"decoder_start_token_id": 7, "eos_token_id": [9, 8], "forced_bos_token_id": 6}
    assert frame_for(model) == Decode((7, 6), 9)
    bart = model_of("palm")
    bart.spec = replace(bart.spec, family="bart")
    assert frame_for(bart) == Decode((SEP, CLS), SEP)  # as the objective trains it
    bart.tokenizer = None
    assert frame_for(bart) == Decode((PAD,), None)
    gpt = model_of("gpt")
    gpt.config = {"bos_token_id": 50256, "eos_token_id": 50256}  # as in Chinese GPT-2s with BERT's vocabulary
    assert frame_for(gpt) == Continue(SEP, CLS)


def test_texts_are_encoded_as_their_frame_wants_them() -> None:
    north = TOKENIZER.encode("北京")
    for name, expected in (
        ("gpt", [CLS, *north]),
        ("bert", [CLS, *north, SEP]),
        ("glm", [CLS, *north, SEP]),
        ("mass", [CLS, *north, SEP]),
    ):
        assert frame_for(model_of(name)).encode(TOKENIZER, "北京") == expected
    model = model_of("gpt")
    assert generate(model, "", max_new=3)[0].ids == generate(model, [[CLS]], max_new=3)[0].ids


def test_what_a_model_cannot_do_is_told_in_a_sentence() -> None:
    for name, frame, sentence in (
        ("gpt", "prefix", "cannot write in the frame 'prefix': its mask allows continue"),
        ("mass", "continue", "its mask allows decode"),
        ("glm", "decode", "its mask allows blank"),
        ("bert", "blank", "its mask allows prefix or shifted or continue"),
        ("bert", "sideways", f"There is no frame 'sideways'; choose from {', '.join(NAMES)}"),
    ):
        with pytest.raises(MasqueradeError, match=sentence):
            generate(model_of(name), [[5]], frame=frame)
    headless = build(replace(SPECS["bert"], outputs=(), spare=()))
    with pytest.raises(MasqueradeError, match="no language head"):
        generate(headless, [[5]])
    bare = model_of("bert")
    bare.tokenizer = None
    with pytest.raises(MasqueradeError, match="came without a tokenizer"):
        generate(bare, [[5]])
    assert generate(bare, [[2, 9, 3]], frame=Prefix(CLS, SEP, MASK), max_new=2)[0].text == ""
    with pytest.raises(MasqueradeError, match="A prompt is empty"):
        generate(model_of("gpt"), [[]], frame=Continue(SEP))
    for name in ("bert", "mass"):
        with pytest.raises(MasqueradeError, match="A source is empty"):
            generate(model_of(name), [[]])


@pytest.mark.parametrize(
    ("name", "frame", "room"),
    [
        ("gpt", None, 11),  # 30 tokens before it; the last of 11 is never run
        ("bert", None, 10),
        ("bert", "shifted", 11),
        ("roberta", None, 8),
        ("glm", None, 39),  # places inside a blank, from 2 on
        ("mass", None, 40),
        ("xlnet", None, 10**9),
    ],
)
def test_positions_set_the_limit(name: str, frame: str | None, room: int) -> None:
    model, prompt = model_of(name), [9] * 30
    canvas = frame_for(model, frame).canvas([prompt])
    assert min(canvas.room(model.spec)[0], 10**9) == room
    if room > 100:
        return
    quiet = replace(frame_for(model, frame), **({"end": None} if name in ("gpt", "mass") else {}))  # type: ignore[type-var]
    written = generate(model, [prompt], frame=quiet, min_new=room, max_new=room)[0]
    assert len(written.ids) + written.ended == room
    with pytest.raises(MasqueradeError, match=f"Behind prompt 1 .* leave room for {room} tokens, not for {room + 1}"):
        generate(model, [prompt], frame=frame, max_new=room + 1)
    with pytest.raises(MasqueradeError, match="Prompt 2 does not fit"):
        generate(model, [prompt, [9] * 60], frame=frame)


def test_where_nobody_says_how_much_is_written_it_is_what_fits_each_prompt() -> None:
    model = model_of("gpt")
    frame = Continue(None)
    for method in ("greedy", "beam"):
        got = generate(model, [[9] * 30, [9] * 35], method, frame=frame)
        assert [len(text.ids) for text in got] == [11, 6]
    with pytest.raises(MasqueradeError, match="leave room for 6 tokens, not for 7"):
        generate(model, [[9] * 35, [9] * 30], frame=frame, min_new=7)


def test_at_least_so_many_tokens_are_written_even_where_fewer_are_usual() -> None:
    assert (
        len(generate(model_of("xlnet"), [[9, 10]], frame=Continue(None, None, Kind.QUERY, MASK), min_new=70)[0].ids)
        == 70
    )


# The cache


def states(model: Model, layout: Layout, cache: Cache) -> Tensor:
    with torch.no_grad():
        return model.hidden(layout, cache)


def test_a_cropped_cache_is_one_that_never_saw_the_rest() -> None:
    model, layout = model_of("gpt"), causal(range(5, 12))
    long, short = Cache(), Cache()
    states(model, layout[:5], long)
    states(model, layout[:3], short)
    long.crop(3)
    assert len(long) == 3
    long.crop(9)
    assert len(long) == 3
    torch.testing.assert_close(states(model, layout[3:], long), states(model, layout[3:], short), atol=1e-4, rtol=0)


def test_selected_rows_of_a_cache_go_on_as_rows_of_their_own() -> None:
    model = model_of("mass")
    sources, targets = batch([bidirectional([5, 6]), bidirectional([7, 8, 9])]), [causal([5, 6, 7]), causal([8, 9, 10])]
    rows, cache = torch.tensor([1, 1, 0]), Cache()
    with torch.no_grad():
        encoded = model.encode(sources)
        model.hidden(batch([target[:2] for target in targets]), cache, encoded)
        cache.select(rows)
        moved = type(encoded)(encoded.states[rows], encoded.layout.select(rows))
        got = model.hidden(batch([targets[row][2] for row in rows.tolist()]), cache, moved)
        for place, row in enumerate(rows.tolist()):
            expected = model.hidden(targets[row], source=sources.row(row))[0, 2]
            torch.testing.assert_close(got[place, 0], expected, atol=1e-5, rtol=0)


def test_an_empty_cache_can_be_cropped_and_selected() -> None:
    cache = Cache()
    cache.crop(3)
    cache.select(torch.tensor([0]))
    assert len(cache) == 0


def test_a_frame_of_ones_own_that_looks_back_is_refused_by_the_cache() -> None:
    class BothWays(Continue):
        def canvas(self, prompts: Any) -> Canvas:
            canvas = super().canvas(prompts)
            return replace(canvas, prompt=canvas.prompt.replace(rank=0, horizon=99))

    frame = BothWays(SEP)
    with pytest.raises(LayoutError, match="cannot be extended"):
        generate(model_of("gpt"), PROMPTS, frame=frame, max_new=4)
    assert generate(model_of("gpt"), PROMPTS, frame=frame, max_new=4, cache=False)
