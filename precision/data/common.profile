# What all profiles share.
map tensorflow-ascend
map halftone
# Without a kernel of their own: they follow their producer in every mode but force_fp16.
moves-nothing Reshape Squeeze ExpandDims Identity Snapshot StopGradient PreventGradient EnsureShape
# Matrix products and convolutions: allow_fp32_to_fp16 prefers float16 for them, cube_fp16in_fp32out gives
# them float16 operands and float32 results.
cube MatMul MatMulV2 BatchMatMul BatchMatMulV2 Conv2D Conv2DBackpropFilter Conv2DBackpropFilterD
cube Conv2DBackpropInput Conv2DBackpropInputD Conv2DTranspose Conv2DTransposeD DepthwiseConv2D
cube DepthwiseConv2DBackpropFilter DepthwiseConv2DBackpropFilterD DepthwiseConv2DBackpropInput
cube DepthwiseConv2DBackpropInputD Conv2DCompress FullyConnection GEMM Conv3D Conv3DBackpropInput
cube Conv3DBackpropInputD Conv3DTranspose Conv3DTransposeD Conv3DBackpropFilter Conv3DBackpropFilterD
cube Deconvolution
# Operands whose types have to agree when nothing else decides; a number is an operand.
promote Mul:0,1 Pow:0,1 AxpyV2:0,1,2 Less:0,1
# A Cast of the graph keeps what it was written to do; random numbers are drawn in the type that was
# asked for.
keeps Cast.SrcT Cast.DstT
keeps StatelessRandomUniform.dtype StatelessRandomNormal.dtype StatelessTruncatedNormal.dtype
keeps StatelessRandomUniformV2.dtype StatelessRandomNormalV2.dtype StatelessTruncatedNormalV2.dtype
keeps StatelessRandomGammaV2.dtype StatelessRandomGammaV3.dtype
# Statistics of batch norm stay float32.
keeps FusedBatchNormV2.U FusedBatchNormV3.U _FusedBatchNormEx.U
keeps FusedBatchNormGradV2.U FusedBatchNormGradV3.U
