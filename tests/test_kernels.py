"""The choice of a matrix multiplication: fast, the same result, and never slower than plain PyTorch."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from masquerade import Spec, build, kernels
from masquerade.errors import MasqueradeError
from masquerade.kernels import Timing, choose
from masquerade.masks import bidirectional

SLOW, FAST, TINY = [4.0, 4.1, 4.2, 4.0, 4.3], [2.0, 2.1, 2.0, 2.2, 2.1], [0.1] * 5


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test begins without a choice, and leaves PyTorch as it found it."""
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    monkeypatch.setattr(kernels, "_chosen", None)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def test_the_fastest_kernel_that_agrees_is_chosen() -> None:
    timings = {"plain": Timing(SLOW, TINY), "high": Timing(SLOW, TINY), "medium": Timing(FAST, TINY, 9e-7)}
    choice = choose(timings)
    assert (choice.kernel, choice.few) == ("medium", "medium")
    assert choice.gflops["medium"] == pytest.approx(2 * choice.gflops["plain"])


def test_a_fast_but_wrong_kernel_is_refused() -> None:
    timings = {"plain": Timing(SLOW, TINY), "high": Timing([3.0] * 5, TINY), "medium": Timing(FAST, TINY, 2e-3)}
    assert choose(timings).kernel == "high"


@pytest.mark.parametrize("share", [1.5, 1.0, 0.96])
def test_plain_is_kept_without_a_clear_gain(share: float) -> None:
    other = Timing([share * each for each in SLOW], TINY)
    assert choose({"plain": Timing(SLOW, TINY), "high": other, "medium": other}).kernel == "plain"


def test_one_lucky_round_decides_nothing() -> None:
    lucky, unlucky = [4.0, 4.0, 1.0, 4.0, 4.0], [40.0, 40.0, 40.0, 4.0, 4.0]
    assert choose({"plain": Timing([4.0] * 5, TINY), "medium": Timing(lucky, TINY)}).kernel == "plain"
    assert choose({"plain": Timing(unlucky, TINY), "medium": Timing([4.0] * 5, TINY)}).kernel == "plain"


def test_few_tokens_use_the_plain_kernel_where_it_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    timings = {"plain": Timing(SLOW, TINY), "medium": Timing(FAST, [0.2] * 5)}
    monkeypatch.setattr(kernels, "measure", lambda: timings)
    choice = kernels.use()
    assert (choice.kernel, choice.few) == ("medium", "plain")
    with kernels.for_tokens(1):
        assert torch.get_float32_matmul_precision() == "highest"
    assert torch.get_float32_matmul_precision() == "medium"
    with kernels.for_tokens(512):
        assert torch.get_float32_matmul_precision() == "medium"


def test_a_process_measures_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    calls = list[int]()

    def measured() -> dict[str, Timing]:
        calls.append(1)
        return {"plain": Timing(SLOW, TINY), "medium": Timing(FAST, TINY)}

    monkeypatch.setattr(kernels, "measure", measured)
    with caplog.at_level(logging.INFO, "masquerade"):
        assert kernels.use() is kernels.use()
    assert len(calls) == 1 and caplog.text.count("float32 kernel: medium") == 1
    assert torch.get_float32_matmul_precision() == "medium"
    kernels.use("plain")
    assert len(calls) == 1 and torch.get_float32_matmul_precision() == "highest"


def test_importing_the_package_changes_nothing() -> None:
    script = """
import torch, masquerade
from masquerade import Model, Reader, kernels, load
assert kernels._chosen is None and torch.get_float32_matmul_precision() == "highest"
"""
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_measuring_leaves_pytorch_as_it_was() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_float32_matmul_precision("high")
    timings = kernels.measure()
    assert set(timings) == {"plain", "high", "medium"} and timings["plain"].difference == 0
    assert all(len(timing.seconds) == kernels.ROUNDS and timing.gflops > 0 for timing in timings.values())
    assert torch.get_float32_matmul_precision() == "high" and torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_the_chosen_kernel_agrees_with_the_plain_one() -> None:
    model = build(Spec(vocab=50, width=64, layers=2, heads=4, feedforward=128, outputs=("lm",))).eval()
    layout = bidirectional(list(range(1, 40)))
    kernels.use("plain")
    plain = model.scores(layout)
    kernels.use("auto")
    assert (model.scores(layout) - plain).abs().max() <= 1e-4 * plain.abs().max()


def test_the_environment_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernels.VARIABLE, "medium")
    assert kernels.use().kernel == "medium" and torch.get_float32_matmul_precision() == "medium"
    monkeypatch.setattr(kernels, "_chosen", None)
    monkeypatch.setenv(kernels.VARIABLE, "quick")
    with pytest.raises(
        MasqueradeError, match="MASQUERADE_KERNEL is 'quick', but has to be auto, plain, high or medium"
    ):
        kernels.use()
    with pytest.raises(MasqueradeError, match="The kernel is 'fast'"):
        kernels.use("fast")


def test_what_the_calling_program_has_set_stays() -> None:
    torch.set_float32_matmul_precision("medium")
    assert kernels.use().kernel == "medium"
    assert "set before" in str(kernels.use())


def test_bfloat16_is_only_for_hosts_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "cpu_flags", lambda: ("avx2", "avx512f"))
    monkeypatch.setattr(kernels, "bfloat16_gain", lambda device: pytest.fail("measured without native bfloat16"))
    assert kernels.mixed_precision("auto") == "no"
    monkeypatch.setattr(kernels, "cpu_flags", lambda: ("avx512f", "avx512_bf16"))
    monkeypatch.setattr(kernels, "bfloat16_gain", lambda device: 4.5)
    assert kernels.mixed_precision("auto") == "bf16"
    monkeypatch.setattr(kernels, "bfloat16_gain", lambda device: 0.9)
    assert kernels.mixed_precision("auto") == "no"
    assert kernels.mixed_precision("auto", "mps") == "no"


@pytest.mark.parametrize(
    ("named", "theirs"),
    [("float32", "no"), ("bfloat16", "bf16"), ("no", "no"), ("bf16", "bf16"), ("fp16", "fp16")],
)
def test_every_name_of_a_precision_is_understood(named: str, theirs: str) -> None:
    assert kernels.mixed_precision(named) == theirs


def test_the_gain_of_bfloat16_is_measured() -> None:
    assert 0 < kernels.bfloat16_gain() < 1000


def test_the_machine_is_described() -> None:
    said = kernels.about()
    assert set(said) == {"PyTorch", "CPU", "flags", "float32 kernel", "attention", "bfloat16"}
    assert all(said.values()) and "GFLOP/s" in said["float32 kernel"]


def test_two_products_give_the_attention_of_the_fused_kernel() -> None:
    query, key, value = torch.randn(2, 3, 20, 8), torch.randn(2, 3, 30, 8), torch.randn(2, 3, 30, 8)
    mask = torch.zeros(2, 1, 20, 30).masked_fill(torch.rand(2, 1, 20, 30) < 0.3, torch.finfo(torch.float32).min)
    wanted = torch.nn.functional.scaled_dot_product_attention(query, key, value, mask, scale=0.5)
    found, weights = kernels.products(query, key, value, mask, 0.5)
    assert torch.allclose(found, wanted, atol=1e-6)
    assert torch.allclose(weights.sum(-1), torch.ones(2, 3, 20))


def test_a_query_that_sees_no_key_gives_numbers_in_bfloat16_too() -> None:
    query, key, value = (torch.randn(1, 2, 16, 8).bfloat16() for _ in range(3))
    mask = torch.full((1, 1, 16, 16), torch.finfo(torch.float32).min)
    assert bool(kernels.products(query, key, value, mask, 1.0)[0].isfinite().all())


def test_products_are_used_where_they_are_faster_and_small(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = torch.zeros(1, 2, kernels.FEWEST - 1, 4), torch.zeros(1, 2, kernels.FEWEST, 4)
    assert not kernels.uses_products(many, many)  # nothing was measured yet
    monkeypatch.setattr(kernels, "_chosen", kernels.Choice("plain", "plain", "", attention="products"))
    assert kernels.uses_products(many, many) and not kernels.uses_products(few, many)
    monkeypatch.setattr(kernels, "SCORES", 2 * kernels.FEWEST**2 * 4 - 1)
    assert not kernels.uses_products(many, many)


@pytest.mark.parametrize("gain", [0.9, 1.5])
def test_attention_is_chosen_by_its_measured_gain(gain: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "products_gain", lambda: gain)
    choice = kernels.use()
    assert choice.attention == ("products" if gain > 1 else "fused")
    model = build(Spec(vocab=20, width=8, layers=2, heads=2, feedforward=16, longest=64)).eval()
    layout = bidirectional(list(range(20)))
    found = model.hidden(layout)
    kernels.use("plain")
    assert torch.allclose(model.hidden(layout), found, atol=1e-5)
