"""Writes terms.json: configurations whose positions are terms of the scores or biases of windows, with keys that differ from
the class's defaults, and what the library's own modules do with them.

    python make_terms.py

Versions: ../requirements.txt. A case: `config`, and `layers`, one entry per layer type, with the numbers that its module has.
"""

import json
import pathlib
import re

import torch
import transformers
from transformers.models.deberta import modeling_deberta as deberta1
from transformers.models.deberta_v2 import modeling_deberta_v2 as deberta2
from transformers.models.wav2vec2_bert import modeling_wav2vec2_bert as wav2vec2_bert

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
    if each:
        layers.append({"layer_type": "", "shapes": {each[0]: tables[each[0]]}, "tables": len(each)})
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
    yield "parakeet", conformer(
        transformers.ParakeetEncoderConfig(**small), conformers[:2], [r"relative_k_proj\.weight", r"bias_u", r"bias_v"]
    )
    yield "swin", swin(1, image_size=224, patch_size=4, depths=[1, 2, 3, 1], num_heads=[1, 2, 4, 8], window_size=7)
    yield "swin_two_stages", swin(1, image_size=96, patch_size=4, depths=[2, 2], num_heads=[3, 6], window_size=12)
    yield "swinv2_pretrained", swin(2, image_size=384, patch_size=4, depths=[2, 2, 2, 2], num_heads=[3, 6, 12, 24], window_size=24, pretrained_window_sizes=[12, 12, 12, 6])
    yield "swinv2_small_image", swin(2, image_size=128, patch_size=4, depths=[1, 1, 1, 1], num_heads=[3, 6, 12, 24], window_size=16)
    flags = ("use_relative_position_bias", "use_shared_relative_position_bias", "use_absolute_position_embeddings")
    for name, values in {"beit_each": (1, 0, 0), "beit_shared": (0, 1, 0), "beit_each_absolute": (1, 0, 1), "beit_absolute": (0, 0, 1)}.items():
        yield name, beit(image_size=[64, 96], patch_size=16, **{flag: bool(v) for flag, v in zip(flags, values)})
    yield "sam", sam(image_size=256, patch_size=16, window_size=5, global_attn_indexes=[1, 3], use_rel_pos=True, use_abs_pos=True)
    yield "sam_relative_only", sam(image_size=128, patch_size=16, window_size=0, global_attn_indexes=[], use_rel_pos=True, use_abs_pos=False)


def main():
    lines = [json.dumps({"name": name} | case, separators=(",", ":")) for name, case in cases()]
    text = f'{{"transformers":"{transformers.__version__}","cases":[\n' + ",\n".join(lines) + "\n]}\n"
    (HERE / "terms.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
