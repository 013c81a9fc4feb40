#!/usr/bin/env python3
"""The sources of settings, and their effects."""
import json, os, subprocess, unittest

from tool import SMALL, TOOL, TOP, ToolCase


class Configurations(ToolCase):
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
        run = self.config('{"precision_mode": "force_fp16", "input_batch_cpy": "true"}')
        for args in (['run'], ['bench', '--runs=1', '--duration=0.01'], ['compile'], ['convert', '-o', self.path('o.pb')], ['explain'],
                     ['opt', '--passes=prune']):
            r = self.tool(*args, '--config', run, SMALL)
            self.assertEqual(r.err.count('warning: input_batch_cpy has no effect: '), 1, args)
        report = json.loads(self.tool('explain', '--config', run, '--format=json', SMALL).stdout)
        self.assertEqual(report['policy'], 'force_fp16')
        self.assertEqual(report['without_effect'], ['input_batch_cpy'])
        for args in ['run'], ['bench', '--runs=1', '--duration=0.01'], ['compile']:
            for more, names in (['--config', run], ['input_batch_cpy']), ([], []):
                r = self.tool(*args, *more, '--format=json', SMALL)
                self.assertEqual(json.loads(r.stdout)['without_effect'], names)

    def test_bad(self):
        bad = self.config('{\n"precision_modes": "force_fp16"}')
        self.fails(3, r"run\.json:2: error: .*no member 'precision_modes'; did you mean 'precision_mode'", 'run', '--config', bad, SMALL)
        self.assertRegex(self.tool('run', '--config', bad, '--lenient', SMALL).err, r"run\.json:2: warning: .*no member 'precision_modes'")
        refused = self.config('{\n"use_off_line": false}')
        self.fails(4, r'run\.json:2: error: use_off_line=false is refused: ', 'explain', '--config', refused, SMALL)
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
        self.assertRegex(said, r"off.cfg:1: fusion 'ALL' off: every graph and scope fusion; no file closes the clean-ups algebra, ")
        self.assertIn("off.cfg:1: fusion 'EinsumPass' off: no counterpart here\n", said)
        self.assertEqual(json.loads(self.tool('explain', '--format=json', '--fusion_switch_file', fused, swish).stdout)['fusions'],
                         [['ALL', 'on', 'every fusion']])
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
        folder = self.path('dump')
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
        self.fails(5, 'nowhere/a: error: cannot make this folder', 'run', '--dump-graphs', self.path('nowhere') + '/a', SMALL)
        self.fails(5, 'file/000-feeds.hir: error: cannot write', 'run', '--dump-graphs', self.path('file', b'x'), SMALL)

    def test_documents_are_up_to_date(self):
        for script in 'cli-doc', 'options-doc', 'fusions-doc':
            r = subprocess.run([os.path.join(TOP, 'scripts', script), '--check', TOOL], capture_output=True)
            self.assertEqual(r.returncode, 0, r.stderr)



if __name__ == '__main__':
    unittest.main()
