#!/usr/bin/env python3
"""The Python package as part of a process: imports, ends, interruptions, other versions, other packages."""
import importlib.util, os, re, signal, subprocess, sys, time, unittest

from package import PACKAGE, PRELOAD, SMALL, environment, python, tool
from case import FolderCase
import hostile, processor_time
from loop_text import while_functions

RUN = f'import halftone as ht\nassert ht.run({SMALL!r}, x=[[1, 2, 3, 4]])["top"].tolist() == [0]\n'
# Many matrix products, so that compiling or running takes long enough for an interruption.
LONG = '''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}

%x = Placeholder() {dtype=f32, shape=shape[4096,4096]}
%a = MatMul(%x, %x) {T=f32, transpose_a=false, transpose_b=false}
%b = MatMul(%a, %x) {T=f32, transpose_a=false, transpose_b=false}
%c = MatMul(%b, %x) {T=f32, transpose_a=false, transpose_b=false}
%y = MatMul(%c, %x) {T=f32, transpose_a=false, transpose_b=false}
'''
# A loop that would end if the sum of a vector were below zero, which it never is.
ENDLESS = '''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}

%x = Placeholder() {dtype=f32, shape=shape[2]}
%y = StatelessWhile(%x) {T=[f32], cond=@more{}, body=@step{}}
''' + while_functions('%next = Mul(%y, %y) {T=f32}')

SIGN = RUN + f'''import sys
private, public, signed, plain = sys.argv[1:]
p = ht.load({SMALL!r}).compile()
p.save(plain)
p.save(signed, sign_key=private)
ht.Program.load(signed, require_signature=public)
try:
    ht.Program.load(plain, require_signature=public)
except ht.InputError:
    sys.exit()
sys.exit("it was loaded without a signature")
'''


def many_kernels(n):
    """A chain of n matrix products of different sizes, each with a kernel of its own."""
    lines = ['hir 1', 'entry "" {', '  input "x" = %x', f'  output "y" = %m{n - 1}', '}', '%x = Placeholder() {dtype=f32, shape=shape[3,64]}']
    for i in range(n):
        lines += [f'%w{i} = Const() {{dtype=f32, value=tensor f32[{64 + i},{65 + i}] values 1 {{0.5 ...}}}}',
                  f'%m{i} = MatMul(%{f"m{i - 1}" if i else "x"}, %w{i}) {{T=f32, transpose_a=false, transpose_b=false}}']
    return '\n'.join(lines) + '\n'


class Process(FolderCase):
    def ends_well(self, code, *arguments, **variables):
        r = python(code, *arguments, **variables)
        self.assertEqual(r.returncode, 0, r.stderr[-2000:])
        return r

    def test_import_is_small(self):
        r = self.ends_well('import sys, halftone\nprint(*sorted(set(sys.modules) & {"numpy", "json", "logging", "threading", "inspect"}))')
        self.assertEqual(r.stdout.split(), [])

    def test_beside_others(self):
        """LLVM's symbols in TensorFlow's libraries and Halftone's: whichever is loaded first, the process ends
        normally."""
        for name in 'tensorflow', 'torch', 'onnxruntime':
            if importlib.util.find_spec(name) is None:
                print(f'skipped: {name} is not installed')
                continue
            orders = f'import {name}\n{RUN}', f'{RUN}import {name}\n', f'import halftone, {name}\n{RUN}'
            for code in orders[:1] if PRELOAD else orders:  # which take long there
                with self.subTest(code):
                    self.ends_well(code, TF_CPP_MIN_LOG_LEVEL='3')

    def test_no_shared_llvm(self):
        needed = subprocess.run(['readelf', '-d', f'{environment.BUILD}/lib/halftone/halftone-backend.so'],
                                check=True, capture_output=True, text=True).stdout
        self.assertIn('libc.so', needed)
        self.assertNotRegex(needed, r'NEEDED.*libLLVM')
        exported = subprocess.run(['nm', '-D', '--defined-only', '--format=just-symbols',
                                   f'{environment.BUILD}/lib/halftone/halftone-backend.so'], check=True, capture_output=True, text=True)
        self.assertEqual(exported.stdout.split(), ['ht_backend'])

    def test_signs_beside_tensorflow(self):
        """libtensorflow_framework.so exports the names of another libcrypto."""
        private, public = self.path('private.pem'), self.path('public.pem')
        for command in ('genpkey', '-algorithm', 'ed25519', '-out', private), ('pkey', '-in', private, '-pubout', '-out', public):
            subprocess.run(['openssl', *command], check=True, capture_output=True)
        self.ends_well('import tensorflow\n' + SIGN, private, public, self.path('signed.htx'), self.path('plain.htx'), TF_CPP_MIN_LOG_LEVEL='3')

    def test_ends_with_objects_alive(self):
        self.ends_well(f'import halftone as ht\nm = ht.load({SMALL!r}); p = m.compile(); c = p.context()\n'
                       'class A: pass\na = A(); a.a, a.all = a, (m, p, c)\n')

    def test_interrupts(self):
        """Ctrl-C ends a run in the main thread long before the run would end."""
        path = self.path('long.hir', LONG.encode())
        code = ('import sys, time, numpy as np, halftone as ht\n'
                'p = ht.load(sys.argv[1]).compile()\nx = np.ones((4096, 4096), np.float32)\n'
                'print("ready", flush=True)\nbegin = time.process_time()\n'
                'try:\n  p(x); print("done")\n'
                'except KeyboardInterrupt:\n  print("interrupted", time.process_time() - begin, flush=True)\n'
                '  begin = time.process_time(); p(np.zeros_like(x)); print("whole", time.process_time() - begin)\n')
        with subprocess.Popen([sys.executable, '-c', code, path], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, 'PYTHONPATH': PACKAGE}) as child:
            self.assertEqual(child.stdout.readline(), 'ready\n')
            time.sleep(.1)
            child.send_signal(signal.SIGINT)
            word, after = child.stdout.readline().split()
            self.assertEqual(word, 'interrupted')
            word, whole = child.stdout.readline().split()
            self.assertLess(float(after), float(whole))
        self.assertEqual(child.returncode, 0)

    def test_interrupts_a_loop_that_was_short_before(self):
        """The duration depends on data: the run stays in the main thread, in call.c."""
        path = self.path('endless.hir', ENDLESS.encode())
        code = ('import sys, numpy as np, halftone as ht\n'
                'p = ht.load(sys.argv[1]).compile()\nx = np.full((2,), -1, np.float32)\n'
                'again = p.context().bind(x)\n'
                'for _ in range(10): p(x); again()\n'
                'for run in (lambda: p(np.ones_like(x))), again:\n'
                '  x[:] = 1; print("ready", flush=True)\n'
                '  try:\n    run(); print("done")\n  except KeyboardInterrupt:\n    print("interrupted", flush=True)\n'
                '  x[:] = -1\nassert p(x)["y"].tolist() == [-1, -1]\n')
        with subprocess.Popen([sys.executable, '-c', code, path], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, 'PYTHONPATH': PACKAGE}) as child:
            for _ in range(2):
                self.assertEqual(child.stdout.readline(), 'ready\n')
                time.sleep(.1)
                child.send_signal(signal.SIGINT)
                self.assertEqual(child.stdout.readline(), 'interrupted\n')
        self.assertEqual(child.returncode, 0)

    def test_interrupts_an_import(self):
        """Ctrl-C during an import raises KeyboardInterrupt, and the thread that imports, for which the interpreter waits at its exit, ends soon
        afterwards."""
        path = self.path('large.pb', hostile.KINDS['chain_add'](200000))
        code = ('import sys, time, halftone as ht\nbegin = time.perf_counter(), time.process_time()\nht.load(sys.argv[1])\n'
                'print(time.perf_counter() - begin[0], time.process_time() - begin[1], flush=True)\n'
                'try:\n  ht.load(sys.argv[1]); print("done")\nexcept KeyboardInterrupt:\n  print("interrupted", flush=True)\n')
        before = processor_time.of_children()
        with subprocess.Popen([sys.executable, '-c', code, path], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, 'PYTHONPATH': PACKAGE}) as child:
            lasts, whole = map(float, child.stdout.readline().split())
            time.sleep(lasts / 8)
            until = processor_time.of(child.pid)
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.stdout.readline(), 'interrupted\n')
            self.assertEqual(child.wait(), 0)
            self.assertLess(processor_time.of_children() - before - until, whole / 2)

    def test_interrupts_a_compilation(self):
        """The compilation ends soon after the exception, so the interpreter does not wait for the rest."""
        path = self.path('many.hir', many_kernels(400).encode())
        code = ('import sys, halftone as ht\nm = ht.load(sys.argv[1])\n'
                'try:\n  m.compile(progress=lambda phase, done, _: done == 1 and print("ready", flush=True)); print("done")\n'
                'except KeyboardInterrupt:\n  print("interrupted", flush=True)\n')
        with subprocess.Popen([sys.executable, '-c', code, path], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, 'PYTHONPATH': PACKAGE}) as child:
            self.assertEqual(child.stdout.readline(), 'ready\n')
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.stdout.readline(), 'interrupted\n')
        self.assertEqual(child.returncode, 0)

    def shown(self, code, *arguments, **variables):
        """The text that a process writes to a terminal as its standard error."""
        ours, its = os.openpty()
        child = subprocess.Popen([sys.executable, '-c', code, *arguments], stderr=its, env={**os.environ, 'PYTHONPATH': PACKAGE, 'TERM': 'xterm', **variables})
        os.close(its)
        text = b''
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:  # the last process has closed the terminal
                break
            if not more:
                break
            text += more
        os.close(ours)
        self.assertEqual(child.wait(), 0, text)
        return text.decode()

    def test_progress(self):
        path = self.path('many.hir', many_kernels(1).encode())
        # Simulates the second second, without waiting for it.
        code = ('import sys, halftone as ht, halftone._progress as p\n'
                'clock = iter(range(1000)); p.monotonic = lambda: next(clock)\n'
                'import halftone._library as library, time\n'
                'compile = library.lib.ht_compile\n'
                'library.lib.ht_compile = lambda *a: (compile(*a), time.sleep(.5))[0]\n'
                'ht.load(sys.argv[1]).compile(**eval(sys.argv[2]))\n')
        self.assertRegex(self.shown(code, path, '{}'), r'^(\r\x1b\[Kcompiling: code, 1 of 1 kernels|\r\x1b\[Kcompiling: \w+)+\r\x1b\[K$')
        self.assertEqual(self.shown(code, path, '{"progress": False}'), '')
        self.assertEqual(self.shown(code, path, '{}', TERM='dumb'), '')
        r = self.ends_well(code, path, '{}')
        self.assertEqual(r.stderr, '')
        self.assertIn('compiling: ', self.ends_well(code, path, '{"progress": True}').stderr)
        r = self.ends_well('import logging\nlogging.basicConfig(level=logging.INFO)\n' + code.replace('range(1000)', 'range(0, 10000, 5)'), path, '{}')
        self.assertIn('INFO:halftone:compiling: ', r.stderr)

    def test_interrupts_a_loop_without_end(self):
        path = self.path('endless.hir', ENDLESS.encode())
        code = ('import sys, numpy as np, halftone as ht\n'
                'p = ht.load(sys.argv[1]).compile()\nx = np.ones((2,), np.float32)\n'
                'try:\n  p.context(max_iterations=1000).run(x)\nexcept ht.LimitError as e:\n  print(e, flush=True)\n'
                'for limit in "timeout", "sync_timeout":\n  try:\n    p.context(**{limit: .01}).run(x)\n  except ht.LimitError as e:\n    print(e, flush=True)\n'
                'try:\n  p(x); print("done")\nexcept KeyboardInterrupt:\n  print("interrupted", flush=True)\n')
        with subprocess.Popen([sys.executable, '-c', code, path], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, 'PYTHONPATH': PACKAGE}) as child:
            self.assertIn('limit of 1000 iterations', child.stdout.readline())
            for name in 'graph_exec_timeout', 'stream_sync_timeout':
                self.assertRegex(child.stdout.readline(), rf'took [0-9.]+ ms, longer than its limit of time, 10 ms \({name}\)')
            time.sleep(.1)
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.stdout.readline(), 'interrupted\n')
        self.assertEqual(child.returncode, 0)  # which waits for the thread of the run

    def test_turns(self):
        """Two contexts, of which one runs; the other waits until its time is over, Ctrl-C cancels it, or the first one
        ends."""
        path = self.path('endless.hir', ENDLESS.encode())
        code = ('import sys, threading, numpy as np, halftone as ht\n'
                'p = ht.load(sys.argv[1]).compile()\np.run_at_most(1)\nx = np.ones((2,), np.float32)\n'
                'first = p.context(max_iterations=1 << 62)\n'
                'runner = threading.Thread(target=lambda: first.run(x), daemon=True)\nrunner.start()\n'
                'def waits(**limits):\n'
                '  try:\n    p.context(**limits).run(x)\n  except ht.LimitError as e:\n    print(e, flush=True)\n'
                '  except KeyboardInterrupt:\n    print("interrupted", flush=True)\n'
                'while True:\n'  # until the first one has its turn
                '  try:\n    p.context(turn_timeout=.001, max_iterations=1).run(x)\n'
                '  except ht.LimitError as e:\n'
                '    if "turn" in str(e): break\n'
                'waits(turn_timeout=.01)\nwaits(wait_timeout=.01)\nwaits()\n'
                'first._cancel.value = 1\nrunner.join()\n'
                'try:\n  p.context(max_iterations=10).run(x)\nexcept ht.LimitError as e:\n  print(e, flush=True)\n'
                'p.run_at_most(0)\nprint(p(-x)["y"].tolist(), flush=True)\n')
        with subprocess.Popen([sys.executable, '-c', code, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env={**os.environ, 'PYTHONPATH': PACKAGE}) as child:
            for what in r"the wait for the run's turn took .*\(event_sync_timeout\)", r'a wait took .*\(op_wait_timeout\)':
                self.assertRegex(child.stdout.readline(), what)
            time.sleep(.1)
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.stdout.readline(), 'interrupted\n')
            self.assertIn('limit of 10 iterations', child.stdout.readline())
            self.assertEqual(child.stdout.readline(), '[-1.0, -1.0]\n')
        self.assertEqual(child.returncode, 0)

    def test_versions(self):
        import halftone._api
        for line, wrong in ('HALFTONE_VERSION = .*', 'HALFTONE_VERSION = "0.0.9"'), ('HALFTONE_ABI = .*', 'HALFTONE_ABI = 99'):
            folder = self.path(wrong[9:12])
            subprocess.run(['cp', '-R', f'{PACKAGE}/halftone', folder], check=True)
            with open(halftone._api.__file__) as f:
                text = re.sub(line, wrong, f.read())
            with open(f'{folder}/_api.py', 'w') as f:
                f.write(text)
            os.makedirs(f'{folder}.path')
            os.rename(folder, f'{folder}.path/halftone')
            r = python('import halftone', PYTHONPATH=f'{folder}.path', HALFTONE_LIBRARY=f'{environment.BUILD}/lib/libhalftone.so')
            self.assertEqual(r.returncode, 1)
            self.assertRegex(r.stderr, 'ImportError: halftone .* cannot use the library')
        r = python('import halftone', HALFTONE_LIBRARY=self.path('none.so'))
        self.assertIn('ImportError: halftone cannot load its library', r.stderr)

    @unittest.skipIf(PRELOAD, 'sanitizers are in one library only')
    def test_two_libraries(self):
        """Two copies of package and library, like two versions, do not affect each other: models of both compile, run,
        and end."""
        subprocess.run(['cp', '-R', f'{environment.BUILD}/lib', self.path('lib')], check=True)
        subprocess.run(['cp', '-R', f'{PACKAGE}/halftone', self.path('halftone')], check=True)
        r = self.ends_well('''
import os, sys
import numpy as np
def load():
    for name in [n for n in sys.modules if n.split(".")[0] == "halftone"]:
        del sys.modules[name]
    import halftone
    model = halftone.load(sys.argv[2])
    return halftone, model, model.compile()
one = load()
sys.path.insert(0, sys.argv[1])
os.environ["HALFTONE_LIBRARY"] = sys.argv[1] + "/lib/libhalftone.so"
two = load()
assert one[0].__file__ != two[0].__file__
x = np.ones((1, 4), np.float32)
for ht, model, program in one, two, one:
    assert (program(x)["y"] == model.compile()(x)["y"]).all()
    try:
        ht.load("none.pb")
    except ht.HalftoneError:
        pass
with open("/proc/self/maps") as maps:
    print(len({line.split()[-1] for line in maps if "libhalftone.so" in line}))
''', os.path.dirname(self.path('lib')), SMALL)
        self.assertEqual(r.stdout, '2\n')

    def test_subinterpreters(self):
        r = python('''
try:
    import _xxsubinterpreters as sub
except ImportError:
    import _interpreters as sub
one = sub.create()
try:
    sub.run_string(one, """
try:
    import halftone
except ImportError as error:
    print("refused:", error, flush=True)
""")
finally:
    sub.destroy(one)
''')
        self.assertIn('refused: halftone works in the main interpreter only', r.stdout, r.stderr)

    @unittest.skipIf(PRELOAD, 'sanitizers are inside of the tool, and loaded before it')
    def test_the_tool(self):
        r = subprocess.run([sys.executable, '-m', 'halftone', '--version'], capture_output=True, text=True,
                           env={**os.environ, 'PYTHONPATH': PACKAGE})
        self.assertEqual(r.stdout, tool('--version').stdout)

    def test_no_ml_dtypes(self):
        with open(SMALL) as f:
            path = self.path('b.hir', f.read().replace('f32', 'bf16').encode())
        r = self.ends_well('import sys, logging\nsys.modules["ml_dtypes"] = None\nlogging.basicConfig(level=logging.INFO)\n'
                           'import halftone as ht, numpy as np\n'
                           'y = ht.load(sys.argv[1]).compile()(np.full((1, 4), 0x3f80, np.uint16))["y"]\n'
                           'print(y.dtype, [hex(n) for n in y[0]])', path)
        self.assertEqual(r.stdout, "uint16 ['0x4040', '0x3f60', '0x3fb0']\n")
        self.assertIn('bfloat16 arrays are uint16, since ml_dtypes is not installed', r.stderr)


class Documents(unittest.TestCase):
    def test_doctests(self):
        r = python('import sys, doctest, importlib, pkgutil, halftone, logging\n'
                   'n = 0\n'
                   'for m in pkgutil.iter_modules(halftone.__path__, "halftone."):\n'
                   '    if m.name == "halftone.__main__": continue\n'
                   '    r = doctest.testmod(importlib.import_module(m.name), extraglobs={"GRAPH": sys.argv[1]})\n'
                   '    assert not r.failed; n += r.attempted\n'
                   'r = doctest.testmod(halftone, extraglobs={"GRAPH": sys.argv[1]}); assert not r.failed\n'
                   'print(n + r.attempted)', SMALL)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertGreater(int(r.stdout), 15)

    def test_docs_page(self):
        r = python('import sys, doctest\n'
                   'r = doctest.testfile(sys.argv[1], module_relative=False, globs={"GRAPH": sys.argv[2]}, '
                   'optionflags=doctest.ELLIPSIS); '
                   'assert not r.failed and r.attempted > 10, r', f'{environment.ROOT}/docs/python.md', SMALL)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)

    def test_pages_of_options(self):
        """For every verb the tool's manual says how Python does the same, as do all pages about options; the named
        functions exist."""
        import halftone
        pages = {}
        for name in os.listdir(f'{environment.ROOT}/docs'):
            if name.endswith('.md'):
                with open(f'{environment.ROOT}/docs/{name}', encoding='utf-8') as f:
                    pages[name] = f.read()
        for section in re.split(r'^### ', pages['cli.md'], flags=re.M)[1:]:
            self.assertRegex(section, r'\n```\n\nIn Python: ', section.split('\n')[0])
        for name in 'options.md', 'fusions.md', 'modes.md', 'policies.md', 'cache.md':
            self.assertRegex(pages[name], r'(?i)in Python [^\n]*(\n[^\n]+)*\]\(python\.md', name)
        for name, text in pages.items():
            for path in re.findall(r'`ht\.([\w.]+)', text):
                thing = halftone
                for part in path.split('.'):
                    self.assertTrue(hasattr(thing, part), f'{name}: ht.{path}')
                    thing = getattr(thing, part)

    def test_everything_is_described(self):
        import halftone, inspect
        for name in halftone.__all__:
            thing = getattr(halftone, name)
            if name == '__version__':
                continue
            self.assertTrue(inspect.getdoc(thing), name)


if __name__ == '__main__':
    unittest.main()
