#!/usr/bin/env python3
"""Decisions across calls, on random graphs with branches, loops and functions: TensorFlow runs the graphs that
`convert` writes, with nearly the results of the original graph, and dtypes agree on both sides of every call.  The
seed is printed; --seed N takes another, --only I one graph of it.

Exit code 77: nothing to test with.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

POLICIES = (('allow_mix_precision_fp16', 'ascend910'), ('allow_mix_precision_bf16', 'ascend910b'),
            ('force_fp16', 'ascend910'), ('allow_fp32_to_fp16', 'ascend910'),
            ('allow_mix_precision_bf16', 'cpu'), ('must_keep_origin_dtype', 'ascend310p'))
SIZE = 4
CALLS = {'If': ('Tin', 'Tout', 1), 'StatelessIf': ('Tin', 'Tout', 1), 'Case': ('Tin', 'Tout', 1),
         'StatelessCase': ('Tin', 'Tout', 1), 'While': ('T', 'T', 0), 'StatelessWhile': ('T', 'T', 0),
         'PartitionedCall': ('Tin', 'Tout', 0), 'StatefulPartitionedCall': ('Tin', 'Tout', 0)}


class Maker:
    """Values are 4 by 4 and stay near 1 in magnitude."""

    def __init__(self, tf, rng):
        self.tf, self.raw, self.rng = tf, tf.raw_ops, rng

    def weight(self):
        return self.tf.constant([[self.rng.uniform(-.5, .5) for _ in range(SIZE)] for _ in range(SIZE)])

    def step(self, values, depth):
        raw, rng = self.raw, self.rng
        x, y = rng.choice(values), rng.choice(values)
        kind = rng.choice(['matmul', 'matmul', 'weight', 'tanh', 'relu', 'add', 'mul', 'exp', 'log', 'softmax', 'identity']
                          + ['cond', 'loop', 'case', 'call'] * (depth < 2))
        if kind in ('cond', 'loop', 'case', 'call'):
            return getattr(self, kind)(values, depth + 1)
        return [{'matmul': lambda: raw.Tanh(x=raw.MatMul(a=x, b=y)), 'weight': lambda: raw.MatMul(a=x, b=self.weight()),
                 'tanh': lambda: raw.Tanh(x=x), 'relu': lambda: raw.Relu(features=x),
                 'add': lambda: raw.Mul(x=raw.AddV2(x=x, y=y), y=self.tf.constant(.5)), 'mul': lambda: raw.Mul(x=x, y=y),
                 'exp': lambda: raw.Exp(x=raw.Neg(x=raw.Abs(x=x))),
                 'log': lambda: raw.Log(x=raw.AddV2(x=raw.Abs(x=x), y=self.tf.constant(1.))),
                 'softmax': lambda: raw.Softmax(logits=x), 'identity': lambda: raw.Identity(input=x)}[kind]()]

    def some(self, values, count, depth):
        made = list(values)
        for _ in range(count):
            made += self.step(made, depth)
        return made

    def cond(self, values, depth):
        n = self.rng.randint(1, 2)

        def arm():
            return self.some(values, self.rng.randint(0, 4), depth)[-n:]
        pick = self.raw.Greater(x=self.tf.reduce_sum(self.rng.choice(values)), y=self.tf.constant(0.))
        n = min(n, len(values))
        return list(self.tf.cond(pick, arm, arm))

    def case(self, values, depth):
        def arm():
            return self.some(values, self.rng.randint(0, 3), depth)[-1]
        pick = self.tf.cast(self.tf.reduce_sum(self.rng.choice(values)), self.tf.int32)
        return [self.tf.switch_case(pick, [arm, arm, arm])]

    def loop(self, values, depth):
        n = self.rng.randint(1, 3)
        start = [self.rng.choice(values) for _ in range(n)]

        def body(i, *carried):
            made = self.some(list(carried) + self.rng.sample(values, 1), self.rng.randint(1, 4), depth)
            return [i + 1] + [self.raw.Tanh(x=v) if self.rng.random() < .5 else v for v in self.rng.sample(made, n)]
        out = self.tf.while_loop(lambda i, *_: i < 3, body, [self.tf.constant(0)] + start)
        return list(out[1:])

    def call(self, values, depth):
        n = self.rng.randint(1, 2)

        @self.tf.function(autograph=False)
        def f(*args):
            return self.some(list(args), self.rng.randint(1, 4), depth)[-1]
        args = [self.rng.choice(values) for _ in range(n)]
        return [f(*args)] if self.rng.random() < .7 else [f(*args), f(*[self.rng.choice(values) for _ in range(n)])]


def tool(*args):
    r = subprocess.run([environment.TOOL, *args, '--quiet'], capture_output=True, text=True, timeout=environment.HANGS)
    return f'{args[0]}: exit {r.returncode}: {r.stderr.strip()[:300]}' if r.returncode else ''


def reapplied(folder, fetch, policy, profile):
    """The report, used as a policy, gives the same bytes."""
    r = subprocess.run([environment.TOOL, 'explain', f'{folder}/g.pb', '--policy', policy, '--profile', profile, '--outputs', fetch,
                        '--format', 'json', '--quiet'], capture_output=True, timeout=environment.HANGS)
    with open(f'{folder}/r.json', 'wb') as f:
        f.write(r.stdout)
    wrong = tool('convert', f'{folder}/g.pb', '-o', f'{folder}/r.pb', '--policy', f'{folder}/r.json', '--outputs', fetch)
    if wrong:
        return wrong
    with open(f'{folder}/c.pb', 'rb') as a, open(f'{folder}/r.pb', 'rb') as b:
        return '' if a.read() == b.read() else 'the report gives another graph'


def run(tf, graph, feeds, fetch):
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default() as g:
        tf.import_graph_def(graph, name='')
        with tf.compat.v1.Session(graph=g, config=config) as s:
            return s.run([f + ':0' for f in fetch], feeds)


def edges(tf, graph):
    """(errors, edges of float16 or bfloat16) over all calls."""
    library = {f.signature.name: f.signature for f in graph.library.function}
    low = 0
    for n in list(graph.node) + [n for f in graph.library.function for n in f.node_def]:
        if n.op not in CALLS:
            continue
        ins, outs, _ = CALLS[n.op]
        ins, outs = list(n.attr[ins].list.type), list(n.attr[outs].list.type)
        low += sum(t in (tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum) for t in ins)
        for name, attr in n.attr.items():
            for f in ([attr.func.name] if attr.func.name else []) + [f.name for f in attr.list.func]:
                s = library[f]
                if [a.type for a in s.input_arg] != ins or name != 'cond' and [a.type for a in s.output_arg] != outs:
                    return f'{n.name} and {f} disagree', low
    return '', low


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=20263)
    p.add_argument('--graphs', type=int, default=60)
    p.add_argument('--only', type=int)
    p.add_argument('--keep', metavar='DIR')
    a = p.parse_args()
    environment.enter_venv(onednn=False)
    import numpy as np
    import tensorflow as tf
    tf.compat.v1.enable_control_flow_v2()
    print(f'seed {a.seed}')
    failed = low = 0
    for i in range(a.graphs) if a.only is None else [a.only]:
        rng = random.Random(a.seed * 1000 + i)
        with tf.Graph().as_default() as g:
            m = Maker(tf, rng)
            xs = [tf.compat.v1.placeholder(tf.float32, [SIZE, SIZE], name=f'x{k}') for k in range(2)]
            made = m.some(xs, rng.randint(4, 10), 0)
            fetch = [tf.identity(v, name=f'y{k}').op.name for k, v in enumerate(made[-2:])]
            graph = tf.compat.v1.graph_util.extract_sub_graph(g.as_graph_def(), fetch + ['x0', 'x1'])
        feeds = {f'x{k}:0': np.random.default_rng([a.seed, i, k]).normal(0, 1, [SIZE, SIZE]).astype(np.float32)
                 for k in range(2)}
        want = run(tf, graph, feeds, fetch)
        policy, profile = POLICIES[i % len(POLICIES)]
        with tempfile.TemporaryDirectory() as d:
            d = a.keep or d
            with open(f'{d}/g.pb', 'wb') as f:
                f.write(graph.SerializeToString())
            wrong = tool('convert', f'{d}/g.pb', '-o', f'{d}/c.pb', '--policy', policy, '--profile', profile,
                         '--outputs', ','.join(fetch))
            if not wrong:
                c = tf.compat.v1.GraphDef()
                with open(f'{d}/c.pb', 'rb') as f:
                    c.ParseFromString(f.read())
                wrong, edges_low = edges(tf, c)
                low += edges_low
                wrong = wrong or reapplied(d, ','.join(fetch), policy, profile)
        if not wrong:
            try:
                got = run(tf, c, {x: v for x, v in feeds.items() if x[:-2] in {n.name for n in c.node}}, fetch)
                errors = [float(np.abs(g - w).max()) for g, w in zip(got, want)]
                if not max(errors) < (1e-5 if policy.startswith('must') else .15):
                    wrong = f'errs by {errors}'
            except (tf.errors.OpError, ValueError) as e:
                wrong = str(e)[:500]
        if wrong:
            failed += 1
            print(f'graph {i} under {policy} on {profile}: {wrong}', flush=True)
    print(f'{low} edges of calls in low precision, {failed} failed')
    return 1 if failed or a.only is None and not low else 0


if __name__ == '__main__':
    sys.exit(main())
