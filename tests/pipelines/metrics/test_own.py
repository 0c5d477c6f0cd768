"""A metric of one's own is imported, called and checked; what is wrong with it is named."""

from pathlib import Path

import numpy as np
import pytest

from bertscore_beam.metrics.own import MetricError, OwnMetric, find_metrics, look_at, score_with
from bertscore_beam.metrics.table import described, identity_of, speed_note
from bertscore_beam.options.score_options import ScoreOptions
from bertscore_core import ConfigError
from tests.support import own_metrics

ROOT = Path(__file__).resolve().parents[3]
HERE = "tests.support.own_metrics"
CANDIDATES = ["a b c", "", "x y", "d"]
REFERENCES = [["a", "a b"], ["q"], ["y z"], ["d e"]]
SOURCES = ["a b", "q", None, "e"]


def found(name, *, has_sources=False):
    return look_at(f"{HERE}:{name}", has_sources)


def scored(name, sources=()):
    ((scores, counts),) = score_with(
        [found(name, has_sources=bool(sources))], CANDIDATES, REFERENCES, sources
    )
    assert counts.shape == (len(CANDIDATES), 0)
    return scores.tolist()


def test_a_function_is_given_all_references_and_sources_and_may_have_no_number_for_a_row():
    np.testing.assert_equal(scored("overlap"), [2 / 3, np.nan, 0.5, 1])
    np.testing.assert_equal(scored("copied", SOURCES), [2, 0, np.nan, 0])
    np.testing.assert_equal(scored("endless"), [np.nan, np.nan, -1e300, 0.5])
    nothing = [found("copied", has_sources=True)]
    assert score_with(nothing, ["a"], [["b"]], [None])[0][0].tolist() == pytest.approx(
        [np.nan], nan_ok=True
    )


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("failing", r"got ValueError at .*own_metrics\.py:\d+; expected"),
        ("short", r"got numbers of shape \(3,\); expected a number for each of 4 rows"),
        ("wordy", "got ValueError; expected"),
    ],
)
def test_what_is_no_number_for_each_row_ends_the_run_without_a_text(name, got):
    with pytest.raises(MetricError, match=got) as caught:
        scored(name)
    assert CANDIDATES[0] not in str(caught.value)
    assert f"the metric {HERE}:{name} has failed" in str(caught.value)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no_such_module:name", "cannot be imported: got ModuleNotFoundError.*PYTHONPATH"),
        (f"{HERE}:nothing", "cannot be imported: got AttributeError"),
        (f"{HERE}:NUMBER", "cannot be called: got int; expected a function"),
        (f"{HERE}:alone", "cannot be called: got too many positional arguments"),
        (f"{HERE}:copied", "missing a required argument: 'sources'.*--source-column"),
        ("math:gcd_", "cannot be imported"),
        ("math:dist", "has no version: got neither an attribute 'version' nor the source"),
    ],
)
def test_what_cannot_be_a_metric_is_refused(path, words):
    with pytest.raises(ConfigError, match=words):
        look_at(path, has_sources=False)


def test_the_version_is_that_of_the_function_or_of_the_source_of_its_module(tmp_path, monkeypatch):
    copied = found("copied", has_sources=True)
    assert copied.signature == f"function:{HERE}:copied|version:copied-1|lower:better"
    assert (copied.name, copied.takes_sources) == ("copied", True)
    monkeypatch.syspath_prepend(tmp_path)
    versions = []
    for at, body in enumerate(("0", "1", "0")):
        path = tmp_path / f"own_{at}.py"
        path.write_text(
            f"def one(candidates, references):\n    return [{body}] * len(candidates)\n"
        )
        versions.append(look_at(f"own_{at}:one", has_sources=False).version)
    assert versions[0] == versions[2] != versions[1]
    own = [OwnMetric(path="a:b", version=version) for version in versions]
    assert identity_of([], "", own[:1]) == identity_of([], "", own[2:])
    assert identity_of([], "", own[:1]) != identity_of([], "", own[1:2])
    assert identity_of([], "", own[:1], "src") != identity_of([], "", own[:1])
    made = described(["chrf"], ["en"], listed=False, own=[copied])
    assert made["copied"]["lower_is_better"] is True
    assert made["copied"]["sentence_signature"] == copied.signature
    assert speed_note(["bleu", "copied"]).endswith("core that is free; copied: not known")


@pytest.mark.process
def test_functions_are_imported_in_a_process_of_their_own(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT}/pipelines")
    paths = (f"{HERE}:overlap", f"{HERE}:copied")
    assert [one.takes_sources for one in find_metrics(paths, has_sources=True)] == [False, True]
    with pytest.raises(ConfigError, match="--source-column is for metrics that take sources"):
        find_metrics(paths[:1], has_sources=True)
    with pytest.raises(ConfigError, match="no_such_module:name cannot be imported"):
        find_metrics(("no_such_module:name",), has_sources=False)
    assert find_metrics((), has_sources=False) == ()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"metrics": ["meteor"]}, "names of bleu, chrf.* or functions as package.module:name"),
        ({"metrics": ["a:b", "c:b"]}, "each with a name of its own"),
        ({"metrics": ["a:chrf", "chrf"]}, "each with a name of its own"),
        ({"metrics": ["a:chrf"]}, "each with a name of its own"),
        ({"metrics": ["a:f1"]}, "each with a name of its own"),
        ({"metrics": ["a:bleu_counts"]}, "each with a name of its own"),
        ({"metrics": ["a.b"]}, "package.module:name"),
        ({"metrics": ["a/b:c"]}, "package.module:name"),
        ({"metrics": ["a:b.c"]}, "package.module:name"),
        ({"metrics": ["chrf"], "source_column": "src"}, "a function in --metrics"),
        ({"source_column": "src"}, "a function in --metrics"),
    ],
)
def test_names_are_checked_before_anything_is_imported(values, words):
    with pytest.raises(ConfigError, match=words):
        ScoreOptions.from_mapping({"input": ["a"], "output": "b", **values}, "the arguments")
    assert own_metrics.NUMBER == 7
