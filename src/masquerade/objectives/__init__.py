"""Pretraining objectives: ids and chance in, a Layout with labels out. One file each; here they have names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from masquerade.errors import MasqueradeError
from masquerade.objectives.bart import Denoise, infill_text, permute_sentences
from masquerade.objectives.base import Objective, Terms
from masquerade.objectives.diffusion import BlockDiffusion, MaskedDiffusion
from masquerade.objectives.electra import GeneratorWords
from masquerade.objectives.glm import LongBlank, ShortBlanks
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
from masquerade.objectives.units import MaskedNgrams, entity_units, jieba_words, sentence_ends
from masquerade.text.tokenizer import Tokenizer

Maker = Callable[..., Objective | Pairs]


@dataclass(frozen=True)
class Entry:
    """An objective that a recipe can name."""

    make: Maker  # from the terms, the tokenizer and the recipe's options
    about: str
    model: Mapping[str, Any] = field(default_factory=dict)  # fields of the Spec that a network for it needs
    writes: bool = False  # it trains an encoder–decoder
    needs: Sequence[str] = ("mask", "cls", "sep")  # the special tokens it cannot do without


def _t5(terms: Terms, tokenizer: Tokenizer, sentinels: Sequence[int] = (), **options: Any) -> Objective:
    """T5, with the sentinels that its vocabulary has, or BERT's unused tokens for them."""
    named = enumerate(tokenizer.tokens(range(len(tokenizer))))
    spare = [(token, number) for number, token in named if token.startswith(("<extra_id_", "[unused"))]
    in_order = sorted(spare, key=lambda pair: int("".join(filter(str.isdigit, pair[0])) or 0))
    found = sentinels or [number for _, number in in_order]
    if not found:
        raise MasqueradeError("T5's spans need sentinel tokens; name their ids: options.sentinels = [ … ].")
    return SpanCorruption(terms, found, **options)


def _bart(terms: Terms, tokenizer: Tokenizer) -> Objective:
    """BART's own choice of noises: sentences in another order, then spans filled in."""
    return Denoise(terms, (partial(permute_sentences, ends=sentence_ends(tokenizer)), infill_text))


def _entity(terms: Terms, tokenizer: Tokenizer, names: str | Sequence[str], **options: Any) -> Objective:
    """ERNIE's masks over known names, from a list or a file with one name a line; whole words around them."""
    if isinstance(names, str):
        try:
            names = Path(names).expanduser().read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise MasqueradeError(f"The names in '{names}' cannot be read: {error}.") from error
    known = [name.strip() for name in names if name.strip()]
    return MaskedWords(terms, units=entity_units(tokenizer, known, rest=terms.words), **options)


OBJECTIVES: dict[str, Entry] = {
    "next": Entry(lambda terms, _: NextToken(), "GPT: the next token", {"mask": "causal"}, needs=()),
    "backward": Entry(lambda terms, _: PreviousToken(), "the same from right to left", needs=()),
    "mlm": Entry(lambda terms, _, **options: MaskedWords(terms, **options), "BERT: masked tokens"),
    "whole-word": Entry(
        lambda terms, _, **options: MaskedWords(terms, units=terms.words, **options), "BERT: masked whole words"
    ),
    "chinese-words": Entry(
        lambda terms, tokenizer, **options: MaskedWords(terms, units=jieba_words(tokenizer), **options),
        "BERT-wwm, NEZHA: whole Chinese words, as jieba cuts them",
    ),
    "entity": Entry(_entity, "ERNIE: whole names; they are in options.names, a list or a file"),
    "n-gram": Entry(lambda terms, _, **options: MaskedNgrams(terms, **options), "ALBERT: one to three words"),
    "nsp": Entry(
        lambda terms, tokenizer, **options: NextSentence(
            terms, MaskedWords(terms, **options), sentence_ends(tokenizer)
        ),
        "BERT: masked tokens, and does the second half follow the first?",
        {"outputs": ("lm", "pair")},
    ),
    "sop": Entry(
        lambda terms, tokenizer, **options: SentenceOrder(
            terms, MaskedNgrams(terms, **options), sentence_ends(tokenizer)
        ),
        "ALBERT: n-grams, and which half comes first?",
        {"outputs": ("lm", "pair")},
    ),
    "span": Entry(
        lambda terms, _, **options: MaskedSpans(terms, **options),
        "SpanBERT: spans, predicted from their words' places and from their edges",
        {"outputs": ("lm", "boundary")},
    ),
    "electra": Entry(
        lambda terms, _, **options: GeneratorWords(terms, **options),
        "ELECTRA: a generator fills blanks, the network finds the replaced words",
        {"outputs": ("detect",)},
    ),
    "salient": Entry(
        lambda terms, tokenizer: Salient(terms, dates_and_numbers(tokenizer)), "REALM: one date or number"
    ),
    "xlnet": Entry(
        lambda terms, _, **options: PermutedWords(terms, **options),
        "XLNet: the end of a permutation, in two streams",
        {"query_vector": True},
    ),
    "mpnet": Entry(
        lambda terms, _, **options: MaskedPermutedWords(terms, **options),
        "MPNet: the end of a permutation, with all positions in sight",
    ),
    "unilm": Entry(
        lambda terms, _, **options: UnifiedWords(terms, **options), "UniLM: four masks in turn", {"segments": 6}
    ),
    "glm": Entry(
        lambda terms, _, **options: ShortBlanks(terms, **options),
        "GLM: short blanks",
        {"positions": ("learned", "inner")},
    ),
    "glm-long": Entry(
        lambda terms, _, **options: LongBlank(terms, **options),
        "GLM: one long blank",
        {"positions": ("learned", "inner")},
    ),
    "diffusion": Entry(
        lambda terms, _, **options: MaskedDiffusion(terms, **options), "masked diffusion: any share of the tokens"
    ),
    "blocks": Entry(lambda terms, _, **options: BlockDiffusion(terms, **options), "block diffusion: block after block"),
    "mass": Entry(lambda terms, _, **options: Mass(terms, **options), "MASS: write the missing half", writes=True),
    "t5": Entry(_t5, "T5: write what the sentinels stand for", writes=True, needs=("sep",)),
    "bart": Entry(_bart, "BART: write the text without its noise", writes=True),
    "pegasus": Entry(
        lambda terms, tokenizer, **options: GapSentences(terms, sentence_ends(tokenizer), terms.mask, **options),
        "PEGASUS: write the sentences that matter most",
        writes=True,
    ),
    "palm": Entry(lambda terms, _, **options: Palm(terms, **options), "PALM: fill masks, then write on", writes=True),
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
        return entry(name).make(Terms.of(tokenizer), tokenizer, **options)
    except TypeError as error:
        raise MasqueradeError(f"The objective '{name}' does not take these options: {error}.") from error
