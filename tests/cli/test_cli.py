#!/usr/bin/env python3
"""The command line tool: exit codes, streams, options, NumPy files, whole outputs or none."""
import io, json, os, random, re, shutil, signal, struct, subprocess, tempfile, time, unittest, zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ['HALFTONE_BUILD'])
TOOL = os.path.join(BUILD, 'halftone')
SMALL = os.path.join(HERE, 'small.hir')
TYPES = os.path.join(HERE, 'types.hir')
MODEL_VERBS = ('inspect', 'run', 'bench', 'compile', 'opt', 'convert', 'explain')


def npy(descr, shape, data, fortran=False, version=1):
    head = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (descr, fortran, shape)
    size = 2 if version == 1 else 4
    head += ' ' * (-(len(head) + 9 + size) % 64) + '\n'
    return b'\x93NUMPY' + bytes([version, 0]) + len(head).to_bytes(size, 'little') + head.encode() + data


def read_npy(data):
    assert data[:6] == b'\x93NUMPY' and data[6] == 1
    n = struct.unpack('<H', data[8:10])[0]
    assert (10 + n) % 64 == 0
    head = eval(data[10:10 + n])
    form = {'<f4': 'f', '<i8': 'q', '<i4': 'i', '<u2': 'H', '<f2': 'e'}[head['descr']]
    body = data[10 + n:]
    return head['descr'], head['shape'], list(struct.unpack('<%d%s' % (len(body) // struct.calcsize(form), form), body))


def floats(*v):
    return struct.pack('<%df' % len(v), *v)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name, data=None):
        p = os.path.join(self.dir, name)
        if data is not None:
            with open(p, 'wb') as f:
                f.write(data)
        return p

    def tool(self, *args, code=0, env=None, out=subprocess.PIPE):
        r = subprocess.run([TOOL, *args], stdout=out, stderr=subprocess.PIPE, timeout=120,
                           env={**os.environ, 'HALFTONE_POLICY': '', **(env or {})})
        self.assertEqual(r.returncode, code, (args, r.stdout, r.stderr))
        r.err = r.stderr.decode(errors='replace')
        return r

    def fails(self, code, pattern, *args, **more):
        """Refused with this class: nothing on standard output, one place for the reason."""
        r = self.tool(*args, code=code, **more)
        self.assertEqual(r.stdout or b'', b'')
        self.assertRegex(r.err, pattern)
        return r

    def x(self, *v, name='x.npy'):
        return self.path(name, npy('<f4', (len(v) // 4, 4), floats(*v)))

    def outputs(self, npz):
        with zipfile.ZipFile(npz) as z:
            return {n: read_npy(z.read(n)) if n.endswith('.npy') else z.read(n) for n in z.namelist()}


class Usage(Case):
    def test_help_of_all(self):
        verbs = re.findall(r'^  ([a-z]+) +\S', self.tool('help').stdout.decode(), re.M)
        self.assertEqual(set(MODEL_VERBS) - set(verbs), set())
        for v in verbs:
            by_verb, by_option = self.tool('help', v).stdout, self.tool(v, '--help').stdout
            self.assertEqual(by_verb, by_option)
            self.assertIn(b'usage: halftone ' + v.encode(), by_verb)

    def test_version(self):
        for args in (['version'], ['--version'], ['run', '--version']):
            self.assertRegex(self.tool(*args).stdout.decode(), r'^halftone \d+\.\d+\.\d+\n$')

    def test_wrong_usage(self):
        self.fails(2, 'see halftone help')
        self.fails(2, "no verb 'rnu'; did you mean 'run'", 'rnu', SMALL)
        self.fails(2, "no verb 'xyzzyxyzzy'", 'xyzzyxyzzy')
        self.fails(2, "did you mean '--threads'", 'run', '--thread', '1', SMALL)
        self.fails(2, "no option '--wxyzw'", 'run', '--wxyzw', SMALL)
        self.fails(2, "no option '-z'", 'run', '-z', SMALL)
        self.fails(2, "halftone inspect has no option '--seed'", 'inspect', '--seed', '1', SMALL)
        self.fails(2, 'needs a value', 'run', SMALL, '--seed')
        self.fails(2, 'takes no value', 'run', '--ftz=1', SMALL)
        self.fails(2, 'too many', 'run', SMALL, SMALL)
        self.fails(2, 'needs a model', 'run')
        self.fails(2, 'takes no argument', 'targets', SMALL)
        self.fails(2, 'neither text nor json', 'inspect', '--format=xml', SMALL)
        self.fails(2, 'no number', 'run', '--threads=0', SMALL)
        self.fails(2, 'no number', 'run', '--threads=2x', SMALL)
        self.fails(2, 'no number', 'run', '--batch=-1', SMALL)
        self.fails(2, 'needs -o', 'convert', SMALL)
        self.fails(2, 'no effect without --expect', 'run', '--tol=1', SMALL)

    def test_values(self):
        self.fails(2, "no policy 'force_pf16'; did you mean 'force_fp16'", 'run', '--policy', 'force_pf16', SMALL)
        self.fails(2, 'at the same time', 'run', '--policy', 'fp16', '--precision_mode', 'force_fp16', SMALL)
        self.fails(2, 'at the same time', 'run', '--precision_mode=force_fp16', '--precision_mode_v2=fp16', SMALL)
        self.fails(2, "no profile 'cpuu'", 'run', '--policy=fp16', '--profile=cpuu', SMALL)
        self.fails(2, "unknown target 'x86-64-v5'; did you mean", 'run', '--target', 'x86-64-v5', SMALL)
        self.fails(2, "no pass 'prun'; did you mean 'prune'", 'opt', '--passes', 'prun', SMALL)
        self.fails(2, 'output|node', 'run', '--outputs', 'nothing', SMALL)
        self.fails(2, "no input 'xx'; did you mean 'x'", 'run', '--input', 'xx=@a.npy', SMALL)
        self.fails(2, 'is not NAME=@FILE', 'run', '--input', 'x', SMALL)
        self.fails(2, 'is not @FILE', 'run', '--input', 'x=a.npy', SMALL)
        self.fails(2, 'is not NAME:D', 'run', '--input-shape', 'x', SMALL)
        self.fails(2, 'is not NAME:D', 'run', '--input-shape', 'x:1,a', SMALL)
        self.fails(2, "no input 'z'", 'run', '--input-shape', 'z:1,4', SMALL)
        self.fails(3, 'inner sizes', 'run', '--input-shape', 'x:1,5', SMALL)  # it counts, not what the graph says
        self.fails(2, 'has 2 dimensions', 'run', '--input-shape', 'x:4', SMALL)
        self.fails(2, 'cannot emit', 'compile', '--emit', 'jvm', SMALL)
        self.fails(2, 'leaves no code', 'compile', '--emit', 'llvm', '--stop-after', 'cse', SMALL)

    def test_every_option_is_in_help_and_parses(self):
        for v in MODEL_VERBS:
            for name, arg in re.findall(r'--([a-z_0-9-]+)( \S+)?', self.tool('help', v).stdout.decode().split('options:')[1].split('exit codes')[0]):
                if name in ('help', 'version', 'policy'):
                    continue
                r = subprocess.run([TOOL, v, '--' + name] + (['1'] if arg else []), capture_output=True)
                self.assertNotIn(b'has no option', r.stderr, (v, name))

    def test_optimal_shows_why(self):
        report = json.loads(self.tool('explain', '--policy', 'optimal', '--prices', '--format=json', SMALL).stdout)
        c = report['certificate']
        self.assertEqual(c['last_iterate']['cost_ps'], c['last_iterate']['bound_ps'])
        self.assertTrue(all(c['price_ps'] <= a['price_ps'] for a in c['alternatives'] if 'refused' not in a))
        self.assertIn('float32', [a['name'] for a in c['alternatives']])
        self.assertEqual(len(c['prices']), 2 * c['free_nodes'])
        self.assertTrue(all(p[2] is None or p[2] >= 0 for p in c['prices']))
        node = c['prices'][0][0]
        one = self.tool('explain', '--policy', 'optimal', '--node', node, SMALL).stdout.decode()
        self.assertIn(node + ' in ', one)

    def test_optimal_obeys_the_lists(self):
        def low(*options):
            text = self.tool('opt', '--passes', 'infer,precision', '--policy', 'optimal', '--target', 'x86-64-v4+bf16', *options, WIDE).stdout.decode()
            return re.findall(r'^%(\S+) = MatMul.*\{T=bf16', text, re.M)
        WIDE = os.path.join(self.dir, 'wide.hir')
        with open(WIDE, 'w') as f:
            f.write('hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n'
                    '%x = Placeholder() {dtype=f32, shape=shape[512,512]}\n'
                    '%a = MatMul(%x, %x) {T=f32, transpose_a=false, transpose_b=false}\n'
                    '%y = MatMul(%a, %x) {T=f32, transpose_a=false, transpose_b=false}\n')
        self.assertEqual(low(), ['a', 'y/bfloat16'])
        for target, count in ('x86-64', 0), ('x86-64-v4+bf16', 2):  # explain decides for it as well
            report = json.loads(self.tool('explain', '--policy', 'optimal', '--target', target, '--format=json', WIDE).stdout)
            self.assertEqual(len(report['types']), count, target)
        self.fails(2, 'unknown target', 'explain', '--policy', 'optimal', '--target', 'x87', WIDE)
        keep = os.path.join(self.dir, 'keep.cfg')
        with open(keep, 'w') as f:
            f.write('a\n')
        self.assertEqual(low('--keep_dtype', keep), ['y/bfloat16'])
        mix = os.path.join(self.dir, 'mix.json')
        with open(mix, 'w') as f:
            json.dump({'black-list': {'to-add': ['MatMul']}}, f)
        self.assertEqual(low('--modify_mixlist', mix), [])

    def test_optimal_names_what_binds(self):
        model = os.path.join(self.dir, 'bound.hir')
        with open(model, 'w') as f:
            f.write('hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n'
                    '%x = Placeholder() {dtype=f32, shape=shape[512,512]}\n'
                    '%l = Log(%x) {T=f32}\n%r = Relu(%l) {T=f32}\n%t = Tanh(%r) {T=f32}\n'
                    '%y = MatMul(%t, %x) {T=f32, transpose_a=false, transpose_b=false}\n')
        text = self.tool('explain', '--policy', 'optimal', '--target', 'x86-64-v4+bf16', '--node', 't', model).stdout.decode()
        self.assertIn('reads a value that must stay in float32 (gray, list), after r', text)

    def test_cost_tables(self):
        table = os.path.join(self.dir, 't.costs')
        with open(table, 'w') as f:
            f.write('halftone.costs/1\nlaunch f32 1 1\n')
        self.fails(3, ':2: error: a size of 1 or more', 'explain', '--policy', 'optimal', '--cost-table', table, SMALL)
        self.fails(5, 't.missing', 'explain', '--policy', 'optimal', '--cost-table', 't.missing', SMALL)
        self.fails(2, 'needs --costs', 'tune')

    def test_targets(self):
        rows = {t['name']: t for t in json.loads(self.tool('targets', '--format', 'json').stdout)['targets']}
        self.assertEqual(rows['znver4']['level'], 'x86-64-v4+bf16')
        self.assertEqual([n for n, t in rows.items() if t['tested']],
                         ['sapphirerapids', 'emeraldrapids', 'graniterapids'])
        model = os.path.join(self.dir, 'products.hir')
        for t, wanted in (('bf16', ('ldtilecfg', 'tileloadd', 'tdpbf16ps', 'tilestored', 'tilerelease')),
                          ('f16', ('vcvtph2psx', 'vcvtps2phx', 'vfmadd231ps'))):
            with open(model, 'w') as f:
                f.write('hir 1\nentry "" {\n  input "x" = %x\n  input "w" = %w\n  output "y" = %y\n}\n'
                        f'%x = Placeholder() {{dtype={t}, shape=shape[37,70]}}\n'
                        f'%w = Placeholder() {{dtype={t}, shape=shape[70,40]}}\n'
                        f'%y = MatMul(%x, %w) {{T={t}, transpose_a=false, transpose_b=false}}\n')
            r = self.tool('compile', model, '--emit', 'asm', '--target', 'sapphirerapids', '-o', '-')
            self.assertIn('has not been run on hardware', r.stderr.decode())
            for instruction in wanted:
                self.assertIn(instruction, r.stdout.decode())
            r = self.tool('compile', model, '--emit', 'asm', '--target', 'znver5', '-o', '-')
            self.assertNotIn(wanted[0], r.stdout.decode())
            self.assertEqual(r.stderr, b'')
        self.fails(2, "did you mean 'znver", 'run', model, '--target', 'znver6')

    def test_guard_pages(self):
        htx = os.path.join(self.dir, 'guarded.htx')
        self.tool('compile', SMALL, '-o', htx)
        plain = self.tool('run', SMALL, '--seed', '3').stdout
        for model in SMALL, htx:
            for side in 'behind', 'before':
                self.assertEqual(self.tool('run', model, '--seed', '3', '--guard', side).stdout, plain)
        self.fails(2, "'left' is neither 'behind' nor 'before'", 'run', SMALL, '--guard', 'left')
        self.fails(2, 'numerics', 'run', SMALL, '--guard', 'before', '--numerics', '--policy', 'force_fp16')

    def test_docs_have_the_help(self):
        with open(os.path.join(HERE, '..', '..', 'docs', 'cli.md')) as f:
            docs = f.read()
        for v in MODEL_VERBS + ('ops', 'tune', 'cache'):
            options = self.tool('help', v).stdout.decode().split('options:\n')[1].split('\n\nexit codes')[0]
            self.assertIn(options, docs, v)

    def test_options_of_a_policy(self):
        rows = {o['name']: o for o in json.loads(self.tool('options', '--format=json').stdout)['options']}
        self.assertEqual(sorted(rows), list(rows))
        self.assertEqual(rows['enable_reduce_precision']['class'], 'accepted')
        names = [p['name'] for p in json.loads(self.tool('profiles', '--format=json').stdout)['profiles']]
        self.assertEqual(names[0], 'cpu')
        self.assertIn('ascend310p', names)
        for p in names:
            r = self.tool('explain', '--policy=force_fp16', '--profile', p, '--format=json', SMALL)
            self.assertEqual(json.loads(r.stdout)['profile'], p)
        self.fails(2, "did you mean '--keep_dtype'", 'run', '--keep-dtyp', 'x', SMALL)
        self.fails(2, 'needs a value', 'run', SMALL, '--keep-dtype')
        self.fails(2, 'has an empty value', 'run', '--keep-dtype=', SMALL)
        self.fails(2, 'has no option', 'inspect', '--keep-dtype=x', SMALL)
        self.fails(2, 'is none of 0|1', 'run', '--graph_run_mode=2', SMALL)
        self.fails(5, 'x.txt: error: cannot read', 'run', '--keep-dtype=/no/x.txt', SMALL)
        with tempfile.TemporaryDirectory() as d:
            big = os.path.join(d, 'big.txt')
            with open(big, 'wb') as f:
                f.truncate(1 << 20)
            self.fails(6, 'must have less than 1048576', 'run', '--keep-dtype', big, SMALL)
            self.fails(3, 'no file here is named', 'run', '--ops-info', d, SMALL)
        self.fails(4, 'has no bfloat16', 'explain', '--policy=mixed_bfloat16', '--profile=ascend310', SMALL)
        self.fails(4, 'hifloat8', 'explain', '--precision_mode_v2=cube_hif8', SMALL)
        # The environment's policy gives way to a mode; with other options it stays.
        r = self.tool('explain', '--precision_mode=force_fp32', '--format=json', SMALL, env={'HALFTONE_POLICY': 'force_fp16'})
        self.assertEqual(json.loads(r.stdout)['policy'], 'force_fp32')
        r = self.tool('explain', '--profile=ascend910', '--format=json', SMALL, env={'HALFTONE_POLICY': 'force_fp16'})
        self.assertEqual(json.loads(r.stdout)['policy'], 'force_fp16')
        r = self.tool('run', '--show-options', '--graph-run-mode', '1', '--lenient', SMALL)
        self.assertIn(b"--graph_run_mode='1'\n", r.stdout)

    def test_hostile_files(self):
        """Each option that names a file: too long, deep or wide, no file, no end.  None takes long."""
        lists = {'modify-mixlist': ['--policy=allow_mix_precision'], 'customize-dtypes': [], 'keep-dtype': [], 'op-precision-mode': [],
                 'fusion-switch-file': [], 'cost-table': ['--policy=optimal'], 'config': []}
        for o, more in lists.items():
            limit = 16 << 20 if o == 'cost-table' else 1 << 20
            big = self.path('big.txt', b'')
            with open(big, 'wb') as f:
                f.truncate(limit)
            self.fails(6, r'big\.txt: error: %d bytes; a file must have less than %d' % (limit, limit), 'run', '--' + o, big, *more, SMALL)
            self.fails(5, 'Is a directory', 'run', '--' + o, self.dir, *more, SMALL)
            self.fails(5, 'not a regular file', 'run', '--' + o, '/dev/zero', *more, SMALL)
            self.fails(3, r'x\.txt:?[0-9]*: error: ', 'run', '--' + o, self.path('x.txt', b'[' * 500000), *more, SMALL)
            self.fails(3, r'x\.txt:?[0-9]*: error: ', 'run', '--' + o, self.path('x.txt', b'{"a":' * 150000), *more, SMALL)
            self.fails(3, r'x\.txt:?[0-9]*: error: ', 'run', '--' + o, self.path('x.txt', b'\xff\xfe\0' * 300000), *more, SMALL)
            self.fails(3, r'x\.txt:?[0-9]*: error: ', 'run', '--' + o, self.path('x.txt', b'a' * 1000000), *more, SMALL)
        many = self.path('many.txt', b''.join(b'n%d\n' % i for i in range(120000)))
        r = self.tool('run', '--keep-dtype', many, SMALL, code=2)
        self.assertLess(len(r.err), 1 << 20)
        self.assertRegex(r.err, r"many\.txt:1: error: keep_dtype: the graph has no node 'n0'")

        def unknown_names(n):
            """Processor time of two files of n names that are not there; eight times as many may not take the square."""
            types = ','.join('"Mat%dMul"' % i for i in range(n))
            mix = self.path('many.json', ('{"black-list": {"to-add": [%s]}}' % types).encode())
            switch = self.path('many.txt', b''.join(b'Fusion%dPass:on\n' % i for i in range(n)))
            before = os.times().children_user
            r = self.tool('explain', '--policy=allow_mix_precision', '--modify-mixlist', mix, '--lenient', SMALL)
            self.assertRegex(r.err, r"many\.json:1: warning: modify_mixlist: there is no op type 'Mat0Mul', ignored; did you mean 'MatMul'")
            self.tool('explain', '--fusion-switch-file', switch, '--lenient', SMALL)
            return os.times().children_user - before
        self.assertLess(unknown_names(48000), 24 * unknown_names(6000))

    def test_vendor_spellings(self):
        a = self.tool('run', '--input_shape', 'x:2,4', '--precision_mode', 'allow_mix_precision', '--format=json', SMALL)
        b = self.tool('run', '--input-shape=x:2,4', '--precision_mode_v2=mixed_float16', '--format=json', SMALL)
        a, b = json.loads(a.stdout), json.loads(b.stdout)
        self.assertEqual(a['outputs'], b['outputs'])
        self.assertEqual(a['outputs'][0]['shape'], [2, 3])
        self.assertGreater(a['low_nodes'], 0)

    def test_environment(self):
        r = self.tool('run', '--format=json', SMALL, env={'HALFTONE_POLICY': 'force_fp16', 'HALFTONE_TARGET': 'x86-64-v3'})
        self.assertEqual(json.loads(r.stdout)['policy'], 'force_fp16')
        self.assertEqual(json.loads(r.stdout)['target'], 'x86-64-v3')
        r = self.tool('run', '--format=json', '--policy=origin', SMALL, env={'HALFTONE_POLICY': 'force_fp16'})
        self.assertEqual(json.loads(r.stdout)['policy'], 'origin')


class BadInput(Case):
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
        # The files by themselves are valid, as are all others of the folder.
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
                ('Where', 'T=f32', 'i64[?,1]', 'size depends on the data'),
                ('ComplexAbs', 'T=c64, Tout=f32', 'f32[2]', 'complex numbers'),
                ('Digamma', 'T=f32', 'f32[2]', 'has no kernel'),
                ('AsString', 'T=f32', 'string[2]', 'strings or files'),
                ('Enter', 'T=f32, frame_name="loop"', 'f32[2]', 'is control flow'),
                ('ReluGrad', 'T=f32', 'f32[2]', 'is for training'),
                ('VarIsInitializedOp', '', 'bool[]', 'between runs')):
            arg = {'ComplexAbs': 'c64', 'VarIsInitializedOp': 'resource'}.get(op, 'f32')
            text = (f'hir 1\nentry "" {{\n  output "b" = %b\n}}\n%a = Placeholder() {{dtype={arg}}} : {arg}[2]\n'
                    f'%b = {op}({"%a, %a" if op == "ReluGrad" else "%a"}) {{{attrs}}} : {types}\n')
            with self.subTest(op):
                r = self.fails(4, why, 'run', self.path('why.hir', text.encode()))
                self.assertIn(f'op {op} ', r.err)

    def test_open_dimension(self):
        with open(SMALL, 'rb') as f:
            open_rank = f.read().replace(b'shape[?,4]', b'shape[?,?]')
        self.fails(4, 'input-shape', 'run', self.path('open.hir', open_rank))
        self.tool('run', '--input-shape', 'x:1,4', self.path('open.hir'))
        self.assertIn('counts as 1', self.tool('run', SMALL).err)
        self.assertNotIn('counts as 1', self.tool('run', '--batch', '2', SMALL).err)

    def test_feeds(self):
        good = self.x(1, 2, 3, 4)
        self.tool('run', '--input', 'x=@' + good, SMALL)
        self.tool('run', '--input', 'x:0=@' + good, SMALL)
        self.fails(5, 'absent.npy', 'run', '--input', 'x=@' + self.path('absent.npy'), SMALL)
        for name, data, pattern in (
                ('f8.npy', npy('<f8', (1, 4), bytes(32)), 'float32.*float64'),
                ('rank.npy', npy('<f4', (4,), bytes(16)), 'dimensions'),
                ('dim.npy', npy('<f4', (1, 5), bytes(20)), 'dimension 1'),
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
        for spec in ('i32[1,4]:1', 'f32[4]:1', 'f32[99999999999,4]:1'):
            self.fails(3, r'another type or shape.*float32\[1,4\]', 'run', '--input', 'x=' + spec, SMALL)
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


class Arguments(Case):
    def test_files_of_arguments(self):
        x = self.x(1, 2, 3, 4, name="a 'b.npy")
        want = self.tool('run', '--input', 'x=@' + x, '--outputs=y', '--threads', '2', SMALL).stdout
        words = f'''# how it is run
--input "x=@{x}"
--outputs='y' # this one
--threads 2
'''
        self.path('a.txt', words.encode())
        at = '@' + self.path('a.txt')
        self.assertEqual(self.tool('run', at, SMALL).stdout, want)
        shown = self.tool('run', SMALL, at, '--show-options', env={'HALFTONE_TARGET': 'x86-64-v3'}).stdout
        self.assertIn(b"--target='x86-64-v3'", shown)
        self.path('b.txt', shown)
        again = self.tool('run', '@' + self.path('b.txt'), '--show-options').stdout
        self.assertEqual(*(re.sub(rb' # HALFTONE_\w+', b'', text) for text in (again, shown)))
        self.path('c.txt', ('@' + self.path('c.txt')).encode())
        self.fails(2, 'too deeply', 'run', '@' + self.path('c.txt'))
        self.fails(2, r'd\.txt:2: a quotation mark', 'run', '@' + self.path('d.txt', b'\n--input "x'))
        self.fails(3, r'byte 2: a NUL', 'run', '@' + self.path('e.txt', b'--\0'))
        self.fails(5, 'cannot read', 'run', '@' + self.path('nowhere.txt'))
        self.fails(5, 'not a regular file', 'run', '@' + self.dir)
        self.fails(6, 'at most', 'run', '@' + self.path('f.txt', b'#' * (2 << 20)))


class Run(Case):
    def test_result(self):
        out = self.path('y.npz')
        r = self.tool('run', '--input', 'x=@' + self.x(1, 2, 3, 4), '-o', out, SMALL)
        y = self.outputs(out)
        self.assertEqual(list(y), ['y.npy', 'top.npy'])
        self.assertEqual(y['y.npy'], ('<f4', (1, 3), [6.5, 5.375, 4.75]))
        self.assertEqual(y['top.npy'], ('<i8', (1,), [0]))
        self.assertIn(b'y  float32[1,3]', r.stdout)
        self.tool('run', '--input', 'x=@' + self.x(1, 2, 3, 4), '--outputs', 'y', '-o', self.path('y.npy'), SMALL)
        with open(self.path('y.npy'), 'rb') as f:
            self.assertEqual(read_npy(f.read())[2], [6.5, 5.375, 4.75])
        self.fails(2, '2 outputs', 'run', '-o', self.path('two.npy'), SMALL)

    def test_layouts_of_npy(self):
        want = self.tool('run', '--input', 'x=@' + self.x(1, 2, 3, 4, 5, 6, 7, 8), '--batch=2', '--format=json', SMALL).stdout
        fortran = self.path('f.npy', npy('<f4', (2, 4), floats(1, 5, 2, 6, 3, 7, 4, 8), fortran=True))
        second = self.path('v2.npy', npy('<f4', (2, 4), floats(1, 2, 3, 4, 5, 6, 7, 8), version=2))
        for p in (fortran, second):
            self.assertEqual(self.tool('run', '--input', 'x=@' + p, '--batch=2', '--format=json', SMALL).stdout, want)

    def test_standard_output(self):
        a = self.path('a.npz')
        self.tool('run', '-o', a, SMALL)
        with open(a, 'rb') as f:
            self.assertEqual(self.tool('run', '-o', '-', SMALL).stdout, f.read())

    def test_random_inputs(self):
        r = self.tool('run', SMALL)
        self.assertRegex(r.err, r"input 'x' is random: float32\[1,4\], seed 1")
        self.assertEqual(self.tool('run', '--seed', '1', SMALL).stdout, r.stdout)
        self.assertNotEqual(self.tool('run', '--seed', '2', SMALL).stdout, r.stdout)
        self.assertEqual(self.tool('run', '--quiet', SMALL).err, '')

    def test_threads_give_the_same_bytes(self):
        want = self.tool('run', '-o', '-', '--batch', '64', SMALL).stdout
        for threads in '2', '3', '5':
            self.assertEqual(self.tool('run', '-o', '-', '--batch', '64', '--threads', threads, SMALL).stdout, want)

    def test_expect(self):
        ref, x = self.path('ref.npz'), 'x=@' + self.x(1, 2, 3, 4)
        self.tool('run', '--input', x, '-o', ref, SMALL)
        r = self.tool('run', '--input', x, '--expect', ref, SMALL)
        self.assertIn(b'ok', r.stdout)
        other = 'x=@' + self.x(1, 2, 3, 4.01, name='o.npy')
        r = self.tool('run', '--input', other, '--expect', ref, SMALL, code=1)
        self.assertIn(b'FAILED', r.stdout)
        self.tool('run', '--input', other, '--expect', ref, '--tol', '0.1', SMALL)
        self.tool('run', '--input', other, '--expect', ref, '--tol', 'y:0.1', SMALL)
        r = self.tool('run', '--input', other, '--expect', ref, '--tol=y:1e-9', '--format=json', SMALL, code=1)
        verdict = {v['output']: v for v in json.loads(r.stdout)['expect']}
        self.assertFalse(verdict['y']['ok'])
        self.assertTrue(verdict['top']['ok'])
        self.assertFalse(json.loads(r.stdout)['ok'])
        self.fails(2, "no output 'z'", 'run', '--expect', ref, '--tol', 'z:1', SMALL)
        self.fails(2, 'NUMBER', 'run', '--expect', ref, '--tol', 'much', SMALL)
        self.fails(3, 'another shape', 'run', '--expect', ref, '--batch', '2', SMALL)
        with zipfile.ZipFile(ref, 'w') as f:
            f.writestr('y.npy', npy('<f4', (1, 3), floats(float('nan'), 0, 0)))
        self.fails(3, "no member 'top'", 'run', '--expect', ref, SMALL)
        with zipfile.ZipFile(ref, 'w') as f:
            f.writestr('y.npy', npy('<f4', (1, 3), floats(float('nan'), 5.375, 4.75)))
        r = self.tool('run', '--input', x, '--outputs=y', '--expect', ref, '--format=json', SMALL, code=1)
        self.assertEqual(json.loads(r.stdout)['expect'][0]['error'], 'inf')

    def test_bfloat16(self):
        one = struct.pack('<3H', 0x3f80, 0x4000, 0xc040)  # 1, 2, -3
        ones = self.path('i.npy', npy('<i4', (3,), struct.pack('<3i', 1, 2, -2)))
        for descr in ('<u2', '|V2'):
            b = self.path('b.npy', npy(descr, (3,), one))
            out = self.path('o.npz')
            self.tool('run', '--input', 'b=@' + b, '--input', 'i=@' + ones, '-o', out, TYPES)
            y = self.outputs(out)
            self.assertEqual(y['b2.npy'], ('<u2', (3,), [0x4000, 0x4080, 0xc0c0]))
            self.assertEqual(json.loads(y['b2.dtype.json']), {'dtype': 'bfloat16'})
            self.assertEqual(y['q.npy'][2], [7, 3, -4])
            self.tool('run', '--input', 'b=@' + b, '--input', 'i=@' + ones, '-o', out, '--widen', TYPES)
            self.assertEqual(self.outputs(out)['b2.npy'], ('<f4', (3,), [2, 4, -6]))


class Others(Case):
    def test_inspect(self):
        j = json.loads(self.tool('inspect', '--format=json', SMALL).stdout)
        self.assertEqual(j['schema'], 'halftone.inspect/1')
        self.assertEqual(j['inputs'], [{'name': 'x', 'dtype': 'float32', 'shape': [-1, 4]}])
        self.assertEqual(j['outputs'], [{'name': 'y', 'dtype': 'float32', 'shape': [-1, 3]}, {'name': 'top', 'dtype': 'int64', 'shape': [-1]}])
        self.assertEqual(j['ops'], {'ArgMax': 1, 'Const': 2, 'MatMul': 1, 'Placeholder': 1})
        self.assertEqual(j['unsupported'], {})
        self.assertEqual(j['multiply_adds'], 12)
        self.assertEqual(json.loads(self.tool('inspect', '--format=json', '--batch=10', SMALL).stdout)['multiply_adds'], 120)

    def test_inspect_of_an_equation(self):
        def graph(equation):
            return self.path('e.hir', b"""hir 1
entry "" { input "x" = %%x output "y" = %%y }
%%x = Placeholder() {dtype=f32, shape=shape[2,3,5]}
%%y = Einsum(%%x, %%x) {N=2, T=f32, equation="%s"}
""" % equation)
        for equation, count in (b'abc,dbc->ad', 60), (b'...ab,...cb->...ac', 90), (b'abc,abc->abc', 0):
            j = json.loads(self.tool('inspect', '--format=json', graph(equation)).stdout)
            self.assertEqual((j['multiply_adds'], j['unsupported']), (count, {}), equation)
        self.fails(3, r"node 'y' \(Einsum\): equation 'abc,abc' has no '->'", 'run', graph(b'abc,abc'))
        self.fails(4, 'label twice in the result', 'compile', graph(b'abc,abc->aabc'))

    def test_a_constant_too_large_to_expand(self):
        model = self.path('large.pbtxt', b'''
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { dim { size: 8192 } } } } }
node { name: "w" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "value" value { tensor {
       dtype: DT_FLOAT tensor_shape { dim { size: 8192 } dim { size: 8192 } } float_val: 0.5 } } } }
node { name: "y" op: "Mul" input: "x" input: "w" attr { key: "T" value { type: DT_FLOAT } } }
''')
        self.fails(4, "node 'w' .*too large to expand", 'run', model)

    def test_inspect_of_what_trains(self):
        model = self.path('train.pbtxt', b'''
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { dim { size: 2 } } } } }
node { name: "v" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "shape" value { shape { dim { size: 2 } } } } }
node { name: "y" op: "AssignAdd" input: "v" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
''')
        r = self.tool('inspect', model, '--format', 'json')
        self.assertIn('no checkpoint', r.err)
        j = json.loads(r.stdout)
        self.assertEqual(j['unsupported'], {'AssignAdd': 1, 'VariableV2': 1})
        self.assertEqual(j['outputs'], [{'name': 'y', 'dtype': 'float32', 'shape': [2]}])

    def test_bench(self):
        r = self.tool('bench', '--format=json', '--duration=0.01', '--runs=5', '--warmup=1', '--batch=3', '--policy=force_fp16', SMALL)
        j = json.loads(r.stdout)
        self.assertEqual(j['schema'], 'halftone.bench/1')
        self.assertEqual((j['policy'], j['threads'], j['batch'], j['model']), ('force_fp16', 1, 3, SMALL))
        l = j['latency_ms']
        self.assertTrue(0 < l['min'] <= l['median'] <= l['p90'] <= l['p99'])
        self.assertGreaterEqual(l['runs'], 5)
        for key in ('weight_bytes', 'arena_bytes', 'peak_rss_bytes'):
            self.assertIsInstance(j[key], int)
        self.assertIn('code', j['compile_ms'])
        steps = json.loads(self.tool('bench', '--format=json', '--duration=0', '--runs=1', '--steps', SMALL).stdout)['steps_ms']
        self.assertIn(['y', 'matrix-vector'], [[s[0], *s[2:]] for s in steps])
        steps = json.loads(self.tool('bench', '--format=json', '--duration=0', '--runs=1', '--batch=3', '--steps', SMALL).stdout)['steps_ms']
        self.assertIn(['y'], [[s[0], *s[2:]] for s in steps])

    def test_explain(self):
        j = json.loads(self.tool('explain', '--policy', 'allow_mix_precision_bf16', '--format=json', SMALL).stdout)
        self.assertEqual(j['types'], {'y': {'T': 'bfloat16'}, 'top': {'T': 'bfloat16'}})
        self.assertEqual([[c['name'], c['source'], c['to']] for c in j['casts']], [['w/bfloat16', 'w', 'bfloat16'], ['x/bfloat16', 'x', 'bfloat16'], ['y', 'y/bfloat16', 'float32']])
        self.assertEqual(json.loads(self.tool('explain', '--format=json', SMALL).stdout)['types'], {})

    def test_explain_compares(self):
        def explain(*options):
            return subprocess.run([TOOL, 'explain', SMALL, '-q', *options], capture_output=True, text=True)
        report = self.path('report.json')
        with open(report, 'w') as f:
            f.write(explain('--policy=allow_mix_precision_bf16', '--format=json').stdout)
        self.assertEqual(explain('--policy', report, '--against', report, '--fail-on=new-cast,lower-precision,cost').returncode, 0)
        same = json.loads(explain('--diff', report, 'allow_mix_precision_bf16', '--format=json').stdout)
        self.assertEqual((same['schema'], same['units'], same['new_casts'], same['gone_casts']), ('halftone.diff/1', [], [], []))
        worse = explain('--policy=force_fp16', '--against', report, '--fail-on=new-cast', '--fail-on=lower-precision,cost+1000000%', '--format=json')
        self.assertEqual(worse.returncode, 1)
        self.assertIn('new-cast: ', worse.stderr)
        self.assertNotIn('cost: ', worse.stderr)
        told = json.loads(worse.stdout)
        self.assertEqual(told['before']['report'], report)
        self.assertEqual({u['node'] for u in told['units']}, {'y', 'top'})
        self.assertTrue(all(c['to'] in ('float16', 'float32') and c['bytes'] is not None for c in told['new_casts']))
        back = explain('--policy=must_keep_origin_dtype', '--against', report, '--fail-on=lower-precision,new-cast')
        self.assertEqual(back.returncode, 0, back.stderr)
        self.assertEqual(explain('--policy=allow_mix_precision_bf16', '--against', self.keep_report(), '--fail-on=lower-precision').returncode, 1)
        self.assertRegex(explain('--policy=force_fp16', '--prices').stdout, r'cast .*, \d+ bytes, 0\.\d+ ms\n')
        why = json.loads(explain('--policy=optimal', '--why-not=bf16', '--format=json').stdout)
        self.assertEqual(why['schema'], 'halftone.why_not/1')
        self.assertEqual(sum(why['reasons'].values()), len(why['units']))
        self.assertTrue(any('price_ps' in u for u in why['units']))

    def keep_report(self):
        path = self.path('keep.json')
        with open(path, 'wb') as f:
            f.write(self.tool('explain', '--format=json', SMALL).stdout)
        return path

    def test_explain_refuses_what_it_cannot_compare(self):
        report = self.keep_report()
        for options, message in (
                (['--fail-on=new-cast'], 'needs --against'), (['--against', report], 'needs --fail-on'),
                (['--against', report, '--fail-on=new-cats'], "'new-cats' is no condition"),
                (['--against', report, '--fail-on=cost+-1%'], 'is no condition'),
                (['--against', report, '--fail-on=cost+5'], 'is no condition'),
                (['--against', report, '--fail-on=new-cast,'], "'' is no condition"),
                (['--against', report, '--fail-on=cost+1e999%'], 'is no condition'),
                (['--diff', 'force_fp16'], 'needs two'), (['--diff=force_fp16'], 'needs two'),
                (['--diff', 'force_fp16', 'force_fp61'], "did you mean 'force_fp16'"),
                (['--diff', 'force_fp16', 'fp16', '--policy=fp16'], 'does not go with --diff'),
                (['--diff', 'force_fp16', 'fp16', '--why-not=f16'], 'at a time'),
                (['--diff', 'force_fp16', 'fp16', '--format=dot'], 'for a report alone'),
                (['--diff', 'force_fp16', 'fp16', '--node=y'], '--node has no effect'),
                (['--why-not=f64'], "'f64' is not f32, f16 or bf16"), (['--node=z'], "no node 'z'"),
                (['--why-not=f16', '--node=yy'], "did you mean 'y'"), (['--format=svg'], 'not text, json, dot or node-data'),
                (['--policy', report, '--keep_dtype', SMALL], 'keep_dtype'),
                (['--policy', report, '--allow_hf32=1'], 'does not go with a report')):
            r = subprocess.run([TOOL, 'explain', SMALL, '-q', *options], capture_output=True, text=True)
            self.assertIn(r.returncode, (2, 3), (options, r.stderr))
            self.assertEqual(r.stdout, '', options)
            self.assertIn(message, r.stderr, options)
        with open(report) as f:
            text = f.read()
        for wrong, place in ((text[:len(text) // 2], r':\d+: '), ('{}', r':\d+: '), ('[' * 100000, r':\d+: '), (text.replace('float32', 'float33', 1), r':\d+: ')):
            with open(self.path('wrong.json'), 'w') as f:
                f.write(wrong)
            for options in (['--policy', self.path('wrong.json')], ['--against', self.path('wrong.json'), '--fail-on=cost']):
                r = subprocess.run([TOOL, 'explain', SMALL, '-q', *options], capture_output=True, text=True)
                self.assertEqual(r.returncode, 3, r.stderr)
                self.assertRegex(r.stderr, 'wrong.json' + place)
        r = subprocess.run([TOOL, 'run', SMALL, '-q', '--policy', self.path('absent.json')], capture_output=True, text=True)
        self.assertEqual((r.returncode, r.stdout), (5, ''), r.stderr)

    def test_explain_draws(self):
        dot = self.tool('explain', '--policy=force_fp16', '--format=dot', SMALL).stdout
        self.assertIn(b'fillcolor', dot)
        svg = subprocess.run(['dot', '-Tsvg'], input=dot, capture_output=True, check=True).stdout
        self.assertIn(b'</svg>', svg)
        data = json.loads(self.tool('explain', '--policy=force_fp16', '--format=node-data', SMALL).stdout)
        self.assertEqual(data['results']['y']['value'], 'float16')
        self.assertEqual(data['results']['x']['value'], 'float32')

    def test_what_run_explain_and_convert_decide_is_one_thing(self):
        pb, back = self.path('c.pb'), self.path('c.hir')
        self.tool('convert', '--policy=force_fp16', '-o', pb, SMALL)
        self.tool('opt', pb, '-o', back)
        with open(back) as f:
            casts = re.findall(r'= Cast\(', f.read())
        j = json.loads(self.tool('explain', '--policy=force_fp16', '--format=json', SMALL).stdout)
        r = json.loads(self.tool('run', '--policy=force_fp16', '--format=json', SMALL).stdout)
        self.assertEqual(r['casts'], len(j['casts']))
        self.assertEqual(len(casts), len([c for c in j['casts'] if c['source'] != 'w']))
        self.assertEqual(r['outputs'], json.loads(self.tool('run', '--format=json', pb, '--outputs', 'y,top').stdout)['outputs'])

    def test_convert_forms(self):
        text, wire, again = self.path('a.pbtxt'), self.path('a.pb'), self.path('b.pb')
        self.tool('convert', SMALL, '-o', text)
        self.tool('convert', text, '-o', wire)
        self.tool('convert', wire, '-o', again)
        with open(wire, 'rb') as f, open(again, 'rb') as g:
            data = f.read()
            self.assertEqual(data, g.read())
        self.assertEqual(self.tool('convert', wire, '-o', '-').stdout, data)

    def test_convert_keeps_the_names_of_all_outputs(self):
        model = self.path('names.hir', b'''hir 1
entry "" {
  input "x" = %x
  output "s:1" = %s:1
  output "n:1" = %n:1
  output "n" = %n
  output "c:2" = %c:2
}

%x = Placeholder() {dtype=f32, shape=shape[2,4]}
%axis = Const() {dtype=i32, value=tensor i32[] {1}}
%s = Split(%axis, %x) {T=f32, num_split=2}
%r = Relu(%x) {T=f32}
%n = IdentityN(%r, %s:1) {T=[f32, f32]}
%k = Const() {dtype=f32, value=tensor f32[3] {1.0, 2.0, 3.0}}
%kaxis = Const() {dtype=i32, value=tensor i32[] {0}}
%c = Split(%kaxis, %k) {T=f32, num_split=3}
''')
        for policy in 'must_keep_origin_dtype', 'force_fp16':
            pb, names = self.path('names.pb'), 's:1,n:1,n,c:2'
            self.tool('convert', '--policy', policy, '-o', pb, model)
            a = json.loads(self.tool('run', '--policy', policy, '--format=json', model).stdout)
            b = json.loads(self.tool('run', '--outputs', names, '--format=json', pb).stdout)
            self.assertEqual(a['outputs'], b['outputs'])

    def test_convert_what_was_stated(self):
        self.tool('convert', '--input-shape', 'x:2,4', '--outputs', 'y', '-o', self.path('o.pb'), SMALL)
        j = json.loads(self.tool('inspect', '--format=json', self.path('o.pb')).stdout)
        self.assertEqual(j['inputs'][0]['shape'], [2, 4])
        self.assertNotIn('ArgMax', j['ops'])

    def test_large_constants_lie_beside_the_text(self):
        large = b'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n%x = Placeholder() {dtype=f32, shape=shape[100]}\n' \
                b'%w = Const() {dtype=f32, value=tensor f32[100] {' + b', '.join(b'%d.5' % i for i in range(100)) + b'}}\n' \
                b'%y = AddV2(%x, %w) {T=f32}\n'
        model, a, b = self.path('large.hir', large), self.path('a.hir'), self.path('b.hir')
        for args in (['opt', '--passes', 'infer'], ['compile', '--emit', 'hir'], ['convert']):
            self.tool(*args, '-o', a, model)
            self.assertLess(os.path.getsize(a), 1000)
            self.tool('opt', '-o', b, a)
            for suffix in '.hir', '.weights':
                with open(a[:-4] + suffix, 'rb') as f, open(b[:-4] + suffix, 'rb') as g:
                    self.assertEqual(f.read(), g.read())
            self.assertEqual(self.tool('run', a).stdout, self.tool('run', model).stdout)
            for n in 'a.hir', 'a.weights', 'b.hir', 'b.weights':
                os.unlink(self.path(n))
            if args[0] != 'convert':
                self.assertIn(b'99.5', self.tool(*args, '-o', '-', model).stdout)
            # Both files or none.
            self.fails(5, 'cannot write', *args, '-o', self.path('nowhere/a.hir'), model)
            os.mkdir(self.path('a.weights'))
            self.fails(5, r'a\.weights: error: cannot write', *args, '-o', a, model)
            self.assertEqual(sorted(os.listdir(self.dir)), ['a.weights', 'large.hir'])
            os.rmdir(self.path('a.weights'))

    def test_opt(self):
        a = self.tool('opt', SMALL, '--passes', 'infer').stdout
        p = self.path('a.hir', a)
        self.assertEqual(self.tool('opt', p).stdout, a)
        self.assertIn(b'y = MatMul', a)
        names = [l.split()[0] for l in self.tool('opt', '--list').stdout.decode().splitlines()]
        self.assertIn('precision', names)
        stopped = self.tool('opt', SMALL, '--passes', 'infer,precision,casts', '--stop-after', 'infer', '--policy=fp16').stdout
        self.assertEqual(stopped, a)

    def test_compile(self):
        self.assertIn('no target stated', self.tool('compile', SMALL).err)
        self.assertIn(b'hir 1', self.tool('compile', SMALL, '--emit', 'hir', '--stop-after', 'cse').stdout)
        self.assertIn(b'define', self.tool('compile', SMALL, '--emit=llvm').stdout)
        self.assertIn(b'.text', self.tool('compile', SMALL, '--emit=asm', '--target=x86-64').stdout)
        o = self.path('k.a')
        self.assertEqual(self.tool('compile', SMALL, '--emit=obj', '-o', o).stdout, b'')
        with open(o, 'rb') as f:
            self.assertEqual(f.read(8), b'!<arch>\n')
        first, second = (self.tool('compile', SMALL, '--emit=obj', '--target=x86-64-v3').stdout for _ in 'ab')
        self.assertEqual(first, second)

    def test_a_bound_on_halves_calls_no_library(self):
        model = self.path('m.hir', b'''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}
%x = Placeholder() {dtype=f16, shape=shape[1]}
%c = Const() {dtype=f16, value=tensor f16[] {-0.0625}}
%ge = GreaterEqual(%x, %c) {T=f16}
%s = SelectV2(%ge, %x, %c) {T=f16}
%y = Cast(%s) {SrcT=f16, DstT=f32, Truncate=false}
''')
        for target in 'x86-64', 'x86-64-v3', 'x86-64-v4', 'x86-64-v4+bf16':
            asm = self.tool('compile', model, '--target', target, '--emit', 'asm', '-o', '-').stdout
            self.assertNotIn(b'fmax', asm)

    def test_large_results_are_written_past_the_caches(self):
        for rows, streams in (8192, True), (8191, False):
            model = self.path('m.hir', f'''hir 1
entry "" {{
  input "x" = %x
  output "y" = %y
}}
%x = Placeholder() {{dtype=f32, shape=shape[{rows},1024]}}
%y = Relu(%x) {{T=f32}}
'''.encode())
            for target in 'x86-64', 'x86-64-v3', 'x86-64-v4':
                asm = self.tool('compile', model, '--target', target, '--emit', 'asm', '-o', '-').stdout
                self.assertEqual((b'movnt' in asm, b'sfence' in asm), (streams, streams), target)

    def test_lists(self):
        for verb, some in (('ops', 'MatMul'), ('targets', 'x86-64-v3'), ('policies', 'force_fp16')):
            self.assertIn(some, self.tool(verb).stdout.decode())
            j = json.loads(self.tool(verb, '--format=json').stdout)
            self.assertIn(some, [r['name'] for r in j[verb]])


class Configurations(Case):
    def config(self, text, name='run.json'):
        return self.path(name, text.encode())

    def values(self, *args, env=None):
        return {o['name']: (o['value'], o['origin'])
                for o in json.loads(self.tool('config', '--format=json', *args, env=env).stdout)['config']}

    def test_origins(self):
        run = self.config('{"precision_mode":\n"force_fp32",\n "dump_config": {"dump_mode": "all"}}')
        v = self.values('--config', run, '--keep_checkpoint_max=7', '--target=x86-64-v3', env={'HALFTONE_THREADS': '2'})
        self.assertEqual(v['precision_mode'], ('force_fp32', run + ':1'))
        self.assertEqual(v['dump_config.dump_mode'], ('all', run + ':3'))
        self.assertEqual(v['graph_run_mode'], ('1', run + ', implied'))
        self.assertEqual(v['keep_checkpoint_max'], ('7', 'command line'))
        self.assertEqual(v['target'], ('x86-64-v3', 'command line'))
        self.assertEqual(v['threads'], ('2', 'HALFTONE_THREADS'))
        self.assertEqual(v['oo_level'], ('O3', 'default'))
        self.assertEqual(v['policy'], ('force_fp32', 'precision_mode'))
        self.assertIn('precision_mode                   force_fp32', self.tool('config', '--config', run).stdout.decode())

    def test_what_counts_before_a_file(self):
        run = self.config('{"precision_mode": "force_fp32", "keep_checkpoint_max": 3, "deterministic": 1}')
        for args, env, policy in ((['--precision_mode=force_fp16'], {}, 'force_fp16'), (['--precision_mode_v2=fp16'], {}, 'fp16'),
                                  (['--policy=force_fp16'], {}, 'force_fp16'), ([], {'HALFTONE_POLICY': 'fp16'}, 'fp16')):
            v = self.values('--config', run, *args, env=env)
            self.assertEqual(v['policy'][0], policy)
            self.assertEqual(v['deterministic'], ('1', run + ':1'))
        later = self.config('{"keep_checkpoint_max": 4}', 'later.json')
        self.assertEqual(self.values('--config', run, '--config', later)['keep_checkpoint_max'], ('4', later + ':1'))
        self.assertEqual(self.values('--keep-checkpoint-max=9', '--config', run)['keep_checkpoint_max'], ('9', 'command line'))

    def test_run_modes(self):
        train, infer = self.config('{}'), self.config('{"graph_run_mode": 0}', 'infer.json')
        self.assertEqual(self.values('--config', train)['policy'], ('must_keep_origin_dtype', 'graph_run_mode'))
        self.assertEqual(self.values('--config', train, '--profile=ascend910')['policy'], ('allow_fp32_to_fp16', 'graph_run_mode'))
        self.assertEqual(self.values('--config', infer)['policy'], ('force_fp16', 'graph_run_mode'))
        self.assertEqual(self.values()['policy'], ('must_keep_origin_dtype', 'default'))
        self.assertRegex(self.tool('explain', '--config', infer, SMALL).err, 'no precision mode is stated: force_fp16, the default of inference')

    def test_every_verb_reads_one(self):
        run = self.config('{"precision_mode": "force_fp16", "jit_compile": "true"}')
        for args in (['run'], ['bench', '--runs=1', '--duration=0.01'], ['compile'], ['convert', '-o', self.path('o.pb')], ['explain'],
                     ['opt', '--passes=prune']):
            r = self.tool(*args, '--config', run, SMALL)
            self.assertEqual(r.err.count('warning: jit_compile has no effect: '), 1, args)
        report = json.loads(self.tool('explain', '--config', run, '--format=json', SMALL).stdout)
        self.assertEqual(report['policy'], 'force_fp16')
        self.assertEqual(report['without_effect'], ['jit_compile'])
        for args in ['run'], ['bench', '--runs=1', '--duration=0.01'], ['compile']:
            for more, names in (['--config', run], ['jit_compile']), ([], []):
                r = self.tool(*args, *more, '--format=json', SMALL)
                self.assertEqual(json.loads(r.stdout)['without_effect'], names)

    def test_bad(self):
        bad = self.config('{\n"precision_modes": "force_fp16"}')
        self.fails(3, r"run\.json:2: error: .*no member 'precision_modes'; did you mean 'precision_mode'", 'run', '--config', bad, SMALL)
        self.assertRegex(self.tool('run', '--config', bad, '--lenient', SMALL).err, r"run\.json:2: warning: .*no member 'precision_modes'")
        refused = self.config('{"dump_config": {\n"enable_dump": true}}')
        self.fails(4, r'run\.json:2: error: dump_config.enable_dump=true is refused: ', 'explain', '--config', refused, SMALL)
        self.fails(5, 'nothing.json', 'run', '--config', self.path('nothing.json'), SMALL)
        self.fails(2, "has no option '--config'", 'inspect', '--config', bad, SMALL)
        self.fails(4, 'mix_compile_mode=true is refused', 'run', '--mix_compile_mode', SMALL)
        self.fails(2, "oo_level: 'O9' is none of O0|O1|O2|O3", 'run', '--oo_level=O9', SMALL)
        self.fails(2, "no whole number in 1..", 'run', '--iterations-per-loop=x', SMALL)
        self.fails(2, "did you mean '--iterations_per_loop'", 'run', '--iteration_per_loop=1', SMALL)
        self.fails(2, 'takes no argument', 'config', SMALL)

    def test_classes(self):
        classes = json.loads(self.tool('config', '--classes', '--format=json').stdout)
        table = json.loads(self.tool('options', '--format=json').stdout)['options']
        for c in 'honoured', 'accepted', 'refused':
            self.assertEqual([o['name'] for o in classes[c]], [o['name'] for o in table if o['class'] == c])
            self.assertTrue(all(o['reason' if c != 'honoured' else 'does'] for o in classes[c]))
        self.assertEqual(len({o['name'] for o in table}), len(table))
        text = self.tool('config', '--classes').stdout
        self.assertEqual(text, self.tool('atc', '--help-compat').stdout)
        for o in table:
            self.assertIn(('  %s ' % o['name']).encode(), text)

    def test_fusions_are_switched(self):
        swish = self.path('swish.hir', b'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n\n%x = Placeholder() {dtype=f32, shape=shape[4]}\n'
                          b'%s = Sigmoid(%x) {T=f32}\n%y = Mul(%x, %s) {T=f32}\n')
        fused, apart = self.path('on.cfg', b'// all\nALL:on\n'), self.path('off.cfg', b'{"Switch": {"GraphFusion": {"ALL": "off", "EinsumPass": "off"}}}')
        emit = lambda *a: self.tool('compile', '--emit=hir', *a, swish).stdout
        self.assertEqual(emit(), emit('--fusion_switch_file', fused))
        self.assertNotIn(b'Sigmoid(', emit())
        self.assertIn(b'Sigmoid(', emit('--fusion_switch_file', apart))
        self.assertIn(b'Sigmoid(', emit('--config', self.config(json.dumps({'fusion_switch_file': apart}))))
        said = self.tool('explain', '--fusion_switch_file', apart, swish).stdout.decode()
        self.assertRegex(said, r"off.cfg:1: fusion 'ALL' off: every fusion that can be closed; on stay .*matmul_transpose \(BatchMatMulFusionPass\)")
        self.assertIn("off.cfg:1: fusion 'EinsumPass' off: stays on: it cannot be closed\n", said)
        self.assertEqual(json.loads(self.tool('explain', '--format=json', '--fusion_switch_file', fused, swish).stdout)['fusions'],
                         [['ALL', 'on', 'every fusion that can be closed']])
        self.fails(3, "bad.cfg:2: error: there is no fusion 'GeluPass'", 'run', '--fusion_switch_file',
                   self.path('bad.cfg', b'# c\nGeluPass:on\n'), SMALL)

    def test_levels_and_results_of_fusions(self):
        swish = self.path('swish.hir', b'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n\n%x = Placeholder() {dtype=f32, shape=shape[4]}\n'
                          b'%s = Sigmoid(%x) {T=f32}\n%y = Mul(%x, %s) {T=f32}\n')
        log = self.path('log.json')
        results = lambda *a: json.loads(self.tool('explain', '--format=json', *a, swish).stdout)['fusion_results']
        state = lambda *a: next(f for f in results(*a) if f['name'] == 'swish')
        self.assertEqual(state(), {'name': 'swish', 'kind': 'graph', 'state': 'on', 'matches': 1, 'effects': 1})
        self.assertEqual(state('--oo_level=O1'), {'name': 'swish', 'kind': 'graph', 'state': 'oo_level is O1', 'matches': 0, 'effects': 0})
        self.assertEqual(state('--oo_level=O1', '--optimization_switch=swish:on')['effects'], 1)
        self.assertIn('fusion swish is off: optimization_switch:', self.tool('explain', '--optimization_switch', 'swish:off', swish).stdout.decode())
        self.fails(2, "no fusion 'swich'; did you mean 'swish'", 'run', '--optimization_switch=swich:off', swish)
        for args, effects in ((), '1'), (('--config', self.config('{"optimization_switch": "swish:off"}')), None):
            self.tool('compile', '--fusion-result', log, *args, swish)
            with open(log) as f:
                graph = json.load(f)['session_and_graph_id_0_0']['graph_fusion']
            self.assertEqual(graph.get('swish'), effects and {'match_times': effects, 'effect_times': effects})
        self.fails(5, 'nowhere/log.json: error: cannot write', 'compile', '--fusion-result', self.path('nowhere') + '/log.json', swish)
        said = self.tool('explain', '--enable_scope_fusion_passes= ScopeLayerNormPass,,ScopeClipBoxesPass', swish).stdout.decode()
        self.assertIn("'ScopeLayerNormPass' on: is on in any case\n", said)
        self.assertIn("'ScopeClipBoxesPass' on: no counterpart here", said)
        self.fails(2, "no scope fusion 'ScopeLayerNormPas'; did you mean 'ScopeLayerNormPass'", 'run', '--enable_scope_fusion_passes=ScopeLayerNormPas', swish)

    def test_graphs_are_dumped(self):
        folder, other = self.path('dump'), self.path('other')
        self.tool('compile', '--dump-graphs', folder, SMALL)
        names = sorted(os.listdir(folder))
        passes = [n[4:-4] for n in names if n.endswith('.dot')]
        self.assertEqual(names, sorted('%03d-%s.%s' % (i, p, e) for i, p in enumerate(passes) for e in ('dot', 'hir', 'pbtxt')))
        self.assertLess(passes.index('fold'), passes.index('precision'))
        last = '%03d-%s' % (len(passes) - 1, passes[-1])
        self.assertEqual(self.tool('opt', '--passes=infer', '-o', '-', os.path.join(folder, last + '.hir')).stdout,
                         self.tool('compile', '--emit=hir', '-o', '-', SMALL).stdout)
        self.tool('inspect', os.path.join(folder, '000-feeds.pbtxt'))
        with open(os.path.join(folder, last + '.dot')) as f:
            self.assertRegex(f.read(), r'^digraph')
        self.tool('compile', '--op_debug_level=1', '--debug_dir', other, SMALL)
        self.assertEqual(sorted(os.listdir(other)), names)
        self.tool('compile', '--op_debug_level=0', '--debug_dir', self.path('none'), SMALL)
        self.assertFalse(os.path.exists(self.path('none')))
        self.fails(5, 'nowhere/a: error: cannot make this folder', 'run', '--dump-graphs', self.path('nowhere') + '/a', SMALL)
        self.fails(5, 'file/000-feeds.hir: error: cannot write', 'run', '--dump-graphs', self.path('file', b'x'), SMALL)

    def test_documents_are_up_to_date(self):
        for script in 'options-doc', 'fusions-doc':
            r = subprocess.run([os.path.join(HERE, '..', '..', 'scripts', script), '--check', TOOL], capture_output=True)
            self.assertEqual(r.returncode, 0, r.stderr)


class Atc(Case):
    def native(self, *args, code=0):
        return re.findall(r'^halftone: note: (halftone .*)$', self.tool('atc', *args, code=code).err, re.M)

    def test_equivalents(self):
        out = self.path('o.pb')
        self.assertEqual(self.native('--model=' + SMALL, '--framework=3', '--output=' + out, '--soc_version=Ascend910A',
                                     '--precision_mode_v2=mixed_float16', '--input_shape=x:1,4', '--out_nodes=y:0;top:0', '--deterministic=1'),
                         ["halftone convert --output=%s --profile=ascend910 --input-shape=x:1,4 --outputs=y:0,top:0 --graph_run_mode=0 "
                          "--precision_mode_v2=mixed_float16 --deterministic=1 -- %s" % (out, SMALL)])
        self.tool('convert', '--profile=ascend910', '--input-shape=x:1,4', '--outputs=y,top', '--policy=mixed_float16', SMALL, '-o', self.path('p.pb'))
        with open(out, 'rb') as a, open(self.path('p.pb'), 'rb') as b:
            self.assertEqual(a.read(), b.read())
        self.assertEqual(self.native('--model', SMALL, '--graph_run_mode=1'), ['halftone compile --graph_run_mode=1 -- ' + SMALL])
        for mode in '1', '5':
            r = self.tool('atc', '--mode=' + mode, '--model=' + SMALL)
            self.assertEqual(json.loads(r.stdout)['schema'], 'halftone.inspect/1')
        self.assertEqual(self.native('--mode=3', '--model=' + SMALL, '--graph_run_mode=0'), ['halftone compile --graph_run_mode=0 -- ' + SMALL])
        for suffix, form in (('a', 'obj'), ('hir', 'hir'), ('ll', 'llvm'), ('s', 'asm')):
            out = self.path('o.' + suffix)
            self.assertIn('halftone compile --emit=%s --output=%s' % (form, out), self.native('--output=' + out, '--model=' + SMALL)[0])
            self.assertGreater(os.path.getsize(out), 0)

    def test_artefacts(self):
        out = self.path('net')
        args = ['--model=' + SMALL, '--output=' + out, '--precision_mode_v2=origin']
        shapes = ['--input-shape=x:1,4', '--input-shape=x:3,4']
        for dynamic in (['--input_shape=x:-1,4', '--dynamic_batch_size=1,3'], ['--input_shape=x:-1,-1', '--dynamic_dims=1,4;3,4'],
                        ['--input_shape=x:-1,-1', '--dynamic_image_size=1,4;3,4']):
            self.assertIn(' '.join(['--output=%s.htx' % out, *shapes, '--graph_run_mode=0']), self.native(*args, *dynamic)[0])
            variants = json.loads(self.tool('inspect', '--format=json', out + '.htx').stdout)['variants']
            self.assertEqual([v['inputs'][0]['shape'] for v in variants], [[1, 4], [3, 4]])
        before = set(os.listdir(self.dir))
        self.native(*args, '--external_weight=2')
        self.assertEqual([f.split('_')[0] for f in set(os.listdir(self.dir)) - before], ['weight'])

    def test_dynamic_shapes_of_several_inputs(self):
        """A batch is that of all; of dimensions each fills the next one; numbers in names stay."""
        model = self.path('two.hir', b'hir 1\nentry "" {\n  input "a-1" = %a\n  input "b" = %b\n  output "y" = %y\n}\n'
                          b'%a = Placeholder() {dtype=f32, shape=shape[?,?]}\n%b = Placeholder() {dtype=f32, shape=shape[?,?]}\n'
                          b'%y = AddV2(%a, %b) {T=f32}\n')
        for shape, dynamic, filled in (('a-1:-1,4;b:-1,4', '--dynamic_batch_size=2,3', ['a-1:2,4;b:2,4', 'a-1:3,4;b:3,4']),
                                       ('a-1:-1,-1;b:1,-1', '--dynamic_dims=2,4,4;3,1,5', ['a-1:2,4;b:1,4', 'a-1:3,1;b:1,5'])):
            native = self.native('--model=' + model, '--input_shape=' + shape, dynamic, '--precision_mode_v2=origin')[0]
            self.assertEqual(re.findall(r'--input-shape=(\S+)', native.replace("'", '')), filled)

    def test_defaults(self):
        r = self.tool('atc', '--model=' + SMALL)
        self.assertRegex(r.err, 'no precision mode is stated: force_fp16, the default of inference on cpu')
        self.assertIn(b'policy force_fp16', r.stdout)
        r = self.tool('atc', '--model=' + SMALL, '--log=debug', '--core_type=VectorCore', '--buffer_optimize=off_optimize')
        for name in 'log', 'core_type', 'buffer_optimize':
            self.assertEqual(r.err.count('warning: %s%s has no effect: ' % ('' if name[0] == 'b' else '--', name)), 1)
        self.assertEqual(self.tool('atc', '--model=' + SMALL, '--quiet').err, '')

    def test_called_atc(self):
        link = self.path('atc')
        os.symlink(TOOL, link)
        r = subprocess.run([link, '--model=' + SMALL, '--soc_version=cpu'], capture_output=True)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn(b'halftone compile --profile=cpu', r.stderr)

    def test_refused(self):
        m = '--model=' + SMALL
        for code, pattern, *args in (
                (2, 'needs --model', ), (2, 'needs --model', '--framework=3'),
                (4, '--framework=5 is ONNX; read are models of TensorFlow', m, '--framework=5'),
                (4, '--framework=0 is Caffe', m, '--framework=0'), (4, 'is MindSpore', m, '--framework=1'),
                (2, "'2' is no framework", m, '--framework=2'), (2, "'tf' is no framework", m, '--framework=tf'),
                (4, '--output=m.om: no code is made for an NPU; .* is m.htx', m, '--output=m.om'),
                (4, "no profile of 'Ascend910B33'; did you mean 'Ascend910B3'", m, '--soc_version=Ascend910B33'),
                (4, "no profile of 'Kirin'; there are cpu, Ascend310, ", m, '--soc_version=Kirin'),
                (4, "the lists of 'Ascend910_9391' are not published", m, '--soc_version=Ascend910_9391'),
                (4, "no profile of 'H100'; there are cpu", m, '--soc_version=H100'),
                (2, "did you mean '--soc_version'", m, '--soc_versio=x'), (2, "did you mean '--model'", '--modelx=x'),
                (4, '--mode=6 shows a model for an NPU', m, '--mode=6'), (2, "'2' is none of 0|1|3|5|6", m, '--mode=2'),
                (2, '--mode=1 has no --output', m, '--mode=1', '--output=a.pb'),
                (2, "halftone inspect has no option", m, '--mode=1', '--precision_mode=force_fp16'),
                (4, 'insert_op_conf=a is refused', m, '--insert_op_conf=a'), (4, 'output_type=FP16 is refused', m, '--output_type=FP16'),
                (2, 'of --input_shape, which is missing', m, '--dynamic_batch_size=1,2'),
                (2, '2 to 100 profiles, not 1', m, '--dynamic_batch_size=2', '--input_shape=x:-1,4'),
                (2, '2 to 100 profiles, not 101', m, '--dynamic_batch_size=' + ','.join(map(str, range(1, 102))), '--input_shape=x:-1,4'),
                (2, "'1,4,4' has another number", m, '--dynamic_dims=1,4,4;2,4,4', '--input_shape=x:-1,-1'),
                (2, "'1' has another number", m, '--dynamic_dims=1;2', '--input_shape=x:-1,-1'),
                (2, "'2' has another number", m, '--dynamic_batch_size=2,3', '--input_shape=x:1,4'),
                (2, "'-3' is no list", m, '--dynamic_batch_size=2,-3', '--input_shape=x:-1,4'),
                (2, "'' is no list", m, '--dynamic_dims=;1', '--input_shape=x:-1,4'),
                (2, 'at the same time', m, '--dynamic_batch_size=2,3', '--dynamic_dims=2;3', '--input_shape=x:-1,4'), (4, 'weight=a is refused', m, '--weight=a'),
                (4, 'om=a is refused', '--om=a', '--mode=1'), (2, "'2' is none of 0|1", m, '--tiling_schedule_optimize=2'),
                (2, "'4' is no whole number in 0..3", m, '--deterministic_level=4'),
                (2, 'none of force_fp32', m, '--precision_mode=fp16'), (2, 'at the same time', m, '--precision_mode=force_fp16', '--precision_mode_v2=fp16'),
                (2, 'is not NAME:D', m, '--input_shape=x'), (2, "no input 'z'", m, '--input_shape=z:1'), (2, 'needs a value', '--model'),
                (2, 'empty value', '--model='), (2, 'takes no argument', SMALL), (5, 'nowhere.pb', '--model=nowhere.pb')):
            self.fails(code, pattern, 'atc', *args)
        self.fails(2, "no option '--model'", 'run', m)
        self.fails(2, "no option '--soc_version'", 'run', '--soc_version=cpu', SMALL)


class Streams(Case):
    def test_full_disk(self):
        with open('/dev/full', 'w') as full:
            for args in (['inspect', SMALL], ['run', SMALL], ['run', '-o', '-', SMALL], ['opt', SMALL], ['ops'], ['help'],
                         ['convert', '-o', '-', SMALL]):
                self.assertIn('error', self.tool(*args, out=full, code=5).err, args)

    def test_unwritable(self):
        self.fails(5, 'cannot write', 'run', '-o', '/nowhere/at/all/y.npz', SMALL)
        self.fails(5, 'cannot write', 'convert', '-o', '/nowhere/at/all/y.pb', SMALL)

    def test_refused_before_anything_is_written(self):
        old = self.path('old.npz', b'old')
        self.tool('run', '--input', 'x=@' + self.path('absent.npy'), '-o', old, SMALL, code=5)
        with open(old, 'rb') as f:
            self.assertEqual(f.read(), b'old')
        self.assertEqual(os.listdir(self.dir), ['old.npz'])

    def test_closed_streams(self):
        def closed(*args, fd=1):
            return subprocess.run([TOOL, *args], stderr=subprocess.PIPE if fd != 2 else None, preexec_fn=lambda: os.close(fd))
        for args in (['inspect', SMALL], ['ops'], ['run', SMALL], ['convert', '-o', '-', SMALL]):
            r = closed(*args)
            self.assertEqual(r.returncode, 5, args)
            self.assertIn(b'cannot write', r.stderr)
        # What is opened meanwhile does not become the stream that was closed.
        closed('run', '-o', self.path('y.npz'), SMALL)
        self.assertEqual(list(self.outputs(self.path('y.npz'))), ['y.npy', 'top.npy'])
        self.assertEqual(closed('convert', '-o', self.path('c.pb'), SMALL, fd=2).returncode, 0)

    def test_reader_goes_away(self):
        p = subprocess.Popen([TOOL, 'compile', '--emit=llvm', SMALL], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        p.stdout.close()
        self.assertEqual(p.wait(20), -signal.SIGPIPE)

    def test_colour(self):
        bad = ['run', '--threads=0', SMALL]
        self.assertNotIn('\033', self.fails(2, 'error: --threads', *bad).err)
        self.assertIn('\033[1;31merror: \033[0m', self.fails(2, 'threads', *bad, '--color=always').err)
        self.assertIn('\033', self.tool('run', '--color=always', SMALL, env={'NO_COLOR': '1'}).err)
        self.fails(2, 'not auto, always or never', 'run', '--color=blue', SMALL)

        def on_terminal(**env):
            import pty
            ours, theirs = pty.openpty()
            subprocess.run([TOOL, *bad], stderr=theirs, env={**os.environ, 'NO_COLOR': '', 'TERM': 'xterm', **env})
            os.close(theirs)
            data = os.read(ours, 4096)
            os.close(ours)
            return b'\033' in data
        self.assertTrue(on_terminal())
        self.assertFalse(on_terminal(NO_COLOR='1'))
        self.assertFalse(on_terminal(TERM='dumb'))

    def test_messages_in_order(self):
        r = self.fails(5, 'absent', 'run', '--input', 'x=@' + self.path('absent.npy'), SMALL)
        self.assertLess(r.err.index('counts as 1'), r.err.index('absent'))

    def test_signals_leave_nothing(self):
        model = self.path('m.hir', b'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n'
                          b'%x = Placeholder() {dtype=f32, shape=shape[4000000]}\n'
                          b'%w = Const() {dtype=f32, value=tensor f32[4000000] {1.5 ...}}\n%y = AddV2(%x, %w) {T=f32}\n')
        out = self.path('out')
        os.mkdir(out)
        commands = (['convert', '-o', out + '/c.pb'], ['opt', '-o', out + '/o.hir'], ['run', '-o', out + '/y.npz'],
                    ['compile', '--emit=obj', '-o', out + '/k.a'], ['compile', '--emit=hir', '-o', out + '/h.hir'], ['bench'])
        whole = {'c.pb', 'o.hir', 'o.weights', 'y.npz', 'k.a', 'h.hir', 'h.weights'}
        moments = random.Random(7)
        for i in range(60):
            s = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[i % 3]
            p = subprocess.Popen([TOOL, *commands[i % 6], model], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(moments.uniform(0, 0.12))
            p.send_signal(s)
            self.assertIn(p.wait(60), (-s, 0))
            left = set(os.listdir(out))
            self.assertEqual(left - whole, set(), commands[i % 6])
            for f in left:
                os.unlink(os.path.join(out, f))

    def test_interrupt_leaves_nothing(self):
        for wait in (0.001, 0.01, 0.03, 0.06):
            p = subprocess.Popen([TOOL, 'bench', '--duration=60', SMALL], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.dir)
            time.sleep(wait)
            p.send_signal(signal.SIGINT)
            self.assertEqual(p.wait(20), -signal.SIGINT)
            self.assertEqual(os.listdir(self.dir), [])

    def test_light_verbs_do_not_load_llvm(self):
        for args in (['version'], ['help'], ['inspect', SMALL], ['explain', '--policy=fp16', SMALL], ['ops']):
            r = subprocess.run([TOOL, *args], capture_output=True, env={**os.environ, 'LD_DEBUG': 'files'})
            self.assertNotIn(b'LLVM', r.stderr.replace(b'HALFTONE_LLVM', b''), args)


if __name__ == '__main__':
    unittest.main()
