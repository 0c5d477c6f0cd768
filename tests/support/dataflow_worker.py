"""What runs a job of the stand-in of Dataflow: its pipeline, as it was staged, in this process.

    python -m tests.support.dataflow_worker PIPELINE COUNTERS

PIPELINE is Beam's own description. Its images are the environment of this process, which gets the
counters' file, too. On Dataflow machines share the work; what is in a worker is the same.
"""

import json
import sys
from pathlib import Path

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner


def main(pipeline: Path, counters: Path) -> None:
    """Run a pipeline to its end, and write its counters."""
    proto = beam_runner_api_pb2.Pipeline.FromString(pipeline.read_bytes())
    for environment in proto.components.environments.values():
        if environment.urn != common_urns.environments.DOCKER.urn or environment.dependencies:
            raise ValueError(f"Dataflow's workers are an image with all code: got {environment}")
        environment.urn = python_urns.EMBEDDED_PYTHON
        environment.payload = b""
    result = FnApiRunner().run_via_runner_api(proto, PipelineOptions([]))
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
    main(*map(Path, sys.argv[1:]))
