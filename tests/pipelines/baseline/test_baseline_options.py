"""Options of the baseline command, and what is refused before a run begins."""

import pytest

from bertscore_beam.baseline.baseline_options import BaselineOptions
from bertscore_beam.baseline.baseline_plan import prepare_baseline, usual_models
from bertscore_beam.cli.main import main
from bertscore_beam.run.runner import Runner
from bertscore_core import ConfigError
from tests.support.wet import CRAWL


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "got none; expected one of crawl, wet, documents, sentences"),
        ({"crawl": CRAWL, "wet": "x"}, "got crawl and wet; expected one"),
        ({"crawl": CRAWL, "languages": [False, "en"]}, "expected a list of texts"),
        ({"sentences": "en=a", "min_words": 0}, "'min_words' cannot be used: got 0"),
        ({"sentences": "en=a", "min_words": 9, "max_words": 8}, "at least --min-words, which is 9"),
        ({"sentences": "en=a", "max_files": 3}, "'max_files' cannot be used: got 3"),
        ({"documents": "a"}, "'documents' cannot be used: got 'a'; expected LANGUAGE=PATH"),
        ({"documents": "en=a", "languages": "en"}, "none where each path has its own"),
        ({"documents": "en=a", "crawl_root": "b"}, "only without --documents"),
        ({"crawl": CRAWL, "languages": "en", "max_words": 3}, "at least --min-words, which is 4"),
    ],
)
def test_options_that_do_not_fit_are_refused_with_a_cure(changes, words):
    with pytest.raises(ConfigError, match=words):
        BaselineOptions.from_mapping({"models": ["m"], "output": "out"} | changes, "my.yaml")


PAGES, GIVEN = {"crawl": CRAWL, "languages": ("en",)}, {"sentences": ("en=a.txt",)}


def test_help_says_what_is_wanted_of_each_list_and_what_seed_holds_without_one(capsys):
    with pytest.raises(SystemExit):
        main(["baseline", "--help-all"])
    said = " ".join(capsys.readouterr().out.split())
    lists = ("models NAME [NAME", "languages CODE [CODE", "sentences LANGUAGE=PATH", "wet PATH")
    for words in (*lists, ".txt, .txt.gz or .parquet", "are sampled (default: 0)"):
        assert words in said


@pytest.mark.parametrize(
    ("changes", "limits"),
    [
        *((PAGES, (4, 31)), (PAGES | {"max_words": 20}, (4, 20))),
        *((GIVEN, (None, None)), (GIVEN | {"max_words": 31}, (None, 31))),
    ],
)
def test_pages_have_limits_of_words_and_given_sentences_have_none(changes, limits):
    words = BaselineOptions(output="out", **changes).words
    assert (words.least, words.most) == limits
    assert bool(words) == (limits != (None, None))


PORTABLE = ("--runner=PortableRunner", "--job_endpoint=embed")


def options(tmp_path, **changes):
    values = {"models": ("all-MiniLM-L6-v2",), "crawl": "CC-MAIN-2026-30", "languages": ("en",)}
    return BaselineOptions(output=str(tmp_path / "out"), **values | changes)


NO_DEVICE = "float16 needs to know the workers' device"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"beam": PORTABLE, "dtype": "float16"}, NO_DEVICE),
        ({"beam_scoring": PORTABLE, "dtype": "float16"}, NO_DEVICE),
        ({"beam_scoring": ("--no_wait_until_finish",)}, "cannot run detached"),
        ({"beam_scoring": ("--runner=DaskRunner",)}, "runner 'dask' cannot be used"),
        ({"beam_scoring": ("--direct_num_workers=many",)}, "Beam's options cannot be used"),
    ],
)
def test_where_pairs_are_scored_is_checked_before_any_work(tmp_path, changes, words):
    chosen = options(tmp_path, **changes)
    with pytest.raises(ConfigError, match=words):
        prepare_baseline(chosen, Runner.of(chosen))
    assert not (tmp_path / "out").exists()
    if words == NO_DEVICE:
        device = options(tmp_path, device="cuda", **changes)
        (model,) = prepare_baseline(device, Runner.of(device)).models
        assert model.setting.config.device == "cuda"


def test_without_a_model_each_language_gets_the_one_that_score_takes(tmp_path):
    assert usual_models(["en", "zh", "de", "fr"]) == {
        "roberta-large": ["en"],
        "bert-base-chinese": ["zh"],
        "bert-base-multilingual-cased": ["de", "fr"],
    }
    with pytest.raises(ConfigError, match="got 'xh'; expected --models"):
        usual_models(["xh"])
    named = options(tmp_path, languages=("en", "de"))
    (model,) = prepare_baseline(named, Runner.of(named)).models
    assert model.languages == {"en", "de"}
