"""ONNX Runtime with a model of two layers, made here: `onnx_run.py RUNS`. Batches vary."""

import sys

import common

RUNS = int(sys.argv[1])
try:
    import numpy
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    common.skip("onnx_run", "ONNX Runtime and onnx are not both installed (%s)" % error)
if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
    common.skip("onnx_run", "this ONNX Runtime is built without CUDA")
common.await_turn()

random = numpy.random.default_rng(1)
weights = [numpy_helper.from_array(random.standard_normal((256, 256)).astype(numpy.float32) / 16, name) for name in ("first", "second")]
graph = helper.make_graph(
    [helper.make_node("MatMul", ["in", "first"], ["a"]), helper.make_node("Relu", ["a"], ["b"]),
     helper.make_node("MatMul", ["b", "second"], ["out"])],
    "layers", [helper.make_tensor_value_info("in", TensorProto.FLOAT, ["batch", 256])],
    [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["batch", 256])], weights)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CUDAExecutionProvider"])
if session.get_providers()[0] != "CUDAExecutionProvider":
    common.skip("onnx_run", "ONNX Runtime finds no device")
clock = common.Clock()
total = 0.0
for number in range(RUNS):
    if number == 3:
        clock.begin()
    batch = numpy.full((64 * (1 + number % 7), 256), number / 32, dtype=numpy.float32)
    total += float(session.run(None, {"in": batch})[0].sum())
clock.begin()
clock.report()
common.fact("result: total", total)
common.fact("version", onnxruntime.__version__)
common.finish("onnx_run")
