#!/usr/bin/env python3
"""The samples of the vendor's manual, as printed, from $HALFTONE_SHARED/samples: each file loads, the report states the
effect of each of its entries, and each argument of a run configuration reaches the option of that name."""
import ast, json, os, re, subprocess, sys, unittest

from tool import TOOL, ToolCase, without_rates

SHARED = os.environ.get('HALFTONE_SHARED', '')
SAMPLES = os.path.join(SHARED, 'samples')

# A graph with the names in the samples: op types of all three lists, and a node of their ResNet.
RELU = 'resnet_v1_50/block1/unit_3/bottleneck_v1/Relu'
GRAPH = """hir 1
entry "" {
  input "x" = %x
  output "y" = %y
  output "z" = %z
}

%x = Placeholder() {dtype=f32, shape=shape[1,4,4,2]}
%w = Const() {dtype=f32, value=tensor f32[1,1,2,2] {0.5, -1.0, 0.25, 1.5}}
%b = Const() {dtype=f32, value=tensor f32[2] {0.25, -0.5}}
%conv = Conv2D(%x, %w) {T=f32, data_format="NHWC", dilations=[1, 1, 1, 1], explicit_paddings=[], padding="SAME", strides=[1, 1, 1, 1], use_cudnn_on_gpu=true}
%biased = BiasAdd(%conv, %b) {T=f32, data_format="NHWC"}
%RELU = Relu(%biased) {T=f32}
%log = Xlog1py(%RELU, %RELU) {T=f32}
%shape = Const() {dtype=i32, value=tensor i32[2] {-1, 2}}
%flat = Reshape(%log, %shape) {T=f32, Tshape=i32}
%m = Const() {dtype=f32, value=tensor f32[2,2] {0.5, -1.0, 0.25, 1.5}}
%product = MatMul(%flat, %m) {T=f32, transpose_a=false, transpose_b=false}
%soft = Softmax(%product) {T=f32}
%y = Relu(%soft) {T=f32}
%z = Cast(%y) {DstT=f16, SrcT=f32, Truncate=false}
""".replace('%RELU', f'%"{RELU}"')
MIXED = '--precision_mode=allow_mix_precision_bf16'


def sample(name):
    return os.path.join(SAMPLES, name)


def text(name):
    with open(sample(name), encoding='utf-8') as f:
        return f.read()


def code(name):
    """The sample without comments."""
    return re.sub(r'//.*', '', text(name))


class Samples(ToolCase):
    def config(self, members):
        """The result of `halftone config` for a run configuration; .values: option -> (value, origin)."""
        path = self.path('run.json', json.dumps(members).encode())
        r = subprocess.run([TOOL, 'config', '--format=json', '--config', path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertIn(r.returncode, (0, 4), (members, r.stderr))
        r.err = r.stderr.decode()
        r.values = {o['name']: (o['value'], o['origin']) for o in json.loads(r.stdout)['config']} if r.returncode == 0 else {}
        return r


class Files(Samples):
    def setUp(self):
        super().setUp()
        self.graph = self.path('g.hir', GRAPH.encode())

    def report(self, *args, graph=None):
        r = self.tool('explain', '--format=json', *args, graph or self.graph)
        return json.loads(r.stdout), r.err

    def classes(self, report):
        """For each op type, by TensorFlow's name, the class and the file that gave it."""
        return {n['op']: (u['class'], u.get('list', '')) for n in report['nodes'] for u in n.get('units', ()) if 'class' in u}

    def rules(self, report):
        """The effect of each entry of a file: {name: (line, note)}; each is reported once."""
        said = [(name, (int(where.rsplit(':', 1)[1]), note)) for where, name, note in report['acting_rules'] + report['idle_rules']]
        self.assertEqual(len(dict(said)), len(said))
        return dict(said)

    def test_ops_info(self):
        for name in 'ops_info.json', 'ops_info.zh.json':
            with self.subTest(name):
                report, said = self.report(MIXED, '--modify_mixlist=' + sample(name))
                lists = json.loads(code(name))
                rules = self.rules(report)
                self.assertEqual(set(rules), {t for of in lists.values() for types in of.values() for t in types})
                lines = text(name).split('\n')
                for entry, (line, _) in rules.items():
                    self.assertIn(f'"{entry}"', lines[line - 1])
                self.assertEqual(rules['Xlog1py'][1], "from black to gray, 1 node: 'log'")
                self.assertEqual(rules['Conv2D'][1], "from white to gray, 1 node: 'conv'")
                self.assertEqual(rules['Matmul'][1], "from white to black, 1 node: 'product'")
                self.assertEqual(rules['Cast'][1], "from gray to black, 1 node: 'z'")
                self.assertEqual(rules['Bias'][1], 'the graph has no such op')
                self.assertIn("there is no op type 'Matmul'; 'MatMul' is taken", said)
                self.assertNotIn('error', said)
                classes = self.classes(report)
                self.assertEqual(classes['MatMul'], ('black', f"{sample(name)}:{rules['Matmul'][0]}"))
                self.assertEqual(classes['Conv2D'], ('gray', f"{sample(name)}:{rules['Conv2D'][0]}"))

    def mixlist(self, name, to):
        """The sample as printed, and with op types of each list in place of A."""
        report, said = self.report(MIXED, '--modify_mixlist=' + sample(name))
        self.assertIn("note: modify_mixlist: there is no op type 'A': the entry has no effect", said)
        self.assertNotIn('error', said)
        self.assertEqual(self.rules(report), {'A': (1, 'ignored: there is no such op type')})
        plain = self.classes(self.report(MIXED)[0])
        for op in 'MatMul', 'Softmax', 'Xlog1py':
            path = self.path('mix.json', text(name).replace('"A"', f'"{op}"').encode())
            report, _ = self.report(MIXED, '--modify_mixlist=' + path)
            was = plain[op][0]
            moves = was != to and (to != 'gray' or was == 'white')
            with self.subTest(name=name, op=op, was=was):
                self.assertEqual(self.classes(report)[op][0], to if moves else was)
                self.assertEqual(len(report['acting_rules']), int(moves))
                self.assertIn(f'from {was} to {to}' if moves else f'its class is {was} and stays so', self.rules(report)[op][1])

    def test_mixlists(self):
        self.mixlist('mixlist_add_to_black.json', 'black')
        self.mixlist('mixlist_move.json', 'black')
        self.mixlist('mixlist_remove_from_white.json', 'gray')

    def test_fusion_switch(self):
        path = sample('fusion_switch.cfg')
        report, said = self.report('--fusion_switch_file=' + path)
        entries = {n: s for kind in json.loads(text('fusion_switch.cfg'))['Switch'].values() for n, s in kind.items()}
        self.assertEqual([(n, s) for n, s, _ in report['fusions']], list(entries.items()))
        self.assertNotIn('error', said)
        known = {name for f in json.loads(self.tool('fusions', '--format', 'json').stdout)['fusions']
                 for name in re.findall(r'\w+', f['names'].replace('(cannot be closed)', ''))}
        for name, _, note in report['fusions']:
            with self.subTest(name):
                if name in known:  # the name has an effect here
                    self.assertIn(note, known)
                else:
                    self.assertRegex(note, '(^|: )no counterpart here$')

    def test_fusion_switch_all_off(self):
        path = sample('fusion_switch_all_off.cfg')
        report, _ = self.report('--fusion_switch_file=' + path)
        kinds = {f['name']: f['kind'] for f in json.loads(self.tool('fusions', '--format', 'json').stdout)['fusions']}
        off = {name for name, _ in report['fusions_off']}
        on = set(kinds) - off
        self.assertEqual({n for n in on if kinds[n] != 'engine'}, set())
        notes = {n: note for n, _, note in report['fusions']}
        named = re.search('no file closes the clean-ups (.*): ', ' '.join(note for _, _, note in report['fusions'])).group(1)
        self.assertEqual(set(named.split(', ')), on)
        self.assertEqual(set(notes), {'ALL'})
        # Fusions that stay on cannot be switched off by any name in such a file.
        for name in sorted(on):
            own = self.path('own.cfg', json.dumps({'Switch': {'GraphFusion': {'ALL': 'off', name: 'off'}}}).encode())
            report, _ = self.report('--fusion_switch_file=' + own)
            self.assertNotIn(name, {n for n, _ in report['fusions_off']})
            self.assertIn([name, 'off', 'a clean-up: optimization_switch and oo_level govern it'], report['fusions'])

    def test_customize_dtypes(self):
        path = sample('customize_dtypes.cfg')
        report, said = self.report('--customize_dtypes=' + path)
        self.assertEqual(without_rates(said), [])
        self.assertEqual(self.rules(report), {RELU: (2, f"1 node: '{RELU}'"), 'Relu': (4, "1 node: 'y'")})
        low = {n['node']: [u['to'] for u in n['units']] for n in report['nodes'] if n['op'] == 'Relu'}
        self.assertEqual(low, {RELU: ['float16'], 'y': ['float16']})
        lacking = self.path('lacking.hir', GRAPH.replace(RELU, 'other').replace('Relu(%soft)', 'Tanh(%soft)').encode())
        report, said = self.report('--customize_dtypes=' + path, graph=lacking)
        self.assertRegex(said, f"note: customize_dtypes: the graph has no node '{RELU}': the entry has no effect")
        self.assertEqual(self.rules(report)[RELU], (2, 'ignored: the graph has no such node'))
        self.assertEqual(self.rules(report)['Relu'], (4, "1 node: 'other'"))

    def test_shape_range(self):
        """The sample is accepted, or refused as unsupported: it has no error."""
        r = self.config({'dynamic_inputs_shape_range': text('dynamic_inputs_shape_range.txt').rstrip('\n')})
        if r.returncode:
            self.assertRegex(r.err, 'dynamic_inputs_shape_range=.* is refused: ')


# Objects that the examples make elsewhere, as the members of a dict; None: an object of
# TensorFlow's.
OBJECTS = {'dump_config': {'dump_mode': 'all'}, 'profiling_config': {'enable_profiling': False}, 'strategy': None}
FILES = {'/home/test/customize_dtypes.cfg': 'customize_dtypes.cfg', '/home/test/fusion_switch.cfg': 'fusion_switch.cfg',
         '/home/test/ops_info.json': 'ops_info.json'}


class RunConfigurations(Samples):
    def value(self, node):
        if isinstance(node, ast.Name):
            return OBJECTS[node.id]
        value = ast.literal_eval(node)
        if value in FILES:
            return sample(FILES[value])
        if value == '/home/test/op_precision.ini':
            return self.path('op_precision.ini', b'[ByOpType]\nSoftmaxV2=high_precision\n')
        return self.path(os.path.basename(value)) if str(value).startswith('/home/') else value

    def test_each_argument_reaches_its_option(self):
        options = {o['name']: o for o in json.loads(self.tool('options', '--format', 'json').stdout)['options']}
        examples = ast.parse(text('python/run_config_examples.py')).body
        self.assertGreater(len(examples), 40)
        for example in examples:
            with self.subTest(ast.unparse(example)):
                members = {k.arg: self.value(k.value) for k in example.value.keywords}
                if 'modify_mixlist' in members:  # it acts only in mixed modes, as in the vendor's system
                    members['precision_mode'] = 'allow_mix_precision'
                r = self.config(members)
                self.check(r, members, options)

    def check(self, r, members, options):
        if r.returncode == 4:
            name = re.search(r'run\.json:1: error: (\S+)=\S.* is refused: ', r.err).group(1)
            self.assertEqual(options[name]['class'], 'refused')
            self.assertIn(name.split('.')[-1], members)
            return
        for name, value in members.items():
            for member, v in (value.items() if isinstance(value, dict) else (('', value),)):
                full = name + ('.' + member if member else '')
                if v is not None:
                    spelled = str(v).lower() if isinstance(v, bool) else str(v)
                    self.assertEqual(r.values[full], (spelled, self.path('run.json') + ':1'))
                    if options[full]['class'] == 'accepted' and spelled != options[full]['default']:
                        self.assertIn(f'{full} has no effect', r.err)


def main():
    if not os.path.isdir(SAMPLES):
        print(f"skipped: $HALFTONE_SHARED/samples ({SAMPLES}) is not there")
        return 77
    return 0 if unittest.main(exit=False).result.wasSuccessful() else 1


if __name__ == '__main__':
    sys.exit(main())
