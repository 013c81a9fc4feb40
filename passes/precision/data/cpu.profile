# What our kernels can do: every op with float operands computes in float32, float16 and bfloat16.
lists ascend910b
map tensorflow-ascend
map halftone
columns computed
meaning manual
# Without a kernel of their own: they follow their producer in every mode but force_fp16.
moves-nothing Reshape Squeeze ExpandDims Identity Snapshot StopGradient PreventGradient EnsureShape
