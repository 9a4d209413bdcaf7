"""What ``ask --kb --rag`` prints: the answers of RAG and of REALM."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from masquerade.checkpoints.folders import locate
from masquerade.cli.show.collections import asked_or_typed
from masquerade.cli.show.output import print_json
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.rag import Rag
from masquerade.memory.retrieval.realm import Realm
from masquerade.memory.retrieval.realm_loss import RETRIEVER


def write_from(question: str | None, folder: Path, run: str, copies: int, trace: bool, as_json: bool) -> None:
    """Print what RAG or REALM answers to a question; without a question, to those that are typed."""
    with KnowledgeBase.open(folder) as kb:
        trained = _loaded(run, kb)
        for each in asked_or_typed(question):
            answers = trained.answer(each, copies=copies)
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


def _loaded(run: str, kb: KnowledgeBase) -> Rag | Realm:
    """A run of RAG, or of REALM."""
    return Realm.load(run, kb) if (locate(run) / RETRIEVER).is_dir() else Rag.load(run, kb)
