"""What is refused before a baseline run begins."""

import pytest

from bertscore_beam.baseline import BaselineOptions, prepare_baseline, usual_models
from bertscore_beam.run import Runner
from bertscore_core import ConfigError

FLINK = ("--runner=FlinkRunner", "--job_endpoint=embed")


def options(tmp_path, **changes):
    values = {"models": ("all-MiniLM-L6-v2",), "crawl": "CC-MAIN-2026-30", "languages": ("en",)}
    return BaselineOptions(output=str(tmp_path / "out"), **values | changes)


@pytest.mark.parametrize("where", ["beam", "beam_scoring"])
def test_baselines_on_remote_workers_need_a_device_too(tmp_path, where):
    chosen = options(tmp_path, dtype="float16", **{where: FLINK})
    with pytest.raises(ConfigError, match="float16 needs to know the workers' device"):
        prepare_baseline(chosen, Runner.of(chosen))
    device = options(tmp_path, dtype="float16", device="cuda", **{where: FLINK})
    (model,) = prepare_baseline(device, Runner.of(device)).models
    assert model.config.device == "cuda"


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--no_wait_until_finish", "cannot run detached"),
        ("--runner=DaskRunner", "runner 'dask' cannot be used"),
        ("--direct_num_workers=many", "Beam's options cannot be used"),
    ],
)
def test_options_for_scoring_alone_are_checked_before_any_work(tmp_path, flag, words):
    chosen = options(tmp_path, beam_scoring=(flag,))
    with pytest.raises(ConfigError, match=words):
        prepare_baseline(chosen, Runner.of(chosen))
    assert not (tmp_path / "out").exists()


def test_without_a_model_each_language_gets_the_one_that_score_takes():
    assert usual_models(["en", "zh", "de", "fr"]) == {
        "roberta-large": ["en"],
        "bert-base-chinese": ["zh"],
        "bert-base-multilingual-cased": ["de", "fr"],
    }
    with pytest.raises(ConfigError, match="got 'xh'; expected --models"):
        usual_models(["xh"])


def test_named_models_get_a_table_of_every_language(tmp_path):
    chosen = options(tmp_path, languages=("en", "de"))
    (model,) = prepare_baseline(chosen, Runner.of(chosen)).models
    assert model.languages == {"en", "de"}
