"""Names of all files in the output folder of a baseline job.

    OUT/<language>/<model>.tsv               LAYER,P,R,F: the layout of bert-score's own tables
    OUT/<language>/<model>.json, .png        how it was made, its errors; score distributions
    OUT/_fetched/<file>.raw, .json           a file as it was fetched over http, until it is read
    OUT/_sentences/<block>.<n>.pq            sentences of some files, a row group for each language
    OUT/_sentences/<block>.json              the record of these files, written last
    OUT/_sample/<language>.npy, .json        priorities of the sampled sentences, and the record
    OUT/_pairs/<language>/<part>.parquet     random pairs, and in <language>.json the record
    OUT/_idf/<language>/<model>.npz          document frequencies in the pairs, with --idf
    OUT/_moments/<language>/<model>/<part>.npz   sums over the scores of a part, all layers
    OUT/_failed/<file>.json                  a file that could not be read, and why; given
                                             sentences have their language before the name
    OUT/_run.json, _summary.json, _SUCCESS   as for every job, see `run.folder`

Each file is a function of the settings and of the files before it in this list, and is written
whole or not at all. A stage skips what is there, so a run that was killed continues where it
stopped. Which files share a block depends on what was left to read; nothing that is made of the
sentences does.

The name of a model whose tables are of idf-weighted scores ends in `.idf`, so that a folder may
hold both.
"""

from bertscore_core.baseline import TABLE_SUFFIX

LAYOUT = "2"
"""Version of this layout. The first had a file and a record for each file and language."""
FETCHED_FOLDER = "_fetched"
SENTENCES_FOLDER = "_sentences"
SAMPLE_FOLDER = "_sample"
PAIRS_FOLDER = "_pairs"
IDF_FOLDER = "_idf"
MOMENTS_FOLDER = "_moments"
FAILED_FOLDER = "_failed"


def table_path(language: str, model: str) -> str:
    """Return the path of a table."""
    return f"{language}/{model}{TABLE_SUFFIX}"


def raw_path(label: str) -> str:
    """Return the path of a file as it was fetched."""
    return f"{FETCHED_FOLDER}/{label}.raw"


def raw_record_path(label: str) -> str:
    """Return the path of the record that says that a file was fetched."""
    return f"{FETCHED_FOLDER}/{label}.json"


def sentences_path(block: str, part: int) -> str:
    """Return the path of a part of a block's sentences. Globs for Parquet do not match it."""
    return f"{SENTENCES_FOLDER}/{block}.{part}.pq"


def record_path(block: str) -> str:
    """Return the path of the record of a block of files."""
    return f"{SENTENCES_FOLDER}/{block}.json"


def failed_path(name: str) -> str:
    """Return the path of the note that says why a file could not be read."""
    return f"{FAILED_FOLDER}/{name}.json"


def sample_path(language: str) -> str:
    """Return the path of the priorities of a language's sample."""
    return f"{SAMPLE_FOLDER}/{language}.npy"


def sample_record_path(language: str) -> str:
    """Return the path of the record of a language's sample."""
    return f"{SAMPLE_FOLDER}/{language}.json"


def pairs_path(language: str, part: str) -> str:
    """Return the path of a part of a language's pairs."""
    return f"{PAIRS_FOLDER}/{language}/{part}.parquet"


def pairs_record_path(language: str) -> str:
    """Return the path of the record of a language's pairs."""
    return f"{PAIRS_FOLDER}/{language}.json"


def idf_path(language: str, model: str) -> str:
    """Return the path of the idf table that a model's tables are made with."""
    return f"{IDF_FOLDER}/{language}/{model}.npz"


def moments_folder(language: str, model: str) -> str:
    """Return the folder of a model's moments."""
    return f"{MOMENTS_FOLDER}/{language}/{model}"


def below_moments(path: str) -> str:
    """Return the path of sums below the folder of all sums."""
    return path.removeprefix(f"{MOMENTS_FOLDER}/")
