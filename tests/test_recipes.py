"""Recipes of the pages (blocks of `py`) and of configs/recipes with the real packages of others.

They are in no environment of ours. RECIPES_PYTHON names an interpreter that has them, and ours:
`make recipes` makes it from tests/recipes.txt.
"""

import ast
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertscore_beam.cli import main as cli
from bertscore_beam.run.output import TOO_MANY_REJECTS, UNJUDGED, WORSE
from bertscore_core import BertScorer, ScorerConfig
from bertscore_core.stats.intervals import LEAST_ROWS
from tests.support.dumps import sentence
from tests.support.text_files import read_texts
from tests.support.tolerances import PARITY_ATOL

pytestmark = [pytest.mark.process, pytest.mark.model, pytest.mark.long]

ROOT = Path(__file__).parents[1]
DOCS, RECIPES = ROOT / "docs", ROOT / "configs" / "recipes"
MADE = "RECIPES_PYTHON"
PYTHON = os.environ.get(MADE, sys.executable)
BLOCK = re.compile(r"^```py\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.M | re.S)


def run(code, folder, input=None, **environment):
    given = {"cwd": folder, "env": {**os.environ, **environment}, "input": input, "timeout": 300}
    return subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, **given)


def need(package, folder):
    """Skip the test where a package is not there, unless the environment was made to have it."""
    done = run(f"import {package}", folder)
    if done.returncode:
        assert package == "mbrs" or MADE not in os.environ, done.stderr
        pytest.skip(f"{package} is not installed for {PYTHON}")


def recipe(page, package, folder):
    """Return the code of a page's recipe and what it prints, where the package is there."""
    need(package, folder)
    found = BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))
    ((code, printed),) = [block for block in found if re.search(rf"\b{package}\b", block[0])]
    return code, printed


def test_evaluates_own_bertscore_runs_on_the_drop_in(tmp_path):
    code, printed = recipe("library-and-training.md", "evaluate", tmp_path)
    done = run(code, tmp_path, HF_EVALUATE_OFFLINE="1")
    if "Couldn't find a module script" in done.stderr:
        pytest.skip("evaluate.load('bertscore') has not put its module into the cache (HF_HOME)")
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


def test_scored_rows_are_a_frame_of_beam(tmp_path):
    code, printed = recipe("library-and-training.md", "apache_beam.dataframe.convert", tmp_path)
    page = (DOCS / "library-and-training.md").read_text(encoding="utf-8")
    scoring = re.search(r"^import apache_beam as beam\n.*?^scoring = .*?\n", page, re.M | re.S)
    done = run("from bertscore_core import ScorerConfig\n" + scoring[0] + code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


def test_a_recipe_for_another_tool_is_short():
    tools = {*RECIPES.glob("*.py")} - {RECIPES / "bertscore_loss.py"}  # a function for training
    assert len(tools) >= 6
    assert all(len(path.read_text().splitlines()) <= 20 for path in tools)


# --- A night of night.sh in a tracker -------------------------------------------------------------

SYSTEMS, LANGUAGES = ("big/7b", "small"), ("de", "en")
TEXTS = ("candidate", "reference")
DAY = "2026-11-20"
VERDICTS = {
    status: json.dumps({"passed": passed, "comparisons": [], "rankings": []})
    for status, passed in ((cli.DONE, True), (WORSE, False), (UNJUDGED, None))
}
"""What `compare` says of a night, by the status with which night.sh ends."""


@pytest.fixture(scope="module")
def night(tmp_path_factory) -> Path:
    """The folder of a night of two systems in two languages, with its page and its verdict."""
    folder = tmp_path_factory.mktemp("night")
    rows = [
        {
            "system": system,
            "language": language,
            "candidate": sentence(number),
            "reference": sentence(number + (system == "small")),
        }
        for system, language, number in product(SYSTEMS, LANGUAGES, range(LEAST_ROWS))
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "dump.parquet")
    words = ["score", "--input", str(folder), "--output", str(folder / "scores" / DAY), "--quiet"]
    words += ["--model", "all-MiniLM-L6-v2", "--language-column", "language", "--by", "system"]
    assert cli.main([*words, "language", "--metrics", "bleu", "chrf++"]) == cli.DONE
    (folder / "pages").mkdir()
    (folder / "pages" / f"{DAY}.json").write_text(VERDICTS[cli.DONE])
    (folder / "pages" / f"{DAY}.html").write_text("<p>night</p>")
    return folder


def as_shipped(folder: Path, config: Path, rows: Path, *words: str) -> int:
    """Score a night by a file of configs as it is; return the status."""
    named = ["--config", str(config), "--input", str(rows), "--quiet", *words]
    return cli.main(["score", *named, "--output", str(folder / "scores" / DAY)])


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Path:
    """The folder of a night that the options of the demo have scored: without groups."""
    folder = tmp_path_factory.mktemp("demo")
    sample = ROOT / "configs" / "demo" / "sample" / "several-references.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)  # its paths are relative
        assert as_shipped(folder, ROOT / "configs" / "demo" / "demo.yaml", sample) == cli.DONE
    return folder


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> Path:
    """The folder of a night that the options of night.sh have scored, with too few rows: status 3.

    It has neither languages nor other metrics.
    """
    folder = tmp_path_factory.mktemp("short")
    columns = {name: [sentence(n + at) for n in range(9)] for at, name in enumerate(TEXTS)}
    pq.write_table(pa.table({"system": ["a", "b", None] * 3, **columns}), folder / "dump.parquet")
    (folder / "baselines" / "en").mkdir(parents=True)
    table = folder / "baselines" / "en" / "all-MiniLM-L6-v2.idf.tsv"
    shutil.copy(ROOT / "configs" / "demo" / "baseline.csv", table)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        counting = ["idf", "--input", "dump.parquet", "--output", "idf.npz", "--quiet"]
        assert cli.main([*counting, "--model", "all-MiniLM-L6-v2"]) == cli.DONE
        config = ROOT / "configs" / "nightly" / "night.yaml"
        status = as_shipped(folder, config, folder / "dump.parquet", "--by", "system")
    assert status == TOO_MANY_REJECTS
    return folder


@pytest.mark.parametrize(
    ("status", "passed"),
    [(cli.DONE, "true"), (TOO_MANY_REJECTS, "null"), (WORSE, "false"), (UNJUDGED, "null")],
)
@pytest.mark.parametrize("setting", ["demo", "short", "night"])
def test_trackers_get_the_verdict_of_every_night(
    request, tmp_path, monkeypatch, setting, status, passed
):
    folder = request.getfixturevalue(setting)
    shutil.copytree(folder / "scores" / DAY, tmp_path / "scores" / DAY)
    (tmp_path / "pages").mkdir()
    if status in VERDICTS:  # `night.sh` compares no night that has failed a gate of `score`
        (tmp_path / "pages" / f"{DAY}.json").write_text(VERDICTS[status])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["night_numbers.py", DAY])
    found = runpy.run_path(str(RECIPES / "night_numbers.py"))
    assert found["words"]["passed"] == passed
    assert found["words"]["success"] == json.dumps(setting != "short")
    numbers = found["numbers"]
    assert numbers.pop("passed", None) == {"true": 1.0, "false": 0.0}.get(passed)
    systems = {name.split("/")[1] for name in numbers}
    assert systems == {"demo": set(), "short": {"a", "b", "None"}}.get(setting, {"big_7b", "small"})
    signed = {name for name in found["words"] if name.startswith("signature/")}
    assert signed == {*signatures_of(folder)}


def test_the_keys_of_a_summary_are_always_the_same(demo, short, night):
    made = (folder / "scores" / DAY / "_summary.json" for folder in (demo, short, night))
    first, *others = (json.loads(path.read_text()) for path in made)
    assert all(list(other) == list(first) for other in others)
    assert first["groups"] is first["languages"] is first["metrics"] is first["idf"] is None


def numbers_of(night: Path) -> dict[str, float]:
    """Return what a tracker should have, from the table of groups."""
    table = pq.read_table(night / "scores" / DAY / "_groups.pq").to_pylist()[1:]
    scores = [f"{m}{end}" for m in ("precision", "recall", "f1") for end in ("", "_low", "_high")]
    columns = {name: f"bertscore_{name}" for name in scores}
    columns |= {name: name for name in ("metric_bleu", "metric_chrfpp")}
    return {"passed": 1.0} | {
        f"{name}/{row['system'].replace('/', '_')}/{row['language']}": row[column]
        for row, (name, column) in product(table, columns.items())
    }


def signatures_of(night: Path) -> dict[str, str]:
    summary = json.loads((night / "scores" / DAY / "_summary.json").read_text())
    if summary["languages"] is None:
        return {"signature/bertscore": summary["signature"]}
    return {
        **{f"signature/{code}": summary["languages"][code]["signature"] for code in LANGUAGES},
        "signature/bleu": summary["metrics"]["bleu"]["signature"],
        "signature/chrfpp": summary["metrics"]["chrf++"]["signature"],
    }


def words_of(night: Path) -> dict[str, str]:
    return {**signatures_of(night), "passed": "true", "success": "true"}


def test_mlflow_has_every_system_and_language_and_the_verdict(night):
    need("mlflow", night)
    to = {"MLFLOW_TRACKING_URI": f"sqlite:///{night}/runs.db"}
    words = [PYTHON, RECIPES / "to_mlflow.py", DAY]
    subprocess.run(words, cwd=night, env={**os.environ, **to}, check=True)
    look = """
import json, mlflow
(run,) = mlflow.MlflowClient().search_runs(["0"])
files = [file.path for file in mlflow.MlflowClient().list_artifacts(run.info.run_id)]
print(json.dumps([run.info.run_name, run.data.metrics, run.data.params, files]))
"""
    found = json.loads(run(look, night, **to).stdout.splitlines()[-1])
    wanted = numbers_of(night)
    assert len(wanted) == 1 + 4 * (9 + 2)
    assert found == [DAY, pytest.approx(wanted), words_of(night), [f"{DAY}.html"]]


def test_mlflow_takes_a_night_without_a_verdict_and_a_page(short):
    need("mlflow", short)
    to = {"MLFLOW_TRACKING_URI": f"sqlite:///{short}/runs.db"}
    words = [PYTHON, RECIPES / "to_mlflow.py", DAY]
    subprocess.run(words, cwd=short, env={**os.environ, **to}, check=True)


# A file of W&B is a log as LevelDB writes it, of records in protobuf.
WANDB_FILE = """
import glob, json, struct
from wandb.proto.wandb_internal_pb2 import Record
(path,) = glob.glob("wandb/offline-run-*/*.wandb")
data, at, whole, numbers, config = open(path, "rb").read(), 7, b"", {}, {}
while at + 7 <= len(data):
    if 32768 - at % 32768 < 7:
        at += 32768 - at % 32768
    _, size, kind = struct.unpack_from("<IHB", data, at)
    whole, at = whole + data[at + 7 : at + 7 + size], at + 7 + size
    if kind in (1, 4):  # a whole record, or the end of one
        record, whole = Record.FromString(whole), b""
        named = lambda items: {i.key or ".".join(i.nested_key): i.value_json for i in items}
        numbers |= named(record.history.item)
        config |= named(record.run.config.update)
print(json.dumps([{k: json.loads(v) for k, v in one.items()} for one in (numbers, config)]))
"""


def test_wandb_has_the_same_offline(night):
    need("wandb", night)
    own = {**os.environ, "WANDB_MODE": "offline"}
    subprocess.run([PYTHON, RECIPES / "to_wandb.py", DAY], cwd=night, env=own, check=True)
    done = run(WANDB_FILE, night)
    assert done.returncode == 0, done.stderr
    numbers, config = json.loads(done.stdout)
    own = {key: value for key, value in numbers.items() if not key.startswith("_")}
    assert own == pytest.approx(numbers_of(night))
    assert {key: config[key] for key in config if key != "_wandb"} == words_of(night)


# --- Harnesses ------------------------------------------------------------------------------------

INSPECT_EVAL = """
import json, sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput
from inspect_ai.solver import solver
from inspect_scorer import bertscore
answer, *targets = json.load(sys.stdin)
@solver
def answers():  # without a model: its tokens would be counted with a file from the network
    async def solve(state, generate):
        state.output = ModelOutput.from_content("none", answer)
        return state
    return solve
task = Task(dataset=[Sample(input="?", target=targets)], solver=answers(), scorer=bertscore())
(log,) = eval(task, model="mockllm/model", display="none")
(scored,) = log.results.scores
print(json.dumps([log.samples[0].scores[scored.name].value, scored.metrics["mean"].value]))
"""


def f1_of(candidates, references) -> list[float]:
    found = BertScorer(ScorerConfig(device="cpu")).score(candidates, references)
    return [float(f1) for f1 in found.f1]


def test_inspect_scores_an_answer_with_its_best_target(tmp_path):
    need("inspect_ai", tmp_path)
    texts = [sentence(number) for number in range(3)]
    done = run(INSPECT_EVAL, tmp_path, input=json.dumps(texts), PYTHONPATH=str(RECIPES))
    assert done.returncode == 0, done.stderr
    expected = f1_of(texts[:1], [texts[1:]])
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == pytest.approx([expected[0]] * 2, abs=PARITY_ATOL)


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
    need("inspect_ai", tmp_path)
    code = (RECIPES / "inspect_logs.py").read_text()
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


LM_EVAL_TASK = """
task: mine
dataset_path: json
dataset_kwargs: {data_files: {test: t.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{answer}}"
"""
LM_EVAL_METRIC = """
import json
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
tasks = TaskManager(include_path="task", include_defaults=False)
found = simple_evaluate(model="dummy", tasks=["mine"], task_manager=tasks, bootstrap_iters=0)
first = found["samples"]["mine"][0]["bertscore"]
print(json.dumps([found["results"]["mine"]["bertscore,none"], first]))
"""


def test_lm_eval_has_the_metric(tmp_path):
    need("lm_eval", tmp_path)
    folder = tmp_path / "task"
    folder.mkdir()
    recipe = Path(shutil.copy(RECIPES / "lm_eval_metric.py", folder))
    lines = ast.get_docstring(ast.parse(recipe.read_text())).partition("\n\n")[2]
    (tmp_path / "task" / "mine.yaml").write_text(LM_EVAL_TASK + lines)
    answers = [[sentence(1)], [sentence(2), "lol"]]
    rows = ({"q": f"q{number}", "answer": answer} for number, answer in enumerate(answers))
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run(LM_EVAL_METRIC, tmp_path, HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    expected = f1_of(["lol"] * 2, answers)
    mean, first = json.loads(done.stdout.splitlines()[-1])
    assert (mean, first) == pytest.approx((np.mean(expected), expected[0]), abs=PARITY_ATOL)


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
