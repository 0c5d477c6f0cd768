"""Resource hints: the machines that a step needs."""

import apache_beam as beam


def with_accelerator(transform: beam.PTransform, accelerator: str | None) -> beam.PTransform:
    """Ask for a GPU for a whole composite.

    A hint on the model's step alone would move the steps before and after it to other machines.
    Rows would then be stored between them.

    Args:
        transform: The composite.
        accelerator: The GPU in Beam's notation; None for no GPU.
    """
    if accelerator is None:
        return transform
    return transform.with_resource_hints(accelerator=accelerator)
