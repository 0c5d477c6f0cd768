"""The page in a real browser: what it asks for, how it fits, and what a screen reader gets."""

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, Locator

from bertscore_beam.pages.page import render
from bertscore_beam.pages.report_rows import collect
from bertscore_core.explanations import explanation
from bertscore_core.explanations.explanation import (
    ExplainedPair,
    ExplainedText,
    Explanation,
    Measures,
)
from tests.support.browsers import chromium, opened
from tests.support.mornings import morning
from tests.support.report_data import TEXTS, made_report

pytestmark = [pytest.mark.process, pytest.mark.long]

WIDTHS = {"phone": 375, "tablet": 820, "desktop": 1440}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        if found is None:
            pytest.skip(
                "no Chromium: install one (apt-get install chromium), or name it: CHROMIUM=PATH"
            )
        yield found


@pytest.fixture(scope="module", params=[True, False], ids=["texts", "no_texts"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(made_report(with_texts=request.param)), encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
def test_a_page_of_hostile_texts_asks_for_nothing_and_runs_nothing(browser, page, width, dark):
    with opened(browser, page, width=width, dark=dark) as seen:
        seen.page.wait_for_load_state("networkidle")
        assert seen.requests == [page.as_uri()]
        assert seen.messages == []
        assert seen.page.title() == "2026-11-20"
        assert seen.page.locator("script, img, iframe, object").count() == 0


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS.keys())
def test_a_page_fits_its_width(browser, page, width):
    with opened(browser, page, width=width) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") == width
        # Charts are there once each, at a size that can be read.
        shown = seen.page.locator("figure svg:visible")
        assert shown.count() == seen.page.locator("figure").count()
        scale = "svg => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width"
        assert all(each.evaluate(scale) > 0.85 for each in shown.all())


@pytest.mark.parametrize("font", ["", "DejaVu Sans", "DejaVu Sans Mono"])
@pytest.mark.parametrize("width", [390, 1280])
def test_labels_lie_inside_their_charts_and_f1_beside_its_name(browser, page, width, font):
    with opened(browser, page, width=width) as seen:
        seen.page.evaluate(
            "font => document.querySelectorAll('text').forEach(one => one.style.fontFamily = font)",
            font,
        )
        outside = """() => [...document.querySelectorAll("figure svg")].flatMap(svg => {
            const chart = svg.getBoundingClientRect();
            return [...svg.querySelectorAll("text")].filter(text => {
                const box = text.getBoundingClientRect();
                return box.left < chart.left - 1 || box.right > chart.right + 1;
            }).map(text => text.textContent);
        })"""
        assert seen.page.evaluate(outside) == []
        cells = seen.page.locator("#groups-table ~ tbody tr:first-child td")
        assert cells.nth(1).text_content() == "[0.8460, 0.8540]"
        box = cells.nth(1).bounding_box()
        assert box["x"] + box["width"] <= width
        # The answer is on the first screen.
        assert seen.page.locator(".answer").bounding_box()["y"] < 300


@pytest.fixture(scope="module")
def last_night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page about three nights of 24 groups, in the last of which one is worse."""
    options = morning(tmp_path_factory.mktemp("nights"))
    path = Path(options.output)
    path.write_text(render(collect(options)), encoding="utf-8")
    return path


def _bottom(found: Locator) -> float:
    box = found.bounding_box()
    assert box is not None
    return float(box["y"] + box["height"])


# It was 25,872 and 42,833 pixels long, with everything unfolded.
@pytest.mark.parametrize(("width", "screen", "most"), [(1280, 900, 8_000), (390, 1700, 14_500)])
def test_a_morning_is_read_on_the_first_screen(browser, last_night, width, screen, most):
    with opened(browser, last_night, width=width) as seen:
        page = seen.page
        assert page.locator(".verdict").first.text_content() == "Worse: the gate is not passed"
        changed = page.locator(".changed li")
        names = [one.text_content().split(":")[0] for one in changed.all()]
        assert names == ["worse llm-y / en-zh", "better nmt / ro-en"]
        first = page.locator("section[aria-labelledby=moved] li").first
        assert "llm-y / en-zh" in first.text_content()
        assert _bottom(changed.last) < _bottom(first) < screen
        assert page.evaluate("document.documentElement.scrollHeight") < most
        assert page.evaluate("document.documentElement.scrollWidth") == width
        # Of each kind five segments are open, and the others are opened without a script.
        for folded in page.locator("ol + details").all():
            hidden = folded.locator("li").first
            assert not hidden.is_visible()
            folded.locator("summary").press("Enter")
            assert hidden.is_visible()
        assert page.locator("ol + details").count() == 4


def test_what_is_folded_is_printed(browser, last_night):
    shown = "each => each.checkVisibility({contentVisibilityAuto: true})"
    with opened(browser, last_night) as seen:
        folded = seen.page.locator("details li").first
        assert not folded.evaluate(shown)
        seen.page.emulate_media(media="print")
        assert folded.evaluate(shown)
        assert folded.bounding_box()["height"] > 50


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_edge_of_a_table_that_scrolls_hides_no_column(browser, last_night, width, dark):
    """Text can be read over the shadow at the edge, and at the end there is none."""
    with opened(browser, last_night, width=width, dark=dark) as seen:
        region = seen.page.locator(".scroll:has(#groups-table)")
        text = np.array([232, 234, 237] if dark else [27, 31, 36])
        page = np.array([20, 23, 27] if dark else [255, 255, 255])
        assert region.evaluate("each => each.scrollWidth > each.clientWidth + 50")
        edge = _edge(region)
        assert not (edge == page).all()
        assert min(_contrast(text, column) for column in edge) > 7
        region.evaluate("each => each.scrollLeft = each.scrollWidth")
        end = region.bounding_box()["x"] + region.bounding_box()["width"]
        last = region.locator("tbody tr").first.locator("td").last.bounding_box()
        assert last["x"] + last["width"] == pytest.approx(end, abs=1)
        assert (_edge(region) == page).all()


def _edge(region: Locator) -> npt.NDArray[np.float64]:
    """Return the colours of the last columns of pixels where there is no text. Shape (8, 3)."""
    pixels = np.array(Image.open(io.BytesIO(region.screenshot())).convert("RGB"))
    return np.median(pixels[80:-40, -9:-1], axis=0)


def _contrast(one: npt.NDArray[np.generic], other: npt.NDArray[np.generic]) -> float:
    """Return the contrast of two colours as WCAG 2 has it."""
    linear = [
        np.where(of <= 10, of / 3294, ((of / 255 + 0.055) / 1.055) ** 2.4) for of in (one, other)
    ]
    dim, bright = sorted(float(of @ [0.2126, 0.7152, 0.0722]) for of in linear)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [375, 1440])
def test_a_page_has_no_barrier_that_axe_finds(browser, page, width, dark):
    # axe runs as a script of the test, so the page's own policy is not in force.
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        bypass_csp=True,
    )
    with context.new_page() as tab:
        tab.goto(page.as_uri())
        found = Axe().run(tab)
        assert [one["id"] for one in found.response["violations"]] == [], found.generate_report()
        assert len(found.response["passes"]) > 20
    context.close()


def test_every_region_that_scrolls_is_reached_by_keyboard(browser, page):
    with opened(browser, page, width=375) as seen:
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.activeElement.textContent") == "Skip to the content"
        seen.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        regions = seen.page.locator(".scroll")
        assert regions.count() > 5
        for region in regions.all():
            region.focus()
            assert region.evaluate("each => each === document.activeElement")
            assert region.evaluate("each => getComputedStyle(each).outlineStyle") == "solid"


def test_dark_and_light_differ_and_print_is_light(browser, page):
    colour = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, page, dark=True) as seen:
        assert seen.page.evaluate(colour) == "rgb(20, 23, 27)"
        seen.page.emulate_media(media="print", color_scheme="dark")
        assert seen.page.evaluate(colour) == "rgb(255, 255, 255)"
        assert not seen.page.locator("nav").is_visible()
        assert len(seen.page.pdf(format="A4")) > 10_000
    with opened(browser, page) as seen:
        assert seen.page.evaluate(colour) == "rgb(255, 255, 255)"


def test_texts_keep_their_direction_and_their_words(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render(made_report(with_texts=True)), encoding="utf-8")
    with opened(browser, path) as seen:
        texts = seen.page.locator("section[aria-labelledby=rows] .text")
        for language, direction, words in (("ar", "rtl", TEXTS[0]), ("ja", "ltr", TEXTS[1])):
            first = seen.page.locator(f"dt:text-is('Candidate') + .text[lang={language}]").first
            assert first.evaluate("each => getComputedStyle(each).direction") == direction
            assert first.text_content() == words.candidate
        assert seen.page.get_by_text(TEXTS[4].candidate, exact=True).count() > 0
        assert texts.count() > 20


def test_an_explanation_fits_a_phone_and_no_letter_lies_on_a_number(browser, tmp_path):
    tokens = tuple(f"{word}-{n}" for n, word in enumerate(["Donaudampfschifffahrt", "sat"] * 6))
    cosines = np.linspace(-1, 1, 144, dtype=np.float32).reshape(12, 12)
    matches = cosines.argmax(axis=1)
    text = ExplainedText(
        text="Donaudampfschifffahrtsgesellschaft " * 6,
        tokens=tokens,
        weights=np.ones(12, np.float32),
        matches=matches,
        similarities=cosines.max(axis=1),
        windows=np.zeros(12, np.int64),
        truncated=True,
    )
    scores = Measures(0.123456, 0.234567, 0.345678)
    sides = {"candidate": text, "reference": text, "similarities": cosines, "rule": None}
    explained = Explanation(
        pairs=(ExplainedPair(raw=scores, scores=scores, **sides),),
        scores=scores,
        raw=scores,
        best=(0, 0, 0),
        baseline=scores,
        model="m" * 90,
        num_layers=9,
        idf=True,
    )
    path = tmp_path / "explanation.html"
    notes = ("signature: " + "bertscore|" * 30,)
    path.write_text(explanation.page([("news.parquet:17", notes, explained)], "A title"))
    with opened(browser, path, width=390) as seen:
        seen.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert seen.page.evaluate("document.documentElement.scrollWidth") == 390
        overlapping = """() => [...document.querySelectorAll("td.m")].filter(cell => {
            const digits = document.createRange();
            digits.selectNode(cell.firstChild);
            const box = digits.getBoundingClientRect(), letters = cell.lastElementChild;
            const next = letters.getBoundingClientRect(), own = cell.getBoundingClientRect();
            return box.right > next.left - 1 || box.left < own.left || next.right > own.right;
        }).length"""
        assert seen.page.locator("td.m b").count() >= 12
        assert seen.page.evaluate(overlapping) == 0
        assert seen.requests == [path.as_uri()]
