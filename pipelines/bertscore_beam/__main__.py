"""`python -m bertscore_beam` is `bertscore-beam`."""

import sys

from bertscore_beam.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
