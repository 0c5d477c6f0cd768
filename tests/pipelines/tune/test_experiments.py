"""The experiments of the paper run on their made-up samples."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bertscore_beam.cli.main import main
from bertscore_beam.options.values import load_yaml
from bertscore_beam.tune.judgements import read_judgements
from bertscore_beam.tune.tune_options import TuneOptions
from bertscore_beam.tune.tune_results import JudgedGroup, statistics_of
from configs.experiments.make_sample import write_samples

CONFIGS = sorted((Path(__file__).parents[3] / "configs" / "experiments").glob("*.yaml"))
BY_SYSTEM = {"kendall", "pearson", "spearman", "system_accuracy", "system_pearson"}
EXPECTED = {
    "wmt": BY_SYSTEM | {"darr", "item_accuracy", "item_kendall", "system_soft_accuracy"},
    **{name: BY_SYSTEM for name in ("coco_m1", "coco_m2")},
    **{name: {"auc"} for name in ("qqp", "paws_qqp", "paws_wiki")},
}
"""What each experiment computes, beside what COCO's numbers as raw scores of 0 to 100 add."""

experiments = pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    write_samples(folder)
    return folder


def options_of(config: Path, samples: Path, output: Path) -> TuneOptions:
    """Return the options of an experiment on its sample."""
    options = TuneOptions.from_mapping(load_yaml(str(config)), str(config))
    assert all(path.startswith("build/experiments/") for path in options.judgements)
    (name,) = (Path(path).name for path in options.judgements)
    return replace(options, judgements=(str(samples / name),), output=str(output))


@experiments
def test_an_experiment_reads_its_columns_and_computes_its_statistics(config, samples, tmp_path):
    options = options_of(config, samples, tmp_path / "out")
    judgements = read_judgements(options, options.output)
    assert judgements.left_out == {}
    statistics = statistics_of(judgements, options)
    assert EXPECTED[config.stem] <= set(statistics)
    assert set(statistics) <= EXPECTED[config.stem] | {"darr"}
    # Scores that are the judgements themselves agree with them fully.
    people = judgements.labels if judgements.people is None else judgements.people
    own = JudgedGroup.of(judgements, judgements.of_group(0), people[None])
    assert statistics[options.statistic](own).values == pytest.approx([1])


@experiments
@pytest.mark.long
@pytest.mark.job
def test_an_experiment_runs_on_its_sample(config, samples, tmp_path, capsys):
    options = options_of(config, samples, tmp_path / "out")
    status = main(
        [
            *("tune", "--config", str(config), "--output", options.output, "--json", "--quiet"),
            *("--judgements", *options.judgements, "--resamples", "100"),
        ]
    )
    assert status == 0
    printed = json.loads(capsys.readouterr().out)
    (found,) = printed["recommended"]
    assert found["statistic"] == options.statistic
    # Damage and paraphrases are told by any layer; exchanged words by hardly any.
    assert found["value"] > (0.4 if "paws" in config.stem else 0.75)
    assert 0 <= found["layer"] <= 6
    of_corpora = {row["model"] for row in printed["agreement"] if "corpus" in row["model"]}
    systems = {"BLEU, corpus", "chrF++, corpus"}
    assert of_corpora == (systems if options.system_column else set())
