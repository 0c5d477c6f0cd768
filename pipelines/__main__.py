"""`python -m pipelines` is `bertscore-beam`."""

import sys

from pipelines.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
