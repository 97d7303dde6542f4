"""Rotations by the libraries themselves, for tests/server/rotate_golden_test.cc.

Each case is an ApplyItem as proto3 JSON (tensors and all), what the library answers for it, and how far from that a right answer may
be: the library's own stated precision, float32 of its arithmetic unless it says otherwise.

    pip install -r tests/golden/requirements.txt -r tests/golden/rope/requirements.txt && python tests/golden/rope/make.py
"""
import base64
import importlib.metadata
import json
import pathlib
import warnings

import numpy as np
import torch

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).parent
DTYPES = {np.dtype("float32"): "DTYPE_F32", np.dtype("float64"): "DTYPE_F64", np.dtype("float16"): "DTYPE_F16"}
ULP = 2.0 ** -23


def tensor(array):
    array = np.ascontiguousarray(array)
    return {"dtype": DTYPES[array.dtype], "shape": [str(n) for n in array.shape],
            "data": base64.b64encode(array.tobytes()).decode()}


def case(name, item, inputs, outputs, tolerance):
    return {"name": name, "tolerance": tolerance, "item": {**item, "tensors": [tensor(x) for x in inputs]},
            "expect": [tensor(y) for y in outputs]}


def ids(positions):
    return {"list": {"ids": [str(int(i)) for i in np.asarray(positions).ravel()]}}


def random(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def write(name, packages, cases):
    versions = {p: importlib.metadata.version(p) for p in packages}
    text = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    (HERE / f"{name}.json").write_text(f'{{"versions":{json.dumps(versions)},"cases":[\n{text}\n]}}\n')


def onnx_items(x, cos, sin, position_ids, heads, rotary, interleaved):
    """The op's inputs as an item: layout, flattened caches, ids."""
    width = x.shape[-1] // heads if x.ndim == 3 else x.shape[-1]
    pairs = (rotary or width) // 2
    batch, sequence = (x.shape[0], x.shape[1]) if x.ndim == 3 else (x.shape[0], x.shape[2])
    if position_ids is None:
        position_ids = np.arange(batch * sequence)
    elif np.size(position_ids) == 1:  # onnxruntime: an offset
        position_ids = np.tile(int(np.ravel(position_ids)[0]) + np.arange(sequence), batch)
    cos, sin = (c.reshape(-1, c.shape[-1])[:, :pairs] for c in (cos, sin))
    item = {"table": {"cos": tensor(cos), "sin": tensor(sin)}, "positions": ids(position_ids),
            "layout": "LAYOUT_BSHD" if x.ndim == 3 else "LAYOUT_BHSD",
            "tablePairing": "PAIRING_INTERLEAVED" if interleaved else "PAIRING_HALF_SPLIT"}
    shape = (batch, sequence, heads, width) if x.ndim == 3 else x.shape
    return item, shape


def from_onnx():
    from onnx.backend.test.case.node import collect_testcases
    cases = []
    for c in collect_testcases("RotaryEmbedding"):
        if c.name.endswith("_expanded"):
            continue  # the same numbers
        attributes = {a.name: a.i for a in c.model.graph.node[0].attribute}
        inputs, (y,) = c.data_sets[0]
        x, cos, sin = inputs[:3]
        item, shape = onnx_items(x, cos, sin, inputs[3] if len(inputs) > 3 else None, attributes.get("num_heads", 0),
                                 attributes.get("rotary_embedding_dim", 0), attributes.get("interleaved", 0))
        cases.append(case(c.name, item, [x.reshape(shape)], [y.reshape(shape)], 4 * ULP))
    write("onnx", ["onnx"], cases)


def from_onnxruntime():
    import onnx
    import onnxruntime
    cases = []
    for heads, width, rotary, interleaved, four_d, offset, scale in [
            (3, 16, 0, 0, False, False, 1.0), (3, 16, 0, 1, False, True, 1.0), (2, 20, 8, 0, False, False, 1.0),
            (2, 10, 0, 0, True, False, 1.0), (4, 64, 0, 1, True, False, 1.0), (2, 36, 16, 1, False, True, 1.0)]:
        batch, sequence, rows = 2, 3, 16
        angles = np.outer(np.arange(rows), 10000.0 ** (-2.0 * np.arange((rotary or width) // 2) / (rotary or width)))
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        shape = (batch, heads, sequence, width) if four_d else (batch, sequence, heads * width)
        x = random(*shape, seed=width)
        position_ids = np.array([7], np.int64) if offset else np.random.default_rng(1).integers(0, rows, (batch, sequence))
        attributes = dict(interleaved=interleaved, scale=scale)
        if rotary:
            attributes.update(rotary_embedding_dim=rotary, num_heads=heads)
        elif not four_d:
            attributes.update(num_heads=heads)
        node = onnx.helper.make_node("RotaryEmbedding", ["x", "ids", "cos", "sin"], ["y"], domain="com.microsoft", **attributes)
        feeds = {"x": x, "ids": position_ids, "cos": cos, "sin": sin}
        graph = onnx.helper.make_graph(
            [node], "g", [onnx.helper.make_tensor_value_info(k, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                          for k, v in feeds.items()],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)])
        model = onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17),
                                                                           onnx.helper.make_opsetid("com.microsoft", 1)])
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        (y,) = session.run(None, feeds)
        item, to = onnx_items(x, cos, sin, position_ids, heads, rotary, interleaved)
        # The same through the spec: the operator's caches are the plain schedule's.
        spec = {"spec": {"rope": {"headDim": str(width), "rotaryDim": str(rotary or width),
                                  "pairing": item["tablePairing"]}}, "positions": item["positions"], "layout": item["layout"]}
        name = f"com.microsoft/{width}-{rotary}-{'interleaved' if interleaved else 'half'}-{'bhsd' if four_d else 'bsd'}"
        cases.append(case(name, item, [x.reshape(to)], [y.reshape(to)], 2 * ULP))
        cases.append(case(name + "/spec", spec, [x.reshape(to)], [y.reshape(to)], 4 * ULP))
    write("onnxruntime", ["onnxruntime", "onnx"], cases)


def capture_query(module, hidden, **kwargs):
    """The query that an attention module hands to its attention function."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
    seen = {}

    def probe(module, query, key, value, *args, **kwargs):
        seen["q"], seen["k"] = query, key
        return torch.zeros(query.shape[0], query.shape[2], query.shape[1], query.shape[3]), None

    ALL_ATTENTION_FUNCTIONS.register("probe", probe)
    module.config._attn_implementation = "probe"
    with torch.no_grad():
        module(hidden, **kwargs)
    return seen["q"].numpy(), seen["k"].numpy()


class Cached:
    """A cache that has seen so many tokens and holds none."""

    def __init__(self, seen):
        self.seen = seen

    def get_seq_length(self, *_):
        return self.seen

    def update(self, key, value, *_, **__):
        return key, value


def identity(*linears):
    for linear in linears:
        with torch.no_grad():
            linear.weight.copy_(torch.eye(*linear.weight.shape))


def from_transformers():
    from transformers.models.deepseek_v3 import configuration_deepseek_v3, modeling_deepseek_v3 as deepseek
    from transformers.models.llama4 import configuration_llama4, modeling_llama4 as llama4
    cases = []
    # DeepSeek-V3: read interleaved, written in halves; YaRN with equal mscales.
    positions = torch.tensor([[0, 1, 17, 5000, 150000]])
    for yarn in (False, True):
        rope = {"rope_type": "default", "rope_theta": 10000.0}
        if yarn:
            rope = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "beta_fast": 32.0, "beta_slow": 1.0,
                    "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096}
        config = configuration_deepseek_v3.DeepseekV3Config(rope_parameters=rope, max_position_embeddings=163840)
        rotary = deepseek.DeepseekV3RotaryEmbedding(config)
        q, k = random(1, 3, 5, 64, seed=3), random(1, 1, 5, 64, seed=4)
        cos, sin = rotary(torch.from_numpy(q), positions)
        y = deepseek.apply_rotary_pos_emb_interleave(torch.from_numpy(q), torch.from_numpy(k), cos, sin)
        # The library's own float32 frequencies, and its precision: float32 angles.
        spec = {"headDim": "64", "pairing": "PAIRING_INTERLEAVED_TO_HALF",
                "invFreq": {"invFreq": [float(f) for f in rotary.inv_freq.numpy()]}}
        item = {"spec": {"rope": spec}, "precision": "PRECISION_COMPAT_F32", "positions": ids(positions),
                "layout": "LAYOUT_BHSD"}
        cases.append(case(f"deepseek-v3/{'yarn' if yarn else 'default'}", item, [q, k], [t.numpy() for t in y], 6 * ULP))
    # Llama 4: scaled queries of layers without positions. Cosines of zero frequencies are 1.
    config = configuration_llama4.Llama4TextConfig(hidden_size=32, num_attention_heads=2, num_key_value_heads=2, head_dim=16,
                                                   num_hidden_layers=4, attn_temperature_tuning=True, floor_scale=8192,
                                                   attn_scale=0.1, use_qk_norm=False, no_rope_layers=[0, 0, 0, 0])
    attention = llama4.Llama4TextAttention(config, 3)
    attention.use_rope = False
    identity(attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
    x = random(1, 5, 32, seed=5)
    heads = x.reshape(1, 5, 2, 16).transpose(0, 2, 1, 3)
    still = {"rope": {"headDim": "16", "invFreq": {"invFreq": [0.0] * 8}}}
    for seen in (8189, 131068):  # the library counts from the cached length
        q, _ = capture_query(attention, torch.from_numpy(x), position_embeddings=None, attention_mask=None, cache=Cached(seen))
        item = {"spec": still, "positions": ids(range(seen, seen + 5)), "layout": "LAYOUT_BHSD",
                "rotate": {"queryScale": {"floorScale": {"coefficient": 0.1, "period": "8192", "shift": "1"}}}}
        cases.append(case(f"llama4/attn_temperature_tuning-{seen}", item, [heads], [q], 2 * ULP))
    # Ministral 3: its own function of the positions.
    from transformers.models.ministral3 import modeling_ministral3 as ministral
    function = next(getattr(ministral, n) for n in dir(ministral) if "attn_scale" in n)
    positions = torch.tensor([0, 16383, 16384, 40000, 262143])
    scale = function(positions[None], 0.1, 16384).reshape(-1).to(torch.float32).numpy()
    x = random(1, 5, 1, 8, seed=6)
    item = {"spec": {"rope": {"headDim": "8", "invFreq": {"invFreq": [0.0] * 4}}}, "positions": ids(positions),
            "rotate": {"queryScale": {"floorScale": {"coefficient": 0.1, "period": "16384"}}}}
    cases.append(case("ministral3/" + function.__name__, item, [x], [x * scale[None, :, None, None]], 2 * ULP))
    write("transformers", ["transformers", "torch"], cases)


def from_x_transformers():
    from x_transformers import x_transformers as xt
    cases = []
    # PoPE: queries and keys with learned phases, some of which the library clamps.
    polar = xt.PolarEmbedding(12, 2)
    bias = next(p for n, p in polar.named_parameters())
    with torch.no_grad():
        bias.copy_(torch.linspace(-7, 0.5, bias.numel()).reshape(bias.shape))
        freqs, phase = polar(torch.arange(40))
        x = torch.from_numpy(random(1, 2, 40, 12, seed=7) * 4)
        q = xt.apply_polar_pos_emb(x, freqs)
        k = xt.apply_polar_pos_emb(x, freqs + phase)
    weights = [{"name": "delta", "tensor": tensor(bias.detach().numpy().reshape(2, 12))}]
    item = {"spec": {"pope": {"headDim": "12"}, "weights": weights}, "layout": "LAYOUT_BHSD"}
    # float32 angles up to 40: half a unit of 32 is 1.9e-6.
    cases.append(case("polar", item, [x.numpy(), x.numpy()], [q.numpy(), k.numpy()], 5 * 4e-6))
    # xPos: interleaved pairs, center = length // 2.
    rotary = xt.RotaryEmbedding(16, use_xpos=True, scale_base=512)
    freqs, scale = rotary.forward_from_seq_len(100)
    x = torch.from_numpy(random(1, 2, 100, 16, seed=8))
    q, k = xt.apply_rotary_pos_emb(x, freqs, scale), xt.apply_rotary_pos_emb(x, freqs, scale ** -1)
    item = {"spec": {"rope": {"headDim": "16", "pairing": "PAIRING_INTERLEAVED", "xpos": {}}}, "sequenceLength": "100",
            "layout": "LAYOUT_BHSD"}
    cases.append(case("xpos", item, [x.numpy(), x.numpy()], [q.numpy(), k.numpy()], 1.5e-5))
    write("x_transformers", ["x-transformers", "torch"], cases)


def from_rotary_embedding_torch():
    from rotary_embedding_torch import RotaryEmbedding
    cases = []
    for name, spec, kwargs in [("pixel", {"pixel": {"maxFreq": 20.0}}, {"freqs_for": "pixel", "max_freq": 20}),
                               ("theta_rescale_factor", {"ntkAware": {"factor": 4.0}}, {"theta_rescale_factor": 4.0})]:
        rotary = RotaryEmbedding(dim=16, **kwargs)
        positions = np.linspace(-1, 1, 9) if name == "pixel" else np.arange(9.0) * 3
        freqs = rotary(torch.tensor(positions, dtype=torch.float64))
        from rotary_embedding_torch import apply_rotary_emb
        x = random(1, 2, 9, 16, seed=9)
        with torch.no_grad():
            y = apply_rotary_emb(freqs.double(), torch.from_numpy(x).double()).numpy()
        where = {"ids": tensor(positions)} if name == "pixel" else ids(positions)
        item = {"spec": {"rope": {"headDim": "16", "pairing": "PAIRING_INTERLEAVED", **spec}}, "positions": where,
                "layout": "LAYOUT_BHSD"}
        # float32 frequencies, angles up to 20π.
        cases.append(case(name, item, [x.astype(np.float64)], [y], 1e-5))
    write("rotary_embedding_torch", ["rotary-embedding-torch", "torch"], cases)


if __name__ == "__main__":
    torch.manual_seed(0)
    from_onnx()
    from_onnxruntime()
    from_transformers()
    from_x_transformers()
    from_rotary_embedding_torch()
