"""Gives the files beside it, or those of FOLDER, to the programs that are meant to read them: check.py [FOLDER]

knowledge_distill_files_test compares what the server writes with these files byte for byte; this script says that they are sound. It
needs the packages of requirements.txt, and fails on the first thing that is wrong.
"""

import math
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
import safetensors

FOLDER = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent


def expected(weights, metadata, m):
    """The function as the metadata states it, in numpy."""
    first, count = int(metadata["first_position"]), int(metadata["num_positions"])
    if "cosine_terms" in metadata:
        x = np.array([math.cos(math.pi * k * (m - first + 0.5) / count) for k in range(int(metadata["cosine_terms"]))])
        return weights["w1"] @ x + weights["b1"]
    silu = lambda z: z / (1 + np.exp(-z))
    x = np.array([2 * ((m - first) / (count - 1)) - 1])
    x = silu(weights["w1"] @ x + weights["b1"])
    x = silu(weights["w2"] @ x + weights["b2"])
    return weights["w3"] @ x + weights["b3"]


def check(path):
    with safetensors.safe_open(path, "np") as file:
        metadata = file.metadata()
        weights = {key: file.get_tensor(key) for key in file.keys()}
    assert all(value.dtype == np.float64 for value in weights.values()), path
    model = onnx.load(path.with_suffix(".onnx"))
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version == 8 and [(o.domain, o.version) for o in model.opset_import] == [("", 13)], path
    assert {p.key: p.value for p in model.metadata_props} == metadata, path
    session = onnxruntime.InferenceSession(path.with_suffix(".onnx").read_bytes(), providers=["CPUExecutionProvider"])
    positions = np.arange(-3, 60, dtype=np.float64)
    (rows,) = session.run(["rows"], {"positions": positions})
    outputs = weights["b3" if "b3" in weights else "b1"].shape[0]
    assert rows.shape == (len(positions), outputs) and rows.dtype == np.float64, rows.shape
    error = np.abs(rows - [expected(weights, metadata, m) for m in positions]).max()
    assert error < 1e-13, f"{path}: {error}"
    print(f"{path.stem}: {len(weights)} weights, {outputs} columns, onnxruntime within {error:.1e}")


def main():
    paths = sorted(FOLDER.glob("*.safetensors"))
    assert paths, f"{FOLDER}: no files"
    for path in paths:
        check(path)


if __name__ == "__main__":
    main()
