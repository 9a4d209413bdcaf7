"""Training of CogQA in stages: system 1 alone, then system 2 alone on what system 1 gives it, then both."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from masquerade.checkpoints.folders import load
from masquerade.data.examples import Example, PerExample, PerToken
from masquerade.data.packing import Batch, DataCursor, Row, packed
from masquerade.data.rng import rng_for
from masquerade.errors import MasqueradeError
from masquerade.files import write_whole
from masquerade.masks import bidirectional
from masquerade.memory.working.cogqa import STAGES, CogQA
from masquerade.memory.working.graph_network import FORMS, STEPS, split_graphs
from masquerade.memory.working.hop_graphs import TrainingGraph, training_graph
from masquerade.memory.working.hop_records import HopRecord, HopTargets, NodeTarget, read_hops
from masquerade.memory.working.hop_scores import hop_scores
from masquerade.memory.working.pointers import NONE, POINTERS, pointer_losses, pointer_targets
from masquerade.memory.working.system1 import HEAD, HopSettings, NodeText, System1, network_of, new_system1
from masquerade.nn.documents import documents
from masquerade.nn.model import Model
from masquerade.objectives.loss import Loss
from masquerade.progress import progress_bar
from masquerade.training.loop import Run, TrainingJob
from masquerade.training.recipe import FineTuning

GRAPHS = "graphs.pt"  # in the folder of a stage: the graphs of its training questions
TOGETHER = 50  # questions whose graphs are written at once


@dataclass(frozen=True, kw_only=True)
class HopTraining(FineTuning):
    """A run of CogQA on questions of several steps. ``epochs`` and ``rate`` are those of system 1 alone; ``batch`` is a
    number of questions."""

    graph_epochs: float = 20.0  # of system 2 alone
    graph_rate: float = 1e-3
    joint_epochs: float = 0.0  # of both together
    joint_rate: float = 2e-5
    form: str = "authors"  # of the graph network, or sources
    steps_of_graph: int = STEPS
    semantics: int = 0  # layers before the semantics of nodes are taken; 0: all but two
    sentence_numbers: bool = False  # tokens know the number of their sentence
    negatives: int = 2  # paragraphs of a question that are not needed
    none: float = NONE  # the target of [CLS] where there is no span; 1 in the papers' text
    window: int = 384  # tokens that are read for a node
    question: int = 64  # … of the question, at most
    clues: int = 96  # … of the clues, at most
    held_out_questions: int = 100  # questions that are answered in an evaluation
    batch: int = 8
    length: int = 384
    row: int = 512
    micro: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form not in FORMS:
            raise MasqueradeError(
                f"There is no form '{self.form}' of the graph network; choose from {', '.join(FORMS)}."
            )
        if self.window < self.question + self.clues + 24:
            raise MasqueradeError(
                f"A window of {self.window} tokens has no room for a paragraph beside a question of {self.question} "
                f"tokens and clues of {self.clues}; raise 'window'."
            )
        if min(self.graph_epochs, self.joint_epochs) < 0 or self.negatives < 0 or self.steps_of_graph < 1:
            raise MasqueradeError("Epochs and 'negatives' cannot be below 0, and 'steps_of_graph' not below 1.")


class HopLoss(Loss):
    """The loss of the pointers, and of the graph network where a batch has graphs: on the states of its own nodes, or
    on semantics that were computed before."""

    def counts(self, rows: Sequence[Sequence[Example]]) -> dict[str, int]:
        each = [example for row in rows for example in row]
        spans = sum("pointers" in example.extra for example in each)
        graphs = sum("target" in example.extra for example in each)
        return {"hops": spans, "answers": spans, "graph": graphs}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        extra, sums = batch.extra, dict[str, Tensor]()
        if "nodes" in extra:
            nodes = extra["nodes"]
        else:
            flow = self.model.flow(batch.layout, inputs=extra)
            nodes, held = flow.outputs["semantics"].float(), documents(batch.layout)
            logits = self.model.head(HEAD, flow.states).float()
            logits = held.gather(logits).masked_fill(~held.there.unsqueeze(-1), -1e9)
            wanted = torch.stack([extra[f"pointer {name}"] for name in POINTERS], dim=-1)
            losses = pointer_losses(logits, held.gather(wanted)).sum(0) / 2
            sums = {"hops": losses[:2].sum(), "answers": losses[2:].sum()}
        if "target" in extra:
            graphs = split_graphs(nodes, extra["sizes"][:, 0], extra["edges"], extra["sizes"][:, 1])
            network, targets = network_of(self.model), extra["target"].tolist()
            some = [network.loss(*graph, target) for graph, target in zip(graphs, targets, strict=True)]
            sums["graph"] = torch.stack(some).sum()
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            name, idle = next(iter(sums)), network_of(self.model).parameters()  # each needs a gradient, if only 0
            sums[name] = sums[name] + 0 * torch.stack([weight.sum() for weight in idle]).sum()
        return sums


class HopJob(TrainingJob):
    """What all stages share: the records, and the evaluation by answering the held-out questions."""

    def __init__(self, recipe: HopTraining) -> None:
        self.recipe: HopTraining = recipe
        train = [record for source in recipe.train for record in read_hops(source)]
        self.train = [record for record in train if record.gold][: recipe.limit or None]
        self.test = [record for source in recipe.held_out for record in read_hops(source)][: recipe.held_out_questions]
        if not self.train:
            raise MasqueradeError("No training question says which paragraphs are needed; add 'supporting_facts'.")

    def read(self, model: Model, folder: Path) -> None:
        self.system1, self.folder = System1(model), folder
        with progress_bar("questions prepared", len(self.train)) as done:
            self.prepare(done)

    def prepare(self, done: Any) -> None:
        """Compute what every epoch uses; ``done`` is called with the number of questions."""
        self.targets = []
        for record in self.train:
            self.targets.append(HopTargets.of(record))
            done(1)

    def loss(self, networks: dict[str, Model]) -> Loss:
        return HopLoss(networks[""])

    @property
    def steps(self) -> int:
        return max(1, round(self.recipe.epochs * math.ceil(self.count / self.recipe.batch)))

    @property
    def count(self) -> int:
        """The number of questions, or graphs, of an epoch."""
        return len(self.train)

    def batches(self, cursor: DataCursor) -> Iterator[tuple[list[Row], DataCursor]]:
        batch = self.recipe.batch
        while True:
            order = rng_for(self.recipe.seed, cursor.epoch, self.count).permutation(self.count).tolist()
            for start in range(cursor.piece, self.count, batch):
                rows = self.rows(order[start : start + batch], cursor.epoch)
                yield rows, DataCursor(cursor.epoch, start + batch)
            cursor = DataCursor(cursor.epoch + 1)

    def rows(self, numbers: Sequence[int], epoch: int) -> list[Row]:
        """The packed rows of some questions."""
        raise NotImplementedError

    def evaluate(self, loss: Loss) -> dict[str, float]:
        asked = CogQA(loss.model)
        return {name: value for name, value in hop_scores(asked, self.test).items() if name != "questions"}

    def example(self, record: HopRecord, target: NodeTarget) -> Example:
        """A node for the pointers to learn from."""
        sentences = record.paragraphs.get(target.title, ())
        laid = self.system1.lay(NodeText(record.question, target.clues, sentences))
        count, extra = len(laid.example.layout), dict(laid.example.extra)
        for kind, spans in (("hop", target.hops), ("answer", target.answers)):
            inside = [place for span in spans if (place := laid.tokens(*span)) is not None]
            start, end = pointer_targets(count, inside, self.recipe.none)
            if not sentences:  # nothing can be pointed at
                start, end = torch.zeros(count), torch.zeros(count)
            extra |= {f"pointer {kind} start": PerToken(start), f"pointer {kind} end": PerToken(end)}
        return Example(laid.example.layout, extra={**extra, "pointers": PerExample(1)})


class TrainSpans(HopJob):
    """System 1 alone: hops and answers of the paragraphs that are needed, and none in others."""

    def begin(self) -> dict[str, Model]:
        recipe = self.recipe
        settings = HopSettings(recipe.window, recipe.question, recipe.clues)
        start = load(recipe.start)
        longest = start.spec.longest - start.spec.position_offset
        if recipe.window > longest:
            raise MasqueradeError(f"The encoder reads {longest} tokens; lower 'window' to that.")
        options = (recipe.form, recipe.steps_of_graph, recipe.semantics, recipe.sentence_numbers)
        return {"": new_system1(start, settings, *options)}

    def rows(self, numbers: Sequence[int], epoch: int) -> list[Row]:
        examples = []
        for number in numbers:
            some = self.targets[number].sample(rng_for(self.recipe.seed, epoch, number), self.recipe.negatives)
            examples += [self.example(self.train[number], target) for target in some]
        return packed(examples, self.recipe.row)


class TrainGraph(HopJob):
    """System 2 alone. The graphs of the training questions are made once, as they are made for any question, and kept;
    the layers of system 1 stay as they are."""

    def begin(self) -> dict[str, Model]:
        return {"": load(self.recipe.start)}

    def prepare(self, done: Any) -> None:
        made_of = self.kept.setdefault("graphs_of", graphs_of(self.system1.model, self.train))
        asked, path = CogQA(self.system1.model), self.folder / GRAPHS
        made = kept_graphs(path, made_of)
        done(len(made))
        for number in range(len(made), len(self.train)):
            graph = training_graph(asked, self.train[number])
            made.append({} if graph is None else {**vars(graph), "number": number})
            if len(made) % TOGETHER == 0 or len(made) == len(self.train):
                write_whole(path, partial(torch.save, {"of": made_of, "graphs": made}))
            done(1)
        kept = [each for each in made if each]
        self.numbers = [int(each["number"]) for each in kept]
        self.graphs = [
            TrainingGraph(**{name: value for name, value in each.items() if name != "number"}) for each in kept
        ]
        if not self.graphs:
            raise MasqueradeError("No training question has its answer in the paragraphs, so system 2 cannot learn.")

    @property
    def count(self) -> int:
        return len(self.graphs)

    def loss(self, networks: dict[str, Model]) -> Loss:
        networks[""].requires_grad_(False)
        network_of(networks[""]).requires_grad_(True)
        return HopLoss(networks[""])

    def graph_extra(self, graph: TrainingGraph) -> dict[str, PerExample]:
        """The extra fields of a graph."""
        sizes = [[len(graph.items), len(graph.edges)]]
        edges = torch.tensor(graph.edges, dtype=torch.long).reshape(-1, 2)
        return {
            "target": PerExample(torch.tensor([graph.target])),
            "sizes": PerExample(torch.tensor(sizes)),
            "edges": PerExample(edges),
        }

    def rows(self, numbers: Sequence[int], epoch: int) -> list[Row]:
        cls = bidirectional([self.system1.cls])
        found = []
        for number in numbers:
            graph = self.graphs[number]
            extra = {**self.graph_extra(graph), "nodes": PerExample(graph.semantics)}
            found.append([Example(cls, extra=extra)])
        return found


def graphs_of(model: Model, records: Sequence[HopRecord]) -> list[float]:
    """What graphs are made of, in numbers: the weights of system 1, and the questions."""
    own = {id(weight) for weight in network_of(model).parameters()}
    weights = sum(float(each.detach().double().abs().sum()) for each in model.parameters() if id(each) not in own)
    return [weights, len(records), zlib.crc32("\n".join(record.question for record in records).encode())]


def kept_graphs(path: Path, made_of: list[float]) -> list[dict[str, Any]]:
    """The graphs of the first questions in a file, an empty dict for a question without; none if they were made of
    something else."""
    kept = torch.load(path, weights_only=True) if path.is_file() else {}
    graphs: list[dict[str, Any]] = kept["graphs"] if kept.get("of") == made_of else []
    return graphs


class TrainJoint(TrainGraph):
    """Both systems on the graphs that were made before: a row is a question with all its nodes."""

    def loss(self, networks: dict[str, Model]) -> Loss:
        return HopLoss(networks[""])

    def prepare(self, done: Any) -> None:
        super().prepare(done)
        self.targets = [HopTargets.of(record) for record in self.train]

    def rows(self, numbers: Sequence[int], epoch: int) -> list[Row]:
        found = list[Row]()
        for number in numbers:
            graph, record = self.graphs[number], self.train[self.numbers[number]]
            known = {each.title: each for each in self.targets[self.numbers[number]].gold}
            row = list[Example]()
            for title, clues in graph.items:
                target = known.get(title, NodeTarget(title))
                row.append(self.example(record, replace(target, clues=clues)))
            row[0] = Example(row[0].layout, extra={**row[0].extra, **self.graph_extra(graph)})
            found.append(row)
        return found


JOBS: dict[str, type[HopJob]] = {"spans": TrainSpans, "graph": TrainGraph, "joint": TrainJoint}


def train_stages(recipe: HopTraining, resume: bool = False) -> None:
    """Train all stages of a run, each in a folder of its own inside of the run's. With ``resume``, what is done is not
    done again."""
    start, out = recipe.start, Path(recipe.out)
    plans = {
        "spans": (recipe.epochs, recipe.rate),
        "graph": (recipe.graph_epochs, recipe.graph_rate),
        "joint": (recipe.joint_epochs, recipe.joint_rate),
    }
    begun = [stage for stage in STAGES if any((out / stage).glob("step-*/state.json"))]
    if begun and not resume:
        raise MasqueradeError(f"{out} already holds a run; continue it with --resume, or choose another 'out'.")
    for stage, (epochs, rate) in plans.items():
        if epochs <= 0:
            continue
        own = replace(recipe, start=start, out=str(out / stage), epochs=epochs, rate=rate)
        Run(JOBS[stage](own), resume).train()
        start = str(out / stage)
