"""Pictures of a page to look at: on a phone, a tablet and a desktop, in the dark, and printed.

    python -m tests.support.report_pictures FOLDER [PAGE.html]

Without a page it is the made-up one, with texts.
"""

import sys
from pathlib import Path

from playwright.sync_api import Browser, Error, Page

from bertscore_beam.pages import render
from tests.support.browsers import chromium, opened
from tests.support.report_data import made_report

WIDTHS = {"phone": 375, "tablet": 820, "desktop": 1440}


def take_pictures(browser: Browser, page: Path, folder: Path) -> list[Path]:
    """Write pictures of a whole page into a folder, and return their paths."""
    taken = []
    for name, width in WIDTHS.items() | {("dark", WIDTHS["desktop"])}:
        with opened(browser, page, width=width, dark=name == "dark") as seen:
            taken.append(folder / f"{name}.png")
            _take(seen.page, taken[-1])
            if name == "dark":
                taken.append(folder / "print.pdf")
                seen.page.pdf(path=taken[-1], format="A4")
    return taken


def _take(page: Page, path: Path) -> None:
    """Take a picture; a Chromium that is short of time may refuse it twice."""
    for _ in range(2):
        try:
            page.screenshot(path=path, full_page=True)
            return
        except Error as error:
            if "Unable to capture screenshot" not in str(error):
                raise
            page.wait_for_timeout(1000)
    page.screenshot(path=path, full_page=True)


def main(folder: Path, page: Path | None) -> None:
    """Take the pictures, and name them."""
    folder.mkdir(parents=True, exist_ok=True)
    if page is None:
        page = folder / "report.html"
        page.write_text(render(made_report(with_texts=True)), encoding="utf-8")
    with chromium() as browser:
        if browser is None:
            sys.exit("no Chromium")
        for path in take_pictures(browser, page.resolve(), folder):
            print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
