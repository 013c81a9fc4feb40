#!/usr/bin/env python3
"""Results as JSON fit their schemas (docs/*.schema.json), which describe each of their members."""
import json, os, re, shutil, subprocess, sys, unittest

from tool import HERE, SMALL, TOP, ToolCase, floats, npy

VALIDATE = os.path.join(TOP, 'tests', 'precision', 'validate.py')
ROWS = 16


class Schemas(ToolCase):
    @classmethod
    def setUpClass(cls):
        cls.validator = subprocess.Popen([sys.executable, VALIDATE, '--serve'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @classmethod
    def tearDownClass(cls):
        cls.validator.communicate()
        assert cls.validator.returncode == 0, 'the validator failed'

    def made(self, name, *args, code=0):
        return self.path(name, self.tool(*args, '--format', 'json', code=code, env={'HALFTONE_CACHE_MODE': 'off'}).stdout)

    def changed(self, file, name, change):
        with open(file) as f:
            document = json.load(f)
        change(document)
        return self.path(f'changed-{name}.json', json.dumps(document).encode())

    def fit(self, schema, files, refused=()):
        """These files fit the schema, and those in `refused` do not."""
        print(json.dumps([os.path.join(TOP, 'docs', schema + '.schema.json'), *files, *refused]), file=self.validator.stdin, flush=True)
        said = json.loads(self.validator.stdout.readline())
        self.assertEqual({line.split(': ')[0] for line in said}, set(refused), said)

    def fit_and_refuse(self, schema, files, *changes):
        """Checks results, and that a document without its schema, with an undescribed member, or with one of the
        changes does not fit."""
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
        """Whether programs were in the cache, with the reason if not."""
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

    def test_models(self):
        """inspect, ops --missing and compile for models with a kernel for each op, and for others."""
        odd = self.path('odd.hir', b'hir 1\nentry "" {\n input "x" = %x\n output "z" = %z\n}\n\n%x = Placeholder() {dtype=f32, shape=shape[2,?]}\n'
                        b'%y = Nonesuch(%x) {T=f32}\n%z = Abs(%y) {T=f32}\n')
        files = [self.made('plain.json', 'inspect', SMALL), self.made('odd.json', 'inspect', odd)]
        with open(files[1]) as f:
            self.assertTrue(json.load(f)['refusals'])
        self.fit_and_refuse('inspect', files, (files[0], lambda d: d['inputs'][0].update(shape=[-2])),
                            (files[1], lambda d: d['refusals'][0].pop('blocks')))
        files = [self.made('none.json', 'ops', '--missing', SMALL), self.made('some.json', 'ops', '--missing', odd)]
        self.fit_and_refuse('missing', files, (files[1], lambda d: d['missing'][0].update(nodes=1)))
        compile_ = 'compile', SMALL, '--target', 'x86-64-v3'
        files = [self.made('one.json', *compile_, '--policy', 'force_fp16', '-o', self.path('one.htx')),
                 self.made('two.json', *compile_, '--policy', 'force_fp16,must_keep_origin_dtype', '-o', self.path('two.htx'))]
        self.fit_and_refuse('compile', files, (files[0], lambda d: d.pop('steps')), (files[1], lambda d: d['variants'].pop()),
                            (files[1], lambda d: d.update(d['variants'][0])))
        diff = [self.made('same.json', 'diff', self.path('one.htx'), self.path('one.htx')),
                self.made('differ.json', 'diff', self.path('one.htx'), self.path('two.htx'), code=1)]
        explain = 'explain', SMALL, '--policy', 'force_fp16'
        before = self.made('before.json', 'explain', SMALL)
        self.fit_and_refuse('artefact_diff', diff, (diff[1], lambda d: d['differences'][0].pop('what')))
        diff = [self.made('reports.json', 'explain', SMALL, '--diff', before, 'force_fp16'),
                self.made('against.json', *explain, '--against', before, '--fail-on', 'new-cast', code=1)]
        self.fit_and_refuse('diff', diff, (diff[0], lambda d: d['units'][0].update(after={})))
        manifests = [self.path(f'{name}.manifest', self.tool('inspect', self.path(f'{name}.htx')).stdout) for name in ('one', 'two')]
        self.fit_and_refuse('artefact', manifests, (manifests[0], lambda d: d['variants'][0]['sources'].append('a')),
                            (manifests[1], lambda d: d['variants'][1].pop('llvm')))
        files = [self.made('why.json', 'explain', SMALL, '--why-not', 'float16'), self.made('all.json', *explain, '--why-not', 'float32')]
        self.fit_and_refuse('why_not', files, (files[0], lambda d: d['units'][0].pop('why_not')))
        self.fit_and_refuse('decisions', [before, self.made('explain.json', *explain)])

    def test_nets(self):
        """The files of a net of an open size, of one with a stated size, and of one with its weights in a file."""
        aot = 'aot', SMALL
        files = [self.made('open.json', *aot, '-o', self.path('open')), self.made('two.json', *aot, '--batch', '2', '-o', self.path('two')),
                 self.made('file.json', *aot, '--external-weight', '1', '-o', self.path('file'))]
        self.fit_and_refuse('aot_files', files, (files[0], lambda d: d['net'].update(rows={'least': 0})), (files[1], lambda d: d['net'].update(rows=1)),
                            (files[2], lambda d: d['net'].pop('weights')))

    def test_timelines(self):
        at = [self.path(f'{i}.json') for i in range(2)]
        self.tool('run', SMALL, '--input', 'x=random(1)', '--trace', at[0], '--runs', '2', '--no-cache')
        self.tool('run', SMALL, '--input', 'x=random(1)', '--threads', '2', '--trace', at[1], '--runs', '2', '--no-cache')
        changes = ((at[0], lambda d: d['otherData'].pop('schema')), (at[0], lambda d: d['traceEvents'].append({'name': 'x', 'ph': 'B'})),
                   (at[1], lambda d: d.update(undescribed=1)),
                   (at[1], lambda d: [e for e in d['traceEvents'] if e.get('cat') == 'kernel'][0]['args'].pop('op')))
        self.fit('trace', at, [self.changed(file, i, change) for i, (file, change) in enumerate(changes)])

    def test_kernels(self):
        """What op_debug_level leaves of each kernel."""
        at = self.path('debug')
        for level, schemas in ('1', {'kernel': '', 'locations': '_loc'}), ('4', {'kernel': '', 'compute': '_compute'}):
            shutil.rmtree(at, ignore_errors=True)
            self.tool('run', SMALL, '--input', 'x=random(1)', '--debug_dir', at, f'--op_debug_level={level}', '--no-cache')
            folder = os.path.join(at, 'kernel_meta')
            for schema, ending in schemas.items():
                files = [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if re.fullmatch(rf'\w+_[0-9a-f]{{16}}{ending}\.json', n)]
                self.fit_and_refuse(schema, files, (files[0], lambda d: d.pop('kernel')))

    def test_settings(self):
        files = [self.made('config.json', 'config'), self.made('stated.json', 'config', '--policy', 'optimal', '--threads', '2')]
        self.fit_and_refuse('config', files, (files[0], lambda d: d['config'][0].pop('origin')))
        classes = [self.made('classes.json', 'config', '--classes')]
        self.fit_and_refuse('classes', classes, (classes[0], lambda d: d.pop('refused')))
        version = [self.path('version.json', self.tool('version', '--json').stdout)]
        self.fit_and_refuse('version', version, (version[0], lambda d: d['host'].pop('level')))

    def test_lists(self):
        for name in 'ops', 'targets', 'policies', 'formats', 'profiles', 'fusions', 'options':
            file = self.made(f'{name}.json', name)
            self.fit_and_refuse(name, [file], (file, lambda d, name=name: d[name][0].pop('name')), (file, lambda d, name=name: d[name][0].update(meaning=1)))

    def test_cache(self):
        env = {'HALFTONE_CACHE_DIR': self.path('cache'), 'HALFTONE_CACHE_MODE': 'rw'}

        def made(name, *args, code=0):
            return self.path(name, self.tool('cache', *args, '--format', 'json', code=code, env=env).stdout)
        files = [made('why0.json', 'why-miss', SMALL, code=1)]
        self.tool('compile', SMALL, '-o', self.path('m.htx'), env=env)
        files += [made('why1.json', 'why-miss', SMALL), made('why2.json', 'why-miss', SMALL, '--policy', 'force_fp16', code=1)]
        self.fit_and_refuse('cache-why', files, (files[2], lambda d: d.pop('part')), (files[1], lambda d: d.pop('entry')))
        stats = [made('stats.json', 'stats')]
        self.fit_and_refuse('cache', stats, (stats[0], lambda d: d.pop('graph_hits')))
        cleaned = [made('verify.json', 'verify'), made('export.json', 'export', self.path('all')), made('import.json', 'import', self.path('all')),
                   made('gc.json', 'gc', '--max-size', '1'), made('clear.json', 'clear')]
        self.fit_and_refuse('cache-cleaned', cleaned, (cleaned[0], lambda d: d.update(schema='halftone.cache-wash/1')))

    def test_search(self):
        """The policy that a search writes is a decision report with evidence."""
        for tolerance in 'rel<=0.1', 'rel<=1e-6':
            self.tool('search', SMALL, '--samples', '2', '--tol', tolerance, '-o', self.path(f'{tolerance}.json'), '--no-cache')
        files = [self.path('rel<=0.1.json'), self.path('rel<=1e-6.json')]
        self.fit_and_refuse('decisions', files, (files[1], lambda d: d['search']['float32'][0].pop('node')),
                            (files[0], lambda d: d['search'].pop('trials')))

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
                 b'{"event": "evaluation", "step": 1, "seconds": 1, "values": {"error": null}}\n',
                 b'{"event": "evaluation", "step": 1, "seconds": 1, "values": {}, "error": 1}\n')
        self.fit('train_log', logs, [self.path(f'bad{i}.ndjson', line) for i, line in enumerate(lines)])


if __name__ == '__main__':
    unittest.main()
