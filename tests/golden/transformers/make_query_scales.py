"""Writes query_scales.json: what transformers' own attention multiplies queries by, at positions around the steps.

    python make_query_scales.py

Llama 4's factor is written inside its attention: a layer that does not rotate, with a projection that passes its input through, shows it.
Ministral 3 and Mistral 4 have a function. Versions: ../requirements.txt.
"""

import json
import math
import pathlib

import torch
import transformers
from transformers.models.llama4 import modeling_llama4 as llama4
from transformers.models.ministral3 import modeling_ministral3 as ministral3
from transformers.models.mistral4 import modeling_mistral4 as mistral4

HERE = pathlib.Path(__file__).parent
POSITIONS = [0, 1, 14, 15, 16, 31, 63, 100]


def of_llama4(floor_scale, attn_scale):
    keys = {
        "hidden_size": 8, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8, "num_hidden_layers": 4, "intermediate_size": 8,
        "intermediate_size_mlp": 8, "vocab_size": 8, "floor_scale": floor_scale, "attn_scale": attn_scale, "use_qk_norm": False,
        "no_rope_layers": [1, 1, 1, 0],
    }
    config = transformers.Llama4TextConfig(**keys)
    config._attn_implementation = "eager"
    layer = llama4.Llama4TextAttention(config, layer_idx=3)
    assert not layer.use_rope
    seen = []

    def attention(module, query, key, value, mask, **_):
        seen.append(query)
        return value.transpose(1, 2), None

    llama4.eager_attention_forward = attention
    with torch.no_grad():
        layer.q_proj.weight.copy_(torch.eye(8))
        count = max(POSITIONS) + 1
        layer(torch.ones(1, count, 8), position_embeddings=None, attention_mask=None, position_ids=torch.arange(count)[None])
    return {"config": {"model_type": "llama4_text"} | {k: keys[k] for k in list(keys)[:4] + ["num_hidden_layers", "floor_scale", "attn_scale", "no_rope_layers"]},
            "layer_type": "nope_layers", "samples": [[p, seen[0][0, 0, p, 0].item()] for p in POSITIONS]}


def of_function(module, model_type, beta, length, extra):
    scale = module.get_llama_4_attn_scale(torch.tensor([POSITIONS]), beta, length)[0, 0, :, 0]
    parameters = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6, "original_max_position_embeddings": length, "llama_4_scaling_beta": beta}
    config = {"model_type": model_type, "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
              "max_position_embeddings": 4 * length, "rope_parameters": parameters} | extra
    return {"config": config, "layer_type": "", "samples": [[p, s] for p, s in zip(POSITIONS, scale.tolist())]}


def main():
    mla = {"qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "kv_lora_rank": 16}
    cases = [of_llama4(16, 0.1), of_llama4(32, 0.5), of_function(ministral3, "ministral3", 0.1, 16, {"head_dim": 16}),
             of_function(mistral4, "mistral4", 0.25, 32, mla)]
    # Qwen 1's remote code, modeling_qwen.py: log(i, seq_length) beyond seq_length, 1 up to it, for i = position + 1.
    length = 16
    cases.append({
        "config": {"model_type": "qwen", "hidden_size": 64, "num_attention_heads": 4, "seq_length": length, "use_logn_attn": True},
        "layer_type": "", "samples": [[p, math.log(p + 1, length) if p + 1 > length else 1.0] for p in POSITIONS],
    })
    text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (HERE / "query_scales.json").write_text(f'{{"transformers":"{transformers.__version__}","cases":[\n{text}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
