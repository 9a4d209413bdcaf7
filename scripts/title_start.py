"""The start and the pairs of the shipped title writer (recipes/writer-title-t5.toml).

    python scripts/checkpoints.py flan-t5-small-en
    python scripts/title_start.py TITLES OUT

TITLES is a folder with en/acl-train.jsonl, en/acl-dev.jsonl, more/papers-title-abstract.jsonl.gz and
more/bbc-news.jsonl.gz. Writes OUT/start, flan-t5-small with four of its eight decoder layers, which is smaller and
writes faster; OUT/train.jsonl, the pairs to train on, none of which has the title of a test part; OUT/tune.jsonl, to
choose settings on; and OUT/test-acl.jsonl and OUT/test-news.jsonl, which nothing is chosen on.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from masquerade import load, save
from masquerade.data.records import read_records
from masquerade.files import write_text
from masquerade.nn.model import Model

START = Path(__file__).parents[1] / ".cache" / "checkpoints" / "flan-t5-small-en"
LAYERS = (0, 2, 5, 7)  # of the decoder
VENUES = ("nips", "icml", "cvpr", "ijcai", "aistats", "icra", "www", "uai")  # no conference of the ACL, which tests
VENUE, PAPERS, NEWS, TUNED, TESTED = 1_300, 24_000, 1_700, 200, 300

Pair = dict[str, str]


def fewer_layers(model: Model, kept: tuple[int, ...]) -> Model:
    """The model with some of its decoder's layers."""
    assert model.spec.decoder is not None
    spec = replace(model.spec, decoder=replace(model.spec.decoder, layers=len(kept)))
    smaller = Model(spec, model.tokenizer, {**model.config, "num_decoder_layers": len(kept)})
    pattern, weights = re.compile(r"^(decoder\.stack\.layers\.)(\d+)(\..*)$"), {}
    for name, tensor in model.state_dict().items():
        found = pattern.match(name)
        if found is None:
            weights[name] = tensor
        elif int(found[2]) in kept:
            weights[f"{found[1]}{kept.index(int(found[2]))}{found[3]}"] = tensor
    smaller.load_state_dict(weights)
    return smaller


def plain(title: str) -> str:
    """Letters and digits alone."""
    return re.sub(r"\W+", "", title.lower())


def pairs(path: Path, text: str, rng: random.Random, venue: str = "") -> list[Pair]:
    """The titles and texts of a file, or of one venue in it, that are not very short; in random order."""
    records = [each for each in read_records(str(path)) if not venue or each["venue"].startswith(venue)]
    found = [{"text": each[text].strip(), "title": each["title"].strip()} for each in records]
    rng.shuffle(found)
    return [each for each in found if len(each["text"]) > 200 and 10 < len(each["title"]) < 200]


def write(path: Path, found: Iterable[Pair]) -> None:
    """Pairs as JSON lines."""
    lines = [json.dumps(each, ensure_ascii=False) + "\n" for each in found]
    write_text(path, "".join(lines))
    print(f"{path}: {len(lines):,} pairs")


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, out, rng = Path(sys.argv[1]), Path(sys.argv[2]), random.Random(3)
    out.mkdir(parents=True, exist_ok=True)
    save(fewer_layers(load(START), LAYERS), out / "start")
    test = pairs(source / "en" / "acl-dev.jsonl", "text", rng)
    acl, news = (pairs(source / part, "text", rng) for part in ("en/acl-train.jsonl", "more/bbc-news.jsonl.gz"))
    held = {plain(each["title"]) for each in (*test, *news[:TESTED])}
    acl = [each for each in acl if plain(each["title"]) not in held]
    train = acl[TUNED : TUNED + PAPERS] + news[TESTED : TESTED + NEWS]
    for venue in VENUES:
        train += pairs(source / "more" / "papers-title-abstract.jsonl.gz", "abstract", rng, venue)[:VENUE]
    train = [each for each in train if plain(each["title"]) not in held]
    rng.shuffle(train)
    write(out / "train.jsonl", train)
    write(out / "tune.jsonl", acl[:TUNED])
    write(out / "test-acl.jsonl", test)
    write(out / "test-news.jsonl", news[:TESTED])


if __name__ == "__main__":
    main()
