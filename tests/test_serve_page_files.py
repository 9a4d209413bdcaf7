"""The files of the page: words in both languages, nothing from outside, no HTML made of strings."""

from __future__ import annotations

import re
from pathlib import Path


def test_every_word_is_there_in_both_languages() -> None:
    folder = Path(__file__).parents[1] / "src/masquerade/serve/page"
    words = (folder / "words.js").read_text(encoding="utf-8")
    english, chinese = words[words.index("  en: {") : words.index("  zh: {")], words[words.index("  zh: {") :]
    keys = [set(re.findall(r'(?:^|[ {,])"?([\w.]+)"?: "', part)) for part in (english, chinese.split("\nexport")[0])]
    assert keys[0] - {"en"} == keys[1] - {"zh"}
    used = {name for file in folder.glob("*.js") for name in re.findall(r'\bt\("([\w.]+)"\)', file.read_text())}
    used |= set(re.findall(r'data-t="(\w+)"', (folder / "index.html").read_text()))
    assert used <= keys[0]
    code = "".join(file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name != "words.js")
    code += words[words.index("export const language") :]
    named = {key for key in keys[0] if "." not in key}  # these are made of names
    named -= {"en", "page", "paragraph", "item"}  # units come from the service
    assert all(re.search(rf"""["'{{ ]{key}["':]""", code) for key in named)


def test_every_error_has_a_chinese_sentence() -> None:
    serve = Path(__file__).parents[1] / "src/masquerade/serve"
    known = set(re.findall(r'(\w+): "', (serve / "page/problems.js").read_text(encoding="utf-8")))
    code = "".join(file.read_text(encoding="utf-8") for file in serve.rglob("*.py"))
    kinds = set(re.findall(r'ServiceError\(\s*(?:\d{3}|late),\s*"(\w+)"', code))
    kinds |= set(re.findall(r'\d{3}: "(\w+)"', code)) | set(re.findall(r'\d{3}: \(\s*"[^"]+",\s*"(\w+)"', code))
    assert {"too_large", "timeout", "unknown_path", "internal"} <= kinds <= known


def test_every_mask_has_a_chinese_caption_and_an_example_that_can_be_drawn() -> None:
    from masquerade.drawing.gallery import EXAMPLES, picture

    file = Path(__file__).parents[1] / "src/masquerade/serve/page/captions.js"
    text = file.read_text(encoding="utf-8")
    sentence = re.search(r'SENTENCE = "(.+)"', text)
    assert sentence is not None
    found = {name: (caption, example) for name, caption, example in re.findall(r'  (\w+): \["(.+?)", (.+?)\],', text)}
    assert set(found) == set(EXAMPLES)
    for name, (caption, example) in found.items():
        assert re.search("[一-鿿]", caption) and caption.endswith("。"), name
        drawn = picture(name, sentence[1] if example == "SENTENCE" else example.strip('"'))
        assert any(re.search("[一-鿿]", token) for token in drawn.columns), name


def test_the_page_asks_for_nothing_outside_and_makes_no_html_of_strings() -> None:
    folder = Path(__file__).parents[1] / "src/masquerade/serve/page"
    for file in folder.iterdir():
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text and "https:" not in text, file.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text), file.name
