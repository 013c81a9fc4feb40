#!/usr/bin/env python3
"""Models, feeds and settings that are refused: exit codes, and what is said."""
import json, os, random, shutil, struct, subprocess, unittest, zipfile

from tool import HANGS, MODEL_VERBS, SMALL, TOOL, TYPES, ToolCase, floats, npy


class BadInput(ToolCase):
    def test_models(self):
        self.fails(5, 'nowhere.pb', 'run', self.path('nowhere.pb'))
        self.fails(3, r'bad\.pb: .*byte \d+', 'run', self.path('bad.pb', b'\x0a\x7f\x01\x02'))
        self.fails(3, r'bad\.hir:2:\d+: error', 'inspect', self.path('bad.hir', b'hir 1\n?!\n'))
        for v in MODEL_VERBS:
            out = self.path('out')
            self.fails(3, 'error', v, self.path('bad.json', b'{"modelTopology": [')
                       , *(['-o', out] if v in ('convert', 'compile', 'opt') else []))
            self.assertFalse(os.path.exists(out))

    def test_limits(self):
        with open(self.path('large.pb'), 'wb') as f:
            f.truncate(2 << 30)
        self.fails(6, 'large.pb', 'inspect', self.path('large.pb'))
        self.fails(6, 'large.pb', 'run', self.path('large.pb'))
        self.fails(6, 'large.pb', 'convert', self.path('large.pb'), '-o', self.path('out.pb'))
        self.assertFalse(os.path.exists(self.path('out.pb')))

    def test_unsupported(self):
        odd = b'hir 1\nentry "" {\n  output "b" = %b\n}\n%a = NobodyKnows() : f32[2]\n%b = AlsoUnknown(%a) : f32[2]\n'
        r = self.fails(4, 'NobodyKnows', 'run', self.path('odd.hir', odd))
        self.assertIn('AlsoUnknown', r.err)
        self.assertEqual(json.loads(self.tool('inspect', '--format=json', self.path('odd.hir')).stdout)['unsupported'],
                         {'NobodyKnows': 1, 'AlsoUnknown': 1})

    def test_sizes_that_a_graph_does_not_have(self):
        """Ops and attributes that passes make name sizes of the graph by number; a file may name any."""
        shape, feed = ['--input-shape', 'x:1..8'], self.path('x.npy', npy('<f4', (8,), floats(*range(8))))
        head = 'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n%x = Placeholder() {dtype=f32, shape=shape[?]}\n'
        loop = '%zero = Const() {dtype=i32, value=tensor i32[] {0}}\n' \
            '%l = StatelessWhile(%zero, %x) {T=[i32,f32], cond=@cond{}, body=@body{}}\n%y = Identity(%l:1) {T=f32}\n'
        for name in 'cond', 'body':
            loop += f'function "{name}" {{\n  signature "\\n\\x04{name}"\n  arg "i" = %i\n  arg "x" = %x\n  ' + \
                ('ret "r" = %more\n' if name == 'cond' else 'ret "r0" = %next\n  ret "r1" = %twice\n') + \
                '  %i = _Arg() {T=i32, index=0}\n  %x = _Arg() {T=f32, index=1}\n' + \
                ('  %n = _Sizes() {dtype=i32, shape=shape[], of=LIST}\n  %more = Less(%i, %n) {T=i32}\n' if name == 'cond' else
                 '  %one = Const() {dtype=i32, value=tensor i32[] {1}}\n  %next = AddV2(%i, %one) {T=i32}\n  %twice = AddV2(%x, %x) {T=f32}\n') + '}\n'
        plain = '%n = _Sizes() {dtype=f32, shape=shape[], of=LIST}\n%y = Mul(%x, %n) {T=f32}\n'.replace('f32, shape', 'i32, shape', 1) \
            .replace('%y = Mul(%x, %n)', '%m = Cast(%n) {SrcT=i32, DstT=f32}\n%y = Mul(%x, %m)')
        for text in loop, plain:
            for of in '[1,99,0]', '[1,0,-5]', '[1,2,0]', '[1]', '[]', '"text"', '[1,9223372036854775807,0]':
                for more in shape, ['--input-shape', 'x:8']:
                    self.fails(4, r"_Sizes.*a size that the graph does not have", 'run', *more, '--input', f'x=@{feed}',
                               self.path('of.hir', (head + text.replace('LIST', of)).encode()))
        for within in ('size=99, axis=0, inner=1', 'size=0, axis=0, inner=1', 'size=-1, axis=0, inner=1', 'size=1, axis=7, inner=1',
                       'size=1, axis=-1, inner=1', 'size=1, axis=0, inner=0', 'size=1, axis=0, inner=4611686018427387904'):
            text = f'{head}%y = _Within(%x) {{T=f32, {within}, fill="zero"}}\n'
            self.fails(4, r'_Within.*(a size that the graph does not have|no axis of its size)', 'compile', *shape, '-o', self.path('w.htx'),
                       self.path('within.hir', text.encode()))
        for ends in '[99,1]', '[-1,1]', '[1,0]', '[1,-9]', '[9223372036854775807,1]', '[]', '"text"', '[1.5,2.5]':
            for attribute in '_ends', '_open', '_within', '_sizes':
                text = f'{head}%axes = Const() {{dtype=i32, value=tensor i32[1] {{0}}}}\n%s = Mean(%x, %axes) {{T=f32, Tidx=i32, keep_dims=true, {attribute}={ends}}}\n' \
                    f'%y = Mul(%x, %s) {{T=f32, {attribute}={ends}}}\n'
                self.tool('run', *shape, '--input', f'x=@{feed}', '-o', self.path('y.npz'), self.path('ends.hir', text.encode()))
                self.assertEqual(self.outputs(self.path('y.npz'))['y.npy'][2], [3.5 * i for i in range(8)])

    def test_room(self):
        """Passes give tensors room along an axis; a file may name any axis and any room."""
        feed = self.path('x.npy', npy('<f4', (2, 3), floats(*range(6))))
        head = 'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n%x = Placeholder() {dtype=f32, shape=shape[2,3]}\n'
        for axis, room, want in (-1, 2, [0, 1, 3, 4]), (1, 4, [0, 1, 2, 0, 3, 4, 5, 0]), (-2, 1, [0, 1, 2]), (0, 3, [0, 1, 2, 3, 4, 5, 0, 0, 0]):
            text = f'{head}%y = _Padded(%x) {{T=f32, axis={axis}, room={room}}}\n'
            self.tool('run', '--input', f'x=@{feed}', '-o', self.path('y.npz'), self.path('room.hir', text.encode()))
            self.assertEqual(self.outputs(self.path('y.npz'))['y.npy'][2], want)
        for axis, room in (0, -1), (0, 1 << 31), (-1, (1 << 63) - 1), (2, 4), (-3, 4):
            text = f'{head}%y = _Padded(%x) {{T=f32, axis={axis}, room={room}}}\n'
            self.fails(3, r'_Padded.*(attribute room is|does not fit)', 'run', '--input', f'x=@{feed}', self.path('room.hir', text.encode()))

    def test_sums_of_sums(self):
        """Integers that are each the sum of the one before twice: there are 2^40 ways from the last to the first."""
        head = 'hir 1\nentry "" {\n  input "x" = %x\n  input "n" = %c0\n  output "y" = %y\n}\n%x = Placeholder() {dtype=f32, shape=shape[8]}\n' \
            '%c0 = Placeholder() {dtype=i32, shape=shape[]}\n' + ''.join(f'%c{i + 1} = AddV2(%c{i}, %c{i}) {{T=i32}}\n' for i in range(40))
        pad = '%w = Where(%x) {T=f32}\n%r = Pack(%c40, %c40) {N=2, T=i32, axis=0}\n%p = Pack(%r, %r) {N=2, T=i32, axis=0}\n' \
            '%y = Pad(%w, %p) {T=i64, Tpaddings=i32}\n'
        count = '%zero = Const() {dtype=i32, value=tensor i32[] {0}}\n%one = Const() {dtype=i32, value=tensor i32[] {1}}\n' \
            '%y = Range(%zero, %c40, %one) {Tidx=i32}\n'
        for text, want in (pad, [0, 2, 5, 6, 7]), (count, []):  # 3 * 2^40 is zero in 32 bits
            model = self.path('sums.hir', (head + text).encode())
            self.tool('compile', '-o', self.path('y.htx'), model)
            self.tool('run', '--input', 'n=i32[]:3', '--input', 'x=f32[8]:1,0,2,0,0,1,1,1', '-o', self.path('y.npz'), model)
            self.assertEqual(self.outputs(self.path('y.npz'))['y.npy'][2], want)

    def test_stated_shapes_that_contradict_each_other(self):
        two = self.path('two.hir', b'hir 1\nentry "" {\n  input "x" = %x\n  input "y" = %y\n  output "z" = %z\n}\n'
                        b'%x = Placeholder() {dtype=f32, shape=shape[?]}\n%y = Placeholder() {dtype=f32, shape=shape[?]}\n'
                        b'%z = AddV2(%x, %y) {T=f32}\n')
        out = self.path('out.pb')
        for verb, *more in (['inspect'], ['run'], ['bench'], ['explain'], ['opt'], ['opt', '--passes', 'prune'], ['compile'],
                            ['compile', '--emit=hir', '--stop-after=inline'], ['convert', '-o', out]):
            self.fails(3, r"two\.hir: error: node 'z' \(AddV2\): shapes \[2\] and \[3\]", verb, *more, '--input-shape', 'x:2;y:3', two)
        self.assertFalse(os.path.exists(out))
        self.tool('inspect', '--input-shape', 'x:2;y:1', two)

    def test_wrong_graphs(self):
        folder = os.path.join(os.environ.get('HALFTONE_SHARED', ''), 'models/micro/graphdef2mlir')
        if not os.path.isdir(folder):
            self.skipTest('no $HALFTONE_SHARED')
        add, relu = (os.path.join(folder, f) for f in ('error-message-with-source-info.pbtxt', 'graph-undefined-output.pbtxt'))
        for verb, *more in (['inspect'], ['run'], ['explain'], ['opt'], ['compile'], ['convert', '-o', self.path('o.pb')]):
            self.fails(3, r"info\.pbtxt: error: node 'x_y_sum' \(Add\): shapes \[2\] and \[3\] do not broadcast",
                       verb, *more, '--input-shape', 'x:2;y:3', '--outputs', 'x_y_sum', add)
            self.fails(2, r"output\.pbtxt: error: the graph has no output 'NotANodeInTheGraph'",
                       verb, *more, '--outputs', 'NotANodeInTheGraph', relu)
        self.assertEqual(os.listdir(self.dir), [])
        # Each of these files is valid by itself, as are all others of the folder.
        for f in os.listdir(folder):
            self.tool('inspect', os.path.join(folder, f))
            self.tool('convert', os.path.join(folder, f), '-o', self.path('o.pb'))

    def test_saved_model_without_its_variables(self):
        model = os.path.join(os.environ.get('HALFTONE_SHARED', ''), 'models/kws_ref_model')
        if not os.path.isdir(model):
            self.skipTest('no $HALFTONE_SHARED')
        shutil.copy(os.path.join(model, 'saved_model.pb'), self.dir)
        r = self.fails(3, r"node '.*' \(VarHandleOp\): the variable has no value .*variables\.index is absent", 'run', self.dir)
        self.assertEqual(r.err.count('error'), 1)

    def test_training_graph_with_a_checkpoint(self):
        model = os.path.join(os.environ.get('HALFTONE_SHARED', ''), 'models/train/regression_forms/checkpoint/model.meta')
        if not os.path.exists(model):
            self.skipTest('no $HALFTONE_SHARED')
        self.tool('explain', model, '--policy', 'force_fp16')
        self.tool('convert', model, '--policy', 'force_fp16', '-o', self.path('o.pb'))

    def test_graph_that_contradicts_itself(self):
        with open(SMALL, 'rb') as f:
            data = f.read().replace(b'shape[?,4]', b'shape[?,5]')
        for verb in ('inspect', 'run', 'explain'):
            self.fails(3, r"bad\.hir: error: node 'y' \(MatMul\)", verb, self.path('bad.hir', data))

    def test_variables_without_values(self):
        text = b'hir 1\nentry "" {\n  output "y" = %y\n}\n%v = VariableV2() {dtype=f32, shape=shape[2]}\n' \
               b'%w = VariableV2() {dtype=f32, shape=shape[2]}\n%y = AddV2(%v, %w) {T=f32}\n'
        for verb, *more in (['run'], ['bench'], ['compile']):
            r = self.fails(4, r"v\.hir: error: node 'v' \(VariableV2\).*2 such variables.*no checkpoint", verb, *more, self.path('v.hir', text))
            self.assertEqual(r.err.count('error'), 1)
        self.tool('inspect', self.path('v.hir', text))

    def test_why_unsupported(self):
        for op, attrs, types, why in (
                ('ComplexAbs', 'T=c64, Tout=f32', 'f32[2]', 'complex numbers'),
                ('Digamma', 'T=f32', 'f32[2]', 'has no kernel'),
                ('AsString', 'T=f32', 'string[2]', 'strings or files'),
                ('Enter', 'T=f32, frame_name="loop"', 'f32[2]', 'is control flow'),
                ('VarIsInitializedOp', '', 'bool[]', 'between runs')):
            arg = {'ComplexAbs': 'c64', 'VarIsInitializedOp': 'resource'}.get(op, 'f32')
            text = (f'hir 1\nentry "" {{\n  output "b" = %b\n}}\n%a = Placeholder() {{dtype={arg}}} : {arg}[2]\n'
                    f'%b = {op}(%a) {{{attrs}}} : {types}\n')
            with self.subTest(op):
                r = self.fails(4, why, 'run', self.path('why.hir', text.encode()))
                self.assertIn(f'op {op} ', r.err)

    def test_open_dimension(self):
        with open(SMALL, 'rb') as f:
            open_rank = f.read().replace(b'shape[?,4]', b'shape[?,?]')
        self.fails(4, 'input-shape', 'run', self.path('open.hir', open_rank))
        self.tool('run', '--input-shape', 'x:1,4', self.path('open.hir'))
        self.assertIn("dimension of input 'x' is 1 here", self.tool('run', SMALL).err)
        self.assertNotIn('is 1 here', self.tool('run', '--batch', '2', SMALL).err)

    def test_feeds(self):
        good = self.x(1, 2, 3, 4)
        self.tool('run', '--input', 'x=@' + good, SMALL)
        self.tool('run', '--input', 'x:0=@' + good, SMALL)
        self.fails(5, 'absent.npy', 'run', '--input', 'x=@' + self.path('absent.npy'), SMALL)
        for name, data, pattern in (
                ('f8.npy', npy('<f8', (1, 4), bytes(32)), r'is float64\[1,4\], but the graph says float32\[\?,4\]'),
                ('rank.npy', npy('<f4', (4,), bytes(16)), r'is float32\[4\], but the graph says float32\[\?,4\]'),
                ('dim.npy', npy('<f4', (1, 5), bytes(20)), r'is float32\[1,5\], but the graph says'),
                ('short.npy', npy('<f4', (1, 4), bytes(15)), 'promises 16'),
                ('big.npy', npy('>f4', (1, 4), bytes(16)), "type '>f4'"),
                ('pickle.npy', npy('|O', (1, 4), bytes(16)), r"type '\|O'"),
                ('huge.npy', npy('<f4', (1 << 40, 1 << 40), b''), 'too many'),
                ('header.npy', npy('<f4', (1, 4), b'')[:20], 'header'),
                ('text.npy', b'1 2 3', 'not a .npy')):
            self.fails(3, pattern, 'run', '--input', 'x=@' + self.path(name, data), SMALL)

    def test_npz_feeds(self):
        z = self.path('in.npz')
        with zipfile.ZipFile(z, 'w', zipfile.ZIP_DEFLATED) as f:
            f.writestr('data.npy', npy('<f4', (1, 4), floats(1, 2, 3, 4)))
        self.tool('run', '--input', f'x=@{z}#data', SMALL)
        self.fails(3, "no member 'date'; did you mean 'data'", 'run', '--input', f'x=@{z}#date', SMALL)
        self.fails(3, 'error', 'run', '--input', 'x=@' + self.path('no.npz', b'PK nonsense') + '#data', SMALL)
        with zipfile.ZipFile(z, 'w', zipfile.ZIP_DEFLATED) as f:
            f.writestr('data.npy', npy('<f4', (1, 4), bytes(20 << 20)))
        self.fails(3, 'promises 16', 'run', '--input', f'x=@{z}#data', SMALL)

    def test_damaged_npz(self):
        """Whichever byte of an archive is another, the array is what was written or it is refused."""
        z = self.path('in.npz')
        for form in zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED:
            with zipfile.ZipFile(z, 'w', form) as f:
                f.writestr('data.npy', npy('<f4', (1, 4), floats(1, 2, 3, 4)))
            want = self.tool('run', '-q', '--input', f'x=@{z}#data', SMALL).stdout
            with open(z, 'rb') as f:
                whole = f.read()
            numbers = whole.index(floats(1, 2, 3, 4)) if form == zipfile.ZIP_STORED else len(whole) // 3
            for at in {numbers, numbers + 3, *random.Random(5).sample(range(len(whole)), 40)}:
                damaged = whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1:]
                d = self.path('d.npz', damaged)
                r = subprocess.run([TOOL, 'run', '-q', '--input', f'x=@{d}#data', SMALL], capture_output=True, timeout=HANGS)
                self.assertIn(r.returncode, (0, 3), (at, r.stderr))
                if r.returncode == 0:
                    self.assertEqual(r.stdout, want, at)
                else:
                    self.assertRegex(r.stderr, b'damaged|no member|npy')
            self.fails(3, 'this member is damaged', 'run', '--input', 'x=@' + self.path(
                'd.npz', whole[:numbers] + bytes([whole[numbers] ^ 1]) + whole[numbers + 1:]) + '#data', SMALL)
            for cut in 0, 1, len(whole) // 2, len(whole) - 1:
                r = self.fails(3, 'd.npz: this is no .npz file, or a damaged one', 'run', '--input',
                               'x=@' + self.path('d.npz', whole[:cut]) + '#data', SMALL)
                self.assertNotIn('No such', r.err)
        self.fails(5, 'absent.npz: cannot read: No such file', 'run', '--input', f'x=@{self.dir}/absent.npz#data', SMALL)
        os.mkdir(self.path('folder.npz'))
        self.fails(5, 'not a regular file', 'run', '--input', f'x=@{self.dir}/folder.npz#data', SMALL)

    def test_fault(self):
        zero = self.path('i.npy', npy('<i4', (3,), struct.pack('<3i', 1, 0, 2)))
        self.fails(3, "node 'q'.*division", 'run', '--input', 'i=@' + zero, TYPES)

    def test_literals(self):
        x = ['--outputs', 'y', '--format=json']
        want = self.tool('run', *x, '--input', 'x=@' + self.x(1, 2, 3, 4), SMALL).stdout
        for spec in ('f32[1,4]:1,2,3,4', 'float32[1,4]:1.0,2,0x3,4e0'):
            self.assertEqual(self.tool('run', *x, '--input', 'x=' + spec, SMALL).stdout, want)
        y = json.loads(self.tool('run', *x, '--input', 'x=f32[1,4]:2', SMALL).stdout)['outputs'][0]
        self.assertEqual((y['max'], y['min']), (6.0, 1.75))
        a = self.tool('run', *x, '--input', 'x=random(7,0,1)', SMALL).stdout
        self.assertEqual(a, self.tool('run', *x, '--input', 'x=random(7,0,1)', SMALL).stdout)
        self.assertNotEqual(a, self.tool('run', *x, '--input', 'x=random(8,0,1)', SMALL).stdout)
        i = self.tool('run', '--outputs', 'q', '--input', 'i=i32[3]:1,-2,0x10', TYPES).stdout
        self.assertEqual(i, self.tool('run', '--outputs', 'q', '--input', 'i=@' + self.path(
            'i.npy', npy('<i4', (3,), struct.pack('<3i', 1, -2, 16))), TYPES).stdout)
        for spec, pattern in (('f32[1,4]:1,2,3', '3 values for 4'), ('f32[1,4]:1,2,3,4,5', '5 values for 4'),
                              ('f32[1,4]:1,x,3,4', "'x' is no float32"), ('f32[1,4]:1,2,3,', 'last comma'),
                              ('f32[1,4', 'is not @FILE'), ('f99[1,4]:1', 'is not @FILE'), ('random(1,2)', 'is not random'),
                              ('random(1,2,1)', 'is not random'), ('random(1,0,inf)', 'is not random'), ('@', 'names no file')):
            self.fails(2, pattern, 'run', '--input', 'x=' + spec, SMALL)
        for spec in ('i32[1,4]:1', 'f32[4]:1', 'f32[1,5]:1'):
            self.fails(3, r'but the graph says float32\[\?,4\]', 'run', '--input', 'x=' + spec, SMALL)
        self.fails(6, 'needs [0-9]+ bytes', 'run', '--input', 'x=f32[99999999999,4]:1', SMALL)
        self.fails(2, "'2147483648' is no int32", 'run', '--input', 'i=i32[3]:1,2,2147483648', TYPES)

    def test_feeds_that_are_no_files(self):
        os.mkfifo(self.path('fifo'))
        for p in (self.dir, '/dev/zero', self.path('fifo')):
            self.fails(5, 'not a regular file', 'run', '--input', 'x=@' + p, SMALL)
        self.fails(5, 'not a regular file', 'run', self.path('fifo'))
        self.fails(2, 'which array', 'run', '--input', 'x=@a.npz', SMALL)

    def test_given_twice(self):
        x = 'x=@' + self.x(1, 2, 3, 4)
        self.fails(2, "'x' is given twice", 'run', '--input', x, '--input', x, SMALL)
        self.fails(2, "'x' is given twice", 'run', '--input', x, '--input', x.replace('x=', 'x:0=', 1), SMALL)
        self.fails(2, "'x' is given twice", 'run', '--input-shape', 'x:1,4;x:2,4', SMALL)
        self.fails(2, "'x' is given twice", 'run', '--input-shape', 'x:1,4', '--input-shape', 'x:2,4', SMALL)
        self.fails(2, "'y' is asked for twice", 'run', '--outputs', 'y,y:0', SMALL)

    def test_settings_without_effect(self):
        for args, pattern in ((['--batch=3', '--input-shape', 'x:1,4'], '--batch has no effect'), (['--tol=1'], '--tol has no effect'),
                              (['--widen'], '--widen has no effect'), (['--input', 'z=@a.npy'], "no input 'z'"),
                              (['--input-shape', 'z:3'], "no input 'z'")):
            self.fails(2, 'error: .*' + pattern, 'run', *args, SMALL)
            r = self.tool('run', '--lenient', *args, SMALL)
            self.assertRegex(r.err, 'warning: .*' + pattern)
            self.assertTrue(r.err.endswith('halftone: 1 setting had no effect\n'))
        self.fails(2, 'not among the passes', 'opt', '--passes=prune', '--stop-after=infer', SMALL)
        self.fails(2, 'no target stated', 'compile', '--strict-target', SMALL)
        for o in ('--output', '--outputs', '--input-shape', '--seed'):
            self.fails(2, 'empty value', 'run', o + '=', SMALL)
        self.fails(2, 'the name of the model is empty', 'run', '')

    def test_no_more_than_allowed(self):
        self.fails(6, 'needs [0-9]+ bytes.*this machine has', 'run', '--input-shape', 'x:99999999999,4', SMALL)
        self.fails(6, 'max-memory allows 1024', 'run', '--input-shape', 'x:1000,4', '--max-memory=1K', SMALL)
        self.fails(2, 'no size', 'run', '--max-memory=1Q', SMALL)
        self.tool('run', '--max-memory=1G', SMALL)
        self.tool('convert', SMALL, '-o', self.path('s.pb'))
        for model in SMALL, self.path('s.pb'):
            self.fails(6, 'more than 4 nodes', 'inspect', '--max-nodes=4', model)
            self.tool('inspect', '--max-nodes=5', model)

    def test_nothing_to_compute(self):
        none = self.path('none.hir', b'hir 1\n%d = Const() {dtype=i32, value=tensor i32[] {1}}\n')
        for v in 'run', 'bench', 'compile':
            self.fails(4, r'none\.hir: error: the graph has no outputs', v, none)
        self.tool('inspect', none)



if __name__ == '__main__':
    unittest.main()
