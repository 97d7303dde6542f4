"""A model of one RotaryEmbedding node, bound to the arrays of a rotation."""

import numpy as np


def session(onnx, onnxruntime, rotation, domain, interleaved):
    """domain "com.microsoft", or "" for the operator of opset 23. Returns the call and what reads its result."""
    tokens, heads, head_dim = rotation.shape
    kind = onnx.TensorProto.FLOAT if rotation.dtype == "f32" else onnx.TensorProto.BFLOAT16
    inputs = ["x", "ids", "cos", "sin"] if domain else ["x", "cos", "sin", "ids"]
    helper = onnx.helper
    node = helper.make_node("RotaryEmbedding", inputs, ["y"], domain=domain, interleaved=interleaved, num_heads=heads)
    shapes = {"x": (kind, [1, tokens, heads * head_dim]), "ids": (onnx.TensorProto.INT64, [1, tokens]),
              "cos": (kind, [tokens, head_dim // 2]), "sin": (kind, [tokens, head_dim // 2])}
    graph = helper.make_graph([node], "rotation", [helper.make_tensor_value_info(name, *shapes[name]) for name in inputs],
                              [helper.make_tensor_value_info("y", *shapes["x"])])
    opsets = [helper.make_opsetid("", 23)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=11).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = rotation.setting.threads
    options.log_severity_level = 4
    loaded = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    value = onnxruntime.OrtValue.ortvalue_from_numpy
    arrays = {"x": rotation.source.reshape(1, tokens, -1), "ids": np.arange(tokens, dtype=np.int64)[None], "cos": rotation.cos,
              "sin": rotation.sin}
    values = {name: value(arrays[name]) for name in inputs}
    result = value(rotation.y.reshape(1, tokens, -1))  # in a buffer, like everybody's
    binding = loaded.io_binding()
    for name in inputs:
        binding.bind_ortvalue_input(name, values[name])
    binding.bind_ortvalue_output("y", result)

    def call(held=(arrays, values)):
        loaded.run_with_iobinding(binding)

    return call, result.numpy
