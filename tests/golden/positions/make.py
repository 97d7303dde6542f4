"""M-RoPE ids from the models' own code, for tests/server/position_rules_test.cc.

Runs get_rope_index of transformers' Qwen2-VL, Qwen2.5-VL, Qwen3-VL, ERNIE-4.5-VL, HunYuan-VL, HY-V4-VL, GLM-Image, Qwen2.5-Omni and Qwen3-Omni on described
sequences; writes one line per case: the rule as protobuf text, the axes' ids, rope_delta. transformers 5 goes on after max(height, width)
(advance SPATIAL), the Omni models after the largest position of what came last.

    pip install transformers==5.24.0 torch && python tests/golden/positions/make.py > tests/golden/positions/mrope.txt
"""
import random
import types

import torch
from transformers.models.ernie4_5_vl_moe import modeling_ernie4_5_vl_moe as ernie
from transformers.models.glm_image import modeling_glm_image as glm_image
from transformers.models.hunyuan_vl import modeling_hunyuan_vl as hunyuan
from transformers.models.hy_v4_vl import modeling_hy_v4_vl as hy_v4
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen25
from transformers.models.qwen2_5_omni import modeling_qwen2_5_omni as omni25
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2
from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as omni3
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


def written(positions):
    return ";".join(",".join(str(int(x)) for x in row) for row in positions)


def run_hy_v4(name, segments, merge=2):
    """Every row of a frame ends in one more token: a frame is an image that is `merge` patches wider."""
    kinds, images, videos, text = [], [], [], []
    for kind, *rest in segments:
        if kind == "text":
            kinds += [0] * rest[0]
            text.append(f"segments {{ text: {rest[0]} }}")
            continue
        t, h, w = rest
        kinds += [1 if kind == "image" else 2] * (t * (h // merge) * (w // merge + 1))
        (images if kind == "image" else videos).append([t, h, w])
        text += [f"segments {{ image {{ height: {h} width: {w + merge} }} }}"] * t
    model = model_of(hy_v4.HYV4VLModel, merge)
    positions, delta = model.get_rope_index(
        input_ids=torch.zeros(1, len(kinds), dtype=torch.long), mm_token_type_ids=torch.tensor([kinds], dtype=torch.int),
        image_grid_thw=torch.tensor(images) if images else None, video_grid_thw=torch.tensor(videos) if videos else None)
    rule = " ".join(text) + f" layout: MROPE_LAYOUT_QWEN3_VL spatial_merge: {merge}"
    print(name, "|", rule, "|", written(positions[:, 0]), "|", int(delta))


def run_glm_image(name, prompt, given, made):
    """`prompt` text tokens before each given image and at the end; `made` are the grids of images to make, last first."""
    start, end = 1, 2
    ids, text = [], []
    for h, w in given:
        ids += [0] * prompt + [start] + [3] * (h * w) + [end]
        text.append(f"segments {{ text: {prompt + 1} }} segments {{ image {{ height: {h} width: {w} }} }} segments {{ text: 1 }}")
    ids += [0] * prompt + [start]
    text.append(f"segments {{ text: {prompt + 1} }}")
    text += [f"segments {{ image {{ height: {h} width: {w} }} }}" for h, w in reversed(made)]
    model = N(config=N(image_start_token_id=start, image_end_token_id=end))
    for method in ("get_vision_position_ids", "get_rope_index"):
        setattr(model, method, types.MethodType(getattr(glm_image.GlmImageModel, method), model))
    grids = torch.tensor([[1, h, w] for h, w in [*given, *made]])
    prefill, _ = model.get_rope_index(input_ids=torch.tensor([ids]), image_grid_thw=grids)
    positions = torch.cat([prefill[:, 0], model._cached_decode_position_ids[0]], dim=1)
    rule = " ".join(text) + " segments { text: 1 } layout: MROPE_LAYOUT_QWEN2_VL spatial_merge: 1"
    # The class answers no delta for the tokens that it makes: its cached positions go on.
    print(name, "|", rule, "|", written(positions), "|", int(positions.max()) + 1 - positions.shape[1])


IMAGE, VIDEO, AUDIO, VISION_START, AUDIO_START, END, TEXT = range(1, 8)


def audio_frames(cls, tokens):
    """The shortest feature sequence that gives so many audio tokens."""
    for frames in range(1, 4000):
        if cls is omni25.Qwen2_5OmniPreTrainedModelForConditionalGeneration:
            count = ((frames - 1) // 2 + 1 - 2) // 2 + 1
        else:
            count = omni3._get_feat_extract_output_lengths(frames, 50)
        if count == tokens:
            return frames
    raise ValueError(tokens)


def run_omni(name, cls, layout, segments, rate, chunk=2, merge=2):
    """Segments: text n, audio n, image h w, video t h w seconds, both t h w seconds audio (one kind of the last two)."""
    ids, images, videos, seconds, audios, text = [], [], [], [], [], []
    with_audio = any(kind == "both" for kind, *_ in segments)
    for kind, *rest in segments:
        if kind == "text":
            ids += [TEXT] * rest[0]
            text.append(f"segments {{ text: {rest[0]} }}")
        elif kind == "audio":
            ids += [AUDIO_START] + [AUDIO] * rest[0] + [END]
            audios.append(audio_frames(cls, rest[0]))
            text.append(f"segments {{ text: {rest[0] + 2} }}")
        elif kind == "image":
            h, w = rest
            ids += [VISION_START] + [IMAGE] * (h * w // merge**2) + [END]
            images.append([1, h, w])
            text.append(f"segments {{ text: 1 }} segments {{ image {{ height: {h} width: {w} }} }} segments {{ text: 1 }}")
        else:
            t, h, w, second = rest[:4]
            tokens = [VIDEO] * (t * h * w // merge**2)
            videos.append([t, h, w])
            seconds.append(second)
            grid = f"video {{ time: {t} height: {h} width: {w} second_per_grid: {second} }}"
            if kind == "video":
                ids += [VISION_START] + tokens + [END]
                text.append(f"segments {{ text: 1 }} segments {{ {grid} }} segments {{ text: 1 }}")
            else:
                ids += [VISION_START, AUDIO_START] + tokens + [AUDIO] * rest[4] + [END, END]
                audios.append(audio_frames(cls, rest[4]))
                each = f" seconds_per_chunk: {chunk}" if layout == "QWEN2_5_OMNI" else ""
                text.append(f"segments {{ audio_in_video {{ {grid} audio: {rest[4]}{each} }} }}")
    config = N(image_token_id=IMAGE, video_token_id=VIDEO, audio_token_id=AUDIO, vision_start_token_id=VISION_START,
               audio_start_token_id=AUDIO_START, position_id_per_seconds=rate, seconds_per_chunk=chunk, audio_config=N(n_window=50))
    model = N(config=config, spatial_merge_size=merge)
    for method in ("get_llm_pos_ids_for_vision", "get_chunked_index", "get_rope_index"):
        setattr(model, method, types.MethodType(getattr(cls, method), model))
    tensor = torch.tensor([ids])
    positions, delta = model.get_rope_index(
        input_ids=tensor, image_grid_thw=torch.tensor(images) if images else None,
        video_grid_thw=torch.tensor(videos) if videos else None, attention_mask=torch.ones_like(tensor),
        use_audio_in_video=with_audio, audio_seqlens=torch.tensor(audios) if audios else None,
        second_per_grids=torch.tensor(seconds, dtype=torch.float32) if seconds else None)
    rule = " ".join(text) + f" layout: MROPE_LAYOUT_{layout} spatial_merge: {merge} tokens_per_second: {rate}"
    number = lambda x: format(float(x), ".9g")
    print(name, "|", rule, "|", ";".join(",".join(number(x) for x in row) for row in positions[:, 0]), "|", number(delta))


def omni_cases(rng):
    models = ((omni25.Qwen2_5OmniPreTrainedModelForConditionalGeneration, "QWEN2_5_OMNI", 25),
              (omni3.Qwen3OmniMoePreTrainedModelForConditionalGeneration, "QWEN3_OMNI", 13))
    for cls, layout, rate in models:
        run_omni(f"{layout}_video_outlasts_audio", cls, layout, [("text", 3), ("both", 5, 4, 4, 1.0, 40), ("text", 2)], rate)
        run_omni(f"{layout}_audio_outlasts_video", cls, layout, [("both", 2, 2, 4, 0.5, 120), ("text", 2)], rate)
        run_omni(f"{layout}_wide", cls, layout, [("both", 2, 2, 40, 0.1, 3), ("text", 2)], rate)
        for i in range(5):
            with_audio = i % 2 == 0
            segments = [("text", rng.randint(1, 6))]
            for _ in range(rng.randint(1, 3)):
                kind = rng.choice(["image", "audio", "film", "film"])
                h, w = 2 * rng.randint(1, 3), 2 * rng.randint(1, 3)
                if kind == "image":
                    segments.append(("image", h, w))
                elif kind == "audio":
                    segments.append(("audio", rng.randint(1, 30)))
                else:
                    film = (rng.randint(1, 6), h, w, rng.choice([0.25, 0.3, 0.7, 1.0, 1.9]))
                    segments.append(("both", *film, rng.randint(1, 90)) if with_audio else ("video", *film))
                segments.append(("text", rng.randint(1, 4)))
            if all(s[0] in ("text", "audio") for s in segments):
                segments.append(("image", 4, 2))
            run_omni(f"{layout}_{i}", cls, layout, segments, rate, chunk=rng.choice([1, 2]))


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
    omni_cases(random.Random(8))
    run_hy_v4("hy_v4_image", [("text", 3), ("image", 1, 4, 6), ("text", 2)])
    run_hy_v4("hy_v4_tall_video", [("text", 2), ("video", 3, 10, 4), ("text", 2), ("image", 1, 2, 2), ("text", 1)])
    run_hy_v4("hy_v4_merge", [("video", 2, 3, 9), ("text", 4)], merge=3)
    run_glm_image("glm_image_from_text", 4, [], [(4, 6)])
    run_glm_image("glm_image_two_sizes", 3, [], [(2, 2), (5, 4)])
    run_glm_image("glm_image_from_image", 2, [(3, 2), (2, 4)], [(2, 2), (3, 3)])


main()
