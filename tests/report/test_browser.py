"""The report in a real browser: drawn, without a complaint, and without asking the network for
anything.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import Browser
from made_up_runs import two_runs

from cclk.report import RunView, write_report
from cclk.report.view import embed2d


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        if os.environ.get("CI") == "true":
            pytest.fail("BROWSER TEST DID NOT RUN: install chromium")
        pytest.skip("BROWSER TEST DID NOT RUN: install chromium")
    with Browser(program, tmp_path / "profile") as found:
        yield found


def table_run() -> RunView:
    random = np.random.default_rng(0)
    features = random.normal(size=(60, 4))
    condition = np.column_stack([features[:, :2], np.arange(60) % 3])
    embedding = embed2d(
        features,
        np.arange(60) % 2,
        condition,
        classes=["ill", "well"],
        condition_names=["age", "dose", "site"],
        categories={"site": ["Bonn", "Lyon", "Oslo"]},
    )
    return RunView("tabular </script>", embedding=embedding)


def test_report_is_drawn_in_silence(browser: Browser, tmp_path: Path) -> None:
    out = write_report([*two_runs(), table_run()], tmp_path / "report.html")
    browser.window(1300, 900)
    browser.open(out.as_uri())
    assert browser.ask("document.documentElement.dataset.drawn") == "13"
    assert browser.ask("document.querySelectorAll('.plot .main-svg').length") >= 13
    assert browser.ask("document.querySelectorAll('.scatterlayer .point').length") > 1000
    assert browser.ask("document.querySelectorAll('.heatmaplayer image').length") == 2
    assert browser.ask("[...document.images].every(image => image.naturalWidth > 0)")
    light = browser.ask("getComputedStyle(document.querySelector('.xtick text')).fill")

    browser.ask(
        "(s => { s.value = 1; s.dispatchEvent(new Event('change'));"
        " })(document.querySelector('select'))"
    )
    shown = "[...document.querySelectorAll('.cbtitle text')].map(title => title.textContent)"
    assert browser.ask(shown) == ["dose"], "the scale follows the chosen column"
    browser.ask(
        "(s => { s.value = 2; s.dispatchEvent(new Event('change'));"
        " })(document.querySelector('select'))"
    )
    legend = (
        "[...document.querySelector('select').closest('figure').querySelectorAll('.legendtext')].map(entry"
        " => entry.textContent)"
    )
    assert browser.ask(legend) == ["Bonn", "Lyon", "Oslo"], "categories have a legend and no scale"
    assert browser.ask(shown) == []

    browser.window(400, 800, dark=True)
    assert (
        browser.ask(
            "new Promise(done => setTimeout(() => done(document.documentElement.scrollWidth), 500))"
        )
        == 400
    ), "nothing sticks out"
    assert browser.ask("getComputedStyle(document.querySelector('.xtick text')).fill") != light, (
        "figures follow the dark scheme"
    )
    assert (
        browser.ask(
            "Math.max(...[...document.querySelectorAll('.main-svg')].map(svg =>"
            " svg.getBoundingClientRect().right))"
        )
        <= 400
    )

    fetched = [
        address for address in browser.requests if not address.startswith(("data:", "blob:"))
    ]
    assert fetched == [out.as_uri()]
    assert browser.complaints == []


def test_the_watch_sees_complaints_and_requests(browser: Browser, tmp_path: Path) -> None:
    """The test above would fail if the page did what it must not."""
    page = tmp_path / "bad.html"
    page.write_text(
        "<script>fetch('http://127.0.0.1:9/x').catch(() => 0); console.error('oh'); throw new"
        " Error('no')</script>"
    )
    browser.open(page.as_uri())
    assert "http://127.0.0.1:9/x" in browser.requests
    assert any("oh" in text for text in browser.complaints)
    assert any("Error: no" in text for text in browser.complaints)


def test_nothing_to_draw_is_no_error(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_report([RunView("bare")], tmp_path / "report.html").as_uri())
    assert browser.ask("document.documentElement.dataset.drawn") == "0"
    assert browser.complaints == []
