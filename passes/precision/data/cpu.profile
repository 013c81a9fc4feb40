# What our kernels can do: every op with float operands computes in float32, float16 and bfloat16.
lists ascend910b
map tensorflow-ascend
map halftone
columns computed
meaning manual
# Without a kernel of their own: they follow their producer in every mode but force_fp16.
moves-nothing Reshape Squeeze ExpandDims Identity Snapshot StopGradient PreventGradient EnsureShape
# Statistics stay float32; a Cast of the graph keeps what it was written to do; random numbers are drawn
# in the type that was asked for.
keeps FusedBatchNormV2.U FusedBatchNormV3.U _FusedBatchNormEx.U
keeps FusedBatchNormGradV2.U FusedBatchNormGradV3.U
keeps Cast.SrcT Cast.DstT
keeps StatelessRandomUniform.dtype StatelessRandomNormal.dtype
