"""What the commands ``index``, ``search``, ``embed``, ``kb`` and ``ask --kb`` read and print."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from masquerade.cli.show.ask import HIGHLIGHT, AskOptions, questions_typed, show_skipped
from masquerade.cli.show.output import print_json
from masquerade.documents.document import Document
from masquerade.errors import MasqueradeError
from masquerade.files import read_texts, write_whole
from masquerade.memory.retrieval.knowledge import KnowledgeBase, Trace
from masquerade.memory.retrieval.search import CitedAnswer, Filters, Found
from masquerade.memory.retrieval.sources import find_files
from masquerade.progress import progress_bar
from masquerade.reading.records import read_questions

SHOWN = 320  # characters of a passage
FIELDS = ("path", "title", "language", "after", "before")


def index_files(
    sources: Sequence[str],
    out: Path,
    encoder: str | None,
    query: str | None,
    passage: str | None,
    part: int | None,
    uri: str | None,
    rebuild: bool,
    as_json: bool,
) -> None:
    """Make a collection or bring it up to date, and print what was done."""
    from masquerade.memory.retrieval.encoder import Encoder
    from masquerade.memory.retrieval.several import several_processes, shared_encoder

    given = (("query", query), ("passage", passage), ("part", part))
    settings: dict[str, Any] = {name: value for name, value in given if value is not None}
    if settings and encoder is None:
        raise MasqueradeError("The prefixes and the parts of passages belong to an encoder; give one by --encoder.")
    loaded = Encoder.load(encoder, **settings) if encoder is not None else None
    shared = shared_encoder(loaded) if several_processes() else None
    if shared is not None and not shared.main:
        shared.work()
        return
    try:
        if sources and rebuild and not find_files(sources, out):  # before anything is removed
            raise MasqueradeError(f"There is no file to index in {', '.join(sources)}.")
        with KnowledgeBase.open(out, shared or loaded, create=True, rebuild=rebuild, uri=uri) as kb:
            report = kb.update(sources, _kilobytes)
            held = kb.info()
    finally:
        if shared is not None:
            shared.finish()
    if as_json:
        print_json({**asdict(report), "collection": held})
        return
    found = f"by words and vectors ({held['vectors']}, {held['encoder']})" if held["encoder"] else "by words alone"
    print(
        f"{out}: {report.added:,} files added, {report.changed:,} changed, {report.removed:,} removed, "
        f"{report.unchanged:,} as before; {held['passages']:,} passages, found {found}"
    )
    show_skipped(report.skipped)


def show_found(
    query: str,
    folder: Path,
    k: int,
    where: Sequence[str],
    dense: float | None,
    encoder: str | None,
    trace: bool,
    as_json: bool,
) -> None:
    """Print the passages that a query finds."""
    with KnowledgeBase.open(folder, encoder) as kb:
        stages = Trace()
        found = kb.search(query, k, filters_of(where), dense, stages)
        if as_json:
            for each in found:
                print_json(each.plain())
            return
        console = Console(highlight=False)
        if not found:
            console.print(_nothing(kb))
        for number, each in enumerate(found, 1):
            _print_found(console, number, each)
        if trace:
            print_trace(stages)


def answer_from(
    question: str | None,
    folder: Path,
    model: str | None,
    options: AskOptions,
    k: int,
    where: Sequence[str],
    dense: float | None,
    trace: bool,
    as_json: bool,
) -> None:
    """Print the answer to a question from a collection; without a question, answer those that are typed."""
    if options.decoder != "parallel" or options.free:
        raise MasqueradeError("A collection is read by the parallel decoder; leave --decoder and --free out with --kb.")
    with KnowledgeBase.open(folder, reader=model) as kb:
        for each in asked_or_typed(question):
            stages = Trace()
            answer = kb.ask(
                each,
                k=k,
                n_best=options.n_best,
                vote=options.vote,
                filters=filters_of(where),
                dense=dense,
                trace=stages,
            )
            if as_json:
                others = [other.plain() for other in answer.alternatives]
                print_json({"question": each, **answer.plain(), "alternatives": others})
                continue
            console = Console(highlight=False)
            if not answer:
                console.print("No answer in the passages that were found." if stages.found else _nothing(kb))
            for one in ([answer] if answer else []) + (list(answer.alternatives) if options.n_best > 1 else []):
                _print_answer(console, one)
            if trace:
                print_trace(stages)


def asked_or_typed(question: str | None) -> Iterator[str]:
    """The question, or those that are typed until an empty line or Ctrl-C."""
    if question is not None:
        yield question
        return
    with suppress(KeyboardInterrupt, EOFError):
        yield from questions_typed()


def show_info(folder: Path, files: bool, as_json: bool) -> None:
    """Print what a collection holds."""
    with KnowledgeBase.open(folder) as kb:
        held: dict[str, Any] = kb.info()
        if files:
            held["files listed"] = [file.name for file in kb.store.files().values()]
    if as_json:
        print_json(held)
        return
    for name, value in held.items():
        lines = value if isinstance(value, list) else [value]
        shown = ", ".join(f"{key} {count:,}" for key, count in value.items()) if isinstance(value, dict) else None
        for number, line in enumerate([shown] if shown is not None else lines):
            text = "none" if line is None else f"{line:,}" if isinstance(line, int) else str(line)
            print(f"{name if number == 0 else '':<14}{text}")


def remove_files(folder: Path, names: Sequence[str]) -> None:
    """Remove files from a collection, and print which."""
    with KnowledgeBase.open(folder) as kb:
        for name in kb.remove(*names):
            print(f"removed {name}")


def evaluate_collection(
    questions: Sequence[str],
    folder: Path,
    k: int,
    limit: int | None,
    dense: float | None,
    read: bool,
    encoder: str | None,
    as_json: bool,
) -> None:
    """Print the recall of a collection, and the scores of its answers."""
    from masquerade.memory.retrieval.evaluation import evaluate

    records = [record for source in questions for record in read_questions(source)][:limit]
    with KnowledgeBase.open(folder, encoder) as kb, progress_bar("questions", len(records)) as done:
        scores = evaluate(kb, records, k, dense, read, done)
    if as_json:
        print_json(scores)
        return
    table = Table("score", "percent")
    for name, value in scores.items():
        table.add_row(name, f"{value:,}" if name == "questions" else f"{value:.2f}")
    Console(highlight=False).print(table)


def embed_texts(texts: Sequence[str], source: str | None, name: str, prefix: str, out: Path | None) -> None:
    """Print the vectors of texts as JSON lines, or save them as a NumPy file."""
    import numpy as np

    from masquerade.memory.retrieval.encoder import Encoder

    given = read_texts(texts, source, "encode")
    encoder = Encoder.load(name)
    with progress_bar("texts", len(given)) as done:
        vectors = encoder.encode([prefix + text for text in given], done).numpy()
    if out is None:
        for text, vector in zip(given, vectors.tolist(), strict=True):
            print_json({"text": text, "vector": vector})
        return

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.save(file, vectors)

    write_whole(out, write)
    print(f"{out}: {len(vectors):,} vectors of {encoder.width}")


def filters_of(where: Sequence[str]) -> Filters | None:
    """Filters as they are typed, key=value each."""
    known, metadata = dict[str, str](), dict[str, str]()
    for each in where:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise MasqueradeError(f"The filter '{each}' is not of the form key=value, such as language=en.")
        (known if key in FIELDS else metadata)[key] = value
    return Filters(**known, metadata=metadata) if where else None


def print_trace(trace: Trace) -> None:
    """Print every stage with its time, and the passages with their scores."""
    console = Console(stderr=True, highlight=False)
    table = Table("stage", "ms", "result")
    for name, seconds, result in trace.stages:
        table.add_row(name, f"{1000 * seconds:,.1f}", result)
    console.print(table)
    table = Table("passage", "score", "words", "vectors")
    for each in trace.found:
        scores = (each.score.total, each.score.words, each.score.dense)
        table.add_row(Text(each.document.cite(0)), *("–" if score is None else f"{score:.3f}" for score in scores))
    console.print(table)


def _print_found(console: Console, number: int, found: Found) -> None:
    stored, document = found.stored, found.document
    title = " › ".join(dict.fromkeys(line for line in (stored.title, stored.passage.heading) if line))
    console.print(
        Text.assemble(f"{number}. ", (title or document.cite(0), "bold"), (f"  {found.score.total:.3f}", "dim")),
        soft_wrap=True,
    )
    words = document.piece(0, len(document.text))
    console.print(
        Text("   " + (words if len(words) <= SHOWN else words[:SHOWN] + "…")), soft_wrap=not console.is_terminal
    )
    cited = f"{document.cite(0)} (characters {stored.passage.start}–{stored.passage.end})"
    console.print(Text(f"   {cited}", "dim"), soft_wrap=True)


def _print_answer(console: Console, answer: CitedAnswer) -> None:
    whole = not console.is_terminal  # lines are wrapped for people, not for programs
    console.print(Text.assemble((answer.text, "bold"), (f"  {answer.score:.1%}", "dim")), soft_wrap=whole)
    if answer.place is None:
        return
    console.print(Text.assemble("  ", answer.before, (answer.text, HIGHLIGHT), answer.after), soft_wrap=whole)
    cited = Document(answer.file, "", unit=answer.place.unit, numbers=(answer.place.number,)).cite(0)
    heading = " › ".join(dict.fromkeys(line for line in (answer.title, answer.heading) if line))
    where = f"{cited} (characters {answer.start}–{answer.end})" + (f", {heading}" if heading else "")
    console.print(Text(f"  {where}", "dim"), soft_wrap=True)


def _nothing(kb: KnowledgeBase) -> str:
    if not kb.store.count("passages"):
        return "The collection is empty; add files with 'masquerade index'."
    return "Nothing in the collection matches."


@contextmanager
def _kilobytes(total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar for bytes."""
    with progress_bar("indexing, KB", total // 1024) as advance:
        yield lambda count: advance(count / 1024)
