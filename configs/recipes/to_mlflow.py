"""Log a night to MLflow: python to_mlflow.py 2026-11-20."""

import mlflow
from night_numbers import day, numbers, page, words

with mlflow.start_run(run_name=day):
    mlflow.log_metrics(numbers)
    mlflow.log_params(words)
    if page.exists():
        mlflow.log_artifact(str(page))
