#!/usr/bin/env python3
"""The command line: help, options, wrong usage, files of arguments."""
import json, os, re, subprocess, tempfile, unittest

from tool import MODEL_VERBS, SMALL, TOOL, TOP, ToolCase
from environment import BUILD


class Usage(ToolCase):
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

    def test_version_of_all_parts(self):
        out = self.tool('--version', '--json').stdout
        for args in (['version', '--format', 'json'], ['run', '--version', '--format=json']):
            self.assertEqual(self.tool(*args, env={'HALFTONE_BACKEND': '/nonexistent'}).stdout, out)
        j = json.loads(out)
        self.assertEqual(j['schema'], 'halftone.version/1')
        self.assertEqual(f"halftone {j['version']}\n".encode(), self.tool('--version').stdout)
        for name in 'build_id', 'code_generator':
            self.assertRegex(j[name], '^[0-9a-f]{32}$')
        self.assertRegex(j['llvm'], r'^\d+\.\d+\.\d+$')
        self.assertEqual((j['artefact_version'], j['cache_entry_version']), (9, 2))
        listed = json.loads(self.tool('targets', '--format=json').stdout)['targets']
        self.assertEqual(j['targets'], [{k: t[k] for k in ('name', 'level', 'features')} for t in listed])
        self.assertEqual(set(j['host']), {'name', 'level', 'features'})
        self.fails(2, 'neither text nor json', '--version', '--format=xml')
        self.fails(2, "halftone run has no option '--json'", 'run', '--json', SMALL)
        self.fails(2, "halftone help has no option '--json'", 'help', '--json')

    def test_code_generator_of_other_sources(self):
        ours = json.loads(self.tool('--version', '--json').stdout)['code_generator'].encode()
        with open(f'{BUILD}/lib/halftone/halftone-backend.so', 'rb') as f:
            module = f.read()
        self.assertIn(ours, module)
        for name, data in ('same', module), ('other', module.replace(ours, ours[::-1])):
            env = {'HALFTONE_BACKEND': self.path(name + '.so', data), 'HALFTONE_CACHE_MODE': 'off'}
            if name == 'same':
                self.tool('run', SMALL, env=env)
            else:
                self.fails(5, 'other.so is not the code generator of this version', 'run', SMALL, env=env)

    def test_version_maps_no_llvm(self):
        r = self.tool('--version', '--json', env={'LD_DEBUG': 'files'})
        self.assertIn('libhalftone', r.err)
        self.assertNotIn('LLVM', r.err)

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
        self.fails(3, 'inner sizes', 'run', '--input-shape', 'x:1,5', SMALL)  # the stated shape counts, not the graph's
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

    def test_targets(self):
        rows = {t['name']: t for t in json.loads(self.tool('targets', '--format', 'json').stdout)['targets']}
        self.assertEqual(rows['znver4']['level'], 'x86-64-v4+bf16')
        tiles = [n for n, t in rows.items() if '+amx-bf16' in t['features']]
        self.assertEqual(tiles, ['x86-64-v4+bf16+fp16+amx', 'sapphirerapids', 'emeraldrapids', 'graniterapids'])
        for name, t in rows.items():
            # Every row has the same facts; sizes of vectors agree with the older member.
            self.assertEqual([*t['capabilities']], [*rows['x86-64']['capabilities']], name)
            self.assertEqual([*t['rates']], [*rows['x86-64']['rates']], name)
            self.assertEqual(str(t['capabilities']['vector_bytes']), t['vector_bytes'], name)
            self.assertLess(t['caches']['l1'], t['caches']['l2'], name)
            slow = t['host'] and 2 * t['rates']['dots_bf16'] < t['rates']['products']
            self.assertEqual(t['capabilities']['dot_bf16'], 2 if t['level'].startswith('x86-64-v4+bf16') and not slow else 0, name)
            self.assertEqual(t['capabilities']['matrix_rows'], 16 if name in tiles else 0, name)
            self.assertGreater(t['rates']['products'], 0, name)
        text = {line.split()[0]: line for line in self.tool('targets').stdout.decode().splitlines()}
        self.assertEqual([*text], [*rows])
        self.assertIn(' dot_bf16=2 ', text['znver4'])
        self.assertNotIn('dot_bf16', text['haswell'])
        self.assertIn(' masks ', text['znver4'])
        model = os.path.join(self.dir, 'products.hir')
        with open(model, 'w') as f:
            f.write('hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n'
                    '%x = Placeholder() {dtype=f16, shape=shape[37,70]}\n%y = Relu(%x) {T=f16}\n')
        for target in 'sapphirerapids', 'znver5':
            r = self.tool('compile', model, '--emit', 'asm', '--target', target, '-o', '-')
            self.assertEqual(r.stderr, b'')
        self.fails(2, "did you mean 'znver", 'run', model, '--target', 'znver6')

    def test_guard_pages(self):
        htx = os.path.join(self.dir, 'guarded.htx')
        self.tool('compile', SMALL, '--batch', '1', '-o', htx)
        plain = self.tool('run', SMALL, '--seed', '3').stdout
        for model in SMALL, htx:
            for side in 'behind', 'before':
                self.assertEqual(self.tool('run', model, '--seed', '3', '--guard', side).stdout, plain)
        self.fails(2, "'left' is neither 'behind' nor 'before'", 'run', SMALL, '--guard', 'left')
        self.fails(2, 'numerics', 'run', SMALL, '--guard', 'before', '--numerics', '--policy', 'force_fp16')

    def test_options_of_a_policy(self):
        rows = {o['name']: o for o in json.loads(self.tool('options', '--format=json').stdout)['options']}
        self.assertEqual(sorted(rows), list(rows))
        self.assertEqual(rows['enable_reduce_precision']['class'], 'accepted')
        profiles = json.loads(self.tool('profiles', '--format=json').stdout)['profiles']
        names = [p['name'] for p in profiles]
        self.assertEqual(names[0], 'cpu')
        self.assertIn('ascend310p', names)
        for p in profiles:
            r = self.tool('explain', '--policy=force_fp16', '--profile', p['name'], '--format=json', SMALL)
            self.assertEqual(json.loads(r.stdout)['profile'], p['same_as'] or p['name'])
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
        # A mode takes precedence over the policy of the environment; other options do not.
        r = self.tool('explain', '--precision_mode=force_fp32', '--format=json', SMALL, env={'HALFTONE_POLICY': 'force_fp16'})
        self.assertEqual(json.loads(r.stdout)['policy'], 'force_fp32')
        r = self.tool('explain', '--profile=ascend910', '--format=json', SMALL, env={'HALFTONE_POLICY': 'force_fp16'})
        self.assertEqual(json.loads(r.stdout)['policy'], 'force_fp16')
        r = self.tool('run', '--show-options', '--graph-run-mode', '1', '--lenient', SMALL)
        self.assertIn(b"--graph_run_mode='1'\n", r.stdout)

    def test_hostile_files(self):
        """Each option that names a file: the file is too long, deep or wide, is no file, or has no end.  None takes
        long."""
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
        r = self.tool('run', '--keep-dtype', many, SMALL)
        self.assertLess(len(r.err), 1 << 14)
        self.assertRegex(r.err, r"many\.txt:1: note: keep_dtype: the graph has no node 'n0'")
        self.assertRegex(r.err, r"many\.txt: note: keep_dtype: 119968 more names that the graph lacks")

        def unknown_names(n):
            """Processor time for two files of n names that do not exist; eight times as many must not take 64 times as
            long."""
            types = ','.join('"Mat%dMul"' % i for i in range(n))
            mix = self.path('many.json', ('{"black-list": {"to-add": [%s]}}' % types).encode())
            switch = self.path('many.txt', b''.join(b'Fusion%dPass:on\n' % i for i in range(n)))
            before = os.times().children_user
            r = self.tool('explain', '--policy=allow_mix_precision', '--modify-mixlist', mix, '--lenient', SMALL)
            self.assertRegex(r.err, r"many\.json:1: note: modify_mixlist: there is no op type 'Mat0Mul': the entry has no effect; did you mean 'MatMul'")
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



class Arguments(ToolCase):
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



if __name__ == '__main__':
    unittest.main()
