"""What importing a module loads: what takes seconds, or is an extra, only where it is needed."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = sorted(
    ".".join(path.parent.relative_to(above).parts)
    for above, package in ((ROOT, "bertscore_core"), (ROOT / "pipelines", "bertscore_beam"))
    for path in (above / package).rglob("__init__.py")
)
PURE = """baseline idf registry signature tokens match.matching stats.agreement stats.estimates
stats.intervals stats.moments stats.paired stats.score_statistics stats.scores sums"""
STEPS = """baseline.extract baseline.layer_moments idf.counting run.activity run.child run.counters
run.layer_step run.pool run.text_import score.loaded_scorers score.steps tune.layer_scores"""
COMMANDS = ["bertscore_beam.cli.main", "bertscore_beam.options.score_options"]
LAUNCHER = ["bertscore_beam.cli.jobs", "bertscore_beam.score.job", "bertscore_core.scorer_config"]


@pytest.mark.process
@pytest.mark.parametrize(
    "stages",
    [
        [  # one after the other in a process: each may load more than the one before
            (COMMANDS, {"apache_beam", "pandas", "requests", "scipy", "torch", "transformers"}),
            (ROOMS, {"apache_beam", "torch", "transformers"}),
            ([f"bertscore_core.{name}" for name in PURE.split()], {"apache_beam", "transformers"}),
            ([f"bertscore_beam.{name}" for name in STEPS.split()], {"apache_beam"}),
        ],
        [(LAUNCHER, {"torch", "transformers", "tokenizers"})],
    ],
    ids=["commands, packages, mathematics, steps", "launcher"],
)
def test_importing_them_loads_nothing_that_takes_seconds(stages):
    code = "".join(
        f"import sys, {', '.join(modules)}; print(*sys.modules.keys() & {forbidden!r})\n"
        for modules, forbidden in stages
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "\n" * len(stages)), done.stderr


@pytest.mark.process
def test_a_job_of_one_file_of_text_does_without_beam(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("candidate,reference\nthe cat,a cat\n")
    words = ["idf", "--input", str(file), "--output", str(tmp_path / "idf.npz")]
    code = (
        "import sys\n"
        "from bertscore_beam.cli.main import main\n"
        f"print(main({words!r}), 'apache_beam' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.endswith("0 False\n"), done.stderr


EXTRAS = "langcodes pandas pycld2 rouge_score sacrebleu vl_convert"
NEED_NONE = """cli.answers cli.explain cli.jobs cli.tables compare.compare idf.job
pairs.batches pairs.transform score.job score.rescale"""


@pytest.mark.process
def test_what_needs_no_extra_loads_without_one():
    """Matplotlib and jinja2 are left in: transformers looks for them by itself."""
    modules = ", ".join(f"bertscore_beam.{name}" for name in NEED_NONE.split())
    code = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS!r}.split())); import {modules}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
