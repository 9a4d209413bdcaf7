"""What is masked together: salient spans, words, names, n-grams; and masks that are fixed or not."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from test_objectives_pegasus import brute_choice
from writing_cases import (
    EVERY,
    HOLED,
    LONG,
    TALE,
    TERMS,
    labels_of,
    same,
    samples,
)

from masquerade.data.rng import PieceRng, dynamic_masks, rng_for, static_masks
from masquerade.errors import MasqueradeError
from masquerade.layout import IGNORE
from masquerade.masks import bidirectional
from masquerade.objectives.bart import Denoise
from masquerade.objectives.grouping import (
    MaskedNgrams,
    chinese_words,
    entity_units,
    jieba_words,
    ngrams,
    sentence_ends,
)
from masquerade.objectives.masked import MaskedTokens
from masquerade.objectives.pegasus import GapSentences
from masquerade.objectives.registry import make_objective
from masquerade.objectives.salient import Salient, dates_and_numbers, names
from masquerade.text.tokenizer import Tokenizer, word_pieces
from masquerade.text.vocabulary import Vocabulary

# Salient spans and groupings, over a small vocabulary in English and Chinese

VOCABULARY = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "。", "，", "-", "%", "the", "The", "in", "In", "was",
    "born", "on", "of", "March", "5", "12", "000", "3", "1998", "##5", "05", "Jean", "Paul", "Sart", "##re", "Paris",
    "may", "go", "covid", "##19", "play", "##ing", "北", "京", "大", "学", "在", "年", "月", "日", "上", "海", "他",
    "生", "于", "人", "十", "二", "王", "小",
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path: Path = tmp_path_factory.mktemp("words") / "vocab.txt"
    path.write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    return Tokenizer(word_pieces(path))


Finder = Callable[[Sequence[int]], list[list[int]]]


def phrases(tokenizer: Tokenizer, find: Finder, sentence: str) -> list[str]:
    """What is found, as the tokens spell it."""
    ids = tokenizer.encode(sentence, specials=True)
    tokens = tokenizer.tokens(ids)
    return [" ".join(tokens[index] for index in unit) for unit in find(ids)]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The born was on March 5, 1998.", ["March 5 , 1998"]),
        ("on 5 March 1998, Paris", ["5 March 1998"]),
        ("in 1998, 12 go", ["1998", "12"]),
        ("in 35, Paris", ["3 ##5"]),
        ("1998-3-05 in March 1998", ["1998 - 3 - 05", "March 1998"]),
        ("12,000 go, 3.5% play", ["12 , 000", "3 . 5 %"]),
        ("covid19 was in March", []),
        ("他生于1998年3月5日，北京", ["1998 年 3 月 5 日"]),
        ("1998年3月在上海", ["1998 年 3 月"]),
        ("1998年12人", ["1998 年", "12"]),
        ("十二月在北京大学12年", ["十 二 月", "12 年"]),
        ("3[MASK]5", ["3", "5"]),
    ],
)
def test_dates_and_numbers_are_found_in_both_languages(
    tokenizer: Tokenizer, sentence: str, expected: list[str]
) -> None:
    assert phrases(tokenizer, dates_and_numbers(tokenizer), sentence) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The Jean Paul Sartre was born in Paris.", ["Jean Paul Sart ##re", "Paris"]),
        ("In Paris the play was on.", ["Paris"]),
        ("Paris was on. Paris may go in Paris", ["Paris"]),
        ("Jean Paul may go", ["Jean Paul"]),
        ("他在Paris生", ["Paris"]),
        ("in the may", []),
    ],
)
def test_names_are_runs_of_capitals(tokenizer: Tokenizer, sentence: str, expected: list[str]) -> None:
    assert phrases(tokenizer, names(tokenizer), sentence) == expected


def test_one_salient_span_is_masked_as_a_whole(tokenizer: Tokenizer) -> None:
    vocabulary, find = Vocabulary.of(tokenizer), dates_and_numbers(tokenizer)
    ids = tokenizer.encode("他生于1998年3月5日，12人在北京大学。", specials=True)
    spans = find(ids)
    seen = Counter[int]()
    for example in samples(Salient(vocabulary, find), ids, 200):
        chosen = [index for index, label in enumerate(example.layout.label.tolist()) if label != IGNORE]
        seen[spans.index(chosen)] += 1
        assert all(int(example.layout.ids[index]) == vocabulary.mask for index in chosen)
        restored = torch.where(example.layout.label == IGNORE, example.layout.ids, example.layout.label)
        assert restored.tolist() == ids
    assert len(seen) == 2
    assert min(seen.values()) > 70


def test_a_recipe_says_whether_names_or_dates_are_salient(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("in March 1998, Jean Paul was in Paris.", specials=True)
    masked = {}
    for find in ("dates", "names", "both"):
        made = make_objective("salient", tokenizer, {"find": find})
        labels = [made(ids, rng_for(number)).layout.label for number in range(40)]
        masked[find] = {" ".join(tokenizer.tokens(label[label != IGNORE].tolist())) for label in labels}
    assert masked["dates"] == {"March 1998"}
    assert {"Jean Paul", "Paris"} <= masked["names"] and not masked["names"] & masked["dates"]
    assert masked["both"] == masked["names"] | masked["dates"]
    with pytest.raises(MasqueradeError, match="'find' is 'verbs', but it has to be dates, names, both"):
        make_objective("salient", tokenizer, {"find": "verbs"})


def test_where_nothing_is_salient_one_whole_word_is_masked(tokenizer: Tokenizer) -> None:
    vocabulary = Vocabulary.of(tokenizer)
    ids = tokenizer.encode("the playing was born", specials=True)
    found = set()
    for example in samples(Salient(vocabulary, names(tokenizer)), ids, 60):
        found.add(tuple(labels_of(example.layout)))
    assert found == {tuple(ids[index] for index in word) for word in vocabulary.words(ids)}


def test_chinese_words_are_those_of_the_segmenter(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    known = ["北京", "大学", "playing", "1998", "上海"]

    def cut(sentence: str) -> list[str]:
        words: list[str] = []
        while sentence:
            word = next((word for word in known if sentence.startswith(word)), sentence[0])
            words.append(word)
            sentence = sentence[len(word) :]
        return words

    sentence = "他在北京大学playing，生于1998年[SEP]北[MASK]京，上海"
    ids = tokenizer.encode(sentence, specials=True)
    grouped = chinese_words(tokenizer, cut)(ids)
    tokens = tokenizer.tokens(ids)
    spelled = ["".join(tokens[index] for index in unit) for unit in grouped]
    assert " ".join(spelled) == "他 在 北京 大学 play##ing ， 生 于 1998 年 北 京 ， 上海"
    assert sorted(index for unit in grouped for index in unit) == Vocabulary.of(tokenizer).maskable(ids)
    letters = chinese_words(tokenizer, list)(ids)  # a token that is cut apart is in one unit still
    assert letters == [[index] for index in Vocabulary.of(tokenizer).maskable(ids)]
    monkeypatch.setitem(sys.modules, "jieba", SimpleNamespace(cut=cut))
    assert jieba_words(tokenizer)(ids) == grouped
    monkeypatch.setitem(sys.modules, "jieba", None)
    with pytest.raises(MasqueradeError, match="pip install jieba"):
        jieba_words(tokenizer)


def test_the_longest_entity_is_one_unit(tokenizer: Tokenizer) -> None:
    vocabulary = Vocabulary.of(tokenizer)
    names_known = ["北京", "北京大学", "Jean Paul", "play", "王王王", "Zanzibar"]
    sentence = "他在北京大学，北京，Jean Paul playing"
    assert phrases(tokenizer, entity_units(tokenizer, names_known), sentence) == [
        "他", "在", "北 京 大 学", "，", "北 京", "，", "Jean Paul", "play", "##ing",
    ]  # fmt: skip
    words = entity_units(tokenizer, names_known, rest=vocabulary.words)
    assert phrases(tokenizer, words, sentence)[-1] == "play ##ing"
    ids = tokenizer.encode(sentence, specials=True)
    for example in samples(MaskedTokens(vocabulary, units=words), ids, 40):
        chosen = [label != IGNORE for label in example.layout.label.tolist()]
        assert all(len({chosen[index] for index in unit}) == 1 for unit in words(ids))


def test_sentence_ends_are_found_in_the_vocabulary(tokenizer: Tokenizer) -> None:
    assert sorted(tokenizer.tokens(sorted(sentence_ends(tokenizer)))) == [".", "。"]
    vocabulary = Vocabulary.of(tokenizer)
    ids = tokenizer.encode("他在北京。北京在上海。王小人。上海北京。", specials=True)
    objective = GapSentences(vocabulary, sentence_ends(tokenizer), gap=vocabulary.mask, strategy="ind-uniq")
    parts = ["他在北京。", "北京在上海。", "王小人。", "上海北京。"]
    choice = brute_choice([tokenizer.encode(part)[:-1] for part in parts], 1, "ind-uniq")
    assert choice == [1]
    assert tokenizer.decode(objective(ids, rng_for(0)).layout.label.tolist()) == parts[1]


def test_ngrams_have_the_weights_of_albert_and_stop_at_special_tokens() -> None:
    words = TERMS.words(LONG)
    lengths = Counter(len(unit) for number in range(40) for unit in ngrams(words, (1, 1 / 2, 1 / 3), rng_for(number)))
    for length in (1, 2, 3):
        assert abs(lengths[length] / lengths.total() - (1 / length) / (11 / 6)) < 0.02
    for number in range(20):
        units = ngrams(TERMS.words(HOLED), (0, 0, 1), rng_for(number))
        assert [len(unit) for unit in units] == [2, 3, 1, 3, 3]
    made = [len(labels_of(example.layout)) for example in samples(MaskedNgrams(TERMS), LONG, 20)]
    assert min(made) >= 58
    assert max(made) <= 60


# Static and dynamic masks


def test_static_masks_come_back_and_dynamic_ones_do_not() -> None:
    objective = MaskedTokens(TERMS)

    def masks(chances: PieceRng, epochs: int, document: int = 3) -> list[tuple[int, ...]]:
        return [tuple(objective(LONG, chances(epoch, document)).layout.ids.tolist()) for epoch in range(epochs)]

    static, dynamic = masks(static_masks(1), 40), masks(dynamic_masks(1), 40)
    assert len(set(static)) == 10
    assert set(Counter(static).values()) == {4}  # BERT's forty epochs over ten copies
    assert static[:10] == static[30:]
    assert len(set(dynamic)) == 40
    assert masks(static_masks(1, copies=40), 40) == dynamic
    assert len(set(masks(static_masks(1, copies=1), 5))) == 1
    assert not set(static) & set(masks(static_masks(1), 10, document=4))
    assert not set(static) & set(masks(static_masks(2), 10))
    with pytest.raises(MasqueradeError, match="use 1 copy or more"):
        static_masks(1, copies=0)


def test_any_objective_takes_its_chance_from_either() -> None:
    for objective in EVERY.values():
        assert same(objective(TALE, static_masks(5)(12, 8)).layout, objective(TALE, dynamic_masks(5)(2, 8)).layout)
    assert same(bidirectional(TALE), Denoise(TERMS, ())(TALE, static_masks(5)(0, 0)).source)
