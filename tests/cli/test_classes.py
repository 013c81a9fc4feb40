#!/usr/bin/env python3
"""Every row of the table of options behaves as its class says.  An honoured option changes a decision, a graph or a
file in a case of this test; an option without effect changes no decision, graph, file or key of the cache; a refused
one is refused, except for its default.  A row without a case fails."""
import hashlib, json, os, re, subprocess, unittest

from tool import TOOL, ToolCase
import environment

# Each list of the policies has an op between ops that become low; Sin is on none.
MODEL = """hir 1
entry "" {
  input "x" = %%x
  output "y" = %%y
}

%%x = Placeholder() {dtype=f32, shape=shape[2,64]}
%%w = Const() {dtype=f32, value=tensor f32[64,64] {%s}}
%%b = Const() {dtype=f32, value=tensor f32[64] {%s}}
%%one = Const() {dtype=f32, value=tensor f32[] {1.5}}
%%two = Const() {dtype=f32, value=tensor f32[] {0.25}}
%%three = AddV2(%%one, %%two) {T=f32}
%%first = MatMul(%%x, %%w) {T=f32, transpose_a=false, transpose_b=false}
%%sum = BiasAdd(%%first, %%b) {T=f32, data_format="NHWC"}
%%act = Relu(%%sum) {T=f32}
%%cap = Const() {dtype=f32, value=tensor f32[] {100000.0}}
%%capped = Minimum(%%act, %%cap) {T=f32}
%%half = Mul(%%capped, %%three) {T=f32}
%%wave = Sin(%%half) {T=f32}
%%second = MatMul(%%wave, %%w) {T=f32, transpose_a=false, transpose_b=false}
%%soft = Softmax(%%second) {T=f32}
%%up = Exp(%%soft) {T=f32}
%%third = MatMul(%%up, %%w) {T=f32, transpose_a=false, transpose_b=false}
%%swish = Sigmoid(%%third) {T=f32}
%%y = Mul(%%third, %%swish) {T=f32}
""" % (', '.join(str((i * 7 % 13 - 6) / 16) for i in range(64 * 64)), ', '.join(str((i % 5 - 2) / 4) for i in range(64)))
TARGET = ['--target=x86-64-v3']
GRAPPLER, MIXED, OPTIMAL = ['--policy=grappler-fp16-cpu'], ['--policy=allow_mix_precision'], ['--policy=optimal']
TWO = ['--model=m.hir', '--output=n']  # for atc

RANDOM = '''hir 1
entry "" {
  output "y" = %y
}
%shape = Const() {dtype=i32, value=tensor i32[1] {4}}
%y = RandomUniform(%shape) {T=i32, dtype=f32, seed=0, seed2=0}
'''

OVERFLOWS = ['--dump_path=.', '--input=x=random(1,1e38,3e38)']
DIVIDES = '''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}
%x = Placeholder() {dtype=i32, shape=shape[2]}
%y = FloorDiv(%x, %x) {T=i32}
'''

SLOW = ['--runs=1', 'slow.hir']  # a run takes longer than 1 ms before its last kernel
SLOW_MODEL = """hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}
%x = Placeholder() {dtype=f32, shape=shape[1024,1024]}
%a = MatMul(%x, %x) {T=f32, transpose_a=false, transpose_b=false}
%b = MatMul(%a, %a) {T=f32, transpose_a=false, transpose_b=false}
%y = MatMul(%b, %b) {T=f32, transpose_a=false, transpose_b=false}
"""

# A run takes more than a second with x86-64 code: 9.2e10 operations, of which no core does 90 in a
# nanosecond without wide vectors.
SLOWER_MODEL = SLOW_MODEL[:SLOW_MODEL.index('%a')].replace('1024', '3584') + '%y = MatMul(%x, %x) {T=f32, transpose_a=false, transpose_b=false}\n'
CROWD = ['--runs=4', 'slow.hir']
SLOW_CROWD = ['--graph_max_parallel_model_num=1', '--runs=1', 'slower.hir']

OPEN_MODEL = """hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}
%x = Placeholder() {dtype=f32, shape=shape[?,4]}
%y = Relu(%x) {T=f32}
"""
DIMS, NODES, SHAPES = '--dynamic_input_config.dynamic_dims=2;3', '--dynamic_node_type=1', '--dynamic_input_config.input_shape=x:-1,4'

# For each honoured option: other settings that it needs, a value, and what that value changes.
# 'report': the report of decisions.  'graph': the compiled graph.  'files': the files written.
# 'draws': the numbers that random ops draw.  'left': the files that a run leaves.  'traced':
# likewise, with the columns of tables and the points of iterations.  'stops': whether a run stops.
# 'crowds': whether a bench of two contexts stops.  'fault': the files of a run that fails.
# 'opened': the plan of a model with an open size, and the code that runs.  'trains': the decisions on a training step.  'exit': the exit code.
# {FILE} in a value stands for a file of that name with the content of FILES.
HONOURED = {
    'activation_memory': (OPTIMAL, '1', 'trains'),
    'allow_hf32': ([], '11', 'report'),
    'allowlist_add': (GRAPPLER, 'Sin', 'report'),
    'allowlist_remove': (GRAPPLER, 'MatMul', 'report'),
    'bp_point': (['--profile-table'], 'second', 'traced'),
    'budget': (OPTIMAL, 'y:rel<=0.5', 'report'),
    'clearlist_add': (GRAPPLER, 'Sin', 'report'),
    'clearlist_remove': (GRAPPLER, 'Relu', 'report'),
    'compile_dynamic_mode': ([], 'true', 'opened'),
    'cost_table': (OPTIMAL, '{costs}', 'report'),
    'cost_target': (OPTIMAL + ['--cost_target=x86-64-v3'], 'sapphirerapids', 'report'),
    'customize_dtypes': ([], '{customize}', 'graph'),
    'debug_dir': (['--op_debug_level=1'], 'elsewhere', 'files'),
    'denylist_add': (GRAPPLER, 'Sin', 'report'),
    'denylist_remove': (GRAPPLER, 'Exp', 'report'),
    'dump_graphs': ([], 'graphs', 'files'),
    'dump_config.dump_data': (['--dump=d'], 'stats', 'left'),
    'dump_config.dump_debug_mode': (OVERFLOWS + ['--enable_dump_debug=true'], 'atomic_overflow', 'left'),
    'dump_config.dump_layer': (['--dump=d'], 'first', 'left'),
    'dump_config.dump_mode': (['--dump=d'], 'all', 'left'),
    'dump_config.dump_path': (['--enable_dump=true', '--dump_path=.'], '..', 'left'),
    'dump_config.dump_step': (['--dump=d'], '7', 'left'),
    'dump_config.enable_dump': (['--dump_path=.'], 'true', 'left'),
    'dump_config.enable_dump_debug': (OVERFLOWS, 'true', 'left'),
    'jit_compile': ([], 'false', 'opened'),
    'dynamic_graph_execute_mode': (['--dynamic_input'], 'lazy_recompile', 'opened'),
    'dynamic_input': ([], 'true', 'opened'),
    'dynamic_input_config.dynamic_dims': ([NODES, SHAPES], '2;3', 'opened'),
    'dynamic_input_config.dynamic_node_type': ([DIMS, SHAPES], '1', 'opened'),
    'dynamic_input_config.input_shape': ([DIMS, NODES], 'x:-1,4', 'opened'),
    'dynamic_inputs_shape_range': (['--dynamic_input'], 'x:[1~8,4]', 'opened'),
    'enable_exception_dump': ([], '1', 'fault'),
    'event_sync_timeout': (CROWD + ['--graph_max_parallel_model_num=1'], '1', 'crowds'),
    'enable_scope_fusion_passes': ([], 'ScopeClipBoxesPass', 'report'),
    'experimental_config.graph_compiler_cache_dir': ([], 'there', 'files'),
    'export_compile_stat': ([], '1', 'files'),
    'external_weight': ([], 'true', 'files'),
    'fp_point': (['--profile-table'], 'second', 'traced'),
    'frontier': (OPTIMAL, 'true', 'report'),
    'fusion_result': ([], 'fusions.json', 'files'),
    'fusion_switch_file': ([], '{switch}', 'graph'),
    'graph_exec_timeout': (SLOW, '1', 'stops'),
    'graph_max_parallel_model_num': (CROWD + ['--event_sync_timeout=1'], '1', 'crowds'),
    'graph_key': (['--graph_compiler_cache_dir=there'], 'g', 'files'),
    'graph_run_mode': ([], '0', 'graph'),
    'grappler_level': (GRAPPLER, 'unsafe_force_all', 'report'),
    'inferlist_add': (GRAPPLER, 'Sin', 'report'),
    'inferlist_remove': (GRAPPLER, 'Mul', 'report'),
    'keep_dtype': (['--policy=force_fp16', '--profile=ascend910'], '{keep}', 'report'),
    'lenient': (['--op_precision_mode={odd}'], 'true', 'exit'),
    'measure': (OPTIMAL + ['--cost_target=host'], 'false', 'report'),
    'modify_mixlist': (MIXED, '{mix}', 'graph'),
    'oo_constant_folding': ([], 'false', 'graph'),
    'oo_level': ([], 'O0', 'graph'),
    'op_compiler_cache_dir': ([], 'top', 'files'),
    'op_compiler_cache_mode': (['--op_compiler_cache_dir=top'], 'disable', 'files'),
    'op_debug_config': ([], '{debug}', 'files'),
    'op_debug_level': ([], '1', 'files'),
    'op_execute_timeout': (SLOW_CROWD, '1', 'crowds'),
    'op_precision_mode': ([], '{impl}', 'report'),
    'op_select_implmode': ([], 'high_precision_for_all', 'report'),
    'op_wait_timeout': (SLOW_CROWD, '1', 'crowds'),
    'ops_info': (MIXED, '{info/}', 'report'),
    'optimization_switch': ([], 'swish:off', 'graph'),
    'optypelist_for_implmode': (['--op_select_implmode=high_precision'], 'Softmax', 'report'),
    'precision_mode': ([], 'force_fp16', 'graph'),
    'precision_mode_v2': ([], 'fp16', 'graph'),
    'priced_node': (OPTIMAL, 'y', 'report'),
    'profile': (MIXED, 'ascend310', 'report'),
    'profiling_config.enable_options': (['--profiling_mode=true'], 'op_trace', 'left'),
    'profiling_config.enable_profiling': ([], 'true', 'left'),
    'profiling_config.profiling_options': (['--profiling_mode=true'], '{"output": "here"}', 'left'),
    'rates': (OPTIMAL, '{rates}', 'report'),
    'sentinels': (['--policy=force_fp16'], 'clamp', 'report'),
    'session_device_id': ([], '9999', 'stops'),
    'memory_config.variable_use_1g_huge_page': ([], '1', 'stops'),
    'stream_sync_timeout': (SLOW, '1', 'stops'),
    'samples': (OPTIMAL + ['--budget=y:rel<=0.5'], '3:7', 'report'),
    'tf_random_seed': ([], '7', 'draws'),
}
FILES = {
    'costs': None,  # that of the target, with another price
    'customize': 'OpType::MatMulV2:InputDtype:float16,float16,OutputDtype:float16\n',
    'rates': 'halftone.rates/1\nlevel x86-64-v3\nl3 8\nend\n', 'switch': 'ALL:off\n', 'debug': 'op_debug_config=dump_cce\n', 'keep': 'first\n', 'odd': '[ByOpType]\nSoftmaxV2=sideways\n',
    'mix': '{"black-list": {"to-add": ["MatMulV2"]}, "white-list": {"to-remove": ["MatMulV2"]}}',
    'impl': '[ByOpType]\nSoftmaxV2=high_precision\n',
    'info/a.json': '{"MatMulV2": {"precision_reduce": {"flag": "false"}}}',
}
# Members of profiling_options: two values that leave different files, files with other columns, or
# other points.
ON = '{"training_trace": "on"%s}'
MEMBERS = {
    'output': ('{}', '{"output": "there"}'),
    'training_trace': ('{}', ON % ''),
    'fp_point': (ON % ', "fp_point": "first", "bp_point": "y"', ON % ', "fp_point": "second", "bp_point": "y"'),
    'bp_point': (ON % ', "fp_point": "first", "bp_point": "second"', ON % ', "fp_point": "first", "bp_point": "y"'),
    'task_trace': ('{}', '{"task_trace": "off"}'),
    'task_time': ('{}', '{"task_time": "off"}'),
    'aic_metrics': ('{}', '{"aic_metrics": "Memory"}'),
    'training_trace of the list': ('task_trace', 'training_trace'),
    'task_trace of the list': ('training_trace', 'training_trace:task_trace'),
    'op_trace': ('task_trace', 'op_trace'),
}
# The same for halftone atc: its command line without the option, and with it.  A model is always
# needed.
ATC = {
    'dynamic_batch_size': (TWO + ['--input_shape=x:-1,64'], '1,2'),
    'dynamic_dims': (TWO + ['--input_shape=x:-1,-1'], '1,64;2,64'),
    'dynamic_image_size': (TWO + ['--input_shape=x:-1,-1'], '1,64;2,64'),
    'external_weight': (TWO, '1'),
    'framework': (TWO, '5'),
    'input_shape': (TWO, 'x:1,64'),
    'input_shape_range': (TWO, 'x:[1,64]'),
    'mode': (['--model=m.hir'], '1'),
    'model': ([], 'm.hir'),
    'out_nodes': (TWO, 'act:0'),
    'output': (['--model=m.hir'], 'n'),
    'soc_version': (TWO, 'Ascend910A'),
}
# Settings that a row needs beside it, so that it is refused or without effect for its own reason.
BESIDE = {
    'compile_hybrid_mode': ['--dynamic_dims=1;2', '--dynamic_node_type=1', '--dynamic_input_config.input_shape=x:-1'],
    'dump_config.enable_dump': ['--dump_path=.'], 'dump_config.enable_dump_debug': ['--dump_path=.'],
    'in_out_pair': ['--mix_compile_mode'], 'in_out_pair_flag': ['--mix_compile_mode'],
    'local_device_list': ['--local_rank_id=0'],
    'variable_placement': ['--mix_compile_mode'],
}


def has_pages_of_1g():
    try:
        with open('/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages') as f:
            return int(f.read()) > 0
    except FileNotFoundError:
        return False


def turn(cases):
    return environment.in_turn(cases, 3 if environment.SANITIZED else 2)


class Classes(ToolCase):
    known = {}  # results for settings that several rows begin with, over all tests

    def setUp(self):
        super().setUp()
        self.table = json.loads(self.tool('options', '--format=json').stdout)
        self.rows = {o['name']: o for o in self.table['options']}
        self.examples = {g['name']: g['example'] for g in self.table['grammars']}
        self.count = 0

    def folder(self):
        """A fresh folder with the model and the files."""
        self.count += 1
        d = self.path('%d' % self.count)
        os.makedirs(os.path.join(d, 'info'))
        os.makedirs(os.path.join(d, 'there'))
        for name, text in (*FILES.items(), ('m.hir', MODEL)):
            with open(os.path.join(d, name), 'w') as f:
                f.write(text if text is not None else self.costs())
        return d

    def costs(self):
        with open(os.path.join(os.path.dirname(__file__), '../../precision/data/x86-64-v3@generic.costs')) as f:
            return '\n'.join(cheaper(line) if ' f16 ' in line else line for line in f.read().splitlines()) + '\n'

    def call(self, d, *args, host='x86-64'):
        """Runs the tool as on a machine of that level; the costs of x86-64 have not been measured."""
        return subprocess.run([TOOL, *args], cwd=d, capture_output=True, timeout=environment.HANGS,
                              env={**os.environ, 'HALFTONE_POLICY': '', 'HALFTONE_CACHE_DIR': '', 'HALFTONE_CACHE_MODE': '', 'HOME': d,
                                   'HALFTONE_HOST': host})

    def left(self, d):
        """The files in the folder, without times and the model."""
        found = {}
        for at, _, names in os.walk(d):
            for n in names:
                p = os.path.join(at, n)
                name = os.path.relpath(p, d)
                if name in FILES or name.startswith('.cache') or ('/v1/' in name and '/graph/' not in name) or n == 'lock':
                    continue  # files that existed before, and internal files of the cache
                with open(p, 'rb') as f:
                    found[name] = '' if '/v1/' in name else hashlib.sha256(f.read()).hexdigest()
        return found

    def seen(self, settings, key=False):
        """The decisions and files of a compilation."""
        d = self.folder()
        settings = [re.sub(r'=\{([a-z/]+)\}$', r'=\1', s) for s in settings]
        target = [] if any('cost_target' in s for s in settings) else TARGET  # explain decides for this target
        explained = self.call(d, 'explain', '--format=json', *target, *settings, 'm.hir')
        report = json.loads(explained.stdout) if explained.stdout else {}
        report.pop('without_effect', None)
        graph = self.call(d, 'compile', '--emit=hir', '-o', '-', *TARGET, *settings, 'm.hir').stdout
        saved = self.call(d, 'compile', '-o', 'net.htx', *TARGET, *settings, 'm.hir')
        keys = self.call(d, 'cache', 'key', *TARGET, *settings, 'm.hir').stdout if key else b''
        return {'report': report, 'graph': graph, 'files': self.left(d), 'exit': (explained.returncode, saved.returncode), 'key': keys}

    def draws(self, settings):
        d = self.folder()
        with open(os.path.join(d, 'random.hir'), 'w') as f:
            f.write(RANDOM)
        ran = self.call(d, 'run', 'random.hir', '--seed=1', '-o', 'y.npy', *settings)
        with open(os.path.join(d, 'y.npy'), 'rb') as f:
            return {'draws': f.read(), 'exit': (ran.returncode, 0)}

    def run_leaves(self, settings):
        """The files of a run, without times in their names."""
        d = self.folder()
        ran = self.call(d, 'run', 'm.hir', *settings)
        return {'left': sorted(re.sub(r'[0-9]{14,16}(_[0-9]+)?', 'TIME', n) for n in self.left(d)), 'exit': (ran.returncode, 0)}

    def traced(self, settings):
        """The files of a run, the first lines of tables, and the kernels that begin and end its iterations."""
        d = self.folder()
        ran = self.call(d, 'run', 'm.hir', '--format=json', *settings)
        found = json.loads(ran.stdout)['profile'].get('iterations', {}) if ran.returncode == 0 else {}
        files = {}
        for n in self.left(d):
            with open(os.path.join(d, n)) as f:
                files[re.sub(r'[0-9]{14,16}(_[0-9]+)?', 'TIME', n)] = f.readline() if n.endswith('.csv') else ''
        return {'traced': (files, found.get('forward'), found.get('backward')), 'exit': (ran.returncode, 0)}

    def stops(self, settings):
        """The exit code of a run, and the first words of its error."""
        d = self.folder()
        with open(os.path.join(d, 'slow.hir'), 'w') as f:
            f.write(SLOW_MODEL)
        ran = self.call(d, 'run', *settings, *([] if 'slow.hir' in settings else ['m.hir']))
        error = re.search(rb'error: .*?(limit of time|device 9999|pages of 1 GB)', ran.stderr)
        return {'stops': (ran.returncode, error and error[1]), 'exit': (0, 0)}

    def crowds(self, settings):
        d = self.folder()
        for name, model in ('slow.hir', SLOW_MODEL), ('slower.hir', SLOWER_MODEL):
            with open(os.path.join(d, name), 'w') as f:
                f.write(model)
        ran = self.call(d, 'bench', '--contexts=2', '--warmup=0', '--duration=0', '--target=x86-64', *settings)
        error = re.search(rb'error: .*?(limit of time.*)', ran.stderr)
        return {'crowds': (ran.returncode, error and error[1]), 'exit': (0, 0)}

    def opened(self, settings):
        """The plan of a model with an open size, the bytes of code that run, and the exit code of its compilation."""
        d = self.folder()
        with open(os.path.join(d, 'open.hir'), 'w') as f:
            f.write(OPEN_MODEL)
        done = self.call(d, 'compile', '--emit=plan', '-o', '-', *TARGET, *settings, 'open.hir')
        ran = self.call(d, 'bench', '--runs=1', '--duration=0', '--format=json', *TARGET, *settings, 'open.hir')
        return {'opened': (done.returncode, done.stdout, re.findall(rb'"code_bytes": \d+', ran.stdout)), 'exit': (0, 0)}

    def trains(self, settings):
        """The decisions on a training step, or the error."""
        model = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'train.hir')
        done = self.call(self.folder(), 'explain', '--format=json', '--outputs=loss,train', '--input-shape=x:8,4;y:8,1', *TARGET, *settings, model)
        return {'trains': (done.returncode, done.stdout), 'exit': (0, 0)}

    def fault(self, settings):
        """The files of a run that fails."""
        d = self.folder()
        with open(os.path.join(d, 'divides.hir'), 'w') as f:
            f.write(DIVIDES)
        ran = self.call(d, 'run', 'divides.hir', '--input=x=i32[2]:1,0', *settings)
        return {'fault': sorted(re.sub(r'[0-9]{16}', 'TIME', n) for n in self.left(d)), 'exit': (ran.returncode - 3, 0)}

    def seen_before(self, see, settings):
        at = (see.__name__, *settings)
        if at not in self.known:
            self.known[at] = see(settings, key=True) if see == self.seen else see(settings)
        return self.known[at]

    def differs(self, name, base, value, what):
        see = {'draws': self.draws, 'left': self.run_leaves, 'traced': self.traced, 'stops': self.stops, 'crowds': self.crowds,
               'fault': self.fault, 'opened': self.opened, 'trains': self.trains}.get(what, self.seen)
        before, after = self.seen_before(see, base), see([*base, '--%s=%s' % (name, value)])
        if what != 'exit':
            self.assertEqual((before['exit'], after['exit']), ((0, 0), (0, 0)), name)
        self.assertNotEqual(before[what], after[what], name)

    def test_honoured(self):
        own = {n for n, o in self.rows.items() if o['class'] == 'honoured' and not n.startswith('atc.')}
        self.assertEqual(own, set(HONOURED))
        for name, (base, value, what) in turn(HONOURED.items()):
            if name.endswith('1g_huge_page') and has_pages_of_1g():
                continue  # no run stops here; unit.pages simulates a machine without such pages
            with self.subTest(name):
                self.differs(name, base, value, what)

    def test_members_of_profiling_options(self):
        base = ['--profile-table', '--profiling_mode=true', '--fp_point=first', '--bp_point=y']
        for name, values in MEMBERS.items():
            with self.subTest(name):
                one, two = (self.traced([*base, '--profiling_options=' + v]) for v in values)
                self.assertEqual((one['exit'], two['exit']), ((0, 0), (0, 0)))
                self.assertNotEqual(one['traced'], two['traced'])

    def test_defaults_ask_for_nothing(self):
        for name, o in turn(self.rows.items()):
            if name.startswith('atc.') or not o['default'] or o['class'] != 'honoured':
                continue
            # The spelling of a mode is in the report.
            base = ['--%s=%s' % ('precision_mode', 'must_keep_origin_dtype')] if name == 'precision_mode_v2' else HONOURED[name][0]
            base = base if name != 'measure' else OPTIMAL  # two measurements may differ
            before = self.seen_before(self.seen, base)
            with self.subTest(name):
                after = self.seen([*(base if name != 'precision_mode_v2' else []), '--%s=%s' % (name, o['default'])], key=True)
                if name == 'precision_mode_v2':
                    after['report']['policy'] = before['report']['policy']
                    after['files'], after['key'] = before['files'], before['key']
                self.assertEqual(before, after)

    def other(self, o):
        """A legal value that is not the default."""
        name, values = o['name'], o['values']
        if name in self.examples:
            return self.examples[name]
        if '..' in values:
            low = values.split('..')[0]
            return low if low != o['default'] else str(int(low) + 1)
        if '|' in values:
            return next(v for v in values.split('|') if v != o['default'])
        return '.' if values in ('FOLDER', 'FILE') else 'text'

    def test_without_effect(self):
        """One by one those that have their turn: the report and the key of the cache equal those of the previous compilation.  Then
        all at once."""
        alone = turn(self.rows)
        plain, d, everything = self.seen_before(self.seen, []), self.folder(), []
        self.call(d, 'compile', '-o', 'net.htx', *TARGET, 'm.hir')
        before = self.left(d)
        for name, o in self.rows.items():
            if o['class'] != 'accepted' or name.startswith('atc.') or '--mix_compile_mode' in BESIDE.get(name, ()):
                continue
            setting = ['--%s=%s' % (name, self.other(o)), *BESIDE.get(name, [])]
            everything += setting if name not in ('save_checkpoints_secs', 'stream_sync_timeout') else []  # others forbid it
            if name not in alone:
                continue
            with self.subTest(name):
                said = self.call(d, 'explain', '--format=json', *TARGET, *setting, 'm.hir')
                self.assertEqual(said.returncode, 0, said.stderr)
                report = json.loads(said.stdout)
                self.assertIn(name, report.pop('without_effect'))
                self.assertEqual(report, plain['report'])
                self.assertEqual(said.stderr.decode().count('warning: %s has no effect: ' % name), 1, said.stderr)
                self.assertEqual(self.call(d, 'cache', 'key', *TARGET, *setting, 'm.hir').stdout, plain['key'])
        self.assertEqual(self.left(d), before)
        self.assertGreater(len(everything), 60)
        self.assertEqual(self.seen(everything, key=True), plain)

    def test_refused(self):
        d = self.folder()
        for name, o in environment.share(self.rows.items()):
            if o['class'] == 'honoured' or o['class'] == 'accepted' and '--mix_compile_mode' not in BESIDE.get(name, ()):
                continue
            atc = name.startswith('atc.')
            verb = ['atc', '--model=m.hir'] if atc else ['explain', 'm.hir']
            name = name.removeprefix('atc.')
            with self.subTest(name):
                r = self.call(d, *verb, '--%s=%s' % (name, self.other(o)), *BESIDE.get(name, []))
                self.assertEqual((r.returncode, r.stdout), (4, b''), r.stderr)
                self.assertIn(b' is refused: ', r.stderr)
                if o['default']:
                    r = self.call(d, *verb, '--%s=%s' % (name, o['default']))
                    self.assertEqual(r.returncode, 0, r.stderr)

    def test_atc(self):
        self.assertEqual({n[4:] for n, o in self.rows.items() if n.startswith('atc.') and o['class'] == 'honoured'}, set(ATC))

        def seen(args):
            d = self.folder()
            r = self.call(d, 'atc', '--precision_mode_v2=origin', *args, host='haswell')  # its rates are in a table
            return r.returncode, r.stdout, self.left(d)
        for name, (base, value) in ATC.items():
            with self.subTest(name):
                self.assertNotEqual(seen(base), seen([*base, '--%s=%s' % (name, value)]))
        plain = seen(TWO)
        self.assertEqual(plain[0], 0)
        for name, o in self.rows.items():
            if name.startswith('atc.') and o['class'] == 'accepted':
                with self.subTest(name):
                    self.assertEqual(plain, seen([*TWO, '--%s=%s' % (name[4:], self.other(o))]))


def cheaper(line):
    """A row of a table of costs with float16 at a tenth of the price."""
    words = line.split(' ')
    return ' '.join([*words[:5], '%.4g' % (float(words[5]) / 10), *words[6:]]) if len(words) == 7 else line


if __name__ == '__main__':
    unittest.main()
