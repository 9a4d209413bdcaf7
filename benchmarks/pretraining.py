"""How fast is pretraining beside transformers' Trainer: the same BERT, the same text, the same machine?

    python benchmarks/pretraining.py --data corpus.jsonl [--tokens 200000] [--rounds 5] [--json out.json]

Masked words (15 %, 80/10/10) with a BERT of 6 layers of 384, 12 heads, feed-forward 1,536 and a WordPiece vocabulary
of 30,522 made of the corpus; about 4,096 real tokens an optimizer step, AdamW, clipping at 1, dropout 0.1 (none inside
attention, where it is slow for everybody), float32. Each engine is its own whole training loop in a process of its own,
stopped behind an optimizer step while it is another one's turn. Data loading, masking, packing and the optimizer are
timed; tokenising (done once, before) and saving are not. Only real tokens count, never padding.

  ours     masquerade pretrain recipes/mlm.toml: pieces of documents packed into rows, heads where there is a label
  padded   Trainer; pieces of documents in any order, padded to the longest of a batch: the plain script
  grouped  the same with pieces of like length together, so that there is hardly any padding
  blocks   Trainer; all documents behind one another, cut into full blocks without any padding (and without regard to
           where a document ends): what scripts of the run_mlm kind do
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any, TextIO

from machine import machine

RIVALS = {"padded": "random", "grouped": "group_by_length", "blocks": "random"}  # and how Trainer is to sample
STEP = 4096  # tokens of an optimizer step
ROW = {128: 128, 512: 512}  # tokens of our packed rows, for pieces of so many: attention pays for the row's length
RATE, WARMUP, SEED, FOREVER = 5e-4, 20, 1, 10**6
SIZE = {"layers": 6, "width": 384, "heads": 12, "feedforward": 1536, "longest": 512}
TRIES = 2  # at most so many times the rounds asked for are tried to get quiet ones
HERE = Path(__file__).resolve()
GIB = 2**20 if sys.platform == "linux" else 2**30  # what the system counts memory in: KiB there, bytes elsewhere


# --- in the workers -------------------------------------------------------------------------------------------------


class Pace:
    """Holds a training loop back: called behind each optimizer step, it lets the loop go on until that has read as many
    tokens as all orders so far ask for, then answers how that went and waits for the next order. So a turn is made of
    whole steps, with everything that belongs to them."""

    def __init__(self, answers: TextIO) -> None:
        self.answers = answers
        self.goal = self.total = self.tokens = self.places = self.steps = 0
        self.start = self.busy = 0.0
        self.losses: list[float] = []

    def begin(self, **facts: Any) -> None:
        """Everything is loaded: say so, and wait for the first order."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(self._stepped)
        self._answer(facts)

    def read(self, tokens: int, places: int) -> None:
        """The network reads this many real tokens, in so many places."""
        self.total, self.tokens, self.places = self.total + tokens, self.tokens + tokens, self.places + places

    def _stepped(self, *_: object) -> None:
        self.steps += 1
        if self.total >= self.goal:
            facts: dict[str, Any] = {"seconds": time.perf_counter() - self.start}
            facts |= {"own": time.process_time() - self.busy, "loss": self._loss()}
            facts |= {"tokens": self.tokens, "places": self.places, "steps": self.steps}
            facts["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIB
            self._answer(facts)

    def _answer(self, facts: dict[str, Any]) -> None:
        print(json.dumps(facts), file=self.answers, flush=True)
        order = sys.stdin.readline()
        if not order:
            raise SystemExit  # no more orders: the loop ends here
        self.goal, self.tokens, self.places, self.steps = self.goal + int(order), 0, 0, 0
        self.losses.clear()
        self.start, self.busy = time.perf_counter(), time.process_time()

    def _loss(self) -> float:
        """The mean training loss of this turn."""
        return sum(self.losses) / max(len(self.losses), 1)


def prepare(data: str, work: Path, vocab: int) -> None:
    """A tokenizer made of the corpus, the corpus in ids, and the rivals' pieces and blocks as data sets on disk."""
    import datasets
    import numpy as np

    from masquerade.data.corpus import prepare as tokenise
    from masquerade.data.corpus import read_documents
    from masquerade.text.training import train_tokenizer

    datasets.disable_progress_bars()
    tokenizer = train_tokenizer(read_documents(data), "wordpiece", vocab)
    tokenizer.save(work / "tokenizer")
    tokens = tokenise([data], tokenizer, work / "ours" / "tokens" / "train")
    ends = [np.array([tokenizer.special(role)], dtype=np.int32) for role in ("cls", "sep")]
    specials = list(tokenizer.specials.values())
    documents = [tokens[number].astype(np.int32) for number in range(len(tokens))]
    facts: dict[str, Any] = {"documents": len(tokens), "tokens": len(tokens.ids), "vocab": len(tokenizer)}

    def save(name: str, pieces: list[Any]) -> None:
        facts[name] = sum(map(len, pieces)) / len(pieces)
        hidden = [np.isin(piece, specials).astype(np.int8) for piece in pieces]
        made = datasets.Dataset.from_dict({"input_ids": pieces, "special_tokens_mask": hidden})
        made.save_to_disk(str(work / name))

    whole = np.concatenate([part for document in documents for part in (ends[0], document, ends[1])])
    for length in ROW:
        body = length - 2
        cut = [each[start : start + body] for each in documents for start in range(0, len(each), body)]
        save(f"padded-{length}", [np.concatenate([ends[0], piece, ends[1]]) for piece in cut])
        save(f"blocks-{length}", list(whole[: len(whole) // length * length].reshape(-1, length)))
    (work / "facts.json").write_text(json.dumps(facts))


def ours(pace: Pace, work: Path, length: int) -> None:
    """Masquerade's own loop, with the recipe that comes with it."""
    from masquerade.training.loop import Run
    from masquerade.training.pretraining import Pretrain
    from masquerade.training.recipe import Pretraining, read_recipe

    changes = {"train": [json.loads((work / "data.json").read_text())], "tokenizer": str(work / "tokenizer")}
    rows = STEP // ROW[length]
    changes |= {"out": str(work / "ours"), "length": length, "row": ROW[length], "rows": rows, "micro": rows}
    changes |= {"steps": FOREVER, "save_every": FOREVER, "log_every": 1, "schedule": "constant", "seed": SEED}
    changes |= {"rate": RATE, "warmup": WARMUP, **{f"model.{name}": value for name, value in SIZE.items()}}
    given = [f"{name}={json.dumps(value)}" for name, value in changes.items()]
    run = Run(Pretrain(read_recipe(HERE.parents[1] / "recipes" / "mlm.toml", Pretraining, given)))
    run.bare.model.words.register_forward_pre_hook(
        lambda _, inputs: pace.read(int(inputs[0].real.sum()), inputs[0].ids.numel())
    )
    record = run.store.record

    def note(entry: dict[str, Any]) -> None:
        pace.losses.append(entry["loss"])  # every step is logged
        record(entry)

    run.store.record = note  # type: ignore[method-assign]
    pace.begin(weights=sum(weight.numel() for weight in run.bare.model.parameters()))
    run.train()


def theirs(pace: Pace, work: Path, length: int, rival: str) -> None:
    """transformers' Trainer, with its own defaults for attention (sdpa) and the optimizer (fused AdamW)."""
    import datasets
    import transformers

    kind = "blocks" if rival == "blocks" else "padded"
    data = datasets.load_from_disk(str(work / f"{kind}-{length}"))
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(str(work / "tokenizer"))
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), hidden_size=SIZE["width"], num_hidden_layers=SIZE["layers"],
        num_attention_heads=SIZE["heads"], intermediate_size=SIZE["feedforward"],
        max_position_embeddings=SIZE["longest"], hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    transformers.set_seed(SEED)
    model = transformers.BertForMaskedLM(config)
    mean = json.loads((work / "facts.json").read_text())[f"{kind}-{length}"]  # tokens of a piece
    settings = transformers.TrainingArguments(
        output_dir=str(work / rival), use_cpu=True, seed=SEED, max_steps=FOREVER,
        per_device_train_batch_size=round(STEP / mean), train_sampling_strategy=RIVALS[rival],
        learning_rate=RATE, lr_scheduler_type="constant_with_warmup", warmup_steps=WARMUP,
        adam_beta1=0.9, adam_beta2=0.98, adam_epsilon=1e-6, weight_decay=0.01, max_grad_norm=1.0,
        remove_unused_columns=False, save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True,
    )  # fmt: skip
    trainer = transformers.Trainer(
        model, settings, transformers.DataCollatorForLanguageModeling(tokenizer), train_dataset=data
    )
    model.register_forward_pre_hook(
        lambda _, inputs, named: pace.read(int(named["attention_mask"].sum()), named["input_ids"].numel()),
        with_kwargs=True,
    )
    model.register_forward_hook(lambda _, inputs, out: pace.losses.append(float(out["loss"])))
    pace.begin(
        weights=sum(weight.numel() for weight in model.parameters()),
        attention=config._attn_implementation,
        optimizer=settings.optim.value,
    )
    trainer.train()


def work(engine: str, folder: str, length: str, threads: str) -> None:
    """A worker: orders come as lines on stdin, answers go as JSON lines to stdout, everything else to stderr."""
    import torch

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(int(threads))
    pace = Pace(answers)
    if engine == "ours":
        ours(pace, Path(folder), int(length))
    else:
        theirs(pace, Path(folder), int(length), engine)


# --- the one who measures -------------------------------------------------------------------------------------------


class Worker:
    """An engine's training loop in a process of its own, waiting for its turn."""

    def __init__(self, engine: str, folder: Path, length: int, threads: int) -> None:
        self.engine, self.log = engine, folder / f"{engine}-{length}.log"
        command = [sys.executable, str(HERE), "--worker", engine, str(folder), str(length), str(threads)]
        quiet = os.environ | {"TRANSFORMERS_VERBOSITY": "error", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "0"}
        with open(self.log, "w") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=quiet
            )
        self.warm = 0  # tokens read before anything was timed
        self.facts = self._answer()

    def read(self, tokens: int) -> dict[str, Any]:
        """Have so many tokens read; what that took, and what share of the machine others had meanwhile."""
        from families import CORES, busy

        assert self.process.stdin
        before = busy()
        self.process.stdin.write(f"{tokens}\n")
        self.process.stdin.flush()
        answer = self._answer()
        others = max(0.0, busy() - before - answer["own"]) / answer["seconds"] / CORES
        return answer | {"engine": self.engine, "others": others, "speed": answer["tokens"] / answer["seconds"]}

    def stop(self) -> None:
        """No more orders: the worker ends by itself."""
        self.process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            said = self.log.read_text().strip().splitlines() or ["nothing"]
            sys.exit(f"The worker '{self.engine}' ended with code {self.process.wait()}; it last said: {said[-1]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def compare(folder: Path, length: int, chosen: argparse.Namespace, step: Any) -> list[dict[str, Any]]:
    """Rounds in which every engine reads the same number of tokens, one after the other, by turns from either end. A
    round in which other programs computed too does not count, unless there are not enough quiet ones."""
    from families import QUIET, wait_for_quiet

    workers = [Worker(engine, folder, length, chosen.threads) for engine in ("ours", *chosen.rivals)]
    if len({worker.facts["weights"] for worker in workers}) > 1:
        sys.exit(f"The models are not the same size, so nothing is timed: {[worker.facts for worker in workers]}.")
    for worker in workers:
        step(f"{length}: {worker.engine} warms up", 0)
        worker.warm = worker.read(2 * STEP)["tokens"]
    tried: list[dict[str, dict[str, Any]]] = []
    while len([each for each in tried if noise(each) <= QUIET]) < chosen.rounds and len(tried) < TRIES * chosen.rounds:
        wait_for_quiet()
        turns = {}
        for worker in workers[:: -1 if len(tried) % 2 else 1]:
            step(f"{length}: {worker.engine}", 0)
            turns[worker.engine] = worker.read(chosen.tokens // chosen.rounds)
            step(f"{length}: {worker.engine}", 1 if len(tried) < chosen.rounds else 0)
        tried.append(turns)
    for worker in workers:
        worker.stop()
    kept = sorted(tried, key=noise)[: chosen.rounds]
    return [summary(worker, length, kept, tried) for worker in workers]


def noise(turns: dict[str, dict[str, Any]]) -> float:
    """The largest share of the machine that others had during a round."""
    return max(float(turn["others"]) for turn in turns.values())


def summary(worker: Worker, length: int, kept: list[dict[str, Any]], tried: list[dict[str, Any]]) -> dict[str, Any]:
    """What the rounds say of one engine; the loss is that of the last round, when all have read the same."""
    turns, last = [each[worker.engine] for each in kept], tried[-1][worker.engine]
    ratios = [each["ours"]["speed"] / each[worker.engine]["speed"] for each in kept]
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    steps, places = sum(turn["steps"] for turn in turns), sum(turn["places"] for turn in turns)
    tokens = sum(turn["tokens"] for turn in turns)
    return {
        "length": length, "engine": worker.engine, "speed": median(turn["speed"] for turn in turns),
        "ratio": median(ratios), "low": low, "high": high, "tokens_a_step": tokens / steps,
        "padding": 1 - tokens / places, "memory": last["memory"], "loss": last["loss"],
        "read": worker.warm + sum(each[worker.engine]["tokens"] for each in tried),
        "others": max(noise(each) for each in kept), "dropped": len(tried) - len(kept), **worker.facts, "rounds": turns,
    }  # fmt: skip


def table(results: list[dict[str, Any]]) -> Any:
    """Engines by length. A star: there were not enough quiet rounds."""
    from families import QUIET
    from rich.table import Table

    shown = Table("length", "engine", title="masked words: real tokens a second, and how many times faster ours is")
    for column in ("tokens/s", "ours/this", "tokens\na step", "padding", "peak\nmemory", "tokens\nread", "loss then"):
        shown.add_column(column, justify="right")
    for each in results:
        ratio = f"{each['ratio']:.2f}× ({each['low']:.2f}–{each['high']:.2f})" if each["engine"] != "ours" else ""
        shown.add_row(
            str(each["length"]), each["engine"], f"{each['speed']:,.0f}{'*' if each['others'] > QUIET else ''}", ratio,
            f"{each['tokens_a_step']:,.0f}", f"{each['padding']:.1%}", f"{each['memory']:.2f} GiB",
            f"{each['read']:,}", f"{each['loss']:.3f}", end_section=each["engine"] == results[-1]["engine"],
        )  # fmt: skip
    return shown


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="the corpus: .jsonl with a 'text', .txt or .parquet")
    parser.add_argument(
        "--tokens", type=int, default=200_000, help="that each engine reads at each length (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="how many turns these tokens are read in (%(default)s)")
    parser.add_argument("--lengths", default="128,512", help="tokens of a piece or block (%(default)s)")
    parser.add_argument("--rivals", default=",".join(RIVALS), help="some of %(default)s")
    parser.add_argument("--vocab", type=int, default=30522, help="the size of the vocabulary (%(default)s, BERT's)")
    parser.add_argument("--threads", type=int, default=2, help="of each engine (%(default)s)")
    parser.add_argument("--work", type=Path, help="keep tokenizer, tokens and logs here, and find them next time")
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    chosen = parser.parse_args()
    chosen.rivals, lengths = chosen.rivals.split(","), chosen.lengths.split(",")
    if unknown := set(chosen.rivals) - set(RIVALS):
        parser.error(f"there is no rival '{min(unknown)}'; choose from {', '.join(RIVALS)}")
    if unknown := set(lengths) - {str(length) for length in ROW}:
        parser.error(f"pieces of {min(unknown)} tokens are not measured; choose from {', '.join(map(str, ROW))}")
    if not chosen.data.is_file():
        parser.error(f"there is no file {chosen.data}")
    if chosen.rounds < 1 or chosen.tokens < chosen.rounds * STEP:
        parser.error(f"a round is at least one step of {STEP} tokens; give more --tokens or fewer --rounds")
    chosen.lengths = [int(length) for length in lengths]
    return chosen


def make_ready(folder: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """Prepare the data in a process of its own (so that what this one's children need is theirs alone), or find that
    this has been done; how much there is of it."""
    data = chosen.data.resolve()
    asked = {"data": str(data), "bytes": data.stat().st_size, "vocab": chosen.vocab}
    mark, facts = folder / "asked.json", folder / "facts.json"
    if not (facts.is_file() and mark.is_file() and json.loads(mark.read_text()) == asked):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "data.json").write_text(json.dumps(str(data)))
        order = [str(data), str(folder), str(chosen.vocab)]
        done = subprocess.run([sys.executable, str(HERE), "--prepare", *order], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"The data cannot be prepared: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
        mark.write_text(json.dumps(asked))
    found: dict[str, Any] = json.loads(facts.read_text())
    return found


def main() -> None:
    """Prepare, measure, show."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    chosen = arguments()
    console = Console(width=None if sys.stdout.isatty() else 132)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = (chosen.work or Path(temporary)).resolve()
        with console.status("making the vocabulary, tokenising (not timed) …"):
            facts = make_ready(folder, chosen)
        console.print(f"{chosen.data.name}: {facts['tokens']:,} tokens of {facts['vocab']:,}, {SIZE}")
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} turns"))
        with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
            turns = len(chosen.lengths) * chosen.rounds * (1 + len(chosen.rivals))
            task = progress.add_task("starting", total=turns)
            for length in chosen.lengths:
                results += compare(
                    folder, length, chosen, lambda what, done: progress.update(task, description=what, advance=done)
                )
                if chosen.json:
                    chosen.json.write_text(json.dumps(results, indent=1))
    console.print(machine(), highlight=False, markup=False)
    console.print(table(results))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(*sys.argv[2:])
    elif sys.argv[1:2] == ["--prepare"]:
        prepare(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
