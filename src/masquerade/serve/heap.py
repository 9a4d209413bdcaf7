"""The memory that a process has freed, and keeps for later tensors."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Give freed memory back to the system, where the C library can. By itself it keeps it, in ever more and smaller
    pieces, since what is remembered lies between what was freed."""
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)
