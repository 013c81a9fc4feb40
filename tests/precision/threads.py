#!/usr/bin/env python3
"""Results have the same bits for every number of threads: in every type and implementation mode, for a graph whose
kernels have many tiles each."""
import itertools
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools']
import environment

GRAPH = '''hir 1
entry "" {{
  input "x" = %x
  input "w" = %w
  output "soft" = %soft
  output "sum" = %sum
  output "mean" = %mean
  output "gelu" = %gelu
}}

%x = Placeholder() {{dtype=f32, shape=shape[1,32,32,64]}}
%w = Placeholder() {{dtype=f32, shape=shape[1024,96]}}
%xt = Cast(%x) {{SrcT=f32, DstT={t}, Truncate=false}}
%wt = Cast(%w) {{SrcT=f32, DstT={t}, Truncate=false}}
%f = Const() {{dtype={t}, value=tensor {t}[3,3,64,64] {{{filter}}}}}
%conv = Conv2D(%xt, %f) {{T={t}, strides=[1,1,1,1], padding="SAME", dilations=[1,1,1,1]}}
%rows = Const() {{dtype=i32, value=tensor i32[2] {{64, 1024}}}}
%m = Reshape(%conv, %rows) {{T={t}, Tshape=i32}}
%y = MatMul(%m, %wt) {{T={t}, transpose_a=false, transpose_b=false}}
%soft = Softmax(%y) {{T={t}}}
%gelu = Gelu(%y) {{T={t}, approximate=false}}
%zero = Const() {{dtype=i32, value=tensor i32[1] {{0}}}}
%one = Const() {{dtype=i32, value=tensor i32[1] {{1}}}}
%sum = Sum(%m, %zero) {{T={t}, Tidx=i32, keep_dims=false}}
%mean = Mean(%m, %one) {{T={t}, Tidx=i32, keep_dims=false}}
'''
FILTER = ', '.join(str((i * 7919 % 1009 - 504) / 8192) for i in range(3 * 3 * 64 * 64))
NODES = 'conv', 'y', 'soft', 'gelu', 'sum', 'mean'
MODES = ('', 'high_precision', 'high_performance', 'super_performance', 'keep_fp16',
         'enable_float_32_execution', 'enable_hi_float_32_execution')
THREADS = 1, 2, 5


def run(folder, mode, threads, *more):
    command = [environment.TOOL, 'run', f'{folder}/g.hir', '--quiet', '--threads', str(threads), '--input', 'x=random(1,-1,1)',
               '--input', 'w=random(2,-1,1)', '-o', f'{folder}/y.npz', '--format', 'json', *more]
    if mode:
        command.append(f'--op_precision_mode={folder}/{mode}.ini')
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f'{" ".join(command)}: {done.stderr.strip()[:400]}')
    import numpy as np
    with np.load(f'{folder}/y.npz') as z:
        return {n: z[n].tobytes() for n in z.files if not n.endswith('.json')}, json.loads(done.stdout)


def main():
    environment.enter_venv()
    wrong, results = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for mode in MODES[1:]:
            with open(f'{folder}/{mode}.ini', 'w') as f:
                f.write('[ByNodeName]\n' + ''.join(f'{n}={mode}\n' for n in NODES))
        for t, mode in itertools.product(('f32', 'bf16', 'f16'), MODES):
            with open(f'{folder}/g.hir', 'w') as f:
                f.write(GRAPH.format(t=t, filter=FILTER))
            results[t, mode] = run(folder, mode, 1)[0]
            wrong += [f'{t} {mode}: {threads} threads give other bits' for threads in THREADS[1:]
                      if run(folder, mode, threads)[0] != results[t, mode]]
        for setting in '0', '1':
            bits, report = run(folder, '', 2, f'--deterministic={setting}')
            if bits != results['f16', '']:
                wrong.append(f'deterministic={setting}: {report["without_effect"]}')
    for t in 'f32', 'bf16', 'f16':
        kinds = len({tuple(sorted(results[t, m].items())) for m in MODES})
        if kinds < 4:  # otherwise the modes had no effect, and this test would check only one kernel
            wrong.append(f'{t}: only {kinds} different results in {len(MODES)} modes')
    print(*wrong, sep='\n')
    print(f'{len(results)} graphs, {len(wrong)} wrong')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
