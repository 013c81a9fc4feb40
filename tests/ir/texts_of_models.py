#!/usr/bin/env python3
"""Every model, also each training graph, passes the verifier, gets types, and is read back from its
.hir text as the same graph.

    tests/ir/texts_of_models.py [build/tests/hir_models [MODEL...]]

Exit code 77: nothing to test with.
"""
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import environment  # noqa: E402

REFUSED = {
    "micro/grappler/function_error.pbtxt": "cycle",  # a node depends on itself
    "micro/grappler/while_loop_var_handle_op.pbtxt": "must be int32",  # compares resources
}


def models():
    shared = os.path.join(environment.SHARED, "models")
    for ext in "pb", "pbtxt", "meta":
        yield from glob.glob(f"{shared}/**/*.{ext}", recursive=True)
    yield from glob.glob(f"{environment.MODELS}/frozen/*.pb")
    yield from glob.glob(f"{environment.MODELS}/*/model.json")
    for path in glob.glob(f"{environment.MODELS}/human-models/*.json"):
        if '"modelTopology"' in open(path, encoding="utf-8", errors="replace").read(100000):
            yield path


def main():
    tool = sys.argv[1] if len(sys.argv) > 1 else f"{environment.BUILD}/tests/hir_models"
    paths = sys.argv[2:] or sorted(models())
    if not paths:
        print(f"skipped: no models in {environment.SHARED}/models and {environment.MODELS}")
        sys.exit(environment.SKIPPED)
    failures = 0
    for path in paths:
        done = subprocess.run([tool, path], capture_output=True, text=True, errors="replace")
        says = next((says for tail, says in REFUSED.items() if path.endswith(tail)), None)
        if says is None and done.returncode == 0:
            continue
        if says is not None and done.returncode == 1 and says in done.stdout:
            continue
        print(f"{path}: exit code {done.returncode}\n{done.stdout[:2000]}{done.stderr[:2000]}")
        failures += 1
    print(f"{len(paths)} models, {failures} failed")
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
