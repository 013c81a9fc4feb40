#!/usr/bin/env python3
"""halftone train: data, feeds and schedules, evaluations, what is refused, checkpoints that survive a kill, a full disk and
flipped bits, and runs that go on with the same bits.  Against TensorFlow: tests/train/."""
import csv, glob, json, math, os, random, re, resource, signal, struct, subprocess, time, unittest

from tool import HERE, TOOL, ToolCase, floats, npy, read_npy

MODEL = os.path.join(HERE, 'train.hir')
WEIGHTS = (1.5, -2.0, 0.5, 3.0)
ROWS = 50
# A step whose weights have COLUMNS columns.
SMALL_STEP = '''hir 1
entry "" {
  input "x" = %x
  output "loss" = %loss
}
%x = Placeholder() {dtype=f32, shape=shape[?,4]}
%axes = Const() {dtype=i32, value=tensor i32[2] {0, 1}}
%rate = Const() {dtype=f32, value=tensor f32[] {0.01}}
%bias = Const() {dtype=f32, value=tensor f32[COLUMNS] {0.5 ...}}
%w = VarHandleOp() {container="", dtype=f32, shape=shape[4,COLUMNS], shared_name="w"}
%w/start = Const() {dtype=f32, value=tensor f32[4,COLUMNS] {0.25 ...}}
%w/Assign = AssignVariableOp(%w, %w/start) {dtype=f32}
%init = NoOp(^w/Assign)
%w/read = ReadVariableOp(%w) {dtype=f32}
%product = MatMul(%x, %w/read) {T=f32, transpose_a=false, transpose_b=false}
%y = AddV2(%product, %bias) {T=f32}
%squares = Square(%y) {T=f32}
%loss = Sum(%squares, %axes) {T=f32, Tidx=i32, keep_dims=false}
%gradient = MatMul(%x, %y) {T=f32, transpose_a=true, transpose_b=false}
%update = ResourceApplyGradientDescent(%w, %rate, %gradient) {T=f32, use_locking=false}
%train = NoOp(^update)
'''

# The gradients begin at a tensor that the loss has, too, filled by a shape that is no constant: such tensors become one early.  The power that a step
# multiplies waits for the update, and is multiplied by what the update takes, as Adam's are.
SHARED = '''hir 1
entry "" {
  input "x" = %x
  output "loss" = %loss
}
%x = Placeholder() {dtype=f32, shape=shape[?,4]}
%beta = Const() {dtype=f32, value=tensor f32[] {0.01}}
%axes = Const() {dtype=i32, value=tensor i32[2] {0, 1}}
%w = VarHandleOp() {container="", dtype=f32, shape=shape[4,4], shared_name="w"}
%w/start = Const() {dtype=f32, value=tensor f32[4,4] {0.25 ...}}
%w/Assign = AssignVariableOp(%w, %w/start) {dtype=f32}
%power = VarHandleOp() {container="", dtype=f32, shape=shape[], shared_name="power"}
%power/Assign = AssignVariableOp(%power, %beta) {dtype=f32}
%init = NoOp(^w/Assign, ^power/Assign)
%w/read = ReadVariableOp(%w) {dtype=f32}
%power/read = ReadVariableOp(%power) {dtype=f32}
%product = MatMul(%x, %w/read) {T=f32, transpose_a=false, transpose_b=false}
%shape = Shape(%x) {T=f32, out_type=i32}
%one = Const() {dtype=f32, value=tensor f32[] {1}}
%ones = Fill(%shape, %one) {T=f32, index_type=i32}
%y = Sub(%product, %ones) {T=f32}
%loss = Sum(%y, %axes) {T=f32, Tidx=i32, keep_dims=false}
%seed/one = Const() {dtype=f32, value=tensor f32[] {1}}
%seed = Fill(%shape, %seed/one) {T=f32, index_type=i32}
%gradient = MatMul(%x, %seed) {T=f32, transpose_a=true, transpose_b=false}
%update = ResourceApplyGradientDescent(%w, %beta, %gradient) {T=f32, use_locking=false}
%next = Mul(%power/read, %beta, ^update) {T=f32}
%power/update = AssignVariableOp(%power, %next) {dtype=f32}
%train = NoOp(^power/update)
'''


# A layer of three classes, whose labels are fed.
CLASSES = '''hir 1
entry "" {
  input "x" = %x
  input "labels" = %labels
  output "loss" = %loss
}
%x = Placeholder() {dtype=f32, shape=shape[?,4]}
%labels = Placeholder() {dtype=i32, shape=shape[?]}
%rate = Const() {dtype=f32, value=tensor f32[] {0.01}}
%axes = Const() {dtype=i32, value=tensor i32[1] {0}}
%w = VarHandleOp() {container="", dtype=f32, shape=shape[4,3], shared_name="w"}
%w/start = Const() {dtype=f32, value=tensor f32[4,3] {0.25 ...}}
%w/Assign = AssignVariableOp(%w, %w/start) {dtype=f32}
%w/read = ReadVariableOp(%w) {dtype=f32}
%logits = MatMul(%x, %w/read) {T=f32, transpose_a=false, transpose_b=false}
%loss/each = SparseSoftmaxCrossEntropyWithLogits(%logits, %labels) {T=f32, Tlabels=i32}
%loss = Sum(%loss/each, %axes) {T=f32, Tidx=i32, keep_dims=false}
%gradient = MatMul(%x, %loss/each:1) {T=f32, transpose_a=true, transpose_b=false}
%train = ResourceApplyGradientDescent(%w, %rate, %gradient) {T=f32, use_locking=false}
'''

# The gradients begin at a constant that the loss reads, too, as in a graph whose equal constants were merged.  The rate of the step, which is spelled
# out in elementary ops, is a constant of the gradients alone.
MERGED = SHARED.replace('%seed = Fill(%shape, %seed/one) {T=f32, index_type=i32}', '%seed = Fill(%shape, %one) {T=f32, index_type=i32}').replace(
    '%seed/one = Const() {dtype=f32, value=tensor f32[] {1}}\n', '').replace(
    '%update = ResourceApplyGradientDescent(%w, %beta, %gradient) {T=f32, use_locking=false}',
    '%rate = Const() {dtype=f32, value=tensor f32[] {0.01}}\n%change = Mul(%gradient, %rate) {T=f32}\n'
    '%update = AssignSubVariableOp(%w, %change) {dtype=f32}')

# Adam, spelled out in elementary ops; the loss is not linear, so that gradients differ from row to row.
ADAM = MERGED.replace('%loss = Sum(%y, %axes)', '%square = Square(%y) {T=f32}\n%loss = Sum(%square, %axes)').replace(
    '%gradient = MatMul(%x, %seed)', '%two = Const() {dtype=f32, value=tensor f32[] {2}}\n%twice = Mul(%y, %two) {T=f32}\n'
    '%slope = Mul(%seed, %twice) {T=f32}\n%gradient = MatMul(%x, %slope)')
ADAM = ADAM[:ADAM.index('%change =')] + '''%m = VarHandleOp() {container="", dtype=f32, shape=shape[4,4], shared_name="m"}
%v = VarHandleOp() {container="", dtype=f32, shape=shape[4,4], shared_name="v"}
%zero = Const() {dtype=f32, value=tensor f32[4,4] {0 ...}}
%m/Assign = AssignVariableOp(%m, %zero) {dtype=f32}
%v/Assign = AssignVariableOp(%v, %zero) {dtype=f32}
%m/read = ReadVariableOp(%m) {dtype=f32}
%v/read = ReadVariableOp(%v) {dtype=f32}
%b = Const() {dtype=f32, value=tensor f32[] {0.9}}
%1-b = Const() {dtype=f32, value=tensor f32[] {0.1}}
%m/old = Mul(%m/read, %b) {T=f32}
%m/new = Mul(%1-b, %gradient) {T=f32}
%m/next = AddV2(%m/old, %m/new) {T=f32}
%g2 = Square(%gradient) {T=f32}
%v/old = Mul(%v/read, %b) {T=f32}
%v/new = Mul(%g2, %1-b) {T=f32}
%v/next = AddV2(%v/old, %v/new) {T=f32}
%root = Sqrt(%v/next) {T=f32}
%away = AddV2(%root, %beta) {T=f32}
%ratio = RealDiv(%m/next, %away) {T=f32}
%change = Mul(%rate, %ratio) {T=f32}
%m/update = AssignVariableOp(%m, %m/next) {dtype=f32}
%v/update = AssignVariableOp(%v, %v/next) {dtype=f32}
%update = AssignSubVariableOp(%w, %change, ^m/update, ^v/update) {dtype=f32}
''' + ADAM[ADAM.index('%next ='):]

# Variables that only functions name.
WITHIN = '''hir 1
entry "" {
  input "x" = %x
  output "loss" = %loss
}
%x = Placeholder() {dtype=f32, shape=shape[?,4]}
%start = Const() {dtype=f32, value=tensor f32[4] {1 ...}}
%init/w = VarHandleOp() {container="", dtype=f32, shape=shape[4], shared_name="w"}
%init/other = VarHandleOp() {container="", dtype=f32, shape=shape[4], shared_name="other"}
%w/Assign = AssignVariableOp(%init/w, %start) {dtype=f32}
%other/Assign = AssignVariableOp(%init/other, %start) {dtype=f32}
%init = NoOp(^w/Assign, ^other/Assign)
%loss = StatefulPartitionedCall(%x) {Tin=[f32], Tout=[f32], f=@loss_of{}}
%train = StatefulPartitionedCall(%x) {Tin=[f32], Tout=[f32], f=@step_of{}}
%train_other = StatefulPartitionedCall(%x) {Tin=[f32], Tout=[f32], f=@step_of_other{}}

function "loss_of" {
  signature "\\n\\x07loss_of"
  arg "a" = %a
  ret "r" = %r
  %a = _Arg() {T=f32, index=0}
  %h = VarHandleOp() {container="", dtype=f32, shape=shape[4], shared_name="w"}
  %w = ReadVariableOp(%h) {dtype=f32}
  %p = Mul(%a, %w) {T=f32}
  %s = Square(%p) {T=f32}
  %axes = Const() {dtype=i32, value=tensor i32[2] {0, 1}}
  %r = Sum(%s, %axes) {T=f32, Tidx=i32, keep_dims=false}
}
''' + ''.join('''
function "NAME" {
  signature "\\n\\xSIZENAME"
  arg "a" = %a
  ret "r" = %r
  control_ret "c" = ^u
  %a = _Arg() {T=f32, index=0}
  %h = VarHandleOp() {container="", dtype=f32, shape=shape[4], shared_name="VARIABLE"}
  %rows = Const() {dtype=i32, value=tensor i32[1] {0}}
  %g = Mean(%a, %rows) {T=f32, Tidx=i32, keep_dims=false}
  %u = AssignSubVariableOp(%h, %g) {dtype=f32}
  %r = Identity(%g, ^u) {T=f32}
}
'''.replace('NAME', name).replace('SIZE', f'{len(name):02x}').replace('VARIABLE', v) for name, v in (('step_of', 'w'), ('step_of_other', 'other')))


def rows(seed, n=ROWS):
    r = random.Random(seed)
    x = [[r.uniform(-1, 1) for _ in range(4)] for _ in range(n)]
    return x, [sum(a * b for a, b in zip(v, WEIGHTS)) for v in x]


class Train(ToolCase):
    def setUp(self):
        super().setUp()
        x, y = rows(1)
        self.xs = self.path('x.npy', npy('<f4', (ROWS, 4), floats(*(v for row in x for v in row))))
        self.ys = self.path('y.npy', npy('<f4', (ROWS, 1), floats(*y)))
        self.xs48 = self.path('x48.npy', npy('<f4', (48, 4), floats(*(v for row in x[:48] for v in row))))
        self.ys48 = self.path('y48.npy', npy('<f4', (48, 1), floats(*y[:48])))
        self.data = ['--data', f'x=@{self.xs}', '--data', f'y=@{self.ys}']
        self.names = ['--loss', 'loss', '--train-op', 'train']
        self.base = ['train', MODEL, *self.data, *self.names, '--feed', 'rate=0.05', '--batch', '8', '--no-cache']

    def at(self, name):
        return os.path.join(self.dir, name)

    def report(self, *args):
        return json.loads(self.tool(*self.base, '--format', 'json', *args).stdout)

    def bytes_of(self, folder, step):
        found = []
        for suffix in 'index', 'data-00000-of-00001':
            with open(os.path.join(folder, f'ckpt-{step}.{suffix}'), 'rb') as f:
                found.append(f.read())
        return found

    def losses(self, log):
        with open(log) as f:
            return [e['loss'] for e in map(json.loads, f) if e['event'] == 'step']

    # ---- training ----

    def test_learns(self):
        r = self.report('--steps', '300', '--eval', f'x=@{self.xs}', '--eval', f'y=@{self.ys}', '--eval-fetch', 'error')
        self.assertEqual(r['steps'], 300)
        self.assertLess(r['evaluation']['error'], 0.05)
        text = self.tool(*self.base, '--steps', '3').stdout.decode()
        self.assertRegex(text, r'^3 steps  loss [0-9.e-]+ ')

    def cheap_halves(self):
        """A table of costs in which float16 costs a tenth of float32, bfloat16 a fifth, and casts next to nothing."""
        table = os.path.join(HERE, '../../precision/data/x86-64-v4+bf16@znver4.costs')
        with open(table) as f:
            lines = [line.split() for line in f]
        wide = {(p[0], *p[2:5]): float(p[5]) for p in lines if p[1:2] == ['f32']}
        for p in lines:
            if p[1:2] and p[1] in ('f16', 'bf16'):
                p[5] = f'{wide[(p[0], *p[2:5])] * (.1 if p[1] == "f16" else .2):.6g}'
            if p and p[0] in ('round', 'narrow', 'widen', 'launch', 'pack'):
                p[5] = '0.001'
        return self.path('halves.costs', '\n'.join(' '.join(p) for p in lines).encode())

    def test_optimal(self):
        """Policy optimal on a step: low types where they are cheap, float16 gradients only by evidence, and trainings that learn."""
        costs = ['--cost-table', self.cheap_halves()]
        explain = ['explain', MODEL, '--outputs', 'loss,train', '--input-shape', 'x:8,4;y:8,1', '--policy', 'optimal', *costs]
        r = json.loads(self.tool(*explain, '--format', 'json').stdout)
        types = {n['node']: n['units'][0]['to'] for n in r['nodes'] if n['units']}
        self.assertEqual((types['product'], types['gradient']), ('bfloat16', 'bfloat16'))
        self.assertGreater(r['certificate']['alternatives'][0]['saved_bytes'], r['certificate']['saved']['bytes'])
        why = self.tool(*explain, '--why-not', 'f16', '--node', 'gradient').stdout.decode()
        self.assertIn('gradient underflow: without samples or a loss scale no gradient is float16', why)
        for more in ['--loss-scale', 'none'], ['--loss-scale', 'fixed:64'], ['--samples', '4:1']:
            log = self.at('log.ndjson')
            done = self.tool(*self.base, '--policy', 'optimal', *costs, '--steps', '200', '--log', log, *more)
            self.assertEqual(b'the model has no values for its variables' in done.stderr, '--samples' in more)
            losses = self.losses(log)
            self.assertTrue(all(math.isfinite(x) for x in losses), more)
            self.assertLess(sum(losses[-20:]), sum(losses[:20]) / 10, more)

    def test_optimal_keeps_a_bound_of_memory(self):
        """The cheapest types save more bytes of activations than allowed: others are taken, at a higher price; below the least, an error says it."""
        explain = ['explain', MODEL, '--outputs', 'loss,train', '--input-shape', 'x:8,4;y:8,1', '--policy', 'optimal',
                   '--cost-table', os.path.join(HERE, '../../precision/data/x86-64-v3@generic.costs'), '--format', 'json']
        def certificate(*more):
            return json.loads(self.tool(*explain, *more).stdout)['certificate']
        free = certificate()
        most = free['saved']['bytes']
        bound = certificate('--activation-memory', str(most - 1))
        self.assertLess(bound['saved']['bytes'], most)
        self.assertGreater(bound['price_ps'], free['price_ps'])
        self.assertIn(f'activation_memory: {most - 1} bytes', [a.get('refused') for a in bound['alternatives']])
        priced = [a for a in bound['alternatives'] if a['name'].endswith('for a saved byte')]
        self.assertTrue(any(not a.get('refused') for a in priced), priced)
        self.assertEqual(certificate('--activation-memory', '1G')['winner'], free['winner'])
        self.fails(6, 'activation_memory: 1 bytes of activations may be saved; the least that was found is', *explain, '--activation-memory', '1')
        self.fails(2, 'sizes such as 500M or 2G', *explain, '--activation-memory', '1Q')
        self.fails(2, 'activation_memory is for policy optimal', *self.base, '--steps', '1', '--policy', 'force_fp16', '--activation-memory', '1M')
        self.fails(2, 'does not go with budget', *explain, '--activation-memory', '1M', '--frontier', 'true')
        self.assertIn('activation_memory has no effect', self.tool('explain', MODEL, '--input-shape', 'x:8,4;y:8,1', '--policy', 'optimal', '--activation-memory', '1M').err)

    def test_prices_of_very_many_saved_bytes(self):
        """Forty tensors of four terabytes: the price of their bytes is no overflow of the price of a step."""
        n, tensors = 40, ['%x = Placeholder() {dtype=f32, shape=shape[?,250]}', '%w = VarHandleOp() {container="", dtype=f32, shape=shape[250,250], shared_name="w"}',
                          '%w/read = ReadVariableOp(%w) {dtype=f32}', '%a0 = MatMul(%x, %w/read) {T=f32, transpose_a=false, transpose_b=false}']
        tensors += [f'%a{i + 1} = Tanh(%a{i}) {{T=f32}}' for i in range(n)]
        tensors += ['%axes = Const() {dtype=i32, value=tensor i32[2] {0, 1}}', f'%loss = Mean(%a{n}, %axes) {{T=f32, Tidx=i32, keep_dims=false}}',
                    f'%b{n} = OnesLike(%a{n}) {{T=f32}}', *(f'%b{i} = TanhGrad(%a{i + 1}, %b{i + 1}) {{T=f32}}' for i in reversed(range(n))),
                    '%g = MatMul(%x, %b0) {T=f32, transpose_a=true, transpose_b=false}', '%rate = Const() {dtype=f32, value=tensor f32[] {0.1}}',
                    '%train = ResourceApplyGradientDescent(%w, %rate, %g) {T=f32, use_locking=false}']
        path = self.path('wide.hir', '\n'.join(['hir 1', 'entry "" {', '  input "x" = %x', '  output "loss" = %loss', '}', *tensors, '']).encode())
        self.fails(6, 'the least that was found is', 'explain', path, '--outputs', 'loss,train', '--input-shape', f'x:{2 ** 32 - 1},250', '--policy', 'optimal',
                   '--cost-table', os.path.join(HERE, '../../precision/data/x86-64-v3@generic.costs'), '--activation-memory', '1')

    def test_samples_begin_at_a_checkpoint(self):
        """Samples of a step begin at the values of the model's checkpoint, unless these are of another shape."""
        def model(columns):
            return self.path(f'of{columns}.hir', SMALL_STEP.replace('COLUMNS', str(columns)).encode())
        self.tool('convert', model(3), '--outputs', 'loss,train', '-o', self.at('step.pb'))
        with open(self.at('step.pb'), 'rb') as f:
            graph = f.read()
        size = bytes([len(graph) & 127 | 128, len(graph) >> 7])  # as a varint
        step = self.path('step.meta', b'\x12' + size + graph)
        rest = '--data', f'x=@{self.xs}', *self.names, '--batch', '8', '--no-cache', '--steps', '1', '--policy', 'optimal'
        for columns in 3, 2:
            self.tool('train', model(columns), *rest, '--save', self.at('save'))
            for suffix, data in zip(('index', 'data-00000-of-00001'), self.bytes_of(self.at('save'), 1)):
                self.path(f'step.{suffix}', data)
            if columns == 3:
                self.assertNotIn('has no values', self.tool('train', step, *rest, '--samples', '1:1').err)
            else:
                self.fails(3, 'the checkpoint has another type or shape', 'train', step, *rest, '--samples', '1:1')

    def test_artefact_of_entries(self):
        """compile --entry: a step in two precisions and an evaluation, over the same variables, whose values are the model's."""
        htx = self.at('m.htx')
        command = ['compile', MODEL, '--entry', 'step=loss,train', '--entry', 'evaluation=error',
                   '--policy', 'must_keep_origin_dtype,allow_mix_precision_bf16', '--input-shape', 'x:8,4;y:8,1', '--target', 'x86-64-v3', '-q', '--no-cache']
        r = json.loads(self.tool(*command, '-o', htx, '--format', 'json').stdout)
        self.assertEqual([(v['entry'], v['policy']) for v in r['variants']],
                         [(e, p) for e in ('step', 'evaluation') for p in ('must_keep_origin_dtype', 'allow_mix_precision_bf16')])
        manifest = json.loads(self.tool('inspect', htx).stdout)
        self.assertEqual(sorted(v['name'] for v in manifest['variables']), ['step', 'w', 'w/slot'])
        self.assertEqual([v['entry'] for v in manifest['variants']], ['step', 'step', 'evaluation', 'evaluation'])
        with open(htx, 'rb') as f:
            before = f.read()
        self.tool(*command, '-o', htx)
        with open(htx, 'rb') as f:
            self.assertEqual(f.read(), before)
        # halftone train of the artefact: the bits of the model's training, with a change of precision inside, and resumed.
        same = ['--target', 'x86-64-v3', '--steps', '9', '--accelerate-train-mode', 'phases=fast1:4,original', '--seed', '1']
        stored = ['train', htx, *self.data, '--loss', 'loss', '--feed', 'rate=0.05', '--batch', '8', '--no-cache']
        evaluation = ['--eval', f'x=@{self.xs48}', '--eval', f'y=@{self.ys48}', '--eval-fetch', 'error']
        model = self.report(*same, '--save', self.at('a'), *evaluation)
        made = json.loads(self.tool(*stored, *same, '--save', self.at('b'), *evaluation, '--format', 'json').stdout)
        self.assertEqual((made['loss'], made['evaluation'], [p['policy'] for p in made['phases']]),
                         (model['loss'], model['evaluation'], [p['policy'] for p in model['phases']]))
        self.tool(*stored, *same, '--steps', '6', '--save', self.at('c'))
        self.tool(*stored, *same, '--resume', self.at('c'), '--save', self.at('c'))
        self.assertEqual(self.bytes_of(self.at('c'), 9), self.bytes_of(self.at('b'), 9))
        for wrong, message in ((['--loss', 'error'], "is not 'error'"), (['--train-op', 'train'], 'compiled already'),
                               (['--feed', 'none=1'], 'no such input'), (['--batch', '4'], 'has those shapes')):
            self.fails(3 if '--batch' in wrong else 2, message, *stored, *same, *wrong)
        self.fails(2, 'need the model', *stored, '--steps', '2', '--seeds', '2')
        for what in ['run', '--runs', '3'], ['bench', '--runs', '3']:
            self.tool(*what, htx, '--entry', 'step', '--policy', 'allow_mix_precision_bf16', '--seed', '1')
        text = self.tool('run', htx, '--entry', 'evaluation', '--format', 'json').stdout
        self.assertEqual(json.loads(text)['outputs'][0]['name'], 'error')
        self.fails(2, 'no variant of this artefact is of that entry', 'run', htx, '--entry', 'none')
        self.fails(2, 'names a program of an artefact', 'run', MODEL, '--entry', 'step')
        self.fails(4, "in entry 'step' the variable is shared", 'aot', htx, '--entry', 'step', '-o', self.at('net'))
        for wrong, message in ((['--entry', 'step'], "'step' is not NAME=A,B"), (['--entry', 'step=error'], "'step' is stated twice"),
                               (['--outputs', 'error'], 'outputs of its own'), (['--loss-scale', 'dynamic'], 'needs the loss'),
                               (['--emit', 'plan'], 'stages are shown of one'), (['--input-shape', 'z:1'], "no entry has an input 'z'")):
            self.fails(2, message, *command, *wrong, '-o', self.at('wrong.htx'))
        self.assertFalse(os.path.exists(self.at('wrong.htx')))
        self.fails(2, 'has no effect without --entry', 'compile', MODEL, '--init-op', 'init')

    def test_dump_and_profile(self):
        """Of the steps; the variables get the bits that they get without."""
        evaluation = ['--eval', f'x=@{self.xs}', '--eval', f'y=@{self.ys}']
        self.tool(*self.base, '--steps', '6', '--save', self.at('plain'), *evaluation)
        dumped, trace = self.at('dump'), self.at('trace.json')
        said = self.tool(*self.base, '--steps', '6', '--save', self.at('dumped'), '--dump', dumped, '--dump_step', '0|3-4', *evaluation).err
        self.assertIn('the tensors of 3 of 6 runs are in ' + dumped, said)
        self.assertEqual(sorted(os.listdir(glob.glob(dumped + '/*/0/train/1')[0])), ['0', '3', '4'])
        r = self.report('--steps', '6', '--save', self.at('traced'), '--profile-table', '--trace', trace, *evaluation)
        self.assertEqual(r['profile']['runs'], 6)
        self.assertTrue(all(k['executions'] == 6 for k in r['profile']['kernels']))
        with open(trace) as f:
            self.assertEqual(len([e for e in json.load(f)['traceEvents'] if e.get('cat') == 'run']), 6)
        for folder in 'dumped', 'traced':
            self.assertEqual(self.bytes_of(self.at(folder), 6), self.bytes_of(self.at('plain'), 6))
        self.fails(2, 'about one training', *self.base, '--steps', '6', '--dump', dumped, '--seeds', '2')
        self.fails(5, 'nowhere', *self.base, '--steps', '6', '--dump', '/proc/nowhere')

    def test_exception_dump(self):
        """A step that fails names its node and leaves what that failed with; the steps before it are done as without."""
        with open(MODEL) as f:
            text = f.read()
        text = text.replace('%loss = Mean(', '%seven = Const() {dtype=i32, value=tensor i32[] {7}}\n%divisor = Placeholder() {dtype=i32, shape=shape[]}\n'
                            '%quotient = FloorDiv(%seven, %divisor) {T=i32}\n%factor = Cast(%quotient) {SrcT=i32, DstT=f32, Truncate=false}\n'
                            '%mean = Mean(').replace('%seed =', '%loss = Mul(%mean, %factor) {T=f32}\n%seed =', 1)
        model, here = self.path('divides.hir', text.encode()), self.at('failed')
        schedule = self.path('divisor.npy', npy('<i4', (4,), struct.pack('<4i', 7, 7, 0, 7)))
        train = ['train', model, *self.base[2:], '--feed', f'divisor=@{schedule}']
        log = self.at('log.jsonl')
        for form in 'npy', 'dumpdata':
            r = self.fails(3, 'division by zero', *train, '--steps', '4', '--log', log, '--enable_exception_dump=1', '--dump_path', here, '--dump-format', form)
            self.assertIn("the operands of 'quotient' are in " + here, r.err)
            self.assertEqual(len(self.losses(log)), 2)
            os.remove(log)
        folder = here + '/extra-info/data-dump/0'
        got = {}
        for name in os.listdir(folder):
            self.assertRegex(name, r'^FloorDiv\.quotient\.[0-9]+\.0\.[0-9]{16}(\.input\.[01]\.npy)?$')
            with open(os.path.join(folder, name), 'rb') as f:
                got[name.split('.', 5)[-1] if name.endswith('npy') else 'message'] = f.read()
        self.assertEqual(sorted(got), ['input.0.npy', 'input.1.npy', 'message'])
        self.assertEqual([read_npy(got[f'input.{i}.npy'])[2] for i in range(2)], [[7], [0]])
        self.assertEqual(got['message'][-8:], struct.pack('<2i', 7, 0))
        self.tool(*train, '--steps', '2', '--log', log, '--enable_exception_dump=1')
        self.assertFalse(os.path.exists('extra-info'))

    def test_iterations(self):
        """The parts of each step between the named nodes, in the timeline, the table and the vendor's file."""
        trace, prof = self.at('i.json'), self.at('prof')
        points = ['--fp_point', 'product', '--bp_point', 'gradient']
        options = json.dumps({'output': prof, 'training_trace': 'on', 'task_trace': 'on'})
        r = self.report('--steps', '6', *points, '--profile-table', '--trace', trace, '--profiling_mode', '--profiling_options', options)['profile']
        i = r['iterations']
        self.assertEqual((i['iterations'], i['gaps'], i['forward'], i['backward']), (6, 5, 'product', 'gradient'))
        self.assertAlmostEqual(i['gap_ms'] + i['forward_backward_ms'] + i['refresh_ms'], i['ms'], 4)
        with open(trace) as f:
            events = json.load(f)['traceEvents']
        parts = {e['name']: e for e in events if e.get('cat') == 'iteration'}
        self.assertEqual(len(parts), 6 * 4 - 1)
        end = None
        for n in range(6):
            passes, refresh, whole = (parts['%s %d' % (name, n)] for name in ('FP_BP Time', 'Iteration Refresh', 'Iteration'))
            run = next(e for e in events if e['name'] == 'run %d' % n)
            inside = [e for e in events if e.get('cat') == 'kernel' and run['ts'] - .002 <= e['ts'] and e['ts'] + e['dur'] <= run['ts'] + run['dur'] + .002]
            self.assertAlmostEqual(passes['ts'], min(e['ts'] for e in inside if e['name'] == 'product'), 2)
            self.assertAlmostEqual(passes['ts'] + passes['dur'], max(e['ts'] + e['dur'] for e in inside if e['name'] == 'gradient'), 2)
            self.assertAlmostEqual(refresh['ts'] + refresh['dur'], run['ts'] + run['dur'], 2)
            self.assertAlmostEqual(whole['ts'], passes['ts'] if end is None else end, 2)
            if end is not None:
                self.assertAlmostEqual(parts['Data_aug Bound %d' % n]['ts'], end, 2)
            end = whole['ts'] + whole['dur']
            self.assertAlmostEqual(end, run['ts'] + run['dur'], 2)
        with open(glob.glob(prof + '/PROF_*/step_trace_*.csv')[0]) as f:
            table = list(csv.DictReader(f))
        self.assertEqual([(t['Iteration ID'], t['Data Aug Bound(us)'] == 'N/A') for t in table], [(str(n + 1), n == 0) for n in range(6)])
        for t in table:
            self.assertAlmostEqual(float(t['BP End(us)']) - float(t['FP Start(us)']), float(t['FP to BP Time(us)']), 2)
        self.assertAlmostEqual(sum(float(t['FP to BP Time(us)']) for t in table), 1000 * i['forward_backward_ms'], 1)
        text = self.tool(*self.base, '--steps', '3', *points, '--profile-table').stdout.decode()
        self.assertRegex(text, r"an iteration  share  3 iterations, from the kernel of 'product', backward to the kernel of 'gradient'\n"
                               r'.*data augmentation bound.*\n.*forward and backward\n.*iteration refresh')

    def test_iterations_that_are_found(self):
        """Without points: from the first kernel to the last one that changes no variable; in trainings this is the
        default, as in the vendor's system."""
        folder = self.at('found')
        os.mkdir(folder)
        self.tool(*self.base, '--steps', '4', '--profiling_mode', cwd=folder)
        with open(glob.glob(folder + '/PROF_*/step_trace_*.csv')[0]) as f:
            table = list(csv.DictReader(f))
        with open(glob.glob(folder + '/PROF_*/msprof_*.json')[0]) as f:
            events = json.load(f)['traceEvents']
        self.assertEqual(len(table), 4)
        passes = [e for e in events if e['name'].startswith('FP_BP Time')]
        for e, run in zip(passes, (e for e in events if e.get('cat') == 'run')):
            inside = [k for k in events if k.get('cat') == 'kernel' and run['ts'] - .002 <= k['ts'] <= run['ts'] + run['dur']]
            self.assertAlmostEqual(e['ts'], run['ts'], 2)
            last = max((k for k in inside if not re.search('Apply|Assign', k['args']['op'])), key=lambda k: k['ts'])
            self.assertAlmostEqual(e['ts'] + e['dur'], last['ts'] + last['dur'], 2)

    def test_points_that_are_none(self):
        train = [*self.base, '--steps', '2', '--trace', self.at('none.json')]
        self.assertRegex(self.tool(*train, '--fp_point', 'squares').err, r"train.hir: note: fp_point: node 'squares' is in the kernel of 'loss', which counts")
        self.fails(3, r"train.hir: error: fp_point: the model has no node 'gradiant'; did you mean 'gradient'\?", *train, '--fp_point', 'gradiant')
        self.fails(3, r"train.hir: error: node 'keep' \(Const\): bp_point: no kernel computes this node", *train, '--bp_point', 'keep')
        self.assertIn('no run began fp_point and then ended bp_point', self.tool(*train, '--fp_point', 'update', '--bp_point', 'product').err)
        self.assertIn('fp_point and bp_point count only with', self.tool(*self.base, '--steps', '2', '--fp_point', 'product').err)
        htx = self.at('none.htx')
        self.tool('compile', MODEL, '--entry', 'step=loss,train', '--input-shape', 'x:8,4;y:8,1', '-o', htx, '-q', '--no-cache')
        stored = ['train', htx, *self.data, '--loss', 'loss', '--feed', 'rate=0.05', '--batch', '8', '--steps', '2', '--trace', self.at('none.json')]
        self.tool(*stored, '--fp_point', 'product')
        self.fails(3, "fp_point: the program has no kernel that is named after a node 'squares'", *stored, '--fp_point', 'squares')

    def test_dump_and_profile_of_phases(self):
        """Each precision is a program of its own: in the dump a folder, in the timeline a process; steps have their numbers."""
        dumped, trace, phases = self.at('dump'), self.at('trace.json'), ['--accelerate-train-mode', 'phases=fast1:2,original:2,fast1:2']
        self.tool(*self.base, *phases, '--steps', '6', '--save', self.at('plain'))
        said = self.tool(*self.base, *phases, '--steps', '6', '--save', self.at('dumped'), '--dump', dumped, '--dump_step', '0|3-4').err
        self.assertIn('the tensors of 3 of 6 runs are in ' + dumped, said)
        self.assertEqual(sorted(glob.glob('*/*', root_dir=glob.glob(dumped + '/*/0/train')[0])), ['1/0', '1/4', '2/3'])
        self.assertEqual(json.loads(self.tool('compare', dumped, dumped, '--format=json').stdout)['above'], 0)
        r = self.report(*phases, '--steps', '6', '--save', self.at('traced'), '--profile-table', '--trace', trace)
        self.assertEqual([(p['name'], p['runs']) for p in r['profiles']], [('fast1', 4), ('original', 2)])
        with open(trace) as f:
            t = json.load(f)
        self.assertEqual([e['args']['name'] for e in t['traceEvents'] if e['name'] == 'process_name'], ['fast1', 'original'])
        runs = sorted((e['ts'], e['pid'], e['name']) for e in t['traceEvents'] if e.get('cat') == 'run')
        self.assertEqual([r[1:] for r in runs], [(1, 'run 0'), (1, 'run 1'), (2, 'run 0'), (2, 'run 1'), (1, 'run 2'), (1, 'run 3')])
        for folder in 'dumped', 'traced':
            self.assertEqual(self.bytes_of(self.at(folder), 6), self.bytes_of(self.at('plain'), 6))

    def test_overflows_of_a_training_that_diverges(self):
        """It fails, and says where the operands of what overflowed are."""
        os.mkdir(self.at('over'))
        r = self.fails(1, 'the loss .* is (NaN|infinite)', *[a.replace('rate=0.05', 'rate=1e30') for a in self.base], '--steps', '9', '--enable_dump_debug=true', '--dump_path', self.at('over'))
        self.assertRegex(r.err, '[1-9][0-9]* nodes overflowed; their tensors are in ' + self.at('over'))
        self.assertTrue(glob.glob(self.at('over') + '/*/0/train/1/*/*.output.0.npy'))

    def test_evaluation_is_of_every_row(self):
        """50 rows in batches of 8: the last is of 2."""
        log = self.at('log')
        every = self.report('--steps', '4', '--eval', f'x=@{self.xs}', '--eval', f'y=@{self.ys}', '--eval-fetch', 'error',
                            '--eval-every', '2', '--log', log)
        with open(log) as f:
            events = [e['event'] for e in map(json.loads, f)]
        self.assertEqual(events, ['step', 'step', 'evaluation'] * 2)
        whole = self.report('--steps', '4', '--eval', f'x=@{self.xs}', '--eval', f'y=@{self.ys}', '--eval-fetch', 'error')
        self.assertAlmostEqual(every['evaluation']['error'], whole['evaluation']['error'], 12)

    def test_tensor_called_as_a_member_of_the_log(self):
        with open(MODEL) as f:
            text = re.sub(r'([%^])step\b', r'\1number', f.read())
        model, log = self.path('step.hir', re.sub(r'%error\b', '%step', text).encode()), self.at('log')
        self.base[1] = model
        made = self.report('--steps', '2', '--eval', f'x=@{self.xs}', '--eval', f'y=@{self.ys}', '--eval-fetch', 'step', '--log', log)
        with open(log) as f:
            last = [json.loads(line) for line in f][-1]
        self.assertEqual((last['event'], last['step'], last['values']), ('evaluation', 2, made['evaluation']))

    def test_order(self):
        logs = [self.at(f'log{i}') for i in range(4)]
        for log, more in zip(logs, ([], [], ['--seed', '2'], ['--no-shuffle'])):
            self.tool(*self.base, '--steps', '5', '--log', log, *more)
        first, again, other, plain = map(self.losses, logs)
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertNotEqual(first, plain)

    def test_threads_do_not_matter(self):
        for n in 1, 2:
            self.tool(*self.base, '--steps', '6', '--threads', str(n), '--save', self.at(f't{n}'))
        self.assertEqual(self.bytes_of(self.at('t1'), 6), self.bytes_of(self.at('t2'), 6))

    def test_schedule(self):
        rates = self.path('rates.npy', npy('<f4', (5,), floats(*[0.05] * 5)))
        same = [self.at('a'), self.at('b')]
        self.tool(*self.base, '--steps', '5', '--log', same[0])
        plain = [a for a in self.base if a not in ('--feed', 'rate=0.05')]
        self.tool(*plain, '--feed', f'rate=@{rates}', '--steps', '5', '--log', same[1])
        self.assertEqual(*map(self.losses, same))
        self.fails(3, r'a schedule of 5 values for 6 steps', *plain, '--feed', f'rate=@{rates}', '--steps', '6')

    def test_archive(self):
        import zipfile
        path = self.at('all.npz')
        with zipfile.ZipFile(path, 'w') as z:
            for n in 'x', 'y':
                with open(self.at(n + '.npy'), 'rb') as f:
                    z.writestr(n + '.npy', f.read())
        logs = self.at('a'), self.at('b')
        self.tool(*self.base, '--steps', '4', '--log', logs[0])
        self.tool('train', MODEL, '--data', f'x=@{path}#x', '--data', f'y=@{path}#y', *self.names, '--feed', 'rate=0.05',
                  '--batch', '8', '--no-cache', '--steps', '4', '--log', logs[1])
        self.assertEqual(*map(self.losses, logs))

    # ---- phases ----

    def phases(self, value, *more, steps=20, code=0):
        return self.tool(*self.base, '--steps', str(steps), '--accelerate-train-mode', value, '--format', 'json', *more, code=code)

    def steps_of(self, *args, **more):
        return [p['steps'] for p in json.loads(self.phases(*args, **more).stdout)['phases']]

    def test_phases_by_step(self):
        """Low precision until STEP_NOW >= floor(TOTAL x ratio), or until one step is left."""
        for value, steps, want in (('fast1|step|0.5', 20, [10, 10]), ('fast|step', 20, [18, 2]), ('fast1|step|', 20, [18, 2]),
                                   ('fast1|step|0.33', 10, [3, 7]), ('fast1|step|0.9', 3, [2, 1])):
            self.assertEqual(self.steps_of(value, steps=steps), want, value)
        self.assertRegex(self.phases('fast|step|0.5').err, 'float16 without a loss scale')
        self.assertNotRegex(self.phases('fast|step|0.5', '--loss-scale', 'dynamic').err, 'without a loss scale')
        self.assertNotRegex(self.phases('fast1|step|0.5').err, 'loss scale')

    def test_phases_by_loss(self):
        log = self.at('log')
        low, original = self.steps_of('fast1|loss|1.1', '--target-loss', '1', '--log', log, steps=80)
        losses = self.losses(log)
        self.assertGreater(original, 0)
        self.assertTrue(all(x > 1.1 for x in losses[:low - 1]) and losses[low - 1] <= 1.1, (low, losses))

    def test_phases_are_those_of_the_policies(self):
        """A phase is what its policy alone computes, over the same variables; it goes on with the same bits."""
        whole, parts, low = self.at('whole'), self.at('parts'), self.at('low')
        self.phases('fast1|step|0.5', '--save', whole, '--save-every', '10')
        self.tool(*self.base, '--steps', '10', '--policy', 'allow_mix_precision_bf16', '--save', low)
        variables = slice(-40, None)  # what is before them has a note on the phase
        self.assertEqual(self.bytes_of(whole, 10)[1][variables], self.bytes_of(low, 10)[1][variables])
        self.tool(*self.base, '--steps', '20', '--resume', low, '--save', low)
        self.assertEqual(self.bytes_of(whole, 20)[1][variables], self.bytes_of(low, 20)[1][variables])
        by_loss = 'fast1|loss|1.1', '--target-loss', '1'
        self.phases(*by_loss, '--save', whole, steps=60)
        for steps in 7, 13, 60:
            self.phases(*by_loss, '--save', parts, *(['--resume', parts] if steps != 7 else []), steps=steps)
        self.assertEqual(self.bytes_of(whole, 60), self.bytes_of(parts, 60))

    def test_phases_back_and_forth(self):
        """A list of phases.  It gives the same bits as trainings that are resumed within phases, as one training for each policy that resumes
        from the checkpoint of the one before, and as loops of 8 steps, inside of which phases end at their exact steps."""
        stretches = 'phases=fast1:3,original:4,fast:2,fast1:5,original'
        whole, parts, hand, log = self.at('whole'), self.at('parts'), self.at('hand'), self.at('log')
        self.assertEqual(self.steps_of(stretches, '--save', whole, '--log', log), [3, 4, 2, 5, 6])
        with open(log) as f:
            self.assertEqual([(e['event'], e['step']) for e in map(json.loads, f) if e['event'] not in ('step', 'save')],
                             [('original precision', 3), ('fast', 7), ('fast1', 9), ('original precision', 14)])
        for steps in 2, 5, 12, 20:
            self.phases(stretches, '--save', parts, *(['--resume', parts] if steps != 2 else []), steps=steps)
        self.assertEqual(self.bytes_of(whole, 20), self.bytes_of(parts, 20))
        low, half = ['--policy', 'allow_mix_precision_bf16'], ['--policy', 'allow_mix_precision_fp16']
        for steps, policy in (3, low), (7, []), (9, half), (14, low), (20, []):
            self.tool(*self.base, '--steps', str(steps), *policy, '--save', hand, *(['--resume', hand] if steps != 3 else []))
        self.assertEqual(self.bytes_of(whole, 20)[1][-40:], self.bytes_of(hand, 20)[1][-40:])
        self.assertEqual(self.steps_of(stretches, '--iterations-per-loop', '8', '--save', parts), [3, 4, 2, 5, 6])
        self.assertEqual(self.bytes_of(whole, 20), self.bytes_of(parts, 20))

    def test_phases_of_a_configuration(self):
        """accelerate_train_mode and iterations_per_loop of a configuration are the options; what is typed counts before the file."""
        config, log = self.at('run.json'), self.at('log')
        with open(config, 'w') as f:
            json.dump({'iterations_per_loop': 4, 'experimental_config': {'accelerate_train_mode': 'fast1|step|0.5'}}, f)

        def steps(*more, code=0):
            return self.tool(*self.base, '--steps', '20', '--format', 'json', '--config', config, *more, code=code)
        self.assertEqual([p['steps'] for p in json.loads(steps('--log', log).stdout)['phases']], [10, 10])
        with open(log) as f:
            self.assertEqual([e['step'] for e in map(json.loads, f) if e['event'] == 'loop'], [4, 8, 12, 16, 20])
        self.assertEqual([p['steps'] for p in json.loads(steps('--accelerate-train-mode', 'fast1|step|0.25').stdout)['phases']], [5, 15])
        self.assertEqual([p['steps'] for p in json.loads(steps('--accelerate_train_mode=fast1|step|0.3').stdout)['phases']], [6, 14])
        self.assertIn('accelerate_train_mode goes with no policy', steps('--precision_mode=force_fp16', code=2).err)
        self.assertIn("--iterations-per-loop: '0' is no number", steps('--iterations_per_loop=0', code=2).err)
        self.assertIn('is refused', self.tool('run', MODEL, '--config', config, code=4).err)

    def test_phases_report(self):
        r = json.loads(self.phases('fast|step|0.5', '--loss-scale', 'dynamic:64', *self.boost(*[1] * 9, 1e38, *[1] * 10)).stdout)
        self.assertEqual([p['skipped'] for p in r['phases']], [1, 0])
        self.assertEqual(r['phases'][1]['loss'], r['loss'])
        self.assertIsInstance(r['phases'][0]['saved'], float)
        self.assertIsNone(r['phases'][1]['saved'])
        text = self.tool(*self.base, '--steps', '4', '--accelerate-train-mode', 'fast1|step|0.5', '--loss-scale', 'fixed:2').stdout.decode()
        self.assertRegex(text, r'phase  allow_mix_precision_bf16  2 steps .* loss \S+  scale 2  0 skipped  saved ')

    def test_counters_of_the_environment(self):
        """The counters of the vendor's hook in the environment: steps and losses of earlier trainings count in the conditions."""
        def steps(environment, *args, code=0):
            r = self.tool(*self.base, '--steps', '20', '--format', 'json', '--accelerate-train-mode', *args, code=code, env=environment)
            return r.err if code else [p['steps'] for p in json.loads(r.stdout)['phases']]
        self.assertEqual(steps({'TOTAL_STEP': '40'}, 'fast1|step|0.25'), [10, 10])
        self.assertEqual(steps({'TOTAL_STEP': '40', 'STEP_NOW': '4'}, 'fast1|step|0.25'), [6, 14])
        self.assertEqual(steps({'STEP_NOW': '4'}, 'fast1|step|0.5'), [6, 14])
        self.assertEqual(steps({'LOSS_NOW': '0.5', 'TARGET_LOSS': '1'}, 'fast1|loss|1.1'), [0, 20])
        self.assertEqual(steps({'LOSS_NOW': '0', 'TARGET_LOSS': '1e-9'}, 'fast1|loss|1.1'), [20, 0])
        self.assertEqual(steps({'TARGET_LOSS': '1'}, 'fast1|loss|1.1', '--target-loss', '1e-9'), [20, 0])
        self.assertRegex(steps({'STEP_NOW': 'x'}, 'fast1|step', code=2), "STEP_NOW: 'x' is no number of steps; an example is STEP_NOW=1000")
        self.assertRegex(steps({'TOTAL_STEP': '-1'}, 'fast1|step', code=2), 'TOTAL_STEP: .* no number of steps')
        self.assertRegex(steps({'TARGET_LOSS': ''}, 'fast1|loss', code=2), 'TARGET_LOSS: .* no number; an example is TARGET_LOSS=0.5')

    def test_step_tensor(self):
        """Phases by step end by a tensor that counts steps: here of a training that begins with the variables of six steps, also resumed."""
        before, save = self.at('before'), self.at('s')
        self.tool(*self.base, '--steps', '6', '--save', before)
        counted = '--step-tensor', 'steps', '--restore', f'{before}/ckpt-6'
        self.assertEqual(self.steps_of('fast1|step|0.5', *counted[2:]), [10, 10])
        self.assertEqual(self.steps_of('fast1|step|0.5', *counted), [4, 16])
        self.assertEqual(self.steps_of('fast1|step|0.9', *counted, '--save', save, steps=3), [1, 2])
        self.assertEqual(self.steps_of('fast1|step|0.5', *counted, '--save', save, '--iterations-per-loop', '3'), [4, 16])

        def steps(count, *more):
            r = self.tool(*self.base, '--steps', str(count), '--format', 'json', '--accelerate-train-mode', 'fast1|step|0.5', '--step-tensor', 'steps',
                          '--save', self.at('t'), *more, env={'TOTAL_STEP': '20'})
            return [p['steps'] for p in json.loads(r.stdout)['phases']]
        self.assertEqual(steps(4, *counted[2:]), [4, 0])
        self.assertEqual(steps(20, '--resume', self.at('t')), [0, 16])
        self.assertIn("no effect without --accelerate-train-mode '…|step'", self.tool(*self.base, '--steps', '2', '--step-tensor', 'steps', code=2).err)
        self.assertIn('this has 4 elements of float32', self.phases('fast1|step', '--step-tensor', 'w/read', code=2).err)
        self.assertRegex(self.phases('fast1|step', '--step-tensor', 'keep', code=1).err, '--step-tensor keep: .* is no number of steps')

    def test_loops(self):
        """--iterations-per-loop changes no step: the log has a line for each loop, the last loop is shorter, and checkpoints are written at the
        ends of loops."""
        plain, loops, save, again = self.at('plain'), self.at('loops'), self.at('s'), self.at('t')
        self.tool(*self.base, '--steps', '11', '--log', plain, '--save', save, '--save-every', '6')
        r = self.tool(*self.base, '--steps', '11', '--log', loops, '--save', again, '--save-every', '6', '--iterations-per-loop', '4')
        self.assertRegex(r.err, 'the last loop has 3 steps instead of 4')
        with open(loops) as f:
            told = [e for e in map(json.loads, f) if e['event'] == 'loop']
        losses = self.losses(plain)
        self.assertEqual([(e['step'], e['steps'], e['loss']) for e in told], [(n, k, losses[n - 1]) for n, k in ((4, 4), (8, 4), (11, 3))])
        self.assertAlmostEqual(told[0]['mean_loss'], sum(losses[:4]) / 4, 6)
        self.assertEqual(self.bytes_of(save, 11), self.bytes_of(again, 11))
        self.assertTrue(os.path.exists(os.path.join(again, 'ckpt-8.index')) and not os.path.exists(os.path.join(again, 'ckpt-6.index')))
        # As on the vendor's device, low precision ends before the last loop.
        for n, want in ('1', [9, 1]), ('4', [8, 2]), ('5', [5, 5]):
            self.assertEqual(self.steps_of('fast1|step', '--iterations-per-loop', n, steps=10), want, n)

    def test_phases_refused(self):
        for value, said in (('fast', 'the format is wrong'), ('quick|step', "the first part, 'quick'"),
                            ('fast|time', "the second part, 'time'"), ('fast|step|0.95', "the third part, '0.95', is not from 0.2"),
                            ('fast|loss|1', "the third part, '1', is not from 1.01"), ('fast|step|nan', 'the third part')):
            r = self.phases(value, code=2)
            self.assertRegex(r.err, said)
        self.assertRegex(self.phases('fast|loss', code=2).err, 'need a target loss .--target-loss X., or TARGET_LOSS')
        for value in 'phases=', 'phases=fast1', 'phases=quick:3', 'phases=fast:0', 'phases=fast:3,', 'phases=fast,original', 'phases=fast:3x':
            if value != 'phases=fast1':  # valid: one phase to the end
                self.assertRegex(self.phases(value, code=2).err, 'the list is KIND:STEPS')
        self.assertRegex(self.phases('fast|step', '--policy', 'force_fp16', code=2).err, "goes with no policy.*'force_fp16'")
        self.assertRegex(self.phases('fast|step', '--target-loss', '1', code=2).err, '--target-loss has no effect')
        self.assertEqual(self.steps_of('fast1|step|0.5', '--policy', 'allow_fp32_to_fp16'), [10, 10])
        self.assertEqual(self.steps_of('fast1|step|0.5', '--precision_mode_v2=origin'), [10, 10])

    # ---- loss scale ----

    def boost(self, *values):
        return ['--feed', 'boost=@' + self.path('boost.npy', npy('<f4', (len(values),), floats(*values)))]

    def test_loss_scale_changes_no_bit(self):
        """A scale that is a power of two changes no loss of a training in float32."""
        logs = [self.at(f'log{i}') for i in range(3)]
        for log, scale in zip(logs, ('none', 'fixed:1024', 'fixed:4096,unchecked')):
            self.tool(*self.base, '--steps', '30', '--loss-scale', scale, '--log', log)
        plain, *others = map(self.losses, logs)
        self.assertEqual(others, [plain, plain])

    def test_loss_scale_of_gradients_that_begin_as_the_loss(self):
        """What the gradients begin at is found although the loss has an equal tensor."""
        model, logs = self.path('shared.hir', SHARED.encode()), [self.at(f'log{i}') for i in range(2)]
        for log, scale in zip(logs, ('none', 'fixed:1024')):
            self.tool('train', model, '--data', f'x=@{self.xs}', *self.names, '--batch', '8', '--no-cache', '--steps', '10', '--loss-scale', scale,
                      '--log', log)
        plain, scaled = map(self.losses, logs)
        self.assertEqual(scaled, plain)
        self.assertEqual(len(set(plain)), 10)

    def test_loss_scale_of_gradients_that_begin_at_a_constant_of_the_loss(self):
        """The gradients are scaled, and the loss is not: at a scale of 1e38 all gradients above 3.4 overflow."""
        model, logs = self.path('merged.hir', MERGED.encode()), [self.at(f'log{i}') for i in range(3)]
        base = ['train', model, '--data', f'x=@{self.xs}', *self.names, '--batch', '8', '--no-cache', '--steps', '10']
        for log, scale in zip(logs, ('none', 'fixed:1024', 'fixed:1e38')):
            self.tool(*base, '--loss-scale', scale, '--log', log)
        plain, scaled, large = map(self.losses, logs)
        self.assertEqual(scaled, plain)
        self.assertEqual(len(set(plain)), 10)
        with open(logs[2]) as f:
            self.assertTrue(any(e['skipped'] for e in map(json.loads, f)))
        self.assertTrue(all(math.isfinite(x) for x in large))

    def test_loss_scale_saves_small_gradients(self):
        """Gradients near 6e-8, the least positive float16, keep almost no digits in float16.  With a loss scale the training is nearly that
        in float32."""
        plain = [a for a in self.base if a not in ('--feed', 'rate=0.05')]
        small = [*plain, '--feed', 'boost=5.9604645e-08', '--feed', 'rate=838861', '--steps', '400', '--eval', f'x=@{self.xs}', '--eval',
                 f'y=@{self.ys}', '--eval-fetch', 'error', '--format', 'json']
        exact, without, scaled = (json.loads(self.tool(*small, *more).stdout)['evaluation']['error'] for more in (
            [], ['--policy', 'allow_mix_precision_fp16'], ['--policy', 'allow_mix_precision_fp16', '--loss-scale', 'fixed:4096']))
        self.assertGreater(abs(without - exact), 20 * abs(scaled - exact))

    def test_overflow_skips_the_step(self):
        """A step that overflows changes no weight, slot or number of steps.  The scale and its counters in the log and the report are those
        of the vendor's manager."""
        boost = self.boost(1, 1, 1e38, float('nan'), 1, 1, 1, 1)
        log, save = self.at('log'), self.at('s')
        every = ['--save', save, '--save-every', '1', '--keep', '0']
        r = self.report('--steps', '8', *boost, '--loss-scale', 'dynamic:1024,incr-every=3,decr-every=2,decr-ratio=0.5', '--log', log, *every)
        with open(log) as f:
            steps = [e for e in map(json.loads, f) if e['event'] == 'step']
        self.assertEqual([e['skipped'] for e in steps], [False, False, True, True, False, False, False, False])
        self.assertEqual([e['scale'] for e in steps], [1024, 1024, 1024, 512, 512, 512, 1024, 1024])
        self.assertEqual(r['loss_scale'], {'scale': 1024, 'good': 1, 'bad': 0, 'steps': 8, 'skipped': 2})
        values = [self.bytes_of(save, i)[1][-40:] for i in range(1, 9)]  # bytes of the number of steps, of w and of its slot
        self.assertEqual(len({values[1], values[2], values[3]}), 1)
        self.assertEqual(len(set(values)), 6)

    def test_loss_scale_goes_on(self):
        """A training that is resumed from checkpoints ends with the same bits as one without a break: variables, scale and counters."""
        boost = self.boost(*([1, 1, 1, 1e38, 1] * 5))
        scale = ['--loss-scale', 'dynamic:1e6,incr-every=3,decr-every=2', '--policy', 'allow_mix_precision_fp16']
        whole, parts = self.at('whole'), self.at('parts')
        self.tool(*self.base, '--steps', '25', *boost, *scale, '--save', whole)
        for steps in '4', '9', '25':
            self.tool(*self.base, '--steps', steps, *boost, *scale, '--save', parts, *(['--resume', parts] if steps != '4' else []))
        self.assertEqual(self.bytes_of(whole, 25), self.bytes_of(parts, 25))

    def test_evaluations_are_not_scaled(self):
        evaluation = ['--eval', f'x=@{self.xs}', '--eval', f'y=@{self.ys}', '--eval-fetch', 'loss,error']
        plain, scaled = (self.report('--steps', '5', *evaluation, '--loss-scale', s) for s in ('none', 'fixed:256'))
        self.assertEqual(plain['evaluation'], scaled['evaluation'])
        self.assertEqual(scaled['loss_scale']['steps'], 5)

    def test_loss_scale_diverges(self):
        r = self.tool(*self.base, '--steps', '200', '--feed', 'boost=inf', '--loss-scale', 'fixed:8', code=1)
        self.assertRegex(r.err, 'step 100: gradients overflow at loss scale 8, 100 of 100 steps were skipped')
        r = self.tool(*self.base, '--steps', '200', '--feed', 'boost=inf', '--loss-scale', 'dynamic:2', code=1)
        self.assertRegex(r.err, 'step 100: gradients overflow at loss scale 1,')

    def test_loss_scale_refused(self):
        for value, said in (('1024', 'it is of no kind'), ('fixed:0.5', 'a scale is a number from 1'), ('fixed:nan', 'a scale is a number'),
                            ('fixed:8,x', "only ',unchecked'"), ('dynamic:', 'a scale is a number'), ('dynamic,incr-every=0', 'incr-every is'),
                            ('dynamic,incr-every=1.5', 'incr-every is a whole'), ('dynamic,decr-ratio=2', 'decr-ratio is'),
                            ('dynamic:8,grow=2', 'a part is unknown')):
            self.fails(2, r"loss scale '" + value + "'.*" + said, *self.base, '--steps', '1', '--loss-scale', value)
        self.fails(4, r"node 'error': the gradients of this loss cannot be scaled", 'train', MODEL, *self.data, '--loss', 'error', '--train-op',
                   'w/Assign', '--steps', '1', '--loss-scale', 'dynamic')

    # ---- policies side by side ----

    def sides(self, *args, log=None):
        r = self.report('--steps', '12', *args, *(['--log', log] if log else []))
        told = {}
        if log:
            with open(log) as f:
                for e in map(json.loads, f):
                    told.setdefault((e['seed'], e['policy']), []).append((e['loss'], e['gradient_norm']))
        return r, told

    def test_sides_are_trainings(self):
        """Each side has the losses of a separate training of its policy, from the same start and on the same batches."""
        log, alone = self.at('log'), self.at('alone')
        policies = 'must_keep_origin_dtype', 'allow_mix_precision_bf16', 'allow_mix_precision_fp16'
        r, told = self.sides(*(x for p in policies for x in ('--policy', p)), '--seed', '3', '--seeds', '2', '--loss-scale', 'fixed:64', log=log)
        self.assertEqual([(s['policy'], s['null']) for s in r['sides']],
                         [*((p, False) for p in policies), ('must_keep_origin_dtype', True)])
        for p in policies:
            for seed in 3, 4:
                self.tool(*self.base, '--steps', '12', '--policy', p, '--seed', str(seed), '--loss-scale', 'fixed:64', '--log', alone)
                self.assertEqual([x for x, _ in told[seed, p]], self.losses(alone), (p, seed))
        first, low, null = ([x for x, _ in told[3, p]] for p in (policies[0], policies[1], 'null'))
        apart = [abs(a - b) / abs(b) for a, b in zip(low, first)]
        second = [abs(a[0] - b[0]) / abs(b[0]) for a, b in zip(told[4, policies[1]], told[4, policies[0]])]
        self.assertAlmostEqual(r['sides'][1]['loss']['largest'], max(apart + second), 6)
        self.assertTrue(any(a != b for a, b in zip(null, first)) and all(abs(a - b) < 1e-4 * b for a, b in zip(null, first)))
        self.assertEqual(r['sides'][1]['loss']['beyond_noise_from'], 1)
        self.assertIsNone(r['sides'][3]['loss']['beyond_noise_from'])

    def test_sides_tell_the_norm_of_gradients(self):
        """In the first step with momentum the norm of the gradients is the distance that the weights move, divided by the learning rate,
        with and without a loss scale."""
        log, save = self.at('log'), self.at('s')
        for scale in 'none', 'fixed:256':
            _, told = self.sides('--seeds', '1', '--loss-scale', scale, log=log)
            weights = []
            for steps in '0', '1':
                self.tool(*self.base, '--steps', steps, '--save', save)
                weights.append(struct.unpack('<4f', self.bytes_of(save, int(steps))[1][-32:-16]))
            far = sum((a - b) ** 2 for a, b in zip(*weights)) ** .5 / 0.05
            self.assertAlmostEqual(told[1, 'must_keep_origin_dtype'][0][1] / far, 1, 4)

    def test_sides_tell_norms_of_elementary_updates(self):
        """Gradients of optimisers in elementary ops: without rates and factors, each once; with a loss scale they are divided by it."""
        def norms(name, model, scale='none'):
            log = self.at('log')
            self.tool('train', self.path(f'{name}.hir', model.encode()), '--data', f'x=@{self.xs}', *self.names, '--batch', '8', '--no-cache',
                      '--steps', '2', '--seeds', '1', '--loss-scale', scale, '--log', log)
            with open(log) as f:
                return [e.get('gradient_norm') for e in map(json.loads, f) if e['policy'] == 'must_keep_origin_dtype']
        change = 'AssignSubVariableOp(%w, %change)'
        op = MERGED.replace(change + ' {dtype=f32}', 'ResourceApplyGradientDescent(%w, %rate, %gradient) {T=f32, use_locking=false}')
        self.assertEqual(norms('sgd', MERGED), norms('op', op))
        self.assertAlmostEqual(norms('sgd', MERGED, 'fixed:64')[0] / norms('op', op)[0], 1, 6)
        sgd = ADAM.replace('%update = AssignSubVariableOp(%w, %change,', '%sgd = Mul(%gradient, %rate) {T=f32}\n%update = AssignSubVariableOp(%w, %sgd,')
        self.assertEqual(norms('adam', ADAM)[0], norms('sgd', sgd)[0])
        # The gradient of one update is not found: none is told.
        lost = MERGED.replace(change, 'AssignSubVariableOp(%w, %lost)').replace(
            '%update =', '%size = L2Loss(%gradient) {T=f32}\n%lost = Fill(%lost/shape, %size) {T=f32, index_type=i32}\n%update =', 1).replace(
            '%rate =', '%lost/shape = Const() {dtype=i32, value=tensor i32[2] {4, 4}}\n%rate =')
        self.assertEqual(norms('lost', lost), [None, None])

    def test_variables_within_functions(self):
        model = self.path('within.hir', WITHIN.encode())
        alone = ['train', model, '--data', f'x=@{self.xs}', '--batch', '8', '--loss', 'loss', '--no-cache', '--steps', '1', '--train-op']
        self.tool(*alone, 'train')
        self.fails(2, r"node 'train_other' \(StatefulPartitionedCall\): the loss 'loss' does not depend on what a step of this changes: 'other'",
                   *alone, 'train_other')

    def test_sides_tell_memory(self):
        """Each side has the memory that a training of its policy alone has, also where the gradients are outputs for their norm."""
        policies = 'must_keep_origin_dtype', 'cube_fp16in_fp32out'  # their memory differs on every machine
        r, _ = self.sides(*(x for p in policies for x in ('--policy', p)), '--loss-scale', 'fixed:64')
        alone = [self.report('--steps', '12', '--policy', p, '--loss-scale', 'fixed:64')['memory'][0] for p in policies]
        for m in alone:
            m.pop('policy')
        self.assertNotEqual(*alone)
        self.assertEqual([s['memory'] for s in r['sides']], [*alone, alone[0]])
        text = self.tool(*self.base, '--steps', '5', '--policy', policies[1], '--seeds', '1').stdout.decode()
        self.assertRegex(text, r'must_keep_origin_dtype  loss .*\n    memory: \d+ bytes: .*\n' + policies[1] + r'  loss .*\n    memory: \d+ bytes')

    def test_sides_have_intervals(self):
        evaluation = ['--eval', f'x=@{self.xs}', '--eval', f'y=@{self.ys}', '--eval-fetch', 'error']
        r, _ = self.sides('--policy', 'allow_mix_precision_bf16', '--seeds', '4', *evaluation)
        self.assertEqual((r['metric'], r['seeds']), ('error', 4))
        first, low = r['sides'][0]['final'], r['sides'][1]['final']
        d = [a - b for a, b in zip(low, first)]
        mean = sum(d) / 4
        half = 3.182446305284263 * (sum((x - mean) ** 2 for x in d) / 3 / 4) ** .5
        self.assertAlmostEqual(r['sides'][1]['difference'], mean, 8)
        for got, want in zip(r['sides'][1]['interval'], (mean - half, mean + half)):
            self.assertAlmostEqual(got, want, 8)
        text = self.tool(*self.base, '--steps', '5', '--seeds', '3').stdout.decode()
        self.assertRegex(text, r'^5 steps from 3 starts\nmust_keep_origin_dtype  loss .*\n    memory: .*\nnull policy  loss [^\n]*\n    loss: \+?\S+  \[.*over 3 starts')

    def test_sides_diverge_alone(self):
        """A side whose loss is not finite ends, and the others continue."""
        plain = [a for a in self.base if a not in ('--feed', 'rate=0.05')]
        r = json.loads(self.tool(*plain, '--steps', '30', '--policy', 'force_fp16', '--seeds', '1', '--feed', 'boost=3e5', '--feed', 'rate=1e-7',
                                 '--format', 'json').stdout)
        self.assertEqual([s['diverged'] for s in r['sides']], [0, 1, 0])
        self.assertIsNone(r['sides'][1]['difference'])

    def test_sides_refused(self):
        two = ['--policy', 'must_keep_origin_dtype', '--policy', 'force_fp16', '--steps', '1']
        for option in (['--save', self.at('s')], ['--resume', 'x'], ['--accelerate-train-mode', 'fast|step'],
                       ['--eval-every', '2', '--eval', f'x=@{self.xs}', '--eval', f'y=@{self.ys}']):
            self.fails(2, f'{option[0]} is of one training', *self.base, *two, *option)
        self.fails(2, "no policy 'x'|unknown policy 'x'", *self.base, '--steps', '1', '--policy', 'force_fp16', '--policy', 'x')
        self.fails(2, '--seeds', *self.base, '--steps', '1', '--seeds', '0')

    # ---- what is refused ----

    def test_steps_that_do_not_change_the_loss(self):
        alone = ['train', MODEL, *self.data, '--steps', '1', '--feed', 'rate=1']
        self.fails(2, r"train.hir: error: node 'count_alone' \(AssignAddVariableOp\): the loss 'error' does not depend on what a step of this changes: 'step'",
                   *alone, '--loss', 'error', '--train-op', 'count_alone')
        self.fails(2, r"train.hir: error: node 'squares' \(Square\): a step of this changes no variable", *alone, '--loss', 'loss', '--train-op', 'squares')
        self.tool(*alone[:-2], '--loss', 'error', '--train-op', 'w/Assign')

    def test_label_out_of_range(self):
        """A step that fails names its node, and the last checkpoint is whole."""
        model, labels = self.path('classes.hir', CLASSES.encode()), self.path('labels.npy', npy('<i4', (ROWS,), struct.pack(f'<{ROWS}i', *[1] * 20, 3, *[1] * (ROWS - 21))))
        train = ['train', model, '--data', f'x=@{self.xs}', '--data', f'labels=@{labels}', *self.names, '--batch', '8', '--no-shuffle', '--no-cache',
                 '--save', self.at('s'), '--save-every', '2']
        self.fails(3, r"(?s)node 'loss': an index is out of range.*step 3 failed", *train, '--steps', '4')
        self.assertEqual(sorted(os.listdir(self.at('s'))), ['checkpoint', 'ckpt-2.data-00000-of-00001', 'ckpt-2.index'])
        self.tool(*train, '--steps', '2', '--resume', self.at('s'))
        self.assertRegex(self.tool(*train[:-4], '--steps', '4', '--enable_exception_dump=1', '--dump_path', self.dir, code=3).err,
                         "the operands of 'loss/each[^']*' are in")

    def test_usage(self):
        self.fails(2, r'needs --loss', 'train', MODEL, *self.data, '--train-op', 'train', '--steps', '1')
        self.fails(2, r'needs data', 'train', MODEL, *self.names, '--steps', '1')
        self.fails(2, r'needs --train-op NAME: the model names no train op', 'train', MODEL, *self.data, '--loss', 'loss', '--steps', '1')
        for value, said in (('f32:x', "--feed: 'x' is no float32"), ('i9:1', "--feed: 'i9:1' is not @FILE"), ('@', "--feed: '@' names no file"),
                            ('f32:1,2', '--feed: 2 values')):
            self.fails(2, said, 'train', MODEL, *self.data, *self.names, '--feed', f'rate={value}', '--steps', '1')
        self.fails(2, r"no output 'trian'; did you mean 'train'", 'train', MODEL, *self.data, '--loss', 'loss', '--train-op',
                   'trian', '--steps', '1')
        self.fails(2, r"input 'rate', float32\[\], is not fed: .*--feed rate=VALUE", 'train', MODEL, *self.data, *self.names,
                   '--steps', '1')
        self.fails(2, r'--loss squares: a loss is one number', 'train', MODEL, *self.data, '--loss', 'squares', '--train-op',
                   'train', '--steps', '1', '--feed', 'rate=1')
        self.fails(2, r"'x' is not NAME=@FILE", 'train', MODEL, '--data', 'x', *self.names, '--steps', '1')
        self.fails(2, r'--save-every has no effect', *self.base, '--steps', '1', '--save-every', '3')
        self.fails(2, r"--save-every: 'x'", *self.base, '--steps', '1', '--save', self.at('s'), '--save-every', 'x')
        self.fails(2, r'--resume goes on', *self.base, '--steps', '1', '--resume', 'a', '--restore', 'b')

    def test_bad_data(self):
        short = self.path('short.npy', npy('<f4', (ROWS - 1, 1), floats(*[0] * (ROWS - 1))))
        self.fails(3, r"--data y=@.*: 49 rows, where 'x' has 50", 'train', MODEL, self.data[0], self.data[1], '--data',
                   f'y=@{short}', *self.names, '--steps', '1', '--feed', 'rate=1')
        cut = self.path('cut.npy', npy('<f4', (ROWS, 4), floats(1, 2, 3)))
        self.fails(3, r'shorter than its header', 'train', MODEL, '--data', f'x=@{cut}', *self.names, '--steps', '1')
        wrong = self.path('wrong.npy', npy('<i8', (ROWS, 4), struct.pack(f'<{ROWS * 4}q', *[0] * (ROWS * 4))))
        self.fails(3, r"another type or shape than those of input 'x', float32", 'train', MODEL, '--data', f'x=@{wrong}', *self.data[2:],
                   *self.names, '--feed', 'rate=1', '--batch', '8', '--steps', '1')
        wide = self.path('wide.npy', npy('<f4', (ROWS, 5), floats(*[0] * (ROWS * 5))))
        self.fails(3, r"another type or shape than those of input 'x', float32", 'train', MODEL, '--data', f'x=@{wide}', *self.data[2:], *self.names, '--feed', 'rate=1', '--steps', '1')
        self.fails(5, r'cannot read', 'train', MODEL, '--data', 'x=@/nonexistent.npy', *self.names, '--steps', '1')

    def test_not_a_number(self):
        save = self.at('s')
        plain = [a for a in self.base if a not in ('--feed', 'rate=0.05')]
        rates = self.path('rates.npy', npy('<f4', (9,), floats(*[0.05] * 5, *[1e30] * 4)))
        r = self.tool(*plain, '--feed', f'rate=@{rates}', '--steps', '9', '--save', save, '--save-every', '5', code=1)
        self.assertRegex(r.err, r"step 7: the loss 'loss' is (infinite|NaN); the last checkpoint is .*/ckpt-5")
        self.tool(*self.base, '--steps', '6', '--resume', save)

    # ---- checkpoints ----

    def test_resumes_with_the_same_bits(self):
        whole, parts = self.at('whole'), self.at('parts')
        self.tool(*self.base, '--steps', '23', '--save', whole)
        for steps in '1', '9', '23':
            self.tool(*self.base, '--steps', steps, '--save', parts, *(['--resume', parts] if steps != '1' else []))
        self.assertEqual(self.bytes_of(whole, 23), self.bytes_of(parts, 23))
        self.fails(2, r'saved with --seed 1, this has 5', *self.base, '--seed', '5', '--steps', '30', '--resume', parts)

    def test_survives_a_kill(self):
        """At random moments of a training that saves all the time; what is there is whole, and goes on."""
        save, r = self.at('killed'), random.Random(time.time_ns())
        arguments = [*self.base, '--save', save, '--save-every', '1', '--keep', '2', '-q']
        for attempt in range(5):
            p = subprocess.Popen([TOOL, *arguments, '--steps', '1000000', *(['--resume', save] if attempt else [])],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            while not os.path.exists(os.path.join(save, 'checkpoint')) and p.poll() is None:
                time.sleep(0.01)
            time.sleep(r.uniform(0, 0.4))
            p.send_signal(signal.SIGKILL)
            p.wait()
            self.assertEqual(p.stderr.read(), b'')
            p.stderr.close()
        with open(os.path.join(save, 'checkpoint')) as f:
            done = int(f.readline().split('-')[1].rstrip('"\n'))
        self.tool(*arguments, '--steps', str(done + 3), '--resume', save)
        whole = self.at('whole')
        self.tool(*self.base, '--steps', str(done + 3), '--save', whole)
        self.assertEqual(self.bytes_of(whole, done + 3), self.bytes_of(save, done + 3))

    def test_signal_saves(self):
        save = self.at('s')
        p = subprocess.Popen([TOOL, *self.base, '--save', save, '--steps', '1000000000', '--log', self.at('log')],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not (os.path.exists(self.at('log')) and os.path.getsize(self.at('log'))) and p.poll() is None:
            time.sleep(0.01)
        p.send_signal(signal.SIGTERM)
        _, err = p.communicate()
        self.assertEqual(p.returncode, -signal.SIGTERM, err)
        self.assertRegex(err.decode(), 'stopped by a signal behind step')
        self.tool(*self.base, '--steps', '1', '--resume', save)

    def test_keeps(self):
        save = self.at('s')
        self.tool(*self.base, '--steps', '9', '--save', save, '--save-every', '2', '--keep', '3')
        self.assertEqual(sorted(f for f in os.listdir(save) if f.endswith('.index')), ['ckpt-6.index', 'ckpt-8.index', 'ckpt-9.index'])
        self.assertFalse([f for f in os.listdir(save) if 'tmp' in f])

    def test_full_disk(self):
        """A limit of file sizes stands in for it: the error names the file, and the checkpoint before is whole."""
        save = self.at('s')
        self.tool(*self.base, '--steps', '3', '--save', save)
        before = sorted(os.listdir(save)), self.bytes_of(save, 3)

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        p = subprocess.run([TOOL, *self.base, '--steps', '5', '--save', save, '--resume', save], preexec_fn=limit,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(p.returncode, 5, p.stderr)
        self.assertRegex(p.stderr.decode(), r'ckpt-5\.(index|data-00000-of-00001): error: cannot write: File too large')
        self.assertEqual((sorted(os.listdir(save)), self.bytes_of(save, 3)), before)
        self.tool(*self.base, '--steps', '5', '--resume', save)

    def test_flipped_bits(self):
        save, r = self.at('s'), random.Random(3)
        self.tool(*self.base, '--steps', '3', '--save', save)
        for suffix in 'index', 'data-00000-of-00001':
            path = os.path.join(save, 'ckpt-3.' + suffix)
            with open(path, 'rb') as f:
                good = f.read()
            for _ in range(12):
                bad = bytearray(good)
                bad[r.randrange(len(bad))] ^= 1 << r.randrange(8)
                if suffix == 'index' and bytes(bad)[:-48] == good[:-48]:
                    continue  # padding of the footer
                with open(path, 'wb') as f:
                    f.write(bad)
                self.fails(3, r'ckpt-3', *self.base, '--steps', '4', '--resume', save)
            with open(path, 'wb') as f:
                f.write(good)
        self.tool(*self.base, '--steps', '4', '--resume', save)
        os.remove(os.path.join(save, 'ckpt-3.data-00000-of-00001'))
        self.fails(5, r'data-00000-of-00001: error: cannot read', *self.base, '--steps', '4', '--resume', save)

    def test_missing(self):
        self.fails(5, r'checkpoint: cannot read', *self.base, '--steps', '1', '--resume', self.at('none'))
        self.path('checkpoint', b'nonsense\n')
        self.fails(3, r'names no checkpoint', *self.base, '--steps', '1', '--resume', self.dir)

    def test_restore(self):
        """Values alone: steps begin at 0."""
        save = self.at('s')
        self.tool(*self.base, '--steps', '200', '--save', save)
        logs = self.at('a'), self.at('b'), self.at('c')
        self.tool(*self.base, '--steps', '1', '--log', logs[0], '--restore', os.path.join(save, 'ckpt-200'), '--seed', '9')
        self.tool(*self.base, '--steps', '1', '--log', logs[1], '--seed', '9')
        self.tool(*self.base, '--steps', '1', '--log', logs[2], '--restore', os.path.join(save, 'ckpt-200'), '--seed', '9', '--init-op', 'init')
        restored, fresh, with_op = map(self.losses, logs)
        self.assertLess(restored[0], fresh[0] / 10)
        self.assertLess(with_op[0], fresh[0] / 10)
        self.tool(*self.base, '--steps', '1', '--init-op', 'init')


if __name__ == '__main__':
    unittest.main()
