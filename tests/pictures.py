"""Make the picture of README.md and the pages, from the tutorial: `python -m tests.pictures`.

It needs a Chromium, which `python -m tests.support.get_chromium` gets.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path

import pyarrow.parquet as pq

from bertscore_beam.cli import main as cli
from tests.support.browsers import chromium
from tests.test_docs import PAGES, ROOT, STEP, commands_in

PICTURES = ROOT / "docs" / "pictures"
FOLDER = Path("/tmp/evaluation")
"""It must not be there yet. The page shows its name."""
SAMPLE = ROOT / "configs/demo/sample"
PLAIN = [("system", "!=", "oddities"), ("language", "not in", ("ar", "hi", "ja", "ko", "th", "zh"))]
"""Texts that the model knows, and none that is missing: what is shown has no more than a caveat."""


@contextmanager
def follow_tutorial(*, is_whole: bool = True) -> Iterator[Path]:
    """Follow docs/start.md in a folder of its own, which is the working folder until the end.

    Without `is_whole` only on `PLAIN` rows of its dump.
    """
    FOLDER.mkdir()
    with ExitStack() as at_the_end:
        at_the_end.callback(shutil.rmtree, FOLDER)
        at_the_end.enter_context(chdir(FOLDER))
        Path("configs/demo").mkdir(parents=True)
        if is_whole:
            Path("configs/demo/sample").symlink_to(SAMPLE)
        else:
            Path("configs/demo/sample").mkdir()
            for path in SAMPLE.glob("news-*.parquet"):
                pq.write_table(
                    pq.read_table(path, filters=PLAIN), f"configs/demo/sample/{path.name}"
                )
        for language, code, _ in STEP.findall(PAGES["docs/start.md"]):
            if language == "python":
                exec(compile(code, "docs/start.md", "exec"), {})  # noqa: S102 - our own text
            else:
                cli.main(*commands_in(code))
        yield FOLDER


def main() -> None:
    """Keep what the tutorial makes."""
    PICTURES.mkdir(exist_ok=True)
    with follow_tutorial(is_whole=False):
        with chromium() as browser:
            if browser is None:
                raise SystemExit("no Chromium: call python -m tests.support.get_chromium")
            page = browser.new_page(viewport={"width": 1000, "height": 900})
            page.goto(Path("build/report.html").absolute().as_uri())
            page.screenshot(path="report.png", clip={"x": 0, "y": 0, "width": 1000, "height": 745})
        shutil.copy("report.png", PICTURES)


if __name__ == "__main__":
    main()
