"""Where planning does what needs torch, transformers and the files of a model."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def ask(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function returns, or raise what it raises.

    Args:
        function: A function of a module that does not import Beam; another process may import it.
        *args: What it is given; it can be pickled, as what is returned can.
        **kwargs: The same, by name.
    """
    return function(*args, **kwargs)
