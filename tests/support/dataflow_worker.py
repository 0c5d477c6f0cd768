"""What runs a job of the stand-in of Dataflow: its pipeline, as it was staged, in this process.

    python -m tests.support.dataflow_worker PIPELINE COUNTERS PROCESSES DIVIDES

PIPELINE is Beam's own description. Its images are the environment of this process, which writes the
COUNTERS. It works itself, or starts several PROCESSES that share the work, as a machine of Dataflow
has one for each core. With DIVIDES 1 it divides some of the elements at work, and does the rest of
them later.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import split_manager
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.transforms.environments import ExternalEnvironment

DIVIDED = "An element is divided."
_STEP = "ScoreSplits/Work/OnDevice/Run"


class Divider:
    """Leaves bundles that run only what they are at work on, until a few elements are divided.

    An element at its last split cannot be divided: whether one can depends on the moment.
    """

    _most = 5

    def __call__(self, number: int) -> Iterator[float]:
        """Divide a bundle of so many elements, once it has begun."""
        if self._most == 0:
            return
        for _ in range(200):
            given: Any = yield 0.0
            if given is not None:
                self._most -= bool(given.residual_roots)
                print(DIVIDED if given.residual_roots else "A bundle is divided.", flush=True)
                return
            time.sleep(0.1)


def main(pipeline: Path, counters: Path, processes: int, divides: bool) -> None:
    """Run a pipeline to its end, and write its counters."""
    proto = beam_runner_api_pb2.Pipeline.FromString(pipeline.read_bytes())
    for environment in proto.components.environments.values():
        if environment.urn != common_urns.environments.DOCKER.urn or environment.dependencies:
            raise ValueError(f"Dataflow's workers are an image with all code: got {environment}")
        environment.urn = python_urns.EMBEDDED_PYTHON
        environment.payload = b""
        if processes > 1 or divides:
            address, _ = BeamFnExternalWorkerPoolServicer.start(use_process=True)
            made = ExternalEnvironment(address).to_runner_api(None)
            environment.urn, environment.payload = made.urn, made.payload
    runner = FnApiRunner()
    runner._num_workers = processes
    with split_manager(_STEP if divides else "no step", Divider()):
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
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "1")
