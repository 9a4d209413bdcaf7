"""What all tests share: no network, and the same random numbers every time."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

os.environ.setdefault("MASQUERADE_KERNEL", "plain")  # the same kernel on every machine

import pytest
import torch

torch.set_num_threads(1)  # the tests' networks are tiny: threads would only wait for each other


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
