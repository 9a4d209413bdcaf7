"""The page in a real browser: every tab, both languages, hostile texts, a phone, the keyboard; no request leaves
loopback. Without Chromium or playwright these tests are skipped. With MASQUERADE_SCREENSHOTS=folder the pictures of the
docs are written there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from collection_cases import write_folder
from entity_cases import knowledge
from page_cases import MARKS, SECONDS, Visit, expect, launched, shot
from pdf_files import write_pdf
from serve_cases import PASSAGE, Running, Service, plain_folder, sources, trained_facts

from masquerade import KnowledgeBase, load, save
from masquerade.writing.settings import WritingSettings

pytestmark = MARKS
HOSTILE = "<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("page")
    write_folder(folder / "documents")
    (folder / "hostile.md").write_text(f"# {HOSTILE}\n\nThe lantern of Arvik is hostile. {HOSTILE}\n")
    for name, source in (("kb", "documents"), ("hostile", "hostile.md")):
        with KnowledgeBase.open(folder / name, create=True) as base:
            base.update([str(folder / source)])
    knowledge(folder / "facts").close()
    plain = plain_folder(folder / "plain")
    save(WritingSettings(training="masked", target_length=8).put(load(plain)), folder / "writer")
    more = {
        "writers": {"titles": str(folder / "writer")},
        "fillers": {"bert": plain}, "generators": {"bert": plain},
        "collections": {"town": str(folder / "kb"), "hostile": str(folder / "hostile")},
        "facts": {"world": (trained_facts(folder / "facts"), str(folder / "facts" / "kb"))},
    }  # fmt: skip
    shots = os.environ.get("MASQUERADE_SCREENSHOTS")
    made = sources(folder, **more)
    if shots:  # the docs show answers of the shipped models
        made = replace(made, readers={"en": "en", "zh": "zh"}, writers={"title-en": "title-en"})
    with Running(Service(made)) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as found:
        yield found


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_document_is_asked_and_decoders_are_compared(browser: Any, service: Running, language: str) -> None:
    with Visit(browser, service, f"lang={language}") as page:
        page.click("#ask-button")
        assert page.locator(".answer").count() == 0  # nothing is sent without a question
        page.fill("#question", "?")
        page.click("#ask-button")
        expect(page.locator("#alert")).to_contain_text("还没有文本" if language == "zh" else "no text yet")
        shot(page, f"empty-{language}")
        page.click("#try")
        text = page.input_value("#text")
        assert re.search("[一-鿿]", text) if language == "zh" else "Rosetta" in text
        page.wait_for_selector(".answer .said", timeout=SECONDS)
        assert page.is_hidden("#alert")
        shown = page.inner_text("#shown mark:not(.other)") if page.query_selector("#shown mark:not(.other)") else ""
        said = page.inner_text(".answer .said")
        assert shown == said or shown == ""
        assert page.get_attribute("#answers", "aria-live") == "polite"
        assert ("置信度" if language == "zh" else "Confidence") in page.inner_text(".answer")
        page.click(".compare")
        page.wait_for_selector(".lane .token.on", timeout=SECONDS)
        assert page.locator(".lane").count() == 3 and page.locator(".compared table tbody tr").count() == 3
        expect(page.locator(".lane .token:not(.on)")).to_have_count(0, timeout=SECONDS)  # the animation has ended
        shot(page, f"ask-{language}", whole=True)
        page.fill("#question", "?" if language == "en" else "首都？")
        page.click("#ask-button")
        expect(page.locator(".answer")).to_have_count(2, timeout=SECONDS)
        assert ("已读过" if language == "zh" else "read before") in page.inner_text(".answer >> nth=0")
        page.fill("#text", "") if page.is_visible("#text") else page.click(
            "text=" + ("编辑文本" if language == "zh" else "Edit")
        )
        page.fill("#text", "x")
        if page.locator(".answer >> nth=1 >> .link").count():  # an earlier answer still shows its own text
            page.click(".answer >> nth=1 >> .link")
            assert len(page.inner_text("#shown")) > 100


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_pdf_is_dropped_and_its_answer_has_a_page(
    browser: Any, service: Running, language: str, tmp_path: Path
) -> None:
    file = write_pdf(tmp_path / "two.pdf", [["the cat sat on a red mat"], ["two old dogs walk in by the sea"]])
    with Visit(browser, service, f"lang={language}") as page:
        data = page.evaluate_handle(
            """numbers => {
                const data = new DataTransfer();
                data.items.add(new File([new Uint8Array(numbers)], "two.pdf"));
                return data;
            }""",
            list(file.read_bytes()),
        )
        page.dispatch_event("#text", "drop", {"dataTransfer": data})
        expect(page.locator("#filename")).to_contain_text("two.pdf", timeout=SECONDS)
        assert "red mat" in page.input_value("#text") and "two old dogs" in page.input_value("#text")
        page.fill("#question", "who sat ?")
        page.select_option("#decoder", "rerank")  # with an answer also where the tiny reader refuses
        page.click("#ask-button")
        page.wait_for_selector(".answer .said", timeout=SECONDS)
        expect(page.locator(".answer")).to_contain_text(re.compile("第 [12] 页" if language == "zh" else "page [12]"))
        assert page.is_visible("#unshared")  # the address holds no files


def test_the_address_holds_the_view(browser: Any, service: Running) -> None:
    with Visit(browser, service) as page:
        page.fill("#text", PASSAGE)
        page.fill("#question", "who sat ?")
        page.select_option("#decoder", "blocks")
        page.click("#ask-button")
        page.wait_for_selector(".answer", timeout=SECONDS)
        assert page.is_hidden("#unshared")
        state = urlsplit(page.url).fragment
    with Visit(browser, service, state) as page:  # as somebody sees it who was sent the address
        page.wait_for_selector(".answer", timeout=SECONDS)
        assert page.input_value("#text") == PASSAGE and page.input_value("#question") == "who sat ?"
        assert page.input_value("#decoder") == "blocks"
        page.click("#language")
        expect(page.locator(".answer")).to_contain_text("置信度", timeout=SECONDS)
        page.evaluate("location.hash = 'tab=masks&mask=causal&lang=en'")
        expect(page.locator("#caption")).to_contain_text("GPT", timeout=SECONDS)
    with Visit(browser, service, "tab=collection&kb=town&kq=lighthouse&km=search") as page:
        page.wait_for_selector(".passage", timeout=SECONDS)
        assert page.locator("#found .said").count() == 0
    with Visit(browser, service, "tab=fill&ft=the [MASK] sat") as page:
        page.wait_for_selector("#filled .meter", timeout=SECONDS)


def test_what_an_address_cannot_hold_is_told(browser: Any, service: Running) -> None:
    with Visit(browser, service) as page:
        page.fill("#text", "the cat sat . " * 500)
        page.fill("#question", "who sat ?")
        page.click("#ask-button")
        page.wait_for_selector(".answer", timeout=SECONDS)
        assert page.is_visible("#unshared") and "text=" not in page.url and "q=who" in page.url


def test_errors_are_said_in_the_language_of_the_page(browser: Any, service: Running) -> None:
    with Visit(browser, service, "lang=zh", refused=True) as page:
        page.fill("#text", PASSAGE)
        page.fill("#question", "cat " * 300)
        page.click("#ask-button")
        expect(page.locator("#alert")).to_contain_text("有一项填写不正确", timeout=SECONDS)
        assert "question_tokens" in page.inner_text("#alert")
        page.route("**/v1/answer", lambda route: route.abort())
        page.fill("#question", "who sat ?")
        page.click("#ask-button")
        expect(page.locator("#alert")).to_contain_text("无法连接服务", timeout=SECONDS)
        assert page.is_enabled("#ask-button")


def test_the_token_is_asked_for_until_it_is_right(browser: Any, tmp_path: Path) -> None:
    with Running(Service(sources(tmp_path), token="secret")) as guarded:
        context = browser.new_context(locale="zh-CN")
        page = context.new_page()
        page.goto(guarded.address)
        page.wait_for_selector("#token[open]", timeout=SECONDS)
        assert page.inner_text("#token-wrong") == ""
        page.fill("#token-value", "wrong")
        page.press("#token-value", "Enter")
        expect(page.locator("#token-wrong")).to_have_text("服务拒绝了该令牌。", timeout=SECONDS)
        page.fill("#token-value", "secret")
        page.press("#token-value", "Enter")
        page.wait_for_selector("body[data-ready]", timeout=SECONDS)
        assert page.locator("#decoder option").count() > 3 and "secret" not in page.url
        context.close()


def test_hostile_texts_are_shown_and_not_run(browser: Any, service: Running) -> None:
    with Visit(browser, service) as page:
        page.fill("#text", f"the cat sat {HOSTILE} on a mat .")
        page.fill("#question", f"who {HOSTILE[:60]} ?")
        page.click("#ask-button")
        page.wait_for_selector(".answer", timeout=SECONDS)
        assert "<img" in page.inner_text("#shown") and "<img" in page.inner_text(".answer")
        data = f"<title>{HOSTILE.replace('<', '&lt;')}</title><p>red mat".encode()
        name = "<b>x<img src=y onerror=alert(1)>.html"
        page.set_input_files("#file", [{"name": name, "mimeType": "text/html", "buffer": data}])
        expect(page.locator("#filename")).to_contain_text(".html", timeout=SECONDS)
        assert page.locator("#filename *").count() == 0 and "onerror" in page.inner_text("#filename")
        page.click("#tab-masks")
        page.fill("#mask-text", f"a {HOSTILE}")
        expect(page.locator("#mask-table")).to_contain_text("script", timeout=SECONDS)
        page.click("#tab-collection")
        page.select_option("#kb", "hostile")
        page.fill("#query", "lantern hostile")
        page.click("#search-button")
        page.wait_for_selector(".passage", timeout=SECONDS)
        assert "<script>" in page.inner_text("#found") and page.locator("main img, main script").count() == 0


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_collection_is_searched_and_its_citation_opens_the_passage(
    browser: Any, service: Running, language: str
) -> None:
    question = "谁设计了赵州桥？" if language == "zh" else "Who opened the harbour of Arvik?"
    with Visit(browser, service, f"tab=collection&lang={language}") as page:
        page.fill("#query", question)
        page.press("#query", "Enter")
        page.wait_for_selector("#found .said", timeout=SECONDS)
        assert ("赵州桥" if language == "zh" else "Queen Ingrid") in page.locator("#found").text_content()
        if page.locator(".cite").count():
            page.locator(".cite").first.click()
            assert page.locator(".passage[open] mark").count() == 1
        shot(page, f"collection-{language}", whole=True)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_mask_is_drawn_and_a_row_tells_what_it_sees(browser: Any, service: Running, language: str) -> None:
    with Visit(browser, service, f"tab=masks&mask=blocks&lang={language}", color_scheme="dark") as page:
        page.wait_for_selector("#mask-table tbody tr", timeout=SECONDS)
        rows = page.locator("#mask-table tbody tr").count()
        page.focus("#matrix")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        seen = page.inner_text("#sees")
        assert (
            seen.startswith("2 坐" if language == "zh" else "2 cat")
            and ("看见" if language == "zh" else "sees") in seen
        )
        assert ("块扩散" if language == "zh" else "Block diffusion") in page.inner_text("#caption")
        page.focus("#sliders input")
        page.keyboard.press("ArrowRight")
        page.wait_for_url(re.compile(r"m\.block=3"), timeout=SECONDS)
        page.select_option("#constructor", "shared_passage")
        expect(page.locator("#mask-table tbody tr")).not_to_have_count(rows, timeout=SECONDS)
        assert page.evaluate("document.querySelector('#matrix').width") > 100
        page.focus("#matrix")
        for _ in range(12):
            page.keyboard.press("ArrowDown")
        assert page.inner_text("#sees").startswith("12 ")
        shot(page, f"masks-{language}", whole=True)
        page.hover("#matrix", position={"x": 150, "y": 150})
        assert not page.inner_text("#sees").startswith("12 ")
        with page.expect_download() as download:
            page.click("#export")
        assert Path(download.value.path()).read_text().startswith("<svg")
        page.hover("#mask-table tbody tr >> nth=2")
        assert page.inner_text("#sees").startswith("3 ")
        page.fill("#mask-text", "the cat sat on the mat | " + "who sat ? " * 20)
        expect(page.locator("#mask-table tbody tr")).to_have_count(6 + 1 + 2 * (60 + 5), timeout=SECONDS)
        page.click("#code >> xpath=../summary")
        assert "def shared_passage" in page.inner_text("#code")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_texts_are_filled_and_continued(browser: Any, service: Running, language: str) -> None:
    with Visit(browser, service, f"tab=fill&lang={language}") as page:
        page.click("#fill-button")
        page.wait_for_selector("#filled .meter", timeout=SECONDS)
        assert page.locator("#filled .meter").count() == 8 and "%" in page.inner_text("#filled")
        page.click("#tab-write")
        page.fill("#prompt", "the cat")
        page.fill("#max-new", "5")
        page.click("#generate-button")
        expect(page.locator("#generated")).to_contain_text(re.compile(".{9,}", re.DOTALL), timeout=SECONDS)
        assert page.inner_text("#generated").startswith("the cat")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_title_is_written_and_kept_in_the_address(browser: Any, service: Running, language: str) -> None:
    text = "The harbour of Arvik was opened by Queen Ingrid in 1931, and its lighthouse stands on the northern pier."
    text = "北京是中国的首都。" if language == "zh" else text
    with Visit(browser, service, f"tab=write&lang={language}") as page:
        assert ("标题" if language == "zh" else "title") in page.inner_text("#write")
        page.click("#write-button")
        assert page.locator("#written .answer").count() == 0  # an empty text is not sent
        page.fill("#write-text", text)
        page.click("#write-button")
        expect(page.locator("#written .answer")).not_to_have_count(0, timeout=SECONDS)
        assert page.get_attribute("#written", "aria-live") == "polite"
        assert page.locator("#written .meter").count() == page.locator("#written .answer").count()
        assert re.search(r"\d (毫秒|秒)" if language == "zh" else r"\d m?s", page.inner_text("#written"))
        shot(page, f"write-{language}")
        state = urlsplit(page.url).fragment
    with Visit(browser, service, state) as page:
        assert page.input_value("#write-text") == text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_changed_fact_changes_the_answer(browser: Any, service: Running, language: str) -> None:
    with Visit(browser, service, f"tab=memory&lang={language}") as page:
        page.wait_for_selector("#facts tbody tr", timeout=SECONDS)
        name, old, new = ("北京", "中国", "Germany") if language == "zh" else ("Paris", "France", "Germany")
        page.fill("#memory-text", f"{name} is the capital of [MASK].")
        page.click("#recall-button")
        expect(page.locator("#recalled .out").first).to_have_text(f"{name} is the capital of {old}.", timeout=SECONDS)
        assert f"{name} — capital of — {old}" in page.locator("#recalled table").first.text_content()
        field = page.get_by_label(f"{name} capital of").first
        field.fill(new)
        field.locator("xpath=../..").locator("button").click()
        expect(page.locator("#recalled .out").first).to_have_text(f"{name} is the capital of {new}.", timeout=SECONDS)
        expect(page.locator("#recalled .out").nth(1)).to_have_text(f"{name} is the capital of {old}.")
        assert page.locator("tr.changed").count() == 1
        assert ("之前" if language == "zh" else "Before") in page.inner_text("#recalled")
        shot(page, f"memory-{language}")


def test_a_phone_the_keyboard_and_the_theme(browser: Any, service: Running) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with Visit(browser, service, **phone) as page:
        for name in ("ask", "collection", "masks", "write", "fill", "memory"):
            page.click(f"#tab-{name}")
            page.wait_for_timeout(150)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
            edge = page.evaluate(f"document.getElementById('tab-{name}').getBoundingClientRect().right")
            assert edge <= 390, name
        assert page.evaluate("document.querySelector('.bar').offsetHeight") < 70  # one line
        page.click("#tab-ask")
        page.click("#try")
        page.wait_for_selector(".answer .said", timeout=SECONDS)
        shot(page, "phone", whole=True)
        page.focus("#tab-ask")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.id") == "tab-collection"
        assert page.is_visible("#collection") and not page.is_visible("#ask")
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.click("#theme")
        page.click("#theme")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
        page.click("#language")
        assert page.inner_text("#tab-collection") == "文库"
