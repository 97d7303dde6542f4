#!/usr/bin/env python3
"""Writes the load test's requests in protobuf text format: scenarios.py FOLDER → FOLDER/NAME.SERVICE.METHOD.txtpb

cached_table   one small table, the same every time: 16 rows of 64 pairs, f32 (8 KiB), as a decoding step asks for it
batch_32       32 items of mixed schemes, precisions, types and windows, small enough that the calls and not the bytes weigh
apply_64k      q of 64 KiB (bf16, [1, 8, 32, 128]) rotated at one place in a long sequence
"""

import pathlib
import sys

LLAMA3 = """rope { head_dim: 128 base: 500000 llama3 { factor: 8 low_freq_factor: 1 high_freq_factor: 4 original_max_position: 8192 } }"""
YARN = """rope { head_dim: 128 base: 1000000 yarn { factor: 4 original_max_position: 32768 } }"""
PLAIN = """rope { head_dim: 128 }"""
PARTIAL = """rope { head_dim: 64 rotary_dim: 32 pairing: PAIRING_INTERLEAVED }"""
LINEAR = """rope { head_dim: 128 linear { factor: 4 } }"""
DYNAMIC = """rope { head_dim: 128 dynamic_ntk { factor: 2 max_position: 4096 } }"""
SINUSOIDAL = """sinusoidal { dim: 512 layout: SINUSOIDAL_LAYOUT_CONCATENATED }"""
ALIBI = """alibi { num_heads: 32 }"""


def table(spec, start, count, dtype="DTYPE_F32", extra=""):
    return (f"items {{ spec {{ {spec} }} dtype: {dtype} {extra} "
            f"table {{ positions {{ range {{ start: {start} count: {count} }} }} }} }}\n")


def bias(spec, queries, keys, form):
    return f"items {{ spec {{ {spec} }} bias {{ queries: {queries} keys: {keys} form: {form} }} }}\n"


def batch_32():
    """Four rounds of eight kinds; each round asks for other rows."""
    items = []
    for turn in range(4):
        start = 1000 * turn
        items += [
            table(LLAMA3, start, 4), table(YARN, start, 4, "DTYPE_BF16"), table(PLAIN, start, 8, "DTYPE_F16"),
            table(PARTIAL, start, 8), table(LINEAR, start, 4, extra="precision: PRECISION_COMPAT_F32"),
            table(DYNAMIC, start, 4, extra="sequence_length: 8192"), table(SINUSOIDAL, start, 2),
            bias(ALIBI, 1 + turn, 64, "BIAS_FORM_VECTOR"),
        ]
    return "".join(items)


def apply_64k():
    shape = (1, 8, 32, 128)
    # bf16 values between 1 and 2, a different one each; two bytes, little-endian, as octal escapes.
    values = (0x3F80 + (index * 37) % 128 for index in range(shape[0] * shape[1] * shape[2] * shape[3]))
    data = "".join(f"\\{value & 255:03o}\\{value >> 8:03o}" for value in values)
    extents = " ".join(f"shape: {extent}" for extent in shape)
    return (f"items {{ spec {{ {LLAMA3} }} positions {{ range {{ start: 70000 }} }} "
            f'tensors {{ dtype: DTYPE_BF16 {extents} data: "{data}" }} }}\n')


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {
            "cached_table.PositionService.Precompute": table(LLAMA3, 4096, 16),
            "batch_32.PositionService.Precompute": batch_32(),
            "apply_64k.PositionService.Apply": apply_64k(),
    }.items():
        (folder / f"{name}.txtpb").write_text(text, encoding="ascii")


if __name__ == "__main__":
    main(sys.argv[1])
