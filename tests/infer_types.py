#!/usr/bin/env python3
"""Compares inferred dtypes and shapes with TensorFlow's, for GraphDef files.

    tests/infer_types.py build/tests/hir_models MODEL.pb...

What both know must be equal, and what TensorFlow knows we must know.
"""
import os
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"


def ours(tool, path):
    types = {}
    for line in subprocess.check_output([tool, "-t", path], text=True).splitlines():
        name, dtype, shape = line.rsplit(" ", 2)
        dims = None if shape == "[*]" else [None if d in "?" else int(d)
                                            for d in shape[1:-1].split(",") if d]
        types[name] = dtype, dims
    return types


def theirs(path):
    import tensorflow as tf

    graph_def = tf.compat.v1.GraphDef()
    with open(path, "rb") as f:
        graph_def.ParseFromString(f.read())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    for op in graph.get_operations():
        for tensor in op.outputs:
            shape = tensor.shape.as_list() if tensor.shape.rank is not None else None
            yield tensor.name, tensor.dtype.base_dtype.name, shape


def fits(mine, known):
    """Equal where TensorFlow knows, and no less known."""
    if known is None:
        return True
    return mine is not None and len(mine) == len(known) and all(
        k is None or m == k for m, k in zip(mine, known))


def main():
    bad = checked = more = 0
    for path in sys.argv[2:]:
        types = ours(sys.argv[1], path)
        try:
            oracle = list(theirs(path))
        except ValueError as e:
            print(f"{path}: skipped, TensorFlow does not read it: {e}")
            continue
        for name, dtype, shape in oracle:
            mine = types.get(name, ("missing", None))
            checked += 1
            more += mine[1] != shape
            if mine[0] != dtype or not fits(mine[1], shape):
                print(f"{path}: {name}: {mine[0]} {mine[1]}, TensorFlow: {dtype} {shape}")
                bad += 1
    print(f"{checked} results checked, {bad} wrong or less known, {more - bad} better known")
    return bad != 0 or checked == 0


if __name__ == "__main__":
    sys.exit(main())
