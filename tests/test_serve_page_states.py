"""The page where something is missing: no model, no service, models that still load; and links to what is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from page_cases import MARKS, SECONDS, Visit, expect, launched, shot
from serve_cases import PASSAGE, Running, Service, sources

pytestmark = MARKS


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(Service(sources(tmp_path_factory.mktemp("states")))) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as found:
        yield found


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_tab_without_a_model_says_how_to_start_the_service_with_one(
    browser: Any, service: Running, language: str
) -> None:
    wanted = {"collection": "--kb", "write": "--writer", "fill": "--fill", "memory": "--facts"}
    with Visit(browser, service, f"lang={language}") as page:
        for name, option in wanted.items():
            page.click(f"#tab-{name}")
            assert option in page.inner_text(f"#{name} pre")
            assert ("没有加载" if language == "zh" else "without a model") in page.inner_text(f"#{name}")
            assert page.inner_text(f"#{name} .intro")
        shot(page, f"missing-{language}")


def test_the_link_to_what_is_shown_is_copied(browser: Any, service: Running) -> None:
    with Visit(browser, service) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.fill("#text", PASSAGE)
        page.click("#share")
        expect(page.locator("#share")).to_have_text("Copied", timeout=SECONDS)
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == page.url and "text=the+cat" in copied
        expect(page.locator("#share")).to_have_text("Copy link", timeout=SECONDS)


def test_models_that_still_load_are_waited_for(browser: Any, service: Running) -> None:
    context = browser.new_context(locale="en-US")
    page, asked = context.new_page(), list[int]()

    def reply(route: Any) -> None:
        asked.append(1)
        if len(asked) > 1:
            route.continue_()
            return
        said = {"error": "The models are being loaded.", "error_type": "not_ready"}
        route.fulfill(status=503, content_type="application/json", body=json.dumps(said))

    page.route("**/v1/models", reply)
    page.goto(service.address)
    expect(page.locator("#starting")).to_have_text("The models are being loaded.", timeout=SECONDS)
    assert page.is_hidden("#alert")
    page.wait_for_selector("body[data-ready]", timeout=SECONDS)
    assert page.is_hidden("#starting") and page.is_visible("#ask-button") and len(asked) == 2
    context.close()


def test_an_error_can_be_closed_and_moves_nothing(browser: Any, service: Running) -> None:
    with Visit(browser, service) as page:
        page.fill("#question", "who ?")
        before = page.locator("#ask-button").bounding_box()
        page.click("#ask-button")
        expect(page.locator("#alert")).to_contain_text("no text yet", timeout=SECONDS)
        assert page.locator("#ask-button").bounding_box() == before
        page.click("#alert button")
        assert page.is_hidden("#alert")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(browser: Any, service: Running, theme: str) -> None:
    """Contrast of at least 4.5 to 1, as WCAG asks for texts, of every kind of word on the page."""
    contrast = """selector => {
        const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
        const light = (colour) => {
            const [r, g, b] = numbers(colour).slice(0, 3).map((each) => each / 255)
                .map((each) => (each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const element = document.querySelector(selector);
        let behind = element;
        while ((numbers(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0) behind = behind.parentElement;
        const pair = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor].map(light);
        return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    }"""
    with Visit(browser, service, color_scheme=theme) as page:
        page.fill("#text", PASSAGE)
        page.fill("#question", "who sat ?")
        page.select_option("#decoder", "rerank")
        page.click("#ask-button")
        page.wait_for_selector(".answer mark, #shown mark, .said.none", timeout=SECONDS)
        words = [".intro", "h1", ".brand span", "#tab-ask", "#tab-masks", ".answer .said", ".answer .soft", "#question"]
        words += [
            "#ask-button",
            "#shown",
            "label span",
            *(["#shown mark"] if page.query_selector("#shown mark") else []),
        ]
        for selector in words:
            assert page.evaluate(contrast, selector) >= 4.5, selector
