#!/usr/bin/env python3
"""halftone compare: its statistics, intervals and metrics against NumPy and SciPy, its formats with their readers, exit
codes, streaming, and refused input."""
import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'tools'))
import environment  # noqa: E402

environment.enter_venv()
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import scipy.optimize  # noqa: E402
import scipy.stats  # noqa: E402

SCHEMA = os.path.join(environment.ROOT, 'docs', 'compare.schema.json')
SMALL = os.path.join(HERE, '..', 'cli', 'small.hir')
POLICIES = ('must_keep_origin_dtype', 'allow_mix_precision_bf16', 'force_fp16')
CLASSES, WIDTH = 10, 32


def classifier(batch):
    """Two products: logits of CLASSES classes and their softmax."""
    r = np.random.default_rng(1)

    def tensor(*shape):
        values = ', '.join(repr(float(v)) for v in r.normal(0, 0.3, shape).astype(np.float32).ravel())
        return f'tensor f32[{",".join(map(str, shape))}] {{{values}}}'
    return f'''hir 1
entry "" {{
  input "x" = %x
  output "logits" = %logits
  output "prob" = %prob
}}

%x = Placeholder() {{dtype=f32, shape=shape[{batch},{WIDTH}]}}
%a = Const() {{dtype=f32, value={tensor(WIDTH, WIDTH)}}}
%b = Const() {{dtype=f32, value={tensor(WIDTH, CLASSES)}}}
%h = MatMul(%x, %a) {{T=f32, transpose_a=false, transpose_b=false}}
%t = Tanh(%h) {{T=f32}}
%logits = MatMul(%t, %b) {{T=f32, transpose_a=false, transpose_b=false}}
%prob = Softmax(%logits) {{T=f32}}
'''


def workflow_command(line):
    """Parses a line of a job's output like GitHub's runner: the command, its properties and its message.  The rules are
    those of ActionCommand in actions/runner: the first "::" after the command ends its properties; escapes are
    decoded after the line is divided, "%25" last."""
    assert line.startswith('::'), line
    head, message = line[2:].split('::', 1)
    command, _, properties = head.partition(' ')
    divided = [p.split('=', 1) for p in properties.strip().split(',') if p]
    return command, {key: decoded(value, '\r\n:,%') for key, value in divided}, decoded(message, '\r\n%')


def decoded(text, escaped):
    for c in escaped:
        text = text.replace(f'%{ord(c):02X}', c)
    return text


def spacing(t, x):
    """The distance of neighbouring numbers at |x|, by the definition of the format."""
    info = ml_dtypes.finfo(t)
    exponent = np.floor(np.log2(np.where(x == 0, 1, np.abs(x))))
    exponent = np.where(np.abs(x) < float(info.smallest_normal), info.minexp, exponent)
    return 2.0 ** (exponent - info.nmant)


def statistics(got, want, low):
    """got, want: (samples, rows, columns).  The statistics by their definitions, in NumPy."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    flat = [(x.ravel(), y.ravel()) for x, y in zip(a, b)]
    d = np.abs(a - b)
    normal = np.abs(b) >= np.finfo(np.float32).smallest_normal
    top = [np.argsort(-x, axis=-1, kind='stable')[..., :5] for x in (a, b)]
    return {
        'rel': max(np.abs(x - y).max() / np.abs(y).max() for x, y in flat),
        'rms': max(np.linalg.norm(x - y) / np.linalg.norm(y) for x, y in flat),
        'abs': d.max(), 'mean_abs': d.mean(), 'rmse': np.sqrt((d ** 2).mean()),
        'max_rel': (d[normal] / np.abs(b[normal])).max(), 'mean_rel': (d[normal] / np.abs(b[normal])).mean(),
        'cos': min(1 if (x == y).all() else x @ y / np.linalg.norm(x) / np.linalg.norm(y) for x, y in flat),
        'snr': 10 * np.log10((b ** 2).sum() / (d ** 2).sum()) if d.any() else np.inf,
        'max_ulp': (d / spacing(np.float32, b)).max(), 'max_low_ulp': (d / spacing(low, b)).max(),
        'argmax': (top[0][..., 0] == top[1][..., 0]).mean(),
        'top5': (np.sort(top[0], -1) == np.sort(top[1], -1)).all(-1).mean(),
        'p999_ulp': np.quantile(d / spacing(np.float32, b), 0.999, method='inverted_cdf'),
        'p999_low_ulp': np.quantile(d / spacing(low, b), 0.999, method='inverted_cdf'),
        **{f'p{n}_abs': np.quantile(d, q, method='inverted_cdf')
           for n, q in (('50', .5), ('90', .9), ('99', .99), ('999', .999))},
    }


def tango(lost, won, n):
    """The score interval, with the maximum likelihood estimate found by a search instead of a formula."""
    def score(delta):
        def likelihood(q):  # as a function of the share of won pairs
            p = q + delta
            if q < 0 or p < 0 or p + q > 1:
                return np.inf
            rest = n - lost - won
            terms = ((lost, p), (won, q), (rest, 1 - p - q))
            return -sum(k * np.log(v) if v > 0 else (0 if k == 0 else -np.inf) for k, v in terms)
        low, high = max(0, -delta), (1 - delta) / 2
        q = scipy.optimize.minimize_scalar(likelihood, bounds=(low, high), method='bounded',
                                           options={'xatol': 1e-13}).x
        variance = n * (2 * q + delta - delta ** 2)
        return (lost - won - n * delta) / np.sqrt(max(variance, 1e-300))
    z, at = scipy.stats.norm.ppf(0.975), (lost - won) / n
    return (scipy.optimize.brentq(lambda x: score(x) - z, -1 + 1e-9, at),
            scipy.optimize.brentq(lambda x: score(x) + z, at, 1 - 1e-9))


class Compare(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix='halftone-')
        self.addCleanup(self.folder.cleanup)
        self.rng = np.random.default_rng(5)

    def path(self, name, data=None):
        path = os.path.join(self.folder.name, name)
        if isinstance(data, str):
            with open(path, 'w') as f:
                f.write(data)
        elif isinstance(data, dict):
            np.savez(path, **data)
        elif data is not None:
            np.save(path, data)
        return path

    def model(self, batch=1):
        return self.path('model.hir', classifier(batch))

    def tool(self, *args, code=0, verb='compare'):
        r = subprocess.run([environment.TOOL, verb, *args, '--no-cache'], capture_output=True, timeout=environment.HANGS,
                           env={**os.environ, 'HALFTONE_POLICY': ''})
        self.assertEqual(r.returncode, code, (args, r.stdout, r.stderr.decode()))
        return r

    def json(self, *args, code=0):
        """The only model in the report, which fits the schema."""
        r = self.tool(*args, '--format', 'json', code=code)
        report = self.path('report.json', r.stdout.decode())
        subprocess.run([sys.executable, os.path.join(HERE, 'validate.py'), SCHEMA, report], check=True)
        document = json.loads(r.stdout)
        self.assertEqual(document['verdict'], {0: 'pass', 1: 'fail'}.get(code, 'error'))
        return document['models'][0]

    def outputs(self, model, policy, samples):
        """The results of each sample, by one run of the tool each."""
        out = []
        for x in samples:
            self.tool(model, '--policy', policy, '--input', 'x=@' + self.path('x.npy', x), '-o',
                      self.path('y.npz'), verb='run')
            with np.load(self.path('y.npz')) as y:
                out.append({k: y[k] for k in y.files})
        return {k: np.stack([o[k] for o in out]) for k in out[0]}

    def check_statistics(self, found, want):
        for name, value in want.items():
            got = float(found[name])
            if re.match(r'p\d', name):
                self.assertTrue(value * (1 - 1e-9) <= got <= value * (1 + 1 / 64 + 1e-9), (name, got, value))
            else:
                self.assertTrue(np.isclose(got, value, rtol=1e-9, atol=1e-12), (name, got, value))

    def test_statistics(self):
        model = self.model(3)
        x = self.rng.normal(size=(6, 3, WIDTH)).astype(np.float32)
        base = self.outputs(model, POLICIES[0], x)
        report = self.json(model, *(a for p in POLICIES for a in ('--policy', p)), '--samples',
                           self.path('set.npz', {'x': x}), '--runs', '0')
        self.assertEqual((report['samples'], report['runs']), (18, 6))
        for row, low in zip(report['policies'], (np.float32, ml_dtypes.bfloat16, np.float16)):
            self.assertEqual(row['lowest'], np.dtype(low).name)
            got = self.outputs(model, row['policy'], x)
            for output in row['outputs']:
                name = output['output']
                self.check_statistics(output, statistics(got[name], base[name], low))
        self.assertEqual(report['policies'][0]['same_as'], 'float32')
        self.assertIsNone(report['policies'][0]['latency_ms'])

    def test_given_reference(self):
        model = self.model()
        x = self.rng.normal(size=(7, WIDTH)).astype(np.float32)  # concatenated
        base = {k: v[:, 0] for k, v in self.outputs(model, POLICIES[0], x[:, None]).items()}
        want = {k: v.astype(np.float64) * (1 + self.rng.normal(size=v.shape) * 1e-3) for k, v in base.items()}
        want['logits'][2, 3] = 0
        for kind in np.float64, np.float32, np.float16:
            ref = {k: v.astype(kind) for k, v in want.items()}
            report = self.json(model, '--policy', POLICIES[0], '--samples', self.path('x.npy', x), '--reference',
                               self.path('ref.npz', ref), '--tol=1')
            for output in report['policies'][0]['outputs']:
                name = output['output']
                self.check_statistics(output, statistics(base[name][:, None], ref[name][:, None], np.float32))
        want['logits'][1, 1] = np.inf
        report = self.json(model, '--policy', POLICIES[0], '--samples', self.path('x.npy', x), '--reference',
                           self.path('ref.npz', want), code=1)
        logits = report['policies'][0]['outputs'][0]
        self.assertEqual((logits['rel'], logits['cos'], logits['reference_infinite']), ('inf', -1, 1))
        self.assertEqual(report['policies'][0]['tolerances'][0]['would_pass'], 'inf')

    def test_float64(self):
        """The float64 variant equals NumPy in double precision, and errors of float32 are relative to it."""
        model = self.model()
        x = self.rng.normal(size=(4, 1, WIDTH)).astype(np.float32)
        want = self.outputs(model, POLICIES[0], x)
        wide = []
        for one in x:
            self.tool(model, '--float64', '--input', 'x=@' + self.path('x.npy', one), '-o', self.path('y.npz'), verb='run')
            with np.load(self.path('y.npz')) as y:
                wide.append({k: y[k] for k in y.files})
        wide = {k: np.stack([o[k] for o in wide]) for k in wide[0]}
        r = np.random.default_rng(1)
        a, b = (r.normal(0, 0.3, s).astype(np.float32).astype(np.float64) for s in ((WIDTH, WIDTH), (WIDTH, CLASSES)))
        logits = np.tanh(x.astype(np.float64) @ a) @ b
        e = np.exp(logits - logits.max(-1, keepdims=True))
        for name, right in ('logits', logits), ('prob', e / e.sum(-1, keepdims=True)):
            self.assertEqual(wide[name].dtype, np.float64)
            np.testing.assert_allclose(wide[name], right, rtol=1e-13, atol=1e-14)
        report = self.json(model, '--policy', POLICIES[0], '--samples', self.path('x.npz', {'x': x}), '--reference', 'f64', '--runs=0')
        self.assertEqual(report['reference'], 'float64')
        for output in report['policies'][0]['outputs']:
            name = output['output']
            self.check_statistics(output, statistics(want[name], wide[name], np.float32))
            self.assertTrue(0 < output['rel'] < 1e-5)

    def test_float64_written(self):
        """convert writes float64 for the ops that TensorFlow has in float64, and names the nodes of others."""
        text = """hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}
%x = Placeholder() {dtype=f32, shape=shape[1,2,2,1]}
%s = Const() {dtype=f32, value=tensor f32[1] {1.5}}
%y = FusedBatchNormV3(%x, %s, %s, %s, %s) {T=f32, U=f32, epsilon=0.5, is_training=false, data_format="NHWC", exponential_avg_factor=1.0}
"""
        norm = self.path('norm.hir', text)
        self.assertIn(b"'y' (FusedBatchNormV3)", self.tool(norm, '--float64', '-o', self.path('n.pb'), verb='convert', code=3).stderr)
        self.assertFalse(os.path.exists(self.path('n.pb')))
        x = self.rng.normal(size=(1, 2, 2, 1)).astype(np.float32)
        self.tool(norm, '--float64', '--input=x=@' + self.path('x.npy', x), '-o', self.path('y.npy'), verb='run')
        np.testing.assert_allclose(np.load(self.path('y.npy')), (x.astype(np.float64) - 1.5) / np.sqrt(2) * 1.5 + 1.5, rtol=1e-14)
        self.tool(self.model(), '--float64', '-o', self.path('w.hir'), verb='convert')
        with open(self.path('w.hir')) as f:
            written = f.read()
        self.assertIn('SrcT=f32, DstT=f64', written)
        self.assertNotIn('T=f32,', written.replace('SrcT=f32,', ''))

    def test_metrics(self):
        model = self.model(2)
        x = self.rng.normal(size=(60, WIDTH)).astype(np.float32)
        policy = 'allow_mix_precision_bf16'
        base = self.outputs(model, POLICIES[0], x.reshape(30, 2, WIDTH))['prob'].reshape(60, CLASSES)
        got = self.outputs(model, policy, x.reshape(30, 2, WIDTH))['prob'].reshape(60, CLASSES)
        labels = np.where(self.rng.random(60) < 0.6, base.argmax(-1), self.rng.integers(0, CLASSES, 60))
        args = (model, '--policy', policy, '--samples', self.path('x.npy', x), '--runs=0')
        m = self.json(*args, '--metric=prob:top1', '--labels', self.path('y.npy', labels))['policies'][0]['metric']
        right = base.argmax(-1) == labels, got.argmax(-1) == labels
        self.assertEqual(m['samples'], 60)
        self.assertAlmostEqual(m['reference'], right[0].mean(), 12)
        self.assertAlmostEqual(m['value'], right[1].mean(), 12)
        lost, won = (right[0] & ~right[1]).sum(), (~right[0] & right[1]).sum()
        self.assertEqual((m['lost'], m['won']), (lost, won))
        np.testing.assert_allclose((m['low'], m['high']), tango(lost, won, 60), atol=1e-5)
        m = self.json(*args, '--metric=prob:cosine')['policies'][0]['metric']
        cosine = (base * got).sum(-1, dtype=np.float64) / np.linalg.norm(base, axis=-1) / np.linalg.norm(got, axis=-1)
        drop = 1 - cosine
        self.assertAlmostEqual(m['drop'], drop.mean(), 7)
        interval = scipy.stats.t.interval(0.95, 59, drop.mean(), scipy.stats.sem(drop))
        np.testing.assert_allclose((m['low'], m['high']), interval, atol=1e-6)

    def test_paired_intervals(self):
        """The drop for given answers: the reference is given, so every pair of lost and won numbers is possible."""
        model = self.model()
        x = self.rng.normal(size=(40, WIDTH)).astype(np.float32)
        base = self.outputs(model, POLICIES[0], x[:, None])
        answer = base['prob'][:, 0].argmax(-1)
        for lost, won in ((0, 0), (3, 0), (0, 1), (7, 2), (12, 12)):
            wrong = (answer + 1) % CLASSES
            labels = answer.copy()
            labels[:lost] = wrong[:lost]  # samples that the reference answers correctly
            given = {'logits': base['logits'][:, 0], 'prob': base['prob'][:, 0].copy()}
            for i in range(lost + won):
                given['prob'][i] = np.eye(CLASSES)[wrong[i]]
            m = self.json(model, '--policy', POLICIES[0], '--samples', self.path('x.npy', x), '--reference',
                          self.path('ref.npz', given), '--metric=prob:top1', '--labels',
                          self.path('y.npy', labels), '--tol=2', '--runs=0')['policies'][0]['metric']
            self.assertEqual((m['lost'], m['won']), (lost, won))
            np.testing.assert_allclose((m['low'], m['high']), tango(lost, won, 40), atol=1e-5)

    def test_tolerances(self):
        model = self.model()
        args = (model, '--policy', 'force_fp16', '--samples=3', '--runs=0')
        tight = ('--tol=prob:rel<=1e-9', '--tol', 'logits:cos>=0.9999999999', '--tol=max_low_ulp=0.001')
        row = self.json(*args, *tight, code=1)['policies'][0]
        self.assertEqual(row['verdict'], 'fail')
        self.assertEqual([t['ok'] for t in row['tolerances']], [False] * 4)
        passes = [f'--tol={t["output"]}:{t["statistic"]}{t["sign"]}{t["would_pass"]!r}' for t in row['tolerances']]
        self.assertTrue(all(t['ok'] for t in self.json(*args, *passes)['policies'][0]['tolerances']))
        default = self.json(*args)['policies'][0]['tolerances']
        self.assertEqual([(t['statistic'], t['default'], t['bound']) for t in default],
                         [('rel', True, 25 * 2.0 ** -11)] * 2)
        text = self.tool(*args, *tight, code=1).stdout.decode()
        self.assertRegex(text, r"force_fp16: prob:rel<=1e-0?9 is .*: FAIL; --tol 'prob:rel<=0\.\d+' would pass")
        m = self.json(*args, '--metric=top1', '--tol', 'top1-drop<=0.2%')['policies'][0]
        drop = next(t for t in m['tolerances'] if t['statistic'] == 'top1-drop')
        self.assertEqual((drop['bound'], drop['ok'], drop['output']), (0.002, True, 'logits'))

    def junit(self, *args, code=1):
        """junitparser's result: for each suite its numbers of tests, failures and errors, and the results of its cases."""
        report = self.path('junit.xml', self.tool(*args, '--format=junit', code=code).stdout.decode())
        said = subprocess.run([sys.executable, os.path.join(HERE, 'read_junit.py'), report], check=True, capture_output=True).stdout
        return [[numbers, [(name, results) for name, results in cases]] for numbers, cases in json.loads(said)]

    def test_forms(self):
        model = self.model()
        args = (model, '--policy', POLICIES[1], '--policy', POLICIES[2], '--samples=2', '--tol=prob:rel<=1e-9')
        rows = list(csv.reader(io.StringIO(self.tool(*args, '--format=csv', code=1).stdout.decode())))
        self.assertEqual({len(r) for r in rows}, {len(rows[0])})
        self.assertEqual([(r[1], r[2], r[3]) for r in rows[1:]],
                         [(p, o, 'fail') for p in POLICIES[1:] for o in ('logits', 'prob')])
        suite = xml.etree.ElementTree.fromstring(self.tool(*args, '--format=junit', code=1).stdout)[0]
        self.assertEqual((suite.get('tests'), suite.get('failures'), suite.get('errors')), ('4', '2', '0'))
        self.assertEqual([len(case) for case in suite], [0, 1, 0, 1])
        prob = [(f'{p} / prob', ['Failure']) for p in POLICIES[1:]]
        logits = [(f'{p} / logits', []) for p in POLICIES[1:]]
        self.assertEqual(self.junit(*args), [['4 2 0', [logits[0], prob[0], logits[1], prob[1]]]])
        commands = self.tool(*args, '--format=github', code=1).stdout.decode().splitlines()
        self.assertEqual(len(commands), 2)
        for line, policy in zip(commands, POLICIES[1:]):
            command, properties, message = workflow_command(line)
            self.assertEqual((command, properties), ('error', {'file': model, 'title': f'{policy}: prob'}))
            self.assertRegex(message, 'would pass$')
        lines = self.tool(*args, '--format=md', code=1).stdout.decode().splitlines()
        self.assertEqual({l.replace('\\|', '').count('|') for l in lines if l.startswith('|')}, {9, 12})

    def test_hostile_names(self):
        name = '</testsuite>|<img onerror=x>%&'
        model = self.path('h.hir', classifier(1).replace('output "prob"', f'output "{name}"'))
        args = (model, '--policy', POLICIES[1], '--samples=2', '--tol=1e-9')
        suite = xml.etree.ElementTree.fromstring(self.tool(*args, '--format=junit', code=1).stdout)[0]
        self.assertEqual(suite[1].get('name'), f'{POLICIES[1]} / {name}')
        self.assertEqual(self.junit(*args)[0][1][1], (f'{POLICIES[1]} / {name}', ['Failure']))
        self.assertNotIn(b'<img', self.tool(*args, '--format=md', code=1).stdout.replace(b'\\<', b''))
        self.json(*args, code=1)

    def test_hostile_annotations(self):
        """GitHub's runner reads names unchanged, even if they contain separators of a command."""
        for i, name in enumerate(('a,title=b', '::error file=x::y', '100%', '%0A%250A', 'two\\nlines\\x0d', '=')):
            model = self.path(f'a,b:c%0A{i}.hir', classifier(1).replace('output "prob"', f'output "{name}"'))
            said = self.tool(model, '--policy', POLICIES[1], '--samples=2', '--tol=1e-9', '--format=github', code=1).stdout.decode()
            lines = said.splitlines()
            self.assertEqual(len(lines), 2, said)
            command, properties, message = workflow_command(lines[1])
            self.assertEqual((command, properties['file'], properties['title']),
                             ('error', model, f'{POLICIES[1]}: ' + name.replace('\\n', '\n').replace('\\x0d', '\r')))
            self.assertEqual(set(properties), {'file', 'title'})
            self.assertRegex(message, 'would pass$')

    def test_latency(self):
        row = self.json(self.model(), '--policy', POLICIES[1], '--samples=2', '--runs=25')['policies'][0]
        for l in row['latency_ms'], row['speedup']:
            self.assertEqual(l['runs'], 25)
            self.assertTrue(l['min'] <= l['low'] <= l['median'] <= l['high'] <= l['max'])
        self.assertNotIn('low', self.json(self.model(), '--policy', POLICIES[1], '--samples=2', '--runs=5')
                         ['policies'][0]['latency_ms'])

    def test_failing_policies(self):
        """A policy that cannot be compiled is reported; the others are compared."""
        path = self.path('bad.json', '{"schema": "halftone.decisions/1"')
        self.tool(self.model(), '--policy', path, '--policy', POLICIES[1], '--samples=2', code=3)
        r = self.tool(self.model(), '--policy', 'nonsense', '--policy', 'other', '--samples=2', code=2)
        self.assertIn(b'nonsense', r.stderr)
        self.assertIn(b"'other'", r.stderr)
        graph = classifier(1).replace('%prob = Softmax(%logits) {T=f32}', '%n = Const() {dtype=i32, value=tensor i32[] {0}}\n'
                                      '%i = Cast(%logits) {SrcT=f32, DstT=i32, Truncate=false}\n'
                                      '%prob = FloorDiv(%i, %i) {T=i32}')
        zeros = self.path('z.npy', np.zeros((2, WIDTH), np.float32))
        self.tool(self.path('div.hir', graph), '--policy', POLICIES[1], '--samples', zeros, code=3)

    def test_tensorflow(self):
        """TensorFlow's outputs for each sample are the reference; if it is not installed, a message says so."""
        model, x = self.model(), self.rng.normal(size=(5, WIDTH)).astype(np.float32)
        args = (model, '--policy', POLICIES[0], '--policy', POLICIES[1], '--samples', self.path('x.npy', x), '--runs=0')
        live = (*args, '--reference=tensorflow')
        os.environ.update(HALFTONE_PYTHON=sys.executable, TMPDIR=os.path.join(self.folder.name, 'tmp'))
        self.addCleanup(os.environ.pop, 'TMPDIR')
        os.mkdir(os.environ['TMPDIR'])
        self.addCleanup(os.environ.pop, 'HALFTONE_PYTHON')
        found, own = self.json(*live), self.json(*args)
        self.assertEqual((found['reference'], found['samples']), ('given', 5))
        for at, most in (0, 1e-5), (1, 0.1):
            for got, want in zip(found['policies'][at]['outputs'], own['policies'][at]['outputs']):
                self.assertLess(got['rel'], most)
                self.assertLess(abs(got['rel'] - want['rel']), 1e-5)
        # TensorFlow's sums and functions differ from Halftone's in the last digits
        self.assertTrue(any(o['abs'] > 0 for o in found['policies'][0]['outputs']))
        without = self.path('python', f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
        os.chmod(without, 0o755)
        for python, pattern in (without, 'the Python package tensorflow is not installed'), ('/none', "cannot run '/none'"), (
                '/bin/true', 'process ended'):
            os.environ['HALFTONE_PYTHON'] = python
            self.assertRegex(self.tool(*live, code=5).stderr.decode(), pattern)
        self.assertEqual(os.listdir(os.environ['TMPDIR']), [])

    def test_several_models(self):
        """One report for all models; it contains the error of a model, and the most severe error gives the exit code."""
        good, other = self.model(), self.path('other.hir', classifier(1).replace('Tanh', 'Relu'))
        bad, absent = self.path('bad.hir', 'hir 1\nentry "" {\n nonsense\n}\n'), self.path('absent.pb')
        samples = self.path('x.npy', self.rng.normal(size=(3, WIDTH)).astype(np.float32))
        args = ('--policy', POLICIES[1], '--samples', samples, '--runs=0', '--tol=prob:rel<=1e-9')

        def run(*models, code, form='json'):
            r = self.tool(*models, *args, '--format', form, code=code)
            return r.stdout.decode()
        report = self.path('all.json', run(good, bad, other, absent, code=5))
        subprocess.run([sys.executable, os.path.join(HERE, 'validate.py'), SCHEMA, report], check=True)
        with open(report) as f:
            found = json.load(f)
        self.assertEqual(found['verdict'], 'error')
        self.assertEqual([(m['model'], m.get('code'), m['samples']) for m in found['models']],
                         [(good, None, 3), (bad, 3, 0), (other, None, 3), (absent, 5, 0)])
        self.assertIn("line 3: expected input", found['models'][1]['error'])
        page = subprocess.run([environment.TOOL, 'report', report], capture_output=True, check=True)
        self.assertIn(b'The model could not be compared: line 3', page.stdout)
        # Each model has the result that it has alone.
        alone = self.json(other, *args, code=1)
        self.assertEqual(found['models'][2]['policies'][0]['outputs'], alone['policies'][0]['outputs'])
        self.assertEqual(json.loads(run(good, other, code=1))['verdict'], 'fail')
        rows = list(csv.reader(io.StringIO(run(good, bad, code=3, form='csv'))))
        self.assertEqual([(r[0], r[3], len(r)) for r in rows[1:]],
                         [(good, 'fail', len(rows[0]))] * 2 + [(bad, 'error', len(rows[0]))])
        suites = xml.etree.ElementTree.fromstring(run(good, bad, code=3, form='junit'))
        self.assertEqual([(s.get('tests'), s.get('failures'), s.get('errors')) for s in suites], [('2', '1', '0'), ('1', '0', '1')])
        self.assertIn('line 3', suites[1][0][0].get('message'))
        self.assertRegex(run(good, bad, code=3, form='github').splitlines()[1], r'^::error file=[^,]*bad.hir,title=[^:]*::line 3')
        self.assertIn('### ', run(good, bad, code=3, form='md'))
        self.assertIn(b'nodes of one model', self.tool(good, other, *args, '--nodes', '--node-data', report, code=2).stderr)
        # If there is only one model, its error leaves no report.
        self.assertEqual(self.tool(bad, *args, code=3).stdout, b'')

    def test_streams(self):
        """Peak memory does not grow with the number of samples."""
        size = 1 << 16
        model = self.path('wide.hir', f'hir 1\nentry "" {{\n  input "x" = %x\n  output "y" = %y\n}}\n\n'
                          f'%x = Placeholder() {{dtype=f32, shape=shape[{size}]}}\n%y = Tanh(%x) {{T=f32}}\n')
        peak = {}
        for n in 4, 250:
            for name, x in (('set.npz', {'x': np.ones((n, size), np.float32)}), ('set.npy', np.ones((n, size), np.float32))):
                path = self.path(name, x)
                r = subprocess.run(['/usr/bin/env', 'python3', '-c', 'import os, resource, subprocess, sys\n'
                                    'subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n'
                                    'print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)',
                                    environment.TOOL, 'compare', model, '--policy', POLICIES[0], '--no-cache',
                                    '--samples', path, '--runs=1'], capture_output=True, check=True)
                peak[n, name] = int(r.stdout)
                os.remove(path)
        for name in 'set.npz', 'set.npy':
            self.assertLess(peak[250, name] - peak[4, name], 8192, peak)

    def test_folder(self):
        os.mkdir(self.path('set'))
        x = self.rng.normal(size=(5, 1, WIDTH)).astype(np.float32)
        for i in range(3):
            np.savez(self.path(f'set/{i}.npz'), x=x[i])
        np.save(self.path('set/3.npy'), x[3:])
        args = (self.model(), '--policy', POLICIES[1], '--runs=0', '--samples')
        whole = self.json(*args, self.path('x.npy', x))
        parts = self.json(*args, self.path('set'))
        self.assertEqual(parts['samples'], 5)
        self.assertEqual(parts['policies'], whole['policies'])

    def test_refusals(self):
        model, x = self.model(), self.rng.normal(size=(4, WIDTH)).astype(np.float32)
        samples, p = self.path('x.npy', x), ('--policy', POLICIES[1])
        y = np.array([1, 2, 3, 4])
        bad = x.astype(np.float64)
        bad[:, 5] = np.nan
        two = ('--samples', samples, '--metric=top1', '--labels')
        os.mkdir(self.path('empty'))
        cut = self.path('cut.npy')
        with open(samples, 'rb') as a, open(cut, 'wb') as b:
            b.write(a.read()[:-4])
        given = {'logits': bad[:, :CLASSES], 'prob': bad[:, :CLASSES]}
        for code, pattern, args in (
                (2, 'needs policies', ()),
                (2, "'other' is none of text, json", (*p, '--format=other')),
                (2, "stated twice", (*p, *p)),
                (2, "no metric 'f1'; there are top1", (*p, '--metric=f1')),
                (2, "no output 'q'", (*p, '--metric=q:top1')),
                (2, 'keypoints are peaks of maps', (*p, '--metric=keypoints')),
                (2, r'--labels have no effect', (*p, '--labels=y.npy')),
                (2, r"'f32x' is neither", (*p, '--reference=f32x')),
                (2, r"did you mean 'rms'", (*p, '--tol=rmx<=1')),
                (2, r"more of cos is better, so its bound is cos>=X", (*p, '--tol=cos<=0.9')),
                (2, r"there is no output 'q'", (*p, '--tol=q:rel<=1')),
                (2, r"--metric top1 is not what is measured", (*p, '--tol=top1-drop<=1')),
                (2, r"is not \[OUTPUT:\]STATISTIC", (*p, '--tol=rel<=x')),
                (2, r"'rel<=-1' never holds: rel is never less than 0", (*p, '--tol=rel<=-1')),
                (2, r'no number of samples', (*p, '--samples=0')),
                (2, r'is no .npz or .npy file', (*p, '--samples=x.txt')),
                (5, r'cannot read', (*p, '--samples', self.path('absent.npy'))),
                (3, r'no .npz or .npy files', (*p, '--samples', self.path('empty'))),
                (3, r'there are no samples', (*p, '--samples', self.path('none.npy', x[:0]))),
                (3, r"is float32\[4,31\]; 'x' is float32\[1,32\]", (*p, '--samples', self.path('w.npy', x[:, 1:]))),
                (3, r"is float64\[4,32\]", (*p, '--samples', self.path('d.npy', x.astype(np.float64)))),
                (3, r"there is no tensor 'zebra'; the first is 'x'", (*p, '--samples', self.path('z.npz', {'zebra': x}))),
                (3, r"cut off or damaged", (*p, '--samples', cut)),
                (4, r"Fortran", (*p, '--samples', self.path('f.npy', np.asfortranarray(x)))),
                (3, r'has 3 labels, --samples has 4', (*p, *two, self.path('y3.npy', y[:3]))),
                (3, r'sample 2 .*: label 10 is none of the 10 classes', (*p, *two, self.path('yh.npy', np.array([0, 10, 0, 0])))),
                (3, r'label -1 is none', (*p, *two, self.path('yn.npy', -y))),
                (3, r'label has 2 elements', (*p, *two, self.path('y2.npy', np.zeros((4, 2), int)))),
                (3, r"reference of output 'logits' has NaN, first at element 5", (
                    *p, '--samples', samples, '--reference', self.path('nan.npz', given))),
                (3, r"nothing for 'prob'", (*p, '--samples', samples, '--reference', self.path('h.npz', {'logits': given['logits']}))),
                (3, r"has 2 samples, --samples has 4", (
                    *p, '--samples', samples, '--reference', self.path('s.npz', {k: v[:2] for k, v in given.items()}))),
        ):
            r = self.tool(model, *args, code=code)
            self.assertEqual(r.stdout, b'')
            self.assertRegex(r.stderr.decode(), pattern)
        self.tool(model, *p, '--samples=2', '-o', '/dev/full', code=5)
        r = self.tool(SMALL, *p, '--input-shape=x:?,4', code=4)
        self.assertIn(b"dimension 0 of 'x' is open, but samples are compared in one size", r.stderr)
        self.assertFalse([f for f in os.listdir(self.folder.name) if 'tmp' in f])

    def test_nan_in_samples(self):
        """A sample that has NaN is compared, and a warning names its first element, once for each input."""
        model, x = self.model(), self.rng.normal(size=(4, WIDTH)).astype(np.float32)
        x[1:, 5] = np.nan
        r = self.tool(model, '--policy', POLICIES[1], '--samples', self.path('x.npy', x), '--runs=0')
        self.assertEqual(r.stderr.decode().count('NaN'), 2)
        self.assertRegex(r.stderr.decode(), r"warning: sample 2 .*: input 'x' has NaN, first at element 5: outputs that are NaN in the reference too")

    def test_output_file(self):
        out = self.path('report.csv')
        r = self.tool(self.model(), '--policy', POLICIES[1], '--samples=2', '--format=csv', '-o', out)
        self.assertEqual(r.stdout, b'')
        with open(out, newline='') as f:
            self.assertEqual(len(list(csv.reader(f))), 3)


if __name__ == '__main__':
    unittest.main()
