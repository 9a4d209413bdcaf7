"""Make a trained reader ready to ship, and write it as int8 with its recipe and a hash.

    python scripts/ship_reader.py RUN TUNE models/reader-en --recipe recipes/reader-en.toml [--questions 300]

TUNE is the tuning part of scripts/reading_data.py: no figure of the reader's card comes from it. The weights of the
heads are chosen from a small grid, unless --parts gives them, and so is the rule of no answer, by the probability of
the best answer or by that of none (--rule names one): the choice with the best sum of F1 over the questions with an
answer and the share of the others that get none, where refusing costs at most --lose points of that F1. Scores are then
mapped so that they are the shares of right ones among the answers that are given, where a third of the questions have
no answer. Encoded passages are kept in half precision if that changes no answer. Tokens that no text can have are left
out.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from masquerade.checkpoints.folders import load, save
from masquerade.checkpoints.vocabulary import keep_tokens
from masquerade.files import write_text
from masquerade.nn.model import Model
from masquerade.reading.answers import Answer
from masquerade.reading.calibration import calibrated, fit_map
from masquerade.reading.reader import STORED, Reader
from masquerade.reading.records import QuestionRecord, read_questions
from masquerade.reading.scores import METRICS
from masquerade.text.tokenizer import Tokenizer

RULES = ("best", "answer", "none")
LACKING = 1 / 3  # the share of questions without an answer that scores are calibrated for
GRID = [(0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (0.0, 1.0, 1.0), (0.0, 0.5, 1.0)]


def usable(tokenizer: Tokenizer) -> list[int]:
    """The tokens that a text can have. A Chinese character is a word of its own, so it never continues one."""
    tokens = enumerate(tokenizer.tokens(range(len(tokenizer))))
    return [number for number, token in tokens if not re.fullmatch(r"\[unused\d+\]|##[\u4e00-\u9fff]", token)]


@dataclass(frozen=True)
class Tuned:
    """Tuning questions as a reader answers them: scores of the best answers and of none, and the answers' F1."""

    scores: list[float]
    none: list[float]
    exact: list[bool]
    f1: list[float]
    answerable: list[bool]

    def at(self, cut: float, by_none: bool = False) -> tuple[float, float]:
        """F1 over the questions that have an answer, and the share of the others that get none, in percent."""
        kept = self.answered(cut, by_none)
        having = sum(self.answerable)
        f1 = sum(value for value, answered in zip(self.f1, kept, strict=True) if answered) / having
        refused = sum(not answered and not real for answered, real in zip(kept, self.answerable, strict=True))
        return f1, 100 * refused / max(len(self.scores) - having, 1)

    def rule(self, lose: float, rules: str = "best") -> tuple[bool, float]:
        """The rule, by the score of no answer or by that of the answer, and its cut, under which most questions without
        an answer get none, while F1 over the others falls by at most ``lose`` points. ``rules``: one of RULES."""
        least = self.at(0.0)[0] - lose
        cuts = [(False, cut) for cut in [0.0, *self.scores]] if rules != "none" else []
        cuts += [(True, cut) for cut in [1.0, *self.none]] if rules != "answer" else []
        return max(
            (each for each in cuts if self.at(each[1], each[0])[0] >= least),
            key=lambda each: self.at(each[1], each[0])[1],
        )

    def answered(self, cut: float, by_none: bool = False) -> list[bool]:
        """Which questions get an answer, if answers need a score of ``cut``, or with ``by_none`` a score of no answer
        that is no higher."""
        return [none <= cut for none in self.none] if by_none else [score >= cut for score in self.scores]

    def maps(self, cut: float, by_none: bool) -> dict[str, tuple[float, float]]:
        """Maps of scores to the shares of right ones among the answers that are given, and of no answer to the share of
        questions without one, if LACKING of all questions are such."""
        lacking = len(self.answerable) - sum(self.answerable)
        weight = LACKING / (1 - LACKING) * sum(self.answerable) / max(lacking, 1)
        weights = [1.0 if each else weight for each in self.answerable]
        rows = zip(self.answered(cut, by_none), self.scores, self.exact, weights, strict=True)
        given = [row[1:] for row in rows if row[0]]
        scores, exact, counts = zip(*given, strict=True) if given else ((), (), ())
        none = fit_map(self.none, [not each for each in self.answerable], weights)
        return {"answer": fit_map(scores, exact, counts), "none": none}


def tuned(reader: Reader, records: list[QuestionRecord], metric: str) -> Tuned:
    """Answer tuning questions. A threshold of 1 gives the score of none, and the best answer as an alternative."""
    answers = reader.ask_many([(record.question, record.passages) for record in records], threshold=1.0)
    best = [answer.alternatives[0] if answer.alternatives else Answer("", 0.0) for answer in answers]
    scored = [METRICS[metric]({each.id: one.text}, [each]).total for one, each in zip(best, records, strict=True)]
    answerable = [any(record.spans) for record in records]
    exact = [each["exact"] > 0 and real for each, real in zip(scored, answerable, strict=True)]
    f1 = [each["f1"] if real else 0.0 for each, real in zip(scored, answerable, strict=True)]
    return Tuned([each.score for each in best], [each.score for each in answers], exact, f1, answerable)


def shorter(model: Model, positions: int) -> Model:
    """The model with its first positions only, so that windows are no longer than those it was trained on."""
    weights = dict(model.state_dict())
    names = [name for name, each in weights.items() if "position" in name and len(each) == model.spec.longest]
    fresh = Model(replace(model.spec, longest=positions), model.tokenizer)
    fresh.load_state_dict(weights | {name: weights[name][:positions] for name in names})
    fresh.config.update(model.config)
    return fresh


def forgetful(reader: Reader, records: list[QuestionRecord]) -> int:
    """How many answers are others once the passages are remembered."""
    pairs = [(record.question, record.passages) for record in records]
    cold, warm = reader.ask_many(pairs), Reader(reader.model, memory=2**36)
    warm.remember([passage for _, passages in pairs for passage in passages])
    return sum(one.text != other.text for one, other in zip(cold, warm.ask_many(pairs), strict=True))


def main() -> None:
    """Choose, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("tune", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--recipe", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=300, help="of each kind")
    parser.add_argument("--metric", default="squad", choices=list(METRICS))
    parser.add_argument("--parts", type=float, nargs=3, metavar="W", help="of words, copies, pointers")
    parser.add_argument("--lose", type=float, default=3.0, help="points of F1 that refusing may cost")
    parser.add_argument("--positions", type=int, default=0, help="keep this many positions; 0: all")
    parser.add_argument(
        "--rule", default="best", choices=RULES, help="no answer by this score; by default the better one"
    )
    asked = parser.parse_args()
    records = read_questions(str(asked.tune))
    having, lacking = ([each for each in records if any(each.spans) is side] for side in (True, False))
    having, lacking = (part[:: max(1, len(part) // asked.questions)][: asked.questions] for part in (having, lacking))
    model = load(asked.run)
    model, _ = keep_tokens(model, usable(model.tokenizer))
    if asked.positions:
        model = shorter(model, asked.positions)
    save(model, asked.out, torch.int8)
    reader = Reader(load(asked.out))  # what is shipped is what is measured
    best, chosen = -1.0, reader.settings
    for words, copies, pointers in [asked.parts] if asked.parts else GRID:
        parts = {"words": words, "copies": copies, "pointers": pointers}
        reader.settings = replace(reader.settings, parts=parts, threshold=0.0, refuse=1.0, calibration={})
        found = tuned(reader, having + lacking, asked.metric)
        by_none, cut = found.rule(asked.lose, asked.rule)
        f1, right = found.at(cut, by_none)
        for lose in (0, 0.5, 1, 2, 3, 5, 8):
            each = found.rule(lose, asked.rule)
            print("losing {}: F1 {:.1f}, refused {:.1f} %".format(lose, *found.at(each[1], each[0])), each)
        rule = f"if that has more than {cut:.3f}" if by_none else f"below {cut:.3f}"
        print(f"{parts}: no answer {rule}, then F1 {f1:.1f} of {len(having)} with an answer,", end=" ")
        print(f"and none for {right:.1f} % of {len(lacking)} without", flush=True)
        if f1 + right > best:
            maps = found.maps(cut, by_none)
            least = round(calibrated(cut, maps["none" if by_none else "answer"]), 4)
            limits = {"threshold": 0.0, "refuse": least} if by_none else {"threshold": least, "refuse": 1.0}
            best, chosen = f1 + right, replace(reader.settings, calibration=maps, **limits)
    print(f"calibrated by {dict(chosen.calibration)}")
    print(f"there is no answer below {chosen.threshold}, or if that has more than {chosen.refuse}")
    for stored in STORED:
        replace(chosen, stored=stored).put(model)
        save(model, asked.out, torch.int8)
        changed = forgetful(Reader(load(asked.out)), having[:100])
        print(f"passages kept as {stored} change {changed} of {len(having[:100])} answers")
        if not changed:
            break
    shutil.copy(asked.recipe, asked.out / "recipe.toml")
    digest = hashlib.sha256((asked.out / "model.safetensors").read_bytes()).hexdigest()
    write_text(asked.out / "SHA256SUMS", f"{digest}  model.safetensors\n")
    print(f"{asked.out}: {(asked.out / 'model.safetensors').stat().st_size / 1e6:.1f} MB, sha256 {digest}")


if __name__ == "__main__":
    main()
