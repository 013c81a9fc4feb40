#!/usr/bin/env python3
"""Results as JSON fit their schemas (docs/*.schema.json), which describe each of their members."""
import json, os, subprocess, sys, unittest

from tool import HERE, SMALL, TOP, ToolCase, floats, npy

VALIDATE = os.path.join(TOP, 'tests', 'precision', 'validate.py')
ROWS = 16


class Schemas(ToolCase):
    def made(self, name, *args, code=0):
        return self.path(name, self.tool(*args, '--format', 'json', '--no-cache', code=code).stdout)

    def changed(self, file, name, change):
        with open(file) as f:
            document = json.load(f)
        change(document)
        return self.path(f'changed-{name}.json', json.dumps(document).encode())

    def fit(self, schema, files, refused=()):
        """The files fit the schema, and those that are refused do not."""
        r = subprocess.run([sys.executable, VALIDATE, os.path.join(TOP, 'docs', schema + '.schema.json'), *files, *refused],
                           stdout=subprocess.PIPE, timeout=120)
        said = r.stdout.decode()
        self.assertEqual(r.returncode, int(bool(refused)), said)
        self.assertEqual({line.split(': ')[0] for line in said.splitlines()}, set(refused), said)

    def fit_and_refuse(self, schema, files, *changes):
        """Besides, a document does not fit that lacks its schema, has a member that is not described, or has one of the changes."""
        always = (files[0], lambda d: d.update(undescribed=1)), (files[0], lambda d: d.pop('schema'))
        self.fit(schema, files, [self.changed(file, i, change) for i, (file, change) in enumerate((*always, *changes))])

    def test_run(self):
        x, y = self.x(1, -2, 3, 0.5, 5, 6, 7, 8), self.path('y.npz')
        with_input = 'run', SMALL, '--input', f'x=@{x}'
        self.tool(*with_input, '-o', y, '--no-cache')
        other = 'run', SMALL, '--input', f'x=@{self.x(*range(8), name="other.npy")}'
        files = [self.made('plain.json', *with_input),
                 self.made('expect.json', *with_input, '--expect', y, '--policy', 'force_fp16', '--numerics', '--profile-table'),
                 self.made('failed.json', *other, '--expect', y, code=1)]
        self.fit_and_refuse('run', files, (files[0], lambda d: d['outputs'][0].update(argmax=-1)),
                            (files[1], lambda d: d['profile']['kernels'][0].pop('node')))

    def test_bench(self):
        bench = 'bench', SMALL, '--runs', '3'
        files = [self.made('plain.json', *bench), self.made('more.json', *bench, '--steps', '--profile-table'),
                 self.made('contexts.json', *bench, '--contexts', '2')]
        self.fit_and_refuse('bench', files, (files[1], lambda d: d['steps_ms'].append(['a', 1, 'b', 'c'])))

    def test_compare_with_a_cache(self):
        """Whether programs were in the cache, and why not."""
        compare = ('compare', SMALL, '--policy', 'force_fp16', '--samples', '2', '--runs', '0', '--format', 'json', '--cache-mode', 'rw',
                   '--cache-dir', self.path('cache'))
        files = [self.path(f'{i}.json', self.tool(*compare).stdout) for i in range(2)]
        found = []
        for file in files:
            with open(file) as f:
                found.append(json.load(f)['models'][0]['policies'][0]['cache'])
        self.assertEqual([c['hit'] for c in found], [False, True], found)
        self.assertTrue('entry' in found[1] and 'reason' in found[0], found)
        self.fit_and_refuse('compare', files, (files[1], lambda d: d['models'][0]['policies'][0]['cache'].pop('hit')),
                            (files[0], lambda d: d['models'][0]['policies'][0]['cache'].update(reason=1)))

    def test_dumps(self):
        a, b = self.path('a'), self.path('b')
        for folder, x in (a, self.x(1, 2, 3, 4, 5, 6, 7, 8)), (b, self.x(2, -2, 3, 4, 5, 6, 7, 8, name='other.npy')):
            self.tool('run', SMALL, '--input', f'x=@{x}', '--dump', folder, '--no-cache')
        files = [self.made('same.json', 'compare', a, a), self.made('other.json', 'compare', a, b, '--tol', '0', code=1)]
        self.fit_and_refuse('dumps', files, (files[1], lambda d: d['tensors'][0].update(rel='much')))

    def test_train(self):
        xs = self.path('xs.npy', npy('<f4', (ROWS, 4), floats(*[(i * 7 % 11) / 11 - 0.5 for i in range(4 * ROWS)])))
        ys = self.path('ys.npy', npy('<f4', (ROWS, 1), floats(*[(i * 5 % 7) / 7 for i in range(ROWS)])))
        train = ['train', os.path.join(HERE, 'train.hir'), '--data', f'x=@{xs}', '--data', f'y=@{ys}', '--loss', 'loss', '--train-op',
                 'train', '--feed', 'rate=0.05', '--batch', '8', '--steps', '6']
        logs = [self.path(f'{i}.ndjson') for i in range(4)]
        files = [
            self.made('plain.json', *train, '--log', logs[0], '--save', self.path('saved'), '--save-every', '3', '--eval', f'x=@{xs}',
                      '--eval', f'y=@{ys}', '--eval-fetch', 'error', '--eval-every', '2'),
            self.made('phases.json', *train, '--log', logs[1], '--accelerate-train-mode', 'phases=fast1:2,original:2,fast:2',
                      '--loss-scale', 'dynamic', '--profile-table'),
            self.made('loops.json', *train, '--log', logs[2], '--iterations-per-loop', '2', '--loss-scale', 'fixed:8', '--fp_point', 'product',
                      '--bp_point', 'gradient', '--profile-table')]
        self.fit_and_refuse('train', files, (files[1], lambda d: d['profiles'][0]['by_op'][0].pop('ms')))
        sides = [self.made(f'sides{n}.json', *train, '--log', logs[3], '--policy', 'must_keep_origin_dtype', '--policy',
                           'allow_mix_precision_bf16', '--seeds', n) for n in '21']
        self.fit_and_refuse('train_policies', sides)
        lines = (b'{"event": "step", "step": 1}\n', b'{"event": "lunch", "step": 1, "seconds": 1}\n',
                 b'{"event": "evaluation", "step": 1, "seconds": 1, "error": null}\n')
        self.fit('train_log', logs, [self.path(f'bad{i}.ndjson', line) for i, line in enumerate(lines)])


if __name__ == '__main__':
    unittest.main()
