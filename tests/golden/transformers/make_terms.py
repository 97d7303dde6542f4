"""Writes terms.json: configurations whose positions are terms of the scores or biases of windows, with keys that differ from
the class's defaults, and what the library's own modules do with them.

    python make_terms.py

Versions: ../requirements.txt. A case: `config`, and `layers`, one entry per layer type, with the numbers that its module has.
`modules`: which classes of modules that others compare by their names alone have their numbers in a case here, and its name.
What their scores are is in ../scores/scores.txt.
"""

import json
import pathlib
import re

import torch
import transformers
from transformers.models.deberta import modeling_deberta as deberta1
from transformers.models.deberta_v2 import modeling_deberta_v2 as deberta2
from transformers.models.beit import modeling_beit
from transformers.models.esmfold2 import modeling_esmfold2
from transformers.models.fastspeech2_conformer import modeling_fastspeech2_conformer as fastspeech
from transformers.models.funnel import modeling_funnel
from transformers.models.gemma3n import modeling_gemma3n as gemma3n
from transformers.models.gemma4 import modeling_gemma4 as gemma4
from transformers.models.inkling import modeling_inkling as inkling1
from transformers.models.inkling2 import modeling_inkling2 as inkling2
from transformers.models.inkling2_loop import modeling_inkling2_loop as inkling2_loop
from transformers.models.layoutlmv2 import modeling_layoutlmv2 as layoutlmv2
from transformers.models.layoutlmv3 import modeling_layoutlmv3 as layoutlmv3
from transformers.models.mllama import modeling_mllama
from transformers.models.nemotron_asr_streaming import modeling_nemotron_asr_streaming as modeling_nemotron
from transformers.models.parakeet import modeling_parakeet
from transformers.models.phi4_multimodal import modeling_phi4_multimodal as phi4
from transformers.models.seamless_m4t import modeling_seamless_m4t
from transformers.models.speecht5 import modeling_speecht5
from transformers.models.udop import modeling_udop
from transformers.models.vjepa2 import modeling_vjepa2
from transformers.models.wav2vec2_bert import modeling_wav2vec2_bert as wav2vec2_bert
from transformers.models.wav2vec2_conformer import modeling_wav2vec2_conformer as modeling_conformer

HERE = pathlib.Path(__file__).parent
DISTANCES = [-700, -512, -300, -65, -64, -20, -9, -8, -1, 0, 1, 7, 8, 9, 31, 63, 64, 65, 130, 255, 511, 600]
SMALL = {"intermediate_size": 8, "vocab_size": 11}


def build(config):
    with torch.device("meta"):
        return transformers.AutoModel.from_config(config)


def saved(config, keep):
    """What a published file would hold of it."""
    text = json.loads(config.to_json_string())
    return {key: text[key] for key in ["model_type", *keep] if key in text}


def shapes(model, *patterns):
    """Shapes of the parameters that the patterns name, the first of each."""
    found = {}
    for pattern in patterns:
        for name, parameter in model.named_parameters():
            if re.search(pattern, name):
                found[name] = list(parameter.shape)
                break
    return found


def deberta(version, **keys):
    """Rows of the table by query − key, and the divisor of q·k, as the module gives them for a query that sees one key."""
    make = transformers.DebertaV2Config if version == 2 else transformers.DebertaConfig
    config = make(hidden_size=48, num_attention_heads=3, num_hidden_layers=1, relative_attention=True, **SMALL, **keys)
    model = build(config)
    attention = model.encoder.layer[0].attention.self
    distances = torch.tensor(DISTANCES)
    if version == 2:
        span = attention.pos_ebd_size
        if attention.position_buckets > 0:
            distances = deberta2.make_log_bucket_position(
                distances, attention.position_buckets, attention.max_relative_positions
            ).to(torch.int64)
        factor = 1 + sum(name in attention.pos_att_type for name in ("c2p", "p2c"))
        divisor = deberta2.scaled_size_sqrt(torch.zeros(1, 1, attention.attention_head_size), factor)
    else:
        span = deberta1.compute_attention_span(torch.zeros(1, 2000, 1), torch.zeros(1, 2000, 1), attention.max_relative_positions)
        factor = 1 + len(attention.pos_att_type)
        divisor = deberta1.scaled_size_sqrt(torch.zeros(1, 1, attention.attention_head_size), factor)
    rows = torch.clamp(distances + span, 0, 2 * span - 1).tolist()
    layer = {
        "layer_type": "",
        "rows": [list(pair) for pair in zip(DISTANCES, rows)],
        "divisor": divisor.item(),
        "terms": [name for name in ("c2p", "p2c") if name in attention.pos_att_type],
        "shapes": shapes(model, r"rel_embeddings", r"pos_.*proj\.weight", r"encoder\.LayerNorm\.weight"),
    }
    layers = [layer]
    if model.embeddings.position_embeddings is not None:
        layers.append({"layer_type": "embedding", "table": list(model.embeddings.position_embeddings.weight.shape)})
    keep = ["hidden_size", "num_attention_heads", "num_hidden_layers", "relative_attention", "max_position_embeddings", *keys]
    return {"config": saved(config, keep), "layers": layers}


def shaw(**keys):
    """Rows by key − query, found by running the module's function on a table whose row r holds r."""
    config = transformers.Wav2Vec2BertConfig(hidden_size=32, num_attention_heads=4, position_embeddings_type="relative_key", **keys)
    module = wav2vec2_bert.Wav2Vec2BertSelfAttention(config)
    rows, width = module.distance_embedding.weight.shape
    with torch.no_grad():
        module.distance_embedding.weight.copy_(torch.arange(rows)[:, None].expand(rows, width))
        query = torch.full((1, 1, 120, width), 1 / width)
        found = wav2vec2_bert._apply_relative_key_position_encoding(module, query, query)[1][0, 0] / module.scaling
    samples = [[key - 60, round(found[60, key].item())] for key in range(0, 120, 7)]
    layer = {"layer_type": "", "table_rows": rows, "left": module.left_max_position_embeddings, "rows": samples, "shapes": {"distance_embedding.weight": [rows, width]}}
    return {"config": saved(config, ["hidden_size", "num_attention_heads", "position_embeddings_type", *keys]), "layers": [layer]}


def xlnet(**keys):
    """Rows of R: [row, column, value] for 3 queries and 5 keys."""
    config = transformers.XLNetConfig(d_model=24, n_head=3, n_layer=1, d_inner=8, vocab_size=11, **keys)
    model = build(config)
    table = model.relative_positional_encoding(3, 5)[:, 0]
    samples = [[r, c, table[r, c].item()] for r in range(table.shape[0]) for c in (0, 5, 11, 12, 23)]
    layer = {"layer_type": "", "keys": 5, "samples": samples, "shapes": shapes(model, r"rel_attn\.r$", r"r_w_bias", r"seg_embed")}
    return {"config": saved(config, ["d_model", "n_head", "n_layer", "clamp_len", *keys]), "layers": [layer]}


def conformer(config, keep, names):
    model = build(config)
    return {"config": saved(config, keep), "layers": [{"layer_type": "", "shapes": shapes(model, *names)}]}


def distances(positions):
    return torch.tensor([[a - b for b in positions] for a in positions])


def sinusoid_rows(table, dim, of_row):
    """[distance, column, value] of a table whose row r is of distance of_row(r)."""
    rows = sorted({0, 1, table.shape[0] // 2, table.shape[0] - 2, table.shape[0] - 1})
    columns = sorted({0, 1, 2, dim // 2 - 1, dim // 2, dim - 1})
    return [[of_row(r), c, table[r, c].item()] for r in rows for c in columns]


def wav2vec2_like(config, encoding, keep, names):
    """A Conformer's shapes, and rows of its table for 9 frames."""
    case = conformer(config, keep, names)
    rows = 9
    table = encoding(torch.zeros(1, rows, config.hidden_size))
    table = (table[-1] if isinstance(table, tuple) else table)[0]
    assert table.shape[0] == 2 * rows - 1
    case["layers"][0]["sinusoids"] = sinusoid_rows(table, config.hidden_size, lambda r: rows - 1 - r)
    return case


def seamless(**keys):
    config = transformers.SeamlessM4TConfig(speech_encoder_layers=1, speech_encoder_intermediate_size=8, **keys)
    with torch.device("meta"):
        model = modeling_seamless_m4t.SeamlessM4TSpeechEncoder(config)
    table = modeling_seamless_m4t.SeamlessM4TConformerRelPositionalEmbedding(config)(torch.zeros(1, 9, config.hidden_size))[0]
    layer = {
        "layer_type": "speech",
        "shapes": shapes(model, r"linear_pos\.weight", r"pos_bias_u", r"pos_bias_v"),
        "sinusoids": sinusoid_rows(table, config.hidden_size, lambda r: 8 - r),
    }
    return {"config": saved(config, list(keys)), "layers": [layer], "part": True}


def speecht5(**keys):
    """Rows by query - key, by a table whose row r holds r."""
    config = transformers.SpeechT5Config(encoder_layers=1, decoder_layers=1, **keys)
    longest = config.encoder_max_relative_position
    module = modeling_speecht5.SpeechT5RelativePositionalEncoding(1, longest)
    with torch.no_grad():
        module.pe_k.weight.copy_(torch.arange(2.0 * longest)[:, None])
        got = module(torch.zeros(1, 40, 1))[..., 0]
    rows = [[i - j, round(got[i, j].item())] for i in (0, 20, 39) for j in range(40)]
    layer = {"layer_type": "encoder", "query_minus_key": rows, "rows_of_class": 2 * longest}
    return {"config": saved(config, list(keys)), "layers": [layer], "part": True}


def fastspeech2(**keys):
    config = transformers.FastSpeech2ConformerConfig(hidden_size=24, encoder_layers=1, decoder_layers=1, **keys)
    model = build(config)
    layers = []
    for name, module in (("encoder", config.encoder_config), ("decoder", config.decoder_config)):
        table = fastspeech.FastSpeech2ConformerRelPositionalEncoding(config, module).eval()(torch.zeros(1, 9, 24))[1][0]
        found = shapes(model, name + r".*linear_pos\.weight", name + r".*pos_bias_u", name + r".*pos_bias_v")
        layers.append({"layer_type": name, "shapes": found, "sinusoids": sinusoid_rows(table, 24, lambda r: 8 - r)})
    return {"config": saved(config, ["hidden_size", *keys]), "layers": layers}


def gemma_sound(third, **keys):
    make = transformers.Gemma3nAudioConfig if third else transformers.Gemma4AudioConfig
    config = make(hidden_size=24, **keys)
    model = build(config)
    if third:
        module = gemma3n.Gemma3nAudioRelativePositionEmbedding(config)
        rows = torch.arange(module.max_backward, -module.max_forward - 1, -1)
        table, first = module._get_timing_signal_1d_pos(rows[None], torch.float32)[0], module.max_backward
        horizon = [module.max_backward, module.max_forward]
    else:
        table = gemma4.Gemma4AudioRelPositionalEncoding(config)(torch.zeros(1, 1, 1))[0]
        first = table.shape[0] - 1
        attention = gemma4.Gemma4AudioAttention(config, 0)
        horizon = [attention.max_past_horizon, attention.max_future_horizon]
    layer = {
        "layer_type": "",
        "shapes": shapes(model, r"pos_proj\.weight|relative_k_proj\.weight"),
        "sinusoids": sinusoid_rows(table, 24, lambda r: first - r),
        "horizon": horizon,
        "oldest": first,  # distance of the oldest key that a query sees, by the class's rows
    }
    return {"config": saved(config, ["hidden_size", *keys]), "layers": [layer]}


def funnel(**keys):
    config = transformers.FunnelConfig(d_model=24, n_head=3, d_head=4, d_inner=8, vocab_size=11, block_sizes=[1, 1], hidden_dropout=0.0, architectures=["FunnelModel"], **keys)
    model = build(config)
    structure = modeling_funnel.FunnelAttentionStructure(config)
    rows = 5
    tables = structure.get_position_embeds(rows, torch.float32, "cpu")
    layer = {"layer_type": "", "shapes": shapes(model, r"r_kernel", r"r_w_bias", r"seg_embed"), "separate_cls": config.separate_cls}
    if config.attention_type == "relative_shift":
        layer["sinusoids"] = sinusoid_rows(tables[0][0], 24, lambda r: rows - r)
    return {"config": saved(config, ["d_model", "n_head", "d_head", "block_sizes", *keys]), "layers": [layer]}


def inkling(kind, **keys):
    """The profile that distance n reads, by a table whose column n holds n + 1 and queries of ones."""
    make = {1: transformers.InklingTextConfig, 2: transformers.Inkling2TextConfig, 3: transformers.Inkling2LoopTextConfig}[kind]
    config = make(hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=8, swa_num_attention_heads=2, swa_num_key_value_heads=1, swa_head_dim=16, num_hidden_layers=6, d_rel=4, **keys)
    model = build(config)
    layers = []
    for name in ("hybrid_sliding", "hybrid"):
        numbers = [i for i, kind_of in enumerate(config.layer_types) if kind_of == name]
        attention = model.layers[numbers[0]].self_attn
        module = attention.rel_logits_proj if kind == 1 else attention.relative_position_bias
        width, extent = module.proj.shape
        probe = torch.arange(1.0, extent + 1).expand(width, extent) / width
        samples = []
        for distance in (-3, -1, 0, 1, extent - 1, extent, extent + 5):
            if kind == 1:
                home = inkling1.InklingRelativeLogits(width, extent)
                home.proj.data = probe.clone()
                got = home(torch.ones(1, 1, 1, width), torch.tensor([distance]), torch.tensor([0]))
            else:
                home = (inkling2 if kind == 2 else inkling2_loop)
                home = next(v for k, v in vars(home).items() if k.endswith("RelativePositionBias"))(config, 1, extent, False)
                home.proj.data = probe.clone()
                home.linear.forward, home.norm.forward = (lambda states: states), (lambda states, positions: states)
                got = home(torch.ones(1, 1, width), torch.tensor([[[[distance]]]]), torch.tensor([[0]]))
            samples.append([distance, round(got.item())])
        layers.append({"layer_type": name, "blocks": numbers, "heads": attention.num_heads if kind == 1 else attention.relative_position_bias.num_heads, "extent": extent, "d_rel": width, "profile": samples})
    keep = ["hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "swa_num_attention_heads", "swa_num_key_value_heads", "swa_head_dim", "num_hidden_layers", "d_rel", *keys]
    return {"config": saved(config, keep), "layers": layers}


def udop(**keys):
    """Buckets of pairs of boxes (in 14000ths of the page, whose distances times 100 are not whole) and of tokens."""
    config = transformers.UdopConfig(d_model=32, num_heads=4, num_layers=1, num_decoder_layers=1, vocab_size=11, d_ff=8, d_kv=8, **keys)
    layers = []
    points = [0, 7, 133, 500, 509, 1001, 2255, 2391, 5003, 7001, 13993]
    for module, kind in zip(modeling_udop.create_relative_bias(config), config.relative_bias_args):
        name = kind["type"]
        if name == "1d":
            at = list(range(0, 400, 9))
            buckets = module.get_bucket(torch.ones(1, 400), None)[0][::9, ::9]
        else:
            at = points
            edges = torch.tensor(points, dtype=torch.float64)[None, :, None] / 14000
            buckets = module.get_bucket(None, edges.expand(-1, -1, 4).float())[0]
        samples = [[at[j] - at[i], buckets[i, j].item()] for i in range(len(at)) for j in range(len(at))]
        samples = [list(pair) for pair in sorted({tuple(s) for s in samples})][:: 3 if name == "1d" else 1]
        layers.append({"layer_type": f"encoder.{name}", "heads": 4, "buckets": samples, "shapes": {"weight": list(module.relative_attention_bias.weight.shape)}})
    model = build(config)
    attention = model.decoder.block[0].layer[0].SelfAttention
    got = attention._relative_position_bucket(torch.tensor(DISTANCES), False, attention.relative_attention_num_buckets, attention.relative_attention_max_distance)
    layers.append({"layer_type": "decoder", "heads": 4, "buckets": [list(p) for p in zip(DISTANCES, got.tolist())], "shapes": {"weight": list(attention.relative_attention_bias.weight.shape)}})
    return {"config": saved(config, ["d_model", "num_heads", "d_kv", "relative_bias_args", *keys]), "layers": layers, "part": True}


def layoutlm(version, **keys):
    make = transformers.LayoutLMv3Config if version == 3 else transformers.LayoutLMv2Config
    config = make(hidden_size=48, num_attention_heads=3, num_hidden_layers=1, **SMALL, max_position_embeddings=64, coordinate_size=8, shape_size=8, **keys)
    home = layoutlmv3 if version == 3 else layoutlmv2
    encoder = (home.LayoutLMv3Encoder if version == 3 else home.LayoutLMv2Encoder)(config)
    layers = []
    for name, linear, count, longest in (
        ("relative", encoder.rel_pos_bias, config.rel_pos_bins, config.max_rel_pos),
        ("relative_x", encoder.rel_pos_x_bias, config.rel_2d_pos_bins, config.max_rel_2d_pos),
        ("relative_y", encoder.rel_pos_y_bias, config.rel_2d_pos_bins, config.max_rel_2d_pos),
    ):
        with torch.no_grad():
            linear.weight.copy_(torch.arange(count)[None].expand(3, count))
            at = torch.tensor([[0, *DISTANCES]]) + 700
            box = torch.zeros(1, at.shape[1], 4, dtype=torch.long)
            box[0, :, 0 if name == "relative_x" else 3] = at[0]
            if version == 3:
                others = [m for m in (encoder.rel_pos_x_bias, encoder.rel_pos_y_bias) if m is not linear]
                for other in others:
                    other.weight.zero_()
                got = encoder._cal_1d_pos_emb(at)[0] if name == "relative" else encoder._cal_2d_pos_emb(box)[0]
            else:
                encoder.rel_pos_x_bias.weight.mul_(name == "relative_x"), encoder.rel_pos_y_bias.weight.mul_(name == "relative_y")
                got = encoder._calculate_1d_position_embeddings(at)[0] if name == "relative" else encoder._calculate_2d_position_embeddings(box)[0]
        samples = [[d, round(got[0, 0, 1 + i].item())] for i, d in enumerate(DISTANCES)]
        layers.append({"layer_type": name, "heads": 3, "buckets": samples, "shapes": {"transposed": list(linear.weight.shape)}, "scale": 1.0 if version == 2 else 16**-0.5})
    rows = [config.max_position_embeddings, config.hidden_size]
    layers.append({"layer_type": "embedding", "table": rows})
    return {"config": saved(config, ["hidden_size", "num_attention_heads", "max_position_embeddings", *keys]), "layers": layers, "part": True}


def phi4_sound(**keys):
    """Rows by key - query, by a table whose row r holds r."""
    config = transformers.Phi4MultimodalAudioConfig(hidden_size=32, num_attention_heads=4, num_blocks=1, **keys)
    module = phi4.Phi4MultimodalAudioRelativeAttentionBias(config)
    with torch.no_grad():
        module.bias_values.weight.copy_(torch.arange(module.num_buckets)[:, None].expand(-1, 4))
        length = config.bias_max_distance if config.bias_symmetric else 3 * config.bias_max_distance
        got = module(torch.zeros(1, length, 1))[0, 0]
    samples = [[j - i, round(got[i, j].item())] for i in (0, length // 2, length - 1) for j in range(length)]
    layer = {"layer_type": "", "clipped": module.max_distance, "symmetric": module.symmetric, "rows": samples, "table_rows_of_class": module.num_buckets}
    return {"config": saved(config, ["hidden_size", "num_attention_heads", *keys]), "layers": [layer]}


def esmfold2(**keys):
    config = transformers.EsmFold2Config(**keys)
    module = modeling_esmfold2.EsmFold2RelativePositionEncoding(config)
    features = module.embed.weight.shape[1]
    with torch.no_grad():  # which columns a pair adds: powers of two
        module.embed = torch.nn.Linear(features, 1, bias=False, dtype=torch.float64)
        module.embed.weight.copy_(2.0 ** torch.arange(features, dtype=torch.float64)[None])
    layers = []
    at = torch.tensor([[0, 1, 2, 5, 9, 40, 70]])
    same, other = torch.zeros_like(at), torch.arange(at.shape[1])[None]
    def columns(residue, chain, sym, entity, token):
        value = module(residue, chain, sym, entity, token)[0, :, :, 0]
        return [[[n for n in range(features) if int(v) >> n & 1] for v in row] for row in value.tolist()]
    pairs = [(i, j) for i in range(at.shape[1]) for j in range(at.shape[1])]
    for name, got in (
        ("pair_embedding.residue", columns(at, same, same, other, at)),
        ("pair_embedding.token", columns(same, same, same, other, at)),
        ("pair_embedding.chain", columns(same, other, at, other, at)),
    ):
        layers.append({"layer_type": name, "columns": [[(at[0, i] - at[0, j]).item(), got[i][j]] for i, j in pairs if i != j]})
    layers[0]["one_entity"] = columns(at, same, same, same, at)[0][1]
    return {"config": saved(config, ["hidden_size", *keys]), "layers": layers}


def vjepa2(**keys):
    """[axis, channel, position, cosine, sine]: what a channel of a head makes of itself and of its partner."""
    config = transformers.VJEPA2Config(num_hidden_layers=1, pred_num_hidden_layers=1, num_pooler_layers=1, **keys)
    layers = []
    for part, hidden, heads in (("encoder", config.hidden_size, config.num_attention_heads), ("predictor", config.pred_hidden_size, config.pred_num_attention_heads)):
        attention = modeling_vjepa2.VJEPA2RopeAttention(config, hidden, heads)
        width = attention.attention_head_size
        unit = torch.eye(width, dtype=torch.float64)[:, None, None, :]
        samples = []
        for axis in range(3):
            for position in (1, 5):
                ids = [torch.zeros(1, dtype=torch.float64) for _ in range(3)]
                ids[axis] += position
                got = attention.apply_rotary_embeddings(unit, ids)[:, 0, 0]
                samples += [[axis, c, position, got[c, c].item(), got[c ^ 1, c].item() if c ^ 1 < width else 0.0] for c in range(width)]
        for odd, kind in enumerate(("even_channels", "odd_channels")):
            layers.append({"layer_type": f"{part}.{kind}", "turns": [s for s in samples if s[1] % 2 == odd], "heads": heads})
    return {"config": saved(config, list(keys)), "layers": layers}


def mllama_tiles(**keys):
    config = transformers.models.mllama.MllamaVisionConfig(hidden_size=24, attention_heads=2, num_hidden_layers=1, num_global_layers=1, intermediate_size=8, intermediate_layers_indices=[0], **keys)
    with torch.device("meta"):
        model = modeling_mllama.MllamaVisionModel(config)
    patches = list(model.gated_positional_embedding.embedding.shape)
    layers = [{"layer_type": "embedding", "table": patches}]
    for name, weight in (
        ("tile_embedding", model.gated_positional_embedding.tile_embedding.weight),
        ("pre_tile_embedding", model.pre_tile_positional_embedding.embedding.weight),
        ("post_tile_embedding", model.post_tile_positional_embedding.embedding.weight),
    ):
        layers.append({"layer_type": name, "table": [weight.numel() // 24, 24]})
    return {"config": saved(config, ["hidden_size", "attention_heads", *keys]), "layers": layers}


def swin(version, **keys):
    make = transformers.Swinv2Config if version == 2 else transformers.SwinConfig
    config = make(embed_dim=48, **keys)
    model = build(config)
    layers, block = [], 0
    for number, stage in enumerate(model.encoder.layers, 1):
        attention = stage.blocks[0].attention
        layer = {"layer_type": f"stage{number}", "blocks": list(range(block, block + len(stage.blocks)))}
        block += len(stage.blocks)
        if version == 2:
            with torch.device("cpu"):
                coordinates, _ = attention.self.create_coords_table_and_index()
            layer |= {"window": list(attention.self.window_size), "heads": attention.self.num_attention_heads}
            layer["coordinates"] = coordinates[0, :, 0, 0].tolist()
            layer["shapes"] = {k: list(v.shape) for k, v in attention.self.continuous_position_bias_mlp.named_parameters()}
        else:
            bias = attention.relative_position_bias
            layer |= {"window": list(bias.window_size), "heads": bias.relative_position_bias_table.shape[1]}
            layer["shapes"] = {"relative_position_bias_table": list(bias.relative_position_bias_table.shape)}
        layers.append(layer)
    return {"config": saved(config, ["embed_dim", *keys]), "layers": layers}


def beit(**keys):
    config = transformers.BeitConfig(hidden_size=24, num_attention_heads=3, num_hidden_layers=2, intermediate_size=8, **keys)
    model = build(config)
    tables = {n: list(p.shape) for n, p in model.named_parameters() if "relative_position_bias_table" in n}
    names = list(tables)
    each = [name for name in names if re.search(r"layers?\.\d+\.", name)]
    shared = [name for name in names if name not in each]
    layers = []
    index = modeling_beit.BeitRelativePositionBias.generate_relative_position_index((4, 6)).flatten().tolist()
    if each:
        layers.append({"layer_type": "", "shapes": {each[0]: tables[each[0]]}, "tables": len(each), "index": index})
    if shared:
        layers.append({"layer_type": "shared" if each else "", "shapes": {shared[0]: tables[shared[0]]}, "tables": 1})
    table = model.embeddings.position_embeddings
    if table is not None:
        layers.append({"layer_type": "embedding" if layers else "", "table": list(table.shape[1:])})
    return {"config": saved(config, ["hidden_size", "num_attention_heads", "num_hidden_layers", *keys]), "layers": layers}


def sam(**keys):
    config = transformers.SamVisionConfig(hidden_size=24, num_attention_heads=3, num_hidden_layers=4, mlp_dim=8, **keys)
    model = build(config).vision_encoder
    groups = {}
    for number, layer in enumerate(model.layers):
        if not hasattr(layer.attn, "rel_pos_h"):
            continue
        group = groups.setdefault("global_attention" if layer.window_size == 0 else "window_attention", {"blocks": []})
        group["blocks"].append(number)
        group["shapes"] = {name: list(getattr(layer.attn, name).shape) for name in ("rel_pos_h", "rel_pos_w")}
    layers = [{"layer_type": name} | group for name, group in sorted(groups.items())]
    if model.pos_embed is not None:
        rows = model.pos_embed.shape[1] * model.pos_embed.shape[2]
        layers.append({"layer_type": "embedding", "table": [rows, model.pos_embed.shape[3]]})
    return {"config": saved(config, ["hidden_size", "num_attention_heads", "num_hidden_layers", *keys]), "layers": layers}


def cases():
    both = ["p2c", "c2p"]
    yield "deberta_v2_buckets", deberta(2, pos_att_type=both, position_buckets=64, max_relative_positions=-1, share_att_key=True, norm_rel_ebd="layer_norm", position_biased_input=False)
    yield "deberta_v2_no_buckets", deberta(2, pos_att_type="c2p", position_buckets=-1, max_relative_positions=100, position_biased_input=True)
    yield "deberta_v2_long", deberta(2, pos_att_type="p2c|c2p", position_buckets=32, max_relative_positions=400, max_position_embeddings=1024, position_biased_input=False)
    yield "deberta_v1", deberta(1, pos_att_type=both, max_relative_positions=-1, position_biased_input=False)
    yield "deberta_v1_short", deberta(1, pos_att_type="c2p|p2c", max_relative_positions=64, position_biased_input=True)
    yield "shaw_class_sides", shaw(left_max_position_embeddings=64, right_max_position_embeddings=8)
    yield "shaw_right_longer", shaw(left_max_position_embeddings=5, right_max_position_embeddings=20)
    yield "xlnet_bi", xlnet(attn_type="bi")
    yield "xlnet_uni_clamped", xlnet(attn_type="uni", clamp_len=2)
    conformers = ["hidden_size", "num_attention_heads", "position_embeddings_type"]
    small = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 8}
    yield "wav2vec2_conformer", conformer(
        transformers.Wav2Vec2ConformerConfig(**small, position_embeddings_type="relative"), conformers,
        [r"linear_pos\.weight", r"pos_bias_u", r"pos_bias_v"],
    )
    yield "wav2vec2_bert_relative", conformer(
        transformers.Wav2Vec2BertConfig(**small, position_embeddings_type="relative"), conformers,
        [r"linear_pos\.weight", r"pos_bias_u", r"pos_bias_v"],
    )
    yield "parakeet", wav2vec2_like(
        transformers.ParakeetEncoderConfig(**small), modeling_parakeet.ParakeetEncoderRelPositionalEncoding(transformers.ParakeetEncoderConfig(**small)),
        conformers[:2], [r"relative_k_proj\.weight", r"bias_u", r"bias_v"],
    )
    stream = transformers.NemotronAsrStreamingEncoderConfig(**small, num_key_value_heads=4)
    yield "nemotron_streaming", wav2vec2_like(
        stream, modeling_nemotron.NemotronAsrStreamingEncoderRelPositionalEncoding(stream), conformers[:2], [r"relative_k_proj\.weight", r"bias_u", r"bias_v"]
    )
    speech = transformers.Wav2Vec2ConformerConfig(**small, position_embeddings_type="relative")
    yield "wav2vec2_conformer_rows", wav2vec2_like(
        speech, modeling_conformer.Wav2Vec2ConformerRelPositionalEmbedding(speech), conformers, [r"linear_pos\.weight", r"pos_bias_u", r"pos_bias_v"]
    )
    yield "seamless", seamless(hidden_size=32, speech_encoder_attention_heads=4)
    yield "speecht5", speecht5(hidden_size=32, encoder_attention_heads=4, encoder_max_relative_position=12)
    yield "fastspeech2", fastspeech2(encoder_num_attention_heads=2, decoder_num_attention_heads=4)
    yield "gemma3n_sound", gemma_sound(True, conf_num_attention_heads=4, conf_attention_context_left=7, conf_attention_context_right=2)
    yield "gemma4_sound", gemma_sound(False, num_attention_heads=4, attention_chunk_size=6, attention_context_left=7)
    yield "gemma4_sound_shifted", gemma_sound(False, num_attention_heads=4, attention_chunk_size=12, attention_context_left=7)
    yield "funnel", funnel()
    yield "funnel_factorized", funnel(attention_type="factorized", separate_cls=False)
    for number, name in enumerate(("inkling", "inkling2", "inkling2_loop"), 1):
        yield name, inkling(number, sliding_window_size=9, rel_extent=20)
    yield "udop", udop(relative_bias_args=[{"type": "1d", "relative_attention_num_buckets": 16}, {"type": "horizontal"}, {"type": "vertical", "max_distance": 60}])
    yield "layoutlmv3", layoutlm(3, rel_pos_bins=16, max_rel_pos=100, rel_2d_pos_bins=48, max_rel_2d_pos=300)
    yield "layoutlmv2", layoutlm(2)
    yield "phi4_sound", phi4_sound(bias_max_distance=13)
    yield "phi4_sound_symmetric", phi4_sound(bias_max_distance=11, bias_symmetric=True)
    yield "esmfold2", esmfold2(num_relative_residx_bins=8, num_relative_chain_bins=3)
    yield "vjepa2", vjepa2(hidden_size=64, num_attention_heads=2, pred_hidden_size=40, pred_num_attention_heads=2)
    yield "mllama_tiles", mllama_tiles(image_size=56, patch_size=14, max_num_tiles=3, supported_aspect_ratios=[[1, 1], [1, 2], [2, 1]])
    yield "swin", swin(1, image_size=224, patch_size=4, depths=[1, 2, 3, 1], num_heads=[1, 2, 4, 8], window_size=7)
    yield "swin_two_stages", swin(1, image_size=96, patch_size=4, depths=[2, 2], num_heads=[3, 6], window_size=12)
    yield "swinv2_pretrained", swin(2, image_size=384, patch_size=4, depths=[2, 2, 2, 2], num_heads=[3, 6, 12, 24], window_size=24, pretrained_window_sizes=[12, 12, 12, 6])
    yield "swinv2_small_image", swin(2, image_size=128, patch_size=4, depths=[1, 1, 1, 1], num_heads=[3, 6, 12, 24], window_size=16)
    flags = ("use_relative_position_bias", "use_shared_relative_position_bias", "use_absolute_position_embeddings")
    for name, values in {"beit_each": (1, 0, 0), "beit_shared": (0, 1, 0), "beit_each_absolute": (1, 0, 1), "beit_absolute": (0, 0, 1)}.items():
        yield name, beit(image_size=[64, 96], patch_size=16, **{flag: bool(v) for flag, v in zip(flags, values)})
    yield "sam", sam(image_size=256, patch_size=16, window_size=5, global_attn_indexes=[1, 3], use_rel_pos=True, use_abs_pos=True)
    yield "sam_relative_only", sam(image_size=128, patch_size=16, window_size=0, global_attn_indexes=[], use_rel_pos=True, use_abs_pos=False)


MODULES = {
    "BeitRelativePositionBias": "beit_each",
    "EsmFold2RelativePositionEncoding": "esmfold2",
    "FastSpeech2ConformerRelPositionalEncoding": "fastspeech2",
    "FunnelRelMultiheadAttention": "funnel",
    "Gemma3nAudioRelativePositionEmbedding": "gemma3n_sound",
    "Gemma4AudioRelPositionalEncoding": "gemma4_sound",
    "Inkling2LoopRelativePositionBias": "inkling2_loop",
    "Inkling2RelativePositionBias": "inkling2",
    "InklingRelativeLogits": "inkling",
    "NemotronAsrStreamingEncoderRelPositionalEncoding": "nemotron_streaming",
    "ParakeetEncoderRelPositionalEncoding": "parakeet",
    "Phi4MultimodalAudioRelativeAttentionBias": "phi4_sound",
    "RelativePositionBiasAggregated": "udop",
    "SeamlessM4TConformerRelPositionalEmbedding": "seamless",
    "SpeechT5RelativePositionalEncoding": "speecht5",
    "VJEPA2RopeAttention": "vjepa2",
    "Wav2Vec2ConformerRelPositionalEmbedding": "wav2vec2_conformer_rows",
}


def main():
    found = dict(cases())
    assert set(MODULES.values()) <= set(found), set(MODULES.values()) - set(found)
    lines = [json.dumps({"name": name} | case, separators=(",", ":")) for name, case in found.items()]
    modules = json.dumps(MODULES, separators=(",", ":"))
    text = f'{{"transformers":"{transformers.__version__}","modules":{modules},"cases":[\n' + ",\n".join(lines) + "\n]}\n"
    (HERE / "terms.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
