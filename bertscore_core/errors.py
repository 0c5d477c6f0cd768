"""What can go wrong, as one tree.

    BertScoreError
    ├── ConfigError (also ValueError)      the settings cannot be used
    │   ├── UnknownModelError              no such model in the registry, cache or file system
    │   ├── UnknownLanguageError           no default model for the language
    │   ├── BaselineNotFoundError          nothing to rescale with
    │   ├── IdfError                       the idf table does not fit the tokenizer
    │   └── SignatureError                 earlier results were made with other settings
    ├── ModelLoadError                     the weights or the tokenizer cannot be loaded
    ├── DeviceMemoryError                  not even the longest text alone fits the memory
    ├── DeviceLostError                    the GPU has failed, and this process cannot use it again
    └── InputError (also ValueError)       the texts, pairs or files cannot be used

Every message says what is wrong, what it got, what was expected, and what to do. None contains the
text of a candidate or a reference.
"""


class BertScoreError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigError(BertScoreError, ValueError):
    """The settings contradict each other or name something that does not exist."""


class UnknownModelError(ConfigError):
    """The model is neither in the registry, nor a local folder, nor in the local cache."""


class UnknownLanguageError(ConfigError):
    """The language has no default model."""


class BaselineNotFoundError(ConfigError):
    """No baseline is known for the (language, model, layer) asked for."""


class IdfError(ConfigError):
    """The idf table was made for another tokenizer or truncation, or cannot be read."""


class SignatureError(ConfigError):
    """Earlier scores were made with other settings, or a signature cannot be parsed."""


class ModelLoadError(BertScoreError):
    """The encoder or its tokenizer cannot be loaded."""


class DeviceMemoryError(BertScoreError):
    """Memory is too small even for the smallest batch."""


class DeviceLostError(BertScoreError):
    """The GPU has failed; only a new process can use it again."""


class InputError(BertScoreError, ValueError):
    """The texts, pairs or files given cannot be scored."""
