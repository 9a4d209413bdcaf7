"""The objectives that a recipe can name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from masquerade.data.records import read_records
from masquerade.errors import MasqueradeError
from masquerade.layout import FAR
from masquerade.objectives.bart import (
    Denoise,
    delete_tokens,
    infill_text,
    mask_tokens,
    permute_sentences,
    rotate,
)
from masquerade.objectives.base import Objective
from masquerade.objectives.diffusion import BlockDiffusion, MaskedDiffusion
from masquerade.objectives.electra import ReplacedTokens
from masquerade.objectives.elmo import TwoDirections
from masquerade.objectives.glm import LongBlank, ShortBlanks
from masquerade.objectives.grouping import MaskedNgrams, corpus_names, entity_units, jieba_words, sentence_ends
from masquerade.objectives.masked import MaskedTokens
from masquerade.objectives.mass import Mass
from masquerade.objectives.mixture import ObjectiveMixture
from masquerade.objectives.networks import OWN
from masquerade.objectives.next_token import NextToken, PreviousToken
from masquerade.objectives.pairs import NextSentence, SentenceOrder
from masquerade.objectives.palm import Palm
from masquerade.objectives.pegasus import GapSentences
from masquerade.objectives.permutation import MaskedPermutedTokens, PermutedTokens
from masquerade.objectives.salient import Salient, dates_and_numbers
from masquerade.objectives.salient import names as names_in
from masquerade.objectives.span import MaskedSpans
from masquerade.objectives.t5 import SpanCorruption
from masquerade.objectives.unilm import BOTH_WAYS, MASKS, UnifiedMasks
from masquerade.text.tokenizer import Tokenizer
from masquerade.text.vocabulary import Vocabulary

Maker = Callable[..., Objective]


@dataclass(frozen=True)
class ObjectiveEntry:
    """An objective that a recipe can name."""

    make: Maker  # from the vocabulary, the tokenizer and the recipe's options
    about: str
    family: str = "bert"  # the family of a fresh network, if that can describe it
    model: Mapping[str, Any] = field(default_factory=dict)  # fields of the Spec that the objective needs
    decoder: bool = False  # whether it trains an encoder–decoder
    needs: Sequence[str] = ("mask", "cls", "sep")  # the special tokens that it needs

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads that the objective needs."""
        return (*self.model.get("outputs", ("lm",)), *self.model.get("spare", ()))


def _t5(vocabulary: Vocabulary, tokenizer: Tokenizer, sentinels: Sequence[int] = (), **options: Any) -> Objective:
    """T5, with the vocabulary's sentinels unless the options name others."""
    found = sentinels or vocabulary.sentinels
    if not found:
        raise MasqueradeError(
            "T5's spans need sentinel tokens: make a vocabulary with 'masquerade vocab … --sentinels 100', or name the "
            "ids of tokens that do not occur in the text: options.sentinels = [ … ]."
        )
    return SpanCorruption(vocabulary, found, **{"start": tokenizer.specials.get("pad", 0), **options})


NOISES: dict[str, Callable[..., list[int]]] = {
    "mask": mask_tokens,
    "delete": delete_tokens,
    "infill": infill_text,
    "permute": permute_sentences,
    "rotate": rotate,
}


def _bart(
    vocabulary: Vocabulary,
    tokenizer: Tokenizer,
    noises: Sequence[str] = ("permute", "infill"),
    rates: Mapping[str, float] | None = None,
    **options: Any,
) -> Objective:
    """BART, with its own choice of noises unless the options name others; ``rates`` sets those of mask, delete and
    infill."""
    settings: dict[str, dict[str, Any]] = {name: {"rate": rate} for name, rate in (rates or {}).items()}
    settings["permute"] = {"ends": sentence_ends(tokenizer)}
    for name in (*noises, *(rates or {})):
        if name not in NOISES or (name in (rates or {}) and name in ("permute", "rotate")):
            raise MasqueradeError(f"There is no noise '{name}' with such a setting; there are {', '.join(NOISES)}.")
    return Denoise(vocabulary, [partial(NOISES[name], **settings.get(name, {})) for name in noises], **options)


def _entity(vocabulary: Vocabulary, tokenizer: Tokenizer, names: str | Sequence[str], **options: Any) -> Objective:
    """ERNIE's masks over known names: a list, a file with one name a line, or a .jsonl corpus, whose titles and links
    are the names. Other words are masked as whole words."""
    if isinstance(names, str) and names.endswith(".jsonl"):
        records = [record for record in read_records(names) if isinstance(record, Mapping)]
        names = [name for record in records for name in corpus_names(record)]
    elif isinstance(names, str):
        try:
            names = Path(names).expanduser().read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise MasqueradeError(f"The names in '{names}' cannot be read: {error}.") from error
    known = [name.strip() for name in names if name.strip()]
    if not known:
        raise MasqueradeError("There are no names in options.names; give a list, a file, or a corpus with titles.")
    return MaskedTokens(vocabulary, units=entity_units(tokenizer, known, rest=vocabulary.words), **options)


def _simple(kind: Callable[..., Objective], **fixed: Any) -> Maker:
    """The maker of an objective that needs nothing but the vocabulary and its options."""
    return lambda vocabulary, tokenizer, **options: kind(vocabulary, **fixed, **options)


def _whole_words(vocabulary: Vocabulary, tokenizer: Tokenizer, **options: Any) -> Objective:
    return MaskedTokens(vocabulary, units=vocabulary.words, **options)


def _chinese_words(vocabulary: Vocabulary, tokenizer: Tokenizer, **options: Any) -> Objective:
    return MaskedTokens(vocabulary, units=jieba_words(tokenizer), **options)


def _next_sentence(vocabulary: Vocabulary, tokenizer: Tokenizer, **options: Any) -> Objective:
    return NextSentence(vocabulary, sentence_ends(tokenizer), MaskedTokens(vocabulary, **options))


def _sentence_order(vocabulary: Vocabulary, tokenizer: Tokenizer, **options: Any) -> Objective:
    return SentenceOrder(vocabulary, sentence_ends(tokenizer), MaskedNgrams(vocabulary, **options))


def _mpnet(vocabulary: Vocabulary, tokenizer: Tokenizer, **options: Any) -> Objective:
    return MaskedPermutedTokens(vocabulary, units=vocabulary.words, **options)


def _salient(vocabulary: Vocabulary, tokenizer: Tokenizer, find: str = "dates") -> Objective:
    """REALM's salient spans: dates and numbers, names (runs of capitalised words), or both."""
    finders = {"dates": [dates_and_numbers(tokenizer)], "names": [names_in(tokenizer)]}
    finders["both"] = finders["dates"] + finders["names"]
    if find not in finders:
        raise MasqueradeError(f"'find' is '{find}', but it has to be {', '.join(finders)}.")
    return Salient(vocabulary, lambda ids: [span for finder in finders[find] for span in finder(ids)])


def _mixture(vocabulary: Vocabulary, tokenizer: Tokenizer, **parts: Any) -> Objective:
    """A mixture of the objectives named in the options; each has a table of its own options, and its ``share``."""
    settings = {name: dict(own) if isinstance(own, Mapping) else {"share": own} for name, own in parts.items()}
    shares = {name: own.pop("share", 1.0) for name, own in settings.items()}
    prefixes = {name: own.pop("prefix") for name, own in settings.items() if "prefix" in own}
    for name, prefix in prefixes.items():
        if not isinstance(prefix, str) or not entry(name).decoder:
            raise MasqueradeError(f"The prefix of '{name}' has to be text for an encoder–decoder.")
    for name, share in shares.items():
        if isinstance(share, bool) or not isinstance(share, int | float) or not share > 0:
            raise MasqueradeError(f"The share of '{name}' is {share!r}, but it has to be a number above 0.")
    made = {name: make_objective(name, tokenizer, own) for name, own in settings.items()}
    texts = {name: tokenizer.encode(prefix) for name, prefix in prefixes.items()}
    return ObjectiveMixture(vocabulary, made, shares, texts)


def _unilm(vocabulary: Vocabulary, tokenizer: Tokenizer, nsp: bool = True, **options: Any) -> Objective:
    """UniLM's masks. With ``nsp``, as published, the bidirectional third reads two texts and tells whether the second
    follows the first."""
    if not nsp:
        return UnifiedMasks(vocabulary, **options)
    both = UnifiedMasks(vocabulary, masks=(BOTH_WAYS,), **options)
    others = UnifiedMasks(vocabulary, masks=tuple(mask for mask in MASKS if mask != BOTH_WAYS), **options)
    parts = {"both ways": NextSentence(vocabulary, sentence_ends(tokenizer), both), "others": others}
    return ObjectiveMixture(vocabulary, parts, {"both ways": 1.0, "others": 2.0})


def _pegasus(vocabulary: Vocabulary, tokenizer: Tokenizer, **options: Any) -> Objective:
    start = {"start": tokenizer.special("pad"), **options}
    return GapSentences(vocabulary, sentence_ends(tokenizer), vocabulary.mask, **start)


_PAIR = {"outputs": ("lm", "pair")}
_SPAN = {"outputs": ("lm",), "spare": ("boundary",)}
_UNILM: dict[str, Any] = {"segments": 6, "buckets": 0}
_PERMUTED = {"query_vector": True, "positions": ("transformer-xl",), "segment_relation": True, "segments": 0}
_DISTANCES = {"positions": ("transformer-xl",), "mask": "causal", "segments": 0, "max_distance": 1024}
_BLANKS = {"positions": ("learned", "inner")}

OBJECTIVES: dict[str, ObjectiveEntry] = {
    "next": ObjectiveEntry(_simple(NextToken), "GPT: the next token", "gpt2", {"mask": "causal"}, needs=()),
    "transformer-xl": ObjectiveEntry(
        _simple(NextToken),
        "Transformer-XL: the next token, for runs with a memory of earlier segments",
        "transfo-xl",
        _DISTANCES,
        needs=(),
    ),
    "backward": ObjectiveEntry(_simple(PreviousToken), "the previous token: GPT from right to left", OWN, needs=()),
    "elmo": ObjectiveEntry(
        _simple(TwoDirections),
        "ELMo: LSTM language models of both directions, for features=…",
        OWN,
        {"recurrent": "lstm", "positions": (), "segments": 0, "layers": 2, "embedding_norm": False},
        needs=(),
    ),
    "mlm": ObjectiveEntry(_simple(MaskedTokens), "BERT: masked tokens"),
    "whole-word": ObjectiveEntry(_whole_words, "BERT: masked whole words"),
    "chinese-words": ObjectiveEntry(_chinese_words, "BERT-wwm, NEZHA: masked Chinese words, segmented by jieba"),
    "entity": ObjectiveEntry(_entity, "ERNIE: masked names, from options.names, a list or a file"),
    "n-gram": ObjectiveEntry(_simple(MaskedNgrams), "ALBERT: masked n-grams of one to three words"),
    "nsp": ObjectiveEntry(_next_sentence, "BERT: masked tokens, and whether B follows A", "bert", _PAIR),
    "sop": ObjectiveEntry(_sentence_order, "ALBERT: masked n-grams, and the order of two texts", "albert", _PAIR),
    "span": ObjectiveEntry(_simple(MaskedSpans), "SpanBERT: masked spans and their boundaries", "bert", _SPAN),
    "electra": ObjectiveEntry(
        _simple(ReplacedTokens), "ELECTRA: which tokens a generator replaced", "electra", {"outputs": ("detect",)}
    ),
    "salient": ObjectiveEntry(_salient, "REALM: one masked date or number"),
    "xlnet": ObjectiveEntry(
        _simple(PermutedTokens),
        "XLNet: the end of a permutation, in two streams",
        "xlnet",
        {**_PERMUTED, "max_distance": FAR},
    ),
    "mpnet": ObjectiveEntry(_mpnet, "MPNet: the end of a permutation, with position compensation", "mpnet"),
    "unilm": ObjectiveEntry(
        _unilm, "UniLM: masked tokens under four masks, and next sentences", "unilm", {**_UNILM, **_PAIR}
    ),
    "glm": ObjectiveEntry(_simple(ShortBlanks), "GLM: short blanks", OWN, _BLANKS),
    "glm-long": ObjectiveEntry(_simple(LongBlank), "GLM: one long blank", OWN, _BLANKS),
    "diffusion": ObjectiveEntry(_simple(MaskedDiffusion), "masked diffusion: any share of the tokens"),
    "blocks": ObjectiveEntry(_simple(BlockDiffusion), "block diffusion: one block after another"),
    "mass": ObjectiveEntry(_simple(Mass), "MASS: a decoder writes the masked half", "mass", decoder=True),
    "t5": ObjectiveEntry(
        _t5, "T5: a decoder writes the spans that sentinels replace", "t5", decoder=True, needs=("sep",)
    ),
    "bart": ObjectiveEntry(_bart, "BART: a decoder writes the text without noise", "bart", decoder=True),
    "pegasus": ObjectiveEntry(_pegasus, "PEGASUS: a decoder writes the main sentences", "pegasus", decoder=True),
    "mixture": ObjectiveEntry(_mixture, "several objectives in shares: options.mlm = 0.5, options.span = 0.5"),
    "palm": ObjectiveEntry(_simple(Palm), "PALM: a decoder continues a masked text", "palm", decoder=True),
}


def entry(name: str, options: Mapping[str, Any] | None = None) -> ObjectiveEntry:
    """An objective by name. That of a mixture has what all of its parts, which the options name, need."""
    if name not in OBJECTIVES:
        raise MasqueradeError(f"There is no objective '{name}'; there are {', '.join(OBJECTIVES)}.")
    if name == "unilm" and options and options.get("nsp") is False:
        return replace(OBJECTIVES[name], model=_UNILM)
    if name != "mixture":
        return OBJECTIVES[name]
    if not options or name in options:
        raise MasqueradeError("A mixture needs objectives and their shares: options.mlm = 0.5, options.span = 0.5.")
    first, *others = [entry(part) for part in options]
    model: dict[str, Any] = {"outputs": ("lm",), **first.model}
    for part, other in zip(list(options)[1:], others, strict=True):
        for key, value in {"outputs": ("lm",), **other.model}.items():
            if key in ("outputs", "spare"):
                model[key] = tuple(dict.fromkeys([*model.get(key, ()), *value]))
            elif key == "segments":
                model[key] = max(value, model.get(key, 0))
            elif model.setdefault(key, value) != value:
                raise MasqueradeError(f"'{part}' needs '{key}' of the network to be {value}, but others differ.")
        if other.decoder != first.decoder:
            raise MasqueradeError(f"'{part}' cannot be mixed with the others: one has a decoder, the other does not.")
    needs = tuple(dict.fromkeys(role for part in (first, *others) for role in part.needs))
    return replace(OBJECTIVES[name], family=first.family, model=model, decoder=first.decoder, needs=needs)


def make_objective(name: str, tokenizer: Tokenizer, options: Mapping[str, Any]) -> Objective:
    """An objective by name, for a vocabulary, with its settings."""
    found = entry(name, options)
    for role in found.needs:
        if role not in tokenizer.specials:
            raise MasqueradeError(f"The objective '{name}' needs a {role} token, and this tokenizer has none.")
    try:
        return found.make(Vocabulary.of(tokenizer), tokenizer, **options)
    except TypeError as error:
        raise MasqueradeError(f"The objective '{name}' does not take these options: {error}.") from error
