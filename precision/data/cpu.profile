# What our kernels can do: every op with float operands computes in float32, float16 and bfloat16.
base common
lists ascend910b
columns computed
meaning manual
training must_keep_origin_dtype
summary what the kernels here can do
