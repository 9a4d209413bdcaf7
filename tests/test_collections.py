"""Collections: passages, search, changes and bad input."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from collection_cases import BRIDGE, HARBOUR, TEXTS, tiny_encoder, write_folder
from hypothesis import example, given, settings
from hypothesis import strategies as st

from masquerade.documents.document import Citation, Document
from masquerade.documents.folders import read_documents
from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval import vector_index
from masquerade.memory.retrieval.encoder import Encoder
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.passages import cut_passages, letters
from masquerade.memory.retrieval.search import PAIR, PRIOR, SENTENCE, Filters, Score, combine, nearness, priors
from masquerade.memory.retrieval.store import CollectionStore
from masquerade.memory.retrieval.words import search_terms

PARTS = ["# Head\n", "One. ", "Two two two!\n\n", "三四五。", "\n\n", "a-\nb ", "Title\n\n"]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "texts")


@pytest.fixture
def kb(tmp_path: Path, texts: Path) -> KnowledgeBase:
    made = KnowledgeBase.open(tmp_path / "kb", create=True)
    made.update([str(texts)])
    return made


def names(kb: KnowledgeBase, query: str, **options: object) -> list[str]:
    return [Path(found.stored.name).name for found in kb.search(query, **options)]  # type: ignore[arg-type]


# passages and words


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["# Head\n", "One. ", "Two two two!\n\n", "三四五。", "\n\n", "a-\nb ", "Title\n\n"]),
        max_size=60,
    )
)
@example(["# Head\n"] * 6 + ["One. ", "One. ", "三四五。", "三四五。", "三四五。", "三四五。", "# Head\n", "# Head\n"])
def test_passages_cover_the_text_in_order_and_know_their_places(parts: list[str]) -> None:
    document = Document("x.md", "".join(parts))
    passages, end = cut_passages(document, size=60), 0
    for passage in passages:
        assert document.text[passage.start : passage.end] == passage.text and letters(passage.text) <= 60
        assert not document.text[end : passage.start].strip()
        part, end = passage.document("x.md", "", "line"), passage.end
        assert all(part.place(i) == document.place(passage.start + i) for i in range(len(passage.text)))
    assert not document.text[end:].strip()


def test_passages_begin_at_headings_and_keep_them() -> None:
    first, second = cut_passages(Document("harbour.md", HARBOUR))
    assert (first.heading, second.heading) == ("The harbour of Arvik", "The lighthouse")
    assert second.text.startswith("## The lighthouse") and second.numbers[0] == 5


def test_passages_end_at_sentence_ends() -> None:
    text = "The first sentence has some words. " * 80
    passages = cut_passages(Document("x", text), size=300)
    assert len(passages) > 5 and all(passage.text.endswith("words.") for passage in passages)
    chinese = cut_passages(Document("x", "这是一句话。" * 200), size=300)
    assert all(passage.text.endswith("。") and 200 < letters(passage.text) <= 300 for passage in chinese[:-1])


def test_divided_words_are_whole_in_what_is_read_and_spans_lead_back() -> None:
    document = Document("x", "The inter-\nnational group met in 1999.")
    (passage,) = cut_passages(document)
    start = passage.joined.text.index("international")
    assert passage.joined.original(start, start + 13) == (4, 19)


def test_search_terms_are_stems_words_bigrams_and_numbers() -> None:
    assert search_terms("Lighthouses’ CAFÉS running") == ["lighthous", "cafe", "run"]
    assert search_terms("1994年")[:2] == ["1994", "年"]
    terms = search_terms("北京大学的学生")
    assert {"北京大学", "学生", "北京", "大学", "学的"} <= set(terms) and terms.count("学生") == 1


# search


def test_passages_are_found_by_words_in_both_languages(kb: KnowledgeBase) -> None:
    assert names(kb, "lighthouses of granite")[0] == "harbour.md"
    assert names(kb, "1994年 修复") == ["桥.txt"]
    found = kb.search("谁设计了赵州桥")[0]
    assert found.stored.language == "zh" and found.document.place(0) == Citation("line", 1)


def test_filters_leave_only_the_documents_they_name(tmp_path: Path, texts: Path) -> None:
    rows = [{"title": "Été", "text": "The bread is new.", "date": "2020-05", "author": "Lund", "n": 3, "draft": True},
            {"title": "Bee", "text": "The bread is old.", "date": "2023-01-01", "author": "Holm"}]  # fmt: skip
    (texts / "notes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    kb = KnowledgeBase.open(tmp_path / "kb", create=True, encoder=Encoder.load(tiny_encoder(tmp_path / "e")))
    kb.update([str(texts)])
    assert len(kb.search("bread")) == 6

    def found(**filters: object) -> set[str]:
        return {each.text for each in kb.search("bread", filters=Filters(**filters))}  # type: ignore[arg-type]

    new, old = "The bread is new.", "The bread is old."
    assert (
        found(metadata={"author": "Lund"})
        == found(metadata={"n": "3"})
        == found(metadata={"draft": "true"})
        == found(title="éTÉ")
        == found(after="2020", before="2021")
        == {new}
    )
    assert found(title="bee") == found(after="2022", before="2024") == {old}
    assert found(path=str(texts / "notes.jsonl")) == {new, old} == found(path="*/notes.*")
    assert len(found(path=str(texts / "town"))) == 1 and all("桥" in text for text in found(language="zh"))
    assert found(metadata={"author": "none"}) == set()
    line = kb.search("old bread", filters=Filters(title="Bee"))[0]
    assert line.document.cite(0).endswith("notes.jsonl:2") and line.stored.metadata["author"] == "Holm"


def test_hybrid_scores_are_weighted_sums_of_scaled_scores() -> None:
    words, dense = [(1, 8.0), (2, 6.0), (3, 4.0)], [(3, 0.9), (4, 0.8), (1, 0.1)]
    made = combine(words, dense, 0.4)
    assert [id for id, _ in made] == [1, 3, 4, 2]
    assert {id: pytest.approx(score.total) for id, score in made} == {1: 0.6, 2: 0.3, 3: 0.4, 4: 0.4 * 0.7 / 0.8}
    assert (made[0][1].words, made[0][1].dense) == (8.0, 0.1) and made[2][1].words is None
    assert [id for id, _ in combine(words, dense, 0.0)] == [1, 2, 3]


def test_terms_that_are_near_each_other_count(tmp_path: Path) -> None:
    rarity = {"red": 2.0, "granit": 4.0, "pier": 1.0}
    terms = ["red", "granit", "pier"]
    assert nearness(terms, rarity, "The pier. Of granite. It is red.") == SENTENCE * 4
    assert nearness(terms, rarity, "Red is the granite. The pier.") == SENTENCE * 6
    assert nearness(terms, rarity, "Red granite. The pier.") == pytest.approx(SENTENCE * 6 + PAIR * 3)
    kb = KnowledgeBase.open(tmp_path, create=True)
    kb.add(Document("far", "The pier is long. The granite is grey. A red boat is here."))
    kb.add(Document("near", "A long pier is here. The boat is grey. It is of red granite."))
    assert names(kb, "red granite") == ["near", "far"]
    made = combine([(1, 8.0), (2, 6.0)], [(2, 0.9), (3, 0.8)], 0.5, {1: 0.0, 2: 3.0, 3: 1.0})
    assert [id for id, _ in made] == [2, 1, 3]
    assert [score.total for _, score in made] == pytest.approx([1.0, 0.5 * 7 / 8, 0.0])


def test_vectors_find_what_exact_search_finds(tmp_path: Path, texts: Path) -> None:
    encoder = Encoder.load(tiny_encoder(tmp_path / "e"))
    kb = KnowledgeBase.open(tmp_path / "kb", create=True, encoder=encoder)
    kb.update([str(texts)])
    query = "the harbour"
    stored = kb.store.passages(kb.store.ids().tolist())
    searched = [each.passage.searched(each.title) for each in stored.values()]
    exact = (encoder.encode_passages(searched) @ encoder.encode_queries([query]).T)[:, 0].numpy()
    found = kb.search(query, dense=1.0)
    assert [each.stored.id for each in found] == [list(stored)[i] for i in np.argsort(-exact)]
    assert [each.score.dense for each in found] == pytest.approx(sorted(exact.tolist(), reverse=True), abs=2e-3)


def test_larger_collections_use_quantised_vectors_then_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_index, "KINDS", {"flat": 0, "8 bits": 100, "IVF, 8 bits": 400})
    store = CollectionStore(tmp_path, create=True)
    rng, held = np.random.default_rng(0), dict[int, np.ndarray]()

    def grow(count: int) -> vector_index.VectorIndex:
        with store.transaction():
            for number in range(len(held), count):
                values = (f"f{number}", "", "", "")
                file = store.database.execute(
                    "INSERT INTO files (path, name, source, hash) VALUES (?, ?, ?, ?)", values
                )
                parts = "(file, title, language, unit, date, metadata) VALUES (?, '', '', '', '', '{}')"
                document = store.database.execute(f"INSERT INTO documents {parts}", (file.lastrowid,)).lastrowid
                parts = "(document, first, last, heading, text, places) VALUES (?, 0, 0, '', '', '')"
                id = store.database.execute(f"INSERT INTO passages {parts}", (document,)).lastrowid
                vector = rng.normal(size=8).astype(np.float16)
                store.database.execute("INSERT INTO vectors VALUES (?, ?)", (id, vector.tobytes()))
                held[int(id or 0)] = vector.astype(np.float32)
        made = vector_index.VectorIndex(store, 8)
        made.save()
        return made

    for count, kind in ((50, "flat"), (150, "8 bits"), (600, "IVF, 8 bits")):
        index = grow(count)
        assert index.kind == kind and vector_index.VectorIndex(store, 8).saved  # the file is used again
        monkeypatch.setattr(vector_index, "PROBED", 2)
        matrix = np.stack(list(held.values()))
        nearest = np.array(list(held))[(matrix @ matrix.T).argmax(1)]
        right = [index.search(held[id], 1)[0][0] == best for id, best in zip(held, nearest, strict=True)]
        assert np.mean(right) > 0.8
        allowed = np.array([3, 5, 7])
        assert {id for id, _ in index.search(held[1], 10, allowed)} == {3, 5, 7}
    with store.transaction():
        store.drop(["f10"])
    index.synchronise()
    assert 11 not in {id for id, _ in index.search(held[11], 600)} and index.index.ntotal == 599


# changes


def test_a_second_run_reads_only_what_changed(kb: KnowledgeBase, texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from masquerade.memory.retrieval import indexing

    read = list[str]()
    real = indexing.read_entries
    monkeypatch.setattr(indexing, "read_entries", lambda name: (read.append(Path(name).name), real(name))[1])
    report = kb.update()
    assert (report.unchanged, report.added, report.changed, len(report.skipped)) == (3, 0, 0, 1)
    assert read == ["picture.png"] and "binary" in report.skipped[0].reason
    (texts / "harbour.md").write_text("The harbour of Arvik was closed.")
    (texts / "town" / "bakery.txt").unlink()
    (texts / "new.txt").write_text("A ferry sails at dawn.")
    report = kb.update()
    assert (report.unchanged, report.added, report.changed, report.removed) == (1, 1, 1, 1)
    assert names(kb, "lighthouse") == [] == names(kb, "rye bread") and names(kb, "ferry") == ["new.txt"]


def test_the_answer_follows_when_a_document_is_added_changed_and_removed(tmp_path: Path) -> None:
    kb = KnowledgeBase.open(tmp_path, create=True, reader="en")
    question = "Who is the mayor of Arvik?"
    assert not kb.ask(question)
    kb.add(Document("mayor", "The mayor of Arvik is Anna Holm. She lives near the harbour."))
    assert kb.ask(question).text == "Anna Holm"
    kb.add(Document("mayor", "The mayor of Arvik is Peter Dahl. He lives near the harbour."))
    answer = kb.ask(question)
    assert answer.text == "Peter Dahl" and answer.file == "mayor" and answer.place == Citation("line", 1)
    assert kb.store.count("passages") == 1
    assert kb.remove("mayor") == ["mayor"] and not kb.ask(question)


def test_another_process_sees_changes_at_once(tmp_path: Path, texts: Path) -> None:
    folder = tiny_encoder(tmp_path / "e")
    writer = KnowledgeBase.open(tmp_path / "kb", create=True, encoder=Encoder.load(folder))
    reader = KnowledgeBase.open(tmp_path / "kb")
    assert reader.search("bread") == []
    writer.update([str(texts)])
    assert names(reader, "rye bread")[0] == "bakery.txt" and len(reader.search("x", dense=1.0)) == 4
    writer.remove("*bakery*")
    assert "bakery.txt" not in names(reader, "rye bread")


def test_a_second_writer_is_refused_and_can_write_later(kb: KnowledgeBase, texts: Path) -> None:
    other = KnowledgeBase.open(kb.store.folder)
    assert other.store.lock()
    with pytest.raises(MasqueradeError, match="Another process is writing"):
        kb.update([str(texts)])
    assert names(kb, "lighthouse") == ["harbour.md"]
    other.store.unlock()
    assert kb.update([str(texts)]).unchanged == 3


def test_another_encoder_is_refused_and_rebuild_takes_it(tmp_path: Path, texts: Path) -> None:
    first, second = (tiny_encoder(tmp_path / name, seed) for seed, name in enumerate("ab"))
    KnowledgeBase.open(tmp_path / "kb", create=True, encoder=str(first)).update([str(texts)])
    with pytest.raises(MasqueradeError, match=r"was made with the encoder '.*a', and '.*b' is another one.*--rebuild"):
        KnowledgeBase.open(tmp_path / "kb", encoder=str(second))
    shutil.copytree(second, first, dirs_exist_ok=True)  # the encoder has changed under its name
    with pytest.raises(MasqueradeError, match="--rebuild"):
        KnowledgeBase.open(tmp_path / "kb").search("bread")
    kb = KnowledgeBase.open(tmp_path / "kb", encoder=str(second), rebuild=True)
    assert kb.update().added == 3 and names(kb, "rye bread")[0] == "bakery.txt"


# damage and bad input


def test_a_damaged_index_is_made_anew_from_the_store(tmp_path: Path, texts: Path) -> None:
    folder = tiny_encoder(tmp_path / "e")
    with KnowledgeBase.open(tmp_path / "kb", create=True, encoder=str(folder)) as kb:
        kb.update([str(texts)])
        before = [(found.stored.id, found.score.total) for found in kb.search("harbour bread")]
    (vectors,), (words,) = (list((tmp_path / "kb").glob(name)) for name in ("vectors-*", "words-*"))

    def found_again() -> bool:
        with KnowledgeBase.open(tmp_path / "kb") as kb:
            return [(found.stored.id, found.score.total) for found in kb.search("harbour bread")] == before

    for damaged in (vectors, words / "meta.json"):
        damaged.write_bytes(b"no index")
        assert found_again()
    shutil.rmtree(words)
    vectors.unlink()
    assert found_again() and vectors.is_file()
    with KnowledgeBase.open(tmp_path / "other", create=True, encoder=str(folder)) as other:
        other.add(Document("other", "The harbour has bread."))
        shutil.rmtree(words)
        vectors.unlink()
        shutil.copytree(other.words.path, words)  # an index of other passages, under this one's name
        shutil.copy(next((tmp_path / "other").glob("vectors-*")), tmp_path / "kb")
    assert found_again()


def test_a_damaged_index_of_words_is_made_anew_without_a_stack_of_calls(
    kb: KnowledgeBase, capfd: pytest.CaptureFixture[str]
) -> None:
    kb.close()
    for path in kb.words.path.glob("*.*"):
        if path.suffix in (".idx", ".term", ".fast"):
            path.write_text("junk")
    with KnowledgeBase.open(kb.store.folder) as again:
        assert names(again, "lighthouse") == ["harbour.md"]
    assert capfd.readouterr().err == ""


def test_a_foreign_or_damaged_collection_is_refused_in_a_sentence(tmp_path: Path, texts: Path) -> None:
    with pytest.raises(MasqueradeError, match="There is no collection in"):
        KnowledgeBase.open(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    kb = tmp_path / "kb"
    kb.mkdir()
    (kb / "collection.sqlite").write_bytes(b"this is no database" * 100)
    with pytest.raises(MasqueradeError, match="is not a collection of Masquerade"):
        KnowledgeBase.open(kb)
    assert KnowledgeBase.open(kb, rebuild=True).update([str(texts)]).added == 3
    with sqlite3.connect(tmp_path / "other.sqlite") as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    shutil.copy(tmp_path / "other.sqlite", foreign / "collection.sqlite")
    with pytest.raises(MasqueradeError, match="is not a collection of Masquerade"):
        KnowledgeBase.open(foreign)
    with sqlite3.connect(kb / "collection.sqlite") as database:
        database.execute("UPDATE meta SET value = '0' WHERE name = 'format'")
    database.close()
    with pytest.raises(MasqueradeError, match=r"has the format 0, and this version reads 1.*--rebuild"):
        KnowledgeBase.open(kb)
    assert KnowledgeBase.open(kb, rebuild=True).update([str(texts)]).added == 3


def test_a_folder_that_cannot_be_opened_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(MasqueradeError, match="cannot be opened"):
        KnowledgeBase.open(tmp_path / "file" / "kb", create=True)
    (tmp_path / "kb" / "collection.sqlite").mkdir(parents=True)
    with pytest.raises(MasqueradeError, match="cannot be opened"):
        KnowledgeBase.open(tmp_path / "kb", create=True)


def test_damage_inside_the_store_is_told_in_a_sentence(kb: KnowledgeBase) -> None:
    folder = kb.store.folder
    kb.close()
    path = folder / "collection.sqlite"
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(MasqueradeError, match=r"--rebuild|delete the folder"):
        KnowledgeBase.open(folder).search("harbour")


def test_a_file_that_vanishes_while_it_is_read_is_skipped(
    kb: KnowledgeBase, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from masquerade.memory.retrieval import indexing

    (texts / "harbour.md").write_text("Something new.")
    (texts / "ferry.txt").write_text("A ferry sails at dawn.")

    def vanish(path: str) -> str:
        if path.endswith("harbour.md"):
            Path(path).unlink()
        return real(path)

    real = indexing.content_hash
    monkeypatch.setattr(indexing, "content_hash", vanish)
    report = kb.update()
    assert report.added == 1 and report.removed == 1
    assert [Path(each.name).name for each in report.skipped] == ["harbour.md", "picture.png"]
    assert (
        names(kb, "lighthouse") == [] and names(kb, "ferry") == ["ferry.txt"] and names(kb, "bread") == ["bakery.txt"]
    )


def test_odd_queries_have_an_answer_or_a_sentence(kb: KnowledgeBase, tmp_path: Path) -> None:
    assert names(kb, "the of and")  # stop words alone
    assert kb.search("?!…") == [] and kb.search("что такое маяк") == [] and kb.search("\ud800") == []
    with pytest.raises(MasqueradeError, match="query is empty"):
        kb.search("  ")
    with pytest.raises(MasqueradeError, match="has no vectors"):
        kb.search("harbour", dense=0.5)
    with pytest.raises(MasqueradeError, match="between 0 and 1"):
        kb.search("harbour", dense=2)
    with pytest.raises(MasqueradeError, match="at least one"):
        kb.search("harbour", k=0)
    with pytest.raises(MasqueradeError, match="has to be a date"):
        Filters(after="yesterday")
    with pytest.raises(MasqueradeError, match="no file 'nothing'"):
        kb.remove("nothing")
    with pytest.raises(MasqueradeError, match="no file to index"):
        kb.update([str(tmp_path / "*.none")])
    assert names(kb, "lighthouse") == ["harbour.md"]
    empty = KnowledgeBase.open(tmp_path / "empty", create=True)
    assert empty.search("harbour") == [] and not empty.ask("Where is it?")


def test_odd_files_are_skipped_and_the_others_are_read(tmp_path: Path, texts: Path) -> None:
    (texts / "broken.jsonl").write_text('{"text": "one"}\n{"text": ')
    (texts / "empty.txt").write_text("")
    (texts / "half.jsonl").write_text('{"text": "half \\ud800 a character", "title": "\\udc00"}')
    with (texts / "huge.txt").open("wb") as huge:
        huge.truncate(1 << 30)
    kb = KnowledgeBase.open(texts / "kb", create=True)  # inside of the folder that is indexed
    for again in (False, True):
        report = kb.update([str(texts)])
        reasons = {Path(each.name).name: each.reason for each in report.skipped}
        assert again or "line 2" in reasons.pop("broken.jsonl")  # the line; the rest is read, and is not read again
        assert sorted(reasons) == ["empty.txt", "huge.txt", "picture.png"] and "64 MB" in reasons["huge.txt"]
    assert len(kb.store.files()) == 5 and names(kb, "half character") == ["half.jsonl"]


def test_the_texts_of_the_cases_are_what_they_were(kb: KnowledgeBase, texts: Path) -> None:
    documents, _ = read_documents([str(texts)])
    assert {Path(each.name).name: each.text for each in documents} == {Path(n).name: text for n, text in TEXTS.items()}
    whole = kb.search("1994年的护栏")[0]
    assert BRIDGE[whole.stored.passage.start : whole.stored.passage.end] == whole.stored.passage.text


def test_passages_that_fit_less_well_weigh_less() -> None:
    assert priors([Score(1.0), Score(0.5)]) == [0, -PRIOR / 2] and priors([]) == []
