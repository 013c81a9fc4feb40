# Ascend 310 as CANN 8.1.RC1 ships it.  Its columns are not published: those of Ascend 910 stand for them.
base common
lists ascend310
columns ascend910
# Columns of a listed type that has none there: all its floats in one of these.
otherwise f16 f32
bfloat16 none
training allow_fp32_to_fp16
summary Ascend 310 (kernels of 910 assumed)
