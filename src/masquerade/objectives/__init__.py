"""Pretraining objectives: ids and chance in, a Layout with labels out. One file each; here they have names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from masquerade.errors import MasqueradeError
from masquerade.objectives.bart import Denoise, infill_text, permute_sentences
from masquerade.objectives.base import Objective, Terms
from masquerade.objectives.diffusion import BlockDiffusion, MaskedDiffusion
from masquerade.objectives.glm import LongBlank, ShortBlanks
from masquerade.objectives.masked import MaskedWords
from masquerade.objectives.mass import Mass
from masquerade.objectives.next_token import NextToken, PreviousToken
from masquerade.objectives.palm import Palm
from masquerade.objectives.pegasus import GapSentences
from masquerade.objectives.permutation import MaskedPermutedWords, PermutedWords
from masquerade.objectives.salient import Salient, dates_and_numbers
from masquerade.objectives.span import MaskedSpans
from masquerade.objectives.t5 import SpanCorruption
from masquerade.objectives.unilm import UnifiedWords
from masquerade.objectives.units import MaskedNgrams, jieba_words, sentence_ends
from masquerade.text.tokenizer import Tokenizer

Maker = Callable[..., Objective]


def _t5(terms: Terms, tokenizer: Tokenizer, sentinels: Sequence[int] = (), **options: Any) -> Objective:
    """T5, with the sentinels that its vocabulary has, or BERT's unused tokens for them."""
    found = sentinels or [
        number
        for number, token in enumerate(tokenizer.tokens(range(len(tokenizer))))
        if token.startswith(("<extra_id_", "[unused"))
    ]
    if not found:
        raise MasqueradeError("T5's spans need sentinel tokens; name their ids: options.sentinels = [ … ].")
    return SpanCorruption(terms, found, **options)


def _bart(terms: Terms, tokenizer: Tokenizer) -> Objective:
    """BART's own choice of noises: sentences in another order, then spans filled in."""
    return Denoise(terms, (partial(permute_sentences, ends=sentence_ends(tokenizer)), infill_text))


OBJECTIVES: dict[str, Maker] = {  # name in a recipe → made from the terms, the tokenizer and the recipe's options
    "next": lambda terms, _: NextToken(),
    "backward": lambda terms, _: PreviousToken(),
    "mlm": lambda terms, _, **options: MaskedWords(terms, **options),
    "whole-word": lambda terms, _, **options: MaskedWords(terms, units=terms.words, **options),
    "chinese-words": lambda terms, tokenizer, **options: MaskedWords(terms, units=jieba_words(tokenizer), **options),
    "n-gram": lambda terms, _, **options: MaskedNgrams(terms, **options),
    "span": lambda terms, _, **options: MaskedSpans(terms, **options),
    "salient": lambda terms, tokenizer: Salient(terms, dates_and_numbers(tokenizer)),
    "xlnet": lambda terms, _, **options: PermutedWords(terms, **options),
    "mpnet": lambda terms, _, **options: MaskedPermutedWords(terms, **options),
    "unilm": lambda terms, _, **options: UnifiedWords(terms, **options),
    "glm": lambda terms, _, **options: ShortBlanks(terms, **options),
    "glm-long": lambda terms, _, **options: LongBlank(terms, **options),
    "diffusion": lambda terms, _, **options: MaskedDiffusion(terms, **options),
    "blocks": lambda terms, _, **options: BlockDiffusion(terms, **options),
    "mass": lambda terms, _, **options: Mass(terms, **options),
    "t5": _t5,
    "bart": _bart,
    "pegasus": lambda terms, tokenizer, **options: GapSentences(terms, sentence_ends(tokenizer), terms.mask, **options),
    "palm": lambda terms, _, **options: Palm(terms, **options),
}


def make_objective(name: str, tokenizer: Tokenizer, options: Mapping[str, Any]) -> Objective:
    """An objective by name, for a vocabulary, with its settings."""
    if name not in OBJECTIVES:
        raise MasqueradeError(f"There is no objective '{name}'; there are {', '.join(OBJECTIVES)}.")
    try:
        return OBJECTIVES[name](Terms.of(tokenizer), tokenizer, **options)
    except TypeError as error:
        raise MasqueradeError(f"The objective '{name}' does not take these options: {error}.") from error
