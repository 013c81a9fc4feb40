#!/usr/bin/env python3
"""TensorFlow loads and runs the graphs that `halftone convert` writes for the models of table.py, under each policy and
without one, and the outputs agree with the oracle's: within the row's tolerance if no node became low, else within a
bound for low precision.

TensorFlow runs a model whose first dimension is open at the batches 1, 2 and 7 from one file, and each row of a batch
has the result that it has alone.  Without NAME: a representative part, or with HALFTONE_LONG=1 every model under every
policy.
"""
import argparse
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment
from run import Failed, absent, asked, model_path, tool
from table import MODELS

# Prelu, fused ops of TF.js and of Grappler, shapes that the graph computes, variables, a feed in the
# middle of the graph, a default that is fed.
PART = ['blazeface-front', 'antispoof', 'basic-pitch', 'simple_mnist', 'lstm_rows', 'kws_ref_model',
        'mnist_conv', 'mobilenetv2']
PART_POLICIES = ['', 'must_keep_origin_dtype', 'allow_mix_precision_bf16', 'force_fp16',
                 'grappler-fp16', 'keras-fp16', 'optimal']
# Models that are also written as TF.js graph models, which TensorFlow.js runs: from TF.js models,
# GraphDefs, SavedModels.
TFJS = ['blazeface-front', 'antispoof', 'simple_mnist', 'lstm_rows', 'kws_ref_model', 'mnist_conv', 'cifar_saved']
BATCHES = 1, 2, 7
LOW_ERROR = .5  # root mean square, relative to the largest value; tests/models/run.py measures errors closely
# Bounds for the difference of a row alone and in a batch, which TensorFlow may sum in another
# order: in float32, and in low types.
OPEN_ERRORS = 1e-3, .1


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument('names', nargs='*', metavar='NAME')
    p.add_argument('--policies', help='comma-separated; an empty one is none')
    return p.parse_args()


def all_policies():
    """The policies that `halftone policies` lists, without second names."""
    lines = tool('policies').splitlines()
    return [''] + [line.split()[0] for line in lines if 'same as' not in line]


def convert(row, path, policy, out):
    tool('convert', path, *(['--policy', policy] if policy else []), *asked(row), '-o', out, '-q')


class Graph:
    """A written graph in two sessions: one computes by the types' own kernels, if TensorFlow has them for processors;
    the other computes low-precision ops in float32 between Casts, which is how each op should round."""

    def __init__(self, path):
        import oracle
        tf = oracle.tensorflow()
        graph_def = oracle.read_graphdef(path)
        low = {tf.as_dtype(t).as_datatype_enum for t in oracle.LOW}
        nodes = [*graph_def.node, *(n for f in graph_def.library.function for n in f.node_def)]
        for n in nodes:
            n.device = ''
        self.low = any(a.type in low for n in nodes for a in n.attr.values())
        self.graph = self.load(tf, graph_def)  # the graph as it is written
        graphs = [self.graph]
        if self.low:
            graphs = [self.load(tf, self.widened(graph_def, keep))
                      for keep in (oracle.has_kernel, lambda node: False)]
        self.sessions = [oracle.literal_session(tf, g) for g in graphs]

    def __enter__(self):
        return self

    def __exit__(self, *why):
        for s in self.sessions:
            s.close()

    @staticmethod
    def widened(graph_def, keep):
        import oracle
        wide = oracle.widened(graph_def, keep)
        wide.library.CopyFrom(graph_def.library)
        return wide

    @staticmethod
    def load(tf, graph_def):
        graph = tf.Graph()
        with graph.as_default():
            tf.graph_util.import_graph_def(graph_def, name='')
        return graph

    def restore(self, folder):
        """Remaining variables get the values of their SavedModel, by its saver."""
        from tensorflow.core.protobuf import saved_model_pb2
        model = saved_model_pb2.SavedModel()
        with open(f'{folder}/saved_model.pb', 'rb') as f:
            model.ParseFromString(f.read())
        saver = model.meta_graphs[0].saver_def
        names = {n.name for n in self.graph.as_graph_def().node}
        for session in self.sessions if saver.restore_op_name.split(':')[0] in names else []:
            session.run(saver.restore_op_name,
                        {saver.filename_tensor_name: f'{folder}/variables/variables'})

    def run(self, inputs, outputs):
        """Results with the rounding that each op should have."""
        import oracle
        names = [oracle.tensor(o) for o in outputs]
        fed = oracle.feeds(inputs)
        own, *meant = [dict(zip(outputs, s.run(names, fed))) for s in self.sessions]
        for n, y in meant[0].items() if meant else []:
            if own[n].shape != y.shape or own[n].dtype != y.dtype:
                raise Failed(f'{n} is {own[n].dtype}{list(own[n].shape)} by TensorFlow\'s own kernels')
        return meant[0] if meant else own

    def is_open(self, inputs):
        shapes = [self.graph.get_tensor_by_name(f'{n}:0').shape for n in inputs]
        return any(s.rank and s[0] is None for s in shapes)


def judge(row, got, want, low):
    import numpy as np
    import oracle
    for name, b in want.items():
        a = got[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Failed(f'{name} is {a.dtype}{list(a.shape)}, expected {b.dtype}{list(b.shape)}')
        if b.dtype.kind != 'f':
            continue  # indices of nearly equal values may change
        e = oracle.errors(a, b, np.isfinite(a))
        # The sums of TensorFlow and TF.js differ in single steep values by more than the row's
        # tolerance.
        wrong = e['rms'] > (LOW_ERROR if low else row.tolerance) or (not low and e['error'] > 10 * row.tolerance)
        if not row.picks and wrong:
            raise Failed(f'{name} errs by {e["error"]:.1e}, root mean square {e["rms"]:.1e}')


def check_batches(graph, inputs, outputs):
    """A batch of several rows gives the same results as its rows alone."""
    import numpy as np
    alone = {n: np.asarray(x)[:1] if np.ndim(x) else x for n, x in inputs.items()}
    one = graph.run(alone, outputs)
    for batch in BATCHES[1:]:
        fed = {n: np.repeat(x, batch, 0) if np.ndim(x) else x for n, x in alone.items()}
        for name, y in graph.run(fed, outputs).items():
            if y.shape[:1] != (batch * one[name].shape[0],):
                raise Failed(f'{name} is {list(y.shape)} at a batch of {batch}, {list(one[name].shape)} at 1')
            rows = np.split(y.astype(np.float64), batch)
            allowed = OPEN_ERRORS[graph.low] * max(np.abs(one[name].astype(np.float64)).max(initial=0), 1e-6)
            apart = max(np.nanmax(np.abs(r - one[name]), initial=0) for r in rows)
            if y.dtype.kind == 'f' and apart > allowed:
                raise Failed(f'{name}: rows of a batch of {batch} are up to {apart:.1e} from one alone, '
                             f'allowed is {allowed:.1e}')


def check(row, path, policy, folder):
    import data
    import oracle
    inputs = row.inputs(data)
    want = oracle.reference(row, path, inputs)
    convert(row, path, policy, f'{folder}/c.pb')
    with Graph(f'{folder}/c.pb') as graph:
        if row.oracle == 'savedmodel':
            graph.restore(path)
        judge(row, graph.run(inputs, row.outputs), want, graph.low)
        if graph.is_open(inputs):
            check_batches(graph, inputs, row.outputs)
            return 'at batches of 1, 2 and 7'
    return 'of a fixed size'


def check_tfjs(row, path, folder):
    """TensorFlow.js runs the model.json, and reading and writing it again gives the same bytes."""
    import data
    import oracle
    inputs = row.inputs(data)
    os.mkdir(f'{folder}/again')
    tool('convert', path, *asked(row), '-o', f'{folder}/model.json', '-q')
    tool('convert', f'{folder}/model.json', '-o', f'{folder}/again/model.json', '-q')
    want = oracle.reference(row, path, inputs)
    want = {n: y.astype('int32') if y.dtype == 'int64' else y for n, y in want.items()}  # TF.js has no int64
    judge(row, oracle.tfjs(f'{folder}/model.json', inputs, row.outputs), want, False)
    for name in sorted(os.listdir(f'{folder}/again')):
        files = [open(f'{folder}/{at}{name}', 'rb') for at in ('', 'again/')]
        one, two = (f.read() for f in files)
        [f.close() for f in files]
        if name == 'model.json':
            one, two = (json.loads(x) | {'signature': None} for x in (one, two))
        if one != two:
            raise Failed(f'{name} is another when it is read and written again')
    return 'in TensorFlow.js'


def attempt(row, what, do):
    """Returns 1 if the model passes."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            print(f'pass {row.name} {what} {do(folder)}', flush=True)
            return 1
        except Exception as e:  # any error of TensorFlow for a bad graph
            print(f'FAIL {row.name} {what}: {type(e).__name__}: {str(e)[:300]}', flush=True)
            return 0


def main():
    a = arguments()
    environment.enter_venv(onednn=False)
    rows = {m.name: m for m in MODELS if m.converts}
    names = a.names or (list(rows) if environment.LONG else PART)
    policies = a.policies.split(',') if a.policies is not None else all_policies() if environment.LONG else PART_POLICIES
    passed = failed = skipped = 0
    for row in (rows[n] for n in names):
        why = absent(row)
        if why:
            skipped += 1
            print(f'skipped: {row.name}: {why}')
            continue
        environment.obtain(row.package)
        path = model_path(row)
        results = [attempt(row, policy or 'as imported', lambda folder, policy=policy: check(row, path, policy, folder))
                   for policy in policies]
        if row.name in TFJS:
            results.append(attempt(row, 'model.json', lambda folder: check_tfjs(row, path, folder)))
        passed, failed = passed + sum(results), failed + len(results) - sum(results)
    print(f'{passed} passed, {failed} failed, {skipped} skipped')
    return 1 if failed else environment.SKIPPED if not passed else 0


if __name__ == '__main__':
    sys.exit(main())
