#!/usr/bin/env python3
"""Writes a small .gguf file for each model family, with the pinned gguf package, from the configurations of ../models.

    python3 -m venv VENV && VENV/bin/pip install -r requirements.txt && VENV/bin/python make.py

Each file holds the metadata about positions that llama.cpp's converter (conversion/*.py, as in llama-cpp-python 0.3.36) writes
for such a config.json, and the tensors that decide positions; no weights. expected.json says what a reader must answer beside
what the config.json says: pairing of the file's weights, layer types of the file, and how far float32 lets numbers differ.
architectures.json lists every architecture of the package.
"""

import json
import math
import pathlib

import gguf
import numpy

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent / "models"
INTERLEAVED, HALF_SPLIT = "interleaved", "half_split"
# Relative error of a number that was rounded to float32, and of one made from two such numbers.
EXACT, ONE_ROUNDING, TWO_ROUNDINGS = 1e-14, 6e-8, 1.2e-7


def text_part(config):
    return config.get("text_config", config)


def first(config, *keys, default=None):
    return next((config[key] for key in keys if config.get(key) is not None), default)


def rope_dict(config):
    """The rope dict of the layers with full attention."""
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    return rope.get("full_attention", rope)


class File:
    """A .gguf file in the making, with the keys that every converter writes."""

    def __init__(self, name, architecture, **sizes):
        self.name = name
        self.config = text_part(json.loads((MODELS / f"{name}.json").read_text())["config"])
        self.sizes = sizes
        self.writer = gguf.GGUFWriter(HERE / f"{name}.gguf", architecture)
        self.tensors = {}
        self.expected = {"pairing": HALF_SPLIT, "relative": EXACT}
        self.writer.add_name(name)
        config = self.config
        length = first(config, "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", default=sizes.get("length"))
        self.writer.add_context_length(length)
        self.width = first(config, "hidden_size", "n_embd", "d_model")
        self.layers = first(config, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
        self.heads = first(config, "num_attention_heads", "n_head", "num_heads", "n_heads", default=sizes.get("heads"))
        self.writer.add_embedding_length(self.width)
        self.writer.add_block_count(self.layers)
        self.writer.add_head_count(self.heads)
        if (kv_heads := first(config, "num_key_value_heads", "multi_query_group_num", default=sizes.get("kv_heads"))) is not None:
            self.writer.add_head_count_kv(kv_heads)
        if (head_dim := config.get("head_dim", sizes.get("head_dim"))) is not None:
            self.writer.add_key_length(head_dim)
            self.writer.add_value_length(head_dim)

    def base(self, default=None):
        if (base := first(self.config, "rope_theta", "rotary_emb_base", default=rope_dict(self.config).get("rope_theta", default))) is not None:
            self.writer.add_rope_freq_base(base)
        return self

    def head_dim(self):
        return self.config.get("head_dim", self.sizes.get("head_dim")) or self.width // self.heads

    def rotary(self, width=None):
        self.writer.add_rope_dimension_count(width or self.head_dim())
        return self

    def scaling(self):
        """rope.scaling.* of the common part of the converter."""
        rope = rope_dict(self.config)
        kind = rope.get("rope_type", rope.get("type"))
        if kind == "linear":
            self.writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
            self.writer.add_rope_scaling_factor(rope["factor"])
        elif kind == "yarn":
            self.writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
            self.writer.add_rope_scaling_factor(rope["factor"])
            self.writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
            if "beta_fast" in rope:
                self.writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
                self.writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
        elif kind == "longrope":
            self.writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
        elif kind == "llama3":
            self.tensors["rope_freqs.weight"] = self.llama3_factors(rope)
            self.expect(relative=ONE_ROUNDING)
        if "mrope_section" in rope:
            self.writer.add_rope_dimension_sections((rope["mrope_section"] + [0, 0, 0, 0])[:4])
            self.expect(sections=rope["mrope_section"], interleaved=rope.get("mrope_interleaved", False))
        return self

    def llama3_factors(self, rope):
        """Divisors of the frequencies; the formula of the converter."""
        width, base = self.head_dim(), self.config["rope_theta"]
        low, high, original = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
        factors = []
        for pair in range(width // 2):
            wavelength = 2 * math.pi * base ** (2 * pair / width)
            if wavelength < original / high:
                factors.append(1)
            elif wavelength > original / low:
                factors.append(rope["factor"])
            else:
                smooth = (original / wavelength - low) / (high - low)
                factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
        return factors

    def window(self, key="sliding_window", listed=False):
        if (size := self.config.get(key)) is not None:
            self.writer.add_sliding_window(size)
        if listed:
            self.writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in self.config["layer_types"]])
        return self

    def add(self, method, *values):
        getattr(self.writer, method)(*values)
        return self

    def tensor(self, name, values):
        self.tensors[name] = values
        return self

    def expect(self, **what):
        self.expected.update(what)
        return self

    def write(self):
        for name, values in self.tensors.items():
            self.writer.add_tensor(name, numpy.asarray(values, dtype=numpy.float32))
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()
        return self.name, self.expected


def llama(name, architecture="llama"):
    """Converters of these turn the rows of q and k."""
    return File(name, architecture).base().rotary().scaling().expect(pairing=INTERLEAVED, reordered=True)


def phi3(name):
    file = File(name, "phi3").base(10000).rotary()
    config = file.config
    original, longest = config["original_max_position_embeddings"], config["max_position_embeddings"]
    file.writer.add_rope_scaling_orig_ctx_len(original)
    file.writer.add_sliding_window(config.get("sliding_window") or 0)
    file.writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(longest / original) / math.log(original)))
    for tensor, key in (("rope_factors_long.weight", "long_factor"), ("rope_factors_short.weight", "short_factor")):
        file.tensor(tensor, config["rope_scaling"][key])
    return file.expect(relative=ONE_ROUNDING)


def minicpm3(name):
    file = File(name, "minicpm3").scaling()
    config = file.config
    file.writer.add_key_length(config["qk_nope_head_dim"] + config["qk_rope_head_dim"])
    file.rotary(config["qk_rope_head_dim"])
    for tensor, key in (("rope_factors_long.weight", "long_factor"), ("rope_factors_short.weight", "short_factor")):
        file.tensor(tensor, config["rope_scaling"][key])
    return file.expect(relative=ONE_ROUNDING)


def deepseek2(name):
    file = File(name, "deepseek2").base().scaling()
    config = file.config
    file.writer.add_head_count_kv(1)
    file.writer.add_kv_lora_rank(config["kv_lora_rank"])
    file.writer.add_key_length(config["kv_lora_rank"] + config["qk_rope_head_dim"])
    file.writer.add_key_length_mla(config["qk_nope_head_dim"] + config["qk_rope_head_dim"])
    file.rotary(config["qk_rope_head_dim"])
    file.writer.add_rope_scaling_yarn_log_mul(0.1 * config["rope_scaling"]["mscale_all_dim"])
    return file.expect(pairing=INTERLEAVED, relative=TWO_ROUNDINGS, kv_heads=1)


def gemma4(name):
    file = File(name, "gemma4").base().window(listed=True)
    config = file.config
    rope = config["rope_parameters"]
    whole, local = config["global_head_dim"], config["head_dim"]
    file.writer.add_key_length(whole)
    file.writer.add_value_length(whole)
    file.writer.add_key_length_swa(local)
    file.writer.add_value_length_swa(local)
    file.writer.add_rope_dimension_count(whole)
    file.writer.add_rope_dimension_count_swa(local)
    file.writer.add_rope_freq_base_swa(rope["sliding_attention"]["rope_theta"])
    live = int(whole * rope["full_attention"]["partial_rotary_factor"] / 2)
    return file.tensor("rope_freqs.weight", [1.0] * live + [1e30] * (whole // 2 - live))


def files():
    kinds = gguf.RopeScalingType
    yield llama("llama-2-7b").add("add_tokenizer_model", "llama").add("add_token_list", [b"<unk>", b"<s>", b"</s>"]).add(
        "add_token_scores", [0.0, -1.0, -2.0])
    for name in ("codellama-7b", "yi-6b-chat", "mistral-7b-instruct-v0-2", "llama-3-1-8b", "llama-3-2-1b", "vicuna-7b-v1-5-16k",
                 "deepseek-coder-6-7b"):
        yield llama(name)
    yield llama("granite-3-3-8b", "granite").add("add_attention_scale", 0.0078125)
    yield llama("olmo-7b-hf", "olmo")
    yield llama("smollm3-3b", "smollm3")
    # The converter leaves dynamic scaling out.
    yield llama("internlm2-chat-1-8b", "internlm2").expect(schedule="default", at_length=32768)
    yield File("baichuan2-7b-chat", "baichuan", kv_heads=32).base().rotary().expect(pairing=INTERLEAVED, reordered=True)
    yield File("command-r-v01", "command-r").base().add("add_rope_scaling_type", kinds.NONE).expect(pairing=INTERLEAVED)
    chatglm = File("chatglm3-6b", "chatglm")
    yield chatglm.add("add_rope_freq_base", 10000 * chatglm.config.get("rope_ratio", 1)).rotary(64).expect(pairing=INTERLEAVED)
    gptj = File("gpt-j-6b", "gptj")
    yield gptj.rotary(gptj.config["rotary_dim"]).expect(pairing=INTERLEAVED)
    yield deepseek2("deepseek-v2-lite")
    yield minicpm3("minicpm3-4b")
    yield phi3("phi-3-mini-128k-instruct")

    yield File("falcon-7b", "falcon", length=2048, kv_heads=1)
    yield File("phi-2", "phi2").rotary(32)
    pythia = File("pythia-6-9b", "gptneox")
    yield pythia.rotary(int(pythia.config["rotary_pct"] * pythia.head_dim()))
    yield File("stablelm-3b-4e1t", "stablelm").base().rotary(20)
    yield File("minimax-m2-5", "minimax-m2").base().rotary(64)
    # The converter leaves the change of the base for long sequences out.
    yield File("qwen-7b-chat", "qwen").base().rotary(128).expect(schedule="default", at_length=8192)
    for name, architecture in (("qwen2-7b-instruct", "qwen2"), ("qwen2-5-7b-instruct-1m", "qwen2"), ("qwen2-5-7b-instruct-yarn", "qwen2"),
                               ("qwen3-4b", "qwen3")):
        yield File(name, architecture).base().scaling()
    for name, architecture in (("qwen2-vl-2b-instruct", "qwen2vl"), ("qwen3-vl-4b-instruct", "qwen3vl")):
        yield File(name, architecture).base().scaling()
    yield File("qwen3-5-0-8b", "qwen35").base().scaling().rotary(64).add("add_full_attention_interval", 4)
    yield File("gpt-oss-20b", "gpt-oss").base().scaling().window()
    yield File("exaone-4-0-1-2b", "exaone4").base().scaling().window()
    modern = File("modernbert-base", "modern-bert")
    yield (modern.add("add_rope_freq_base", modern.config["global_rope_theta"])
           .add("add_rope_freq_base_swa", modern.config["local_rope_theta"]).window("local_attention")
           .add("add_sliding_window_pattern", modern.config["global_attn_every_n_layers"])
           .add("add_causal_attention", False).add("add_rope_scaling_type", kinds.NONE))
    yield File("gemma-2-9b", "gemma2").base().window()
    yield (File("gemma-3-4b-it", "gemma3", length=131072, heads=8, kv_heads=4, head_dim=256).base(1e6).scaling().window())
    yield (File("gemma-3n-e4b-it", "gemma3n").base().add("add_rope_freq_base_swa", 10000.0).window(listed=True))
    yield gemma4("gemma-4-e2b")

    yield File("bloom", "bloom")
    mpt = File("mpt-7b", "mpt")
    yield mpt.add("add_max_alibi_bias", mpt.config["attn_config"]["alibi_bias_max"])
    yield File("gpt2", "gpt2")
    yield File("bert-base-uncased", "bert").add("add_causal_attention", False)
    for name in ("t5-small", "umt5-small"):
        file = File(name, "t5", length=512)
        yield (file.add("add_key_length", file.config["d_kv"])
               .add("add_relative_attn_buckets_count", file.config["relative_attention_num_buckets"]))
    yield Tower("qwen2-vl-2b-instruct", "qwen2vl_merger")


class Tower:
    """The image tower of a model, in a file of its own, with the keys that llama.cpp's converter writes for it."""

    def __init__(self, model, projector):
        self.name = f"{model}-mmproj"
        vision = json.loads((MODELS / f"{model}.json").read_text())["config"]["vision_config"]
        self.writer = gguf.GGUFWriter(HERE / f"{self.name}.gguf", "clip")
        self.writer.add_bool("clip.has_vision_encoder", True)
        self.writer.add_string("clip.projector_type", projector)
        self.writer.add_vision_embedding_length(first(vision, "embed_dim", "hidden_size"))
        self.writer.add_vision_head_count(first(vision, "num_heads", "num_attention_heads"))
        self.writer.add_vision_block_count(first(vision, "depth", "num_hidden_layers"))
        self.writer.add_vision_patch_size(vision.get("patch_size", 14))
        self.writer.add_vision_image_size(560)
        self.expected = {"model": model, "part": "vision", "pairing": HALF_SPLIT, "relative": EXACT}

    def write(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_ti_data_to_file()
        self.writer.close()
        return self.name, self.expected


def main():
    expected = {}
    for file in files():
        name, expected[name] = file.write()
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")
    (HERE / "architectures.json").write_text(json.dumps(sorted(gguf.MODEL_ARCH_NAMES.values()), indent=1) + "\n")


if __name__ == "__main__":
    main()
