"""Pretraining objectives: ids and chance in, a Layout with labels out. One file each; here they have names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from masquerade.errors import MasqueradeError
from masquerade.objectives.bart import Denoise, infill_text, permute_sentences
from masquerade.objectives.base import Objective
from masquerade.objectives.diffusion import BlockDiffusion, MaskedDiffusion
from masquerade.objectives.electra import GeneratorWords
from masquerade.objectives.glm import LongBlank, ShortBlanks
from masquerade.objectives.grouping import MaskedNgrams, entity_units, jieba_words, sentence_ends
from masquerade.objectives.masked import MaskedWords
from masquerade.objectives.mass import Mass
from masquerade.objectives.next_token import NextToken, PreviousToken
from masquerade.objectives.pairs import NextSentence, Pairs, SentenceOrder
from masquerade.objectives.palm import Palm
from masquerade.objectives.pegasus import GapSentences
from masquerade.objectives.permutation import MaskedPermutedWords, PermutedWords
from masquerade.objectives.salient import Salient, dates_and_numbers
from masquerade.objectives.span import MaskedSpans
from masquerade.objectives.t5 import SpanCorruption
from masquerade.objectives.unilm import UnifiedWords
from masquerade.text.tokenizer import Tokenizer
from masquerade.text.vocabulary import Vocabulary

Maker = Callable[..., Objective | Pairs]


@dataclass(frozen=True)
class Entry:
    """An objective that a recipe can name."""

    make: Maker  # from the vocabulary, the tokenizer and the recipe's options
    about: str
    model: Mapping[str, Any] = field(default_factory=dict)  # fields of the Spec that a network for it needs
    writes: bool = False  # it trains an encoder–decoder
    needs: Sequence[str] = ("mask", "cls", "sep")  # the special tokens it cannot do without


def _t5(vocabulary: Vocabulary, tokenizer: Tokenizer, sentinels: Sequence[int] = (), **options: Any) -> Objective:
    """T5, with the sentinels that its vocabulary has, or BERT's unused tokens for them."""
    named = enumerate(tokenizer.tokens(range(len(tokenizer))))
    spare = [(token, number) for number, token in named if token.startswith(("<extra_id_", "[unused"))]
    in_order = sorted(spare, key=lambda pair: int("".join(filter(str.isdigit, pair[0])) or 0))
    found = sentinels or [number for _, number in in_order]
    if not found:
        raise MasqueradeError("T5's spans need sentinel tokens; name their ids: options.sentinels = [ … ].")
    return SpanCorruption(vocabulary, found, **options)


def _bart(vocabulary: Vocabulary, tokenizer: Tokenizer) -> Objective:
    """BART's own choice of noises: sentences in another order, then spans filled in."""
    return Denoise(vocabulary, (partial(permute_sentences, ends=sentence_ends(tokenizer)), infill_text))


def _entity(vocabulary: Vocabulary, tokenizer: Tokenizer, names: str | Sequence[str], **options: Any) -> Objective:
    """ERNIE's masks over known names, from a list or a file with one name a line; whole words around them."""
    if isinstance(names, str):
        try:
            names = Path(names).expanduser().read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise MasqueradeError(f"The names in '{names}' cannot be read: {error}.") from error
    known = [name.strip() for name in names if name.strip()]
    return MaskedWords(vocabulary, units=entity_units(tokenizer, known, rest=vocabulary.words), **options)


OBJECTIVES: dict[str, Entry] = {
    "next": Entry(lambda vocabulary, _: NextToken(), "GPT: the next token", {"mask": "causal"}, needs=()),
    "backward": Entry(lambda vocabulary, _: PreviousToken(), "the same from right to left", needs=()),
    "mlm": Entry(lambda vocabulary, _, **options: MaskedWords(vocabulary, **options), "BERT: masked tokens"),
    "whole-word": Entry(
        lambda vocabulary, _, **options: MaskedWords(vocabulary, units=vocabulary.words, **options),
        "BERT: masked whole words",
    ),
    "chinese-words": Entry(
        lambda vocabulary, tokenizer, **options: MaskedWords(vocabulary, units=jieba_words(tokenizer), **options),
        "BERT-wwm, NEZHA: whole Chinese words, as jieba cuts them",
    ),
    "entity": Entry(_entity, "ERNIE: whole names; they are in options.names, a list or a file"),
    "n-gram": Entry(lambda vocabulary, _, **options: MaskedNgrams(vocabulary, **options), "ALBERT: one to three words"),
    "nsp": Entry(
        lambda vocabulary, tokenizer, **options: NextSentence(
            vocabulary, MaskedWords(vocabulary, **options), sentence_ends(tokenizer)
        ),
        "BERT: masked tokens, and does the second half follow the first?",
        {"outputs": ("lm", "pair")},
    ),
    "sop": Entry(
        lambda vocabulary, tokenizer, **options: SentenceOrder(
            vocabulary, MaskedNgrams(vocabulary, **options), sentence_ends(tokenizer)
        ),
        "ALBERT: n-grams, and which half comes first?",
        {"outputs": ("lm", "pair")},
    ),
    "span": Entry(
        lambda vocabulary, _, **options: MaskedSpans(vocabulary, **options),
        "SpanBERT: spans, predicted from their words' places and from their edges",
        {"outputs": ("lm", "boundary")},
    ),
    "electra": Entry(
        lambda vocabulary, _, **options: GeneratorWords(vocabulary, **options),
        "ELECTRA: a generator fills blanks, the network finds the replaced words",
        {"outputs": ("detect",)},
    ),
    "salient": Entry(
        lambda vocabulary, tokenizer: Salient(vocabulary, dates_and_numbers(tokenizer)), "REALM: one date or number"
    ),
    "xlnet": Entry(
        lambda vocabulary, _, **options: PermutedWords(vocabulary, **options),
        "XLNet: the end of a permutation, in two streams",
        {"query_vector": True},
    ),
    "mpnet": Entry(
        lambda vocabulary, _, **options: MaskedPermutedWords(vocabulary, **options),
        "MPNet: the end of a permutation, with all positions in sight",
    ),
    "unilm": Entry(
        lambda vocabulary, _, **options: UnifiedWords(vocabulary, **options),
        "UniLM: four masks in turn",
        {"segments": 6},
    ),
    "glm": Entry(
        lambda vocabulary, _, **options: ShortBlanks(vocabulary, **options),
        "GLM: short blanks",
        {"positions": ("learned", "inner")},
    ),
    "glm-long": Entry(
        lambda vocabulary, _, **options: LongBlank(vocabulary, **options),
        "GLM: one long blank",
        {"positions": ("learned", "inner")},
    ),
    "diffusion": Entry(
        lambda vocabulary, _, **options: MaskedDiffusion(vocabulary, **options),
        "masked diffusion: any share of the tokens",
    ),
    "blocks": Entry(
        lambda vocabulary, _, **options: BlockDiffusion(vocabulary, **options), "block diffusion: block after block"
    ),
    "mass": Entry(
        lambda vocabulary, _, **options: Mass(vocabulary, **options), "MASS: write the missing half", writes=True
    ),
    "t5": Entry(_t5, "T5: write what the sentinels stand for", writes=True, needs=("sep",)),
    "bart": Entry(_bart, "BART: write the text without its noise", writes=True),
    "pegasus": Entry(
        lambda vocabulary, tokenizer, **options: GapSentences(
            vocabulary, sentence_ends(tokenizer), vocabulary.mask, **options
        ),
        "PEGASUS: write the sentences that matter most",
        writes=True,
    ),
    "palm": Entry(
        lambda vocabulary, _, **options: Palm(vocabulary, **options), "PALM: fill masks, then write on", writes=True
    ),
}


def entry(name: str) -> Entry:
    """An objective by name."""
    if name not in OBJECTIVES:
        raise MasqueradeError(f"There is no objective '{name}'; there are {', '.join(OBJECTIVES)}.")
    return OBJECTIVES[name]


def make_objective(name: str, tokenizer: Tokenizer, options: Mapping[str, Any]) -> Objective | Pairs:
    """An objective by name, for a vocabulary, with its settings."""
    for role in entry(name).needs:
        if role not in tokenizer.specials:
            raise MasqueradeError(f"The objective '{name}' needs a {role} token, and this tokenizer has none.")
    try:
        return entry(name).make(Vocabulary.of(tokenizer), tokenizer, **options)
    except TypeError as error:
        raise MasqueradeError(f"The objective '{name}' does not take these options: {error}.") from error
