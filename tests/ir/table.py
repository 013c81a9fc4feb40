#!/usr/bin/env python3
"""Compares each row of ir/ops.def with TensorFlow's own definition of the op.

    tests/ir/table.py [build/tests/dump_ops]

A row whose meaning ends in (TF.js) or (Halftone) is an op of Halftone's, one that ends in (vendor) an op of the vendor's.  Every other row must be an op of
TensorFlow, with the same arguments, results, type attributes, allowed types and defaults.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import environment  # noqa: E402

OURS = {"Prelu", "FusedDepthwiseConv2dNative", "Gelu", "Silu", "HardSwish", "HardSigmoid", "LayerNorm", "RmsNorm",
        "_Padded", "_Relaid", "_Sizes", "_Within", "_FloatStatus", "_AllFinite", "_Rounded", "_RoundedBlock", "_CTCBeams", "_EditDistance"}
VENDORS = {"NpuAllocFloatStatus", "NpuGetFloatStatus", "NpuClearFloatStatus"}
EVERY = set(range(1, 64))


def formal(arg, op):
    number_default = -1
    for attr in op.attr:
        if attr.name == arg.number_attr and attr.HasField("default_value"):
            number_default = attr.default_value.i
    ours = {"name": arg.name, "number": arg.number_attr, "number_default": number_default, "list": int(bool(arg.type_list_attr)),
            "ref": int(arg.is_ref)}
    if arg.type_list_attr or arg.type_attr:
        ours["attr"] = arg.type_list_attr or arg.type_attr
    else:
        ours["type"] = arg.type
    return ours


def types(op):
    listed = {a.type_list_attr for a in list(op.input_arg) + list(op.output_arg)}
    for attr in op.attr:
        if attr.type == "type" or (attr.type == "list(type)" and attr.name in listed):
            allowed = set(attr.allowed_values.list.type) if attr.HasField("allowed_values") else EVERY
            default = attr.default_value.type if attr.type == "type" else 0
            yield attr.name, default, allowed


def differences(row, op):
    for key, args in (("args", op.input_arg), ("results", op.output_arg)):
        theirs = [formal(a, op) for a in args]
        if row[key] != theirs:
            yield f"{key}: {row[key]}, TensorFlow: {theirs}"
    ours = {t["name"]: (t["default"], set(t["allowed"])) for t in row["types"]}
    theirs = {name: (default, allowed) for name, default, allowed in types(op)}
    if list(ours) != list(theirs):
        yield f"type attributes {list(ours)}, TensorFlow: {list(theirs)}"
        return
    for name, (default, allowed) in theirs.items():
        mine = ours[name][1]
        if allowed is EVERY:
            if mine < set(range(1, 33)):
                yield f"{name}: {sorted(mine)}, TensorFlow: any"
        elif mine != allowed:
            yield f"{name}: {sorted(mine)}, TensorFlow: {sorted(allowed)}"
        if ours[name][0] != default:
            yield f"{name}: default {ours[name][0]}, TensorFlow: {default}"


def main():
    tool = sys.argv[1] if len(sys.argv) > 1 else f"{environment.BUILD}/tests/dump_ops"
    environment.enter_venv()
    from tensorflow.python.framework import op_def_registry

    rows = [json.loads(line) for line in subprocess.check_output(tool, text=True).splitlines()]
    bad = checked = 0
    for row in rows:
        if row["name"] in OURS or row["name"] in VENDORS:
            continue
        op = op_def_registry.get(row["name"])
        checked += 1
        for problem in differences(row, op) if op else ["TensorFlow has no such op"]:
            print(f"{row['name']}: {problem}")
            bad += 1
    print(f"{checked} rows checked, {bad} differences")
    return bad != 0 or checked < 400


if __name__ == "__main__":
    sys.exit(main())
