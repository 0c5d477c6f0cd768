"""How far apart two numbers may be, and why."""

PARITY_ATOL = 1e-5
"""Against the reference, raw scores in float32."""

INVARIANCE_ATOL = 1e-6
"""The same pair in other company: batches, shards, order. Only summation order differs."""
