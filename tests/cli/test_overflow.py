#!/usr/bin/env python3
"""Whether gradients are finite, which the kernels that store them note: one number that is not, in each of several gradients, of
several types, first and last.  With the fusion and without it, on one thread and on two.  Then trainings that skip such steps."""
import json, math, os, re, struct, unittest

from tool import HERE, ToolCase, floats, npy, read_npy

OPS = os.path.join(HERE, 'overflow.hir')
STEP = os.path.join(HERE, 'overflow_step.hir')
ROWS = os.path.join(HERE, 'overflow_rows.hir')
JOINED = os.path.join(HERE, 'overflow_joined.hir')
INF = float('inf')
OFF = b'finite:off\n'
# By gradient: the shape of its summand, and numbers that make it infinite or NaN, in the type that it is stored in.
SUMMANDS = {
    'product': ((300, 201), (math.nan, INF, -INF)), 'filter': ((3, 3, 3, 33), (math.nan, INF)), 'sum': ((201,), (math.nan, -INF)),
    'half': ((300, 201), (math.nan, 70000.)), 'short': ((201,), (math.nan, 3.4e38)),
    'low': ((300, 201), (math.nan, 40000.)), 'double': ((16, 201), (math.nan, INF)),
    'added': ((16, 201), (math.nan, INF)), 'sparse': ((16, 201), (math.nan, INF)), 'given': ((7,), (math.nan, -INF, 1e30))}
# Those that are finite in their own type, though large.
FINE = {'product': 3.4e38, 'half': 60000., 'short': 3.3e38, 'low': 30000., 'double': 1e300, 'given': 1e10}


def wave(n, least=-1., most=1.):
    """Numbers without a pattern that a tile or a vector has."""
    return [least + (most - least) * ((i * 7919 + 13) % 1009) / 1009 for i in range(n)]


class Overflow(ToolCase):
    def put(self, name, shape, data, form='f'):
        descr = {'f': '<f4', 'd': '<f8', 'i': '<i4'}[form]
        return self.path(name.replace('/', '-') + '.npy', npy(descr, shape, struct.pack(f'<{len(data)}{form}', *data)))

    def summand(self, name, at=None, value=0.):
        shape, _ = SUMMANDS[name]
        data = [0.] * math.prod(shape)
        if at is not None:
            data[at] = value
        return self.put('bad/' + name, shape, data, 'd' if name == 'double' else 'f')

    def setUp(self):
        super().setUp()
        inputs = {'x': ((16, 300), wave(4800)), 'dy': ((16, 201), wave(3216)), 'image': ((2, 64, 64, 3), wave(24576)),
                  'dimage': ((2, 64, 64, 33), wave(270336))}
        self.inputs = [f'{name}=@{self.put(name, *of)}' for name, of in inputs.items()]
        self.inputs.append(f'rows=@{self.put("rows", (16, 1), [i * 5 % 40 for i in range(16)], "i")}')

    def outcome(self, program, threads):
        feeds = [*self.inputs, *(f'bad/{name}=@{self.path(f"bad-{name}.npy")}' for name in SUMMANDS)]
        self.tool('run', program, *(a for f in feeds for a in ('--input', f)), '--threads', str(threads), '-o', self.path('out.npz'))
        return self.outputs(self.path('out.npz'))

    def compiled(self, name, *options):
        log = self.path('log.json')
        self.tool('compile', OPS, *options, '--fusion-result', log, '-o', self.path(name))
        with open(log) as f:
            done = json.load(f)['session_and_graph_id_0_0']['ub_fusion']
        return self.path(name), int(done.get('finite', {'effect_times': '0'})['effect_times'])

    def test_one_number_of_each_gradient(self):
        """The check answers the same with the fusion, where it reads what kernels noted, and without; gradients have the same bits."""
        fused, hits = self.compiled('fused.htx')
        apart, misses = self.compiled('apart.htx', '--fusion_switch_file', self.path('off.cfg', OFF))
        self.assertEqual((hits, misses), (8, 0))  # all but the scattered one, the input, and what only the check reads
        for name in SUMMANDS:
            self.summand(name)
        plain = self.outcome(fused, 1)
        for program, threads in (fused, 2), (apart, 1):
            self.assertEqual(self.outcome(program, threads), plain)
        self.assertTrue(finite(plain))
        for name, (shape, values) in SUMMANDS.items():
            last = math.prod(shape) - 1
            for at in 0, last:
                for value in values:
                    self.summand(name, at, value)
                    for threads in 1, 2:
                        self.assertFalse(finite(self.outcome(fused, threads)), (name, at, value, threads))
            self.assertFalse(finite(self.outcome(apart, 1)), name)
            if name in FINE:
                self.summand(name, last // 2, FINE[name])
                self.assertTrue(finite(self.outcome(fused, 1)), (name, FINE[name]))
            self.summand(name)

    def test_profile_names_what_is_read(self):
        """Steps of the check are named by the gradients that they read; without the fusion they are all but those without elements."""
        for name in SUMMANDS:
            self.summand(name)
        feeds = [*self.inputs, *(f'bad/{name}=@{self.path(f"bad-{name}.npy")}' for name in SUMMANDS)]
        for options, more in ([], []), (['--fusion_switch_file', self.path('off.cfg', OFF)],
                                        ['added', 'double', 'filter', 'flat', 'half', 'low', 'short', 'sum']):
            said = self.tool('run', OPS, *options, *(a for f in feeds for a in ('--input', f)), '--profile-table', '--format', 'json').stdout
            read = [k['node'] for k in json.loads(said)['profile']['kernels'] if k['op'] == '_AllFinite']
            self.assertEqual(sorted(read), sorted(['finite', *(f'finite/{n}' for n in ['sparse', 'bad/given', 'alone', *more])]))

    def test_targets(self):
        """On lesser machines, whose code has other vectors and no masks."""
        for target in 'x86-64', 'x86-64-v3':
            fused, _ = self.compiled('fused.htx', '--target', target)
            for name in SUMMANDS:
                self.summand(name)
            self.assertTrue(finite(self.outcome(fused, 2)), target)
            for name, (shape, values) in SUMMANDS.items():
                self.summand(name, math.prod(shape) - 1, values[-1])
                self.assertFalse(finite(self.outcome(fused, 1)), (target, name))
                self.summand(name)

    # ---- trainings ----

    BOOSTED = {'w': (300, 200), 'b': (200,), 'v': (200, 1), 'rows': (2, 200)}

    def schedule(self):
        """Feeds of a training: in a step that is skipped one factor of one gradient is not finite.  Returns them and which steps are."""
        cases = [(name, at, value) for name, shape in self.BOOSTED.items() for at in (0, math.prod(shape) - 1) for value in (math.nan, INF)]
        steps = [step for case in cases for step in (case, None)]
        feeds = []
        for name, shape in self.BOOSTED.items():
            values = [1.] * (math.prod(shape) * len(steps))
            for i, step in enumerate(steps):
                if step and step[0] == name:
                    values[i * math.prod(shape) + step[1]] = step[2]
            feeds += ['--feed', f'boost/{name}=@{self.put("boost/" + name, (len(steps), *shape), values)}']
        return feeds, [step is not None for step in steps]

    def trained(self, folder, feeds, steps, *options):
        """The log's lines of steps, and the bytes of the variables behind the last step."""
        log, save = self.path(folder + '.ndjson'), self.path(folder)
        self.tool('train', STEP, '--data', f'x=@{self.x}', '--data', f'y=@{self.y}', '--loss', 'loss', '--train-op', 'train', '--batch', '8',
                  '--no-cache', '--steps', str(steps), '--save', save, '--log', log, '--seed', '3', *feeds, *options)
        with open(log) as f:
            lines = [json.loads(line) for line in f]
        with open(os.path.join(save, f'ckpt-{steps}.data-00000-of-00001'), 'rb') as f:
            return [line for line in lines if 'skipped' in line and 'loss' in line], f.read()

    def test_steps_are_skipped(self):
        """Steps are skipped where one number of one gradient is not finite, and only there; all other bits are those without the fusion."""
        self.x, self.y = self.put('x', (16, 300), wave(4800)), self.put('y', (16, 1), wave(16))
        feeds, skipped = self.schedule()
        off = '--fusion_switch_file', self.path('off.cfg', OFF)
        for policy in 'must_keep_origin_dtype', 'allow_mix_precision_fp16', 'allow_mix_precision_bf16':
            runs = [self.trained(f'{policy}{i}', feeds, len(skipped), '--policy', policy, '--loss-scale', 'fixed:64', *more)
                    for i, more in enumerate((['--threads', '1'], ['--threads', '2'], ['--threads', '1', *off]))]
            for lines, variables in runs:
                self.assertEqual([bool(line['skipped']) for line in lines], skipped, policy)
                self.assertEqual(variables, runs[0][1], policy)
                self.assertEqual([line['loss'] for line in lines], [line['loss'] for line in runs[0][0]], policy)

    def test_rows_that_data_decide(self):
        """Rows of a gradient that a run does not have do not count, whatever is in their memory; those that it has do."""
        n, width = 40, 24
        x = self.put('x', (n, width), wave(n * width))
        for rows in range(0, n, 7), range(n - 1), range(n):
            mask = self.put('mask', (n,), [float(i in rows) for i in range(n)])
            for bad in None, 1, rows[0], rows[-1]:
                boost = [math.inf if i // width == bad and i % width == 5 else 1. for i in range(n * width)]
                data = f'x=@{x}', f'mask=@{mask}', f'boost=@{self.put("boost", (n, width), boost)}'
                for more in [], ['--threads', '2'], ['--fusion_switch_file', self.path('off.cfg', OFF)]:
                    self.tool('train', ROWS, *(a for of in data for a in ('--data', of)), '--loss', 'loss', '--train-op', 'train', '--batch', str(n),
                              '--no-cache', '--steps', '3', '--loss-scale', 'fixed:64', '--log', self.path('log.ndjson'), *more)
                    with open(self.path('log.ndjson')) as f:
                        skipped = [bool(line['skipped']) for line in map(json.loads, f) if 'skipped' in line and 'loss' in line]
                    self.assertEqual(skipped, [bad in rows] * 3, (rows, bad, more))

    def test_moved_rows_that_data_decide(self):
        """Likewise of what is made of such a gradient along its other axis.  The first step has all rows and leaves numbers that are not
        finite in all of the memory; the second one has fewer rows."""
        n, width, few = 40, 24, 7
        data = {'x': ((2 * n, width), wave(2 * n * width)), 'mask': ((2 * n,), [1.] * n + [float(i < few) for i in range(n)]),
                'boost': ((2 * n, width), [math.nan] * (n * width) + [1.] * (n * width))}
        feeds = [a for name, of in data.items() for a in ('--data', f'{name}=@{self.put(name, *of)}')]
        with open(JOINED) as f:
            text = f.read()
        for norm in re.findall(r'^%(\w+)/norm = ', text, re.M):
            model = self.path('joined.hir', re.sub('%norm = .*', f'%norm = Identity(%{norm}/norm) {{T=f32}}', text).encode())
            for more in [], ['--threads', '2'], ['--fusion_switch_file', self.path('off.cfg', OFF)]:
                self.tool('train', model, *feeds, '--loss', 'loss', '--train-op', 'train', '--batch', str(n), '--no-shuffle', '--no-cache', '--steps', '2',
                          '--loss-scale', 'fixed:64', '--log', self.path('log.ndjson'), *more)
                with open(self.path('log.ndjson')) as f:
                    skipped = [bool(line['skipped']) for line in map(json.loads, f) if 'skipped' in line and 'loss' in line]
                self.assertEqual(skipped, [True, False], (norm, more))


def finite(outputs):
    return outputs['finite.npy'][2][0]


if __name__ == '__main__':
    unittest.main()
