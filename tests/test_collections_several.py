"""Several processes encode a collection together."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from collection_cases import tiny_encoder, write_folder

from masquerade.errors import MasqueradeError
from masquerade.memory.retrieval.knowledge import KnowledgeBase
from masquerade.memory.retrieval.several import shared_encoder


@pytest.mark.slow
def test_two_processes_make_the_index_of_one(tmp_path: Path) -> None:
    texts, encoder = write_folder(tmp_path / "texts"), tiny_encoder(tmp_path / "encoder")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command = ["-m", "masquerade", "index", str(texts), "--encoder", str(encoder), "--out"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for start, out in (([sys.executable], "one"), (launcher, "two")):
        subprocess.run([*start, *command, str(tmp_path / out)], check=True, env=environment, timeout=600)
    with KnowledgeBase.open(tmp_path / "one") as one, KnowledgeBase.open(tmp_path / "two") as two:
        ids = one.store.ids()
        assert len(ids) == 4 and np.array_equal(ids, two.store.ids())
        assert [each.text for each in one.search("harbour")] == [each.text for each in two.search("harbour")]
        assert np.allclose(one.store.vectors(ids, 16)[0], two.store.vectors(ids, 16)[0], atol=1e-3)


def test_several_processes_without_an_encoder_are_refused() -> None:
    with pytest.raises(MasqueradeError, match="name the encoder by --encoder"):
        shared_encoder(None)
