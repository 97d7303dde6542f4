"""Builds the skeleton of every model class of transformers without its weights.

Parameters live on the meta device; the modules that hold positions are made on the CPU, so their buffers are the library's own numbers.
"""

import functools
import importlib
import inspect
import os
import re
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TRANSFORMERS_VERBOSITY"] = "critical"

import torch
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

# Classes whose buffers are positions. A convolution over features is no table; attention classes hold weights.
POSITIONS = re.compile(
    r"Rotary|R[oO][pP][eE](?!Attention|SelfAttention|CrossAttention)|Sinus|Position(al)?(Emb|Enc)|Alibi|PosEmb|PosEnc"
)
NOT_POSITIONS = re.compile(r"Conv")
MAPPINGS = [
    getattr(modeling_auto, name) for name in dir(modeling_auto) if re.fullmatch(r"MODEL(_FOR_\w+)?_MAPPING", name)
]

_prepared_modules = set()
_patched = set()


def _make_on_cpu(cls):
    """Lets a class make its tensors on the CPU even while a model is built on the meta device."""
    if cls in _patched or "__init__" not in cls.__dict__:
        return
    _patched.add(cls)
    original = cls.__init__

    @functools.wraps(original)
    def init(self, *args, **kwargs):
        with torch.device("cpu"):
            return original(self, *args, **kwargs)

    cls.__init__ = init


def _prepare_loaded_modules():
    """Prepares the modeling files that were imported since the last call; how many there were."""
    before = len(_prepared_modules)
    for name in list(sys.modules):
        if name in _prepared_modules or not name.startswith("transformers.models.") or ".modeling_" not in name:
            continue
        _prepared_modules.add(name)
        for class_name, cls in list(vars(sys.modules[name]).items()):
            if not inspect.isclass(cls) or not issubclass(cls, torch.nn.Module) or issubclass(cls, PreTrainedModel):
                continue
            if POSITIONS.search(class_name) and not NOT_POSITIONS.search(class_name):
                _make_on_cpu(cls)
    return len(_prepared_modules) - before


def modeling_modules(config_class):
    package = config_class.__module__.rsplit(".", 1)[0]
    folder = os.path.dirname(sys.modules[config_class.__module__].__file__)
    modules = []
    for file in sorted(os.listdir(folder)):
        if file.startswith("modeling_") and file.endswith(".py"):
            try:
                modules.append(importlib.import_module(f"{package}.{file[:-3]}"))
            except Exception:  # a package that this class needs is not installed
                continue
    return modules


def model_class(config):
    """The class that the library would make of this configuration; None when there is none."""
    try:
        found = modeling_auto.MODEL_MAPPING[type(config)]
        return found[0] if isinstance(found, tuple) else found
    except Exception:
        pass
    for module in modeling_modules(type(config)):
        for name, cls in vars(module).items():
            if (
                inspect.isclass(cls)
                and issubclass(cls, PreTrainedModel)
                and cls.__module__ == module.__name__
                and getattr(cls, "config_class", None) is type(config)
                and "PreTrainedModel" not in name
            ):
                return cls
    for mapping in MAPPINGS:
        try:
            found = mapping[type(config)]
            return found[0] if isinstance(found, tuple) else found
        except Exception:
            continue
    return None


def build(config):
    """The skeleton of the model, or None when the class has no model of its own."""
    cls = model_class(config)
    if cls is None:
        return None
    modeling_modules(type(config))
    _prepare_loaded_modules()
    model = _skeleton(cls, config)
    # Parts that are chosen by their own configuration are imported on the way: once more, now that they are known.
    return _skeleton(cls, config) if _prepare_loaded_modules() else model


def _skeleton(cls, config):
    with torch.device("meta"):
        try:
            return cls._from_config(config)
        except AttributeError as error:
            if "_from_config" not in str(error):
                raise
            return cls(config)


def sub_configs(config, path=""):
    """Every configuration inside, with its path: ("", config), ("vision_config", …), ("thinker_config.text_config", …)."""
    found = [(path, config)]
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig) and not name.startswith("_"):
            found += sub_configs(value, f"{path}.{name}" if path else name)
    return found


def loose_rotary_modules(config):
    """Where a whole model cannot be built from class defaults: its rotary classes alone, by the configuration that they ask for."""
    made, reasons = [], []
    for path, part in sub_configs(config):
        for module in modeling_modules(type(part)):
            for name, cls in vars(module).items():
                if not inspect.isclass(cls) or not issubclass(cls, torch.nn.Module) or cls.__module__ != module.__name__:
                    continue
                if not re.search(r"Rotary|RopePosition", name) or re.search(r"Attention|Layer", name):
                    continue
                asked = inspect.signature(cls.__init__).parameters.get("config")
                if asked is None or type(part).__name__ not in str(asked.annotation):
                    continue
                try:
                    made.append((path, name, cls(part)))
                except Exception as error:
                    reasons.append(f"{name}: {type(error).__name__}: {error}"[:200])
    return made, reasons


# Parts that no class of the mapping builds by themselves, or only with a package that is not installed: the classes of the
# library that are made from their configuration, by folder. A wrapper's part is given to the class with its wrapper.
SAM = {"sam": "Sam", "sam_hq": "SamHQ", "sam2": "Sam2", "sam2_video": "Sam2Video", "sam3_tracker": "Sam3Tracker"}
SAM |= {"sam3_tracker_video": "Sam3TrackerVideo", "edgetam": "EdgeTam", "edgetam_video": "EdgeTamVideo"}
LOOSE = {
    "layoutlmv2": ("layoutlmv2", ["LayoutLMv2Embeddings", "LayoutLMv2Encoder"]),
    "layoutxlm": ("layoutlmv2", ["LayoutLMv2Embeddings", "LayoutLMv2Encoder"]),
    "dinat": ("dinat", ["DinatEncoder"]),
    "gemma4_unified_vision": ("gemma4_unified", ["Gemma4UnifiedVisionEmbedder"]),
    "vibevoice_diffusion": ("vibevoice", ["VibeVoiceDiffusionHead"]),
}
LOOSE |= {f"{folder}_mask_decoder": (folder, [f"{stem}MaskDecoder"]) for folder, stem in SAM.items()}
LOOSE |= {f"{folder}_prompt_encoder": (folder, [f"{stem}PromptEncoder"]) for folder, stem in SAM.items()}
WHOLES = {"sam_prompt_encoder": "sam", "sam_hq_prompt_encoder": "sam_hq"}


def loose_parts(model_type, config):
    """The modules of LOOSE for this configuration, in one; None where there are none."""
    if model_type not in LOOSE:
        return None
    folder, names = LOOSE[model_type]
    home = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    _prepare_loaded_modules()
    if model_type in WHOLES:
        config = CONFIG_MAPPING[WHOLES[model_type]]()
    arguments = [config]
    if model_type == "gemma4_unified_vision":
        arguments.append(CONFIG_MAPPING["gemma4_unified_text"]())
    with torch.device("meta"):
        return torch.nn.ModuleDict({name: getattr(home, name)(*arguments) for name in names})
