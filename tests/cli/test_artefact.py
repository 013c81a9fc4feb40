#!/usr/bin/env python3
"""Artefacts compute the same as their models, without the code generator; equal programs have equal bytes; damaged
files are refused."""
import hashlib, json, os, random, shutil, struct, subprocess, unittest

from tool import SMALL, TOOL, ToolCase, floats, npy

NO_GENERATOR = {'HALFTONE_BACKEND': '/nonexistent'}


class Artefacts(ToolCase):
    def setUp(self):
        super().setUp()
        self.htx = os.path.join(self.dir, 'm.htx')
        self.tool('compile', '-q', SMALL, '-o', self.htx)
        self.x = self.path('x.npy', npy('<f4', (1, 4), floats(1, 2, -3, .5)))

    def outputs(self, model, *args, **more):
        out = os.path.join(self.dir, 'y.npz')
        self.tool('run', '-q', model, '--input', 'x=@' + self.x, '-o', out, *args, **more)
        with open(out, 'rb') as f:
            return f.read()

    def test_computes_the_same_without_the_code_generator(self):
        self.assertEqual(self.outputs(self.htx, env=NO_GENERATOR), self.outputs(SMALL))
        self.assertEqual(self.outputs(self.htx, '--threads', '2', env=NO_GENERATOR), self.outputs(SMALL))
        self.fails(5, 'code generator', 'run', '-q', SMALL, env=NO_GENERATOR)
        report = json.loads(self.tool('bench', '-q', self.htx, '--runs', '1', '--duration', '0', '--format',
                                      'json', env=NO_GENERATOR).stdout)
        self.assertEqual(report['policy'], 'must_keep_origin_dtype')

    def test_policies_and_library_kernels(self):
        random_numbers = self.path('r.hir', b"""hir 1
entry "" {
  output "r" = %r
}
%n = Const() {dtype=i32, value=tensor i32[2] {3, 5}}
%r = RandomUniform(%n) {T=i32, dtype=f32, seed=7, seed2=9}
""")
        for model, policy in ((SMALL, 'force_fp16'), (SMALL, 'allow_mix_precision_bf16'),
                              (random_numbers, 'must_keep_origin_dtype')):
            path, files = os.path.join(self.dir, 'p.htx'), []
            self.tool('compile', '-q', model, '--policy', policy, '-o', path)
            for args in [model, '--policy', policy], [path]:
                files.append(os.path.join(self.dir, f'{len(files)}.npz'))
                self.tool('run', '-q', *args, '-o', files[-1])
            with open(files[0], 'rb') as a, open(files[1], 'rb') as b:
                self.assertEqual(a.read(), b.read(), (policy, model))

    def test_equal_programs_are_equal_bytes(self):
        with open(self.htx, 'rb') as f:
            first = f.read()
        other = os.path.join(self.dir, 'elsewhere')
        os.mkdir(other)
        moved = shutil.copy(SMALL, os.path.join(other, 'renamed.hir'))
        for env in {}, {'LC_ALL': 'de_DE.UTF-8', 'TZ': 'Asia/Tokyo', 'HOME': '/'}:
            for threads in '1', '2':
                r = subprocess.run([TOOL, 'compile', '-q', moved, '--threads', threads, '-o', 'n.htx'],
                                   cwd=other, env={**os.environ, **env}, stdout=subprocess.DEVNULL)
                self.assertEqual(r.returncode, 0)
                with open(os.path.join(other, 'n.htx'), 'rb') as f:
                    self.assertEqual(f.read(), first, (env, threads))
        self.assertNotIn(self.dir.encode(), first)

    def test_threads_pack_and_generate_the_same_bytes(self):
        # Products of 1, 5 and 100 rows with one matrix, which each program packs in another way.
        rows, layers = (1, 5, 100), 9
        text = ['hir 1', 'entry "" {', '  input "x" = %x']
        text += [f'  output "y{i}" = %y{i}' for i in range(layers * len(rows))] + ['}', '']
        text.append('%x = Placeholder() {dtype=f32, shape=shape[100,48]}')
        for r, n in enumerate(rows):
            text.append(f'%b{r} = Const() {{dtype=i32, value=tensor i32[2] {{0, 0}}}}')
            text.append(f'%s{r} = Const() {{dtype=i32, value=tensor i32[2] {{{n}, 48}}}}')
            text.append(f'%x{r} = Slice(%x, %b{r}, %s{r}) {{T=f32, Index=i32}}')
        for l in range(layers):
            n = 40 + 3 * l
            values = ', '.join(str((i * 7919 + l) % 1009 / 1024) for i in range(48 * n))
            text.append(f'%w{l} = Const() {{dtype=f32, value=tensor f32[48,{n}] {{{values}}}}}')
            text += [f'%y{l * len(rows) + r} = MatMul(%x{r}, %w{l}) '
                     '{T=f32, transpose_a=false, transpose_b=false}' for r in range(len(rows))]
        model = self.path('many.hir', '\n'.join(text).encode() + b'\n')
        for policy in 'must_keep_origin_dtype', 'force_fp16':
            made = []
            for i, threads in enumerate(('1', '2', '5', '5')):
                path = os.path.join(self.dir, f'{i}.htx')
                self.tool('compile', '-q', model, '--policy', policy, '--threads', threads, '-o', path)
                with open(path, 'rb') as f:
                    made.append(f.read())
            self.assertEqual([m == made[0] for m in made], [True] * len(made), policy)

    def test_reproducible(self):
        """Several variants with weights in a file: the bytes do not depend on the folder, the build's path, the user,
        the environment or the number of threads."""
        tree = os.path.dirname(TOOL)
        moved = os.path.join(self.dir, 'moved')
        shutil.copytree(os.path.join(tree, 'lib'), os.path.join(moved, 'lib'), symlinks=True,
                        ignore=lambda _, names: [n for n in names if '.so' not in n and n != 'halftone'])
        shutil.copy(TOOL, moved)
        os.chmod(self.dir, 0o755)

        def build(name, tool, threads, env, **more):
            folder = os.path.join(self.dir, name)
            os.mkdir(folder)
            os.chmod(folder, 0o777)
            model = shutil.copy(self.big(), os.path.join(folder, name + '.hir'))
            os.chmod(model, 0o644)
            r = subprocess.run([tool, 'compile', '-q', '--cache-mode', 'off', os.path.basename(model), '--threads', str(threads), '--target',
                                'x86-64,x86-64-v3', '--policy', 'must_keep_origin_dtype,force_fp16', '--batch', '1,8',
                                '--external-weight', '1', '-o', 'm.htx'],
                               cwd=folder, env={'PATH': os.environ['PATH'], **env}, capture_output=True, **more)
            self.assertEqual(r.returncode, 0, r.stderr)
            os.remove(model)
            files = {}
            for file in os.listdir(folder):
                with open(os.path.join(folder, file), 'rb') as f:
                    files[file] = f.read()
            return files
        first = build('one', TOOL, 1, {})
        self.assertGreater(len(first), 2)
        libs = {'LD_LIBRARY_PATH': os.path.join(moved, 'lib'), 'LC_ALL': 'de_DE.UTF-8', 'TZ': 'Asia/Tokyo', 'HOME': '/',
                'USER': 'somebody', 'TMPDIR': '/nonexistent', 'COLUMNS': '40', 'MALLOC_PERTURB_': '165'}
        other = {'user': 'nobody', 'group': 'nogroup', 'extra_groups': []} if os.geteuid() == 0 else {}
        for i, threads in enumerate((2, 3)):
            again = build(f'other{i}', os.path.join(moved, 'halftone'), threads, libs, umask=0o077, **other)
            self.assertEqual(again.keys(), first.keys())
            for name, data in first.items():
                self.assertTrue(again[name] == data, (name, threads))
        for data in first.values():
            for secret in self.dir.encode(), tree.encode(), b'somebody':
                self.assertNotIn(secret, data)

    def test_manifest(self):
        m = json.loads(self.tool('inspect', self.htx).stdout)
        self.assertEqual(m['schema'], 'halftone.artefact/2')
        m = m['variants'][0]
        with open(SMALL, 'rb') as f:
            self.assertEqual(m['sources'], [hashlib.sha256(f.read()).hexdigest()])
        self.assertRegex(m['llvm'], r'^19\.')
        self.assertEqual(m['options'], {'policy': 'must_keep_origin_dtype'})
        self.assertEqual({'cpu', 'features', 'tuning', 'vector_bytes', 'l1', 'l2', 'l3'},
                         m['target_description'].keys())
        self.assertEqual(m['inputs'], [{'name': 'x', 'dtype': 'float32', 'shape': [None, 4]}])
        self.assertEqual(m['open'], {'rows': {'least': 0, 'most': 2**31 - 1}})
        self.assertEqual([o['name'] for o in m['outputs']], ['y', 'top'])

    def test_what_was_decided_cannot_be_asked_for_again(self):
        for option in ['--outputs', 'y'], ['--conv-method', 'direct'], ['--precision_mode=force_fp16']:
            self.fails(2, 'compiled already', 'run', self.htx, *option)
        self.fails(2, 'no variant .* has that policy; it has must_keep', 'run', self.htx, '--policy', 'force_fp16')
        self.fails(2, 'no variant .* is for that target', 'run', self.htx, '--target', 'x86-64')
        for option in ['--batch', '2'], ['--input-shape', 'x:2,4'], ['--input', 'x=f32[2,4]:' + '1,' * 7 + '1']:
            self.fails(3, 'no variant .* those shapes; it has .*x:3,4', 'run', self.fixed(), *option)
        self.fails(2, "no input 'z'", 'run', self.htx, '--input', 'z=@' + self.x)
        self.fails(3, r'm\.htx: error: .*artefact', 'explain', self.htx)

    def fixed(self):
        path = os.path.join(self.dir, 'fixed.htx')
        self.tool('compile', '-q', SMALL, '--batch', '3', '-o', path)
        return path

    def compile_variants(self, *args):
        self.tool('compile', '-q', SMALL, '--policy', 'must_keep_origin_dtype,force_fp16', '--target',
                  'x86-64,x86-64-v3', *args, '-o', self.htx)
        return json.loads(self.tool('inspect', self.htx).stdout)['variants']

    def test_options_in_the_manifest(self):
        """The manifest lists the options that were read and stated; for files their hashes, not their paths."""
        mix = self.path('mix.json', b'{"black-list": {"to-add": ["MatMul"]}}')
        other = os.path.join(self.dir, 'o.htx')
        for path, mix in (self.htx, mix), (other, shutil.copy(mix, os.path.join(self.dir, 'elsewhere.json'))):
            self.tool('compile', '-q', SMALL, '--policy', 'allow_mix_precision_bf16', '--modify_mixlist', mix, '-o', path)
        self.assertEqual(self.tool('diff', self.htx, other).stdout, b'')
        options = json.loads(self.tool('inspect', self.htx).stdout)['variants'][0]['options']
        self.assertEqual(options['policy'], 'allow_mix_precision_bf16')
        self.assertIn('modify_mixlist', options)
        self.assertNotIn('mix.json', options['modify_mixlist'])
        self.tool('compile', '-q', SMALL, '--policy', 'allow_mix_precision_bf16', '-o', other)
        r = self.tool('diff', self.htx, other, code=1).stdout.decode()
        self.assertIn('options.modify_mixlist: only in ' + self.htx, r)

    def test_variants(self):
        variants = self.compile_variants('--input-shape', 'x:1,4', '--input-shape', 'x:3,4')
        self.assertEqual({(v['policy'], v['target'], v['inputs'][0]['shape'][0]) for v in variants},
                         {(p, t, n) for p in ('must_keep_origin_dtype', 'force_fp16')
                          for t in ('x86-64', 'x86-64-v3') for n in (1, 3)})
        three = self.path('three.npy', npy('<f4', (3, 4), floats(*range(12))))

        def chosen(*args):
            r = json.loads(self.tool('run', '-q', self.htx, '--format', 'json', *args, env=NO_GENERATOR).stdout)
            return r['policy'], r['target'], r['outputs'][0]['shape'][0]
        best = json.loads(self.tool('run', '-q', SMALL, '--format', 'json').stdout)['target']
        best = 'x86-64' if best == 'x86-64' else 'x86-64-v3'
        self.assertEqual(chosen(), ('must_keep_origin_dtype', best, 1))
        self.assertEqual(chosen('--policy', 'force_fp16', '--batch', '3'), ('force_fp16', best, 3))
        self.assertEqual(chosen('--target', 'x86-64', '--input-shape', 'x:3,-1'),
                         ('must_keep_origin_dtype', 'x86-64', 3))
        self.assertEqual(chosen('--input', 'x=@' + three), ('must_keep_origin_dtype', best, 3))
        # Each variant computes the same as the model.
        for policy in 'must_keep_origin_dtype', 'force_fp16':
            for target in 'x86-64', 'x86-64-v3':
                for n, feed in (1, self.x), (3, three):
                    outputs = []
                    for more in [self.htx], [SMALL, '--batch', str(n)]:
                        out = os.path.join(self.dir, 'o.npz')
                        self.tool('run', '-q', *more, '--policy', policy, '--target', target,
                                  '--input', 'x=@' + feed, '-o', out)
                        with open(out, 'rb') as f:
                            outputs.append(f.read())
                    self.assertEqual(*outputs, (policy, target, n))

    def test_levels_come_before_machines(self):
        """Code for an older level is not preferred to code for the level of this machine."""
        report = json.loads(self.tool('run', '-q', SMALL, '--format', 'json').stdout)
        if not report['target'].startswith('x86-64-v4'):
            self.skipTest('no AVX-512 here')
        self.tool('compile', '-q', SMALL, '--target', 'haswell,x86-64-v4,x86-64', '-o', self.htx)
        report = json.loads(self.tool('run', '-q', self.htx, '--format', 'json').stdout)
        self.assertEqual(report['target'], 'x86-64-v4')

    def test_batches_are_variants_too(self):
        variants = self.compile_variants('--batch', '1,2')
        self.assertEqual([v['inputs'][0]['shape'] for v in variants], [[1, 4]] * 4 + [[2, 4]] * 4)
        self.fails(2, "'x' is no number", 'compile', SMALL, '--batch', '1,x', '-o', self.htx)
        self.fails(2, 'two variants', 'compile', SMALL, '--batch', '2,2', '-o', self.htx)
        self.fails(2, 'given twice', 'run', SMALL, '--input-shape', 'x:1,4', '--input-shape', 'x:2,4')
        r = json.loads(self.tool('compile', '-q', SMALL, '--batch', '1,2', '--format', 'json').stdout)
        self.assertEqual(len(r['variants']), 2)

    def test_variants_share_weights_and_kernels(self):
        def size(*args):
            self.tool('compile', '-q', self.big(), '--target', 'x86-64', *args, '-o', self.htx)
            return os.path.getsize(self.htx)
        one, two = size('--batch', '1'), size('--batch', '7,8')
        self.assertGreater(one, 4 * 65536)
        self.assertLess(two, one + 65536)

    def big(self):
        """A model with 256 KiB of weights."""
        return self.path('big.hir', b'''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}
%x = Placeholder() {dtype=f32, shape=shape[?,256]}
%w = Const() {dtype=f32, value=tensor f32[256,256] {''' + b', '.join(b'%d.5' % (i % 997) for i in range(65536)) + b'''}}
%y = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}
''')

    def key(self, name):
        private, public = os.path.join(self.dir, name + '.pem'), os.path.join(self.dir, name + '.pub')
        subprocess.run(['openssl', 'genpkey', '-algorithm', 'ed25519', '-out', private], check=True)
        subprocess.run(['openssl', 'pkey', '-in', private, '-pubout', '-out', public], check=True)
        return private, public

    def test_signatures(self):
        (private, public), (_, other) = self.key('a'), self.key('b')
        signed, again = os.path.join(self.dir, 's.htx'), os.path.join(self.dir, 't.htx')
        self.tool('sign', self.htx, '--sign-key', private, '-o', signed)
        self.tool('compile', '-q', SMALL, '--sign-key', private, '-o', again)
        with open(signed, 'rb') as a, open(again, 'rb') as b, open(self.htx, 'rb') as c:
            whole = a.read()
            self.assertEqual(whole, b.read())
            self.assertEqual(whole[160:], c.read()[160:])
        require = ['--require-signature', public]
        self.assertEqual(self.outputs(signed, *require, env=NO_GENERATOR), self.outputs(self.htx))
        self.outputs(signed)
        self.fails(3, r'm\.htx: error: .*not signed', 'run', self.htx, *require)
        self.fails(3, 'another key', 'run', signed, '--require-signature', other)
        self.fails(3, 'another key', 'inspect', signed, '--require-signature', other)
        self.fails(3, r'a\.pem: error: no public Ed25519', 'run', signed, '--require-signature', private)
        self.fails(3, r'a\.pub: error: no private Ed25519', 'sign', signed, '--sign-key', public)
        self.fails(5, 'cannot read', 'run', signed, '--require-signature', '/nonexistent')
        self.fails(2, 'needs --sign-key', 'sign', signed)
        self.fails(5, 'what verifies signatures', 'run', signed, *require,
                   env={'HALFTONE_CRYPTO': '/nonexistent'})
        # Nothing else is read before the signature is verified: for a file whose sections lie
        # outside of it, with a matching digest of the header, the reported error is the signature.
        for at in 12, 16, 192 + 8, 192 + 64 + 16:
            damaged = bytearray(whole)
            damaged[at] ^= 1
            damaged[24:160] = bytes(136)
            damaged[24:160] = hashlib.sha256(damaged[:512]).digest() + whole[56:160]
            self.fails(3, 'its signature is not that', 'run', self.path('d.htx', damaged), *require)
        # All of a signed artefact is checked.
        damaged = bytearray(whole)
        damaged[-1] ^= 1
        self.fails(3, 'its weights are damaged', 'inspect', self.path('e.htx', damaged))

    def test_verify(self):
        self.compile_variants('--batch', '1')
        self.outputs(self.htx, '--verify', 'full')
        self.fails(2, "'all' is neither", 'run', self.htx, '--verify', 'all')
        with open(self.htx, 'rb') as f:
            data = bytearray(f.read())
        data[-1] ^= 1  # of the last variant
        damaged = self.path('d.htx', data)
        self.outputs(damaged, '--target', 'x86-64')
        self.fails(3, 'its weights are damaged', 'run', damaged, '--target', 'x86-64', '--verify', 'full')
        self.fails(3, 'its weights are damaged', 'inspect', damaged, '--verify', 'full')
        self.fails(3, 'its weights are damaged', 'run', damaged, '--target', 'x86-64-v3', '--policy', 'force_fp16')

    def test_weights_in_files_beside_it(self):
        folder = os.path.join(self.dir, 'w')

        def build(name, *args):
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, name)
            self.tool('compile', '-q', self.big(), '--target', 'x86-64', '--batch', '1', *args, '-o', path)
            return path, sorted(f for f in os.listdir(folder) if f.startswith('weight_'))
        inside = os.path.join(self.dir, 'inside.htx')
        self.tool('compile', '-q', self.big(), '--target', 'x86-64', '--batch', '1', '-o', inside)

        def result(path, *args):
            out = os.path.join(self.dir, 'y.npz')
            self.tool('run', '-q', path, *args, '-o', out, env=NO_GENERATOR)
            with open(out, 'rb') as f:
                return f.read()
        for how in '1', '2', 'true':
            a, files = build('a.htx', '--external-weight', how)
            self.assertEqual(len(files), 1, files)
            weights = os.path.join(folder, files[0])
            with open(weights, 'rb') as f:
                data = f.read()
            self.assertEqual(files[0], 'weight_' + hashlib.sha256(data).hexdigest())
            self.assertLess(os.path.getsize(a), 8192)
            self.assertEqual(result(a), result(inside))
            # Another artefact names the same file of weights, which stays as it is.
            before = os.stat(weights).st_ino
            b, again = build('b.htx', '--external-weight', how)
            self.assertEqual((again, os.stat(weights).st_ino), (files, before))
            self.assertEqual(result(b, '--verify', 'full'), result(inside))
            os.rename(weights, weights + 'x')
            self.fails(5, r'weight_\w+: error: cannot read', 'run', a)
            for damaged in data[:-1], data + b'x', bytes([data[0] ^ 1]) + data[1:]:
                with open(weights, 'wb') as f:
                    f.write(damaged)
                self.fails(3, 'damaged|not the weights', 'run', a)
                self.fails(3, r'weight_\w+: error: these are not the weights', 'run', a, '--verify', 'full')
            shutil.rmtree(folder)
        r = self.tool('compile', '-q', self.big(), '--external_weight=true', '-o', '-', code=2)
        self.assertIn(b'not -', r.stderr)

    def test_diff(self):
        other = os.path.join(self.dir, 'o.htx')
        self.tool('compile', '-q', SMALL, '-o', other)
        self.assertEqual(self.tool('diff', self.htx, other).stdout, b'')
        self.tool('compile', '-q', SMALL, '--target', 'x86-64', '-o', self.htx)
        with open(SMALL, 'rb') as f:
            changed = self.path('changed.hir', f.read().replace(b'0.125', b'0.25'))
        self.tool('compile', '-q', changed, '--target', 'x86-64', '-o', other)
        r = self.tool('diff', self.htx, other, code=1).stdout.decode()
        self.assertRegex(r, r'x:\?,4: sources: \["\w{64}"\] -> \["\w{64}"\]')
        self.assertRegex(r, r'must_keep_origin_dtype for x86-64 with x:\?,4: weights: 1 of its own.* -> 1 of its own')
        self.assertNotIn('code of', r)
        with open(SMALL, 'rb') as f:
            changed = self.path('changed.hir', f.read().replace(b'%top = ArgMax', b'%top = ArgMin'))
        for model, path in (SMALL, self.htx), (changed, other):
            self.tool('compile', '-q', model, '--target', 'x86-64', '--batch', '1', '-o', path)
        r = json.loads(self.tool('diff', self.htx, other, '--format', 'json', code=1).stdout)
        self.assertEqual([d['what'] for d in r['differences'] if d['what'].startswith('code')],
                         ["code of node 'top'"])
        self.compile_variants('--batch', '1')
        r = self.tool('diff', other, self.htx, code=1).stdout.decode()
        self.assertEqual(r.count('variant: only in ' + self.htx), 3)
        self.fails(2, 'two artefacts', 'diff', other)
        self.fails(3, 'does not begin as one', 'diff', other, SMALL)

    def test_damage_is_refused(self):
        with open(self.htx, 'rb') as f:
            whole = f.read()
        r = random.Random(20264)
        broken = os.path.join(self.dir, 'b.htx')
        places = list(range(64)) + [r.randrange(len(whole)) for _ in range(100)]
        for at in places:
            damaged = bytearray(whole)
            damaged[at] ^= 1 << r.randrange(8)
            with open(broken, 'wb') as f:
                f.write(damaged)
            self.fails(3, r'b\.htx', 'run', '-q', broken, env=NO_GENERATOR)
        for n in [0, 1, 7, 8, 63, 64, 383, len(whole) - 1] + [r.randrange(len(whole)) for _ in range(20)]:
            with open(broken, 'wb') as f:
                f.write(whole[:n])
            self.fails(3, r'b\.htx', 'run', '-q', broken, env=NO_GENERATOR)
        with open(broken, 'wb') as f:
            f.write(whole + b'\0')
        self.fails(3, r'b\.htx.*size', 'run', '-q', broken, env=NO_GENERATOR)

    def test_another_version(self):
        with open(self.htx, 'rb') as f:
            data = bytearray(f.read())
        for version, made in (4, 'an older'), (1 << 20, 'a newer'):
            struct.pack_into('<I', data, 8, version)
            self.fails(3, made + ' version of Halftone made it; compile', 'run', '-q', self.path('v.htx', data))

    def test_nothing_half_written(self):
        self.fails(5, 'cannot write', 'compile', '-q', SMALL, '-o', os.path.join(self.dir, 'no', 'm.htx'))
        before = sorted(os.listdir(self.dir))
        self.fails(3, r'bad\.pb', 'compile', '-q', self.path('bad.pb', b'\xff' * 9), '-o', self.htx)
        self.assertEqual(sorted(os.listdir(self.dir)), sorted(before + ['bad.pb']))
        self.outputs(self.htx, env=NO_GENERATOR)


if __name__ == '__main__':
    unittest.main()
