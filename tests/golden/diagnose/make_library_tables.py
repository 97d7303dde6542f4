"""Writes library_tables.json and library_tables.bin: small right tables as transformers, diffusers and timm make them, for the diagnosis to
recognise without naming a fault.

  python make_library_tables.py        # Python 3.11, versions: ../requirements.txt; torch on the CPU

The binary file holds the tensors one after the other, little-endian, in their own types; the index says where (`at`, in bytes).
`scheme` is what the library was asked for. `beyond` says why no spec makes a table to one unit in the last place; the test holds it to that.
"""
import json
import pathlib

import torch
from diffusers.models.embeddings import (SinusoidalPositionalEmbedding as DiffusersSinusoidal, get_1d_rotary_pos_embed,
                                         get_1d_sincos_pos_embed_from_grid, get_timestep_embedding)
from timm.layers.pos_embed_sincos import build_fourier_pos_embed, build_rotary_pos_embed
from transformers import (BloomConfig, CohereConfig, FalconConfig, GemmaConfig, GPTNeoXConfig, LlamaConfig, T5Config)
from transformers.models.bloom.modeling_bloom import build_alibi_tensor as bloom_alibi
from transformers.models.cohere.modeling_cohere import CohereRotaryEmbedding
from transformers.models.falcon.modeling_falcon import build_alibi_tensor as falcon_alibi
from transformers.models.gemma.modeling_gemma import GemmaRotaryEmbedding
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXRotaryEmbedding
from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention
from transformers.models.whisper.modeling_whisper import sinusoids
from transformers.models.xlm.modeling_xlm import create_sinusoidal_embeddings

HERE = pathlib.Path(__file__).parent
TYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.float64: "f64"}
SHORT = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
FACTOR = "torch's cosines are off by up to a unit in the last place before their product with the attention factor is rounded"
SCALED = "the scale multiplies angles that were rounded before, which moves values by up to 0.002"
ODD = "frequencies are rounded to float32 by the library's own formula, and given ones go without a column of zeros"
F64_ANGLE = "angles are rounded to float64"
index = []
binary = bytearray()


def add(name, library, scheme, content, *tensors, sequence_length=None, beyond=None):
    case = {"name": name, "library": library, "scheme": scheme, "content": content, "dtype": TYPES[tensors[0].dtype],
            "shape": list(tensors[0].shape), "at": []}
    if sequence_length is not None:
        case["sequence_length"] = sequence_length
    if beyond:
        case["beyond"] = beyond
    for tensor in tensors:
        assert tensor.dtype == tensors[0].dtype and tensor.shape == tensors[0].shape, name
        case["at"].append(len(binary))
        flat = tensor.detach().contiguous().flatten()
        whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[flat.element_size()]
        binary.extend(flat.view(whole).numpy().tobytes())
    index.append(case)


def rotary(name, scheme, module, start, rows, dtype, sequence_length=None, has_factor=False):
    """cos and sin of a rotary module of transformers."""
    positions = torch.arange(start, start + rows)[None]
    cos, sin = module(torch.zeros(1, rows, 1, dtype=dtype), positions)
    library = "transformers " + type(module).__name__
    add(f"{name}/{SHORT[dtype]}/{start}", library, scheme, "cos_and_sin", cos[0], sin[0], sequence_length=sequence_length,
        beyond=FACTOR if has_factor and dtype is torch.float32 else None)


def llama(head_dim, rope, max_position=4096):
    return LlamaRotaryEmbedding(LlamaConfig(hidden_size=head_dim * 2, num_attention_heads=2, head_dim=head_dim,
                                            max_position_embeddings=max_position, rope_parameters=rope))


def factors(pairs, last):
    return [round(last**((i / pairs)**2) + i % 5 / 100, 2) for i in range(pairs)]


def rotaries():
    f32, bf16, f16 = torch.float32, torch.bfloat16, torch.float16
    default = {"rope_type": "default", "rope_theta": 10000.0}
    yarn = {"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32768}
    llama3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 8192}
    for dtype in (f32, bf16, f16):
        for start in (0, 100, 3000):
            rotary("llama/default", "rope_default", llama(64, default), start, 24, dtype)
        rotary("llama/500000", "rope_default", llama(128, default | {"rope_theta": 500000.0}), 17, 16, dtype)
        rotary("llama/small", "rope_default", llama(16, default), 0, 64, dtype)
        rotary("llama/linear", "rope_linear", llama(64, default | {"rope_type": "linear", "factor": 4.0}), 0, 48, dtype)
        rotary("llama/linear", "rope_linear", llama(64, default | {"rope_type": "linear", "factor": 8.0}), 500, 32, dtype)
        rotary("llama/yarn", "rope_yarn", llama(64, yarn, 131072), 0, 32, dtype, has_factor=True)
        rotary("llama/yarn", "rope_yarn", llama(128, yarn, 131072), 1000, 16, dtype, has_factor=True)
        rotary("llama/llama3", "rope_llama3", llama(64, llama3, 131072), 0, 32, dtype)
        rotary("llama/llama3", "rope_llama3", llama(128, llama3, 131072), 2000, 16, dtype)
        longrope = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": factors(32, 1.5),
                    "long_factor": factors(32, 30), "original_max_position_embeddings": 4096, "factor": 32.0}
        rotary("llama/longrope", "rope_longrope", llama(64, longrope, 131072), 0, 32, dtype, 32, True)
        rotary("llama/longrope-long", "rope_longrope", llama(64, longrope, 131072), 4090, 24, dtype, 4114, True)
    for dtype in (f32, bf16):
        dynamic = llama(32, default | {"rope_type": "dynamic", "factor": 4.0}, 32)
        rotary("llama/dynamic", "rope_dynamic_ntk", dynamic, 0, 128, dtype, 128)
    neox = GPTNeoXRotaryEmbedding(GPTNeoXConfig(hidden_size=256, num_attention_heads=4, max_position_embeddings=2048))
    gemma = GemmaRotaryEmbedding(GemmaConfig(hidden_size=128, num_attention_heads=2, head_dim=64))
    cohere = CohereRotaryEmbedding(CohereConfig(hidden_size=128, num_attention_heads=2))
    for dtype in (f32, bf16):
        rotary("gpt-neox", "rope_default", neox, 40, 64, dtype)
        rotary("gemma", "rope_default", gemma, 0, 32, dtype)
        rotary("cohere", "rope_default", cohere, 5, 32, dtype)


def halves(values):
    """In float32, and as models hold it once they are cast."""
    return ((SHORT[dtype], values.to(dtype)) for dtype in SHORT)


def sinusoids_of_transformers():
    for width, rows, start in ((64, 48, 0), (24, 64, 2)):
        module = MarianSinusoidalPositionalEmbedding(start + rows, width)
        weight = module.create_weight() if hasattr(module, "create_weight") else module.weight
        for short, table in halves(weight[start:start + rows]):
            add(f"marian/{width}/{short}", "transformers MarianSinusoidalPositionalEmbedding", "sinusoidal", "sinusoidal", table)
    for width in (32, 64):
        table = M2M100SinusoidalPositionalEmbedding.get_embedding(50, width, None)
        for short, table in halves(table):
            add(f"m2m100/{width}/{short}", "transformers M2M100SinusoidalPositionalEmbedding", "sinusoidal", "sinusoidal", table)
        for short, table in halves(sinusoids(40, width)):
            add(f"whisper/{width}/{short}", "transformers whisper.sinusoids", "sinusoidal", "sinusoidal", table)
        out = torch.nn.Parameter(torch.zeros(40, width), requires_grad=False)
        create_sinusoidal_embeddings(40, width, out)
        for short, table in halves(out):
            add(f"xlm/{width}/{short}", "transformers xlm.create_sinusoidal_embeddings", "sinusoidal", "sinusoidal", table)
    for short, table in halves(create_sinusoidal_positions(64, 32)):
        add(f"gptj/{short}", "transformers gptj.create_sinusoidal_positions", "timestep", "sinusoidal", table)


def of_diffusers():
    for flip, shift, scale, start in ((False, 1, 1, 0), (True, 0, 1, 0), (True, 0, 1, 600), (False, 0, 1, 37), (True, 0, 1000, 3)):
        steps = torch.arange(start, start + 40)
        table = get_timestep_embedding(steps, 64, flip, shift, scale)
        for short, table in halves(table):
            add(f"timestep/{int(flip)}-{shift}-{scale}/{start}/{short}", "diffusers get_timestep_embedding", "timestep",
                "sinusoidal", table, beyond=SCALED if scale == 1000 else None)
    for short, table in halves(get_timestep_embedding(torch.arange(33), 33)):
        add(f"timestep/odd/{short}", "diffusers get_timestep_embedding", "timestep", "sinusoidal", table,
            beyond=ODD if short == "f32" else None)
    for short, table in halves(DiffusersSinusoidal(48, 40).pe[0]):
        add(f"diffusers-sinusoidal/{short}", "diffusers SinusoidalPositionalEmbedding", "sinusoidal", "sinusoidal", table)
    table = get_1d_sincos_pos_embed_from_grid(64, torch.arange(40), output_type="pt")
    add("1d-sincos/f64", "diffusers get_1d_sincos_pos_embed_from_grid", "sinusoidal", "sinusoidal", table.double(), beyond=F64_ANGLE)
    add("1d-sincos/f32", "diffusers get_1d_sincos_pos_embed_from_grid", "sinusoidal", "sinusoidal", table.float())
    for name, scheme, more in (("plain", "rope_default", {}), ("linear", "rope_linear", {"linear_factor": 4.0}),
                               ("ntk", "rope_default", {"ntk_factor": 8.0}), ("f64", "rope_default", {"freqs_dtype": torch.float64})):
        for interleaved in (True, False):
            cos, sin = get_1d_rotary_pos_embed(64, torch.arange(32), use_real=True, repeat_interleave_real=interleaved, **more)
            for short, both in halves(torch.stack([cos, sin])):
                add(f"1d-rotary/{name}-{int(interleaved)}/{short}", "diffusers get_1d_rotary_pos_embed", scheme, "cos_and_sin",
                    both[0], both[1])


def of_timm():
    sin, cos = build_rotary_pos_embed([40], dim=32, in_pixels=False)
    for short, both in halves(torch.stack([cos, sin])):
        add(f"timm-rotary/{short}", "timm build_rotary_pos_embed", "rope_default", "cos_and_sin", both[0].reshape(40, -1),
            both[1].reshape(40, -1))
    sin, cos = build_fourier_pos_embed([48], num_bands=16, in_pixels=False)
    for short, both in halves(torch.stack([cos, sin])):
        add(f"timm-fourier/{short}", "timm build_fourier_pos_embed", "rope_default", "cos_and_sin", both[0].reshape(48, -1),
            both[1].reshape(48, -1))


def biases():
    torch.manual_seed(0)
    for bidirectional in (True, False):
        attention = T5Attention(T5Config(d_model=32, d_kv=8, num_heads=4, is_decoder=not bidirectional),
                                has_relative_attention_bias=True)
        with torch.no_grad():
            bias = attention.compute_bias(48, 48)[0]
        for short, table in halves(bias):
            add(f"t5/{int(bidirectional)}/{short}", "transformers T5Attention.compute_bias", "t5_bucket", "bias", table)
    mask = torch.ones(1, 40)
    for heads in (4, 12):
        for dtype, short in SHORT.items():
            add(f"bloom/{heads}/{short}", "transformers bloom.build_alibi_tensor", "alibi", "bias",
                bloom_alibi(mask, heads, dtype).reshape(heads, 1, 40))
            add(f"falcon/{heads}/{short}", "transformers falcon.build_alibi_tensor", "alibi", "bias",
                falcon_alibi(mask, heads, dtype).reshape(heads, 1, 40))
        for short, table in halves(build_mpt_alibi_tensor(heads, 40)):
            add(f"mpt/{heads}/{short}", "transformers mpt.build_mpt_alibi_tensor", "alibi", "bias", table.reshape(heads, 1, 40))


if __name__ == "__main__":
    rotaries()
    sinusoids_of_transformers()
    of_diffusers()
    of_timm()
    biases()
    (HERE / "library_tables.bin").write_bytes(binary)
    lines = ",\n".join(json.dumps(case) for case in index)
    (HERE / "library_tables.json").write_text(f"[\n{lines}\n]\n")
    print(len(index), "tables,", len(binary), "bytes")
