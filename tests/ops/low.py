#!/usr/bin/env python3
"""16-bit results against their definition (definition.py): exact operands, the formula in float64, rounded once.

Bit for bit: casts, + - * /, square root, minimum, maximum, comparisons, selection, and ops that do not round; and every
function under mode high_precision.  Functions of one operand on all 65536 numbers: at most one step off, and only for
the operands in low.json, at most 32 of float16 and 8 of bfloat16 for each function.  Functions of two operands on all
pairs of special numbers and on random ones: at most one step off. On every target level that this machine runs.  Then
the definitions of the modes keep_fp16, enable_hi_float_32_execution and support_out_of_bound_index.

--update writes low.json anew.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, f'{HERE}/../tools']
import environment

MOST = {'f16': 32, 'bf16': 8}
LIST = f'{HERE}/low.json'
SEED = 20261121
EXACT = {'Abs', 'Neg', 'Sign', 'Reciprocal', 'Inv', 'Square', 'Sqrt', 'Floor', 'Ceil', 'Round', 'Rint',
         'Relu', 'Relu6', 'LeakyRelu', 'Add', 'AddV2', 'Sub', 'Mul', 'MulNoNan', 'Div', 'RealDiv', 'DivNoNan',
         'Minimum', 'Maximum', 'Xdivy', 'Mod', 'TruncateMod', 'FloorMod'}
# Ops on quotients whose floor or fraction depends on the last bit: any of the neighbouring numbers
# is accepted.
QUOTIENTS = {'TruncateDiv', 'FloorDiv'}
SPECIAL = {'IsNan', 'IsInf', 'IsFinite'}


def targets():
    """The levels that this machine runs: its own, and those listed before it."""
    done = subprocess.run([environment.TOOL, 'targets', '--format', 'json'], capture_output=True, text=True, check=True)
    listed = json.loads(done.stdout)['targets']
    return [t['name'] for t in listed[:[bool(t['host']) for t in listed].index(True) + 1]]


class Graphs:
    """Runs graphs of many nodes over the same operands."""

    def __init__(self, folder, target, mode=''):
        self.folder, self.target, self.mode = folder, target, mode

    def run(self, operands, nodes, inner=()):
        """operands: name → (tag, array); nodes, and inner nodes: (name, text).  Outputs by name."""
        import numpy as np
        text = ['hir 1', 'entry "" {', *(f'  input "{o}" = %{o}' for o in operands),
                *(f'  output "{n}" = %{n}' for n, _ in nodes), '}', '']
        # Definitions keep subnormals, also in intermediate results.
        command = [environment.TOOL, 'run', f'{self.folder}/g.hir', '--quiet', '--keep-subnormals', '--target', self.target,
                   '-o', f'{self.folder}/y.npz']
        for o, (tag, x) in operands.items():
            text.append(f'%{o} = Placeholder() {{dtype={tag}, shape=shape[{x.size}]}}')
            np.save(f'{self.folder}/{o}.npy', x.view(np.uint16) if tag == 'bf16' else x)
            command += ['--input', f'{o}=@{self.folder}/{o}.npy']
        text += [f'%{n} = {t}' for n, t in (*inner, *nodes)]
        with open(f'{self.folder}/g.hir', 'w') as f:
            f.write('\n'.join(text) + '\n')
        if self.mode:
            with open(f'{self.folder}/modes.ini', 'w') as f:
                f.write('[ByNodeName]\n' + ''.join(f'{n}={self.mode}\n' for n, _ in nodes))
            command += [f'--op_precision_mode={self.folder}/modes.ini']
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f'{" ".join(command)}: {done.stderr.strip()[:500]}')
        with np.load(f'{self.folder}/y.npz') as z:
            return {n: z[n] for n, _ in nodes}


class Judge:
    def __init__(self, listed):
        self.listed, self.met, self.failures, self.checks = listed, {}, [], 0

    def fail(self, where, text):
        self.failures.append(f'{where}: {text}')
        print(f'FAIL {where}: {text}', flush=True)

    def same(self, where, got, want, *operands):
        """Bit for bit; any NaN equals any NaN."""
        import numpy as np
        self.checks += 1
        differ = got.view(np.dtype(f'u{got.itemsize}')) != want.view(np.dtype(f'u{want.itemsize}'))
        if got.dtype.kind != 'b' and got.dtype.kind not in 'iu':
            with np.errstate(invalid='ignore'):
                differ &= ~((got != got) & (want != want))
        if differ.any():
            i = int(differ.argmax())
            self.fail(where, f'{differ.sum()} differ, first at {[o[i] for o in operands]}: {got[i]}, not {want[i]}')

    def near(self, where, got, want, *operands):
        """At most one step off; returns the operands for which it is off."""
        from definition import steps
        self.checks += 1
        d = steps(got, want)
        if d.max() > 1:
            i = int(d.argmax())
            self.fail(where, f'{(d > 1).sum()} are more than one number off, the worst at '
                      f'{[o[i] for o in operands]}: {got[i]}, not {want[i]}')
        return d != 0

    def function(self, where, op, tag, got, want, x):
        import numpy as np
        off = [int(b) for b in np.flatnonzero(self.near(where, got, want, x))]
        met = self.met.setdefault(tag, {}).setdefault(op, set())
        met.update(off)
        new = self.listed is not None and set(off) - {int(b, 16) for b in self.listed.get(tag, {}).get(op, [])}
        if len(met) > MOST[tag]:
            self.fail(where, f'{len(met)} results are not the nearest; {MOST[tag]} may be so')
        elif new:
            self.fail(where, f'not the nearest at {", ".join(hex(b) for b in sorted(new))}, which low.json does not list')


def typed(y, tag):
    from definition import DTYPES
    return y.view(DTYPES[tag]) if tag in DTYPES else y


def rows_of(test):
    import optable
    return {n: o for n, o in optable.rows().items() if o.test == test and {'f16', 'bf16'} & set(o.types.get('T', []))}


def unary(graphs, judge, tag, exact):
    import numpy as np
    from definition import DTYPES, UNARY, exactly, rounded
    x = np.arange(1 << 16, dtype=np.uint16).view(DTYPES[tag])
    wide = exactly(x)
    more = {'Gelu': ', approximate=false', 'LeakyRelu': ', alpha=0.2'}
    rows = set(rows_of('unary'))
    missing = rows - set(UNARY) - SPECIAL
    if missing:
        judge.fail('definition.py', f'does not define {", ".join(sorted(missing))}')
    ops = sorted(rows & set(UNARY))
    got = graphs.run({'x': (tag, x)}, [(o, f'{o}(%x) {{T={tag}{more.get(o, "")}}}') for o in ops])
    for op in ops:
        where = f'{op} {tag} {graphs.target} {graphs.mode}'
        with np.errstate(all='ignore'):
            want = rounded(UNARY[op](wide), tag)
        y = typed(got[op], tag)
        if op in EXACT or (exact and op != 'Gelu'):
            judge.same(where, y, want, x)
        elif exact:
            judge.near(where, y, want, x)
        else:
            judge.function(where, op, tag, y, want, x)


def specials(tag):
    import numpy as np
    from definition import DTYPES
    one, top = {'f16': (0x3c00, 0x7c00), 'bf16': (0x3f80, 0x7f80)}[tag]
    tiny = {'f16': 0x0400, 'bf16': 0x0080}[tag]
    bits = [0, 1, 2, tiny - 1, tiny, tiny + 1, one // 2, one - 1, one, one + 1, one + 0x80, top - 1, top, top + 1, top | 0x40 | 0x200 & top >> 4]
    bits = np.array(bits + [b | 0x8000 for b in bits], np.uint16)
    return bits.view(DTYPES[tag])


def pairs(tag):
    """All pairs of special numbers, any two numbers, and two of similar magnitude."""
    import numpy as np
    from definition import DTYPES
    r = np.random.default_rng(SEED)
    s = specials(tag)
    a, b = (r.integers(0, 1 << 16, 20000).astype(np.uint16) for _ in range(2))
    near = ((a.astype(np.int32) & 0x7fff) + r.integers(-3000, 3000, a.size)).clip(0, 0x7fff).astype(np.uint16)
    near |= (b & 0x8000)
    x = np.concatenate([np.repeat(s, len(s)), a.view(DTYPES[tag]), a.view(DTYPES[tag])])
    y = np.concatenate([np.tile(s, len(s)), b.view(DTYPES[tag]), near.view(DTYPES[tag])])
    return x, y


def binary(graphs, judge, tag):
    import numpy as np
    from definition import BINARY, COMPARE, exactly, normal, rounded, steps
    x, y = pairs(tag)
    wx, wy = exactly(x), exactly(y)
    rows = set(rows_of('binary')) | set(rows_of('compare'))
    missing = rows - set(BINARY) - set(COMPARE)
    if missing:
        judge.fail('definition.py', f'does not define {", ".join(sorted(missing))}')
    ops = sorted(rows & (set(BINARY) | set(COMPARE)))
    nodes = [(o, f'{o}(%x, %y) {{T={tag}}}') for o in ops]
    nodes += [('c', f'Less(%x, %y) {{T={tag}}}'), ('SelectV2', f'SelectV2(%c, %x, %y) {{T={tag}}}'),
              ('ClipByValue', f'ClipByValue(%x, %y, %y) {{T={tag}}}')]
    got = graphs.run({'x': (tag, x), 'y': (tag, y)}, nodes)
    judge.same(f'SelectV2 {tag} {graphs.target}', normal(typed(got['SelectV2'], tag)), normal(np.where(wx < wy, x, y)), x, y)
    for op in ops:
        where = f'{op} {tag} {graphs.target} {graphs.mode}'
        with np.errstate(all='ignore'):
            if op in COMPARE:
                judge.same(where, got[op].astype(bool), COMPARE[op](wx, wy), x, y)
                continue
            want = rounded(BINARY[op](wx, wy), tag)
            q = wx / wy
        if op in QUOTIENTS or op in ('Mod', 'FloorMod', 'TruncateMod'):
            # beyond the integers of float32 the remainder and the floor of a quotient are not
            # defined
            keep = (np.abs(q) < 2**20) & (np.abs(q) > 2**-20)
            judge.near(where, typed(got[op], tag)[keep], want[keep], x[keep], y[keep])
        elif op in EXACT:
            judge.same(where, typed(got[op], tag), want, x, y)
        else:
            judge.near(where, typed(got[op], tag), want, x, y)


def limited(graphs, judge, tag):
    """Products and quotients followed by a clamp in the same kernel: if they underflow, the sign is kept."""
    import numpy as np
    from definition import BINARY, UNARY, exactly, rounded
    x, y = pairs(tag)
    for inner in 'Mul', 'RealDiv':
        with np.errstate(all='ignore'):
            first = rounded(BINARY[inner](exactly(x), exactly(y)), tag)
        for op in 'Relu', 'Relu6':
            got = graphs.run({'x': (tag, x), 'y': (tag, y)}, [('r', f'{op}(%p) {{T={tag}}}')], [('p', f'{inner}(%x, %y) {{T={tag}}}')])
            judge.same(f'{op} of {inner} {tag} {graphs.target}', typed(got['r'], tag), rounded(UNARY[op](exactly(first)), tag), x, y)


def casts(graphs, judge, tag):
    """Casts of all 16-bit numbers to every type; casts to 16 bits of random numbers and of midpoints."""
    import ml_dtypes
    import numpy as np
    from case import DTYPES as numpy_type
    from definition import DTYPES, exactly, rounded
    x = np.arange(1 << 16, dtype=np.uint16).view(DTYPES[tag])
    wide = exactly(x)
    other = 'f16' if tag == 'bf16' else 'bf16'
    floats = [other, 'f32', 'f64']
    got = graphs.run({'x': (tag, x)}, [(t, f'Cast(%x) {{SrcT={tag}, DstT={t}, Truncate=false}}') for t in (*floats, 'i32', 'i64', 'bool')])
    for t in floats:
        with np.errstate(all='ignore'):
            want = rounded(wide, t) if t == other else wide.astype(numpy_type[t])
        judge.same(f'Cast {tag} to {t} {graphs.target}', typed(got[t], t), want, x)
    for t in 'i32', 'i64':
        limit = 2.0**(31 if t == 'i32' else 63)
        with np.errstate(all='ignore'):
            fits = np.abs(wide) < limit
            want = np.where(fits, wide, -limit).astype(numpy_type[t])
        judge.same(f'Cast {tag} to {t} {graphs.target}', got[t], want, x)
    judge.same(f'Cast {tag} to bool {graphs.target}', got['bool'].astype(bool), wide != 0, x)

    r = np.random.default_rng(SEED)
    middle = np.abs(wide[np.isfinite(wide)])
    middle = np.unique(middle)
    half = (middle[1:] + middle[:-1]) / 2
    f32 = np.concatenate([r.integers(0, 1 << 32, 100000).astype(np.uint32).view(np.float32), half.astype(np.float32),
                          np.nextafter(half.astype(np.float32), np.float32(0)), np.nextafter(half.astype(np.float32), np.float32(np.inf)),
                          np.array([np.inf, -np.inf, np.nan, 0, -0.0, 65519.996, 65520, 3.4e38, 2**-126, 2**-127], np.float32)])
    f32 = np.concatenate([f32, -f32])
    with np.errstate(all='ignore'):
        f64 = f32.astype(np.float64)
    i32 = r.integers(-2**31, 2**31, 50000).astype(np.int32) >> r.integers(0, 31, 50000)
    for t, a in ('f32', f32), ('f64', f64), ('i32', i32.astype(np.int32)), ('i64', i32.astype(np.int64) << 20):
        y = graphs.run({'x': (t, a)}, [('y', f'Cast(%x) {{SrcT={t}, DstT={tag}, Truncate=false}}')])['y']
        with np.errstate(all='ignore'):
            # integers are converted by way of float32, as in TensorFlow
            want = rounded(a.astype(np.float32).astype(np.float64), tag)
        judge.same(f'Cast {t} to {tag} {graphs.target}', typed(y, tag), want, a)


def kept(graphs, judge, tag):
    """keep_fp16: each operation within an op rounds."""
    import numpy as np
    from definition import exactly, rounded, sigmoid
    x, y = pairs(tag)
    wx, wy = exactly(x), exactly(y)
    with np.errstate(all='ignore'):
        def once(v):
            return exactly(rounded(np.asarray(v, np.float64), tag))
        gate = np.minimum(np.maximum(once(wx + 3), 0), 6)
        want = {'Softsign': wx / once(np.abs(wx) + 1), 'Silu': wx * once(sigmoid(wx)),
                'HardSwish': wx * once(gate * float(np.float32(1 / 6))),
                'SquaredDifference': once(wx - wy)**2}
        got = graphs.run({'x': (tag, x), 'y': (tag, y)}, [
            (o, f'{o}(%x{", %y" if o == "SquaredDifference" else ""}) {{T={tag}}}') for o in want])
        for op, w in want.items():
            judge.near(f'{op} {tag} {graphs.mode}', typed(got[op], tag), rounded(w, tag), x, y)
    # running sums round, too: a mean may be infinite, or stop growing
    many = np.full(40000, 3, x.dtype)
    axis = ('axis', 'Const() {dtype=i32, value=tensor i32[1] {0}}')
    for mode, most in ('', 3), (graphs.mode, None):
        mean = Graphs(graphs.folder, graphs.target, mode).run(
            {'x': (tag, many)}, [axis, ('m', f'Mean(%x, %axis) {{T={tag}, Tidx=i32, keep_dims=false}}')])['m']
        judge.checks += 1
        if (exactly(typed(mean, tag)) == 3) != (most == 3):
            judge.fail(f'Mean {tag} {mode}', f'{typed(mean, tag)} of 40000 times 3')


def hf32(graphs, judge):
    """Products of one factor each: operands are rounded to 19 bits, and the result once."""
    import numpy as np
    r = np.random.default_rng(SEED)
    a, b = (r.integers(0, 1 << 32, 256).astype(np.uint32).view(np.float32) for _ in range(2))
    a[:6] = [np.inf, -np.inf, np.nan, 0, 3.4028235e38, 1 + 2**-11]

    def short(x):
        u = x.view(np.uint32).astype(np.uint64)
        u = ((u + 0xfff + (u >> 13 & 1)) & 0xffffe000).astype(np.uint32).view(np.float32)
        return np.where(np.isfinite(x), u, x).astype(np.float64)
    column, row = ('Const() {dtype=i32, value=tensor i32[2] {256, 1}}', 'Const() {dtype=i32, value=tensor i32[2] {1, 256}}')
    got = graphs.run({'a': ('f32', a), 'b': ('f32', b)}, [
        ('c', column), ('r', row), ('ac', 'Reshape(%a, %c) {T=f32, Tshape=i32}'), ('br', 'Reshape(%b, %r) {T=f32, Tshape=i32}'),
        ('y', 'MatMul(%ac, %br) {T=f32, transpose_a=false, transpose_b=false}')])['y']
    with np.errstate(all='ignore'):
        want = (short(a)[:, None] * short(b)[None, :]).astype(np.float32)
    judge.same(f'MatMul {graphs.mode}', (got + np.float32(0)).ravel(), (want + np.float32(0)).ravel())


def out_of_range(graphs, judge):
    import numpy as np
    x, i = np.arange(1, 6, dtype=np.float32), np.array([0, 4, 5, -1, 2**31 - 1, 2], np.int32)
    got = graphs.run({'x': ('f32', x), 'i': ('i32', i)}, [
        ('a', 'Const() {dtype=i32, value=tensor i32[] {0}}'),
        ('y', 'GatherV2(%x, %i, %a) {Tparams=f32, Tindices=i32, Taxis=i32, batch_dims=0}')])['y']
    judge.same(f'GatherV2 {graphs.mode}', got, np.array([1, 5, 0, 0, 0, 3], np.float32))
    done = subprocess.run([environment.TOOL, 'run', f'{graphs.folder}/g.hir', '--quiet', '--keep-subnormals', '--outputs', 'y', '--input',
                           f'x=@{graphs.folder}/x.npy', '--input', f'i=@{graphs.folder}/i.npy'], capture_output=True, text=True)
    judge.checks += 1
    if not done.returncode or 'index' not in done.stderr:
        judge.fail('GatherV2', f'an index out of range gives {done.returncode}, {done.stderr}')


def check(judge, folder):
    host = targets()[-1]
    for tag in 'f16', 'bf16':
        kept(Graphs(folder, host, 'keep_fp16'), judge, tag)
    hf32(Graphs(folder, host, 'enable_hi_float_32_execution'), judge)
    out_of_range(Graphs(folder, host, 'support_out_of_bound_index'), judge)
    for target in targets():
        for tag in 'f16', 'bf16':
            unary(Graphs(folder, target), judge, tag, False)
            if target == host:
                unary(Graphs(folder, target, 'high_precision'), judge, tag, True)
            binary(Graphs(folder, target), judge, tag)
            limited(Graphs(folder, target), judge, tag)
            casts(Graphs(folder, target), judge, tag)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument('--update', action='store_true')
    a = p.parse_args()
    environment.enter_venv()
    with open(LIST) as f:
        judge = Judge(None if a.update else json.load(f))
    print(f'seed {SEED}, targets {", ".join(targets())}')
    with tempfile.TemporaryDirectory() as folder:
        check(judge, folder)
    if a.update:
        found = {t: {o: [f'{b:04x}' for b in sorted(m)] for o, m in sorted(ops.items()) if m} for t, ops in judge.met.items()}
        with open(LIST, 'w') as f:
            json.dump(found, f, indent=1)
            f.write('\n')
    print(f'{judge.checks} checks, {len(judge.failures)} failed')
    return 1 if judge.failures or not judge.checks else 0


if __name__ == '__main__':
    sys.exit(main())
