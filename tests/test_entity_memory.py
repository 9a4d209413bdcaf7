"""Knowledge bases: built, searched, changed at run time, by several processes, and killed in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from entity_cases import encoder, knowledge, write_facts

from masquerade.errors import MasqueradeError
from masquerade.memory.entity.aliases import AliasMatcher
from masquerade.memory.entity.fact_memory import FactMemory
from masquerade.memory.entity.linked import link
from masquerade.memory.entity.sources import build
from masquerade.memory.entity.vectors import TextVectors


def test_facts_make_entities_with_names_priors_and_vectors(tmp_path: Path) -> None:
    memory = knowledge(tmp_path)
    assert len(memory) == 8 and memory.count() == 4
    assert memory.vectors().shape == (8, 16) and memory.relation_vectors().shape == (2, 16)
    torch.testing.assert_close(memory.vectors().norm(dim=-1), torch.full((8,), 2.0))  # the fourth root of 16
    paris = memory.entity("Paris")  # the label, although another entity has it as a name
    assert (paris.key, paris.description) == ("Q90", "a city")
    assert memory.entity("city of light").key == "Q90"
    (mention,) = memory.find("PARIS is a city.")
    priors = [(memory.label(number), round(prior, 2)) for number, prior in mention.candidates]
    assert mention.text == "PARIS" and priors == [("Paris", 0.91), ("Paris, Texas", 0.09)]


def test_the_longest_name_at_word_boundaries_is_found() -> None:
    names = ["new york", "new york city", "york", "rome", "北京", "北京大学", "x", "京"]
    matcher = AliasMatcher({name: [(number, 1.0)] for number, name in enumerate(names)})

    def found(text: str) -> list[str]:
        return [mention.text for mention in matcher.find(text)]

    assert found("In New York City and New York.") == ["New York City", "New York"]
    assert found("New Yorkers know Chrome and York x") == ["York"]
    assert found("他在北京大学读书，京城") == ["北京大学", "京"]
    assert found("İ New York") == ["New York"]  # a letter whose small form is longer
    assert found("") == [] and AliasMatcher({}).find("Rome") == []


def test_the_window_cuts_off_mentions_that_do_not_fit(tmp_path: Path) -> None:
    memory, tokenizer = knowledge(tmp_path), encoder().tokenizer
    text = "Paris is the capital of [MASK] and Paris, Texas"
    whole = link(text, tokenizer, memory, 32)
    assert [mention.text for mention in whole.mentions] == ["Paris", "Paris, Texas"]
    assert whole.spans == [(1, 1), (8, 10)] and whole.blanks == [(6, 6)]
    cut = link(text, tokenizer, memory, 11)  # the window ends inside of the last name
    assert len(cut.ids) == 11 and cut.ids[-1] == tokenizer.special("sep")
    assert cut.spans == [(1, 1)] and cut.blanks == [(6, 6)]
    assert link("", tokenizer, memory, 8).spans == []
    chinese = link("北京是[MASK][MASK]的首都", tokenizer, memory, 32)
    assert chinese.spans == [(1, 2)] and chinese.blanks == [(4, 5)]
    assert all(len(value) == len(whole.spans) for name, value in whole.inputs().items() if "blanks" not in name)


def test_facts_are_added_changed_and_removed_and_every_reader_sees_it(tmp_path: Path) -> None:
    memory = knowledge(tmp_path)
    other = FactMemory(tmp_path / "kb")
    assert other.count() == 4
    memory.add("Berlin", "is a", "town")
    assert str(other.facts("Berlin")[-1]) == "Berlin — is a — town" and other.count() == 5
    memory.change("Paris", "capital of", "Germany", "town")
    fact = next(fact for fact in other.facts("Q90") if fact.relation.key == "P1376")
    assert [each.label for each in fact.objects] == ["Germany", "town"]
    row = other.row(fact.subject.number, fact.relation.number)
    assert row is not None and other.fact(row) == fact
    assert other.fact_tensors()[1].shape == (5, 2)
    assert memory.remove("Paris", "P1376") == 2 and other.count() == 4
    assert memory.remove("Paris", "P1376") == 0
    assert [str(each) for each in other.facts("town", as_object=True)] == [
        "Berlin — is a — town", "Paris, Texas — is a — town",
    ]  # fmt: skip


def test_entities_are_added_changed_and_removed_with_their_vectors(tmp_path: Path) -> None:
    memory = knowledge(tmp_path)
    rome = memory.add_entity("Rome", "Q220", "a city", ["Roma"])
    assert rome.number == 8 and memory.vectors().shape == (9, 16)
    expected = memory.encoder([("Rome", "a city")])[0]
    torch.testing.assert_close(memory.vectors()[8], expected)
    assert memory.find("in Roma")[0].candidates == ((8, 1.0),)
    memory.add_relation("speaks")
    memory.add("Rome", "speaks", "France")
    assert memory.relation_vectors().shape == (3, 16)
    before = memory.vectors()[8].clone()
    assert memory.edit_entity("Rome", description="a town of france").description == "a town of france"
    assert not torch.allclose(memory.vectors()[8], before)
    memory.remove_entity("Rome")
    assert memory.find("in Roma") == [] and not memory.vectors()[8].any() and memory.count() == 4
    with pytest.raises(MasqueradeError, match="no entity 'Rome'"):
        memory.entity("Rome")
    assert memory.add_entity("Rome", "Q220").number == 8  # it gets its number back
    with pytest.raises(MasqueradeError, match="already"):
        memory.add_entity("Rome", "Q220")


def test_names_that_mean_nothing_or_several_are_refused_in_a_sentence(tmp_path: Path) -> None:
    memory = knowledge(tmp_path)
    with pytest.raises(MasqueradeError, match=r"no relation 'mayor'.* capital of, is a"):
        memory.add("Paris", "mayor", "town")
    with pytest.raises(MasqueradeError, match="no entity 'Lyon'"):
        memory.add("Lyon", "is a", "town")
    with pytest.raises(MasqueradeError, match="needs an object"):
        memory.change("Paris", "is a")
    memory.add_entity("Paris", "Q167646")
    with pytest.raises(MasqueradeError, match=r"'Paris' may mean Q90 \(Paris\), Q167646 \(Paris\)"):
        memory.entity("Paris")
    assert memory.count() == 4  # nothing of it was kept
    with pytest.raises(MasqueradeError, match="holds no knowledge base"):
        FactMemory(tmp_path)
    with pytest.raises(MasqueradeError, match="is there already"):
        knowledge(tmp_path)
    lost = FactMemory(tmp_path / "kb")
    with pytest.raises(MasqueradeError, match="is not where it was; give its folder"):
        lost.add_entity("Lyon")
    wide = FactMemory(tmp_path / "kb", TextVectors(encoder(width=8)))
    with pytest.raises(MasqueradeError, match="vectors of 16 numbers, but the encoder makes 8"):
        wide.add_entity("Lyon")


def test_files_that_hold_no_facts_are_refused_in_a_sentence(tmp_path: Path) -> None:
    vectors = TextVectors(encoder())
    wrong = write_facts(tmp_path / "wrong.jsonl", [{"name": "Paris"}])
    with pytest.raises(MasqueradeError, match=r"Record 1 of .*wrong.jsonl is no fact"):
        build([str(wrong)], tmp_path / "kb", vectors)
    with pytest.raises(MasqueradeError, match="There is no entity"):
        build([str(write_facts(tmp_path / "empty.jsonl", []))], tmp_path / "kb", vectors)
    assert not (tmp_path / "kb").exists()


def test_articles_and_published_facts_are_read(tmp_path: Path) -> None:
    records: list[dict[str, object]] = [
        {"title": "Paris (Texas)", "text": "Paris is a town in Texas.\nMore."},
        {"predicate": "P19", "sub_uri": "Q1", "sub_label": "Rome", "obj_uri": "Q2", "obj_label": "Italy",
         "evidences": [{"masked_sentence": "…", "sub_surface": "Roma", "obj_surface": "Italian"}]},
        {"relation": "P19", "label": "born in", "template": "[X] was born in [Y]"},
    ]  # fmt: skip
    memory = build([str(write_facts(tmp_path / "all.jsonl", records))], tmp_path / "kb", TextVectors(encoder()))
    town = memory.entity("Paris (Texas)")
    assert (town.label, town.description) == ("Paris", "Paris is a town in Texas.")
    assert str(memory.facts("Roma")[0]) == "Rome — born in — Italy"
    assert memory.entity("Q2").names == {"italy": 1.0, "italian": 1.0}


EDIT = """
import sys
from masquerade.memory.entity.fact_memory import FactMemory
memory = FactMemory(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for step in range(int(sys.argv[3])):
    memory.add(sys.argv[2], "is a", step % len(memory))
    print(step, flush=True)
"""


def editor(folder: Path, subject: str, steps: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", EDIT, str(folder), subject, str(steps)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_two_processes_edit_one_knowledge_base_and_a_killed_one_loses_nothing(tmp_path: Path) -> None:
    memory = knowledge(tmp_path)
    first, second = (editor(tmp_path / "kb", name, steps) for name, steps in (("Berlin", 8), ("France", 100_000)))
    for process in (first, second):
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert second.stdout is not None
    said = [second.stdout.readline() for _ in range(20)]
    assert first.communicate()[0].split()[-1] == "7" and first.returncode == 0
    second.send_signal(signal.SIGKILL)
    second.communicate()
    assert said[-1] == "19\n"
    for name in ("Berlin", "France"):  # each names all eight entities
        objects = next(fact.objects for fact in memory.facts(name) if fact.relation.label == "is a")
        assert len(objects) == 8
    assert memory.store.value("PRAGMA integrity_check") == "ok"
    memory.add("Germany", "is a", "town")  # and goes on
    assert len(memory.facts("Germany")) == 1


def test_a_change_that_fails_keeps_nothing_of_itself(tmp_path: Path) -> None:
    memory = knowledge(tmp_path)
    version = memory.store.version
    with pytest.raises(RuntimeError), memory.store.change() as connection:
        connection.execute("DELETE FROM fact")
        raise RuntimeError("power cut")
    assert memory.count() == 4 and memory.store.version == version


def test_a_change_of_facts_alone_makes_no_new_table_of_vectors_or_names(tmp_path: Path) -> None:
    memory, other = knowledge(tmp_path), FactMemory(tmp_path / "kb")
    vectors, relations = memory.vectors(), memory.relation_vectors()
    other.change("Paris, Texas", "is a", "Germany")
    assert memory.vectors() is vectors and memory.relation_vectors() is relations
    assert str(memory.facts("Paris, Texas")[0]).endswith("Germany") and len(memory.fact_tensors()[0]) == 4
    other.remove_entity("Germany")
    assert memory.vectors() is not vectors and not memory.vectors()[memory.removed()].any()
