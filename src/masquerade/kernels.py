"""Which kernels are fastest on this machine, measured once per process when a model is first used.

PyTorch has more than one float32 kernel for ``linear`` on a CPU. ``torch.set_float32_matmul_precision`` selects between
them: on some hosts another setting is twice as fast with the same result, on others it rounds to bfloat16, is slower,
or changes nothing. So speed and difference are both measured here, and plain PyTorch is kept unless another setting
is clearly faster and agrees with it. The same is done for attention: PyTorch's fused kernel, or two matrix products
with a softmax between them, which is faster on some processors as long as the scores fit into their cache.

Importing this module measures nothing and changes nothing. ``use()`` does; it is called by ``masquerade.load``,
``Reader`` and training. The environment variable MASQUERADE_KERNEL (auto, plain, high or medium) or ``use("plain")``
overrides the choice.
"""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor

from masquerade.errors import MasqueradeError

SETTINGS = {"plain": "highest", "high": "high", "medium": "medium"}  # our name → PyTorch's
VARIABLE = "MASQUERADE_KERNEL"
ACCELERATE = {"float32": "no", "bfloat16": "bf16", "no": "no", "bf16": "bf16", "fp16": "fp16"}  # names of precisions

FEW = 8  # tokens; a pass over more of them uses the kernel for many
TOKENS, WIDTH, INNER = 128, 384, 1536  # the measured shape: (TOKENS, WIDTH) @ (WIDTH, INNER)
ROUNDS = 5
# the measured attention: heads of all rows, queries and keys, numbers of a head
HEADS, LENGTH, HEAD_WIDTH = 24, 224, 32
SCORES = 3 * 2**23  # bytes of attention scores, up to which two products may be used
FEWEST = 16  # queries; for fewer the fused kernel is used
AGREES = 1e-4  # largest difference allowed, relative to the largest value of the plain result
GAIN = 1.1  # another float32 kernel has to be at least this many times as fast
GAIN_BFLOAT16 = 1.5  # the casts of autocast cost time too

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # parameters of mallopt
LARGEST, KEPT = 2**25, 2**30  # bytes: tensors up to the first are reused, and this much memory is kept

FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16", "asimd", "sve", "bf16")
NATIVE_BFLOAT16 = ("avx512_bf16", "amx_bf16", "bf16")

log = logging.getLogger(__name__)
_lock = threading.RLock()
_chosen: Choice | None = None


@dataclass(frozen=True)
class Timing:
    """Seconds of one kernel in each round, and how far its result is from the plain one."""

    seconds: Sequence[float]  # many tokens at once
    one_token: Sequence[float]  # one token, as in writing token by token
    difference: float = 0.0  # largest, relative to the largest value of the plain result

    @property
    def gflops(self) -> float:
        """Billions of floating-point operations per second, in the best round."""
        return 2 * TOKENS * WIDTH * INNER / min(self.seconds) / 1e9


@dataclass(frozen=True)
class Choice:
    """The kernels in use, and why."""

    kernel: str  # a key of SETTINGS
    few: str  # the kernel for a few tokens: ``kernel``, or "plain" where that is faster
    reason: str
    gflops: Mapping[str, float] = field(default_factory=dict)  # of each kernel that was measured
    attention: str = "fused"  # or "products"
    attention_gain: float = 1.0  # how many times faster products are

    @property
    def measured(self) -> bool:
        """Whether it was measured, and not set."""
        return bool(self.gflops)

    def __str__(self) -> str:
        speeds = ", ".join(f"{name} {speed:.0f}" for name, speed in self.gflops.items())
        return f"{self.kernel} ({self.reason}{f'; GFLOP/s: {speeds}' if speeds else ''})"


def use(kernel: str | None = None) -> Choice:
    """Set the kernel for float32 and return the choice. The first call in a process measures; later ones return the
    same choice, unless they name a kernel: "auto" to measure again, or "plain", "high", "medium"."""
    global _chosen
    with _lock:
        if kernel is None and _chosen is not None:
            return _chosen
        choice = _decide(kernel)
        torch.set_float32_matmul_precision(SETTINGS[choice.kernel])
        if choice.measured:
            keep_freed_memory()
            choice = replace(choice, attention_gain=products_gain())
            choice = replace(choice, attention="products" if choice.attention_gain >= GAIN else "fused")
        log.info("float32 kernel: %s", choice)
        _chosen = choice
        return choice


@contextmanager
def for_tokens(count: int) -> Iterator[None]:
    """Use the plain kernel for a pass over a few tokens (a step of token-by-token decoding), where it is faster."""
    choice = _chosen
    if choice is None or choice.few == choice.kernel or count > FEW:
        yield
        return
    torch.set_float32_matmul_precision(SETTINGS[choice.few])
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(SETTINGS[choice.kernel])


def keep_freed_memory() -> bool:
    """Have the C library of Linux reuse the memory of large tensors instead of giving it back to the system each time,
    which costs as much as computing them; whether it could be told so. Up to KEPT bytes stay with the process."""
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return False
    return bool(tell(M_MMAP_THRESHOLD, LARGEST) and tell(M_TRIM_THRESHOLD, KEPT))


def uses_products(query: Tensor, key: Tensor) -> bool:
    """Whether attention of queries to keys, each (rows, heads, n, d), is computed as two matrix products here."""
    if _chosen is None or _chosen.attention == "fused" or query.device.type != "cpu" or query.shape[2] < FEWEST:
        return False
    return query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2] * query.element_size() <= SCORES


def products(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Attention as two matrix products: queries, keys and values (rows, heads, n, d), and what is added to the scores
    → the result (rows, heads, q, d), and the weights (rows, heads, q, k)"""
    scores = (query * scale) @ key.transpose(-1, -2)
    if bias is not None:  # its lowest number must stay finite in a lower precision
        scores += bias if bias.dtype == scores.dtype else bias.clamp(min=torch.finfo(scores.dtype).min)
    weights = F.dropout(F.softmax(scores, dim=-1), dropout)
    return weights @ value, weights


def products_gain() -> float:
    """How many times faster two products are than the fused kernel; 0 if their results differ."""
    rng = torch.Generator().manual_seed(0)
    fused, other = list[float](), list[float]()
    with _one_thread(), torch.inference_mode():
        q, k, v = (torch.randn(1, HEADS, LENGTH, HEAD_WIDTH, generator=rng) for _ in range(3))
        mask = torch.zeros(1, 1, LENGTH, LENGTH)
        wanted = F.scaled_dot_product_attention(q, k, v, mask, scale=1.0)
        if float((products(q, k, v, mask, 1.0)[0] - wanted).abs().max()) > AGREES * float(wanted.abs().max()):
            return 0.0
        for _ in range(ROUNDS):
            fused.append(_seconds(lambda: F.scaled_dot_product_attention(q, k, v, mask, scale=1.0)))
            other.append(_seconds(lambda: products(q, k, v, mask, 1.0)))
    return _gain(fused, other)


def choose(timings: Mapping[str, Timing]) -> Choice:
    """The fastest kernel that agrees with the plain one. A kernel has to be faster both in its best round and in the
    median of the rounds, each compared with the plain kernel in the same round, so that load on the machine does
    not decide."""
    plain = timings["plain"]
    gains = {
        name: _gain(plain.seconds, timing.seconds)
        for name, timing in timings.items()
        if name != "plain" and timing.difference <= AGREES
    }
    best = max(gains, key=lambda name: gains[name], default="plain")
    gflops = {name: timing.gflops for name, timing in timings.items()}
    if best == "plain" or gains[best] < GAIN:
        return Choice("plain", "plain", "measured: none is clearly faster", gflops)
    slower = _gain(timings[best].one_token, plain.one_token) >= GAIN
    reason = f"measured: {gains[best]:.2f} times plain, difference {timings[best].difference:.0e}"
    return Choice(best, "plain" if slower else best, reason, gflops)


def measure() -> dict[str, Timing]:
    """Time every kernel in turn, ROUNDS times, in one thread of the CPU. PyTorch's settings stay as they are."""
    before, names = torch.get_float32_matmul_precision(), list(SETTINGS)
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in names}
    results = dict[str, Tensor]()
    with _one_thread(), torch.inference_mode():
        many, one, weight = _operands()
        try:
            for turn in range(ROUNDS + 1):
                for name in names[turn % len(names) :] + names[: turn % len(names)]:  # no kernel is always the first
                    torch.set_float32_matmul_precision(SETTINGS[name])
                    if turn == 0:  # not timed: the first call sets up buffers and code
                        results[name] = F.linear(many, weight)
                        F.linear(one, weight)
                        continue
                    times[name][0].append(_seconds(lambda: F.linear(many, weight)))
                    times[name][1].append(_seconds(lambda: F.linear(one, weight)))
        finally:
            torch.set_float32_matmul_precision(before)
        plain = results["plain"]
        scale = float(plain.abs().max())
        differences = {name: float((results[name] - plain).abs().max()) / scale for name in names}
    return {name: Timing(*times[name], differences[name]) for name in names}


def batch_tokens(device: torch.device) -> int:
    """The number of tokens, padding included, that best go through a network at once without gradients: on a CPU few,
    since more of them leave its cache and take longer."""
    return 1024 if device.type == "cpu" else 8192


def mixed_precision(named: str, device: str = "cpu") -> str:
    """The precision of training as Accelerate names it ("no", "bf16", "fp16"), for the name in a recipe: "auto" is
    bfloat16 where the device has it natively and it is measured faster, else float32; it is float32 too where
    MASQUERADE_KERNEL is plain."""
    if named == "auto" and os.environ.get(VARIABLE) == "plain":
        return "no"
    if named == "auto":
        found = "bf16" if native_bfloat16(device) and bfloat16_gain(device) >= GAIN_BFLOAT16 else "no"
        log.info("training precision: %s", "bfloat16" if found == "bf16" else "float32")
        return found
    if ACCELERATE[named] == "bf16" and not native_bfloat16(device):
        log.warning("this device has no native bfloat16, so training may be many times slower than in float32")
    return ACCELERATE[named]


def native_bfloat16(device: str = "cpu") -> bool:
    """Does the device multiply bfloat16 matrices in hardware?"""
    if device == "cuda":
        return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 8
    return device == "cpu" and any(flag in cpu_flags() for flag in NATIVE_BFLOAT16)


@cache
def bfloat16_gain(device: str = "cpu") -> float:
    """How many times faster bfloat16 is than float32 with the kernel in use, measured once: all runs of a process have
    one precision. A device without it is never asked."""
    full, half = list[float](), list[float]()
    with _one_thread(), torch.inference_mode():
        many, _, weight = (each.to(device) for each in _operands())
        small = weight.bfloat16()
        for _ in range(ROUNDS + 1):
            full.append(_seconds(lambda: F.linear(many, weight), device))
            half.append(_seconds(lambda: F.linear(many.bfloat16(), small), device))
    return _gain(full[1:], half[1:])  # the first call sets up buffers and code


@cache
def cpu_model() -> str:
    """The name of the processor."""
    return _cpuinfo().get("model name") or platform.processor() or platform.machine() or "unknown"


@cache
def cpu_flags() -> tuple[str, ...]:
    """Those of FLAGS that the processor has."""
    info = _cpuinfo()
    listed = set((info.get("flags") or info.get("Features") or "").split())
    report: Callable[[], Mapping[str, object]] = getattr(torch.cpu, "get_capabilities", dict)  # PyTorch 2.10 and later
    listed |= {name for name, has in report().items() if has is True}
    return tuple(flag for flag in FLAGS if flag in listed)


def about() -> dict[str, str]:
    """What decides the speed on this machine: PyTorch, threads, processor, its flags, and the kernel in use."""
    choice = use()
    bfloat16 = f"native, {bfloat16_gain():.1f} times float32" if native_bfloat16() else "not native"
    return {
        "PyTorch": f"{torch.__version__}, {torch.get_num_threads()} threads",
        "CPU": cpu_model(),
        "flags": " ".join(cpu_flags()) or "unknown",
        "float32 kernel": str(choice),
        "attention": f"{choice.attention} (two products measured {choice.attention_gain:.2f} times as fast as fused)",
        "bfloat16": bfloat16,
    }


def _decide(kernel: str | None) -> Choice:
    """The choice that a call, the environment, or a measurement makes."""
    said, by = (kernel, "set in Python") if kernel else (os.environ.get(VARIABLE) or "auto", f"set by {VARIABLE}")
    if said in SETTINGS:
        return Choice(said, said, by)
    if said != "auto":
        where = "The kernel" if kernel else VARIABLE
        raise MasqueradeError(f"{where} is '{said}', but has to be auto, plain, high or medium.")
    own = torch.get_float32_matmul_precision()
    if kernel is None and own != "highest":  # set by the program that uses this package
        return Choice(own, own, "set before by torch.set_float32_matmul_precision")
    if torch.cuda.is_available():  # the same setting would round to TF32 there
        return Choice("plain", "plain", "a GPU is available")
    return choose(measure())


def _gain(slow: Sequence[float], fast: Sequence[float]) -> float:
    """How many times faster the second series is: in its best round or in the median of the rounds, whichever is
    less."""
    paired = median(one / other for one, other in zip(slow, fast, strict=True))
    return min(min(slow) / min(fast), paired)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute in one thread: several wait for each other on a busy machine, and one thread's CPU time is steady."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _operands() -> tuple[Tensor, Tensor, Tensor]:
    """Inputs (TOKENS, WIDTH) and (1, WIDTH) and a weight (INNER, WIDTH); PyTorch's own generator stays as it is."""
    rng = torch.Generator().manual_seed(0)
    many, weight = torch.randn(TOKENS, WIDTH, generator=rng), torch.randn(INNER, WIDTH, generator=rng)
    return many, many[:1].clone(), weight


def _seconds(run: Callable[[], object], device: str = "cpu") -> float:
    """The time of one call: of this thread's work on a CPU, by the clock on a GPU."""
    if device == "cpu":
        begun = time.thread_time()
        run()
        return time.thread_time() - begun
    torch.cuda.synchronize()
    begun = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - begun


@cache
def _cpuinfo() -> dict[str, str]:
    """The first processor's entry in /proc/cpuinfo; empty where there is no such file."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
