"""CogQA: titles, sources of paragraphs, the graph of a question, and ``ask --hops``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner
from working_cases import encoder

from masquerade import save
from masquerade.cli.main import app
from masquerade.cli.show.hops import graph_drawing
from masquerade.drawing.pictures import svg
from masquerade.errors import MasqueradeError
from masquerade.memory.working.cogqa import CogQA
from masquerade.memory.working.graph_text import graph_lines
from masquerade.memory.working.paragraphs import DictParagraphs
from masquerade.memory.working.questions import SPAN, WHICH, YES_NO, kind_of
from masquerade.memory.working.system1 import (
    HopSettings,
    NamedSpan,
    NodeReading,
    NodeText,
    System1,
    new_system1,
    whole_words,
)
from masquerade.memory.working.titles import TitleIndex, find_name, plain_name, similarity

PAGES = {
    "Ed Wood (film)": "Ed Wood is an old film. Its director was Tim Burton, born in Burbank.",
    "Tim Burton": "Tim Burton was born in Burbank. He made Ed Wood.",
    "Burbank, California": "Burbank is a city near the river.",
    "大城市": "大城市是电影。导演是京海。",
    "京海": "京海是上海人。",
}


# titles


def test_names_are_compared_without_case_accents_and_brackets() -> None:
    assert plain_name("Pál  Gábor") == plain_name("pal gabor")
    assert plain_name("Ed Wood (film)") == "ed wood"
    assert plain_name("大城市（电影）") == "大 城 市"
    assert similarity("tim burton", "tim burton") == 1.0
    assert similarity("tim burton", "tim burten") > 0.75 > similarity("tim burton", "rome")


def test_a_span_leads_to_the_title_that_is_spelled_almost_so() -> None:
    titles = TitleIndex(PAGES)
    assert titles.link("tim Burton") == "Tim Burton"
    assert titles.link("Tim Burtons") == "Tim Burton"
    assert titles.link("Ed Wood") == "Ed Wood (film)" and titles.link("Burbank") == "Burbank, California"
    assert titles.link("京海") == "京海"
    assert titles.link("Johnny Depp") is None and titles.link("") is None and titles.link("?!") is None


def test_the_titles_of_a_question_are_found_in_their_order() -> None:
    titles = TitleIndex([*PAGES, "Wood", "Who"])
    assert titles.named("Did Tim Burton make Ed Wood, and who?") == ["Tim Burton", "Ed Wood (film)"]
    assert titles.named("大城市的导演京海是谁？") == ["大城市", "京海"]
    assert titles.named("") == []


def test_names_in_sentences_are_found_with_their_characters() -> None:
    text = "It was made by Tim Burtón in 1994."
    assert text[slice(*(find_name("Tim Burton", text) or ()))] == "Tim Burtón"
    assert text[slice(*(find_name("Tim Burten", text) or ()))] == "Tim Burtón"
    assert find_name("Rome", text) is None and find_name("", text) is None
    assert find_name("京海", "导演是京海。") == (3, 5)


@pytest.mark.parametrize(
    ("question", "named", "kind"),
    [
        ("Who made Ed Wood?", 1, SPAN),
        ("Are Anna and Bo both old?", 2, YES_NO),
        ("Is Anna or Bo older?", 2, WHICH),
        ("Which film came out first, A or B?", 2, WHICH),
        ("Were A and B of the same country?", 2, YES_NO),
        ("Are they old?", 0, SPAN),
        ("北京和上海都是首都吗？", 2, YES_NO),
        ("北京和上海哪个更大？", 2, WHICH),
        ("Where was the director of A, which is near B, born?", 2, SPAN),
        ("Which of the films A and B is longer?", 2, WHICH),
        ("Which composer of A is the father of the singer of B?", 2, SPAN),
        ("What occupation did both A and B have?", 2, SPAN),
    ],
)
def test_the_kind_of_answer_is_told_by_the_words_of_a_question(question: str, named: int, kind: str) -> None:
    assert kind_of(question, named) == kind


# the graph of a question


Spans = Mapping[str, tuple[Sequence[str], str]]  # title → hops and an answer


class Script(System1):
    """A system 1 that points at what a test says, in the paragraph whose first sentence begins with that name."""

    def __init__(self, spans: Spans, score: float = 1.0) -> None:
        super().__init__(new_system1(encoder(longest=128), HopSettings(96, 20, 24)))
        self.spans, self.score, self.asked = spans, score, list[NodeText]()

    def read(self, nodes: Sequence[NodeText]) -> list[NodeReading]:
        self.asked += nodes
        real, found = super().read(nodes), []
        for node, reading in zip(nodes, real, strict=True):
            said = next(
                (
                    each
                    for name, each in self.spans.items()
                    if node.sentences[:1] and node.sentences[0].startswith(name)
                ),
                ((), ""),
            )
            hops, answer = said
            made = [NamedSpan(text, self._sentence(node, text), self.score) for text in hops]
            answers = (NamedSpan(answer, self._sentence(node, answer), 1.0),) if answer else ()
            found.append(
                NodeReading(tuple(made), answers, 0.5 * (not answers), 1.0, reading.semantics, lambda allow: ())
            )
        return found

    def _sentence(self, node: NodeText, text: str) -> int:
        return next((number for number, each in enumerate(node.sentences) if text in each), 0)


def scripted(spans: Spans, **options: int) -> CogQA:
    script = Script(spans)
    asked = CogQA(script.model, **options)
    asked.system1 = script
    return asked


STORY: Spans = {"Ed Wood": (["Tim Burton"], ""), "Tim Burton": (["Ed Wood"], "Burbank")}


def test_hops_lead_from_title_to_title_and_clues_go_along() -> None:
    asked = scripted(STORY)
    graph = asked.ask("Where was the director of Ed Wood born?", DictParagraphs(PAGES))
    names = [node.name for node in graph.nodes]
    assert names[0] == "Ed Wood (film)" and "Tim Burton" in names
    film, maker = names.index("Ed Wood (film)"), names.index("Tim Burton")
    assert (film, maker) in graph.edges and (maker, film) in graph.edges  # a cycle
    assert [clue.sentence for clue in graph.nodes[maker].clues] == ["Its director was Tim Burton, born in Burbank."]
    place = next(number for number, node in enumerate(graph.nodes) if node.answer)
    assert graph.nodes[place].title == "Burbank, California" and (maker, place) in graph.edges
    assert graph.best == place and graph.answer == graph.nodes[place].name and graph.score == pytest.approx(1.0)
    assert set(graph.supporting(2)) == {"Ed Wood (film)", "Tim Burton"}
    assert isinstance(asked.system1, Script)
    assert any(text.clues for text in asked.system1.asked)
    assert len(asked.system1.asked) < 12  # a cycle ends


def test_a_hop_below_the_threshold_counts_if_its_words_are_a_title() -> None:
    asked = scripted({"Ed Wood": (["Tim Burton", "Johnny Depp", "Tim Burtan"], "")})
    assert isinstance(asked.system1, Script)
    asked.system1.score = -0.5
    graph = asked.ask("Where was the director of Ed Wood born?", DictParagraphs(PAGES))
    assert "Tim Burton" in [node.name for node in graph.nodes if node.clues]
    assert not {"Johnny Depp", "Tim Burtan"} & {node.name for node in graph.nodes}


def test_a_title_that_leads_nowhere_is_a_node_without_a_paragraph() -> None:
    graph = scripted({"Ed Wood": (["Johnny Depp"], "")}).ask("Who was in Ed Wood?", DictParagraphs(PAGES))
    node = next(node for node in graph.nodes if node.name == "Johnny Depp")
    assert not node.title and not node.sentences and node.reading is not None and node.clues
    assert "no paragraph" in "\n".join(graph_lines(graph))


def test_the_size_and_depth_of_a_graph_are_bounded() -> None:
    pages = {f"Page {n} A": f"Page {n} A is near Page {n + 1} A." for n in range(30)}
    spans = {f"Page {n} A": ([f"Page {n + 1} A"], "") for n in range(30)}
    asked = scripted(spans, nodes=8, depth=3, found=1)
    graph = asked.ask("What is near Page 3 A?", DictParagraphs(pages))
    assert max(node.depth for node in graph.nodes) <= 3 and len(graph.nodes) <= 8


def test_comparisons_are_decided_by_the_difference_of_two_nodes() -> None:
    asked, pages = scripted({}), DictParagraphs(PAGES)
    graph = asked.ask("Are Tim Burton and Ed Wood both old?", pages)
    assert (graph.kind, graph.answer in ("yes", "no"), graph.pair) == (YES_NO, True, (0, 1))
    semantics = graph.semantics()
    network = asked.system1.graph
    with torch.inference_mode():
        yes = float(network.yesno(semantics[0] - semantics[1]))
    assert (graph.answer == "yes") == (yes >= 0)
    which = asked.ask("Which is older, Tim Burton or Ed Wood?", pages)
    assert which.kind == WHICH and which.answer in ("Tim Burton", "Ed Wood") and which.best in (0, 1)
    chinese = asked.ask("大城市和京海都是人吗？", pages)
    assert chinese.answer in ("是", "否")


def test_nothing_to_read_and_nothing_to_ask() -> None:
    asked = scripted({})
    graph = asked.ask("Who?", DictParagraphs({}))
    assert not graph.answer and not graph.nodes and graph_lines(graph) == []
    blank = asked.ask("What is Blank Page?", DictParagraphs({"Blank Page": ""}))
    assert not blank.answer
    with pytest.raises(MasqueradeError, match="question is empty"):
        asked.ask(" ", DictParagraphs(PAGES))


def test_without_an_answer_the_threshold_is_lowered_once() -> None:
    asked = CogQA(new_system1(encoder(longest=128), HopSettings(96, 20, 24)))
    with torch.no_grad():
        head = asked.system1.model.heads["tag"]
        head.weight.zero_()
        head.bias.zero_()  # every start equals [CLS], so none is above it
    graph = asked.ask("Who made Ed Wood?", DictParagraphs(PAGES))
    assert len(graph.answers()) == 1 and graph.answer


def test_what_does_not_fit_into_the_window_is_left_out() -> None:
    system = System1(new_system1(encoder(longest=128), HopSettings(60, 20, 16), numbers=True))
    long = ("the old ship is near . " * 30, "a river .")
    laid = system.lay(NodeText("who " * 500, "it is long . " * 90, long))
    assert len(laid.example.layout) <= 60 and laid.ends == (len(laid.example.layout) - 1,)
    assert laid.tokens(1, 0, 3) is None
    one = system.read([NodeText("who ?", "", ("x" * 5000,)), NodeText("who ?")])
    assert one[1].hops == one[1].answers == () and one[0].semantics.shape == one[1].semantics.shape
    assert whole_words("the directors of it", 4, 8) == "directors" and whole_words("导演是京海。", 3, 5) == "京海"


def test_nodes_read_together_are_read_as_alone() -> None:
    system = System1(new_system1(encoder(longest=128), HopSettings(96, 20, 24), numbers=True))
    nodes = [NodeText("who made it ?", "", tuple(text.split(". "))) for text in PAGES.values()]
    together, alone = system.read(nodes), [system.read([node])[0] for node in nodes]
    for one, other in zip(together, alone, strict=True):
        assert torch.allclose(one.semantics, other.semantics, atol=1e-5)
        assert [span.text for span in one.hops] == [span.text for span in other.hops]
        assert one.gap == pytest.approx(other.gap, abs=1e-4)


def test_a_model_without_pointers_is_refused() -> None:
    with pytest.raises(MasqueradeError, match="train cogqa"):
        System1(encoder(outputs=("tag",)))


# the command


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and a collection of pages."""
    folder = tmp_path_factory.mktemp("hops")
    save(new_system1(encoder(longest=128), HopSettings(96, 20, 24), numbers=True), folder / "model")
    lines = [json.dumps({"title": title, "text": text}, ensure_ascii=False) for title, text in PAGES.items()]
    (folder / "pages.jsonl").write_text("\n".join(lines), encoding="utf-8")
    done = CliRunner().invoke(app, ["index", str(folder / "pages.jsonl"), "--out", str(folder / "kb")])
    assert done.exit_code == 0, done.output
    return folder


def test_ask_hops_prints_and_draws_the_graph(home: Path) -> None:
    picture = home / "graph.svg"
    common = [
        "ask",
        "Where was the director of Ed Wood born?",
        "--hops",
        "--kb",
        str(home / "kb"),
        "--model",
        str(home / "model"),
    ]
    done = CliRunner().invoke(app, [*common, "--graph", str(picture)])
    assert done.exit_code == 0, (done.output, done.exception)
    assert "Ed Wood (film)  (in the question" in done.output
    drawn = picture.read_text(encoding="utf-8")
    assert drawn.startswith("<svg") and "Ed Wood (film)" in drawn and 'class="way"' in drawn
    found = json.loads(CliRunner().invoke(app, [*common, "--json"]).stdout)
    assert found["nodes"][0]["title"] == "Ed Wood (film)"
    assert all(len(edge) == 2 for edge in found["edges"])


def test_a_graph_without_edges_and_one_with_a_cycle_can_be_drawn() -> None:
    for spans in ({}, STORY):
        graph = scripted(spans).ask("Where was the director of Ed Wood born?", DictParagraphs(PAGES))
        assert svg(graph_drawing(graph)).count("<rect") > len(graph.nodes)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--hops"], "give one by --kb"),
        (["--graph", "x.svg", "--in", "x"], "add --hops"),
        (["--hops", "--kb", "kb"], "give it by --model"),
        (["--hops", "--kb", "kb", "--model", "model", "--graph", "x.txt"], "ends in neither"),
        (["--hops", "--kb", "kb", "--rag", "x"], "give one of them"),
        (["--hops", "--kb", "kb", "--trace"], "finds and reads its paragraphs itself"),
        (["--hops", "--kb", "kb", "--n-best", "3"], "finds and reads its paragraphs itself"),
    ],
)
def test_bad_calls_are_one_sentence(home: Path, words: list[str], sentence: str) -> None:
    done = CliRunner().invoke(
        app, ["ask", "who?", *(str(home / word) if word in ("kb", "model") else word for word in words)]
    )
    assert isinstance(done.exception, MasqueradeError) and sentence in str(done.exception), (
        done.output,
        done.exception,
    )
