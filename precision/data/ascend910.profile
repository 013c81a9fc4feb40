# Ascend 910 as CANN 8.1.RC1 ships it: a graph gets the dtypes that the device would give it.
base common
lists ascend910
columns ascend910
# Columns of a listed type that has none there: all its floats in one of these.
otherwise f16 f32
bfloat16 none
training allow_fp32_to_fp16
summary Ascend 910
