"""M-RoPE ids from the models' own code, for tests/server/position_rules_test.cc.

Runs get_rope_index of transformers' Qwen2-VL, Qwen2.5-VL, Qwen3-VL, ERNIE-4.5-VL and HunYuan-VL on described sequences; writes one
line per case: the rule as protobuf text, the axes' ids, rope_delta. transformers 5 goes on after max(height, width) (advance SPATIAL).

    pip install transformers==5.24.0 torch && python tests/golden/positions/make.py > tests/golden/positions/mrope.txt
"""
import random
import types

import torch
from transformers.models.ernie4_5_vl_moe import modeling_ernie4_5_vl_moe as ernie
from transformers.models.hunyuan_vl import modeling_hunyuan_vl as hunyuan
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen25
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3

N = types.SimpleNamespace


def model_of(cls, merge, **kwargs):
    """An object with the methods of `cls` and no weights."""
    vision = N(spatial_merge_size=merge, temporal_merge_size=kwargs.get("temporal", 1), tokens_per_second=kwargs.get("rate"))
    text = N(rope_parameters={"mrope_section": [1] * kwargs.get("axes", 3)})
    model = N(config=N(vision_config=vision, text_config=text))
    for name in ("get_vision_position_ids", "get_rope_index"):
        setattr(model, name, types.MethodType(getattr(cls, name), model))
    return model


def run(name, cls, layout, segments, merge=2, rate=None, temporal=1, axes=3):
    kinds, images, videos, seconds, text = [], [], [], [], []
    for kind, *rest in segments:
        if kind == "text":
            kinds += [0] * rest[0]
            text.append(f"segments {{ text: {rest[0]} }}")
            continue
        t, h, w, *second = rest
        tokens = t * h * w // merge**2 // (temporal if kind == "video" else 1)
        if layout == "HUNYUAN_VL":
            tokens = (h // merge) * (w // merge + 1)
        kinds += [1 if kind == "image" else 2] * tokens
        (images if kind == "image" else videos).append([t, h, w])
        extra = ""
        if second:
            seconds.append(second[0])
            extra = f" second_per_grid: {second[0]}"
        text.append(f"segments {{ {kind} {{ time: {t} height: {h} width: {w}{extra} }} }}")
    model = model_of(cls, merge, rate=rate, temporal=temporal, axes=axes)
    ids = torch.zeros(1, len(kinds), dtype=torch.long)
    arguments = dict(input_ids=ids, mm_token_type_ids=torch.tensor([kinds], dtype=torch.int))
    arguments["image_grid_thw"] = torch.tensor(images) if images else None
    if layout != "HUNYUAN_VL":
        arguments["video_grid_thw"] = torch.tensor(videos) if videos else None
    if layout == "QWEN2_5_VL" and seconds:
        arguments["second_per_grid_ts"] = torch.tensor(seconds, dtype=torch.float64)
    positions, delta = model.get_rope_index(**arguments)
    rule = " ".join(text) + f" layout: MROPE_LAYOUT_{layout} advance: MROPE_ADVANCE_SPATIAL spatial_merge: {merge}"
    if rate is not None:
        rule += f" tokens_per_second: {rate}"
    if temporal > 1:
        rule += f" temporal_merge: {temporal}"
    if layout == "HUNYUAN_VL":
        rule += f" axes: {axes}"
    print(name, "|", rule, "|", ";".join(",".join(str(int(x)) for x in row) for row in positions[:, 0]), "|", int(delta))


def main():
    rng = random.Random(7)
    grid = lambda merge: (rng.randint(1, 4) * merge, rng.randint(1, 4) * merge)
    # The threads of encodings.md §4 #12: a prefix of 15 tokens, and half a second times two per second.
    run("prefix15_interval4", qwen25.Qwen2_5_VLModel, "QWEN2_5_VL", [("text", 15), ("video", 3, 4, 4, 2.0)], rate=2)
    run("half_second", qwen25.Qwen2_5_VLModel, "QWEN2_5_VL", [("video", 4, 2, 2, 0.5), ("text", 3)], rate=2)
    run("still_image", qwen25.Qwen2_5_VLModel, "QWEN2_5_VL", [("text", 5), ("image", 1, 4, 6), ("text", 2)], rate=25)
    for i in range(6):
        segments = []
        for _ in range(rng.randint(2, 5)):
            kind = rng.choice(["text", "image", "video"])
            if segments and segments[-1][0] == kind:
                kind = "text" if kind != "text" else "image"
            h, w = grid(2)
            segments.append(("text", rng.randint(1, 9)) if kind == "text" else (kind, 1 if kind == "image" else rng.randint(1, 4), h, w))
        run(f"qwen2_{i}", qwen2.Qwen2VLModel, "QWEN2_VL", segments)
        timed = [s + (rng.choice([0.25, 0.3, 0.7, 1.0, 1.9]),) if s[0] == "video" else s for s in segments]
        run(f"qwen25_{i}", qwen25.Qwen2_5_VLModel, "QWEN2_5_VL", timed, rate=rng.choice([2, 4, 25]))
        frames = [(s[0], 1, *s[2:]) if s[0] == "video" else s for s in segments]
        run(f"qwen3_{i}", qwen3.Qwen3VLModel, "QWEN3_VL", frames)
        even = [(s[0], 2 * s[1], *s[2:]) if s[0] == "video" else s for s in segments]
        run(f"ernie_{i}", ernie.Ernie4_5_VLMoeModel, "QWEN2_VL", even, temporal=2)
        still = [("image", 1, *s[2:]) if s[0] == "video" else s for s in segments]
        merged = []
        for s in still:  # two images need text between them to be told apart
            if merged and merged[-1][0] == s[0] == "image":
                merged.append(("text", 1))
            merged.append(s)
        run(f"hunyuan_{i}", hunyuan.HunYuanVLModel, "HUNYUAN_VL", merged, axes=rng.choice([3, 4]))


main()
