"""Log a night to MLflow: python to_mlflow.py 2026-11-20."""

import mlflow
from night_numbers import day, numbers, signatures

with mlflow.start_run(run_name=day):
    mlflow.log_metrics(numbers)
    mlflow.log_params(signatures)
    mlflow.log_artifact(f"pages/{day}.html")
