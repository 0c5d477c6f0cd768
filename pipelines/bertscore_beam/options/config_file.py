"""A file of options: YAML in which every key is given once."""

from collections.abc import Hashable
from typing import Any

import yaml

from bertscore_beam.files.credentials import mask_credentials
from bertscore_beam.files.reach import reaching
from bertscore_beam.files.read import read_bytes
from bertscore_core.errors import ConfigError

_MOST_SHOWN = 500
"""Characters of YAML's own message that are shown."""


def load_yaml(path: str, *, option: str = "config") -> dict[str, Any]:
    """Read a file of options. An empty file has none.

    Args:
        path: The file.
        option: The option that names it, for the error messages.

    Raises:
        ConfigError: If it is not there, is not YAML, holds a key twice or is no mapping.
    """
    shown = mask_credentials(path)
    try:
        with reaching(option, path):
            data = read_bytes(path)
        content = yaml.load(data, Loader=_StrictLoader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise ConfigError(
            f"the config file {shown!r} cannot be read: got {type(error).__name__}; expected a "
            f"YAML file. Check --{option}."
        ) from error
    except yaml.YAMLError as error:
        raise ConfigError(
            f"the config file {shown!r} is not valid: got {str(error)[:_MOST_SHOWN]}; expected "
            "YAML with `key: value` lines. Correct that line."
        ) from error
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        found = "brackets within brackets" if isinstance(error, RecursionError) else "a value"
        raise ConfigError(
            f"the config file {shown!r} is not valid: got {found} beyond what can be read "
            f"({str(error)[:_MOST_SHOWN]}); expected short YAML lines `key: value`. Correct it."
        ) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(
            f"the config file {shown!r} has the wrong shape: got a {type(content).__name__}; "
            "expected `key: value` lines."
        )
    return content


class _StrictLoader(yaml.SafeLoader):
    """Plain YAML that refuses a key given twice, of which PyYAML would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Build a mapping; raise if a key is given twice."""
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)
