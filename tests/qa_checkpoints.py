"""Tiny random checkpoints for question answering, of each family, with the tokenizer that the family has."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import torch
import transformers
from parity import TINY, randomised
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from tokenizers.implementations.byte_level_bpe import ByteLevelBPETokenizer
from tokenizers.models import WordLevel

FIXTURES = Path(__file__).parent / "fixtures"
WORDS = re.findall(
    r"\S+",
    "the danube rhine nile flows into black north sea not does river city king who where when what in of and is was "
    "built found stone old new 1799 1822 water , . ? 北 京 是 中 国 的 首 都 谁 在 哪 里",
)
DEBERTA = {
    "type_vocab_size": 0, "relative_attention": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm",
    "share_att_key": True, "pos_att_type": "p2c|c2p", "position_biased_input": False,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "Bert": {},
    "Roberta": {"type_vocab_size": 1, "pad_token_id": 1, "max_position_embeddings": 66, "vocab_size": 320},
    "XLMRoberta": {"type_vocab_size": 1, "pad_token_id": 1, "max_position_embeddings": 66},
    "Albert": {"embedding_size": 16},
    "Electra": {"embedding_size": 16},
    "Ernie": {"use_task_id": True},
    "MPNet": {"pad_token_id": 1, "max_position_embeddings": 66},
    "DistilBert": {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48},
    "DebertaV2": DEBERTA | {"vocab_size": 160},
}


def word_tokenizer(double: bool) -> Tokenizer:
    """A tokenizer of whole words, with BERT's special tokens and segments or with RoBERTa's doubled separator."""
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"] if double else ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    unknown, start, end = (names[3], names[0], names[2]) if double else (names[1], names[2], names[3])
    made = Tokenizer(WordLevel({word: number for number, word in enumerate([*names, *WORDS])}, unk_token=unknown))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens(names)
    ends = [(start, made.token_to_id(start)), (end, made.token_to_id(end))]
    pair = f"{start} $A {end} {end} $B {end}" if double else f"{start}:0 $A:0 {end}:0 $B:1 {end}:1"
    made.post_processor = processors.TemplateProcessing(single=f"{start} $A {end}", pair=pair, special_tokens=ends)
    return made


def unigram_tokenizer() -> Tokenizer:
    """A tokenizer of sentencepiece's kind, whose tokens hold the blank before a word."""
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [(name, 0.0) for name in names] + [(f"▁{word}", -float(index)) for index, word in enumerate(WORDS)]
    pieces += [(letter, -90.0) for letter in "abcdeilnrst,.?北京是"]
    made = Tokenizer(models.Unigram([*pieces, ("<mask>", 0.0)], unk_id=3))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.add_special_tokens([*names, "<mask>"])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return made


def qa_checkpoint(family: str, folder: Path, **changes: Any) -> Any:
    """Save a checkpoint of a family with its tokenizer, and return the reference's model."""
    config = getattr(transformers, f"{family}Config")(**TINY | FAMILIES[family] | changes)
    torch.manual_seed(5)
    model = randomised(getattr(transformers, f"{family}ForQuestionAnswering")(config), 0.3)
    model.save_pretrained(folder)
    if family == "DebertaV2":
        shutil.copy(FIXTURES / "deberta" / "spm.model", folder)
    elif family == "Roberta":
        pieces = ByteLevelBPETokenizer()
        names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        pieces.train_from_iterator([f" {word}" for word in WORDS] * 3, 300, special_tokens=names, show_progress=False)
        pieces.save_model(str(folder))
    else:
        made = unigram_tokenizer() if family == "XLMRoberta" else word_tokenizer(family == "MPNet")
        made.save(str(folder / "tokenizer.json"))
    return model
