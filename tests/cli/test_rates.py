#!/usr/bin/env python3
"""Rates of a machine without a table of costs: measured once and kept, fixed by --rates, estimated by --no-measure. The
machine counts as one of level x86-64, which has no table of costs and whose code every machine runs."""
import json, os, re, shutil, unittest

from tool import RATES_MEASURED, SMALL, ToolCase

UNKNOWN = 'x86-64'
WARNED = 'policy optimal decides by estimates'
PRODUCT = b'''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}
%x = Placeholder() {dtype=bf16, shape=shape[64,256]}
%w = Const() {dtype=bf16, value=tensor bf16[256,256] {WEIGHTS}}
%y = MatMul(%x, %w) {T=bf16, transpose_a=false, transpose_b=false}
'''.replace(b'WEIGHTS', b', '.join(b'%d.5' % (i % 7) for i in range(256 * 256)))


def rates(level, *lines):
    return '\n'.join(['halftone.rates/1', 'level ' + level, *lines, 'end', '']).encode()


class Rates(ToolCase):
    def setUp(self):
        super().setUp()
        self.env = {'HALFTONE_HOST': UNKNOWN, 'HALFTONE_CACHE_DIR': os.path.join(self.dir, 'cache'), 'HALFTONE_CACHE_MODE': '', 'HALFTONE_TARGET': ''}
        self.made = 0

    def compile(self, *args, model=SMALL):
        """The artefact's bytes, the messages, and the name of the tuning in the manifest."""
        self.made += 1
        out = os.path.join(self.dir, f'{self.made}.htx')
        said = self.tool('compile', model, '-o', out, *args, env=self.env).err
        manifest = self.tool('inspect', out, '--format=json', env=self.env).stdout.decode()
        with open(out, 'rb') as f:
            return f.read(), said, re.search(r'"tuning": "([^"]*)"', manifest).group(1)

    def kept(self):
        top = os.path.join(self.env['HALFTONE_CACHE_DIR'], 'v1', 'rates')
        return sum(len(files) for _, _, files in os.walk(top))

    def test_measured_once(self):
        first, said, tuning = self.compile('--policy=optimal')
        self.assertEqual(said.count(RATES_MEASURED), 1, said)
        self.assertNotIn(WARNED, said)
        self.assertLess(int(re.search(r'measured, in (\d+) ms', said).group(1)), 60000)  # the message states the time
        self.assertRegex(tuning, '^generic~[0-9a-f]{16}$')
        self.assertEqual(self.kept(), 1)
        for policy in 'optimal', 'allow_mix_precision_bf16':  # the second one is not in the cache yet
            again, said, same = self.compile('--policy=' + policy)
            self.assertNotIn(RATES_MEASURED, said)
            self.assertEqual(same, tuning)
        self.assertEqual(self.compile('--policy=optimal')[0], first)
        self.assertEqual(self.kept(), 1)
        # Rates belong to this machine, so an export does not contain them.
        self.tool('cache', 'export', os.path.join(self.dir, 'all'), env=self.env)
        with open(os.path.join(self.dir, 'all'), 'rb') as f:
            self.assertNotIn(b'halftone.rates/1', f.read())

    def test_without_a_cache(self):
        self.env['HALFTONE_CACHE_MODE'] = 'off'
        said = self.compile('--policy=optimal')[1]
        self.assertEqual(said.count(RATES_MEASURED), 1)
        self.assertEqual(self.kept(), 0)

    def test_a_damaged_entry_is_measured_again(self):
        self.compile()
        for at, _, files in os.walk(os.path.join(self.env['HALFTONE_CACHE_DIR'], 'v1', 'rates')):
            for name in files:
                with open(os.path.join(at, name), 'r+b') as f:
                    f.seek(-40, 2)
                    f.write(b'?')
        said = self.compile()[1]
        self.assertIn('damaged', said)
        self.assertIn(RATES_MEASURED, said)

    def test_pinned(self):
        """Equal rates give equal bytes, whatever machine measured them and whoever compiles."""
        pinned = self.path('a.rates', rates(UNKNOWN, 'machine A', 'l3 16', 'weight_ps 40'))
        other = self.path('b.rates', rates(UNKNOWN, '# found elsewhere', 'machine B', 'microcode 7', 'l3 16', 'weight_ps 40'))
        faster = self.path('c.rates', rates(UNKNOWN, 'l3 32', 'weight_ps 40'))
        a, said, tuning = self.compile('--policy=optimal', '--rates', pinned)
        self.assertNotIn(RATES_MEASURED, said)
        self.assertNotIn(WARNED, said)
        self.assertEqual(self.kept(), 0)
        self.env['HALFTONE_CACHE_MODE'] = 'off'
        self.assertEqual(self.compile('--policy=optimal', '--rates', other)[0], a)
        self.assertNotEqual(self.compile('--policy=optimal', '--rates', faster)[2], tuning)
        shutil.rmtree(self.env['HALFTONE_CACHE_DIR'], ignore_errors=True)

    def test_tune_writes_what_rates_reads(self):
        out = os.path.join(self.dir, 'mine.rates')
        self.tool('tune', '-o', out, env=self.env)
        with open(out) as f:
            text = f.read()
        self.assertTrue(text.startswith(f'halftone.rates/1\nlevel {UNKNOWN}\nmachine '), text)
        self.assertTrue(text.endswith('end\n'), text)
        self.assertRegex(self.compile('--rates', out)[2], '~')
        self.fails(2, 'goes with --costs', 'tune', '--target=x86-64-v3', env=self.env)

    def test_not_measured(self):
        for args in ['--no-measure'], ['--measure=false']:
            _, said, tuning = self.compile('--policy=optimal', *args)
            self.assertIn(WARNED, said)
            self.assertNotIn(RATES_MEASURED, said)
            self.assertEqual((tuning, self.kept()), ('generic', 0))

    def test_other_machines(self):
        """A target that is not this machine has its table, or else the rates of its description, with a warning."""
        for target, warned in ('x86-64-v3', False), ('skylake-avx512', True), ('x86-64-v4+bf16', False):
            _, said, tuning = self.compile('--policy=optimal', '--target', target)
            self.assertEqual((WARNED in said, RATES_MEASURED in said, '~' in tuning), (warned, False, False), target)

    def test_machines_that_are_known(self):
        self.env['HALFTONE_HOST'] = ''
        host, = [t for t in json.loads(self.tool('targets', '--format=json', env=self.env).stdout)['targets'] if t['host']]
        known = os.path.exists(f'{os.path.dirname(__file__)}/../../precision/data/{host["level"]}@{host["tuning"]}.costs')
        self.assertEqual(RATES_MEASURED in self.compile('--policy=optimal')[1], not known)

    def test_slow_products_are_not_used(self):
        """A decision that depends on rates: products of pairs are used if they are faster than widening."""
        model = self.path('product.hir', PRODUCT)
        target = 'x86-64-v4+bf16'
        for dots, used in ('1', True), ('0.25', False):
            pinned = self.path('p.rates', rates(target, 'dots_bf16 ' + dots))
            asm = self.tool('compile', model, '--emit=asm', '-o', '-', '--target', target, '--rates', pinned, env=self.env).stdout.decode()
            self.assertEqual('vdpbf16ps' in asm, used, dots)
            self.assertIn('vfmadd' if not used else 'vdpbf16ps', asm)
        for target, used in ('x86-64-v4+bf16', True), ('x86-64-v4+bf16+fp16', False):  # by the rates of their descriptions
            asm = self.tool('compile', model, '--emit=asm', '-o', '-', '--target', target, env=self.env).stdout.decode()
            self.assertEqual('vdpbf16ps' in asm, used, target)

    def test_decisions_follow_the_rates(self):
        model = self.path('product.hir', PRODUCT.replace(b'bf16', b'f32').replace(b'64,256', b'512,256'))
        target = 'x86-64-v4+bf16'
        for dots, low in ('4', 'bf16'), ('0.25', 'f32'):
            pinned = self.path('d.rates', rates(target, 'dots_bf16 ' + dots))
            graph = self.tool('compile', model, '--emit=hir', '-o', '-', '--policy=optimal', '--target', target, '--rates', pinned, env=self.env)
            self.assertIn(f'{{T={low}, ', graph.stdout.decode(), dots)

    def test_wrong_files(self):
        def fails(text, message, code=3, *args):
            self.fails(code, message, 'compile', SMALL, '-o', '-', '--emit=hir', '--rates', self.path('w.rates', text), *args, env=self.env)
        fails(b'halftone.costs/1\n', r'w\.rates:1: error: rates begin with halftone\.rates/1')
        fails(rates(UNKNOWN, 'l3 16')[:-5], r"w\.rates:4: error: the line 'end' was expected")
        fails(rates(UNKNOWN, 'l33 16'), r"w\.rates:3: error: there is no rate 'l33'; did you mean 'l3'")
        fails(rates(UNKNOWN, 'l3 -1'), r'w\.rates:3: error: a number from 1e-6')
        fails(b'\0' * 10, r'w\.rates:1: error: a zero byte')
        fails(rates('x86-64-v3', 'l3 16'), r'w\.rates: error: these are rates of machines of level x86-64-v3; the code is for x86-64', 2)
        self.fails(5, 'missing', 'compile', SMALL, '-o', '-', '--emit=hir', '--rates', 'missing', env=self.env)

    def test_a_host_that_is_none(self):
        self.env['HALFTONE_HOST'] = 'pdp-11'
        self.fails(2, "HALFTONE_HOST: 'pdp-11' is no target", 'compile', SMALL, '-o', '-', '--emit=hir', env=self.env)


if __name__ == '__main__':
    unittest.main()
