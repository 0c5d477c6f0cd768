"""Recipes of the pages (blocks of `py`) with the real packages of others.

They are in no environment of ours. RECIPES_PYTHON names an interpreter that has them, and ours.
"""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bertscore_beam.cli import main as cli
from bertscore_core import BertScorer, ScorerConfig
from tests.support.dumps import sentence
from tests.support.text_files import read_texts
from tests.support.tolerances import PARITY_ATOL

pytestmark = [pytest.mark.process, pytest.mark.model, pytest.mark.long]

DOCS = Path(__file__).parents[1] / "docs"
PYTHON = os.environ.get("RECIPES_PYTHON", sys.executable)
BLOCK = re.compile(r"^```py\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.M | re.S)


def run(code, folder, input=None, **environment):
    given = {"cwd": folder, "env": {**os.environ, **environment}, "input": input, "timeout": 300}
    return subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, **given)


def need(package, folder):
    """Skip the test where a package is not there."""
    if run(f"import {package}", folder).returncode:
        pytest.skip(f"{package} is not installed for RECIPES_PYTHON ({PYTHON})")


def recipe(page, package, folder):
    """Return the code of a page's recipe and what it prints, where the package is there."""
    need(package, folder)
    ((code, printed),) = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    return code, printed


def test_evaluates_own_bertscore_runs_on_the_drop_in(tmp_path):
    code, printed = recipe("library-and-training.md", "evaluate", tmp_path)
    done = run(code, tmp_path, HF_EVALUATE_OFFLINE="1")
    if "Couldn't find a module script" in done.stderr:
        pytest.skip("evaluate.load('bertscore') has not put its module into the cache (HF_HOME)")
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


def test_the_numbers_of_a_night_are_in_mlflow(tmp_path, capsys):
    code, _ = recipe("nightly.md", "mlflow", tmp_path)
    (tmp_path / "hyp.txt").write_text("a cat sat\nrain\n")
    files = ["--candidates", str(tmp_path / "hyp.txt"), "--references", str(tmp_path / "hyp.txt")]
    assert cli.main(["score", *files, "--json", "--quiet"]) == cli.DONE
    night = capsys.readouterr().out
    (tmp_path / "night.json").write_text(night)
    look = """
runs = mlflow.MlflowClient().search_runs(["0"])
print(json.dumps([[run.data.metrics, run.data.params, run.info.run_name] for run in runs]))
"""
    done = run(code + look, tmp_path, MLFLOW_TRACKING_URI=f"sqlite:///{tmp_path}/runs.db")
    assert done.returncode == 0, done.stderr
    ((metrics, parameters, name),) = json.loads(done.stdout.splitlines()[-1])
    summary = json.loads(night)["summary"]
    assert (name, parameters) == ("2026-11-20", {"signature": summary["signature"]})
    numbers = {key: value for key, value in summary.items() if type(value) in (int, float)}
    assert {"f1", "rows", "pairs_per_second"} <= metrics.keys() == numbers.keys()
    assert all(math.isclose(metrics[key], value) for key, value in numbers.items())


INSPECT_LOG = """
import json, sys
from inspect_ai.log import EvalConfig, EvalDataset, EvalLog, EvalSample, EvalSpec, write_eval_log
from inspect_ai.model import ModelOutput
samples = [
    EvalSample(id=text, epoch=1, input="?", target=gold, output=ModelOutput.from_content("m", text))
    for text, gold in json.load(sys.stdin)
]
of = dict(created="2026-11-20T00:00:00+00:00", task="t", dataset=EvalDataset(), model="m")
log = EvalLog(status="success", eval=EvalSpec(**of, config=EvalConfig()), samples=samples)
write_eval_log(log, "logs/night.eval")
"""


def test_the_samples_of_inspects_logs_are_scored(tmp_path):
    code, _ = recipe("inputs.md", "inspect_ai", tmp_path)
    (tmp_path / "logs").mkdir()
    pairs = [(sentence(number), sentence(number + 1)) for number in range(5)]
    written = run(INSPECT_LOG, tmp_path, input=json.dumps(pairs))
    assert written.returncode == 0, written.stderr
    show = (
        'import json\nprint(json.dumps(dict(zip(scored["id"], scored["bertscore_f1"].tolist()))))'
    )
    done = run(f"{code}{show}", tmp_path)
    assert done.returncode == 0, done.stderr
    scored = json.loads(done.stdout.splitlines()[-1])
    texts, references = map(list, zip(*pairs, strict=True))
    expected = BertScorer(ScorerConfig(device="cpu")).score(texts, references).f1
    np.testing.assert_allclose([scored[text] for text in texts], expected, atol=PARITY_ATOL)


LM_EVAL = """
import json
from lm_eval import simple_evaluate
from lm_eval.loggers import EvaluationTracker
rows = [{"q": "q1", "a": "gold 1"}, {"q": "q2", "a": "gold 2"}]
with open("t.jsonl", "w") as file:
    file.writelines(json.dumps(row) + chr(10) for row in rows)
task = dict(task="mine", dataset_path="json", test_split="test", output_type="generate_until")
task |= dict(dataset_kwargs={"data_files": {"test": "t.jsonl"}}, repeats=2)
task |= dict(doc_to_text="{{q}}", doc_to_target="{{a}}", metric_list=[{"metric": "exact_match"}])
found = simple_evaluate(model="dummy", tasks=[task], log_samples=True, bootstrap_iters=0)
samples = found.pop("samples")
tracker = EvaluationTracker(output_path="out")
tracker.save_results_aggregated(results=found, samples=samples)
tracker.save_results_samples("mine", samples["mine"])
"""


def test_the_samples_that_lm_eval_writes_are_read_as_they_are(tmp_path):
    need("lm_eval", tmp_path)
    made = run(LM_EVAL, tmp_path, HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1")
    assert made.returncode == 0, made.stderr
    (path,) = tmp_path.glob("out/*/samples_mine_*.jsonl")
    for name in ("filtered_resps[0]", "resps[0][0]"):
        assert read_texts(path, name, "target") == [
            ("lol", None, [gold], None) for gold in ("gold 1", "gold 2")
        ]
    assert [row[1] for row in read_texts(path, "resps[0]", "target")] == ["0", "1"] * 2


OPENAI = """
from openai.types.chat import ChatCompletion, ChatCompletionMessage as Message
from openai.types.chat.chat_completion import Choice
for number, texts in enumerate((["a", "b"], [None, "c"])):
    choices = [
        Choice(index=n, finish_reason="stop", message=Message(role="assistant", content=text))
        for n, text in enumerate(texts)
    ]
    body = ChatCompletion(
        id="c", created=1, model="m", object="chat.completion", choices=choices
    ).model_dump()
    print(json.dumps({"custom_id": number, "response": {"body": body}, "ref": "r"}))
"""


def test_the_answers_of_openais_package_are_read_as_they_are(tmp_path):
    need("openai", tmp_path)
    made = run(f"import json{OPENAI}", tmp_path)
    assert made.returncode == 0, made.stderr
    (tmp_path / "batch.jsonl").write_text(made.stdout)
    path = "response.body.choices.message.content"
    found = [row[:2] for row in read_texts(tmp_path / "batch.jsonl", path)]
    assert found == [("a", "0"), ("b", "1"), (None, "0"), ("c", "1")]


MBRS = """
import json, sys
from mbrs.metrics.bertscore import MetricBERTScore
model, texts = json.load(sys.stdin)
metric = MetricBERTScore(MetricBERTScore.Config(model_type=model, num_layers=6, cpu=True))
print(json.dumps(metric.pairwise_scores(texts, texts).tolist()))
"""


def test_utilities_are_those_of_mbrs_which_counts_each_text_itself_as_well(tmp_path):
    need("mbrs", tmp_path)
    texts = [sentence(number) for number in range(6)]
    scorer = BertScorer(ScorerConfig(references="mean", device="cpu"))
    given = json.dumps([str(scorer.settings.files.folder), texts])
    done = run(MBRS, tmp_path, input=given)
    assert done.returncode == 0, done.stderr
    theirs = np.array(json.loads(done.stdout.splitlines()[-1]))
    number = len(texts)
    others = [texts[:place] + texts[place + 1 :] for place in range(number)]
    utility = scorer.score(texts, others).f1
    itself = theirs.diagonal()
    assert utility.argmax() == theirs.mean(axis=1).argmax()
    np.testing.assert_allclose(itself, 1, atol=PARITY_ATOL)
    with_itself = (utility * (number - 1) + itself) / number
    np.testing.assert_allclose(with_itself, theirs.mean(axis=1), atol=PARITY_ATOL)
