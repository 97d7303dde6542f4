#!/usr/bin/env python3
"""Writes the load test's requests in protobuf text format: scenarios.py FOLDER → FOLDER/NAME.SERVICE.METHOD.txtpb; where the
client streams too, NAME.SERVICE.METHOD.jsonl: a message in proto3 JSON a line

cached_table   one small table, the same every time: 16 rows of 64 pairs, f32 (8 KiB), as a decoding step asks for it
batch_32       32 items of mixed schemes, precisions, types and windows, small enough that the calls and not the bytes weigh
apply_64k      q of 64 KiB (bf16, [1, 8, 32, 128]) rotated at one place in a long sequence
scores         q·k of 4 heads, 32 queries and keys, rotated, with ALiBi and a causal mask, as probabilities
stream_table   a table of 4 MiB in chunks of 1 MiB
stream_apply   that q four times as long, in four chunks, both ways
"""

import base64
import json
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


def numbers(count):
    """bf16 values between 1 and 2, a different one each; two bytes, little-endian."""
    return b"".join((0x3F80 + (index * 37) % 128).to_bytes(2, "little") for index in range(count))


def tensor(shape):
    """A tensor of such values in text format."""
    data = "".join(f"\\{byte:03o}" for byte in numbers(shape[0] * shape[1] * shape[2] * shape[3]))
    extents = " ".join(f"shape: {extent}" for extent in shape)
    return f'dtype: DTYPE_BF16 {extents} data: "{data}"'


def apply_64k():
    return (f"items {{ spec {{ {LLAMA3} }} positions {{ range {{ start: 70000 }} }} "
            f"tensors {{ {tensor((1, 8, 32, 128))} }} }}\n")


def scores():
    q = tensor((1, 32, 4, 64))
    return (f"items {{ rotation {{ rope {{ head_dim: 64 }} }} biases {{ alibi {{ num_heads: 4 }} }} masking {{ causal: true }} "
            f"softmax: true q {{ {q} }} k {{ {q} }} }}\n")


def stream_apply():
    """Opens an item of four chunks, then sends them."""
    shape, chunks = (1, 32, 32, 128), 4
    data = numbers(shape[1] * shape[2] * shape[3])
    size = len(data) // chunks
    messages = [{"open": {"spec": {"rope": {"head_dim": 128, "base": 500000}}, "positions": {"range": {"start": 70000}},
                          "tensors": [{"dtype": "DTYPE_BF16", "shape": shape}]}}]
    messages += [{"chunk": {"offset_bytes": at, "data": base64.b64encode(data[at:at + size]).decode("ascii")}}
                 for at in range(0, len(data), size)]
    return "".join(json.dumps(message) + "\n" for message in messages)


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {
            "cached_table.PositionService.Precompute": table(LLAMA3, 4096, 16),
            "batch_32.PositionService.Precompute": batch_32(),
            "apply_64k.PositionService.Apply": apply_64k(),
            "scores.PositionService.Scores": scores(),
            "stream_table.PositionService.StreamPrecompute": table(LLAMA3, 0, 8192),
    }.items():
        (folder / f"{name}.txtpb").write_text(text, encoding="ascii")
    (folder / "stream_apply.PositionService.StreamApply.jsonl").write_text(stream_apply(), encoding="ascii")


if __name__ == "__main__":
    main(sys.argv[1])
