"""Triton's kernels compiled for GPUs that this machine lacks."""

from typing import Any

ALIGNED = [["tt.divisibility", 16]]


def compile_for(
    capability: int, kernel: Any, types: dict[str, str], constants: dict[str, Any], *, warps: int
) -> Any:
    """Compile a kernel as a launch with aligned tensors, and steps of whole rows, does.

    `types` has the type of each argument, in their order.
    """
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    aligned = {
        (place,): ALIGNED
        for place, (name, of) in enumerate(types.items())
        if of.startswith("*") or name.endswith(("_row", "_head"))
    }
    source = ASTSource(
        kernel, types | dict.fromkeys(constants, "constexpr"), constexprs=constants, attrs=aligned
    )
    target = GPUTarget("cuda", capability, 32)
    return compile(source, target=target, options={"num_warps": warps})
