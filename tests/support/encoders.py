"""Encoders that tests share: loading and compiling one takes seconds."""

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import torch

from bertscore_core.encoder import Encoder, EncoderOptions, load_encoder
from bertscore_core.resolve import ModelFiles

_MOST = 64
_encoders: OrderedDict[Any, Encoder] = OrderedDict()


def shared_encoder(files: ModelFiles, options: EncoderOptions) -> Encoder:
    """Do what `load_encoder` does, once for the same files and options.

    No test changes an encoder, so one cannot disturb another. The one that was not used
    for longest is dropped when there are too many.
    """
    if options.backend == "torch":  # it looks at neither
        options = replace(options, max_length=None, num_threads=None)
    paths = (*files.weight_files, *sorted(files.folder.glob("*.json")))
    stamps = tuple((path, path.stat().st_mtime_ns, path.stat().st_size) for path in paths)
    key = (files.folder, stamps, options, torch.get_num_threads())
    if key not in _encoders:
        _encoders[key] = load_encoder(files, options)
        if len(_encoders) > _MOST:
            _encoders.popitem(last=False)
    _encoders.move_to_end(key)
    return _encoders[key]
