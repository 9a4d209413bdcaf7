"""Record what the shipped readers answer, or compare two recordings: behaviour that a refactoring must keep.

    python scripts/record_answers.py READING answers.json
    python scripts/record_answers.py --compare before.json after.json

READING is a folder with en/squadshifts-wiki.json and zh/cmrc2018-dev.json. For each language 200 questions are asked:
of one passage, of several, of a passage of another question, of a long text, with several answers, and by the other
decoders. A comparison fails unless all texts and places are equal, and all scores to 1e-4.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from masquerade import Reader
from masquerade.reading.answers import Answer
from masquerade.reading.records import read_questions

FILES = {"en": "en/squadshifts-wiki.json", "zh": "zh/cmrc2018-dev.json"}
DECODERS = ("autoregressive", "blocks", "rerank", "mixture")


def plain(answer: Answer) -> list[Any]:
    """An answer as JSON."""
    others = [plain(each) for each in answer.alternatives]
    return [answer.text, answer.score, answer.passage, answer.start, answer.end, others]


def record(language: str, source: Path) -> dict[str, list[Any]]:
    """All answers of one reader, by kind of question."""
    reader, records = Reader.load(language), read_questions(str(source))
    step = len(records) // 240
    chosen = records[::step][:240]
    pairs = [(each.question, each.passages[0]) for each in chosen]
    passages = [passage for _, passage in pairs]
    one, several, other = pairs[:80], pairs[80:120], pairs[120:160]
    found = {
        "one passage": reader.ask_many(one),
        "several passages": reader.ask_many([(q, [p, *passages[n : n + 4]]) for n, (q, p) in enumerate(several)]),
        "several passages, vote all": reader.ask_many(
            [(q, [p, *passages[n : n + 4]]) for n, (q, p) in enumerate(several[:10])], vote="all"
        ),
        "no answer": reader.ask_many([(q, passages[n]) for n, (q, _) in enumerate(other)]),
        "five best": reader.ask_many(pairs[160:190], n_best=5),
    }
    text = "\n\n".join(dict.fromkeys(passages[190:215]))
    reader.remember(text)
    found["long text"] = [reader.ask(question, text, n_best=3) for question, _ in pairs[190:202]]
    for decoder in DECODERS:
        found[decoder] = reader.ask_many(pairs[202:210], decoder=decoder, n_best=1 if decoder == "blocks" else 2)
    return {kind: [plain(answer) for answer in answers] for kind, answers in found.items()}


def differences(before: Any, after: Any, place: str) -> list[str]:
    """Where two recordings differ."""
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return [each for key in before for each in differences(before[key], after[key], f"{place}/{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            found
            for number, (one, other) in enumerate(zip(before, after, strict=True))
            for found in differences(one, other, f"{place}/{number}")
        ]
    if isinstance(before, float) and isinstance(after, float):
        return [] if abs(before - after) <= 1e-4 else [f"{place}: {before} → {after}"]
    return [] if before == after else [f"{place}: {before!r} → {after!r}"]


def main() -> None:
    """Record, or compare."""
    if len(sys.argv) == 4 and sys.argv[1] == "--compare":
        before, after = (json.loads(Path(name).read_text(encoding="utf-8")) for name in sys.argv[2:])
        found = differences(before, after, "")
        count = sum(len(answers) for kinds in before.values() for answers in kinds.values())
        print("\n".join(found) or f"{count} answers are the same")
        sys.exit(bool(found))
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    reading, out = Path(sys.argv[1]), Path(sys.argv[2])
    whole = {language: record(language, reading / name) for language, name in FILES.items()}
    out.write_text(json.dumps(whole, ensure_ascii=False, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
