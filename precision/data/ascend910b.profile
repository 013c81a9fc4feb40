# Ascend 910B (Atlas A2) as CANN 8.1.RC1 ships it.
base common
lists ascend910b
columns ascend910b
# Columns of a listed type that has none there: all its floats in one of these.
otherwise f16 f32 bf16
training must_keep_origin_dtype
summary Ascend 910B, Atlas A2
