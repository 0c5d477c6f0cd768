"""Other metrics are those of their libraries: of rows, of corpora in any pieces, and by name."""

import time
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pytest
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU, CHRF, TER

from bertscore_beam.dump import columns
from bertscore_beam.dump.columns import METRIC_COUNTS, METRICS
from bertscore_beam.metrics.processes import MetricProcesses, columns_of
from bertscore_beam.metrics.table import (
    CORPUS_METRICS,
    check_metrics,
    corpus_score,
    described,
    format_signatures,
    identity_of,
    label_of,
    metric_of,
    score_rows,
)
from bertscore_beam.records.groups import group_row, group_rows, metrics_of, statistics_of
from bertscore_beam.records.show_groups import shown_metrics
from bertscore_core import ConfigError
from bertscore_core.stats.caveats import CaveatKind
from bertscore_core.stats.paired import compare_corpora
from bertscore_core.stats.score_statistics import ScoreStatistics

CANDIDATES = ["The ferry leaves at nine .", "Two boats, one pier.", "Rain", "", "At nine?"]
ONE = [["The ferry departs at nine."], ["Two boats lie at a pier."], ["It rains."], ["No."], [""]]
THREE = [[*own, "At nine the ferry leaves.", "Two boats at the pier"] for own in ONE]
UNEQUAL = [group[: 1 + row % 3] for row, group in enumerate(THREE)]

SIGNS = ("zh", "ja-mecab")
"""Where sacreBLEU's TER takes signs for words."""
# The library's metric of rows, and that of a corpus.
THEIRS = {
    "bleu": lambda cut: (BLEU(effective_order=True, tokenize=cut), BLEU(tokenize=cut)),
    "chrf": lambda _: (CHRF(), CHRF()),
    "chrf++": lambda _: (CHRF(word_order=2), CHRF(word_order=2)),
    "ter": lambda cut: (TER(**dict.fromkeys(("normalized", "asian_support"), cut in SIGNS)),) * 2,
}
LANGUAGES = {
    "en": ("13a", CANDIDATES),
    "zh-Hans": ("zh", ["他们在湖边等船。", "他们等船。", "船", "", "九点?"]),
    "ja": ("ja-mecab", ["彼らは湖で船を待っている。", "船を待つ。", "雨", "", "九時?"]),
    "ko": ("ko-mecab", ["그들은 호수에서 배를 기다린다.", "배를 기다린다.", "비", "", "아홉 시?"]),
}


def streams_of(groups):
    most = max(map(len, groups))
    return [[group[at] if at < len(group) else None for group in groups] for at in range(most)]


@pytest.mark.parametrize("references", [ONE, THREE, UNEQUAL], ids=["one", "three", "unequal"])
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", CORPUS_METRICS)
def test_scores_of_rows_and_of_a_corpus_are_those_of_sacrebleu(name, language, references):
    cut, candidates = LANGUAGES[language]
    if language != "en":
        references = [[*group[1:], candidates[row - 1]] for row, group in enumerate(references)]
    of_rows, of_corpus = THEIRS[name](cut)
    metric = metric_of(name, language)
    scores, counts = metric.rows(candidates, references)
    rows = zip(candidates, references, strict=True)
    expected = [of_rows.sentence_score(*row).score for row in rows]
    np.testing.assert_array_equal(scores, expected)
    assert max(expected) > 0
    corpus = of_corpus.corpus_score(candidates, streams_of(references)).score
    ours = corpus_score(name, counts.sum(axis=0).tolist())
    # sacreBLEU adds up thirds of words as floats, whose order decides about the last bit of TER.
    assert ours == (pytest.approx(corpus, rel=4e-16) if name == "ter" else corpus)
    # However the rows are cut into pieces.
    pieces = [metric.rows(candidates[at:][:2], references[at:][:2])[1] for at in (0, 2, 4)]
    assert corpus_score(name, sum(piece.sum(axis=0) for piece in pieces).tolist()) == ours
    listed = len({*map(len, references)}) > 1
    signatures = metric.signatures(listed=listed)
    of_rows.num_refs = of_corpus.num_refs  # that of the last row otherwise
    if listed or len(references[0]) == 1:
        theirs = tuple(str(one.get_signature()) for one in (of_corpus, of_rows))
        assert signatures == theirs


def test_rouge_is_the_best_over_references_and_not_of_other_scripts():
    scorer = RougeScorer(["rougeL"])
    scores, counts = metric_of("rougel").rows(CANDIDATES, THREE)
    expected = [
        max(scorer.score(reference, candidate)["rougeL"].fmeasure for reference in group)
        for candidate, group in zip(CANDIDATES, THREE, strict=True)
    ]
    np.testing.assert_array_equal(scores, expected)
    assert counts.shape == (len(CANDIDATES), 0)
    others = [
        "Они ждут 9",
        "a ferry",
        "Übermäßig schön",
        "ждут ferry at the pier",
        "они ждут ferry",
    ]
    scores, _ = metric_of("rougel").rows(
        others, [["Они 9"], ["Паром"], ["schön"], ["ferry"], ["они ждут паром ferry"]]
    )
    assert np.isnan(scores).tolist() == [True, True, False, False, True]


def test_every_metric_has_a_column_a_class_and_signatures():
    made = described([*METRICS], ["en", "zh"], listed=True)
    assert made.keys() == METRICS.keys()
    assert made["bleu"]["signature"]["zh"].startswith("nrefs:var|case:mixed|eff:no|tok:zh|")
    assert "eff:yes|tok:13a" in made["bleu"]["sentence_signature"]["en"]
    assert made["chrf"]["signature"] == made["chrf"]["sentence_signature"]
    assert "tok:rouge-score" in made["rougel"]["signature"]
    assert METRIC_COUNTS.keys() == set(CORPUS_METRICS) == METRICS.keys() - {"rougel"}


def test_columns_hold_rows_in_the_order_of_the_table_and_nulls_elsewhere():
    names, rows = ("rougel", "ter"), np.array([3, 0, 2])
    scored = [score_rows(names, "", ["a b", "c"], [["a b"], ["d"]])]
    scored += [score_rows(names, "", ["где"], [["там"]])]
    made = columns_of(names, 5, rows, scored)
    assert made["metric_rougel"].to_pylist() == [0.0, None, None, 1.0, None]
    assert made["metric_ter"].to_pylist() == [100.0, None, 100.0, 0.0, None]
    assert made["metric_ter_counts"].type == pa.list_(pa.int64())
    counts = made["metric_ter_counts"].to_pylist()
    assert [own and own[0] for own in counts] == [1, None, 1, 0, None]
    none = columns_of(names, 2, np.zeros(0, np.int64), [])
    assert [none[name].null_count for name in made] == [2, 2, 2]


def test_what_cannot_be_computed_is_refused_by_name(monkeypatch):
    check_metrics([*METRICS], ["en", "sr", ""], refuse_scripts=True)
    check_metrics(["rougel"], ["zh"])
    with pytest.raises(ConfigError, match="rougel cannot be computed: got texts in 'zh'"):
        check_metrics(["rougel"], ["zh-Hans"], refuse_scripts=True)
    found = "bertscore_beam.metrics.table.find_spec"
    monkeypatch.setattr(found, lambda name: None if name == "mecab_ko" else find_spec(name))
    with pytest.raises(ConfigError, match=r"BLEU of texts in 'ko'.*'sacrebleu\[ko\]'"):
        check_metrics(["bleu"], ["ko"])
    monkeypatch.setattr(found, lambda _: None)
    check_metrics([], ["ja"])
    with pytest.raises(ConfigError, match=r"got no sacrebleu, rouge-score.*'\.\[tune\]'"):
        check_metrics(["chrf"], ["en"])


def test_metrics_are_part_of_what_a_folder_holds():
    assert identity_of([], "en") == {}
    assert identity_of(["ter", "bleu"], "en") == identity_of(["bleu", "ter"], "en")
    assert identity_of(["bleu"], "en") != identity_of(["bleu"], "zh")


def test_statistics_of_pieces_add_up_also_where_no_row_has_a_score():
    candidates, names = [*CANDIDATES, None], ("chrf", "rougel")
    every = np.arange(len(CANDIDATES))
    made = columns_of(names, 6, every, [score_rows(names, "", CANDIDATES, THREE)])
    scores = {name: np.where([text is None for text in candidates], np.nan, 0.5) for name in "prf"}
    table = pa.table({**dict(zip(columns.SCORES.values(), scores.values(), strict=True)), **made})
    empty = pa.array([None] * 6, pa.string())
    table = table.append_column(columns.ERROR, empty)
    table = table.append_column(columns.TRUNCATED, [[False] * 6])
    pieces = [statistics_of(table.slice(at, 2), (), None).total for at in (0, 2, 4)]
    pieces.append(statistics_of(table.slice(5), (), None).total)  # of one row, without a score
    total = ScoreStatistics.merge(pieces)
    row = group_row((), total)
    corpus = CHRF().corpus_score(CANDIDATES, streams_of(THREE)).score
    assert metrics_of(row)["chrf"]["corpus"] == corpus
    assert metrics_of(row)["rougel"]["rows"] == 5
    rouge = np.nanmean(made["metric_rougel"].to_numpy(zero_copy_only=False))
    assert metrics_of(row)["rougel"]["mean"] == pytest.approx(rouge, abs=1e-11)
    assert shown_metrics(row.values) == {"metric_chrf": "chrf", "metric_rougel_mean": "mean rougel"}
    own = {"metric_x_mean": 3.0, "metric_x_rows": 1, "metric_x_mean_mean": 9.0}
    assert shown_metrics({**own, "metric_x_mean_rows": 1}) == {
        "metric_x_mean": "mean x",
        "metric_x_mean_mean": "mean x_mean",
    }


@pytest.mark.parametrize("name", ["chrf", "ter"])
def test_corpora_that_are_equal_do_not_differ(name):
    _, counts = metric_of(name).rows(CANDIDATES, ONE)

    def score(sums):
        return corpus_score(name, sums.astype(int).tolist())

    found = compare_corpora(counts.astype(float), counts.astype(float), score)
    assert (found.difference, found.randomization_p, found.bootstrap_p) == (0, 1, 1)
    other = compare_corpora(counts.astype(float), counts[::-1] * 2.0, score, resample=False)
    assert other.difference == pytest.approx(0, abs=1e-12)
    assert other.interval is None


@pytest.mark.process
def test_processes_score_rows_of_several_languages_as_this_one_does():
    number = 450  # several pieces
    candidates = [f"{text} {row}" for row in range(number) for text in ("At nine",)]
    references = [["At nine, or ten"] for _ in range(number)]
    rows = np.flatnonzero(np.arange(number) % 7)
    processes = MetricProcesses(("bleu", "chrf"), 1)
    wait = processes.begin(candidates, references, rows, lambda row: "zh" if row % 2 else "en")
    made = wait()
    processes.pool.kill()
    for row in (1, 2, 447):
        language = "zh" if row % 2 else "en"
        for name in ("bleu", "chrf"):
            scores, counts = metric_of(name, language).rows([candidates[row]], [references[row]])
            assert made[METRICS[name]][row].as_py() == scores[0]
            assert made[METRIC_COUNTS[name]][row].as_py() == counts[0].tolist()
    assert made["metric_chrf"].null_count == number - len(rows)


def test_a_signature_is_text_also_where_languages_differ():
    same = {"de": "tok:13a", "en": "tok:13a", "zh": "tok:zh"}
    assert format_signatures(same) == "de, en: tok:13a; zh: tok:zh"
    assert format_signatures("tok:13a") == "tok:13a"


@pytest.mark.parametrize("name", CORPUS_METRICS)
def test_languages_share_a_label_where_their_texts_are_cut_alike(name):
    languages = ("", "en", "de", "zh", "zh-Hans", "ja", "ko", "th", "lo")
    made = {one: metric_of(name, one).signatures()[0] for one in languages}
    for one in languages:
        for other in languages:
            same = label_of(name, one) == label_of(name, other)
            assert same == (made[one] == made[other]), (one, other)


def test_texts_of_several_tokenizers_are_no_corpus_and_a_caveat_says_so():
    names, languages = ("bleu", "chrf", "rougel"), ["en", "de", "zh", "zh", "en"]
    each = [
        score_rows(names, language, [CANDIDATES[at]], [ONE[at]])
        for at, language in enumerate(languages)
    ]
    joined = [
        tuple(np.concatenate(parts) for parts in zip(*own, strict=True))
        for own in zip(*each, strict=True)
    ]
    made = columns_of(names, 5, np.arange(5), [joined])
    table = pa.table({name: np.full(5, 0.5) for name in columns.SCORES.values()} | made)
    table = table.append_column(columns.ERROR, pa.array([None] * 5, pa.string()))
    table = table.append_column(columns.TRUNCATED, [[False] * 5])
    table = table.append_column("language", [languages])
    whole, *groups = group_rows(statistics_of(table, ["language"], "language"))
    assert metrics_of(whole)["bleu"]["corpus"] is None
    assert metrics_of(whole)["bleu"]["rows"] == 5
    assert metrics_of(whole)["chrf"]["corpus"] > 0
    kind = CaveatKind.SEVERAL_TOKENIZERS
    assert [own.number for own in whole.caveats if own.kind == kind] == [2]
    for row in groups:
        own = [at for at, one in enumerate(languages) if one == row.group[0]]
        cut = BLEU(tokenize="zh" if row.group == ("zh",) else "13a")
        expected = cut.corpus_score([CANDIDATES[at] for at in own], [[ONE[at][0] for at in own]])
        assert metrics_of(row)["bleu"]["corpus"] == expected.score
        assert kind not in [one.kind for one in row.caveats]
    # Languages that are cut alike are one corpus.
    alike = table.filter(pa.compute.not_equal(table["language"], "zh"))
    (row,) = group_rows(statistics_of(alike, [], "language"))
    assert metrics_of(row)["bleu"]["corpus"] > 0


@pytest.mark.parametrize(
    ("name", "language", "candidate", "references"),
    [
        ("ter", "en", "a " * 300, ["b " * 300]),
        ("ter", "en", "a " * 300, ["b " * 100] * 3),
        ("ter", "zh", "船" * 300, ["湖" * 300]),
        ("ter", "en", "a " * 199_970, ["b " * 30]),
        ("ter", "en", "a " * 49_980, ["b " * 20] * 4),
        ("rougel", "en", "a-" * 4000, ["b " * 5000]),
        ("chrf", "en", "a" * 1_000_000, ["b" * 1_000_000]),
        ("chrf++", "en", "a" * 1_999_999, ["b"]),
        ("bleu", "zh", "船" * 1_000_000, ["湖" * 1_000_000]),
    ],
)
def test_a_row_is_too_long_from_one_word_on(name, language, candidate, references):
    metric = metric_of(name, language)
    assert not metric.is_too_long(candidate, references)
    assert metric.is_too_long(candidate + candidate[:2], references)
    assert not metric_of("ter").is_too_long("a " * 4000, ["b" * 1000, "b " * 17])


def test_ter_takes_little_time_where_one_side_is_short():
    words = [f"w{number % 40}" for number in range(20_000)]
    long, short = " ".join(words), " ".join(words[7::700])
    for candidate, reference in ((long, short), (short, long)):
        began = time.process_time()
        ((scores, _),) = score_rows(["ter"], "en", [candidate], [[reference]])
        assert scores[0] > 0
        assert time.process_time() - began < 5


def test_a_row_that_is_too_long_costs_its_own_value_alone():
    """ROUGE-L takes 8 bytes for each pair of words, and TER hours."""
    long = " ".join(str(word) for word in range(30_000))
    candidates, references = [*CANDIDATES, long], [*ONE, [long]]
    names = ("rougel", "ter", "chrf")
    scored = score_rows(names, "en", candidates, references)
    made = columns_of(names, 6, np.arange(6), [scored])
    for name in names:
        alone, _ = metric_of(name, "en").rows(CANDIDATES, ONE)
        assert made[METRICS[name]].to_pylist()[:5] == alone.tolist()
    assert made["metric_rougel"][5].as_py() is made["metric_ter"][5].as_py() is None
    assert made["metric_ter_counts"].null_count == 1
    assert made["metric_chrf"][5].as_py() == 100
    numbers = {name: np.full(6, 0.5) for name in "prf"}
    table = pa.table({**dict(zip(columns.SCORES.values(), numbers.values(), strict=True)), **made})
    table = table.append_column(columns.ERROR, pa.array([None] * 6, pa.string()))
    table = table.append_column(columns.TRUNCATED, [[False] * 6])
    row = group_row((), ScoreStatistics.merge([statistics_of(table, (), None).total] * 2))
    assert metrics_of(row)["ter"]["rows"] == 10
    assert {name: own["missing"] for name, own in metrics_of(row).items()} == {
        "rougel": 2,
        "ter": 2,
        "chrf": 0,
    }
    corpus = TER().corpus_score(CANDIDATES * 2, streams_of(ONE * 2)).score
    assert metrics_of(row)["ter"]["corpus"] == pytest.approx(corpus, rel=4e-16)
