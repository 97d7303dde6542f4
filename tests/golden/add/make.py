#!/usr/bin/env python3
"""Writes expected.txt: embeddings plus encodings as the libraries that introduced them compute both.

    python3 -m venv VENV && VENV/bin/pip install -r ../requirements.txt && VENV/bin/python make.py

Every record is a line "NAME DTYPE TOKENS DIM FACTOR", then x and y, row by row, as the hexadecimal bits of their numbers.
marian: an encoder without layers, scale_embedding on (float32: the product and the sum are rounded apart).
gemma: Gemma-3's scaled word embedding of 3840 channels in bfloat16, the first 64 of them; nothing is added.
formula: the definition in float64, sinusoids by numpy.
PyTorch's dropout has another generator and another order of elements: there is nothing to compare.
"""

import math
import pathlib

import numpy
import torch
from transformers import MarianConfig
from transformers.models.gemma3.modeling_gemma3 import Gemma3TextScaledWordEmbedding
from transformers.models.marian.modeling_marian import MarianEncoder

BITS = {"f64": ("<u8", 16), "f32": ("<u4", 8), "bf16": ("<u2", 4)}


def line(dtype, array):
    kind, digits = BITS[dtype]
    return " ".join(f"{bits:0{digits}x}" for bits in array.reshape(-1).view(kind).tolist())


def record(name, dtype, x, y, dim, factor):
    return f"{name} {dtype} {x.shape[0]} {dim} {factor}\n{line(dtype, x)}\n{line(dtype, y)}\n"


def marian(dim, tokens):
    config = MarianConfig(vocab_size=tokens + 1, d_model=dim, encoder_layers=0, decoder_layers=0, encoder_attention_heads=1,
                          scale_embedding=True, max_position_embeddings=64, pad_token_id=tokens, decoder_start_token_id=0)
    torch.manual_seed(dim)
    encoder = MarianEncoder(config).eval()
    with torch.no_grad():
        encoder.embed_tokens.weight.normal_()
        ids = torch.arange(tokens)[None]
        y = encoder(input_ids=ids).last_hidden_state[0]
        x = encoder.embed_tokens.weight[:tokens].detach()
    return record("marian", "f32", x.numpy(), y.numpy(), dim, "sqrt")


def gemma():
    dim, shown = 3840, 64
    torch.manual_seed(1)
    embedding = Gemma3TextScaledWordEmbedding(4, dim, 0, embed_scale=dim**0.5).to(torch.bfloat16)
    with torch.no_grad():
        embedding.weight.normal_()
        y = embedding(torch.arange(4))
        bits = [t[:, :shown].contiguous().view(torch.int16).numpy() for t in (embedding.weight, y)]
    return record("gemma", "bf16", bits[0], bits[1], dim, "sqrt_bf16")


def formula(dim, tokens):
    x = numpy.random.default_rng(7).standard_normal((tokens, dim))
    angles = numpy.arange(tokens)[:, None] * 10000.0 ** (-2 * numpy.arange((dim + 1) // 2) / dim)
    table = numpy.empty((tokens, dim))
    table[:, 0::2] = numpy.sin(angles)
    table[:, 1::2] = numpy.cos(angles)[:, : dim // 2]
    return record("formula", "f64", x, math.sqrt(dim) * x + table, dim, "sqrt")


if __name__ == "__main__":
    text = marian(16, 5) + marian(24, 3) + gemma() + formula(18, 6) + formula(9, 4)
    (pathlib.Path(__file__).parent / "expected.txt").write_text(text)
