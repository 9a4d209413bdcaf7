"""Sentence vectors: the same as those of sentence-transformers, whatever else is encoded with a text."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from collection_cases import tiny_encoder
from parity import TINY, randomised
from typed import refused, run

import masquerade
from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval.encoder import Encoder
from masquerade.memory.retrieval.pooling import Pooling

TEXTS = [
    "the harbour",
    "李春设计建造",
    "Its first master was Olaf Lund. " * 6,
    "a",
    "The lighthouse is 34 metres high.",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoder"))


def _reference(folder: Path, pooling: str, normalized: bool) -> Any:
    """The same weights in sentence-transformers, saved as it saves them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers import SentenceTransformer, models

        parts = [models.Transformer(str(folder), max_seq_length=48)]
        parts.append(models.Pooling(parts[0].get_word_embedding_dimension(), pooling_mode=pooling))
        return SentenceTransformer(modules=[*parts, *([models.Normalize()] if normalized else [])], device="cpu")


@pytest.mark.parametrize(("pooling", "normalized"), [("mean", True), ("mean", False), ("cls", True)])
def test_vectors_are_those_of_sentence_transformers(
    folder: Path, tmp_path: Path, pooling: str, normalized: bool
) -> None:
    reference = _reference(folder, pooling, normalized)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = reference.encode(TEXTS, convert_to_tensor=True)
        reference.save(str(tmp_path / "saved"))
    encoder = masquerade.Encoder.load(tmp_path / "saved")
    assert (encoder.pooling.pooling, encoder.pooling.normalize, encoder.longest) == (pooling, normalized, 48)
    assert expected.std() > 0.01
    torch.testing.assert_close(encoder.encode(TEXTS), expected, atol=1e-5, rtol=0)


def test_a_vector_does_not_depend_on_the_other_texts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder.load(folder)
    together = encoder.encode(TEXTS)
    alone = torch.cat([encoder.encode([text]) for text in TEXTS])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=0)
    monkeypatch.setattr("masquerade.kernels.batch_tokens", lambda device: 40)
    torch.testing.assert_close(encoder.encode(TEXTS), together, atol=1e-6, rtol=0)


def test_prefixes_and_settings_are_kept_beside_the_checkpoint(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path, pooling=Pooling("cls", False, 32, "query: ", "passage: "))
    encoder = Encoder.load(folder)
    assert encoder.pooling == Pooling("cls", False, 32, "query: ", "passage: ") and encoder.longest == 32
    assert torch.equal(encoder.encode_queries(["a"]), encoder.encode(["query: a"]))
    assert torch.equal(encoder.encode_passages(["a"]), encoder.encode(["passage: a"]))
    other = Encoder.load(folder, query="")
    assert other.pooling.query == "" and other.fingerprint() != encoder.fingerprint()
    assert Encoder.load(folder).fingerprint() == encoder.fingerprint()


def test_wrong_settings_are_refused_in_a_sentence(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path)
    (folder / "encoder.json").write_text('{"poling": "mean"}')
    with pytest.raises(MasqueradeError, match="unknown setting 'poling'"):
        Encoder.load(folder)
    (folder / "encoder.json").write_text('{"longest": "many"}')
    with pytest.raises(MasqueradeError, match="has to be a int"):
        Encoder.load(folder)
    (folder / "encoder.json").unlink()
    (folder / "modules.json").write_text('[{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]')
    with pytest.raises(MasqueradeError, match="module 'Dense'"):
        Encoder.load(folder)
    with pytest.raises(MasqueradeError, match="no pooling 'max'"):
        Encoder.load(tiny_encoder(tmp_path / "plain"), pooling="max")


def test_embed_prints_or_saves_vectors(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = json.loads(run("embed", "the harbour", "--encoder", folder))
    assert line["text"] == "the harbour" and len(line["vector"]) == 16
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    run("embed", "--in", tmp_path / "texts.txt", "--encoder", folder, "--out", tmp_path / "vectors.npy")
    saved = np.load(tmp_path / "vectors.npy")
    np.testing.assert_allclose(saved, Encoder.load(folder).encode([text.strip() for text in TEXTS]), atol=1e-6)
    assert "nothing to encode" in refused("embed", "--encoder", folder, monkeypatch=monkeypatch, capsys=capsys)


@pytest.mark.parametrize("name", ["Question", "Context"])
def test_dpr_encoders_give_the_vectors_of_the_reference(folder: Path, tmp_path: Path, name: str) -> None:
    sizes = {**TINY, "vocab_size": len(Encoder.load(folder).model.tokenizer)}
    config = transformers.DPRConfig(**sizes, attention_probs_dropout_prob=0.0)
    reference = randomised(getattr(transformers, f"DPR{name}Encoder")(config))
    reference.save_pretrained(tmp_path)
    shutil.copy(folder / "vocab.txt", tmp_path)
    encoder = Encoder.load(tmp_path)
    assert (encoder.pooling.pooling, encoder.pooling.normalize) == ("cls", False)
    for text in TEXTS:
        ids = torch.tensor([encoder.model.tokenizer.encode_pairs([(text, None)], encoder.longest)[0][0]])
        with torch.no_grad():
            expected = reference(input_ids=ids).pooler_output
        assert expected.std() > 0.01
        torch.testing.assert_close(encoder.encode([text]), expected, atol=1e-5, rtol=0)
    masquerade.save(encoder.model, tmp_path / "ours")  # as the BERT that it is
    again = transformers.BertModel.from_pretrained(tmp_path / "ours", add_pooling_layer=False).eval()
    with torch.no_grad():
        torch.testing.assert_close(again(input_ids=ids).last_hidden_state[:, 0], expected, atol=1e-5, rtol=0)
