"""What a simulated world puts in the place of the modules `time` and `threading`."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.simulation.world import Actor, World


def time_of(world: World) -> SimpleNamespace:
    """Return what stands for the module `time`."""
    return SimpleNamespace(
        sleep=world.sleep,
        monotonic=lambda: world.clock() - world.here().stood,
        time=lambda: 1e9 + world.now,
    )


def threading_of(world: World) -> SimpleNamespace:
    """Return what stands for the module `threading`."""

    class Event:
        def __init__(self) -> None:
            self._is_set = False
            self._waiting: list[Actor] = []

        def is_set(self) -> bool:
            return self._is_set

        def set(self) -> None:
            self._is_set = True
            for actor in self._waiting:
                world.wake(actor)

        def wait(self, timeout: float | None = None) -> bool:
            actor = world.me
            assert actor is not None
            if not self._is_set:
                self._waiting.append(actor)
                world.wait() if timeout is None else world.sleep(timeout)
                self._waiting.remove(actor)
            return self._is_set

    class Thread:
        def __init__(self, target: Callable[..., object], args: Any, daemon: bool) -> None:
            self._work = lambda: target(*args)

        def start(self) -> None:
            self._actor = world.start(world.here(), self._work)

        def join(self) -> None:
            actor = world.me
            assert actor is not None
            while not self._actor.is_done:
                self._actor.joining.append(actor)
                world.wait()

    return SimpleNamespace(Event=Event, Thread=Thread)
