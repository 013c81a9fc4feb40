#!/usr/bin/env python3
"""run --numerics against counts by NumPy: on random graphs whose tensors contain every case, and on a real model.

The outputs must equal those without counting and without fusion, so that each op rounds: for random graphs bit for bit;
for the model, whose sums may be in another order, within a few roundings.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../ops', f'{HERE}/../tools']
import environment

SEED, GRAPHS, NODES, SIZE = 20261121, 6, 40, 1000
COUNTS = 'overflow', 'underflow', 'subnormal', 'sentinel', 'infinite', 'nan'
MODEL = 'mobilenetv2'
OPS = {'Add': lambda a, b: a + b, 'Sub': lambda a, b: a - b, 'Mul': lambda a, b: a * b,
       'RealDiv': lambda a, b: a / b, 'Minimum': None, 'Square': lambda a, b: a * a, 'Neg': lambda a, b: -a}


def counts(before, tag):
    """The counts for float32 numbers that are rounded to the type."""
    import numpy as np
    from definition import exactly, rounded
    x = before.astype(np.float64)
    y = exactly(rounded(x, tag))
    tiny, lowest = (2.0**-14, -65504.0) if tag == 'f16' else (2.0**-126, -3.3895313892515355e38)
    left = np.full(x.shape, True)
    result = {}

    def take(name, which):
        result[name] = int((left & which).sum())
        np.logical_and(left, ~which, out=left)
    take('nan', np.isnan(x))
    take('infinite', np.isinf(x))
    about = (x >= -1e9 * (1 + 2**-8)) & (x <= -1e9 * (1 - 2**-8))
    take('sentinel', about | (x <= -3.3895313892515355e38) | (x == lowest))
    take('overflow', np.isinf(y))
    take('underflow', (x != 0) & (y == 0))
    take('subnormal', (y != 0) & (np.abs(y) < tiny))
    return result


def operands(r, tag):
    """Numbers of every magnitude, and masks."""
    import numpy as np
    from definition import DTYPES
    x = r.normal(size=SIZE) * 10.0**r.integers(-9 if tag == 'f16' else -40, 6 if tag == 'f16' else 39, SIZE)
    x[:8] = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2**-14]
    with np.errstate(all='ignore'):
        return x.astype(np.float32).astype(DTYPES[tag])


def tool(*args):
    done = subprocess.run([environment.TOOL, *args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f'{" ".join(args)}: {done.stderr.strip()[:500]}')
    return done.stdout


def outputs_of(path):
    import numpy as np
    with np.load(path) as z:
        return {n: z[n] for n in z.files if not n.endswith('.json')}


def same_bits(a, b):
    return a.keys() == b.keys() and all(a[n].tobytes() == b[n].tobytes() for n in a)


def random_graph(r, tag):
    """The graph as text, and for each node its op and operands."""
    import numpy as np
    names, nodes = ['x', 'y', 'c'], {}
    for i in range(NODES):
        op = list(OPS)[r.integers(len(OPS))]
        args = [names[r.integers(len(names))] for _ in range(1 if op in ('Square', 'Neg') else 2)]
        nodes[f'n{i}'] = op, args
        names.append(f'n{i}')
    text = ['hir 1', 'entry "" {', '  input "x" = %x', '  input "y" = %y', '  input "m" = %m',
            *(f'  output "{n}" = %{n}' for n in ['c', *nodes]), '}', '',
            *(f'%{n} = Placeholder() {{dtype={tag}, shape=shape[{SIZE}]}}' for n in 'xy'),
            f'%m = Placeholder() {{dtype=f32, shape=shape[{SIZE}]}}',
            f'%c = Cast(%m) {{SrcT=f32, DstT={tag}, Truncate=false}}']
    text += [f'%{n} = {op}({", ".join("%" + a for a in args)}) {{T={tag}}}' for n, (op, args) in nodes.items()]
    return '\n'.join(text) + '\n', nodes


def expected(feeds, nodes, tag):
    import numpy as np
    from definition import BINARY, exactly, rounded
    value = {n: exactly(feeds[n]) for n in 'xy'}
    value['c'] = exactly(rounded(feeds['m'].astype(np.float64), tag))
    want = {'c': counts(feeds['m'], tag)}
    for n, (op, args) in nodes.items():
        a, b = value[args[0]], value[args[-1]]
        with np.errstate(all='ignore'):
            f = OPS[op] or BINARY[op]
            before = f(a.astype(np.float32), b.astype(np.float32)).astype(np.float32)
        want[n] = counts(before, tag)
        value[n] = exactly(rounded(before.astype(np.float64), tag))
    return want


def check_random(folder, number, tag):
    import numpy as np
    r = np.random.default_rng([SEED, number])
    text, nodes = random_graph(r, tag)
    with open(f'{folder}/g.hir', 'w') as f:
        f.write(text)
    mask = np.where(r.integers(0, 3, SIZE) == 0, r.choice([-1e9, -1.0001e9, -3.4028235e38, -65504, -3.3e38, 7e4, -1e5], SIZE), r.normal(size=SIZE))
    feeds = {'x': operands(r, tag), 'y': operands(r, tag), 'm': mask.astype(np.float32)}
    # NumPy, with which the counts are compared, keeps subnormals.
    args = ['run', f'{folder}/g.hir', '--quiet', '--keep-subnormals']
    for n, a in feeds.items():
        np.save(f'{folder}/{n}.npy', a.view(np.uint16) if tag == 'bf16' and n != 'm' else a)
        args += ['--input', f'{n}=@{folder}/{n}.npy']
    report = json.loads(tool(*args, '--numerics', '--format', 'json', '-o', f'{folder}/a.npz'))
    tool(*args, '-o', f'{folder}/b.npz')
    wrong = [] if same_bits(outputs_of(f'{folder}/a.npz'), outputs_of(f'{folder}/b.npz')) else [f'graph {number}: other outputs']
    want, got = expected(feeds, nodes, tag), {e['tensor']: e for e in report['numerics']}
    if len(got) != len(report['numerics']) or not set(got) <= set(want):
        wrong.append(f'graph {number}: tensors {sorted(got)}')
    met = dict.fromkeys(COUNTS, 0)
    for n, e in got.items():
        for k in COUNTS:
            met[k] += e[k]
        if any(e[k] != want[n][k] for k in COUNTS):
            wrong.append(f'graph {number} {tag}, {n} = {nodes.get(n, "Cast of m")}: { {k: e[k] for k in COUNTS} }, not {want[n]}')
    return len(got), met, wrong


def check_model(folder, policy):
    """Tensors that are the model's outputs can be counted by NumPy."""
    import numpy as np
    path = f'{environment.MODELS}/frozen/{MODEL}.pb'
    args = ['run', path, '--quiet', '--policy', policy, '--oo-level', 'O1', '--seed', '5']
    report = json.loads(tool(*args, '--numerics', '--format', 'json', '-o', f'{folder}/a.npz'))
    tool(*args, '-o', f'{folder}/b.npz')
    wrong = []
    plain = outputs_of(f'{folder}/b.npz')
    for n, a in outputs_of(f'{folder}/a.npz').items():
        if np.abs(a - plain[n]).max() > 2**-9 * np.abs(plain[n]).max():
            wrong.append(f'{MODEL}: output {n} is {np.abs(a - plain[n]).max()} off')
    picked = [e for e in report['numerics'] if e['tensor'].endswith(('Relu6', 'Relu'))][::5]
    if len(report['numerics']) < 20 or not picked:
        return [f'{MODEL}: {len(report["numerics"])} tensors, {len(picked)} to look at']
    names = [e['tensor'] for e in picked]
    tool(*args, '--outputs', ','.join(names), '-o', f'{folder}/c.npz')
    values = outputs_of(f'{folder}/c.npz')
    for e in picked:
        y = values[e['tensor']]
        # sums in another order may cross the boundary
        subnormal = int(((y != 0) & (np.abs(y.astype(np.float32)) < 2.0**-14)).sum())
        if abs(e['subnormal'] - subnormal) > 2 or (e['elements'], e['nan'], e['infinite'] + e['overflow']) != (
                y.size, int(np.isnan(y).sum()), int(np.isinf(y).sum())):
            wrong.append(f'{MODEL}, {e}: {subnormal} subnormal of {y.size}')
    print(f'{MODEL} {policy}: {len(report["numerics"])} tensors, {len(picked)} counted outside, '
          f'{sum(e["subnormal"] for e in picked)} subnormal there')
    return wrong


def main():
    environment.enter_venv()
    wrong, tensors, met = [], 0, dict.fromkeys(COUNTS, 0)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(GRAPHS):
            for tag in 'f16', 'bf16':
                n, seen, bad = check_random(folder, number, tag)
                tensors, wrong = tensors + n, wrong + bad
                met = {k: met[k] + seen[k] for k in COUNTS}
        if os.path.exists(f'{environment.MODELS}/frozen/{MODEL}.pb'):
            wrong += check_model(folder, 'force_fp16')
    wrong += [f'no tensor met {k}' for k in COUNTS if not met[k]]
    print(*wrong, sep='\n')
    print(f'{tensors} tensors of random graphs, seed {SEED}, {met}; {len(wrong)} wrong')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
