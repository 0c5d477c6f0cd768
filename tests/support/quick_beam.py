"""What Beam works out anew for every step of every pipeline, remembered from test to test.

A third of the time of a small pipeline went there. Nothing that it computes changes.
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import wraps
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import DoFn, userstate


def remember(patch: pytest.MonkeyPatch) -> None:
    """Let flags be parsed once for each kind of options, and a class of steps be looked at once."""
    parsed: dict[Any, dict[str, Any]] = {}
    specified: dict[type[DoFn], Any] = {}
    parse, specify = PipelineOptions.__init__, userstate.get_dofn_specs

    @wraps(parse)
    def options(self: PipelineOptions, flags: Sequence[str] | None = None, **more: Any) -> None:
        if flags is None or isinstance(flags, str) or more:
            parse(self, flags, **more)
            return
        key = (type(self), *flags)
        if key not in parsed:
            parse(self, list(flags))
            parsed[key] = deepcopy(vars(self))
        vars(self).update(deepcopy(parsed[key]))
        vars(self)["_flags"] = flags  # which all views of the same options share

    @wraps(specify)
    def specs(step: DoFn) -> tuple[set[Any], set[Any]]:
        if type(step) not in specified:
            specified[type(step)] = specify(step)
        states, timers = specified[type(step)]
        return set(states), set(timers)

    patch.setattr(PipelineOptions, "__init__", options)
    patch.setattr(userstate, "get_dofn_specs", specs)
