"""What runs a job of the stand-in of Dataflow: its pipeline, as it was staged, in this process.

    python -m tests.support.dataflow_worker PIPELINE COUNTERS PROCESSES

PIPELINE is Beam's own description. Its images are the environment of this process, which writes the
COUNTERS. It works itself, or starts several PROCESSES that share the work, as a machine of Dataflow
has one for each core.
"""

import json
import sys
from pathlib import Path

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.transforms.environments import ExternalEnvironment


def main(pipeline: Path, counters: Path, processes: int) -> None:
    """Run a pipeline to its end, and write its counters."""
    proto = beam_runner_api_pb2.Pipeline.FromString(pipeline.read_bytes())
    for environment in proto.components.environments.values():
        if environment.urn != common_urns.environments.DOCKER.urn or environment.dependencies:
            raise ValueError(f"Dataflow's workers are an image with all code: got {environment}")
        environment.urn = python_urns.EMBEDDED_PYTHON
        environment.payload = b""
        if processes > 1:
            address, _ = BeamFnExternalWorkerPoolServicer.start(use_process=True)
            made = ExternalEnvironment(address).to_runner_api(None)
            environment.urn, environment.payload = made.urn, made.payload
    runner = FnApiRunner()
    runner._num_workers = processes
    result = runner.run_via_runner_api(proto, PipelineOptions([]))
    result.wait_until_finish()
    counted = result.metrics().query()["counters"]
    described = [
        {
            "name": metric.key.metric.name,
            "namespace": metric.key.metric.namespace,
            "step": metric.key.step,
            "value": metric.result,
        }
        for metric in counted
    ]
    counters.write_text(json.dumps(described))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
