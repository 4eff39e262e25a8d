"""The page of `eniac report` in a real browser: it draws, answers to pointer and keys, and fits."""

import pytest

from browser import CHROMIUM, Browser
from eniac import write_report
from fake_pages import write_claims, write_figures, write_runs

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium here (Debian's package chromium)"
)

CHART = '[data-curves="0"]'


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    results = write_claims(write_figures(folder / "results"))
    runs = write_runs(folder / "runs")
    return write_report([runs, results], folder / "page.html", in_detail=0).path


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def shown(browser, page):
    """The page on a laptop."""
    browser.open(page)
    return browser


def test_it_draws_everything_and_fetches_nothing(shown, page):
    assert shown.errors == []
    assert set(shown.requests) <= {"about:blank", page.as_uri()}
    assert shown.run("document.querySelectorAll('[data-curves] svg path').length") == 3
    # Each map has colours: of the grid, and not only of the frame around it.
    drawn = shown.run(
        "[...document.querySelectorAll('canvas[role=img]:not([hidden])')].map(c => new Set("
        "new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)"
        ").size)"
    )
    assert len(drawn) == 4  # visits; the dots and the two bonuses of Figure 3
    assert min(drawn) > 10


def test_the_pointer_reads_the_curves(shown):
    shown.point(f"{CHART} svg", across=0.97)
    said = shown.run(f"document.querySelector('{CHART} .tip').textContent")
    assert said == "steps: 30eniac: 10 [9, 11]ppo: 2 [2, 2]"
    shown.point("h1")
    assert shown.run(f"document.querySelector('{CHART} .tip').hidden")


def test_the_slider_reads_the_curves_with_the_keyboard_alone(shown):
    shown.run(f"document.querySelector('{CHART} input[type=range]').focus()")
    shown.key("ArrowRight")
    shown.key("ArrowRight")
    slider = f"document.querySelector('{CHART} input[type=range]')"
    told = shown.run(f"{slider}.getAttribute('aria-valuetext')")
    assert told == "steps: 30. eniac: 10 [9, 11]; ppo: 2 [2, 2]"
    assert shown.run(f"document.querySelector('{CHART} .read').textContent") == told


def test_methods_seeds_and_the_statistic_can_be_switched(shown):
    paths = f"document.querySelectorAll('{CHART} svg path').length"
    assert shown.run(paths) == 2
    shown.run(f"document.querySelector('{CHART} .keys input').click()")
    assert shown.run(paths) == 1
    shown.run("document.querySelector('[name=seeds]').click()")
    assert shown.run(paths) == 4
    seeds = f"document.querySelectorAll('{CHART} .keys .keys input')"
    shown.run(f"{seeds}[5].click()")
    assert shown.run(paths) == 3
    before = shown.run(f"document.querySelector('{CHART} svg polygon').getAttribute('points')")
    shown.run("document.querySelector('[name=statistic][value=mean]').click()")
    after = shown.run(f"document.querySelector('{CHART} svg polygon').getAttribute('points')")
    assert before != after
    assert shown.errors == []


def test_the_slider_goes_through_the_epochs(shown):
    slider = "document.querySelector('[data-places] input[type=range]')"
    picture = "document.querySelector('[data-places] canvas').toDataURL()"
    assert shown.run(f"{slider}.getAttribute('aria-valuetext')") == "Epoch 3 of 3"
    last = shown.run(picture)
    shown.run(f"{slider}.focus()")
    shown.key("ArrowLeft")
    assert shown.run(f"{slider}.getAttribute('aria-valuetext')") == "Epoch 2 of 3"
    one = shown.run(picture)
    assert one != last
    said = "document.querySelector('[data-places] .maps .read').textContent"
    assert shown.run(said) == "150 visits of 6 of 63 cells."
    shown.run("document.querySelector('[data-places] [value=sofar]').click()")
    assert shown.run(said) == "180 visits of 6 of 63 cells."
    # A cell is read with the arrow keys, from the middle of the map on.
    shown.run("document.querySelector('[data-places] canvas').focus()")
    shown.key("ArrowLeft")
    assert shown.run(said) == "position -0.5, velocity 0: 40 visits"


def test_the_whole_page_can_be_walked_with_the_tab_key(shown):
    reached = []
    for _ in range(60):
        shown.key("Tab")
        at = shown.run(
            "(() => { const e = document.activeElement, s = getComputedStyle(e); return "
            "[e.tagName, e.className, s.outlineStyle, parseFloat(s.outlineWidth)]; })()"
        )
        if at[0] == "BODY":
            break
        reached.append(at)
    names = [name for name, *_ in reached]
    assert reached[0][1] == "skip"
    assert {"A", "BUTTON", "INPUT", "SUMMARY", "CANVAS", "DIV"} <= set(names)
    assert all(style == "solid" and width >= 2 for *_, style, width in reached)


@pytest.mark.parametrize("dark", [False, True])
def test_it_is_light_or_dark_as_the_reader_wishes(dark, browser, page):
    def brightness():
        text = browser.run("getComputedStyle(document.body).backgroundColor")
        return sum(int(x) for x in text[4:-1].split(",")) / 765

    browser.open(page, dark=dark)
    assert (brightness() < 0.5) == dark
    assert contrast(browser) >= 4.5
    browser.run("document.getElementById('theme').click()")
    assert (brightness() < 0.5) != dark
    assert contrast(browser) >= 4.5
    assert browser.errors == []


def contrast(browser):
    """The least contrast of any text with the page, by the rule of WCAG 2."""
    return browser.run(
        """(() => {
          const light = (text) => {
            const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
            const [r, g, b] = text.match(/[0-9.]+/g).map((x) => linear(x / 255));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
          };
          const paper = light(getComputedStyle(document.body).backgroundColor);
          const texts = [...document.querySelectorAll("main *")].filter((e) =>
            [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()));
          return Math.min(...texts.map((e) => {
            const own = light(getComputedStyle(e)[e instanceof SVGElement ? "fill" : "color"]);
            return Math.max(own, paper) / Math.min(own, paper);
          }));
        })()"""
    )


def test_it_fits_on_a_telephone(browser, page):
    browser.open(page, width=390, height=800)
    browser.run("document.querySelectorAll('details').forEach(x => x.open = true)")
    browser.settle()
    assert browser.run("innerWidth") == 390
    assert browser.run("document.documentElement.scrollWidth") == 390
    outside = browser.run(
        "[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, nav, .skip') &&"
        " e.getBoundingClientRect().right > 390.5).map(e => e.outerHTML.slice(0, 80))"
    )
    assert outside == []
    assert browser.errors == []
