"""The page as text: everything is escaped, and every section says what the data hold."""

import base64
import hashlib
import itertools
import re
from dataclasses import replace
from random import Random
from xml.etree import ElementTree

import pytest

from bertscore_beam.compare.results import GroupGate
from bertscore_beam.pages.cards import MOST_CHARACTERS
from bertscore_beam.pages.charts import trend_groups, within_scale
from bertscore_beam.pages.page import MOST_ROWS, render
from bertscore_beam.pages.report_data import MeanOfRows, Night, ReportData
from bertscore_beam.pages.report_options import ReportOptions
from bertscore_beam.records.finished import RowPlace, RunSummary
from bertscore_beam.records.groups import GroupRow
from tests.support.read_html import Reader
from tests.support.report_data import HOSTILE, SIGNATURE, TEXTS, group_row, made_report

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
        "moved", "change", "languages", "scores", "ranking", "trend", "distribution", "lengths",
        "rejects", "rows", "cost", "settings",
    ]  # fmt: skip
    assert re.findall(r'<li><a href="#(\w+)">', with_texts) == sections
    levels = [int(level) for level in re.findall(r"<h(\d)", with_texts)]
    assert levels[:2] == [1, 2]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


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


def test_what_fell_and_rose_comes_first_and_a_segment_has_one_card(with_texts):
    """Of each kind five are open, and nothing but single rows is folded."""
    section = with_texts.partition('<h2 id="moved">')[2].partition("</section>")[0]
    fallen, risen = section.split("</details>")[:2]
    for part, first in ((fallen, TEXTS[0]), (risen, TEXTS[-1])):
        shown, folded = part.split("<details>")
        assert shown.count("<li>") == 5
        assert f"<summary>{len(TEXTS) - 5} more segments</summary>" in folded
        assert folded.count("<li>") == len(TEXTS) - 5
        assert first.references[0][:30] in shown
    for folded in re.findall("<details>(.*?)</details>", with_texts, re.DOTALL):
        assert folded.count("<ol") == 1
        assert not re.search("<(table|figure|section)", folded)
    assert with_texts.count("<details>") == 4

    report = made_report(with_texts=True)
    again = replace(report.fallen[0], group=("system-b",), place=RowPlace("other.parquet", 3))
    page = render(replace(report, fallen=(*report.fallen[:2], again)))
    card = page.partition('<h2 id="moved">')[2].partition("<li>")[2].partition("</li>")[0]
    assert card.count('class="head"') == 2
    assert card.count(TEXTS[0].references[0]) == 1
    assert card.count("Before</dt>") == card.count("Now</dt>") == 2
    assert "other.parquet:3" in card

    alike = [replace(again, place=RowPlace("other.parquet", row)) for row in range(5)]
    page = render(replace(report, fallen=tuple(alike)))
    shown, folded = page.partition('<h2 id="moved">')[2].partition("<details>")[::2]
    assert shown.count('class="head"') == 3
    assert folded.startswith("\n<summary>2 more rows of this segment</summary>")
    assert folded.partition("</details>")[0].count('class="head"') == 2


def test_rows_without_texts_are_folded_as_well(without_texts):
    tables = re.findall(r'aria-labelledby="(fallen|risen|worst|best)"', without_texts)
    assert tables == ["fallen"] * 2 + ["risen"] * 2 + ["worst"] * 2 + ["best"] * 2
    assert f"<summary>{len(TEXTS) - 5} more rows</summary>" in without_texts


def test_the_words_worse_and_passed_stand_beside_the_colour():
    report = replace(EMPTY, comparisons=made_report(with_texts=False).comparisons)
    judged = [replace(one, gate=GroupGate(p_value=1.0)) for one in report.against.groups]
    whole = replace(report.against.whole, gate=GroupGate(p_value=1.0))
    gate = replace(report.against, drop=0.5, whole=whole, groups=tuple(judged))
    one = report.against.by_change[0]
    few = replace(whole, gate=GroupGate(p_value=None, not_judged="got 3 rows; expected more"))
    failed = replace(one, gate=GroupGate(p_value=0.001, worse="it is lower by far"))
    lost = replace(one, gate=GroupGate(p_value=1.0, rows_lost="rows lost: all"))
    same = replace(one, p_adjusted=0.9)
    rise = replace(one.result, difference=0.02, interval=(0.01, 0.03))
    risen = replace(one, group=("system-c", "de"), result=rise)
    for comparison, kind, words in (
        (gate, "good", "<strong>Passed</strong>: no drop of more than 0.5 is shown"),
        (replace(gate, groups=(failed,)), "bad", "<strong>Worse</strong>: the gate is not passed"),
        (replace(gate, whole=few, groups=(failed,)), "bad",
         "<strong>Worse</strong>: the gate is not passed"),
        (replace(gate, groups=(lost,)), "bad",
         "<strong>Rows lost</strong>: the gate is not passed"),
        (replace(gate, groups=(failed, lost)), "bad",
         "<strong>Worse and rows lost</strong>: the gate is not passed"),
        (replace(gate, whole=few), "bad",
         "<strong>Not judged</strong>: there are too few rows to tell"),
        (report.against, "bad", "<strong>Worse</strong>: 4 of 10 groups"),
        (replace(report.against, whole=same, groups=(one, risen, same)), "bad",
         "<strong>Worse</strong>: 1 of 3 groups, 1 better"),
        (replace(report.against, whole=same, groups=(risen, same)), "good",
         "<strong>Better</strong>: 1 of 2 groups"),
        (replace(report.against, whole=same, groups=(same,)), "",
         "<strong>No clear difference</strong>"),
    ):  # fmt: skip
        page, groups = render(replace(report, comparisons=(comparison,))), comparison.groups
        assert f'<section class="answer {kind}" aria-label="Answer">' in page
        assert f'<p class="verdict">{words}</p>' in page
        answer = page.partition("<nav")[0]
        coloured = re.findall(r'class="(worse|lost|lower|better)">([^<]*)<', answer)
        assert all(word.endswith(colour) for colour, word in coloured)
        # What a gate has passed is not called worse.
        is_worse = failed in groups or (comparison.drop is None and one in groups)
        assert ("worse" in dict(coloured)) == is_worse


def test_measures_that_go_to_100_have_two_decimals():
    values = {"metric_bleu": 61.23456, "metric_bleu_rows": 9}
    values |= {"metric_rougel_mean": 0.61237, "metric_rougel_rows": 9}
    total = group_row(f1=0.5, **values)
    page = render(replace(EMPTY, total=total, groups=(group_row("a", **values),)))
    assert page.count("61.23<") == page.count("0.6124<") == 2


def test_a_second_chart_leaves_out_the_groups_that_set_the_scale_of_the_first():
    def change(mean: float) -> dict[str, float]:
        return {"mean": mean, "low": mean - 0.001, "high": mean + 0.001}

    changes = [change(mean) for mean in (-0.09, 0.002, -0.001, 0.08, 0.003)]
    assert within_scale(changes) == [1, 2, 4]
    assert within_scale(changes[1:3]) == within_scale([change(0.0)]) == within_scale([]) == []
    assert within_scale([change(mean) for mean in (-0.009, 0.002, 0.003, 0.004)]) == []


def test_groups_that_move_alike_keep_their_order_in_the_trend():
    names = [(name,) for name in "cabd"]
    random = Random(8)
    for _ in range(20):
        nights = tuple(
            Night(run=str(at), started="", total=EMPTY.total, comparable=True,
                  groups={name: MeanOfRows(mean + random.uniform(-4e-7, 4e-7), 9)
                          for name in names})
            for at, mean in enumerate((0.8, 0.7, 0.75))
        )  # fmt: skip
        groups = tuple(group_row(*name) for name in names)
        data = replace(EMPTY, groups=groups, nights=nights)
        assert trend_groups(data) == names
    against = made_report(with_texts=False).against
    failed = replace(against.groups[0], group=("d",), gate=GroupGate(p_value=0, worse="so much"))
    data = replace(data, comparisons=(replace(against, drop=0.1, groups=(failed,)),))
    assert trend_groups(data) == [names[-1], *names[:-1]]


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


@pytest.mark.parametrize("rescaled", [True, False])
def test_every_heading_says_whether_its_scores_are_rescaled(rescaled):
    page = render(replace(made_report(with_texts=True), rescaled=rescaled))
    headings = re.findall(r"<(?:h[23]|caption)[^>]*>(.*?)<", page)
    assert len(headings) > 20
    of_no_score = ("Rejected and cut", "Cost", "How it was made", "Settings that", "The signature")
    others = [words for words in headings if not words.startswith((*of_no_score, "Rows by reason"))]
    others.remove("Files that were rejected")
    kinds = [re.findall("raw|rescaled", words.lower()) for words in others]
    raw = [words for words, kind in zip(others, kinds, strict=True) if kind == ["raw"]]
    assert [len(kind) for kind in kinds] == [1] * len(kinds), others
    assert {"Distribution of raw F1", "Rows by raw F1"} <= {*raw}
    assert (len(raw) == 3) == rescaled


def test_runs_are_named_by_the_last_names_of_their_folders_that_tell_them_apart():
    runs = ["s3://a/scores/n<1>", "s3://a/scores/n2/", "s3://b/scores/n2"]
    nights = [
        Night(run=run, started=f"2026-11-2{day} 02:00:00", total=group_row(f1=0.7))
        for day, run in enumerate(runs)
    ]
    names = (["n&lt;1&gt;", "n2"], ["a/scores/n&lt;1&gt;", "a/scores/n2", "b/scores/n2"])
    for shown, expected in zip((nights[:2], nights), names, strict=True):
        page = render(replace(EMPTY, run=shown[-1].run, nights=tuple(shown)))
        chart = re.findall(r"<svg .*?</svg>", page, re.DOTALL)[0]
        assert all(f">\u2068{name}" in chart for name in expected)
        assert f"<title>{expected[-1]}</title>" in page
        assert f'<h1><bdi class="name">{expected[-1]}</bdi></h1>' in page
        assert shown[-1].run in page.partition('<h2 id="settings">')[2]


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
    names = ["".join(letters[at : at + 4]) for at in range(0, len(letters), 4)]
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
