"""Formats in which scores depend on the batches: those asked for are signed, others are counted."""

import pytest

from bertscore_beam.options.language_map import language_map
from bertscore_beam.run.loading import scorer_config
from bertscore_beam.run.runner import Runner
from bertscore_beam.score.settle import settle_named
from bertscore_core import ConfigError, Signature
from bertscore_core.model.encoder import Encoder
from tests.support.dumps import write_dump
from tests.support.jobs import job_options, run_job

DATAFLOW = ("--runner=DataflowRunner",)


def options(tmp_path, **changes):
    return job_options(tmp_path / "dump", tmp_path / "out", **({"device": "auto"} | changes))


def config_of(chosen):
    return scorer_config(chosen, Runner.of(chosen).threads)


@pytest.mark.parametrize("dtype", ["auto", "bfloat16", "float16"])
def test_remote_workers_need_a_device_since_it_decides_the_batches(tmp_path, dtype):
    with pytest.raises(ConfigError, match=f"{dtype} needs to know .* Give --device cuda, or"):
        config_of(options(tmp_path, dtype=dtype, beam=DATAFLOW))
    hint = "type:nvidia-l4;count:1"
    found = config_of(options(tmp_path, dtype=dtype, beam=DATAFLOW, accelerator=hint))
    assert found.device == "cuda"
    assert config_of(options(tmp_path, dtype=dtype)).device == "auto"
    assert config_of(options(tmp_path, beam=DATAFLOW)).device == "auto"


def test_batches_that_did_not_fit_are_in_the_records_and_in_the_summary(
    tmp_path, tiny_folder, monkeypatch
):
    """Later parts fail nowhere, and yet have other batches than the signature names."""
    start = Encoder.start

    def narrow(self, ids, lengths):
        if len(ids) > 4:
            raise MemoryError
        return start(self, ids, lengths)

    monkeypatch.setattr(Encoder, "start", narrow)
    dump, model = write_dump(tmp_path / "dump", [40]), str(tiny_folder("bert"))
    given = {"num_layers": 1, "dtype": "bfloat16", "backend": "torch", "split_rows": 20}
    summary = run_job(dump, output=tmp_path / "out", model=model, **given)
    assert summary["parts"] > 1
    assert 0 < summary["memory_retries"] < summary["lowered_batches"]
    signature = Signature.parse(summary["signature"])
    assert (signature.batch_tokens, signature.dtype) == ("1024/4", "bfloat16-true")


@pytest.mark.parametrize(
    ("device", "formats"),
    [
        ("cpu", {"bert": "float32", "mpnet": "float32", "deberta": "float32"}),
        ("cuda", {"bert": "float16-true", "mpnet": "float16-true", "deberta": "bfloat16-true"}),
    ],
)
def test_workers_are_given_the_format_that_auto_stands_for(tmp_path, tiny_folder, device, formats):
    """So all of them score as the signature says. The last language has the model of another."""
    families = dict(zip(["en", "de", "fr", "it"], [*formats, "deberta"], strict=True))
    models = {
        language: {"model": str(tiny_folder(family)), "num_layers": 1, "max_length": 40}
        for language, family in families.items()
    }
    by = {"language_column": "language", "languages": language_map(models, "the test")}
    chosen = options(tmp_path, dtype="auto", device=device, beam=DATAFLOW, **by)
    settled = settle_named(chosen, Runner.of(chosen).threads).by_language
    for language, family in families.items():
        setting = settled[language]
        assert setting.signature.dtype == formats[family]
        assert setting.config.dtype == formats[family].removesuffix("-true")
