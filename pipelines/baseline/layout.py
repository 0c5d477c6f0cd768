"""Where everything lies in the output folder of a baseline job.

    OUT/<language>/<model>.tsv               LAYER,P,R,F, as bert-score lays its own tables out
    OUT/<language>/<model>.json, .png        how it was made, its errors; score distributions
    OUT/_sentences/<language>/<file>.<n>.pq  sentences of one file, and beside them
    OUT/_sentences/<language>/<file>.json    its record, written last
    OUT/_sample/<language>.npy, .json        priorities of the sampled sentences, and the record
    OUT/_pairs/<language>/<part>.parquet     random pairs, and in <language>.json the record
    OUT/_moments/<language>/<model>/<part>.npz   sums over the scores of a part, all layers
    OUT/_failed/<file>.json                  a file that could not be read, and why; for a file of
                                             given sentences behind its language
    OUT/_run.json, _summary.json, _SUCCESS   settings of the sample; what was made; the end

Each is a function of the settings and of what comes before it in this list, written at once or not
at all. A stage skips what is there, so a run that was killed continues where it stopped.
"""

SENTENCES_FOLDER = "_sentences"
SAMPLE_FOLDER = "_sample"
PAIRS_FOLDER = "_pairs"
MOMENTS_FOLDER = "_moments"
FAILED_FOLDER = "_failed"
RUN_FILE = "_run.json"
SUMMARY_FILE = "_summary.json"


def sentences_path(language: str, name: str, block: int) -> str:
    """Return where a block of a file's sentences lies. Globs for Parquet do not find it."""
    return f"{SENTENCES_FOLDER}/{language}/{name}.{block}.pq"


def record_path(language: str, name: str) -> str:
    """Return where the record of a file's sentences lies."""
    return f"{SENTENCES_FOLDER}/{language}/{name}.json"


def failed_path(name: str) -> str:
    """Return where it is said why a file could not be read."""
    return f"{FAILED_FOLDER}/{name}.json"


def sample_path(language: str) -> str:
    """Return where the priorities of a language's sample lie."""
    return f"{SAMPLE_FOLDER}/{language}.npy"


def sample_record_path(language: str) -> str:
    """Return where the record of a language's sample lies."""
    return f"{SAMPLE_FOLDER}/{language}.json"


def pairs_path(language: str, part: str) -> str:
    """Return where a part of a language's pairs lies."""
    return f"{PAIRS_FOLDER}/{language}/{part}.parquet"


def pairs_record_path(language: str) -> str:
    """Return where the record of a language's pairs lies."""
    return f"{PAIRS_FOLDER}/{language}.json"


def moments_folder(language: str, model: str) -> str:
    """Return the folder of a model's moments."""
    return f"{MOMENTS_FOLDER}/{language}/{model}"
