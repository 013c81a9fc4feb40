#!/usr/bin/env python3
"""Values that the vendor's manual forbids are errors with their place, also for options that have no effect or are
refused. Legal values next to them pass, or are refused for another reason."""
import json, os, re, subprocess, unittest

from tool import HANGS, SMALL, TOOL, ToolCase

RANGES, STEPS, PHASES = 'dynamic_inputs_shape_range', 'dump_config.dump_step', 'experimental_config.accelerate_train_mode'
PROFILING, TRACES = 'profiling_config.profiling_options', 'profiling_config.enable_options'

# (option, value, part of the message)
BAD = (
    ('aicore_num', '24', 'it has 1 numbers, not 2'),
    ('aicore_num', '24|48|2', 'it has 3 numbers, not 2'),
    ('aicore_num', '24|', "'' is no whole number from 1"),
    ('aicore_num', '0|48', "'0' is no whole number from 1"),
    ('aicore_num', '24|-48', "'-48' is no whole number from 1"),
    ('aoe_mode', '3', 'none of 1|2|4'),
    ('auto_multistream_parallel_mode', 'vc', "there is no mode 'vc'"),
    ('auto_multistream_parallel_mode', 'LoadBalance:65', "'65' is no number of streams from 1 to 64"),
    ('auto_multistream_parallel_mode', 'LoadBalance:', "'' is no number of streams from 1 to 64"),
    ('auto_multistream_parallel_mode', 'MainStream', 'MainStream lacks its number of streams'),
    ('auto_multistream_parallel_mode', 'MainStream:0', "'0' is no number of streams from 1 to 64"),
    ('auto_tune_mode', 'GA,GA', 'none of GA|RL|GA,RL|RL,GA'),
    ('buffer_optimize', 'l1_optimize', 'none of l2_optimize|off_optimize'),
    ('dump_config.dump_layer', 'a  b', 'there is a blank where a name should be'),
    ('dump_config.dump_layer', ' a', 'there is a blank where a name should be'),
    (STEPS, '5-3', "the range '5-3' does not rise"),
    (STEPS, '5-5', "the range '5-5' does not rise"),
    (STEPS, 'a|b', "'a' is neither a step nor a range of steps"),
    (STEPS, '1|b', "'b' is neither a step nor a range of steps"),
    (STEPS, '-5', "'-5' is neither a step nor a range of steps"),
    (STEPS, '1-', "'1-' is neither a step nor a range of steps"),
    (STEPS, '1-2-3', "'1-2-3' is neither a step nor a range of steps"),
    (STEPS, '0x5', "'0x5' is neither a step nor a range of steps"),
    (STEPS, '1 |2', "'1 ' is neither a step nor a range of steps"),
    (STEPS, '1,2', "'1,2' is neither a step nor a range of steps"),
    (STEPS, '1||2', 'a step is missing'),
    (STEPS, '1|', 'a step is missing'),
    (STEPS, '99999999999999999999', "'99999999999999999999' is neither a step"),
    (STEPS, '|'.join(map(str, range(101))), 'there are more than 100 steps and ranges'),
    ('dynamic_input_config.dynamic_dims', '1', 'there are 2 to 100 profiles, not 1'),
    ('dynamic_input_config.dynamic_dims', ';'.join(map(str, range(101))), 'there are 2 to 100 profiles, not 101'),
    ('dynamic_input_config.dynamic_dims', '1,2;3', "'3' has 1 sizes, and the profile before it 2"),
    ('dynamic_input_config.dynamic_dims', '1;-1', "'-1' is no size"),
    ('dynamic_input_config.dynamic_node_type', '2', 'none of 0|1'),
    ('dynamic_input_config.input_shape', 'x', "'x' lacks a name and a colon"),
    ('dynamic_input_config.input_shape', ':1', "':1' has an empty name"),
    ('dynamic_input_config.input_shape', 'x:-2', "'-2' is no size and not -1"),
    ('dynamic_input_config.input_shape', 'x:1;x:2', "'x' stands twice"),
    ('dynamic_input_config.input_shape', ';'.join('x%d:1' % i for i in range(1001)), 'there are more than 1000 inputs'),
    (RANGES, 'data', "'data' lacks a name and a colon"),
    (RANGES, '[1]', "'[1]' lacks a name and a colon"),
    (RANGES, ':[1]', "':[1]' has an empty name"),
    (RANGES, 'data:1,2', "a shape in brackets is missing before '1,2'"),
    (RANGES, 'data:[1,2', "'[1,2' lacks its closing bracket"),
    (RANGES, 'data:[1],', "a shape in brackets is missing before ''"),
    (RANGES, 'data:[1][2]', "a comma is missing before '[2]'"),
    (RANGES, 'data:[5~3]', "the low end of '5~3' is above the high one"),
    (RANGES, 'data:[~3]', "'~3' is no size, no LOW~HIGH and not -1"),
    (RANGES, 'data:[3~]', "'3~' is no size, no LOW~HIGH and not -1"),
    (RANGES, 'data:[1~2~3]', "'1~2~3' is no size, no LOW~HIGH and not -1"),
    (RANGES, 'data:[-2]', "'-2' is no size, no LOW~HIGH and not -1"),
    (RANGES, 'data:[-1~4]', "'-1~4' is no size, no LOW~HIGH and not -1"),
    (RANGES, 'data:[1,,2]', "'' is no size, no LOW~HIGH and not -1"),
    (RANGES, 'data:[1 2]', "'1 2' is no size, no LOW~HIGH and not -1"),
    (RANGES, 'data:[1];data:[2]', "'data' stands twice"),
    (RANGES, 'data:[1];', "'' lacks a name and a colon"),
    ('enable_exception_dump', '3', 'none of 0|1|2'),
    ('enable_small_channel', '2', 'none of 0|1'),
    (PHASES, 'fast', 'the format is wrong: it has fewer than 2 parts, not 2 or 3'),
    (PHASES, 'fast|step|0.9|', 'the format is wrong: it has more than 3 parts, not 2 or 3'),
    (PHASES, 'Fast|step', "the first part, 'Fast', is neither fast nor fast1"),
    (PHASES, 'fast2|step|0.9', "the first part, 'fast2', is neither fast nor fast1"),
    (PHASES, ' fast|step', "the first part, ' fast', is neither fast nor fast1"),
    (PHASES, 'fast|steps', "the second part, 'steps', is neither step nor loss"),
    (PHASES, 'fast||0.9', "the second part, '', is neither step nor loss"),
    (PHASES, 'fast|step|x', "the third part, 'x', is no number"),
    (PHASES, 'fast|step|nan', "the third part, 'nan', is not from 0.2 to 0.9"),
    (PHASES, 'fast|step|0.19', "the third part, '0.19', is not from 0.2 to 0.9"),
    (PHASES, 'fast|step|0.91', "the third part, '0.91', is not from 0.2 to 0.9"),
    (PHASES, 'fast1|loss|1', "the third part, '1', is not from 1.01 to 1.5"),
    (PHASES, 'fast1|loss|1.51', "the third part, '1.51', is not from 1.01 to 1.5"),
    ('graph_max_parallel_model_num', '2147483648', 'no whole number in 1..2147483647'),
    ('graph_max_parallel_model_num', '0', 'no whole number in 1..2147483647'),
    ('graph_run_mode', '2', 'none of 0|1'),
    ('hccl_timeout', '-1', 'no whole number in 0..'),
    ('input_fusion_size', '33554433', 'no whole number in 0..33554432'),
    ('jit_compile', 'on', 'none of true|false|auto'),
    ('local_device_list', '0,a', "'a' is no number of a device"),
    ('local_device_list', '0,', "'' is no number of a device"),
    ('local_rank_id', '8', 'no whole number in -1..7'),
    (TRACES, 'training', "there is no trace 'training'"),
    (TRACES, 'task_trace:task_trace', 'task_trace stands twice'),
    (TRACES, 'op_trace:task_trace', 'op_trace does not go with other traces'),
    (TRACES, 'task_trace:', "there is no trace ''"),
    (PROFILING, 'task_trace|training_trace', "there is no trace 'task_trace|training_trace'"),
    (PROFILING, 'training_trace:op_trace', 'op_trace does not go with other traces'),
    (PROFILING, '{"output": "./"', 'it is no strict JSON object'),
    (PROFILING, '{} {}', 'it is no strict JSON object'),
    (PROFILING, '{"outputs": "./"}', "the profiler has no option 'outputs'; did you mean 'output'?"),
    (PROFILING, '{"op_trace": "on"}', 'op_trace is of the list with colons, where it stands alone'),
    (PROFILING, '{"l2": "on", "l2": "on"}', 'l2 stands twice'),
    (PROFILING, '{"l2": true}', 'l2: its value is no text'),
    (PROFILING, '{"training_trace": "yes"}', "training_trace: 'yes' is none of on,off"),
    (PROFILING, '{"training_trace": "on", "fp_point": "a"}', 'training_trace needs both points: bp_point is missing beside fp_point'),
    (PROFILING, '{"training_trace": "on", "fp_point": "", "bp_point": "b"}', 'fp_point is missing beside bp_point'),
    (PROFILING, '{"aic_metrics": "Pipe"}', "aic_metrics: 'Pipe' is none of ArithmeticUtilization,"),
    (PROFILING, '{"aic_metrics": "Custom:0x6F"}', "aic_metrics: 'Custom:0x6F' is none of"),
    (PROFILING, '{"aic_metrics": "Custom:1,2,3,4,5,6,7,8,9"}', "aic_metrics: 'Custom:1,2,3,4,5,6,7,8,9' is none of"),
    (PROFILING, '{"storage_limit": "200"}', "storage_limit: '200' is not N and MB, N from 200 to 4294967295"),
    (PROFILING, '{"storage_limit": "199MB"}', "storage_limit: '199MB' is not N and MB"),
    (PROFILING, '{"sys_io_sampling_freq": "101"}', "sys_io_sampling_freq: '101' is no whole number from 1 to 100"),
    (PROFILING, '{"sys_interconnection_freq": 51}', "sys_interconnection_freq: '51' is no whole number from 1 to 50"),
    (PROFILING, '{"instr_profiling_freq": "299"}', 'no whole number from 300 to 30000'),
    (PROFILING, '{"host_sys": "cpu,gpu"}', "host_sys: 'cpu,gpu' is no list of cpu,mem,disk,network,osrt"),
    (PROFILING, '{"output": "a\\tb"}', 'output: its value has a control character'),
    ('quant_dumpable', '2', 'none of 0|1'),
    ('stream_max_parallel_num', 'AiCore:1', "there is no engine 'AiCore'"),
    ('stream_max_parallel_num', 'AIcoreEngine', 'AIcoreEngine lacks its number'),
    ('stream_max_parallel_num', 'DNN_VM_AICPU:0', 'DNN_VM_AICPU lacks its number'),
    ('stream_max_parallel_num', 'DNN_VM_AICPU:1,DNN_VM_AICPU:2', 'DNN_VM_AICPU stands twice'),
    ('stream_max_parallel_num', 'DNN_VM_AICPU:1, AIcoreEngine:2', "there is no engine ' AIcoreEngine'"),
    ('stream_sync_timeout', '-2', 'no whole number in -1..'),
    ('session_config.graph_options.rewrite_options.remapping', 'NO', 'none of DEFAULT|ON|OFF|AGGRESSIVE'),
    ('variable_placement', 'host', 'none of Device|Host'),
)
# Legal values next to them.
GOOD = (
    ('aicore_num', '1|1'),
    ('auto_multistream_parallel_mode', 'cv'), ('auto_multistream_parallel_mode', 'LoadBalance'),
    ('auto_multistream_parallel_mode', 'LoadBalance:64'), ('auto_multistream_parallel_mode', 'MainStream:1'),
    ('auto_tune_mode', 'RL,GA'),
    ('dump_config.dump_layer', 'a/b c'),
    (STEPS, '0'), (STEPS, '0|5|10-20'), (STEPS, '3-4|1'), (STEPS, '|'.join(map(str, range(100)))),
    (RANGES, 'data:[1~1]'), (RANGES, ' data : [ 1 ~ 2 , -1 ] , [ ] '), (RANGES, 'a:0:[1];b:[2]'),
    (PHASES, 'fast|step'), (PHASES, 'fast|step|'), (PHASES, 'fast|step|0.2'), (PHASES, 'fast1|step|0.9'), (PHASES, 'fast1|loss'),
    (PHASES, 'fast|loss|1.01'), (PHASES, 'fast|loss|1.5'),
    ('graph_max_parallel_model_num', '2147483647'),
    (TRACES, 'op_trace'), (TRACES, 'task_trace'),
    (PROFILING, '{}'), (PROFILING, '{"training_trace": "on", "fp_point": "a", "bp_point": "b", "storage_limit": "200MB"}'),
    (PROFILING, '{"training_trace": "on", "fp_point": "", "bp_point": ""}'), (PROFILING, '{"aic_metrics": "Custom:0x6E,1"}'),
    (PROFILING, '{"sys_io_sampling_freq": 100, "host_sys": "cpu,mem", "task_time": "l1", "output": "/tmp/a b"}'),
    ('stream_max_parallel_num', 'DNN_VM_AICPU:10'), ('stream_max_parallel_num', 'AIcoreEngine:1,DNN_VM_AICPU:3'),
)


class BadSettings(ToolCase):
    def setUp(self):
        super().setUp()
        self.table = json.loads(self.tool('options', '--format=json').stdout)

    def stated(self, option, value):
        """The option on the command line, and in the third line of a file."""
        yield 2, 'halftone: error: ', ['--%s=%s' % (option, value)]
        run = self.path('run.json', ('{"job": "a",\n\n%s: %s}' % (json.dumps(option), json.dumps(value))).encode())
        yield 3, run + ':3: error: ', ['--config', run]

    def test_bad_values(self):
        self.assertGreaterEqual(len(set(BAD)), 60)
        for option, value, said in BAD:
            for code, place, args in self.stated(option, value):
                with self.subTest((option, value[:60], code)):
                    r = self.tool('config', *args, code=code)
                    self.assertEqual(r.stdout, b'')
                    self.assertTrue(r.err.startswith('%s%s: \'%s' % (place, option, value[:200])), r.err)
                    self.assertIn(said, r.err)
                    self.assertEqual(r.err.count('error: '), 1)

    def test_nothing_is_written(self):
        for args in (['convert', '-o', self.path('o')], ['compile', '-o', self.path('o.htx')]):
            self.fails(2, 'does not rise', *args, '--dump_step=5-3', SMALL)
        self.assertEqual(os.listdir(self.dir), [])

    def test_legal_values(self):
        refused = {o['name'] for o in self.table['options'] if o['class'] == 'refused'}
        examples = [(g['name'], g['example']) for g in self.table['grammars']]
        for option, value in (*GOOD, *examples):
            for _, _, args in self.stated(option, value):
                alone = option not in ('dynamic_input_config.dynamic_dims', 'dynamic_input_config.input_shape', 'local_device_list', TRACES)
                with self.subTest((option, value[:60])):
                    r = subprocess.run([TOOL, 'config', *args], capture_output=True, env={**os.environ, 'HALFTONE_POLICY': ''})
                    if alone:
                        self.assertEqual(r.returncode, 4 if option in refused else 0, r.stderr)
                    self.assertNotIn(b"'; it is ", r.stderr)

    def test_every_grammar_has_cases(self):
        grammars = {g['name'] for g in self.table['grammars']}
        self.assertEqual(grammars - {b[0] for b in BAD}, set())
        for g in self.table['grammars']:
            self.assertTrue(g['form'] and g['example'])

    def test_sample(self):
        """The text as the manual prints it, blanks included."""
        sample = os.path.join(os.environ.get('HALFTONE_SHARED', ''), 'samples/dynamic_inputs_shape_range.txt')
        if not os.path.isfile(sample):
            self.skipTest('no $HALFTONE_SHARED')
        with open(sample) as f:
            text = f.read().strip()
        for code, place, args in self.stated(RANGES, text):
            r = self.tool('config', *args)
            self.assertRegex(r.stdout.decode(), RANGES + ' +' + re.escape(text) + ' ')
            self.assertIn('counts only with dynamic_input=true', r.err)

    def test_one_line_examples(self):
        """Each argument of NPURunConfig in the manual's one-line examples is accepted, or refused as known."""
        sample = os.path.join(os.environ.get('HALFTONE_SHARED', ''), 'samples/python/run_config_examples.py')
        if not os.path.isfile(sample):
            self.skipTest('no $HALFTONE_SHARED')
        with open(sample) as f:
            calls = [line[len('config = NPURunConfig('):-2] for line in f if line.startswith('config = NPURunConfig(')]
        self.assertGreater(len(calls), 30)
        for call in calls:
            if '_config=' in call or 'strategy' in call or '/home' in call:
                continue  # objects of the script, and files of the author
            settings = eval('dict(%s)' % call)
            with self.subTest(call):
                run = self.path('run.json', json.dumps(settings).encode())
                r = subprocess.run([TOOL, 'config', '--config', run], capture_output=True, env={**os.environ, 'HALFTONE_POLICY': ''})
                self.assertIn(r.returncode, (0, 4), r.stderr)
                listed = {o['name'].split('.')[-1]: o for o in self.table['options']}
                if r.returncode == 4:
                    self.assertTrue(any(n.encode() + b'=' in r.stderr for n in settings), r.stderr)
                    continue
                for name, value in settings.items():
                    text = {True: 'true', False: 'false'}.get(value, str(value)) if isinstance(value, bool) else str(value)
                    self.assertRegex(r.stdout.decode(), r'(?m)^%s +%s +%s' % (listed[name]['name'], re.escape(text), run))

    def test_long_values(self):
        """The time to read a value grows linearly with its length: if it grew by the square, the longest here would take many seconds."""
        def seconds(n):
            before = os.times().children_user
            for option, text in (RANGES, ';'.join('x%d:[%s]' % (i, '1,' * n + '1') for i in range(20))), (STEPS, '1' * n), ('dump_layer', 'a ' * n):
                subprocess.run([TOOL, 'config', '--config', self.path('l.json', json.dumps({option: text}).encode())], capture_output=True, timeout=HANGS)
            return os.times().children_user - before

        def least(n):
            return min(seconds(n) for _ in range(3))
        self.assertLess(least(16000), 24 * least(2000) + 1)


class Booleans(ToolCase):
    """`--name value` for options that are true or false."""
    def value(self, *args):
        return next(o['value'] for o in json.loads(self.tool('config', '--format=json', *args).stdout)['config'] if o['name'] == 'oo_constant_folding')

    def test_next_word(self):
        for word, value in ('true', 'true'), ('1', '1'), ('false', 'false'), ('0', '0'):
            self.assertEqual(self.value('--oo_constant_folding', word), value)
            self.assertEqual(self.value('--oo_constant_folding=' + word), value)
        self.assertEqual(self.value('--oo_constant_folding=false', '--oo_constant_folding'), 'true')
        self.fails(2, "takes no argument; 'False' was given", 'config', '--oo_constant_folding', 'False')
        self.fails(2, "oo_constant_folding: 'False' is none of true|false", 'config', '--oo_constant_folding=False')

    def test_models_stay_models(self):
        self.assertEqual(json.loads(self.tool('run', '--format=json', '--frozen_variable', SMALL).stdout)['without_effect'], ['frozen_variable'])
        self.assertEqual(json.loads(self.tool('run', '--format=json', '--frozen_variable', '0', SMALL).stdout)['without_effect'], [])
        self.tool('explain', '--policy=optimal', '--frontier', SMALL)
        self.tool('explain', '--policy=optimal', '--frontier', 'true', SMALL)
        self.fails(4, 'mix_compile_mode=1 is refused', 'run', '--mix_compile_mode', '1', SMALL)
        self.tool('run', '--mix_compile_mode', '0', SMALL)
        self.tool('run', SMALL, '--mix-compile-mode', 'false')
        self.tool('atc', '--frozen_variable', 'false', '--model', SMALL)


class Standings(ToolCase):
    """Deprecated and experimental options are marked once, in `halftone options` and in docs/options.md."""
    def test_once(self):
        table = json.loads(self.tool('options', '--format=json').stdout)['options']
        standing = {o['name']: o['standing'] for o in table}
        self.assertEqual(standing['op_select_implmode'], 'deprecated for op_precision_mode')
        self.assertEqual(standing['dynamic_input'], 'deprecated')
        self.assertEqual(standing['experimental_config.graph_compiler_cache_dir'], 'experimental')
        self.assertEqual(standing['precision_mode'], '')
        for name, args in (('op_select_implmode', ['--op_select_implmode=high_precision']), ('op_debug_level', ['--op_debug_level=0']),
                           ('enable_data_pre_proc', ['--enable_data_pre_proc', '--enable_data_pre_proc=false']),
                           ('experimental_config.logical_device_id', ['--logical_device_id=1'])):
            word = standing[name].split()[0]
            for verb in 'run', 'explain', 'compile':
                r = self.tool(verb, *args, SMALL)
                self.assertEqual(r.err.count('note: %s is %s' % (name, word)), 1, r.err)
            self.assertIn(word, self.tool('options').stdout.decode())
        r = self.tool('run', '--op_select_implmode=high_precision', SMALL)
        self.assertIn("op_select_implmode is deprecated; the vendor's manual has op_precision_mode in its place", r.err)
        r = self.tool('run', '--dynamic_input', SMALL)
        self.assertEqual(r.err.count("dynamic_input is deprecated; the vendor's manual has nothing in its place"), 1)
        self.assertNotIn('deprecated', self.tool('run', '--precision_mode=force_fp16', SMALL).err)

    def test_in_a_file(self):
        r = self.tool('run', '--config', self.path('r.json', b'{"op_debug_level": 0, "variable_format_optimize": true}'), SMALL)
        for name in 'op_debug_level', 'variable_format_optimize':
            self.assertEqual(r.err.count(name + ' is deprecated'), 1)


class Sessions(ToolCase):
    def test_session_config(self):
        """A ConfigProto as a script writes it, and as protobuf prints it: the settings are the same."""
        def config(snake):
            case = (lambda s: s) if snake else lambda s: s.split('_')[0] + ''.join(w.title() for w in s.split('_')[1:])
            text = (lambda s: s) if snake else lambda s: __import__('base64').b64encode(s.encode()).decode()
            rewrite = {'remapping': 'OFF' if snake else 2, 'constant_folding': 'OFF', case('memory_optimization'): 'OFF' if snake else 'NO_MEM_OPT',
                       case('custom_optimizers'): [{'name': 'other'}, {'name': 'NpuOptimizer', case('parameter_map'): {
                           'precision_mode': {'s': text('force_fp16')}, 'use_off_line': {'b': True}, 'hccl_timeout': {'i': '7'}}}]}
            rewrite[case('constant_folding')] = rewrite.pop('constant_folding')
            return {'session_config': {case('allow_soft_placement'): True, case('gpu_options'): {'a': ['b']},
                                       case('graph_options'): {case('rewrite_options'): rewrite}}}
        want = {'precision_mode': 'force_fp16', 'use_off_line': 'true', 'hccl_timeout': '7', 'oo_constant_folding': 'false',
                'session_config.allow_soft_placement': 'true', 'session_config.graph_options.rewrite_options.remapping': 'OFF'}
        for snake in True, False:
            run = self.path('run.json', json.dumps(config(snake), indent=1).encode())
            r = self.tool('config', '--format=json', '--config', run)
            got = {o['name']: o['value'] for o in json.loads(r.stdout)['config'] if o['origin'].startswith(run)}
            self.assertEqual({k: got[k] for k in want}, want)
            self.assertEqual(r.err.count('note: session_config: these are not read: gpu_options, other\n'), 1, r.err)
        decided = self.tool('explain', '--config', run, SMALL)
        self.assertIn(b'force_fp16', decided.stdout)

    def test_mistakes_have_their_line(self):
        text = '{"session_config": {"graph_options": {"rewrite_options": {\n "custom_optimizers": [{"name": "NpuOptimizer", "parameter_map": {\n%s}}]}}}}'
        for parameter, code, said in (('"dump_step": {"s": "5-3"}', 3, "the range '5-3' does not rise"),
                                      ('"mix_compile_mode": {"b": true}', 4, 'is refused'),
                                      ('"variable_placement": {"s": "Host"}', 3, 'need mix_compile_mode=true'),
                                      ('"dump_steps": {"s": "5"}', 3, "did you mean 'dump_step'"),
                                      ('"dump_step": "5"', 3, r'dump_step has to be \{"b": true\}')):
            run = self.path('run.json', (text % parameter).encode())
            self.fails(code, r'run\.json:3: error: .*' + said, 'config', '--config', run)


if __name__ == '__main__':
    unittest.main()
