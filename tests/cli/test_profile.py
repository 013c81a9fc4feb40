#!/usr/bin/env python3
"""Profiles: traces, tables, the vendor's options for them, and folders that cannot be written."""
import csv, glob, json, os, re, unittest

from tool import ToolCase

# Two products and a Softmax.
MODEL = """hir 1
entry "" {
  input "x" = %%x
  output "net/last/y" = %%"net/last/y"
}

%%x = Placeholder() {dtype=f32, shape=shape[64,512]}
%%w = Const() {dtype=f32, value=tensor f32[512,512] {%s}}
%%"net/dense/a" = MatMul(%%x, %%w) {T=f32, transpose_a=false, transpose_b=false}
%%"net/dense/b" = Relu(%%"net/dense/a") {T=f32}
%%"net/last/c" = MatMul(%%"net/dense/b", %%w) {T=f32, transpose_a=false, transpose_b=false}
%%"net/last/y" = Softmax(%%"net/last/c") {T=f32}
""" % ', '.join(['0.01'] * (512 * 512))


class Profile(ToolCase):
    def model(self):
        return self.path('m.hir', MODEL.encode())

    def trace(self, *args, verb='run'):
        at = self.path('trace.json')
        self.tool(verb, self.model(), '--trace', at, *args)
        with open(at) as f:
            return json.load(f)

    def events(self, trace, category):
        return [e for e in trace['traceEvents'] if e.get('cat') == category]

    def test_trace(self):
        t = self.trace('--runs=4', '--no-cache')
        self.assertEqual(t['otherData']['schema'], 'halftone.trace/1')
        self.assertEqual((t['otherData']['runs'], t['otherData']['threads'], t['otherData']['kernels_lost']), (4, 1, 0))
        runs, kernels = self.events(t, 'run'), self.events(t, 'kernel')
        self.assertEqual([r['name'] for r in runs], ['run %d' % i for i in range(4)])
        self.assertEqual(len(kernels) % 4, 0)
        products = [k for k in kernels if k['args']['op'] == 'MatMul']
        self.assertEqual(len(products), 8)
        for k in products:
            self.assertEqual(k['args']['result'], 'f32[64,512]')
            self.assertEqual(k['args']['multiply_adds'], 64 * 512 * 512)
            self.assertGreaterEqual(k['args']['bytes'], 4 * (512 * 512 + 2 * 64 * 512))
            self.assertGreater(k['args']['limit_us'], 0)
            self.assertAlmostEqual(k['args']['of_limit'], k['args']['limit_us'] / k['dur'], 1)
        # On one thread, kernels follow each other without gaps, within their run.
        for k, n in zip(kernels, kernels[1:]):
            self.assertLessEqual(k['ts'] + k['dur'], n['ts'] + 0.002)
        for r in runs:
            inside = [k for k in kernels if r['ts'] - 0.002 <= k['ts'] and k['ts'] + k['dur'] <= r['ts'] + r['dur'] + 0.002]
            self.assertEqual(len(inside), len(kernels) // 4)
        self.assertGreater(sum(k['dur'] for k in kernels), 0.97 * sum(r['dur'] for r in runs))
        rest = self.events(t, 'executor')
        self.assertEqual(len(rest), 4)
        self.assertAlmostEqual(sum(e['dur'] for e in kernels + rest), sum(r['dur'] for r in runs), 1)
        phases = self.events(t, 'compilation')
        self.assertIn('code', [p['name'] for p in phases])
        self.assertLessEqual(max(p['ts'] + p['dur'] for p in phases), runs[0]['ts'] + 0.002)

    def check_format(self, trace):
        """The rules of the trace event format: complete events with times in microseconds; events of a thread do not
        overlap unless one contains the other; each thread and process has one name; thread 0 belongs to the system."""
        self.assertEqual(trace['displayTimeUnit'], 'ns')
        names, threads = {}, {}
        for e in trace['traceEvents']:
            self.assertIn(e['ph'], 'XM')
            self.assertGreater(e['pid'], 0)
            if e['ph'] == 'M':
                key = e['pid'], e.get('tid'), e['name']
                self.assertNotIn(key, names)
                names[key] = e['args']
                continue
            self.assertGreater(e['tid'], 0)
            self.assertGreaterEqual(e['ts'], 0)
            self.assertGreaterEqual(e['dur'], 0)
            self.assertTrue(e['name'] and e['cat'])
            threads.setdefault((e['pid'], e['tid']), []).append((round(e['ts'] * 1000), round((e['ts'] + e['dur']) * 1000)))
        self.assertEqual(len({a['name'] for k, a in names.items() if k[2] == 'process_name'}), len({p for p, _ in threads}))
        for (pid, tid), spans in threads.items():
            self.assertTrue(names[pid, tid, 'thread_name']['name'])
            self.assertEqual(names[pid, tid, 'thread_sort_index'], {'sort_index': tid})
            open_ends = []
            for begin, end in sorted(spans, key=lambda s: (s[0], -s[1])):
                while open_ends and open_ends[-1] <= begin + 1:  # numbers are rounded to a nanosecond
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(end, open_ends[-1] + 1)
                open_ends.append(end)

    def test_format(self):
        for args in ['--no-cache'], ['--threads=2', '--runs=3'], ['--runs=4', '--fp_point=net/dense/b', '--bp_point=net/last/y'], ['--runs=5000']:
            with self.subTest(args):
                self.check_format(self.trace(*args))

    def test_profile_with_the_name_of_a_file(self):
        at = self.path('named.json')
        self.tool('run', self.model(), '--profile', at, '--profile=cpu')
        with open(at) as f:
            self.assertEqual(json.load(f)['otherData']['runs'], 1)
        self.fails(2, "no profile 'x.json'|x.json", 'explain', self.model(), '--profile', 'x.json')

    def test_threads(self):
        t = self.trace('--threads=2', '--runs=3')
        names = [e['args']['name'] for e in t['traceEvents'] if e['name'] == 'thread_name']
        self.assertEqual(names, ['compilation', 'runs', 'thread 0', 'thread 1'])
        kernels = self.events(t, 'kernel')
        self.assertEqual({k['tid'] for k in kernels}, {3, 4})
        self.assertNotIn('of_limit', kernels[0]['args'])

    def test_from_the_cache_and_an_artefact(self):
        """A program that was compiled earlier has the same data on its steps."""
        cache = ['--cache-dir', self.path('cache'), '--cache-mode=rw']
        first, again = self.trace(*cache), self.trace(*cache)
        htx, at = self.path('m.htx'), self.path('artefact.json')
        self.tool('compile', self.model(), '-o', htx)
        self.tool('run', htx, '--trace', at)
        with open(at) as f:
            saved = json.load(f)
        about = [[(k['name'], k['args']['op'], k['args']['result'], k['args']['multiply_adds'], k['args']['limit_us'])
                  for k in self.events(t, 'kernel')] for t in (first, again, saved)]
        self.assertEqual(about[0], about[1])
        self.assertEqual(about[0], about[2])
        phases = [[p['name'] for p in self.events(t, 'compilation')] for t in (first, again)]
        self.assertEqual((phases[0][:2], phases[0][-1]), (['import', 'cache miss'], 'cache store'))
        self.assertEqual(phases[1], ['import', 'cache hit'])

    def test_table(self):
        out = self.tool('bench', self.model(), '--duration=0', '--runs=5', '--profile-table').stdout.decode()
        self.assertRegex(out, r'profile   5 runs, .* ms a run; kernels take (9[7-9]|100)\..% of it')
        for heading in 'kernel', 'op', 'scope', 'part of the limit':
            self.assertIn(heading, out)
        self.assertEqual(out.count('(executor)'), 3)
        self.assertIn('(executor, and threads that wait)', self.tool('run', self.model(), '--threads=2', '--profile-table').stdout.decode())
        self.assertIn('MatMul f32[64,512] of f32', out)
        report = json.loads(self.tool('run', self.model(), '--runs=2', '--format=json', '--profile-table').stdout)
        p = report['profile']
        self.assertEqual(p['runs'], 2)
        self.assertEqual([k['executions'] for k in p['kernels']], [2] * len(p['kernels']))
        self.assertAlmostEqual(sum(k['ms'] for k in p['kernels']), p['kernels_ms'], 4)
        self.assertAlmostEqual(sum(k['ms'] for k in p['by_op']), p['kernels_ms'], 4)
        self.assertAlmostEqual(p['kernels_ms'] + p['executor_ms'], p['ms'], 4)
        self.assertEqual({k['name'] for k in p['by_op']}, {'MatMul', 'Softmax'})

    def test_runs_of_single_kernels(self):
        """Rows add up to the time of all runs even if a kernel takes less time than the executor's overhead."""
        tiny = self.path('tiny.hir', b'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n%x = Placeholder() {dtype=f32, shape=shape[4]}\n%y = Neg(%x) {T=f32}\n')
        text = self.tool('run', tiny, '--runs=5000', '--profile-table').stdout.decode()
        rows = re.findall(r'(?m)^ +[0-9.]+ ms +([0-9.]+)% .*(?:Neg f32|\(executor\)$)', text.split('  op\n')[0])
        self.assertEqual(len(rows), 2)
        self.assertAlmostEqual(sum(map(float, rows)), 100, delta=.11)

    def test_results_are_the_same(self):
        one, two = self.path('one.npy'), self.path('two.npy')
        self.tool('run', self.model(), '-o', one)
        self.tool('run', self.model(), '-o', two, '--trace', self.path('t.json'))
        with open(one, 'rb') as a, open(two, 'rb') as b:
            self.assertEqual(a.read(), b.read())

    def vendor(self, options):
        folder = self.path('prof')
        config = self.path('run.json', json.dumps({'profiling_config': {
            'enable_profiling': True, 'profiling_options': json.dumps({'output': folder, **options})}}).encode())
        self.tool('run', self.model(), '--config', config)
        found, = glob.glob(folder + '/PROF_*')
        return found

    def test_vendor(self):
        found = self.vendor({'task_trace': 'on', 'storage_limit': '200MB'})
        trace, = glob.glob(found + '/msprof_*.json')
        with open(trace) as f:
            self.assertEqual(len(self.events(json.load(f), 'run')), 1)
        summary, = glob.glob(found + '/op_summary_*.csv')
        with open(summary) as f:
            rows = list(csv.DictReader(f))
        self.assertEqual([r['Count'] for r in rows], ['1'] * len(rows))
        self.assertIn('MatMul', [r['OP Type'] for r in rows])

    def test_counters(self):
        """Each counter has a number for each kernel, or the reason for which it has none."""
        args = 'bench', self.model(), '--runs=3', '--duration=0', '--counters'
        for threads in '1', '2':
            profile = json.loads(self.tool(*args, '--threads', threads, '--profile-table', '--format=json').stdout)['profile']
            refused = profile['not_counted']
            for kernel in profile['kernels']:
                self.assertGreaterEqual(set(kernel['counters']), {'cycles', 'instructions', 'cache_misses', 'task_clock', 'page_faults'})
                self.assertEqual({n for n, v in kernel['counters'].items() if v is None}, set(refused))
            if 'task_clock' not in refused:
                self.assertGreater(sum(k['counters']['task_clock'] for k in profile['kernels']), 0)
        text = self.tool(*args, '--profile-table').stdout.decode()
        for name in kernel['counters']:
            if name in refused:
                self.assertIn('no %s: the system does not count them: %s\n' % (name, refused[name]), text)
            else:
                self.assertRegex(text, '(?m)^.* %s .* kernel, counts of a run$' % name)
        self.assertNotIn('counters', json.loads(self.tool('bench', self.model(), '--runs=3', '--duration=0', '--profile-table', '--format=json').stdout)['profile']['kernels'][0])
        self.fails(2, '--counters goes with', *args)

    def test_vendor_counters(self):
        options = {'output': self.path('c'), 'aic_metrics': 'PipeUtilization', 'training_trace': 'on', 'task_trace': 'on'}
        config = self.path('c.json', json.dumps({'profiling_config': {'enable_profiling': True, 'profiling_options': json.dumps(options)}}).encode())
        self.tool('run', self.model(), '--config', config)
        summary, = glob.glob(self.path('c') + '/PROF_*/op_summary_*.csv')
        with open(summary) as f:
            rows = list(csv.reader(f))
        self.assertEqual(rows[0][-2:], ['task_clock', 'page_faults'])
        for row in rows[1:]:
            self.assertEqual(len(row), len(rows[0]))
            self.assertRegex(row[-1], '^([0-9]+|N/A)$')

    def test_vendor_without_timeline(self):
        self.assertEqual(glob.glob(self.vendor({'task_trace': 'off'}) + '/msprof_*'), [])

    def test_places_that_cannot_be_written(self):
        """The result is written all the same."""
        y = self.path('y.npy')
        for args in (['--trace', self.path('no/such/t.json')], ['--trace', '/dev/full'],
                     ['--profiling_mode', '--profiling_options', '{"output": "%s"}' % self.path('no/such/folder')]):
            with self.subTest(args[-1]):
                if os.path.exists(y):
                    os.remove(y)
                r = self.tool('run', self.model(), '-o', y, *args, code=5)
                self.assertIn('argmax', r.stdout.decode())
                self.assertRegex(r.err, 'error: ')
                self.assertTrue(os.path.exists(y))


if __name__ == '__main__':
    unittest.main()
