"""Two blocks of sixteen-lane arithmetic that the compiler does not find by itself.

Written in its own language: `turn_block` transposes sixteen rows of sixteen numbers by shuffles (a
tile of 1,024 × 1,024 in 0.4 ms; plain loops take 1.9), and `dot_block` keeps the sixteen inner
products of four vectors with four others in registers while their coordinates stream by (plain loops
over the same pairs take four times as long). Vectors of sixteen are legal everywhere; where the
processor has none the compiler splits them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = ["LANES", "SIDE", "dot_block", "turn_block"]

LANES = 16
SIDE = 4  # vectors on each side of a `dot_block`
I32, I64 = ir.IntType(32), ir.IntType(64)
ROW = ir.VectorType(ir.FloatType(), LANES)


@intrinsic  # type: ignore[untyped-decorator]
def turn_block(typing: Any, source: Any, skip: Any, target: Any, step: Any) -> Any:
    """Emit: target[16 × 16] = source[16 × 16] transposed; addresses, and bytes from row to row."""
    signature = types.void(*[types.intp] * 4)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, skip, target, step = arguments
        rows = [_load(builder, _row(builder, source, skip, at)) for at in range(LANES)]
        for distance in (1, 2, 4, 8):  # swap this bit of the row number and of the lane
            for at in range(LANES):
                if not at & distance:
                    pair = rows[at], rows[at + distance]
                    rows[at], rows[at + distance] = _exchanged(builder, *pair, distance)
        for at, row in enumerate(rows):
            _store(builder, row, _row(builder, target, step, at))
        return context.get_dummy_value()

    return signature, emit


@intrinsic  # type: ignore[untyped-decorator]
def dot_block(typing: Any, x: Any, z: Any, out: Any, steps: Any) -> Any:
    """Emit: out[4 i + j] = Σ over 16·steps coordinates of x_i·z_j; addresses of four rows each.

    `x` and `z` point to four addresses; the sums are float32, in whatever order is fast.
    """
    signature = types.void(*[types.intp] * 4)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, z, out, steps = arguments
        sums = _emit_products(builder, _addresses(builder, x), _addresses(builder, z), steps)
        for distance in (1, 2, 4, 8):  # add neighbours; in the end lane l is the sum of vector l
            sums = [
                builder.fadd(*_exchanged(builder, a, b, distance))
                for a, b in zip(sums[::2], sums[1::2], strict=True)
            ]
        _store(builder, sums[0], out)
        return context.get_dummy_value()

    return signature, emit


def _emit_products(builder: Any, left: list[Any], right: list[Any], steps: Any) -> list[Any]:
    """The loop over sixteen coordinates at a time; returns the sixteen running sums after it."""
    zero = ir.Constant(ROW, [0.0] * LANES)
    fma = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ROW, [ROW, ROW, ROW]), "llvm.fmuladd.v16f32"
    )
    before = builder.block
    loop, after = builder.append_basic_block("loop"), builder.append_basic_block("after")
    builder.branch(loop)
    builder.position_at_end(loop)
    at = builder.phi(I64)
    at.add_incoming(ir.Constant(I64, 0), before)
    sums = [builder.phi(ROW) for _ in range(SIDE * SIDE)]
    offset = builder.mul(at, ir.Constant(I64, 4 * LANES))
    x = [_load(builder, builder.add(each, offset)) for each in left]
    z = [_load(builder, builder.add(each, offset)) for each in right]
    pairs = [(mine, theirs) for mine in x for theirs in z]
    grown = [
        builder.call(fma, [mine, theirs, held])
        for (mine, theirs), held in zip(pairs, sums, strict=True)
    ]
    following = builder.add(at, ir.Constant(I64, 1))
    at.add_incoming(following, loop)
    for held, more in zip(sums, grown, strict=True):
        held.add_incoming(zero, before)
        held.add_incoming(more, loop)
    builder.cbranch(builder.icmp_signed("<", following, steps), loop, after)
    builder.position_at_end(after)
    return grown


def _addresses(builder: Any, start: Any) -> list[Any]:
    pointer = builder.inttoptr(start, I64.as_pointer())
    return [builder.load(builder.gep(pointer, [ir.Constant(I64, at)])) for at in range(SIDE)]


def _row(builder: Any, start: Any, skip: Any, row: int) -> Any:
    return builder.add(start, builder.mul(skip, ir.Constant(I64, row)))


def _load(builder: Any, address: Any) -> Any:
    value = builder.load(builder.inttoptr(address, ROW.as_pointer()))
    value.align = 4
    return value


def _store(builder: Any, value: Any, address: Any) -> None:
    builder.store(value, builder.inttoptr(address, ROW.as_pointer())).align = 4


def _exchanged(builder: Any, a: Any, b: Any, distance: int) -> tuple[Any, Any]:
    """Two vectors after this bit of (which one, lane) has been swapped."""
    first = [lane if not lane & distance else LANES + lane - distance for lane in range(LANES)]
    other = [lane + distance if not lane & distance else LANES + lane for lane in range(LANES)]
    kind = ir.VectorType(I32, LANES)
    return (
        builder.shuffle_vector(a, b, ir.Constant(kind, first)),
        builder.shuffle_vector(a, b, ir.Constant(kind, other)),
    )
