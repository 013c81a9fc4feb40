#!/usr/bin/env python3
"""Compares inferred dtypes and shapes with TensorFlow's, for the GraphDefs of $HALFTONE_SHARED and
the frozen models of $HALFTONE_MODELS.

    tests/ir/types_of_models.py [build/tests/hir_models [MODEL.pb...]]

Every type and size that TensorFlow infers must be inferred here, with the same value.  Exit code
77: nothing to test with.
"""
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import environment  # noqa: E402

# Results of ops that are only imported, and results that depend on them: less is inferred than in
# TensorFlow.
LESS_KNOWN = {
    "convnext.pb": "results of calls, until they are inlined",
}


def ours(tool, path):
    types = {}
    for line in subprocess.check_output([tool, "-t", path], text=True).splitlines():
        name, dtype, shape = line.rsplit(" ", 2)
        dims = None if shape == "[*]" else [None if d == "?" else int(d)
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


def contradicts(mine, known):
    if mine is None or known is None:
        return False
    return len(mine) != len(known) or any(
        m != k for m, k in zip(mine, known) if m is not None and k is not None)


def knows(mine, known):
    if known is None:
        return True
    return mine is not None and all(k is None or m is not None for m, k in zip(mine, known))


def compare(tool, path):
    """The number of results, of contradictions, and of results of which less is known than in
    TensorFlow."""
    try:
        oracle = list(theirs(path))
    except ValueError as e:
        print(f"{path}: skipped, TensorFlow does not read it: {e}")
        return 0, 0, 0
    types = ours(tool, path)
    wrong = less = 0
    for name, dtype, shape in oracle:
        mine = types.get(name, ("missing", None))
        if contradicts(mine[1], shape) or mine[0] not in (dtype, "invalid"):
            print(f"{path}: {name}: {mine[0]} {mine[1]}, TensorFlow: {dtype} {shape}")
            wrong += 1
        elif not knows(mine[1], shape) or mine[0] != dtype:
            if not less and os.path.basename(path) not in LESS_KNOWN:
                print(f"{path}: {name}: {mine[0]} {mine[1]}, TensorFlow knows: {dtype} {shape}")
            less += 1
    return len(oracle), wrong, less


def main():
    tool = sys.argv[1] if len(sys.argv) > 1 else f"{environment.BUILD}/tests/hir_models"
    shared = os.path.join(environment.SHARED, "models")
    paths = sys.argv[2:] or sorted(
        glob.glob(f"{environment.MODELS}/frozen/*.pb") + glob.glob(f"{shared}/mnist/*.pb") +
        glob.glob(f"{shared}/cifar/*.pb") + glob.glob(f"{shared}/micro/one_op/*.pb") +
        glob.glob(f"{shared}/kws/*.pb"))
    if not paths:
        print(f"skipped: no GraphDefs in {environment.MODELS}/frozen and {shared}")
        sys.exit(environment.SKIPPED)
    environment.enter_venv()
    results = failures = 0
    for path in paths:
        count, wrong, less = compare(tool, path)
        allowed = os.path.basename(path) in LESS_KNOWN
        results += count
        failures += wrong + (less if not allowed else 0)
    print(f"{len(paths)} models, {results} results, {failures} wrong or less known")
    sys.exit(failures != 0 or results == 0)


if __name__ == "__main__":
    main()
