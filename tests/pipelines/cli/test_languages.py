"""Where rows have several languages, each by itself comes first, and the mean of all last."""

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from bertscore_beam.compare import keyed_rows, paired_sides
from bertscore_beam.records.groups import caveat_messages_in
from bertscore_beam.score import show_run
from tests.support.made_runs import SIGNATURE, made_run, scored, two_nights

LANGUAGES = ("de", "en", "zh")
SIGNATURES = {name: replace(SIGNATURE, num_layers=str(at)) for at, name in enumerate(LANGUAGES, 1)}


pytestmark = pytest.mark.usefixtures("few_resamples")


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """Return two nights in three languages; in the second one system is worse by .02."""
    return two_nights(tmp_path_factory.mktemp("nights"), signature=SIGNATURES)


def test_a_summary_begins_with_languages_and_names_the_means_of_all(nights):
    summary = json.loads((nights[0] / "_summary.json").read_bytes())
    first, *_, last = show_run.show_scores(summary, "out")
    assert (first.title, [row[0] for row in first.rows]) == ("Languages", [*LANGUAGES])
    assert [row[0] for row in last.rows][:3] == [
        f"{name} over 3 languages" for name in ("precision", "recall", "f1")
    ]
    one = {**summary, "languages": {"de": summary["languages"]["de"]}}
    first, *_ = show_run.show_scores(one, "out")
    assert (first.title, first.rows[2][0]) == ("BERTScore", "f1")


def test_groups_begin_with_languages(nights, ran):
    out, _ = ran(("groups", nights[0], "--by", "system"))
    names = [line.split("\t")[:2] for line in out.splitlines()]
    assert names[:2] == [["language", "system"], ["de", "system-0"]]
    assert names[-1] == ["all 3 languages", "1,200"]
    assert sum(name[0] in LANGUAGES for name in names) == 12
    document = json.loads(ran(("groups", nights[0], "--by", "system", "--json"))[0])
    assert len(document["languages"]) == 12
    assert document["groups"][0]["group"] is None
    out, _ = ran(("groups", nights[0], "--by", "language"))
    names = [line.split("\t")[0] for line in out.splitlines()]
    assert names == ["language", *LANGUAGES, "all 3 languages"]


def test_a_comparison_begins_with_languages(nights, ran):
    words = ("compare", *nights, "--key", "id")
    lines = ran(words)[0].splitlines()
    for at, language in enumerate(LANGUAGES):
        assert lines[at].startswith(f"f1 of {language}: ")
    words = (*words, "--by", "system")
    out, _ = ran(words)
    lines = out.splitlines()
    for language in LANGUAGES:
        change = r"worse: -0\.0\d+ \[.*\], any difference: corrected p "
        (line,) = (one for one in lines[:10] if one.startswith(f"f1 of {language} / system-1"))
        assert re.fullmatch(f".*: {change}.*", line)
    assert lines[10].startswith("languages: 2 more")
    assert lines[11].startswith("groups: 1 worse, ")
    assert lines[12].startswith("f1 over 3 languages against ")
    whole = [at for at, line in enumerate(lines) if line.startswith("all 3 languages\t")]
    tables = [at for at, line in enumerate(lines) if line.startswith(("de\t", "system-1\t1"))]
    assert len(whole) == 1
    assert max(tables) < whole[0]
    shown = json.loads(ran((*words, "--json"))[0])["comparisons"][0]
    cells = [[one, f"system-{n}"] for one in LANGUAGES for n in range(4)]
    assert [group["group"] for group in shown["languages"]] == cells
    assert sum(group["counts"]["pairs"] for group in shown["languages"]) == 1200
    assert [group["group"] for group in shown["groups"]] == [[f"system-{n}"] for n in range(4)]


def test_a_page_begins_with_languages(nights, ran, tmp_path):
    page = tmp_path / "page.html"
    out, _ = ran(("report", nights[0], "--against", nights[1], "--by", "system", "-o", page))
    names = [line.partition(":")[0] for line in out.splitlines()]
    means = names[names.index("rows") + 1 :]
    assert means == [*(f"f1 of {one}" for one in LANGUAGES), "f1 over 3 languages"]
    text = page.read_text()
    sections = re.findall(r'<h2 id="(\w+)">', text)
    assert sections[:3] == ["moved", "change", "languages"]
    box = text.partition("<header>")[2].partition("</header>")[0]
    order = [
        box.index(words)
        for words in (
            "Change of raw F1 by language",
            "Change of raw F1 over 3 languages",
            "Mean raw F1 by language",
            "Mean raw F1 over 3 languages",
        )
    ]
    assert order == sorted(order)
    ids = re.findall(r'<caption id="(\S*(?:changes|groups)-table)">', text)
    assert ids == [
        "language-changes-table", "changes-table", "language-groups-table", "groups-table",
    ]  # fmt: skip
    table = text.partition('id="language-groups-table"')[2].partition("</table>")[0]
    cells = re.findall(r'row" class="words"><bdi class="name">(\w+)</bdi> / <bdi', table)
    assert cells == [language for language in LANGUAGES for _ in range(4)]
    assert "Language / system" in table


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """Return two nights whose codes differ in case, and one of whose languages has no score.

    A row of de has an F1 without a bound.
    """
    folder = tmp_path_factory.mktemp("uneven")
    codes = ["en", "EN", "de", "fr", None]
    for number, name in enumerate(("before", "now")):
        f1 = np.random.default_rng(number).uniform(0.5, 0.9, 200)
        f1[3::5] = f1[4::5] = np.nan
        f1[2] = -282.8
        given = {"id": range(200), "segment": [*range(100)] * 2, "language": codes * 40}
        given["system"] = ["A"] * 100 + ["B"] * 100
        rows = scored(f1, **{column: pa.array(values) for column, values in given.items()})
        made_run(folder / name, {"news.parquet": rows}, signature=SIGNATURES)
    return folder / "now", folder / "before"


def test_every_reader_means_the_same_languages(uneven, ran, tmp_path):
    """Codes are compared without case, and only languages with scores count."""
    summary = json.loads((uneven[0] / "_summary.json").read_bytes())
    assert show_run.show_scores(summary, "out")[-1].rows[2][0] == "f1 over 2 languages"
    lines = ran(("groups", uneven[0]))[0].splitlines()
    assert [line.split("\t")[:2] for line in lines[1:]] == [
        ["de", "40"], ["en", "80"], ["fr", "40"], ["(none)", "40"], ["", "rows"],
        ["all 2 languages", "200"],
    ]  # fmt: skip
    lines = ran(("compare", *uneven, "--key", "id"))[0].splitlines()
    names = [line.partition(":")[0] for line in lines[:3]]
    assert names[:2] == ["f1 of de", "f1 of en"]
    assert names[2].startswith("f1 over 2 languages against ")
    out, _ = ran(("report", uneven[0], "-o", tmp_path / "page.html"))
    assert [line.partition(":")[0] for line in out.splitlines()[3:6]] == [
        "f1 of de", "f1 of en", "f1 over 2 languages",
    ]  # fmt: skip


def test_every_reader_has_the_caveats_of_languages(uneven, ran, tmp_path):
    summary = json.loads((uneven[0] / "_summary.json").read_bytes())
    assert summary["languages"]["de"]["caveats"] == [{"kind": "clipped", "number": 1}]
    (table, *_) = show_run.show_scores(summary, "out")
    assert [row[-1] for row in table.rows] == ["1 clipped", "", "", ""]
    said = "Rows whose F1 has no bound: 1: means take it as 1 or -1 before rescaling."
    assert caveat_messages_in(summary) == (said,)  # once: not of languages, too
    assert ran(("groups", uneven[0]))[1].count(said) == 1
    out, err = ran(("compare", *uneven, "--key", "id"))
    assert "1 clipped" in out
    assert err.count("has no bound") == 1
    page = tmp_path / "page.html"
    ran(("report", uneven[0], "--against", uneven[1], "-o", page))
    table = page.read_text().partition('id="language-changes-table"')[2].partition("</table>")[0]
    assert "1 clipped" in table


def test_a_ranking_says_its_languages_and_its_caveats(uneven, ran, tmp_path):
    words = ("compare", uneven[0], "--systems", "--key", "segment")
    out, err = ran(words)
    assert "1 clipped" in out
    said = "1 of 1 pairs of systems has rows whose F1 has no bound, such as A / B (1 clipped)"
    assert said in err
    (ranking,) = json.loads(ran((*words, "--json"))[0])["rankings"]
    assert {"kind": "clipped", "number": 1} in ranking["pairs"][0]["caveats"]
    page = tmp_path / "page.html"
    ran(("report", uneven[0], "--system", "system", "--key", "segment", "-o", page))
    assert said in page.read_text()
    assert "Systems by raw F1 over 2 languages, the best first" in page.read_text()


def test_too_many_groups_by_language_are_those_of_languages_alone(nights, ran, monkeypatch):
    kept, real = [], paired_sides.PairedGroups

    def seen(reader, sides, names, settings, groupings):
        kept.extend(len(own.names) for own in groupings)
        return real(reader, sides, names, settings, groupings)

    monkeypatch.setattr(paired_sides, "PairedGroups", seen)
    monkeypatch.setattr("bertscore_beam.pages.one_pass.MOST_GROUPS", 5)
    monkeypatch.setattr(keyed_rows, "MOST_GROUPS", 5)
    out, _ = ran(("groups", nights[0], "--by", "system", "--json"))
    found = json.loads(out)
    assert [row["group"] for row in found["languages"]] == [{"language": one} for one in LANGUAGES]
    assert len(found["groups"]) == 5
    out, _ = ran(("compare", *nights, "--key", "id", "--by", "system", "--json"))
    (one,) = json.loads(out)["comparisons"]
    assert [group["group"] for group in one["languages"]] == [[name] for name in LANGUAGES]
    assert len(one["groups"]) == 4
    assert kept == [4, 3]  # nor are there sums in memory of more
