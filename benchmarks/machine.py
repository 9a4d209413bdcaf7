"""What a benchmark ran on, for its output: processor, flags that matter, PyTorch, and the kernel in use."""

from __future__ import annotations

from masquerade.kernels import about


def machine() -> str:
    """One line for each fact about the machine."""
    return "\n".join(f"{name}: {value}" for name, value in about().items())


if __name__ == "__main__":
    print(machine())
