"""Small jobs of tests with little of Beam, or without it.

What Beam works out anew for every step of every pipeline is remembered from test to test: a third
of the time of a small pipeline went there. Nothing that it computes changes.
"""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial, wraps
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import DoFn, core, userstate

from bertscore_beam.run import job
from bertscore_beam.run.phases import run_plainly


def remember(patch: pytest.MonkeyPatch) -> None:
    """Let flags be parsed once for each kind of options, and a class of steps be looked at once."""
    parsed: dict[Any, dict[str, Any]] = {}
    specified: dict[type[DoFn], Any] = {}
    arguments: dict[Any, Any] = {}
    parse, specify = PipelineOptions.__init__, userstate.get_dofn_specs
    inspect = core.get_function_args_defaults

    @wraps(parse)
    def options(self: PipelineOptions, flags: Sequence[str] | None = None, **more: Any) -> None:
        if flags is None or isinstance(flags, str) or more:
            parse(self, flags, **more)
            return
        key = (type(self), *flags)
        if key not in parsed:
            parse(self, list(flags))
            parsed[key] = _copied(vars(self))
        vars(self).update(_copied(parsed[key]))
        vars(self)["_flags"] = flags  # which all views of the same options share

    @wraps(specify)
    def specs(step: DoFn) -> tuple[set[Any], set[Any]]:
        if type(step) not in specified:
            specified[type(step)] = specify(step)
        states, timers = specified[type(step)]
        return set(states), set(timers)

    @wraps(inspect)
    def args_defaults(function: Any) -> tuple[list[str], list[Any]]:
        own = getattr(function, "__func__", function)
        key = (own, own is function)  # of a method that is bound the first is left out
        if key not in arguments:
            arguments[key] = inspect(function)
        names, defaults = arguments[key]
        return [*names], [*defaults]

    patch.setattr(core, "get_function_args_defaults", args_defaults)
    patch.setattr(PipelineOptions, "__init__", options)
    patch.setattr(userstate, "get_dofn_specs", specs)


def run_without(patch: pytest.MonkeyPatch) -> None:
    """Let jobs of one worker do their phases in a loop, as those of a single split do.

    Those that give Beam an option, or have children, are pipelines. All phases are the same in
    both: tests/pipelines/run/test_phases.py.
    """
    prepared = job._prepared

    def plain(work: Any, runner: Any, folder: Any) -> Any:
        if runner.children or runner.flags != ("--runner=FnApiRunner",):
            return prepared(work, runner, folder)
        return partial(run_plainly, work), None

    patch.setattr(job, "_prepared", plain)


def _copied(value: Any) -> Any:
    """Copy what a pipeline may change; `deepcopy`, which looks at each value, takes far longer."""
    if isinstance(value, dict):
        return {name: _copied(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_copied(one) for one in value]
    return Namespace(**_copied(vars(value))) if isinstance(value, Namespace) else value
