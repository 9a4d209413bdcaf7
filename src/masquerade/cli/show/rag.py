"""What ``ask --kb --rag`` prints."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from masquerade.cli.show.collections import asked_or_typed
from masquerade.cli.show.output import print_json
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.rag import Rag


def write_from(question: str | None, folder: Path, run: str, copies: int, trace: bool, as_json: bool) -> None:
    """Print the texts that RAG writes for a question; without a question, for those that are typed."""
    with KnowledgeBase.open(folder) as kb:
        rag = Rag.load(run, kb)
        for each in asked_or_typed(question):
            answers = rag.answer(each, copies=copies)
            passages = answers[0].passages
            if as_json:
                places = [{**found.plain(), "probability": share} for found, share in passages]
                texts = [{"text": answer.text, "log_probability": answer.score} for answer in answers]
                print_json({"question": each, "answers": texts, "passages": places})
                continue
            console = Console(highlight=False)
            for answer in answers:
                console.print(Text.assemble((answer.text, "bold"), (f"  {answer.score:.2f}", "dim")), soft_wrap=True)
            best, share = max(passages, key=lambda pair: pair[1])
            console.print(
                Text(f"  most probable passage ({share:.1%}): {best.document.cite(0)}", "dim"), soft_wrap=True
            )
            if trace:
                table = Table("passage", "probability")
                for found, share in passages:
                    table.add_row(Text(found.document.cite(0)), f"{share:.3f}")
                Console(stderr=True, highlight=False).print(table)
