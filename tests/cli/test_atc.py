#!/usr/bin/env python3
"""halftone atc: the vendor's command lines."""
import json, os, re, subprocess, unittest

from tool import SMALL, TOOL, ToolCase


class Atc(ToolCase):
    def native(self, *args, code=0):
        return re.findall(r'^halftone: note: (halftone .*)$', self.tool('atc', *args, code=code).err, re.M)

    def test_equivalents(self):
        out = self.path('o.pb')
        self.assertEqual(self.native('--model=' + SMALL, '--framework=3', '--output=' + out, '--soc_version=Ascend910A',
                                     '--precision_mode_v2=mixed_float16', '--input_shape=x:1,4', '--out_nodes=y:0;top:0', '--deterministic=1'),
                         ["halftone convert --output=%s --profile=Ascend910A --input-shape=x:1,4 --outputs=y:0,top:0 --graph_run_mode=0 "
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
        """One batch size applies to all inputs; dimensions are filled in order; digits in names are kept."""
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

    def test_machines(self):
        """Every listed machine decides like the profile that stands for it, and has the same key."""
        listed = json.loads(self.tool('profiles', '--format', 'json').stdout)['profiles']
        machines = {p['name']: p for p in listed if p['same_as']}
        self.assertLessEqual({'Ascend910_9391', 'Ascend310B1', 'Ascend310B4', 'Ascend910B3', 'Ascend310'}, set(machines))
        mode = '--precision_mode=allow_mix_precision_fp16'
        explained = {p['name']: self.tool('explain', '--format=json', '--profile=' + p['name'], mode, SMALL).stdout
                     for p in listed if not p['same_as']}
        for name, p in machines.items():
            r = self.tool('explain', '--format=json', '--profile=' + name, mode, SMALL)
            self.assertEqual(r.stdout, explained[p['same_as']], name)
            noted = re.findall(r'^halftone: note: profile (.*) is decided for as (.*): the lists of ', r.err, re.M)
            self.assertEqual(noted, [(name, p['same_as'])] if p['summary'] else [], name)
        a3 = self.tool('atc', '--model=' + SMALL, '--soc_version=Ascend910_9391', '--precision_mode=allow_mix_precision_bf16').err
        self.assertIn('note: profile Ascend910_9391 is decided for as ascend910b: the lists of Atlas A3 are not published', a3)
        self.fails(4, "profile ascend310p has no bfloat16", 'atc', '--model=' + SMALL, '--soc_version=Ascend310B4',
                   '--precision_mode=allow_mix_precision_bf16')
        self.fails(2, "no profile 'Ascend910_9399'; did you mean 'Ascend910_9", 'explain', '--profile=Ascend910_9399', SMALL)
        self.fails(4, "no profile of 'Ascend610': its lists are not published", 'explain', '--profile=Ascend610', SMALL)

    def test_refused(self):
        m = '--model=' + SMALL
        for code, pattern, *args in (
                (2, 'needs --model', ), (2, 'needs --model', '--framework=3'),
                (4, '--framework=5 is ONNX; read are models of TensorFlow', m, '--framework=5'),
                (4, '--framework=0 is Caffe', m, '--framework=0'), (4, 'is MindSpore', m, '--framework=1'),
                (2, "'2' is no framework", m, '--framework=2'), (2, "'tf' is no framework", m, '--framework=tf'),
                (4, '--output=m.om: no code is made for an NPU; .* is m.htx', m, '--output=m.om'),
                (4, "no profile 'Ascend910B33'; did you mean 'Ascend910B3'", m, '--soc_version=Ascend910B33'),
                (4, "no profile 'Kirin'; see halftone profiles", m, '--soc_version=Kirin'),
                (4, "--soc_version: there is no profile of 'Ascend610': its lists are not published", m, '--soc_version=Ascend610'),
                (4, "no profile 'H100'; see halftone profiles", m, '--soc_version=H100'),
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



if __name__ == '__main__':
    unittest.main()
