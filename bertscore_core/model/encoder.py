"""A pre-trained encoder, cut at a layer, that turns token ids into embeddings.

It may be any Hugging Face encoder, or the encoder half of an encoder-decoder, that keeps its layers
in one of the places bert-score 0.3.13 looks at. The forward pass is that of transformers, run by
torch or, on a CPU, by OpenVINO (`openvino_runtime`).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForTextEncoding
from transformers.utils import logging as transformers_logging

from bertscore_core.errors import ConfigError, ModelLoadError
from bertscore_core.model import openvino_runtime
from bertscore_core.model.architectures import has_local_layers, own_code_error, read_architecture
from bertscore_core.model.device import AMPERE
from bertscore_core.model.kept_encoders import cache_key
from bertscore_core.model.layers import EveryLayer, LastLayer, cut, find_final_norm
from bertscore_core.model.packing import Forward, PackedBatch, Packing, pack
from bertscore_core.model.resolve import ModelFiles
from bertscore_core.model.switches import exact_products, float32_by_default, undisturbed
from bertscore_core.scorer_config import ScorerConfig

# Architectures with an encoder-only class, so that the decoder need not be loaded.
_TEXT_ENCODERS = {"t5", "mt5", "umt5"}

# Architectures that OpenVINO runs by default: the tests compare each of them with torch.
#
# Longformer, LED (windows that depend on the length), XLM (an empty cache) and Gemma (its masks)
# cannot be traced.
_CONVERTED = {
    "albert", "bart", "bert", "big_bird", "blenderbot", "blenderbot-small", "camembert", "deberta",
    "deberta-v2", "distilbert", "electra", "eurobert", "gte", "jina_embeddings_v3", "mbart",
    "modernbert", "mpnet", "mt5", "nomic_bert", "pegasus", "prophetnet", "roberta", "t5", "umt5",
    "xlm-roberta", "xlnet",
}  # fmt: skip

# Tokens of the longest text that OpenVINO is compared with torch on, when it is loaded.
_CHECKED_LENGTH = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """An encoder on one device.

    Attributes:
        model: The torch module in evaluation mode, cut at the layer; None on OpenVINO.
        forward: Starts a forward pass on token ids and mask, each (B, S), int64; or, if the encoder
            packs, on a `PackedBatch`.
        device: Where it computes.
        hidden_size: Length of an embedding, H.
        num_outputs: Rows that `encode` returns: 1, or L + 1 for all layers.
        in_flight: Batches to start before waiting for the first one.
        packing: How texts are laid end to end; None if they are padded.
        products: A context for products of float32, those of its vectors as well.
        process: The process that loaded it, and the only one that can use it: in a fork the threads
            that compute are gone, and a forward pass waits for them for ever.
    """

    model: Any
    forward: Callable[..., Callable[[], Tensor]]
    device: torch.device
    hidden_size: int
    num_outputs: int
    in_flight: int = 1
    packing: Packing | None = None
    products: Callable[[], AbstractContextManager[None]] = nullcontext
    process: int = field(default_factory=os.getpid)

    def encode(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Encode B padded texts and wait for the result; see `start`."""
        return self.start(ids, lengths)()

    def start(self, ids: Tensor, lengths: Tensor) -> Callable[[], Tensor]:
        """Start to encode B padded texts; only of an encoder that does not pack.

        Args:
            ids: Token ids, right-padded. Shape (B, S).
            lengths: Tokens per text. Shape (B,).

        Returns:
            A function to be called once. It waits for the hidden states, or computes them, and
            returns them: float32, shape (1, B, S, H), or (L + 1, B, S, H) for all layers with the
            embeddings first. Positions after a text's last token are undefined.

        Raises:
            ConfigError: this is not the process that loaded the encoder.
        """
        self._check_process()
        # Made on the device, which is cheaper than sending it.
        mask = torch.arange(ids.shape[1], device=ids.device)[None, :] < lengths[:, None]
        return self.forward(ids, mask.long())

    def start_packed(self, batch: PackedBatch) -> Callable[[], Tensor]:
        """Start to encode texts laid end to end: as `start`, in the shape (layers, 1, T, H)."""
        self._check_process()
        return self.forward(batch)

    def _check_process(self) -> None:
        if os.getpid() != self.process:
            raise ConfigError(
                f"this process cannot use an encoder: got process {os.getpid()}, which was forked "
                f"from process {self.process} after that had loaded the encoder; expected the one "
                "that loaded it, since a fork has none of its threads. Load the model in the "
                "workers only, or start them by 'spawn'."
            )


def load_encoder(
    files: ModelFiles, config: ScorerConfig, *, packs: bool = False, longest: int | None = None
) -> Encoder:
    """Load an encoder and cut it at a layer.

    Args:
        files: The model's.
        config: How to score, as settled: layer, number format and backend are decided.
        packs: Whether texts are laid end to end without padding; see `packing`.
        longest: Tokens of the longest text to come; None if that is not known.

    Raises:
        ConfigError: unknown device, layer out of range, or an architecture whose layers cannot be
            found or returned as they are scored.
        ModelLoadError: the weights cannot be loaded, some are missing, or the backend computes
            something else than torch.

    References:
        bert-score 0.3.13, `get_model`.
    """
    device = resolve_device(config.device)
    check_processor(config.dtype, device)
    architecture = read_architecture(files, trust_remote_code=config.trust_remote_code)
    with undisturbed(device):
        return _load_on(device, files, config, architecture, packs=packs, longest=longest)


def _load_on(
    device: torch.device,
    files: ModelFiles,
    config: ScorerConfig,
    architecture: Any,
    *,
    packs: bool,
    longest: int | None,
) -> Encoder:
    is_float32 = config.dtype == "float32"
    made = partial(
        Encoder,
        device=device,
        hidden_size=int(architecture.hidden_size),
        num_outputs=files.depth + 1 if config.all_layers else 1,
    )
    if config.backend == "openvino":
        compiled = _load_compiled(files, config, architecture, longest)
        # OpenVINO holds the weights, and copies of some in another layout.
        products = exact_products if is_float32 else nullcontext
        return made(
            model=None, forward=compiled.start, in_flight=compiled.in_flight, products=products
        )
    module = _load_module(files, config, architecture, device)
    model = module.model
    # Buffers stay as they are: the frequencies of rotary positions need float32.
    for parameter in model.parameters():
        parameter.data = parameter.data.to(DTYPES[config.dtype])
    convolves = any(isinstance(part, nn.Conv1d | nn.Conv2d) for part in model.modules())
    products = partial(exact_products, convolves=convolves) if is_float32 else nullcontext
    as_forward = partial(_torch_forward, products=products)
    packing, forward = None, as_forward(module)
    if packs:
        packing, forward = pack(
            module, as_forward, dtype=config.dtype, device=device, positions=files.positions
        )
    # Torch computes when the result is asked for: the first call only stores the arguments.
    return made(model=model, forward=partial(partial, forward), packing=packing, products=products)


def _load_module(
    files: ModelFiles, config: ScorerConfig, architecture: Any, device: torch.device
) -> LastLayer | EveryLayer:
    model = _load(files, config, architecture)
    cut(model, None if config.all_layers else config.num_layers)
    model.to(device).eval()
    if not config.all_layers:
        return LastLayer(model)
    # After `to`: the final norm is found by running the model.
    return EveryLayer(model, find_final_norm(model) if config.layer_semantics == "cut" else None)


def _load_compiled(
    files: ModelFiles, config: ScorerConfig, architecture: Any, longest: int | None
) -> openvino_runtime.CompiledEncoder:
    lengths = (files.positions, longest, _CHECKED_LENGTH)
    how = openvino_runtime.CompileOptions(
        dtype=config.dtype,
        layers=files.depth + 1 if config.all_layers else 1,
        width=int(architecture.hidden_size),
        longest=min(length for length in lengths if length),
    )
    # Own code of a model may be in files that no digest covers.
    own_code = config.trust_remote_code and files.has_own_code
    key = None if own_code else _key(files, config, how)
    compiled = None if key is None else openvino_runtime.find_compiled(key, how)
    if compiled is None:
        module = _load_module(files, config, architecture, torch.device("cpu"))
        vocabulary = int(getattr(module.model.config, "vocab_size", 1))
        compiled = openvino_runtime.compile_encoder(module, how, vocabulary=vocabulary, key=key)
    return compiled


def _key(files: ModelFiles, config: ScorerConfig, how: openvino_runtime.CompileOptions) -> str:
    """Return what a converted encoder is kept under: all that decides what it computes."""
    return cache_key(
        weights=files.weights_digest(),
        layers=(config.num_layers, config.all_layers, config.layer_semantics),
        attention=config.attention,
        dtype=how.dtype,
        longest=how.longest,
        versions=(torch.__version__, transformers.__version__, openvino_runtime.openvino_version()),
        code=[path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))],
        processor=openvino_runtime.processor(),
    )


def _torch_forward(
    module: Forward, *, products: Callable[[], AbstractContextManager[None]]
) -> Forward:
    @torch.inference_mode()
    def forward(*inputs: Any) -> Tensor:
        with products():
            return module(*inputs)

    return forward


def choose_backend(files: ModelFiles, config: ScorerConfig, max_length: int | None) -> str:
    """Return what runs a model by default; texts have at most so many tokens, if that is known.

    That is OpenVINO if it is installed, the device is a CPU that has the number format, the tests
    compare the architecture with torch, no code of the model's own runs, and texts are no longer
    than those it is compared on when it is loaded. Otherwise it is torch.
    """
    lengths = [length for length in (files.positions, max_length) if length]
    fits = (
        openvino_runtime.openvino_version() is not None
        and config.dtype in openvino_runtime.OPENVINO_DTYPES
        and files.model_type in _CONVERTED
        and not (config.trust_remote_code and files.has_own_code)
        and min(lengths, default=_CHECKED_LENGTH + 1) <= _CHECKED_LENGTH
        and resolve_device(config.device).type == "cpu"
        and openvino_runtime.computes_in(config.dtype)
    )
    return "openvino" if fits else "torch"


def check_openvino(dtype: str, device: torch.device) -> None:
    """Check that OpenVINO can compute in a number format on a device.

    Raises:
        ConfigError: it cannot, or is not installed.
    """
    if openvino_runtime.openvino_version() is None:
        raise ConfigError(
            "backend openvino is not installed; expected its package. Install the extra "
            "(in the checkout: pip install '.[openvino]'), or choose torch (--backend torch)."
        )
    if device.type != "cpu" or dtype not in openvino_runtime.OPENVINO_DTYPES:
        raise ConfigError(
            f"backend openvino cannot compute in {dtype} on {device}; expected "
            f"{' or '.join(openvino_runtime.OPENVINO_DTYPES)} on cpu. Choose torch "
            "(--backend torch)."
        )
    if not openvino_runtime.computes_in(dtype):
        raise ConfigError(
            f"this processor does not compute in {dtype}: got none of its instructions; expected "
            "AVX512-BF16, AMX or the like. Choose dtype float32 (--dtype float32)."
        )


def resolve_device(device: str) -> torch.device:
    """Return the device with a name; `auto` is the GPU if there is one.

    Raises:
        ConfigError: torch does not know the name, or the hardware is missing, or this process was
            forked from one that has used CUDA.
    """
    if device.partition(":")[0] in ("auto", "cuda") and torch.cuda._is_in_bad_fork():
        raise ConfigError(
            f"device {device!r} cannot be used: got a process that was forked from one that has "
            "used CUDA; expected one that was started anew. Start it by 'spawn', as "
            "multiprocessing.get_context('spawn') does, or give the device cpu."
        )
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        target = torch.device(device)
        torch.empty(0, device=target)  # fails if the hardware is missing
    except (RuntimeError, AssertionError) as error:
        got = str(error).splitlines()[0].partition(". ")[0]  # torch lists fifty backends next
        raise ConfigError(
            f"device {device!r} cannot be used: got {got!r}; expected auto, cpu, mps, cuda or "
            "cuda:N, one that this machine has. Leave it out to use a GPU when there is one."
        ) from error
    return target


def device_kind(device: str) -> torch.device:
    """Return the kind of a device: CPU, CUDA or MPS. The device may be missing on this machine."""
    kind = device.partition(":")[0]
    if kind == "auto":
        return resolve_device("auto")
    return torch.device(kind if kind in ("cpu", "mps") else "cuda")


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """Keep transformers from drawing a progress bar for every weight file."""
    shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            transformers_logging.enable_progress_bar()


def _attention(config: ScorerConfig, architecture: Any) -> str | None:
    if config.attention != "auto":
        return config.attention
    if config.backend == "openvino" and has_local_layers(architecture):
        # Padding far from a text's end sees no token at all. OpenVINO then gives it NaN, which
        # spreads to the text. Eager attention masks by a large number instead of infinity.
        return "eager"
    return None


def _load(files: ModelFiles, config: ScorerConfig, architecture: Any) -> Any:
    if getattr(architecture, "attention_type", None) == "block_sparse":
        # BigBird switches to full attention at the first short text and keeps it, so its scores
        # would depend on the texts before.
        architecture.attention_type = "original_full"
    architecture.use_cache = False  # keys and values, which decoders would keep for a next token
    loader = AutoModelForTextEncoding if architecture.model_type in _TEXT_ENCODERS else AutoModel
    try:
        # The device, since torch 2.8 cannot tell its default where one was set and taken away.
        with _no_progress_bar(), float32_by_default(), torch.device("cpu"):
            model, report = loader.from_pretrained(
                files.folder,
                config=architecture,
                dtype=torch.float32,  # transformers 5 would take the checkpoint's
                use_safetensors=all(path.suffix == ".safetensors" for path in files.weight_files),
                attn_implementation=_attention(config, architecture),
                output_loading_info=True,
                local_files_only=True,
                trust_remote_code=config.trust_remote_code,
            )
    except Exception as error:
        raise ModelLoadError(
            f"the encoder of {files.name} cannot be loaded from {files.folder}: {error} "
            "Fetch or save the model again."
        ) from error
    # Poolers are not used, and many checkpoints lack them.
    lost = [name for name in report["missing_keys"] if "pooler" not in name]
    if lost and files.has_own_code and not config.trust_remote_code:
        raise own_code_error(
            files, f"no {lost[0]} among the weights; expected all that {files.model_type!r} has"
        )
    if lost:
        raise ModelLoadError(
            f"the weights of {files.name} are incomplete: {len(lost)} parameters are missing, such "
            f"as {lost[0]}; they would be random. Get the whole checkpoint."
        )
    # Of an encoder-decoder, only the encoder half.
    return model.encoder if hasattr(model, "decoder") and hasattr(model, "encoder") else model


# Number formats of the encoder: of its weights, and of what flows between its layers.
#
# Norms and softmax compute in float32 inside, as torch's kernels do, and what leaves the encoder is
# float32. Autocast would keep more in float32. On a GPU that moves twice as many bytes, and scores
# are hardly closer: float16 differs by at most 1.1e-4 instead of 1.4e-4 on 246 pairs of the demo.

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
"""Formats by name."""

# Architectures whose layers end in a norm, so that their numbers stay small: float16 holds them,
# and is eight times as exact as bfloat16.
_ENDS_IN_NORM = {
    "albert", "bert", "camembert", "distilbert", "electra", "longformer", "mpnet", "roberta",
    "xlm-roberta",
}  # fmt: skip


def choose_dtype(model_type: str, device: str) -> str:
    """Return the number format that `auto` stands for on a device, which may be missing here.

    On a GPU that is float16 for architectures whose numbers it holds, else bfloat16, or float32 if
    the GPU is here and lacks bfloat16 (T4). Elsewhere it is float32.
    """
    if device_kind(device).type != "cuda":
        return "float32"
    if model_type in _ENDS_IN_NORM:
        return "float16"
    if not torch.cuda.is_available():
        return "bfloat16"
    here = resolve_device("cuda" if device == "auto" else device)
    # Older ones are slower in it than in float32.
    capable = torch.cuda.get_device_capability(here) >= AMPERE
    return "bfloat16" if capable else "float32"


def check_processor(dtype: str, device: torch.device) -> None:
    """Check that this machine's device computes in a number format, and not in another instead.

    Raises:
        ConfigError: it does not.
    """
    if device.type != "cuda" or dtype != "bfloat16":
        return
    capability = torch.cuda.get_device_capability(device)
    if capability < AMPERE:
        name, version = torch.cuda.get_device_name(device), ".".join(map(str, capability))
        raise ConfigError(
            f"dtype {dtype} cannot be computed on {name}: got compute capability {version}, which "
            "lacks that format; expected 8.0 or more. Choose float16 or float32 (--dtype)."
        )
