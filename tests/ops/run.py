#!/usr/bin/env python3
"""Compares every op of ir/ops.def with live TensorFlow, through graphs of many independent instances.

TEST is a name of the table's `test` column, or a group of them.  The seed is fixed and printed; --seed takes another.
--coverage checks that each row that is lowered has cases in each of its dtypes, and runs nothing.
"""
import argparse
import importlib
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, f'{HERE}/../tools']
import environment

FLOOR = 'must_keep_origin_dtype'
OF_NO_ROW = {'subnormal', 'flush'}  # tests that no row names
PER_GRAPH = 40
# Group, a test of ctest → module → tests.  The function of the cases has the name of the test, or
# the name after the colon.
GROUPS = {
    'elementwise': {'elementwise': 'unary prelu binary compare logical bitwise cast bias_add select clip add_n fake_quant '
                                   'subnormal:subnormals flush:flushes'},
    'reductions': {'reductions': 'reduce arg_reduce cumsum top_k matmul einsum softmax batch_norm layer_norm rms_norm lrn'},
    'images': {'images': 'conv2d depthwise conv2d_transpose pool resize', 'crops': 'crop', 'volumes': 'volumes'},
    'layouts': {'layouts': 'layout concat pack split slice:slice_ strided_slice pad tile gather reverse space fill '
                           'range:range_ one_hot shape sparse_to_dense'},
    'training': {'gradients': 'gradient pool_gradient conv2d_filter gradient_axes stitch training',
                 'scatters': 'scatter segment strided_slice_gradient resize_gradient lrn_gradient in_top_k candidates bins'},
    'others': {'draws': 'random:random_numbers stateless', 'diagonals': 'diagonals', 'detection': 'combined_boxes', 'graphs': 'graph:cases'},
}
# Ops that lack a kernel in some of their types: the tool must say so, with exit code 4.
REFUSED = {
    'Range': ['f16', 'bf16'],
    # between types of unequal size, and of 16 bits
    'Bitcast': ['f16', 'bf16', 'f32', 'i16', 'u16'],
}
# Quantized convolutions, and types for which TensorFlow has no kernel.
NOT_COMPUTED = {('LowerBound', 'bool'), ('MirrorPadGrad', 'bool'), ('UpperBound', 'bool'), ('StatelessRandomUniformIntV2', 'u32'), ('StatelessRandomUniformIntV2', 'u64'), ('_FusedConv2D', 'i8'), ('ArgMax', 'i16'), ('ArgMax', 'u16'),
                *(('Einsum', t) for t in ('i8', 'i16', 'u8', 'u16', 'u32', 'u64', 'bool'))}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument('tests', nargs='*', metavar='TEST')
    p.add_argument('--op', help='only this op')
    p.add_argument('--seed', type=int, default=20261)
    p.add_argument('--mode', default='', help='implementation mode of every op')
    p.add_argument('--list', action='store_true', help='print the groups of tests and end')
    p.add_argument('--coverage', action='store_true')
    p.add_argument('--keep', metavar='DIR', help='keep the graphs of failed cases there')
    p.add_argument('-v', '--verbose', action='store_true', help='name cases without an oracle')
    return p.parse_args()


def tests():
    """Test name → generator of cases from random numbers and rows."""
    return {test: getattr(importlib.import_module(module), function or test)
            for modules in GROUPS.values() for module, names in modules.items()
            for test, _, function in (name.partition(':') for name in names.split())}


def asked_for(names, known):
    """The named tests or groups of tests; without a name all."""
    of_group = {group: [n.partition(':')[0] for text in modules.values() for n in text.split()]
                for group, modules in GROUPS.items()}
    unknown = [n for n in names if n not in known and n not in of_group]
    if unknown:
        sys.exit(f'no test or group {", ".join(unknown)}; the groups are {", ".join(of_group)}')
    return [t for n in names for t in of_group.get(n, [n])] or list(known)


def cases_of(test, generator, table, seed):
    import zlib
    import numpy as np
    rows = [o for o in table.values() if o.test == test]
    r = np.random.default_rng([seed, zlib.crc32(test.encode())])
    return environment.share(generator(r, rows), seed) if rows or test in OF_NO_ROW else []


# ---- the tool ----

class ToolFailed(Exception):
    def __init__(self, code, text):
        super().__init__(f'exit {code}: {text}')
        self.code = code


MODE = ''
MORE = []  # options of the tool


def run_graph(proto, feeds, outputs, keep=None):
    """Outputs by name."""
    import numpy as np
    with tempfile.TemporaryDirectory() as d:
        with open(f'{d}/g.pb', 'wb') as f:
            f.write(proto.SerializeToString())
        np.savez(f'{d}/x.npz', **{k: plain(v) for k, v in feeds.items()})
        if keep:
            os.makedirs(keep, exist_ok=True)
            for f in 'g.pb', 'x.npz':
                with open(f'{d}/{f}', 'rb') as a, open(f'{keep}/{f}', 'wb') as b:
                    b.write(a.read())
        command = [environment.TOOL, 'run', f'{d}/g.pb', '-o', f'{d}/y.npz', '--policy', FLOOR,
                   '--outputs', ','.join(outputs)]
        command += MORE
        if MODE:
            with open(f'{d}/modes.ini', 'w') as f:
                f.write('[ByNodeName]\n' + ''.join(f'{n.split(":")[0]}={MODE}\n' for n in outputs))
            command += [f'--op_precision_mode={d}/modes.ini']
        for k in feeds:
            command += ['--input', f'{k}=@{d}/x.npz#{k}']
        done = subprocess.run(command, capture_output=True, text=True, errors='replace')
        if done.returncode:
            lines = [l for l in done.stderr.replace(d, '').splitlines() if l.strip()]
            raise ToolFailed(done.returncode, ' | '.join(lines[:4])[:400])
        with np.load(f'{d}/y.npz') as z:
            return {n: z[n] for n in z.files}


def plain(a):
    """In a form that NumPy can store: bfloat16 as its 16 bits."""
    import ml_dtypes
    import numpy as np
    return a.view(np.uint16) if a.dtype == ml_dtypes.bfloat16 else a


# ---- judging ----

class Score:
    def __init__(self):
        self.passed = self.failed = self.refused = 0
        self.without = []

    def result(self, case, wrong):
        if wrong:
            self.failed += 1
            print(f'FAIL {case.describe()}: {wrong}', flush=True)
        else:
            self.passed += 1


def prepare(cases, table, score):
    """(case, expected outputs) of the cases that have an oracle; expected failures are returned separately."""
    from case import NoKernel, Refused, expected
    ready, refusals = [], []
    for c in cases:
        try:
            want = expected(c, table[c.op])
        except NoKernel:
            score.without.append(c)
            continue
        except Refused as e:
            if not c.fails:
                print(f'note: TensorFlow refuses {c.describe()}: {e}')
                score.without.append(c)
                continue
            refusals.append(c)
            continue
        if c.fails:
            score.result(c, 'TensorFlow does not refuse it')
        else:
            ready.append((c, want))
    return ready, refusals


def judge(case, want, outputs, index):
    from case import difference
    got = [outputs.get(f'c{index}:{k}' if k else f'c{index}') for k in case.outputs]
    if any(g is None for g in got):
        return f'outputs are {sorted(outputs)}'
    if case.check:
        return case.check([as_float(g, case) for g in got])
    for k, g in zip(case.outputs, got):
        wrong = difference(g, want[k], case)
        if wrong:
            return (f'result {k}: ' if len(got) > 1 else '') + wrong
    return None


def as_float(a, case):
    """Outputs without an oracle: 16-bit numbers of a bfloat16 op are bfloat16."""
    import ml_dtypes
    import numpy as np
    return a.view(ml_dtypes.bfloat16) if a.dtype == np.uint16 and case.attrs.get(
        'dtype') == 'bf16' else a


def run_pack(pack, table, score, keep):
    """Runs one graph; if the tool refuses it, runs each case in a graph of its own."""
    from case import Graph
    graph = Graph([c for c, _ in pack], table)
    try:
        outputs = run_graph(graph.proto, graph.feeds, graph.output_names())
    except ToolFailed as e:
        if len(pack) == 1:
            if keep:
                c = pack[0][0]
                try:
                    run_graph(graph.proto, graph.feeds, graph.output_names(),
                              f'{keep}/{c.op}-{score.failed}')
                except ToolFailed:
                    pass
            refused = e.code == 4 and pack[0][0].tag() in REFUSED.get(pack[0][0].op, [])
            score.refused += refused
            if not refused:
                score.result(pack[0][0], str(e))
            return
        half = len(pack) // 2
        run_pack(pack[:half], table, score, keep)
        run_pack(pack[half:], table, score, keep)
        return
    for i, (case, want) in enumerate(pack):
        score.result(case, judge(case, want, outputs, i))


def run_refusals(refusals, table, score):
    from case import Graph
    for c in refusals:
        graph = Graph([c], table)
        try:
            run_graph(graph.proto, graph.feeds, graph.output_names())
            score.result(c, 'the tool gives a result where TensorFlow refuses')
        except ToolFailed as e:
            score.result(c, str(e) if e.code < 0 or e.code >= 70 else None)


def run_test(test, cases, table, keep, verbose):
    score = Score()
    MORE[:] = ['--keep-subnormals'] if test == 'subnormal' else []
    for c in cases if MODE else ():
        c.ulps = max(c.ulps, 2)  # TensorFlow rounds these more often
    ready, refusals = prepare(cases, table, score)
    for start in range(0, len(ready), PER_GRAPH):
        run_pack(ready[start:start + PER_GRAPH], table, score, keep)
    run_refusals(refusals, table, score)
    if verbose:
        for c in score.without:
            print(f'no oracle: {c.describe()}')
    print(f'{test}: {score.passed} passed, {score.failed} failed'
          + (f', {score.refused} refused' if score.refused else '')
          + (f', {len(score.without)} without a TensorFlow kernel' if score.without else ''),
          flush=True)
    return score


# ---- coverage ----

def coverage(known, table, seed):
    """Each row that is lowered has a test, and cases in every dtype of its first result.

    A row that names a test of another folder, such as frontend.loops, is covered there; here the test only has to
    exist."""
    import optable
    from case import Type, type_attrs
    wrong, have = [], {}
    for test, generator in known.items():
        for c in cases_of(test, generator, table, seed):
            have.setdefault((c.op, test), set()).update(
                (k, str(v)) for k, v in type_attrs(c, table[c.op]).items() if isinstance(v, Type))
            have[c.op, test].add(('any', c.dtype()))
    for op in table.values():
        folder, _, name = op.test.rpartition('.')
        if folder and os.path.exists(os.path.join(optable.ROOT, 'tests', folder, f'{name}.py')):
            continue
        if op.test not in known:
            wrong.append(f'{op.name} names test "{op.test}", which does not exist')
            continue
        covered = have.get((op.name, op.test), set())
        attr = op.results[0].type if op.results else ''
        if attr not in {a for a, _ in covered}:
            attr = 'any' if attr in ('dtype', 'T') else attr
        missing = [t for t in op.types.get(op.results[0].type if op.results else '', [])
                   if (attr, t) not in covered]
        if op.lower == 'shape' or any(r.list for r in op.results) or op.name == 'Print':
            missing = []  # made from the operands' shapes, or with several types at once
        missing = [t for t in missing if (op.name, t) not in NOT_COMPUTED]
        if not covered or missing:
            wrong.append(f'{op.name} has no case in test "{op.test}"'
                         + (f' with {", ".join(missing)}' if covered else ''))
    print(*wrong, sep='\n')
    print(f'{len(table)} lowered ops, {len(wrong)} not covered')
    return 1 if wrong else 0


def main():
    a = arguments()
    if a.list:
        print(*GROUPS, sep='\n')
        return 0
    environment.enter_venv(onednn=False)
    import optable
    known, table = tests(), optable.rows()
    if a.coverage:
        return coverage(known, table, a.seed)
    chosen = asked_for(a.tests, known)
    global MODE
    MODE = a.mode
    print(f'seed {a.seed}')
    passed = failed = 0
    for test in chosen:
        cases = [c for c in cases_of(test, known[test], table, a.seed)
                 if a.op in (None, c.op) and c.op in table]
        if not cases:
            continue
        score = run_test(test, cases, table, a.keep, a.verbose)
        passed, failed = passed + score.passed, failed + score.failed
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0


if __name__ == '__main__':
    sys.exit(main())
