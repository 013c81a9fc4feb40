#!/usr/bin/env python3
"""Combinations that the vendor forbids: each row of the table, from both sides, by command line and by file."""
import json, os, subprocess, unittest

from tool import HANGS, SMALL, TOOL, ToolCase

DIMS, TYPE, SHAPE = (('dynamic_input_config.' + n, v) for n, v in (('dynamic_dims', '1;2'), ('dynamic_node_type', '1'), ('input_shape', 'x:-1')))
PROFILES = dict((DIMS, TYPE, SHAPE))
DUMP, DEBUG, PATH = 'dump_config.enable_dump', 'dump_config.enable_dump_debug', 'dump_config.dump_path'
PHASES = {'experimental_config.accelerate_train_mode': 'fast|step|0.9'}
OPTIONS, ENABLE, MODE = ('profiling_config.' + n for n in ('profiling_options', 'enable_options', 'enable_profiling'))
POINTS = {'fp_point': 'a', 'bp_point': 'b'}
TRACES = 'task_trace:training_trace'


def but(settings, *names):
    return {k: v for k, v in settings.items() if k not in names}


# (option, is, other, other_is) of a row: a forbidden pair, and the nearest allowed one.  {folder},
# {locked} and {missing} are paths; names in capitals are variables of the environment.
CASES = {
    ('aoe_mode', '*', 'work_path', '@no_folder'): ({'aoe_mode': '1', 'work_path': '{missing}'}, {'aoe_mode': '1', 'work_path': '{folder}'}),
    ('aoe_mode', '*', 'work_path', '@locked_folder'): ({'aoe_mode': '1', 'work_path': '{locked}'}, {'aoe_mode': '1', 'work_path': '{folder}'}),
    ('buffer_optimize', 'off_optimize', 'graph_run_mode', '1'): (
        {'buffer_optimize': 'off_optimize', 'graph_run_mode': '1'}, {'buffer_optimize': 'off_optimize', 'graph_run_mode': '0'}),
    ('compile_hybrid_mode', '1', 'dynamic_input_config.dynamic_node_type', '!1'): (
        {'compile_hybrid_mode': '1', **PROFILES, TYPE[0]: '0'}, {'compile_hybrid_mode': '1', **PROFILES}),
    ('compress_weight_conf', '*', 'enable_compress_weight', 'true'): (
        {'compress_weight_conf': 'a', 'enable_compress_weight': 'true'}, {'compress_weight_conf': 'a', 'enable_compress_weight': 'false'}),
    (DUMP, 'true', DEBUG, 'true'): ({DUMP: 'true', DEBUG: '1', PATH: '{folder}'}, {DUMP: 'true', DEBUG: '0', PATH: '{folder}'}),
    ('experimental_config.accelerate_train_mode', '*', 'precision_mode', '!allow_fp32_to_fp16|must_keep_origin_dtype'): (
        {**PHASES, 'precision_mode': 'force_fp16'}, {**PHASES, 'precision_mode': 'allow_fp32_to_fp16'}),
    ('experimental_config.accelerate_train_mode', '*', 'precision_mode_v2', '!origin'): (
        {**PHASES, 'precision_mode_v2': 'fp16'}, {**PHASES, 'precision_mode_v2': 'origin'}),
    ('dynamic_graph_execute_mode', 'lazy_recompile', 'dynamic_input', 'false'): (
        {'dynamic_graph_execute_mode': 'lazy_recompile'}, {'dynamic_graph_execute_mode': 'lazy_recompile', 'dynamic_input': '1'}),
    (DIMS[0], '*', 'compile_dynamic_mode', 'true'): ({**PROFILES, 'compile_dynamic_mode': 'true'}, {**PROFILES, 'compile_dynamic_mode': 'false'}),
    ('dynamic_inputs_shape_range', '*', DIMS[0], '*'): ({'dynamic_inputs_shape_range': 'data:[1~2]', **PROFILES}, {'dynamic_inputs_shape_range': 'data:[1~2]'}),
    ('enable_small_channel', '0', 'graph_run_mode', '0'): (
        {'enable_small_channel': '0', 'graph_run_mode': '0'}, {'enable_small_channel': '0', 'graph_run_mode': '1'}),
    ('iterations_per_loop', '!1', 'mix_compile_mode', 'true'): (
        {'iterations_per_loop': '2', 'mix_compile_mode': 'true'}, {'iterations_per_loop': '1', 'mix_compile_mode': 'true'}),
    ('local_device_list', '*', 'local_rank_id', '-1'): ({'local_device_list': '0,1'}, {'local_device_list': '0,1', 'local_rank_id': '0'}),
    ('mix_compile_mode', 'true', DIMS[0], '*'): ({'mix_compile_mode': 'true', **PROFILES}, {'mix_compile_mode': 'false', **PROFILES}),
    (OPTIONS, '*', MODE, 'false'): ({OPTIONS: 'op_trace'}, {OPTIONS: 'op_trace', MODE: 'true'}),
    (OPTIONS, '@traces_training', 'graph_run_mode', '0'): (
        {OPTIONS: '{"training_trace": "on"}', MODE: '1', 'graph_run_mode': '0'}, {OPTIONS: '{"training_trace": "off"}', MODE: '1', 'graph_run_mode': '0'}),
    (OPTIONS, '@traces_tasks_alone', 'graph_run_mode', '1'): (
        {OPTIONS: '{"task_trace": "on", "training_trace": "off"}', MODE: '1', 'graph_run_mode': '1'},
        {OPTIONS: '{"task_trace": "on", "training_trace": "on"}', MODE: '1', 'graph_run_mode': '1'}),
    ('quant_dumpable', '1', 'graph_run_mode', '1'): ({'quant_dumpable': '1', 'graph_run_mode': '1'}, {'quant_dumpable': '1', 'graph_run_mode': '0'}),
    ('save_checkpoints_secs', '*', 'save_checkpoints_steps', '*'): ({'save_checkpoints_secs': '1', 'save_checkpoints_steps': '1'}, {'save_checkpoints_secs': '1'}),
    ('shape_generalization_mode', '!STRICT', 'jit_compile', '!true'): (
        {'shape_generalization_mode': 'FULL', 'jit_compile': 'false'}, {'shape_generalization_mode': 'FULL', 'jit_compile': 'true'}),
    ('shape_generalization_mode', '!STRICT', 'compile_dynamic_mode', 'true'): (
        {'shape_generalization_mode': 'FULL', 'jit_compile': 'true', 'compile_dynamic_mode': 'true'},
        {'shape_generalization_mode': 'FULL', 'jit_compile': 'true', 'compile_dynamic_mode': 'false'}),
    ('stream_sync_timeout', '*', 'hccl_timeout', '@not_above'): (
        {'stream_sync_timeout': '7000', 'hccl_timeout': '7'}, {'stream_sync_timeout': '7001', 'hccl_timeout': '7'}),
    ('stream_sync_timeout', '*', 'HCCL_EXEC_TIMEOUT', '@not_above'): (
        {'stream_sync_timeout': '7000', 'HCCL_EXEC_TIMEOUT': '7'}, {'stream_sync_timeout': '7001', 'HCCL_EXEC_TIMEOUT': '7'}),
    ('variable_placement', 'Host', 'mix_compile_mode', 'false'): ({'variable_placement': 'Host'}, {'variable_placement': 'Host', 'mix_compile_mode': '1'}),
}
for dump in DUMP, DEBUG:
    CASES[dump, 'true', PATH, ''] = {dump: 'true'}, {dump: 'true', PATH: '{folder}'}
    CASES[dump, 'true', PATH, '@no_folder'] = {dump: 'true', PATH: '{missing}'}, {dump: 'true', PATH: '{folder}'}
    CASES[dump, 'true', PATH, '@locked_folder'] = {dump: 'true', PATH: '{locked}'}, {dump: 'true', PATH: '{folder}'}
for one, other in zip((DIMS, TYPE, SHAPE), (TYPE, SHAPE, DIMS)):
    CASES[one[0], '*', other[0], ''] = but(PROFILES, other[0]), PROFILES
for pair, value, is_ in ('in_out_pair', '[[["a"],["b"]]]', '*'), ('in_out_pair_flag', 'false', 'false'):
    CASES[pair, is_, 'graph_run_mode', '1'] = ({pair: value, 'mix_compile_mode': '1', 'graph_run_mode': '1'},
                                               {pair: value, 'mix_compile_mode': '1', 'graph_run_mode': '0'})
    CASES[pair, is_, 'mix_compile_mode', 'false'] = {pair: value, 'graph_run_mode': '0'}, {pair: value, 'mix_compile_mode': '1', 'graph_run_mode': '0'}
for option in OPTIONS, ENABLE:
    for point in POINTS:
        CASES[option, '@lists_training_trace', point, ''] = {option: TRACES, **but(POINTS, point), MODE: '1'}, {option: TRACES, **POINTS, MODE: '1'}


class Combinations(ToolCase):
    def setUp(self):
        super().setUp()
        os.chmod(self.dir, 0o755)
        self.paths = {n: self.path(n) for n in ('folder', 'locked', 'missing')}
        os.mkdir(self.paths['folder'])
        os.mkdir(self.paths['locked'], 0o555)
        os.chmod(self.paths['folder'], 0o777)
        self.table = json.loads(self.tool('options', '--format=json').stdout)

    def run_as_user(self, settings, *args):
        """Root may write everywhere."""
        env = {**os.environ, 'HALFTONE_POLICY': '', **{k: v for k, v in settings.items() if k.isupper()}}
        user = {'user': 65534} if os.getuid() == 0 and 'locked' in str(settings) else {}
        r = subprocess.run([TOOL, 'config', *args], capture_output=True, env=env, timeout=HANGS, **user)
        r.err = r.stderr.decode()
        return r

    def filled(self, settings):
        return {k: self.paths.get(v.strip('{}'), v) for k, v in settings.items()}

    def both_ways(self, settings):
        """By the command line, and by a file with one member on each line."""
        settings = self.filled(settings)
        stated = {k: v for k, v in settings.items() if not k.isupper()}
        config = self.path('run.json', ('{\n' + ',\n'.join('%s: %s' % (json.dumps(k), json.dumps(v)) for k, v in stated.items()) + '}').encode())
        line = {k: n for n, k in enumerate(stated, 2)}
        yield 2, '^halftone: ', self.run_as_user(settings, *('--%s=%s' % s for s in stated.items())), line
        yield 3, config, self.run_as_user(settings, '--config', config), line

    def refused(self, settings):
        """Whether the table refuses one of them, so that the exit code is 4."""
        classes = {o['name']: (o['class'], o['default']) for o in self.table['options']}
        plain = {'1': 'true', '0': 'false'}
        return any(classes[k][0] == 'refused' and classes[k][1] not in (v, plain.get(v, v)) for k, v in settings.items() if not k.isupper())

    def test_every_row_from_both_sides(self):
        rows = {(c['name'], c['is'], c['other'], c['other_is']): c for c in self.table['combinations']}
        self.assertEqual(set(rows), set(CASES), 'rows without a case, or cases without a row')
        for key, (wrong, right) in CASES.items():
            text = rows[key]['text']
            with self.subTest(key):
                for code, place, r, line in self.both_ways(wrong):
                    if rows[key]['severity'] == 'error':
                        self.assertEqual((r.returncode, r.stdout), (code, b''), r.err)
                        at = '%s:%d: error: ' % (place, line[key[0]]) if code == 3 else 'halftone: error: '
                        self.assertRegex(r.err, '(?m)^' + at + key[0] + '=')
                    else:
                        self.assertEqual(r.returncode, 4 if self.refused(wrong) else 0, r.err)
                        self.assertRegex(r.err, '(?m)warning: %s=' % key[0])
                    self.assertIn(': ' + text + '\n', r.err)
                    self.assertEqual(r.err.count(text), 1)
                for code, place, r, line in self.both_ways(right):
                    self.assertEqual(r.returncode, 4 if self.refused(right) else 0, r.err)
                    self.assertNotIn(text, r.err)

    def test_what_is_stated_in_several_places(self):
        run = self.path('run.json', b'{"variable_placement": "Host"}')
        self.fails(3, r'run\.json:1: error: variable_placement=Host beside mix_compile_mode=false, the default', 'config', '--config', run)
        self.fails(4, 'mix_compile_mode=true is refused', 'config', '--config', run, '--mix_compile_mode')
        self.tool('config', '--config', run, '--variable_placement=Device')
        slow = self.path('slow.json', b'{"stream_sync_timeout": 7000}')
        self.fails(3, r'slow\.json:1: error: .* beside hccl_timeout=7: ', 'config', '--config', slow, '--hccl_timeout=7')
        self.fails(3, r'slow\.json:1: error: .* beside HCCL_EXEC_TIMEOUT=7: ', 'config', '--config', slow, env={'HCCL_EXEC_TIMEOUT': '7'})
        self.tool('config', '--config', slow)
        self.tool('config', '--config', slow, '--stream_sync_timeout=-1', env={'HCCL_EXEC_TIMEOUT': '7'})
        dump = self.path('dump.json', b'{"enable_dump": true}')
        self.fails(3, r'dump\.json:1: error: .*dump_path must be set', 'config', '--config', dump)
        self.tool('config', '--config', dump, '--dump_path', self.dir)
        self.tool('config', '--config', dump, '--enable_dump', 'false')

    def test_every_verb_asks(self):
        wrong = ['--variable_placement=Host']
        for args in (['run'], ['bench'], ['compile'], ['convert', '-o', self.path('o.pb')], ['explain'], ['opt', '--passes=prune'], ['cache', 'key']):
            self.fails(2, 'variables on the host need mix_compile_mode=true', *args, *wrong, SMALL)
        self.fails(2, 'variables on the host need mix_compile_mode=true', 'atc', *wrong, '--model=' + SMALL)
        self.assertNotIn('o.pb', os.listdir(self.dir))
        r = self.tool('atc', '--enable_small_channel=0', '--model=' + SMALL)
        self.assertEqual(r.err.count('in inference it is 1 in any case'), 1)
        r = self.tool('run', '--enable_small_channel=0', '--graph_run_mode=0', SMALL)
        self.assertEqual(r.err.count('in inference it is 1 in any case'), 1)


if __name__ == '__main__':
    unittest.main()
