"""What a runner is told about the machines that a step needs."""

import apache_beam as beam


def with_accelerator(transform: beam.PTransform, accelerator: str | None) -> beam.PTransform:
    """Ask for a GPU for a whole composite.

    On the model's step alone, as a model handler would ask for it, steps before and after would run
    on other machines, and rows would be stored on the way there and back.

    Args:
        transform: The composite.
        accelerator: As Beam spells it, None for no GPU.
    """
    if accelerator is None:
        return transform
    return transform.with_resource_hints(accelerator=accelerator)
