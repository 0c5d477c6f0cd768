"""`select`: the samples of a row scored with each other, against pairs that are scored alone."""

from itertools import permutations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.dump import CANDIDATE, CANDIDATE_FROM
from bertscore_beam.options import SelectOptions
from bertscore_core import BertScorer, InputError, ScorerConfig, Signature, SignatureError
from tests.support.dumps import read_output, sentence
from tests.support.jobs import job_options, run_job, run_options
from tests.support.tolerances import INVARIANCE_ATOL

pytestmark = pytest.mark.job

FOUR = [sentence(number) for number in range(4)]
ROWS = [
    FOUR,
    ["a cat sat", "a dog sat", "a cat sat", "the cat sat there", "a cat sat"],  # three are equal
    ["alone"],
    [],
    [FOUR[0], None, FOUR[1], ""],
    ["alone", None],
    None,
    [FOUR[3], FOUR[3]],
]
REASONS = {"no_references": 2, "no_candidates": 2, "null_candidate": 2, "empty_candidate": 1}
COLUMNS = ("bertscore_utility", "bertscore_best", "bertscore_diversity")
BASELINE = "LAYER,P,R,F\n" + "".join(f"{layer},.2,.25,.3\n" for layer in range(7))


def select(dump, output, **changes):
    values = {"input": (str(dump),), "output": str(output), "device": "cpu", "split_rows": 6}
    return run_options(SelectOptions(**values, max_reject_fraction=1.0, **changes))


def expected(rows, **config):
    """Return utility, best and diversity of each readable text of each row, from single pairs."""
    scorer = BertScorer(ScorerConfig(empty="zero", device="cpu", **config))
    found = []
    for texts in [[text for text in row or () if text is not None] for row in rows]:
        places = list(permutations(range(len(texts)), 2))
        if places:
            pairs = [(texts[a], texts[b]) for a, b in places]
            f1 = scorer.score(*map(list, zip(*pairs, strict=True))).f1.astype(float)
            of_first = [[f for f, pair in zip(f1, places, strict=True) if pair[0] == place]
                        for place in range(len(texts))]  # fmt: skip
            utility = np.mean(of_first, axis=1).round(6)
            first = int(utility.argmax())
            found += [(u, at == first, 1 - f1.mean()) for at, u in enumerate(utility)]
    return found


def assert_selected(table, rows, **config):
    columns = [table[name].drop_null().to_numpy() for name in COLUMNS]
    wanted = zip(*expected(rows, **config), strict=True)
    for column, values in zip(columns, wanted, strict=True):
        np.testing.assert_allclose(column, values, atol=2 * INVARIANCE_ATOL, rtol=0)
    assert len({table[name].null_count for name in COLUMNS}) == 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("select")
    table = pa.table({"reference": ["a cat"] * len(ROWS), "samples": pa.array(ROWS)})
    pq.write_table(table, folder / "a.parquet")
    select(folder / "a.parquet", folder / "out", candidate_column=("samples",))
    return folder


def test_utilities_are_means_over_single_pairs(folder):
    table = read_output(folder / "out")
    assert_selected(table, ROWS)
    assert table[COLUMNS[0]].equals(table["bertscore_f1"])
    assert table[CANDIDATE_FROM].to_pylist()[4:9] == ["0", "1", "2", "3", "4"]
    assert table[COLUMNS[1]].to_pylist()[4:9] == [True, False, False, False, False]


def test_samples_without_another_one_have_their_reason(folder):
    reasons = read_output(folder / "out")["bertscore_error"].drop_null().to_pylist()
    assert {reason: reasons.count(reason) for reason in reasons} == REASONS


def test_the_same_again_keeps_all_and_score_is_refused_there(folder):
    again = select(folder / "a.parquet", folder / "out", candidate_column=("samples",))
    assert (again["parts_of_earlier_runs"], again["reasons"]) == (again["parts"], REASONS)
    assert Signature.parse(again["signature"]).references == "mean"
    with pytest.raises(SignatureError, match=r"references.*mean is what `select` writes"):
        run_job(folder / "a.parquet", output=folder / "out", candidate_column=("samples",))


def test_a_change_beside_the_samples_keeps_their_utilities(folder, tmp_path):
    for reference in ("a cat", "a dog"):
        table = pa.table({"reference": [reference] * len(ROWS), "samples": pa.array(ROWS)})
        pq.write_table(table, tmp_path / "a.parquet")
        again = select(tmp_path / "a.parquet", tmp_path / "out", candidate_column=("samples",))
    assert again["parts_rewritten"] == again["parts"]
    assert_selected(read_output(tmp_path / "out"), ROWS)


def test_rescaled_afterwards_is_as_rescaled_at_once(folder, tmp_path):
    (tmp_path / "en.csv").write_text(BASELINE)
    given = ["--baseline", str(tmp_path / "en.csv"), "--output", str(tmp_path / "later")]
    assert cli.main(["rescale", str(folder / "out"), *given]) == cli.DONE
    later = read_output(tmp_path / "later")
    assert_selected(later, ROWS, rescale=True, baseline=str(tmp_path / "en.csv"))
    assert cli.main(["explain", str(folder / "out"), "--row", "a.parquet:0"]) == cli.UNUSABLE


def test_several_columns_are_the_samples(tmp_path):
    rows = [FOUR[:3], FOUR[1:]]
    table = pa.table(dict(zip("xyz", zip(*rows, strict=True), strict=True)))
    pq.write_table(table, tmp_path / "a.parquet")
    select(tmp_path / "a.parquet", tmp_path / "out", candidate_column=("x", "y", "z"))
    table = read_output(tmp_path / "out")
    assert_selected(table, rows)
    assert table[CANDIDATE].to_pylist() == [text for row in rows for text in row]
    assert table[CANDIDATE_FROM].to_pylist() == ["x", "y", "z"] * 2


def test_what_makes_no_sense_is_refused(folder, tmp_path, capsys):
    words = ["select", str(folder / "a.parquet"), "--output", str(tmp_path / "out")]
    for more in (["--reference-column", "reference"], ["--reuse", str(folder)], ["--idf", "corpus"],
                 ["--metrics", "chrf"], ["--candidates", "x.txt"]):  # fmt: skip
        assert cli.main([*words, *more]) == cli.UNUSABLE
        assert more[0] in capsys.readouterr().err
    pq.write_table(pa.table({"candidate": ["a", "b"]}), tmp_path / "one.parquet")
    with pytest.raises(InputError, match=r"'candidate' holds no samples: got type string"):
        select(tmp_path / "one.parquet", tmp_path / "out")
    options = job_options(folder / "a.parquet", tmp_path / "out")
    assert not options.among_samples
