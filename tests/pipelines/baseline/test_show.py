"""What is said of a baseline run: each thing once, and with advice that can be followed."""

import re
from dataclasses import replace

import pytest

from bertscore_beam.baseline.baseline_options import BaselineOptions
from bertscore_beam.baseline.baseline_tables import LARGE_ERROR, more_of, warnings_of
from bertscore_beam.baseline.collect_sentences import _too_many_failed
from bertscore_beam.run.output import JobFailedError
from bertscore_core import InputError


def row(**changes):
    sound = {"sentences": 200, "wanted": 200, "files": 4, "failed_files": 0}
    return sound | {"records": 300, "records_broken": 0} | changes


def table(name, **changes):
    sound = {"table": name, "pairs": 100, "largest_error": 0.001, "pairs_without_tokens": 0}
    return sound | {"failed_checks": [], "skipped_checks": []} | changes


def said_of(languages, *tables):
    summary = {"languages": languages, "tables": tables, "unusable": []}
    return warnings_of(summary, cure="More files give more.")


def test_what_holds_for_twenty_languages_is_said_once():
    codes = [f"{a}{b}" for a in "abcd" for b in "efghi"]
    rows = {code: row(sentences=20 + i, failed_files=1) for i, code in enumerate(codes)}
    doubtful = {"largest_error": None, "failed_checks": ["it holds"], "skipped_checks": ["x"]}
    said = said_of(rows, *(table(f"{code}/m.tsv", **doubtful) for code in codes))
    small, failed, errors, checks = said
    begin = "the sample was too small: got these sentences: ae 20 in 4 files, af 21"
    assert small.startswith(begin)
    assert small.endswith("The tables are made from these. More files give more.")
    assert "expected 200 of each language" in small
    assert failed.startswith("files could not be read: ae 1, af 1,")
    assert f"ae/m.tsv {UNKNOWN}, with 100 pairs (1 checks were not made); af/" in errors
    assert checks.startswith("ae/m.tsv, af/m.tsv,")
    assert all(code in text for text in said for code in codes)


LARGE = "the standard error of F1 is large: got en/m.tsv "
UNKNOWN = "one that is not known, since nearly all sentences are from one host"


@pytest.mark.parametrize(
    ("of_table", "words"),
    [
        ({"largest_error": 2 * LARGE_ERROR}, f"{LARGE}1.0e-02 with 100 pairs"),
        ({"largest_error": None}, f"{LARGE}{UNKNOWN}, with 100 pairs"),
        ({"largest_error": None, "pairs": 1}, f"{LARGE}one that is not known with 1 pairs"),
    ],
)
def test_an_error_that_is_large_or_not_known_is_said(of_table, words):
    assert said_of({"en": row(), "de": row()}, table("en/m.tsv")) == []
    (said,) = said_of({"en": row(), "de": row()}, table("en/m.tsv", **of_table))
    assert said.startswith(words)


SOURCES = {
    "crawl": {"crawl": "CC-MAIN-2026-30", "languages": ("en",)},
    "wet": {"wet": ("a.wet.gz",), "languages": ("en",)},
    "documents": {"documents": ("en=a",)},
    "sentences": {"sentences": ("en=a.txt",)},
}
DAMAGED = {"crawl": (JobFailedError, ["max_reject_fraction"])}
"""Of these, files that are damaged are fetched again; of the others, that is of no use."""
MORE = {"crawl": "max_files sentences_per_host", "sentences": "pairs"}


@pytest.mark.parametrize("name", SOURCES)
def test_advice_names_options_that_the_source_can_use(name):
    options = BaselineOptions(output="out", **SOURCES[name])
    damaged, unreached = (
        _too_many_failed(options, [{"file": "a", "reason": reason}], 2)
        for reason in ("CrawlFileError: the file is cut off", "FetchError: 503")
    )
    kind, flags = DAMAGED.get(name, (InputError, ["overwrite", "output"]))
    assert (type(damaged), type(unreached)) == (kind, JobFailedError)
    found, of_limit, more = (
        [flag.replace("-", "_") for flag in re.findall(r"--([a-z-]+)", str(said))]
        for said in (damaged, unreached, more_of(options))
    )
    assert of_limit == ["max_reject_fraction"]
    assert found == [*of_limit, *flags]
    assert more == MORE.get(name, f"{name} sentences_per_host").split()
    for flag in {*found, *more}:
        value = getattr(options, flag)
        # An option without an effect would be refused.
        replace(options, **{flag: value + 1 if isinstance(value, int) else value})
