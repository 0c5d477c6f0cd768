"""Find a Chromium, and open pages in it.

On the PATH, in a folder that CHROMIUM names, the one `make engines` takes from npm, or playwright's
own. None of them is needed but for the tests that look at pages.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FROM_NPM = Path(__file__).parents[2] / "build" / "chromium" / "chromium"
# Root has no sandbox; nothing but our own pages is opened.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def find_chromium() -> str | None:
    """Return the path of a Chromium; None if there is none but perhaps playwright's own."""
    named = os.environ.get("CHROMIUM")
    found = [named, *map(shutil.which, NAMES), str(FROM_NPM)]
    return next((path for path in found if path and Path(path).is_file()), None)


def _surroundings(path: str | None) -> dict[str, str]:
    """Return the variables that name the libraries and fonts of the Chromium from npm."""
    if path is None or Path(path) != FROM_NPM:
        return {}
    return {
        "LD_LIBRARY_PATH": str(FROM_NPM.parent / "lib"),
        "FONTCONFIG_PATH": str(FROM_NPM.parent),
    }


@contextmanager
def chromium() -> Iterator[Browser | None]:
    """Start a Chromium; None if there is none."""
    path = find_chromium()
    with sync_playwright() as engines:
        if path is None and not Path(engines.chromium.executable_path).is_file():
            yield None
            return
        browser = engines.chromium.launch(
            executable_path=path, args=FLAGS, env={**os.environ, **_surroundings(path)}
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Seen:
    """A page with what happened while it was open."""

    page: Page
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@contextmanager
def opened(
    browser: Browser, path: Path, *, width: int = 1280, dark: bool = False
) -> Iterator[Seen]:
    """Open a file, and note every message of the console, every error and every request."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
    )
    seen = Seen(context.new_page())
    seen.page.on("console", lambda message: seen.messages.append(message.text))
    seen.page.on("pageerror", lambda error: seen.messages.append(str(error)))
    seen.page.on("dialog", lambda dialog: seen.messages.append(f"dialog {dialog.message}"))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    try:
        seen.page.goto(path.as_uri())
        yield seen
    finally:
        context.close()
