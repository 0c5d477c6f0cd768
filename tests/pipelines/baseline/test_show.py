"""What is said after a baseline run: each thing once, however many languages it is about."""

import pytest

from bertscore_beam.baseline import LARGE_ERROR, BaselineOptions, Source, warnings_of


def row(**changes):
    sound = {"sentences": 200, "wanted": 200, "files": 4, "failed_files": 0}
    return sound | {"records": 300, "records_broken": 0} | changes


def table(name, **changes):
    sound = {
        "table": name,
        "pairs": 100,
        "largest_error": 0.001,
        "failed_checks": [],
        "skipped_checks": [],
        "pairs_without_tokens": 0,
    }
    return sound | changes


def summary(languages, tables=()):
    return {"languages": languages, "tables": list(tables), "unusable": []}


def test_nothing_is_said_of_a_sound_run():
    assert warnings_of(summary({"en": row()}, [table("en/m.tsv")]), cure="More.") == []


def test_what_holds_for_twenty_languages_is_said_once():
    codes = [f"{a}{b}" for a in "abcd" for b in "efghi"]
    languages = {code: row(sentences=20 + i, failed_files=1) for i, code in enumerate(codes)}
    tables = [
        table(f"{code}/m.tsv", largest_error=None, failed_checks=["it holds"], skipped_checks=["x"])
        for code in codes
    ]
    said = warnings_of(summary(languages, tables), cure="More files give more.")
    assert len(said) == 4
    small, failed, errors, checks = said
    assert small.startswith(
        "the sample was too small: got these sentences: ae 20 in 4 files, af 21"
    )
    assert small.endswith("The tables are made of what there is. More files give more.")
    assert "expected 200 of each language" in small
    assert failed.startswith("files could not be read: ae 1, af 1,")
    unknown = "one that is not known, since nearly all sentences are from one host, with 100 pairs"
    assert f"ae/m.tsv {unknown} (1 checks were not made); af/" in errors
    assert checks.startswith("ae/m.tsv, af/m.tsv,")
    assert all(code in text for text in said for code in codes)


def test_advice_fits_the_source():
    def cure(**source):
        languages = {} if "sentences" in source else {"languages": ("en",)}
        return Source.of(BaselineOptions(output="out", models=("m",), **languages, **source)).cure

    assert "--max-files" in cure(crawl="CC-MAIN-2026-30")
    wet, given = cure(wet=("a.wet.gz",)), cure(sentences=("en=a.txt",))
    assert "--wet" in wet
    for second in (wet, given):
        assert "--max-files" not in second
        assert "another crawl" not in second


LARGE = "the standard error of F1 is large: got en/m.tsv "


@pytest.mark.parametrize(
    ("language", "of_table", "words"),
    [
        ({}, {"largest_error": 2 * LARGE_ERROR}, LARGE + "1.0e-02 with 100 pairs"),
        (
            {},
            {"largest_error": None},
            LARGE + "one that is not known, since nearly all sentences are from one host, with",
        ),
        ({}, {"largest_error": None, "pairs": 1}, LARGE + "one that is not known with 1 pairs"),
        ({"records_broken": 2}, {}, "records could not be read and were left out: en 2 of 300."),
    ],
)
def test_what_is_doubtful_of_one_language_is_said(language, of_table, words):
    rows = {"en": row(**language), "de": row()}
    (said,) = warnings_of(summary(rows, [table("en/m.tsv", **of_table)]), cure="More.")
    assert said.startswith(words)
