"""The page as text: everything is escaped, and every section says what the data hold."""

import base64
import hashlib
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from bertscore_beam.pages.page import MOST_CHARACTERS, MOST_ROWS, render
from bertscore_beam.pages.report_options import ReportOptions
from bertscore_beam.pages.report_rows import Night, ReportData
from bertscore_beam.records.finished import RunSummary
from bertscore_beam.records.groups import GroupRow
from tests.support.read_html import Reader
from tests.support.report_data import HOSTILE, SIGNATURE, TEXTS, bars, group_row, made_report

OPTIONS = ReportOptions(run="scores", confidence=0.9)
EMPTY = ReportData(
    options=OPTIONS,
    run="scores",
    started="2026-11-20 02:00:00",
    made="2026-11-20 06:30:00",
    rescaled=True,
    total=group_row(f1=None, rows=0),
    summary=RunSummary(parts=0, rows=0, content={}),
)


def page_of_groups(*groups: GroupRow, by: tuple[str, ...] = ("system",)) -> str:
    return render(replace(EMPTY, groups=groups, options=replace(OPTIONS, by=by)))


@pytest.fixture(scope="module")
def with_texts() -> str:
    return render(made_report(with_texts=True))


@pytest.fixture(scope="module")
def reader(with_texts: str) -> Reader:
    return Reader(with_texts)


@pytest.fixture(scope="module")
def without_texts() -> str:
    report = made_report(with_texts=False)
    return render(replace(report, groups=(), languages=(), lengths=(), nights=()))


def test_no_name_or_text_becomes_an_element_or_an_attribute(reader):
    assert not {"script", "img", "iframe", "object", "b", "embed"} & set(reader.tags)
    assert not [name for name, _ in reader.attributes if name.startswith("on")]
    assert "style" not in {name for name, _ in reader.attributes}
    # Still they are all there, to be read.
    shown = "".join(reader.words)
    for words in (HOSTILE[0], HOSTILE[1], HOSTILE[3], HOSTILE[4], HOSTILE[5]):
        assert shown.count(words) > 5, words
    assert r"\u202egnp.exe\u2066 \u061c\u200f" in shown


def test_no_character_steers_the_page(with_texts):
    # The marks of the page's own charts keep the directions of names apart.
    own = "\N{FIRST STRONG ISOLATE}\N{POP DIRECTIONAL ISOLATE}"
    found = set(
        re.findall(
            "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufffe\uffff]",
            with_texts,
        )
    )
    assert found == set(own)
    outside = re.sub(r"<svg .*?</svg>", "", with_texts, flags=re.DOTALL)
    assert not set(own) & set(outside)
    assert with_texts.encode()


def test_nothing_on_the_page_is_an_address_but_its_own_places(reader):
    links = [value for name, value in reader.attributes if name in ("href", "src", "action")]
    assert {link for link in links if not str(link).startswith("#")} == {"data:,"}


def test_the_policy_allows_nothing_but_the_style_which_loads_nothing(reader, with_texts):
    (style,) = re.findall(r"<style>(.*?)</style>", with_texts, re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [value for name, value in reader.attributes if value and "default-src" in value]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def test_texts_are_on_the_page_only_if_asked_for(with_texts, without_texts):
    for texts in TEXTS[:4]:
        assert texts.candidate in with_texts
        assert texts.references[0] in with_texts
        assert texts.candidate not in without_texts
        assert texts.references[0] not in without_texts
    assert "It holds texts of the run." in with_texts
    assert "It holds no texts of the run." in without_texts
    assert "news/shard-003.parquet:51" in without_texts


def test_a_long_text_is_cut_and_what_is_left_out_is_counted(with_texts):
    assert len(TEXTS[-1].candidate) == 4500
    assert f"… ({4500 - MOST_CHARACTERS:,} more characters)" in with_texts


def test_every_section_is_there_and_can_be_reached(with_texts):
    sections = re.findall(r'<h2 id="(\w+)">', with_texts)
    assert sections == [
        "languages", "scores", "change", "ranking", "trend", "distribution", "lengths",
        "rejects", "rows", "cost", "settings",
    ]  # fmt: skip
    assert re.findall(r'<li><a href="#(\w+)">', with_texts) == sections


def test_ids_are_unique_and_every_reference_to_one_is_met(reader):
    ids = [value for name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    named = {value for name, value in reader.attributes if name == "aria-labelledby"}
    assert named
    assert named <= set(ids)


def test_numbers_and_settings_are_shown_as_they_are(with_texts):
    assert '<span class="large">0.8000</span>' in with_texts
    assert "[0.7960, 0.8040]" in with_texts
    assert "-0.01000" in with_texts
    assert "[-0.01300, -0.00700]" in with_texts
    assert "\N{MINUS SIGN}" not in with_texts  # as in the words of the gate, and in charts
    assert "&lt; 0.0001" in with_texts
    assert "1,234,567 encoded; 3.2% of the encoder's work was padding" in with_texts
    assert "8,000 took the scores of an earlier run (88.89%)" in with_texts
    assert "80 s for the last command" in with_texts
    assert "67 min of scoring" in with_texts
    assert "null_candidate" in with_texts
    # The signature, spelled out.
    assert "The encoder is all-MiniLM-L6-v2." in with_texts
    assert "Every token has the same weight: no idf." in with_texts
    assert "Texts of up to 512 tokens were scored in one piece." in with_texts
    assert "Scores are not rescaled: they are plain similarities." in with_texts


def test_rows_without_a_pair_are_counted_by_what_they_lack(with_texts):
    assert (
        "990 rows have scores in both runs, 3 only in the other, 3 only in this one." in with_texts
    )
    report = made_report(with_texts=False)
    counts = replace(report.against.whole.counts, gained=0, only_run=0, only_against=0)
    whole = replace(report.against.whole, counts=counts)
    page = render(replace(report, comparisons=(replace(report.against, whole=whole),)))
    assert re.search(r"have scores in both runs, 3 only in the other\. \d+ rows went up", page)


def test_a_ranking_by_the_t_test_is_said_to_be(without_texts):
    report = made_report(with_texts=False)
    assert report.ranking is not None
    assert "row by row. Every system" in without_texts
    page = render(replace(report, ranking=replace(report.ranking, test="t test")))
    assert "row by row, by the t test. Every system" in page


def test_what_languages_share_is_said_once():
    other = SIGNATURE.replace("idf:none", "idf:ab12").replace("baseline:none", "baseline:de@c")
    page = render(replace(EMPTY, signatures={"en": SIGNATURE, "de": other, "fr": SIGNATURE}))
    section = page.partition('<h2 id="settings">')[2]
    assert section.count("The encoder is all-MiniLM-L6-v2.") == 1
    assert section.count("Every token has the same weight: no idf.") == 2  # en and fr
    assert section.count("Rare tokens weigh more: idf, from the table ab12.") == 1
    assert section.count("<table>") == 2
    assert section.count("<tr>") == 2 + 15 + 3 * 2
    assert section.count(SIGNATURE) == 2
    assert section.count(other) == 1


def test_a_run_without_rows_has_a_page():
    empty = render(EMPTY)
    assert "No row has scores." in empty
    assert "Rescaled scores. Intervals have a confidence of 90%." in empty
    assert re.findall(r'<h2 id="(\w+)">', empty) == [
        "scores", "distribution", "rejects", "rows", "cost", "settings",
    ]  # fmt: skip


def test_distributions_of_rescaled_scores_say_that_they_are_before_rescaling():
    report = replace(EMPTY, total=group_row(f1=0.5), histogram=bars(0.5))
    page = render(report)
    assert "Rows by F1 before rescaling" in page
    assert "F1 before rescaling below which a share of the rows is" in page
    assert "before rescaling" not in render(replace(report, rescaled=False))


def test_runs_are_named_by_their_folders_if_these_lie_side_by_side():
    nights = [
        Night(run=run, started=f"2026-11-2{day} 02:00:00", total=group_row(f1=0.7))
        for day, run in enumerate(["s3://a/scores/n<1>", "s3://a/scores/n2/", "s3://b/scores/n3"])
    ]
    for shown, expected in ((nights[:2], ["n&lt;1&gt;", "n2"]), (nights, ["2026-11-20 02:00"])):
        page = render(replace(EMPTY, nights=tuple(shown)))
        chart = re.findall(r"<svg .*?</svg>", page, re.DOTALL)[0]
        assert all(name in chart for name in expected)
        assert (">\u2068n2" in chart) == (len(shown) == 2)


def test_many_groups_are_cut_and_it_is_said():
    page = page_of_groups(*(group_row(f"g{number:04}", f1=0.5) for number in range(MOST_ROWS + 5)))
    assert "(the first 1,000 of 1,005)" in page
    assert "The chart shows the first 40 of 1,005 groups." in page
    assert "g0999" in page
    assert "g1000" not in page


@pytest.mark.parametrize("start", [0, 0x7F, 0xD7F0, 0xDFF0, 0xFDC0, 0xFFF0, 0x1FFF0, 0x10FFF0])
def test_charts_and_pages_take_every_character(start):
    """XML forbids some of them, and the program that draws ends the process at one of these."""
    letters = [chr(code) for code in range(start, min(start + 0x40, 0x110000))]
    names = ["".join(letters[at : at + 8]) for at in range(0, len(letters), 8)]
    page = page_of_groups(*(group_row(name, f1=0.5) for name in names))
    charts = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    assert len(charts) == 2  # wide and narrow
    for chart in charts:
        ElementTree.fromstring(chart)  # noqa: S314 (our own)
    if start == 0xFFF0:
        assert r"\ufffe\uffff" in charts[0]
        assert r"\ufffe\uffff" in re.sub(r"<svg .*?</svg>", "", page, flags=re.DOTALL)


def test_two_groups_that_read_the_same_have_a_row_each_in_the_chart():
    groups = (group_row("a / b", "c", f1=0.5), group_row("a", "b / c", f1=0.7))
    page = page_of_groups(*groups, by=("x", "y"))
    (chart,) = re.findall(r"<figure>(.*?)</figure>", page, re.DOTALL)[:1]
    assert chart.count("layer_1_marks") == 2
    assert len(re.findall(r"layer_1_marks.*?</g>", chart)[0].split("<path")) == 3
