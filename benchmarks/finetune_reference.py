"""Fine-tune an encoder with plain transformers: the yardstick for masquerade's own fine-tuning at the same settings.

    python benchmarks/finetune_reference.py classifier MODEL sst2/train.tsv sst2/dev.tsv --epochs 1
    python benchmarks/finetune_reference.py tagger MODEL cluener/train.json cluener/dev.json --length 128
    python benchmarks/finetune_reference.py ours runs/cluener cluener/dev.json

A classifier learns from lines of text, tab, label (with or without a header that ends in 'label'), and is scored by
accuracy. A tagger learns from CLUENER's JSON objects, one behind another: {"text": …, "label": {type: {name:
[[start, end], …]}}} with the last character included; it tags tokens with B, I and O, and is scored by entity: type,
start and end have to be right, and what was cut off by --length counts as missed. Its tags are read off twice: the best
of each token, as is usual with transformers, and the best sequence that makes sense, as masquerade's tagger does. The
third command trains nothing: it reads a tagger of masquerade's off in both ways, for comparison.

AdamW (0.9, 0.98, 1e-6) with decay on matrices only, linear decay of the rate behind a warm-up, gradients clipped at 1,
dropout as the checkpoint has it, batches in random order padded to their longest text.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "0"}

Entity = tuple[str, int, int]  # type, first character, the one behind the last
IGNORE = -100
BLANK = re.compile(r"\s*")


def read_lines(path: Path) -> list[tuple[str, str]]:
    """Texts and their labels: the first and the last column."""
    records = []
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    header = lines[0].rstrip("\r").split("\t")[-1] == "label"
    for number, line in enumerate(lines[header:], start=1 + header):
        columns = line.rstrip("\r").split("\t")
        if columns == [""]:
            continue
        if len(columns) < 2:
            sys.exit(f"Line {number} of {path} has no tab; each line is a text, a tab and its label.")
        records.append((columns[0].strip(), columns[-1].strip()))
    return records


def read_entities(path: Path) -> list[tuple[str, list[Entity]]]:
    """Texts and their entities."""
    text, records, place = path.read_text(encoding="utf-8-sig"), [], 0
    decoder = json.JSONDecoder()
    while (place := BLANK.match(text, place).end()) < len(text):  # type: ignore[union-attr]
        try:
            record, place = decoder.raw_decode(text, place)
            found = [
                (kind, start, end + 1)
                for kind, names in record["label"].items()
                for spans in names.values()
                for start, end in spans
            ]
            records.append((record["text"], found))
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            line = text.count("\n", 0, place) + 1
            sys.exit(
                f"The object at line {line} of {path} is no CLUENER record ({error}); it needs 'text' and 'label'."
            )
    return records


def tag_tokens(offsets: Iterable[tuple[int, int]], entities: Sequence[Entity], number: dict[str, int]) -> list[int]:
    """The B, I or O of each token by where its characters stand; special tokens have none. Of entities that overlap,
    the one that begins first, then the longer one, is learnt."""
    owner: dict[int, Entity] = {}
    for entity in sorted(entities, key=lambda each: (each[1], -each[2])):
        if not any(place in owner for place in range(entity[1], entity[2])):
            owner |= dict.fromkeys(range(entity[1], entity[2]), entity)
    tags, last = [], None
    for start, end in offsets:
        if start == end:
            tags.append(IGNORE)
            continue
        entity = owner.get(start)
        tags.append(number["O"] if entity is None else number[("I-" if entity is last else "B-") + entity[0]])
        last = entity
    return tags


def best_of_each(offsets: Sequence[tuple[int, int]], scores: Any, names: Sequence[str]) -> list[str]:
    """The best tag of each token, whatever stands beside it: scores (n, tags)."""
    return [names[tag] for tag in scores[: len(offsets)].argmax(-1)]


def best_sequence(offsets: Sequence[tuple[int, int]], scores: Any, names: Sequence[str]) -> list[str]:
    """The best sequence of tags in which an I only continues its own type; special tokens take no part in it."""
    import torch

    from masquerade.labelling.tagger import best_tags, forbidden

    inside = [index for index, (start, end) in enumerate(offsets) if start < end]
    tags = ["O"] * len(offsets)
    for index, tag in zip(inside, best_tags(torch.as_tensor(scores)[inside], forbidden(names)), strict=True):
        tags[index] = names[tag]
    return tags


def join_tags(offsets: Iterable[tuple[int, int]], tags: Sequence[str]) -> set[Entity]:
    """The entities that tags spell. An I that continues nothing of its type begins an entity, as seqeval has it."""
    found: list[Entity] = []
    last = ""
    for (start, end), tag in zip(offsets, tags, strict=True):
        if start == end:
            continue
        mark, _, kind = tag.partition("-")
        if mark == "I" and kind == last:
            found[-1] = (kind, found[-1][1], end)
        elif mark != "O":
            found.append((kind, start, end))
        last = kind
    return set(found)


def encode(records: Sequence[tuple[str, Any]], tokenizer: Any, length: int, number: dict[str, int]) -> list[Any]:
    """Ids and labels of every record: one label for a text, or one a token."""
    encoded = tokenizer([text for text, _ in records], truncation=True, max_length=length, return_offsets_mapping=True)
    examples = []
    for index, (_, wanted) in enumerate(records):
        labels = (
            number[wanted] if isinstance(wanted, str) else tag_tokens(encoded["offset_mapping"][index], wanted, number)
        )
        examples.append({"input_ids": encoded["input_ids"][index], "labels": labels})
    return examples


def score_entities(wanted: Sequence[set[Entity]], found: Sequence[set[Entity]]) -> dict[str, float]:
    """Micro precision, recall and F1 over exact entities."""
    right = sum(len(one & other) for one, other in zip(wanted, found, strict=True))
    precision, recall = right / max(sum(map(len, found)), 1), right / max(sum(map(len, wanted)), 1)
    return {"precision": precision, "recall": recall, "f1": 2 * precision * recall / max(precision + recall, 1e-12)}


def score_both_ways(
    wanted: Sequence[set[Entity]], texts: Sequence[tuple[int, Sequence[tuple[int, int]], Any]], names: Sequence[str]
) -> dict[str, float]:
    """The scores of the best tag of each token, and as 'sequence_…' those of the best sequence. A text, or a part of
    one, is its number, the places of its tokens and their scores (n, tags)."""
    scores: dict[str, float] = {}
    for how, pick in (("", best_of_each), ("sequence_", best_sequence)):
        found: list[set[Entity]] = [set() for _ in wanted]
        for index, offsets, each in texts:
            found[index] |= join_tags(offsets, pick(offsets, each, names))
        scores |= {how + name: value for name, value in score_entities(wanted, found).items()}
    return scores


def read_ours(folder: Path, held_out: Sequence[tuple[str, list[Entity]]]) -> dict[str, Any]:
    """Score a tagger that masquerade trained, by its own scores of tokens."""
    from masquerade.labelling.predict import predict
    from masquerade.labelling.tagger import Tagger, cut

    tagger = Tagger.load(folder)
    windows = cut(tagger.tokenizer, [text for text, _ in held_out], tagger.length)
    scores = predict(tagger.model, [window.layout for window in windows], "tag")
    texts = [
        (window.text, [place or (0, 0) for place in window.places], each)
        for window, each in zip(windows, scores, strict=True)
    ]
    wanted = [set(entities) for _, entities in held_out]
    return {**score_both_ways(wanted, texts, tagger.model.spec.labels), "held_out": len(held_out)}


def run(chosen: argparse.Namespace) -> dict[str, Any]:
    """Train and score."""
    import transformers

    tagger = chosen.kind == "tagger"
    read: Any = read_entities if tagger else read_lines
    train, held_out = read(chosen.train)[: chosen.limit or None], read(chosen.held_out)
    if not train or not held_out:
        sys.exit(f"There are no records in {chosen.held_out if train else chosen.train}.")
    if tagger:
        kinds = sorted({entity[0] for _, entities in train + held_out for entity in entities})
        names = ["O", *(f"{mark}-{kind}" for kind in kinds for mark in "BI")]
    else:
        names = sorted({label for _, label in train + held_out})
    number = {name: index for index, name in enumerate(names)}
    transformers.set_seed(chosen.seed)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(chosen.model))
        family = (
            transformers.AutoModelForTokenClassification if tagger else transformers.AutoModelForSequenceClassification
        )
        labelled = {"num_labels": len(names), "id2label": dict(enumerate(names)), "label2id": number}
        model = family.from_pretrained(str(chosen.model), **labelled)
    except (OSError, ValueError) as error:
        sys.exit(f"There is no checkpoint to fine-tune in {chosen.model}: {str(error).splitlines()[0]}")
    examples = [encode(records, tokenizer, chosen.length, number) for records in (train, held_out)]
    tokens = 0

    def count(module: Any, _: Any, named: dict[str, Any]) -> None:
        nonlocal tokens
        tokens += int(named["attention_mask"].sum()) if module.training else 0

    model.register_forward_pre_hook(count, with_kwargs=True)
    collator = transformers.DataCollatorForTokenClassification if tagger else transformers.DataCollatorWithPadding
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            output_dir=folder, use_cpu=True, seed=chosen.seed, num_train_epochs=chosen.epochs,
            per_device_train_batch_size=chosen.batch, per_device_eval_batch_size=chosen.batch,
            learning_rate=chosen.rate, lr_scheduler_type="linear", warmup_steps=chosen.warmup,
            adam_beta1=0.9, adam_beta2=0.98, adam_epsilon=1e-6, weight_decay=chosen.decay, max_grad_norm=1.0,
            save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=False,
        )  # fmt: skip
        trainer = transformers.Trainer(model, settings, collator(tokenizer), train_dataset=examples[0])
        start = time.perf_counter()
        steps = trainer.train().global_step
        seconds = time.perf_counter() - start
        logits = trainer.predict(examples[1]).predictions
    facts = {"train": len(train), "held_out": len(held_out), "steps": steps, "seconds": seconds, "tokens": tokens}
    if not tagger:
        right = sum(int(guess) == number[label] for guess, (_, label) in zip(logits.argmax(-1), held_out, strict=True))
        return {"accuracy": right / len(held_out), **facts}
    encoded = tokenizer(
        [text for text, _ in held_out], truncation=True, max_length=chosen.length, return_offsets_mapping=True
    )
    texts = list(zip(range(len(held_out)), encoded["offset_mapping"], logits, strict=True))
    return {**score_both_ways([set(entities) for _, entities in held_out], texts, names), **facts}


def main() -> None:
    """Read the command line, train, show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("classifier", "tagger", "ours"))
    parser.add_argument("model", type=Path, help="a checkpoint's folder, or the run of a tagger of ours")
    parser.add_argument("train", type=Path, nargs="?", help="the file to learn from; 'ours' has none")
    parser.add_argument("held_out", type=Path, help="the file to be scored on")
    parser.add_argument("--length", type=int, default=128, help="longest text, in tokens (%(default)s)")
    parser.add_argument("--batch", type=int, default=32, help="texts of a step (%(default)s)")
    parser.add_argument("--epochs", type=float, default=3.0, help="passes over the training file (%(default)s)")
    parser.add_argument("--rate", type=float, default=5e-5, help="the highest learning rate (%(default)s)")
    parser.add_argument("--warmup", type=float, default=0.1, help="the share of steps in which it rises (%(default)s)")
    parser.add_argument("--decay", type=float, default=0.01, help="weight decay of matrices (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the head, the order and the dropout (%(default)s)")
    parser.add_argument("--limit", type=int, default=0, help="use the first so many training records alone")
    parser.add_argument("--json", type=Path, help="write the result to this file too")
    chosen = parser.parse_args()
    if (chosen.train is None) != (chosen.kind == "ours"):
        parser.error("a file to learn from and one to be scored on are needed; for 'ours' the latter alone")
    if not chosen.model.is_dir():
        parser.error(f"there is no folder {chosen.model}")
    for path in (chosen.train, chosen.held_out):
        if path and not path.is_file():
            parser.error(f"there is no file {path}")
    if not 0 <= chosen.warmup < 1:
        parser.error(f"the warm-up is a share of the steps, from 0 to below 1, but it is {chosen.warmup}")
    if chosen.length < 3 or chosen.batch < 1 or chosen.epochs <= 0 or chosen.limit < 0:
        parser.error("a length of at least 3, a batch of at least 1, epochs above 0 and no negative limit are needed")
    result = read_ours(chosen.model, read_entities(chosen.held_out)) if chosen.kind == "ours" else run(chosen)
    kinds = [how + name for how in ("", "sequence_") for name in ("accuracy", "precision", "recall", "f1")]
    scores = " ".join(f"{name} {result[name]:.4f}" for name in kinds if name in result)
    print(f"{scores} on {result['held_out']:,} held-out texts")
    if "steps" in result:
        speed = f"{result['seconds']:.1f} s, {result['tokens'] / result['seconds']:,.0f} real tokens/s"
        print(f"{result['steps']:,} steps over {result['train']:,} texts in {speed}")
    if chosen.json:
        settings = {name: str(value) if isinstance(value, Path) else value for name, value in vars(chosen).items()}
        chosen.json.write_text(json.dumps({**result, "settings": settings}, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
