"""What `make ask` runs: draw the mask of the reader, then answer questions from the texts in this folder."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUESTIONS = {
    "examples/rosetta.txt": ["Who announced how hieroglyphs work?", "Where was the stone shown in 1972?"],
    "examples/dujiangyan.txt": ["谁带领百姓修建了都江堰？", "宝瓶口有多宽？"],
}


def run(*words: str) -> None:
    """Print a command as it is typed, and run it."""
    quoted = (f'"{word}"' if not word.isascii() or set(word) & set(" [|?") else word for word in words)
    print(f"\n$ masquerade {' '.join(quoted)}", flush=True)
    subprocess.run([sys.executable, "-m", "masquerade", *words], check=True, cwd=ROOT)


def main() -> None:
    """Draw the mask of questions that share a passage, and answer questions from each text."""
    run("draw", "shared_passage", "--text", "Young read a name | who ? | what ?")
    for text, questions in QUESTIONS.items():
        for question in questions:
            run("ask", question, "--in", text)


if __name__ == "__main__":
    main()
