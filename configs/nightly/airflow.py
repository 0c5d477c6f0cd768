"""Score every night's dump on Dataflow: a DAG for Apache Airflow 3 with the standard provider.

The launcher is the command line, in an environment with the extra `all`. It waits for the job,
so that the task is green only when the scores are there. Readers of the scores should wait
for the task `check`: it looks for the `_SUCCESS` of the run that the folder holds. An older
job that lost the folder cannot write that one. A retry continues where the last try stopped, since
committed parts are reused. After the timeout below the launcher is ended, and cancels its job. If
the launcher died, the retry cancels the job that it finds, waits for its end, and continues.

The night is then compared with a pinned run (a copy of a night that you were content with), and a
page is written about it. Exit statuses 2 (the command cannot work as given), 3 (done, but a gate
was not passed), 4 (a system is worse) and 5 (too few rows to judge by) are not retried: the same
command would end the same way.
`ds` is the day on which the run starts, and the name of the dump's folder.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.exceptions import AirflowFailException, AirflowSkipException
from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

SCORE = """\
bertscore-beam score --config /opt/configs/dataflow.yaml
 --input gs://your-bucket/dumps/{{ ds }}/*.parquet
 --output gs://your-bucket/scores/{{ ds }}
 -- --job_name=bertscore-{{ ds }}-try-{{ ti.try_number }}
"""

DAY = "{{ ds }}"

CHECK = f"bertscore-beam check gs://your-bucket/scores/{DAY}"

GATE = "--key id --by system --fail-if-drop 0.005"
"""If rows belong together, such as those of a document, add `--cluster COLUMN`. If more than 1% of
the rows may be missing, add `--max-missing-fraction SHARE`."""

COMPARE = f"""\
bertscore-beam compare gs://your-bucket/scores/{DAY} gs://your-bucket/scores/pinned {GATE}
"""

REPORT = f"""\
bertscore-beam report gs://your-bucket/scores/{DAY} --against gs://your-bucket/scores/pinned
 -o gs://your-bucket/pages/{DAY}.html {GATE}
"""

FINAL = (2, 3, 4, 5)
"""Exit statuses that a retry would not change."""


class FinalOperator(BashOperator):
    """A command that fails without a retry if a retry would not help."""

    def execute(self, context: Any) -> Any:
        """Run the command; where the operator would skip, fail without a retry."""
        try:
            return super().execute(context)
        except AirflowSkipException as error:
            said = str(error).removesuffix(" Skipping.")
            raise AirflowFailException(f"{said} Another try would not change that.") from error


with DAG(
    dag_id="bertscore_nightly",
    schedule="0 2 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
):

    def task(name: str, command: str, **more: Any) -> FinalOperator:
        """Return the task of a command."""
        command = " ".join(command.split())
        return FinalOperator(
            task_id=name, bash_command=command, skip_on_exit_code=FINAL, retries=3, **more
        )

    score = task(
        "score", SCORE, retry_delay=timedelta(minutes=5), execution_timeout=timedelta(hours=6)
    )
    check = BashOperator(task_id="check", bash_command=CHECK)
    compare, report = task("compare", COMPARE), task("report", REPORT)
    # Both are last, so that the night is red if it is worse, and has its page all the same.
    score >> check >> report
    check >> compare
