"""What Dataflow's Flex Template launcher runs: the score job, its parameters as flags."""

import sys

from bertscore_beam.cli.flex import launch

sys.exit(launch("score", sys.argv[1:]))
