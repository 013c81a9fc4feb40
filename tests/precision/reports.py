#!/usr/bin/env python3
"""Decision reports: every policy's report fits the schema, has every floating-point type attribute, and used as a
policy gives the same graph byte for byte, the same decisions and the same numbers; for another graph it is refused
with a place.  On real models, training graphs and random graphs.

Exit code 77: nothing to test with.
"""
import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'tools'), os.path.join(HERE, 'graphs'), os.path.join(HERE, 'grappler')]
import environment  # noqa: E402

SCHEMA = os.path.join(environment.ROOT, 'docs', 'decisions.schema.json')
CUSTOM = ('OpType::MatMul:InputDtype:float16,float16,OutputDtype:float32\n'
          'OpType::Relu:InputDtype:float16,OutputDtype:float16\n')
SWITCH = '{"Switch": {"GraphFusion": {"ALL": "off"}}}'
MIX = '{"black-list": {"to-add": ["Relu", "Tanh"]}, "white-list": {"to-add": ["Softmax"]}}'
POLICIES = (
    ('allow_mix_precision_bf16',),
    ('allow_mix_precision_fp16', '--modify_mixlist', 'mix.json'),
    ('allow_mix_precision', '--profile', 'ascend910', '--customize_dtypes', 'custom.txt'),
    ('force_fp16', '--profile', 'ascend910b'),
    ('allow_fp32_to_fp16', '--profile', 'ascend310p'),
    ('cube_fp16in_fp32out', '--fusion_switch_file', 'switch.json'),
    ('force_fp16', '--oo_level=O1', '--enable_scope_fusion_passes=ScopeLayerNormPass'),
    ('must_keep_origin_dtype',),
    ('optimal', '--target', 'x86-64-v4+bf16'),
    ('allow_mix_precision_fp16', '--op_select_implmode', 'high_performance_for_all'),
    ('onnx-fp16',),
    ('pytorch-autocast-bf16',),
    ('grappler-fp16',),
    ('grappler-bf16', '--inferlist-remove=Tanh', '--denylist-add=Tanh'),
    ('grappler-fp16-cpu',),
)
# Models, each with a third of the policies, under sanitizers with a tenth, with HALFTONE_LONG with
# all.
FROZEN = ('bert.pb', 'efficientnetb0.pb', 'mobilenetv2.pb')
SHARED = ('kws/Basic_LSTM_S.pb', 'mnist/lstm_rows.pb', 'lm/word_lm.meta', 'train/rnn_dynamic_backprop.meta',
          'resnet/resnet18_train.meta', 'bert/bert_L3_train.meta', 'mnist/mnist_conv_model')
RUN = ('kws/Basic_LSTM_S.pb', 'mnist/lstm_rows.pb', 'mnist/mnist_conv_model')


class Failed(Exception):
    pass


def tool(*args, may_fail=False):
    r = subprocess.run([environment.TOOL, *args, '--quiet'], capture_output=True, timeout=300)
    if r.returncode and not may_fail:
        raise Failed(f'{" ".join(args)}: ended with {r.returncode}: {r.stderr.decode()[:400]}')
    return r


def read(path):
    with open(path, 'rb') as f:
        return f.read()


def decisions(text):
    """The decisions of a report, without its reasons and prices: a machine without a table of costs may be measured by each
    process, and then prices differ."""
    told = json.loads(text)
    casts = [{k: v for k, v in c.items() if k != 'price_ps'} for c in told['casts']]
    return ([(n['node'], [(u['attribute'], u['to'], u.get('operands'), u.get('emulated')) for u in n['units']],
              n['tensors'], n.get('kernel_operands'), n.get('kernel_results')) for n in told['nodes']], casts)


class Tests:
    def __init__(self, work):
        self.work = work
        self.reports, self.applied, self.refused, self.ran = [], 0, 0, 0
        for name, text in ('custom.txt', CUSTOM), ('mix.json', MIX), ('switch.json', SWITCH):
            with open(self.path(name), 'w') as f:
                f.write(text)

    def path(self, name):
        return os.path.join(self.work, name)

    def options(self, policy):
        return ['--policy', *(self.path(o) if o in ('custom.txt', 'mix.json', 'switch.json') else o for o in policy)]

    def report(self, model, policy, *more):
        """The path of a report; None: the policy does not decide on this graph."""
        r = tool('explain', model, *self.options(policy), *more, '--format', 'json', may_fail=True)
        if r.returncode in (3, 4):
            self.refused += 1
            return None
        if r.returncode:
            raise Failed(f'{model} {policy}: ended with {r.returncode}: {r.stderr.decode()[:400]}')
        path = self.path(f'{len(self.reports)}.json')
        with open(path, 'wb') as f:
            f.write(r.stdout)
        self.reports.append(path)
        return path

    def check(self, model, policy, *more, run=False):
        report = self.report(model, policy, *more)
        if not report:
            return None
        a, b = self.path('a.pb'), self.path('b.pb')
        target = [o for i, o in enumerate(policy) if o == '--target' or (i and policy[i - 1] == '--target')]
        tool('convert', model, *self.options(policy), *more, '-o', a)
        tool('convert', model, '--policy', report, *target, *more, '-o', b)
        if read(a) != read(b):
            raise Failed(f'{model} {policy}: the report gives another graph')
        again = tool('explain', model, '--policy', report, *target, *more, '--format', 'json').stdout
        if decisions(read(report)) != decisions(again):
            raise Failed(f'{model} {policy}: the report gives other decisions')
        if run:
            first = tool('run', model, *self.options(policy), *more, '-o', self.path('a.npz'), may_fail=True)
            second = tool('run', model, '--policy', report, *target, *more, '-o', self.path('b.npz'), may_fail=True)
            if first.returncode != second.returncode or (not first.returncode and read(self.path('a.npz')) != read(self.path('b.npz'))):
                raise Failed(f'{model} {policy}: the report gives other numbers')
            self.ran += not first.returncode
        self.applied += 1
        return report

    def validate(self):
        if self.reports:
            subprocess.run([sys.executable, os.path.join(HERE, 'validate.py'), SCHEMA, *self.reports], check=True)

    def refuses(self, model, report, *more):
        """With another graph: an error that names the file, with a line or a node."""
        r = tool('convert', model, '--policy', report, *more, '-o', self.path('x.pb'), may_fail=True)
        text = r.stderr.decode()
        if r.returncode != 3 or not re.search(re.escape(report) + r'(:\d+)?: error: ', text):
            raise Failed(f'{model} takes {report}: {r.returncode}: {text[:300]}')


def float_attributes(tf, graph_def):
    """(node, attribute) of every floating-point type attribute in TensorFlow's op definitions."""
    from tensorflow.python.framework import op_def_registry
    floats = {int(t.as_datatype_enum) for t in (tf.float16, tf.bfloat16, tf.float32, tf.float64)}
    for n in graph_def.node:
        op_def = op_def_registry.get(n.op)
        for a in op_def.attr if op_def else ():
            v = n.attr[a.name] if a.name in n.attr else None
            if a.type == 'type' and v is not None and v.type in floats:
                yield n.name, a.name
            if a.type == 'list(type)' and v is not None:
                yield from ((n.name, f'{a.name}[{i}]') for i, t in enumerate(v.list.type) if t in floats)


def check_complete(tf, t, model):
    """A painting is decided on the graph as imported, so the report must have all of it."""
    graph_def = tf.compat.v1.GraphDef()
    graph_def.ParseFromString(read(model))
    told = json.loads(read(t.report(model, ('grappler-fp16',))))
    units = {(n['node'], u['attribute']) for n in told['nodes'] for u in n['units']}
    missing = sorted(set(float_attributes(tf, graph_def)) - units)
    if missing:
        raise Failed(f'{model}: the report leaves out {missing[:5]}')
    return len(units)


def random_graphs(tf, a, t):
    import numpy as np
    import generate
    import graphs
    path = t.path('random.pb')
    for i in range(a.graphs):
        r = np.random.default_rng([a.seed, i])
        graph_def, _, fetch = generate.graph(tf, r, 20)
        yield from one_random(t, path, graph_def, fetch, random.Random(f'{a.seed} {i}'))
        rng = random.Random(f'{a.seed} {i}')
        graph_def, fetch = graphs.random_graph(rng)
        yield from one_random(t, path, graph_def, fetch, rng)


def one_random(t, path, graph_def, fetch, rng):
    with open(path, 'wb') as f:
        f.write(graph_def.SerializeToString())
    for policy in rng.sample(POLICIES, 4):
        yield t.check(path, policy, '--outputs', ','.join(fetch))


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=20264)
    p.add_argument('--graphs', type=int, default=3 if environment.SANITIZED else 12)
    a = p.parse_args()
    models = [os.path.join(environment.MODELS, 'frozen', n) for n in FROZEN]
    models += [os.path.join(environment.SHARED, 'models', n) for n in SHARED]
    models = [m for m in models if os.path.exists(m)]
    if not models:
        print(f'skipped: there is nothing in {environment.MODELS}/frozen and {environment.SHARED}/models')
        sys.exit(environment.SKIPPED)
    environment.enter_venv()
    import tensorflow as tf
    print(f'seed {a.seed}')
    with tempfile.TemporaryDirectory() as work:
        t = Tests(work)
        try:
            share = 1 if environment.LONG else 20 if environment.SANITIZED else 3
            last = {}
            for i, model in enumerate(models):
                run = any(model.endswith(n) for n in RUN)
                for policy in POLICIES[i % share::share]:
                    report = t.check(model, policy, run=run)
                    if report and policy in last:
                        t.refuses(model, last[policy])
                    if report:
                        last[policy] = report
            units = sum(check_complete(tf, t, m) for m in models if m.endswith('.pb'))
            found = list(random_graphs(tf, a, t))
            t.validate()
        except (Failed, subprocess.CalledProcessError) as e:
            print(e)
            sys.exit(1)
        print(f'{t.applied} reports applied, {t.ran} of them run, {len(found)} of random graphs, {t.refused} refused by the policy, '
              f'{units} float type attributes of TensorFlow told of')
        to_run = [m for m in models if m.endswith(RUN)]
        sys.exit(not t.applied or bool(to_run and not t.ran) or t.refused * 2 > t.applied)


if __name__ == '__main__':
    main()
