"""The runs behind the table of entity memories in docs/entities.md: one small budget for all of them.

    python scripts/entity_results.py DATA OUT --start ENCODER [--seeds 3] [--texts 4832] [--kinds …] [KEY=VALUE …]

DATA has facts/trex/*.jsonl, facts/relations.json and entities/fewrel-sentences.jsonl. Subjects are split into training
(8 of 10) and test (2 of 10), since a random split of facts leaks. A sentence that shows its answer is left out. The
knowledge base has the facts of all subjects; then those of the test subjects are taken out, and then each gets another
object of the same relation. Test sentences say nothing about names: names are the labels of all entities, and what
entities are called in training sentences, as often as they are. An entity's description is the relations that it is an
object of in training. KnowBERT is trained on the sentences of one half of the training subjects, with names counted in
those of the other half: a prior that counts the mention itself is nearly always right. KEY=VALUE changes the recipe of
all runs. Prints Markdown, and writes OUT/results.json, where each finished run is kept: it is not done again, so that
the script may be stopped at any time and started again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from masquerade import Model, load, save
from masquerade.data.examples import Example
from masquerade.data.packing import collate
from masquerade.data.records import read_records
from masquerade.data.rng import rng_for
from masquerade.files import write_text
from masquerade.layout import IGNORE
from masquerade.memory.entity.examples import batch_inputs
from masquerade.memory.entity.fact_memory import FactMemory
from masquerade.memory.entity.linked_records import LinkedRecord, read_linked
from masquerade.memory.entity.networks import attach
from masquerade.memory.entity.sources import Gathered, create
from masquerade.memory.entity.training import KINDS, EntityTraining, TrainEntities, linked_examples
from masquerade.memory.entity.vectors import TextVectors
from masquerade.training.loop import Run
from masquerade.training.recipe import read_recipe

RECIPE = Path(__file__).parents[1] / "recipes" / "entities.toml"
BATCH, LENGTH = 64, 96
DESCRIBED = 4  # relations of a description
LINKER_RATE = 1e-3  # of KnowBERT's memory, while it is trained alone
UNTRAINED = "untrained"  # a memory of facts as it begins


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("changes", nargs="*", help="key=value, for the recipe of all runs")
    parser.add_argument("--start", required=True, help="the encoder")
    parser.add_argument("--kinds", default=",".join([UNTRAINED, *KINDS]))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--facts", type=int, default=0, help="facts of each relation; 0: all")
    parser.add_argument("--sentences", type=int, default=0, help="sentences of FewRel; 0: all")
    parser.add_argument("--texts", type=int, default=4832, help="training texts of each run, drawn at random")
    parser.add_argument("--test", type=int, default=0, help="test sentences of each kind, drawn at random; 0: all")
    parser.add_argument("--skip", type=int, default=0, help="test sentences that are left out first: choose on others")
    parser.add_argument("--keep", action="store_true", help="keep the trained networks")
    options = parser.parse_intermixed_args()
    options.out.mkdir(parents=True, exist_ok=True)
    prepare(options.data, options.out, options.facts, options.sentences, options.start)
    test = drawn(read_linked(str(options.out / "test.jsonl")), 0)[options.skip :][: options.test or None]
    floor = majority(read_linked(str(options.out / "train.jsonl")), test)
    print(f"{len(test)} test sentences; the most frequent object of each relation: {floor:.1%}\n", flush=True)
    cells, path = dict[str, dict[str, float]](), options.out / "results.json"
    if path.is_file():
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sizes = [f"{name}={getattr(options, name)}" for name in ("texts", "test", "skip")]
    settings = " ".join([*sizes, *sorted(options.changes)])
    kinds = options.kinds.split(",")
    for seed in range(1, options.seeds + 1):  # one seed of every kind first: an early end leaves whole columns
        for kind in kinds:
            cell = f"{kind} {seed} {settings}"
            if cell in cells or (kind == UNTRAINED and seed > 1):
                continue
            began, run = time.process_time(), options.out / cell.replace(" ", "-").replace("/", "-")
            train(options, kind, seed, run)
            found = score(load(run), options.out, test, kind, options.test)
            cells[cell] = {**found, "CPU seconds": time.process_time() - began}
            write_text(path, json.dumps({"majority": floor, "cells": cells}, indent=1) + "\n")
            if not options.keep:
                for made in (run, Path(f"{run}-linker")):
                    shutil.rmtree(made, ignore_errors=True)
                    Path(f"{made}.jsonl").unlink(missing_ok=True)
            print(f"{cell}: {found['accuracy']:.1%}", flush=True)
    names = {kind: [f"{kind} {seed} {settings}" for seed in range(1, options.seeds + 1)] for kind in kinds}
    chosen = {kind: [cells[cell] for cell in each if cell in cells] for kind, each in names.items()}
    print_table(chosen, floor)


def prepare(data: Path, out: Path, facts: int, sentences: int, start: str) -> None:
    """The knowledge base, and linked texts for training and test, split by subject."""
    if (out / "kb-half").is_dir() and (out / "test.jsonl").is_file():
        return
    sources = sorted((data / "facts" / "trex").glob("*.jsonl"))
    kept = out / "sources"
    kept.mkdir(exist_ok=True)
    for path in sources:
        write(kept / path.name, list(read_records(str(path)))[: facts or None])
    fewrel = list(read_records(str(data / "entities" / "fewrel-sentences.jsonl")))[: sentences or None]
    write(kept / "fewrel.jsonl", [with_surfaces(record) for record in fewrel])
    files = [str(data / "facts" / "relations.json"), *(str(kept / path.name) for path in sources)]
    for name, counted in (("kb", in_training), ("kb-half", is_counted)):
        if not (out / name).is_dir():
            gathered = known_from([*files, str(kept / "fewrel.jsonl")], counted)
            create(gathered, out / name, TextVectors.load(start), start).close()
    parts: dict[str, list[LinkedRecord]] = {"train": [], "links": [], "test": []}
    for path in sources:
        for record in read_linked(str(kept / path.name)):
            parts["test" if held_out(record.mentions[0].key) else "train"].append(record)
    for record in read_linked(str(kept / "fewrel.jsonl")):
        parts["links" if held_out(record.mentions[0].key) else "train"].append(record)
    for name, records in parts.items():
        write(out / f"{name}.jsonl", [plain(record) for record in records])


def known_from(files: Sequence[str], counted: Callable[[str], bool]) -> Gathered:
    """All entities and facts of some files, with names and descriptions as records of counted subjects have them."""
    whole, training, uses = Gathered.of(files), Gathered(), defaultdict[str, Counter[str]](Counter)
    for path in files:
        for record in read_records(path):
            subject = record["sub_uri"] if "sub_uri" in record else record.get("subject", {}).get("id", "")
            if not subject or counted(subject):
                training.add(record)
    for _, relation, thing in training.facts:
        uses[thing][training.relations[relation]] += 1
    for key, label in whole.labels.items():
        whole.names[key] = training.names.get(key, Counter()) + Counter([label])
        whole.descriptions[key] = ", ".join(name for name, _ in uses[key].most_common(DESCRIBED))
    return whole


def drawn(records: Sequence[LinkedRecord], count: int, seed: int = 3) -> list[LinkedRecord]:
    """So many of the records, the same ones for the same seed; all of them for 0."""
    return [records[index] for index in rng_for(seed, len(records)).permutation(len(records))[: count or None]]


def held_out(subject: str) -> bool:
    """Whether a subject is one of the test subjects: 2 of 10, by its key alone."""
    return bool(rng_for(*subject.encode()).random() < 0.2)


def in_training(subject: str) -> bool:
    """Whether a subject is one of the training subjects."""
    return not held_out(subject)


def is_counted(subject: str) -> bool:
    """Whether a subject is in the half of the training subjects whose names are counted for KnowBERT's training."""
    return in_training(subject) and bool(rng_for(0, *subject.encode()).random() < 0.5)


def with_surfaces(record: Mapping[str, Any]) -> dict[str, Any]:
    """A sentence of FewRel whose entities have the names that stand in it, cased."""
    made = dict(record)
    for side in ("subject", "object"):
        first, last = record[side]["spans"][0]
        made[side] = {**record[side], "aliases": [" ".join(record["tokens"][first : last + 1])]}
    return made


def plain(record: LinkedRecord) -> dict[str, Any]:
    """A linked text as ``read_linked`` reads it."""
    spans = [{"start": each.start, "end": each.end, "id": each.key} for each in record.mentions]
    return {**asdict(record), "mentions": spans}


def write(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    write_text(path, "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def majority(train: Sequence[LinkedRecord], test: Sequence[LinkedRecord]) -> float:
    """The accuracy of the object that is most frequent with each relation in training."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for record in train:
        counts[record.relation][record.answer] += bool(record.answer)
    best = {relation: counter.most_common(1)[0][0] for relation, counter in counts.items()}
    return mean(best.get(record.relation) == record.answer for record in test)


def train(options: argparse.Namespace, kind: str, seed: int, run: Path) -> None:
    """One run by the recipe, over ``--texts`` texts; a run that was stopped goes on."""
    out, name = options.out, "facts" if kind == UNTRAINED else kind
    linked, base = read_linked(str(out / "train.jsonl")), "kb-half" if kind == "knowbert" else "kb"
    settings = [f"kind='{name}'", f"seed={seed}", f"start='{options.start}'", f"memory='{out / base}'",
                f"out='{run}'", f"train=['{run}.jsonl']", "held_out=[]", "epochs=1", "save_every=40"]  # fmt: skip
    recipe = read_recipe(RECIPE, EntityTraining, [*settings, *options.changes])
    linker = options.texts // 3 if kind == "knowbert" else 0
    if linker:  # the memory first, with the encoder as it is, on linked names, ambiguous ones before others; then both
        linked, memory = [each for each in linked if not is_counted(each.mentions[0].key)], FactMemory(out / base)
        first = replace(recipe, out=f"{run}-linker", train=(f"{run}-linker.jsonl",), frozen=True, rate=LINKER_RATE)
        some = drawn([each for each in linked if not each.answer], 0, seed)
        some = sorted(some, key=lambda record: not is_ambiguous(record, memory))[:linker]
        write(Path(first.train[0]), [plain(record) for record in some])
        Run(TrainEntities(first), resume=True).train()
        recipe = replace(recipe, start=first.out)
    write(Path(recipe.train[0]), [plain(record) for record in drawn(linked, options.texts - linker, seed)])
    if kind == UNTRAINED:
        save(TrainEntities(recipe).begin()[""], run)
    else:
        Run(TrainEntities(recipe), resume=True).train()


def score(model: Model, out: Path, test: Sequence[LinkedRecord], kind: str, count: int) -> dict[str, float]:
    """Accuracy with the knowledge base as it is, by relation; for facts also without those of the test subjects, and
    with other objects; and of linking, where the network links."""
    memory = FactMemory(out / "kb")
    predicted = predictions(model, memory, test)
    found = {"accuracy": accuracy(predicted, test, memory)}
    by_relation: dict[str, list[bool]] = defaultdict(list)
    for record, hit in zip(test, hits(predicted, test, memory), strict=True):
        by_relation[record.relation].append(hit)
    found |= {f"accuracy {memory.relation(key).label}": mean(each) for key, each in sorted(by_relation.items())}
    if kind in ("facts", UNTRAINED):
        found |= changed(model, out, test)
    if kind != "plain":
        links = read_linked(str(out / "links.jsonl"))
        found |= linking(model, memory, drawn(links, count), ambiguous=False)
        found |= linking(model, memory, [each for each in links if is_ambiguous(each, memory)], ambiguous=True)
    return found


def changed(model: Model, out: Path, test: Sequence[LinkedRecord]) -> dict[str, float]:
    """How answers follow a knowledge base without the facts of the test subjects, and one with other objects."""
    facts = sorted({(record.mentions[0].key, record.relation) for record in test})
    objects: dict[str, list[str]] = defaultdict(list)
    for record in test:
        objects[record.relation].append(record.answer)
    rng = rng_for(7)
    new = {(subject, relation): objects[relation][int(rng.integers(len(objects[relation])))]
           for subject, relation in facts}  # fmt: skip
    with changed_base(out, facts) as memory:
        found = {"accuracy, facts removed": accuracy(predictions(model, memory, test), test, memory)}
    with changed_base(out, facts, new) as memory:
        predicted = predictions(model, memory, test)
        asked = [replace(record, answer=new[record.mentions[0].key, record.relation]) for record in test]
        rows = [memory.row(memory.entity(record.mentions[0].key).number, memory.relation(record.relation).number)
                for record in asked]  # fmt: skip
        right = hits(predicted, asked, memory)
    found["accuracy, facts edited"] = mean(right)
    found_facts = [fact == row for (_, fact), row in zip(predicted, rows, strict=True)]
    followed = [hit for hit, read in zip(right, found_facts, strict=True) if read]
    return found | {"fact found": mean(found_facts)} | ({"followed if found": mean(followed)} if followed else {})


@contextmanager
def changed_base(
    out: Path, facts: Sequence[tuple[str, str]], new: Mapping[tuple[str, str], str] | None = None
) -> Iterator[FactMemory]:
    """A copy of the knowledge base, for a while, in which facts, given as keys of subject and relation, are taken out,
    or have a ``new`` object."""
    copy = out / "kb-changed"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(out / "kb", copy)
    memory = FactMemory(copy)
    with memory.store.change(facts_alone=True) as connection:  # one transaction, not thousands
        for subject, relation in facts:
            keys = memory.entity(subject).number, memory.relation(relation).number
            connection.execute("DELETE FROM fact WHERE subject = ? AND relation = ?", keys)
            if new is not None:
                thing = memory.entity(new[subject, relation]).number
                connection.execute("INSERT INTO fact VALUES (?, ?, ?)", (*keys, thing))
    yield memory
    memory.close()
    shutil.rmtree(copy, ignore_errors=True)


@torch.inference_mode()
def predictions(model: Model, memory: FactMemory, records: Sequence[LinkedRecord]) -> list[tuple[int, int]]:
    """For each record its best entity, and the row of the fact that counted most, −1 for none."""
    attach(model, memory)
    found = []
    examples = linked_examples(model, memory, records, LENGTH)
    for outputs, _ in passes(model, examples):
        best = outputs["memory.fact_weights"].argmax(-1, keepdim=True)
        facts = outputs["memory.facts"].gather(1, best).squeeze(1) - 1
        found += list(zip(outputs["memory.answers"].argmax(-1).tolist(), facts.tolist(), strict=True))
    answers = iter(found)  # a blank that the window cuts off has no answer, which is wrong
    return [next(answers) if example.count("memory.blanks") else (-1, -1) for example in examples]


def passes(model: Model, examples: Sequence[Example]) -> Iterator[tuple[Mapping[str, torch.Tensor], Any]]:
    """The outputs of the network for examples in their order, a batch at a time, and the batch."""
    model.eval()
    for start in range(0, len(examples), BATCH):
        batch = collate([[example] for example in examples[start : start + BATCH]], model.spec.pad)
        yield model.flow(batch.layout, inputs=batch_inputs(batch.extra)).outputs, batch


def accuracy(predicted: Sequence[tuple[int, int]], records: Sequence[LinkedRecord], memory: FactMemory) -> float:
    return mean(hits(predicted, records, memory))


def hits(predicted: Sequence[tuple[int, int]], records: Sequence[LinkedRecord], memory: FactMemory) -> list[bool]:
    """Whether each record's best entity is its answer."""
    key = dict(memory.store.rows("SELECT number, key FROM entity"))
    return [key.get(answer) == record.answer for (answer, _), record in zip(predicted, records, strict=True)]


def is_ambiguous(record: LinkedRecord, memory: FactMemory) -> bool:
    """Whether a linked mention of a text has several candidates."""
    return any(len(memory.candidates(record.text[each.start : each.end])) > 1 for each in record.mentions)


@torch.inference_mode()
def linking(model: Model, memory: FactMemory, records: Sequence[LinkedRecord], ambiguous: bool) -> dict[str, float]:
    """Linking accuracy on sentences of FewRel, of linked mentions whose entity is among the candidates: of all of
    them, or of ``ambiguous`` ones only, beside the prior; and of those whose entity occurs in training."""
    attach(model, memory)
    right: dict[str, list[bool]] = defaultdict(list)
    seen = {number for number, text in memory.store.rows("SELECT number, description FROM entity") if text}
    for outputs, batch in passes(model, linked_examples(model, memory, records, LENGTH)):
        gold, listed = batch.extra["memory.gold"], batch.extra["memory.candidates"]
        if "memory.candidate_scores" in outputs:
            chosen = listed.gather(1, outputs["memory.candidate_scores"].argmax(-1, keepdim=True)).squeeze(1)
        else:
            chosen = outputs["memory.entities"][:, 0]
        for entity, best, row in zip(gold.tolist(), chosen.tolist(), listed.tolist(), strict=True):
            if entity == IGNORE or entity not in row or (ambiguous and row[1] < 0):
                continue
            for name in ["", ", an object in training"] if ambiguous and entity in seen else [""]:
                kind = "ambiguous links" if ambiguous else "links"
                right[kind + name].append(best == entity)
                right[f"{kind}, prior{name}"].append(row[0] == entity)
    counts = {f"{name}, mentions": float(len(each)) for name, each in right.items() if "prior" not in name}
    return {name: mean(each) for name, each in right.items()} | counts


def print_table(results: Mapping[str, Sequence[Mapping[str, float]]], floor: float) -> None:
    """Markdown: a row a measure, a column a kind; mean and deviation over the seeds."""
    names = list(dict.fromkeys(name for runs in results.values() for run in runs for name in run))
    print("| | majority | " + " | ".join(results) + " |\n|---|---|" + "---|" * len(results))
    for name in names:
        cells = []
        for runs in results.values():
            values = [run[name] for run in runs if name in run]
            spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
            if name.endswith(("mentions", "seconds")):
                cells.append(f"{mean(values):,.0f}" if values else "")
            else:
                cells.append(f"{mean(values):.1%}{spread}" if values else "")
        print(f"| {name} | {f'{floor:.1%}' if name == 'accuracy' else ''} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
