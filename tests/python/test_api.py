#!/usr/bin/env python3
"""The Python package as users call it: models, programs, policies, reports, tables."""
import gc, json, logging, os, re, signal, subprocess, sys, threading, unittest, warnings, weakref

from package import SMALL, TRAINING, environment, tool
from case import FolderCase
import halftone as ht
import ml_dtypes
import numpy as np

W = np.array([[0.5, -1, .25], [1, .5, -.75], [2, .125, 1.5], [-.5, 1.25, .375]], np.float32)
RNG = np.random.default_rng()


def x(rows=1):
    return RNG.integers(-8, 8, (rows, 4)).astype(np.float32)


class Models(FolderCase):
    def test_tensors(self):
        m = ht.load(SMALL)
        self.assertEqual([(t.name, t.dtype, t.shape) for t in m.inputs], [('x', 'float32', (None, 4))])
        self.assertEqual(repr(m.outputs), '[y: float32[?,3], top: int64[?]]')
        self.assertIn('x: float32[?,4]', repr(m))
        self.assertTrue(m.finite)
        self.assertEqual(m.inspect()['multiply_adds'], 12)

    def test_with(self):
        m = ht.load(SMALL)
        one = m.with_(outputs=['y'], shapes={'x': (5, None)})
        self.assertEqual(repr(one.outputs), '[y: float32[5,3]]')
        self.assertEqual(len(m.outputs), 2)  # it never changes
        self.assertEqual(one.with_(batch=7).outputs[0].shape, (5, 3))
        self.assertEqual(m.with_(batch=7).inputs[0].shape, (7, 4))
        fed = ht.load(SMALL, inputs=['y'], outputs='top', shapes={'y': (2, 3)})
        self.assertEqual(fed.compile()([[1, 2, 3], [3, 2, 1]])['top'].tolist(), [2, 0])

    def test_a_file_that_changed(self):
        with open(SMALL, 'rb') as f:
            path = self.path('m.hir', f.read())
        m = ht.load(path)
        os.replace(self.path('other.hir', b'hir 1\n'), path)
        with self.assertRaisesRegex(ht.InputError, 'has changed since it was loaded'):
            m.with_(batch=2)

    def test_a_file_that_became_shorter(self):
        numbers = ','.join(map(str, RNG.permutation(64 * 64)))  # tensors of a few bytes are copied
        text = ('hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n%x = Placeholder() {dtype=f32, shape=shape[1,64]}\n'
                f'%w = Const() {{dtype=f32, value=tensor f32[64,64] {{{numbers}}}}}\n'
                '%y = MatMul(%x, %w) {T=f32, transpose_a=false, transpose_b=false}\n')
        ht.load(self.path('m.hir', text.encode())).convert('must_keep_origin_dtype', self.path('m.pb'))
        m = ht.load(self.path('m.pb'))
        os.truncate(self.path('m.pb'), 0)
        for use in (lambda: m.compile(cache='off'), m.explain, lambda: m.convert('force_fp16', self.path('out.pb'))):
            with self.assertRaisesRegex(ht.InputError, 'm.pb: error: the file became shorter while it was in use'):
                use()
        self.assertFalse(os.path.exists(self.path('out.pb')))
        ht.load(self.path('m.hir')).compile(cache='off').save(self.path('m.htx'))
        p = ht.Program.load(self.path('m.htx'))
        os.truncate(self.path('m.htx'), 0)
        for use in (lambda: p(np.ones((1, 64), np.float32)), lambda: p.save(self.path('out.htx'))):
            for _ in range(2):
                with self.assertRaisesRegex(ht.InputError, 'm.htx: error: the file became shorter while it was in use'):
                    use()
        self.assertFalse(os.path.exists(self.path('out.htx')))

    def test_convert_rewrite_emit(self):
        m = ht.load(SMALL)
        m.convert('grappler-bf16', self.path('out.pb'))
        self.assertEqual(repr(ht.load(self.path('out.pb')).inputs), repr(m.inputs))
        self.assertTrue(m.rewrite('fold,prune').startswith('hir 1'))
        self.assertIn('define', m.emit('llvm').decode())
        self.assertTrue(m.emit('obj').startswith(b'!<arch>'))
        with self.assertRaises(ht.UsageError):
            m.convert('grappler-bf16')

    def test_aot(self):
        files = ht.aot(ht.load(SMALL), self.path('net'), name='net', batch=1)
        self.assertTrue(os.path.exists(self.path('net/net.h')))
        self.assertIn('net.o', json.dumps(files))


class Programs(FolderCase):
    def setUp(self):
        super().setUp()
        self.model = ht.load(SMALL)

    def test_open_sizes(self):
        p = self.model.compile(inputs={'x': ('1..100', 4)})
        self.assertEqual(p.open_sizes, (1, 100))
        self.assertEqual([t.shape for t in p.inputs + p.outputs], [(None, 4), (None, 3), (None,)])
        self.assertIsNone(self.model.compile(batch=3).open_sizes)
        context = p.context(threads=2)
        for rows in [1, 100, *RNG.integers(1, 100, 4)]:
            a, into = x(rows), np.empty((rows, 3), np.float32)
            for y in p(a), context.run(x=a), p(a, out={'y': into}), context.bind(a)():
                np.testing.assert_array_equal(y['y'], a @ W)
                np.testing.assert_array_equal(y['top'], np.argmax(a @ W, 1))
            np.testing.assert_array_equal(into, a @ W)
            with self.assertRaises(ht.InputError):
                p(a, out={'y': np.empty((rows + 1, 3), np.float32)})
        with self.assertRaises(ht.InputError):
            p(x(101))

    def test_results(self):
        a = x(3)
        p = self.model.compile(inputs={'x': ('?', 4)}, batch=3)
        y = p(x=a)
        self.assertEqual(list(y), ['y', 'top'])
        np.testing.assert_array_equal(y['y'], a @ W)
        np.testing.assert_array_equal(y['top'], np.argmax(a @ W, 1))
        for how in (p(a), p({'x': a}), p(a.tolist()), p(**{'x': np.asfortranarray(a)}), p(a, threads=3), p.run(a),
                    p(np.stack([a, a], 2)[..., 0])):
            np.testing.assert_array_equal(how['y'], y['y'])

    def test_run(self):
        a = x(4)
        np.testing.assert_array_equal(ht.run(SMALL, x=a)['y'], a @ W)
        np.testing.assert_array_equal(ht.run(self.model, a)['y'], a @ W)
        self.model.compile(batch=4).save(self.path('m.htx'))
        np.testing.assert_array_equal(ht.run(self.path('m.htx'), x=a)['y'], a @ W)

    def test_out(self):
        p, a = self.model.compile(batch=2), x(2)
        y = np.empty((2, 3), np.float32)
        self.assertIs(p(a, out={'y': y})['y'], y)
        np.testing.assert_array_equal(y, a @ W)
        both = p(a, out={'y': y, 'top': np.empty(2, np.int64)})
        self.assertEqual(len(both), 2)

    def test_bad_arrays(self):
        p, a = self.model.compile(batch=2), x(2)
        y = np.empty((2, 3), np.float32)
        frozen = y.copy()
        frozen.flags.writeable = False
        for error, text, call in (
                (ht.InputError, r"input 'x' is float32\[2,4\], not float64\[2,4\]", lambda: p(a.astype(np.float64))),
                (ht.InputError, r"not float32\[1,4\]", lambda: p(a[:1])),
                (ht.InputError, 'other order', lambda: p(a.astype('>f4'))),
                (ht.InputError, "input 'x' takes float32", lambda: p([['a', 'b', 'c', 'd']] * 2)),
                (ht.InputError, 'not float32', lambda: p([1, 2])),
                (ht.UsageError, "no input 'xx'.*did you mean 'x'", lambda: p(xx=a)),
                (ht.UsageError, 'is not fed', lambda: p()),
                (ht.UsageError, 'fed twice', lambda: p(a, x=a)),
                (ht.UsageError, '2 arrays for 1', lambda: p(a, a)),
                (ht.UsageError, "no output 'z'", lambda: p(a, out={'z': y})),
                (ht.InputError, "output 'y' is float32", lambda: p(a, out={'y': y.astype(np.float64)})),
                (ht.InputError, 'writable', lambda: p(a, out={'y': frozen})),
                (ht.InputError, 'dense', lambda: p(a, out={'y': np.empty((3, 2), np.float32).T})),
                (ht.InputError, 'dense', lambda: p(a, out={'y': [[0] * 3] * 2})),
                (ht.UsageError, '0 threads', lambda: p(a, threads=0))):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()
        np.testing.assert_array_equal(p(a)['y'], a @ W)

    def test_memory_that_moves(self):
        """An array whose memory was replaced between two runs; an array that was freed, with another in its place."""
        p = self.model.compile(batch=2)
        a = x(2)
        p(a)
        a.resize((2 << 20, 4), refcheck=False)
        with self.assertRaisesRegex(ht.InputError, 'not float32.2097152,4.'):
            p(a)
        for _ in range(100):
            a = x(2)
            np.testing.assert_array_equal(p(a)['y'], a @ W)
            a = np.concatenate([a, a])[1:3]
            np.testing.assert_array_equal(p(a)['y'], a @ W)
        a.flags.writeable = False
        np.testing.assert_array_equal(p(a)['y'], a @ W)

    def test_shared_memory(self):
        p = self.model.with_(outputs=['y']).compile(batch=3)
        memory = np.zeros(21, np.float32)
        with self.assertRaisesRegex(ht.InputError, 'shares memory'):
            p(memory[:12].reshape(3, 4), out={'y': memory[11:20].reshape(3, 3)})
        p(memory[:12].reshape(3, 4), out={'y': memory[12:].reshape(3, 3)})

    def test_bfloat16(self):
        with open(SMALL) as f:
            text = f.read().replace('f32', 'bf16')
        p = ht.load(self.path('b.hir', text.encode())).compile(batch=2)
        a = x(2)
        y = p(a.astype(ml_dtypes.bfloat16))['y']
        self.assertEqual(y.dtype, ml_dtypes.bfloat16)
        np.testing.assert_array_equal(y, (a @ W).astype(ml_dtypes.bfloat16))
        bits = p(a.astype(ml_dtypes.bfloat16).view(np.uint16))['y']
        np.testing.assert_array_equal(bits, y)

    def test_dlpack(self):
        class Tensor:
            def __init__(self, a):
                self.a = a

            def __dlpack__(self, **how):
                return self.a.__dlpack__()

            def __dlpack_device__(self):
                return self.a.__dlpack_device__()

            def __array__(self, *_, **__):
                raise AssertionError('copied')

        p, a = self.model.compile(batch=2), x(2)
        np.testing.assert_array_equal(p(Tensor(a))['y'], a @ W)
        y = np.zeros((2, 3), np.float32)
        p(Tensor(a), out={'y': Tensor(y)})
        np.testing.assert_array_equal(y, a @ W)

    def test_threads(self):
        p = self.model.compile(batch=64)
        wrong = []

        def work(seed):
            rng = np.random.default_rng(seed)
            for _ in range(200):
                a = rng.integers(-8, 8, (64, 4)).astype(np.float32)
                if not np.array_equal(p(a)['y'], a @ W):
                    wrong.append(seed)

        workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        self.assertEqual(wrong, [])

    def test_fork(self):
        p, a = self.model.compile(batch=2), x(2)
        want = p(a, threads=2)['y']
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(p(a, threads=2)['y'], want) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_closed(self):
        p = self.model.compile()
        c = p.context()
        p.close()
        p.close()
        for use in (lambda: p(x()), lambda: p.info, lambda: p.save(self.path('m.htx')), lambda: p.context()):
            with self.assertRaisesRegex(ValueError, 'this Program is closed'):
                use()
        np.testing.assert_array_equal(c.run(np.ones((1, 4), np.float32))['y'], [[3, .875, 1.375]])
        with ht.load(SMALL) as m:
            pass
        with self.assertRaisesRegex(ValueError, 'this Model is closed'):
            m.inputs
        for closed in m, p:
            self.assertIn('closed', repr(closed))

    def test_cycles_are_freed(self):
        class Node:
            pass

        node = Node()
        node.program = self.model.compile()
        node.program(x())
        node.itself = node
        seen = weakref.ref(node.program)
        del node
        gc.collect()
        self.assertIsNone(seen())

    def test_context(self):
        p = self.model.compile(batch=2, numerics=True, policy='force_fp16')
        c = p.context(threads=2, seed=7)
        self.assertEqual(c.seed, 7)
        c.profile()
        c.run(x(2))
        self.assertEqual(len(c.steps()), p.info.steps)
        self.assertIn('overflow', c.numerics()[0])
        with self.assertRaises(ht.UsageError):
            p.context(guard='beside')
        for limit in 'timeout', 'sync_timeout', 'turn_timeout', 'kernel_timeout', 'wait_timeout':
            for wrong in 0, -1, float('inf'):
                with self.assertRaises(ht.UsageError):
                    p.context(**{limit: wrong})
            p.context(**{limit: 1e6}).run(x(2))
        with self.assertRaisesRegex(ht.LimitError, 'the kernel took .*op_execute_timeout'):
            p.context(kernel_timeout=1e-9).run(x(2))
        with self.assertRaises(ht.UsageError):
            p.run_at_most(-1)

    def test_device(self):
        p = self.model.compile(batch=2)
        before = os.sched_getaffinity(0)
        p.context(device=0).run(x(2))
        self.assertEqual(os.sched_getaffinity(0), before)
        for call in ht.use_device, lambda n: p.context(device=n), lambda n: self.model.session(device=n):
            for wrong in 1023, -1:
                with self.assertRaisesRegex(ht.SystemFailure, 'there is no device .* this machine has [1-9]'):
                    call(wrong)
            with self.assertRaises(ht.UsageError):
                call(1 << 70)

    def test_counters(self):
        p = self.model.compile()
        c = p.context()
        self.assertEqual(c.counters(), {})
        c.count()
        for _ in range(3):
            c.run(x(1))
        counters = c.counters()
        self.assertEqual({len(of) for of in counters.values() if not isinstance(of, str)} | {p.info.steps}, {p.info.steps})
        if not isinstance(counters['task_clock'], str):
            self.assertGreater(sum(counters['task_clock']), 0)
        c.count(False)
        self.assertEqual(c.counters(), {})

    def test_pages(self):
        """Pages of 1 GB, or the pages that exist instead, with a warning; the results are the same."""
        p, given = self.model.compile(batch=1), x()
        plain = p(given)
        self.assertRaises(ht.UsageError, p.use_pages, '4K')
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter('always')
            p.use_pages('1G-or-less')
        self.assertLessEqual({w.category for w in told}, {ht.HalftoneWarning})
        for name, value in p(given).items():
            np.testing.assert_array_equal(value, plain[name])
        self.assertRaises(ht.UsageError, p.use_pages, '1G')
        self.assertRaises(ht.UsageError, self.model.session, pages='2M')
        self.model.session(pages='1G-or-less').close()

    def test_recording(self):
        c = self.model.compile(batch=1).context()
        with self.assertRaises(ht.UsageError):
            c.trace()
        self.assertEqual(c.profile_table(), [])
        c.record()
        for _ in range(3):
            c.run(x())
        rows = c.profile_table()
        self.assertEqual([r['executions'] for r in rows], [3] * len(rows))
        kernels = [e for e in c.trace()['traceEvents'] if e.get('cat') == 'kernel']
        self.assertEqual(len(kernels), 3 * len(rows))
        self.assertEqual({k['name'] for k in kernels}, {r['node'] for r in rows})
        for wrong in -1, 1 << 30:
            with self.assertRaises(ht.UsageError):
                c.record(wrong)
        self.assertEqual(c.iterations(), [])
        last = rows[-1]['node']
        c.divide(rows[0]['node'], last)
        with self.assertRaisesRegex(ht.InputError, "fp_point: .* node 'nowhere'"):
            c.divide('nowhere')
        c.record()
        c.divide(None, last)
        for _ in range(3):
            c.run(x())
        parts = c.iterations()
        self.assertEqual([(p['run'], p['gap_ns'] is None) for p in parts], [(0, True), (1, False), (2, False)])
        for p in parts:
            self.assertEqual(p['ns'], (p['gap_ns'] or 0) + p['forward_ns'] + p['refresh_ns'])
        c.record(0)
        self.assertEqual(c.profile_table(), [])

    def test_variables(self):
        """Streams continue from run to run of one context; a call of the program begins with their initial values."""
        text = '''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}
%x = Placeholder() {dtype=f32, shape=shape[2]}
%v = VarHandleOp() {dtype=f32, shape=shape[2], shared_name="a/v", _value=tensor f32[2] {3.0,5.0}}
%u = AssignAddVariableOp(%v, %x) {dtype=f32}
%y = ReadVariableOp(%v, ^u) {dtype=f32}
'''
        p = ht.load(self.path('v.hir', text.encode())).compile()
        self.assertEqual(str(p.variables), '[a/v: float32[2]]')
        c, one = p.context(), np.ones(2, np.float32)
        self.assertEqual([c.run(one)['y'].tolist() for _ in range(3)], [[4, 6], [5, 7], [6, 8]])
        self.assertEqual(c.variables()['a/v'].tolist(), [6, 8])
        c.assign(**{'a/v': [0, 1]})
        self.assertEqual(c.run(one)['y'].tolist(), [1, 2])
        with self.assertRaisesRegex(ht.UsageError, "changes no variable 'w'; it changes a/v"):
            c.assign(w=one)
        with self.assertRaisesRegex(ht.InputError, 'float32.2., not float32.3.'):
            c.assign(**{'a/v': np.ones(3, np.float32)})
        self.assertEqual(c.variables()['a/v'].tolist(), [1, 2])
        c.reset()
        self.assertEqual(c.run(one)['y'].tolist(), [4, 6])
        self.assertEqual([p(one)['y'].tolist() for _ in range(2)], [[4, 6]] * 2)
        self.assertEqual(self.model.compile().variables, [])

    def test_bind(self):
        p, a, b = self.model.compile(batch=2), x(2), x(2)
        c = p.context()
        y = np.empty((2, 3), np.float32)
        again = c.bind(a, out={'y': y})
        np.testing.assert_array_equal(again()['y'], a @ W)
        np.testing.assert_array_equal(c.run(b)['y'], b @ W)  # with other arrays in between
        a[:] = x(2)
        self.assertIs(again()['y'], y)
        np.testing.assert_array_equal(y, a @ W)
        with self.assertRaises(ht.InputError):
            c.bind(a[:1])
        c.close()
        with self.assertRaisesRegex(ValueError, 'this Context is closed'):
            again()

    def test_artefacts(self):
        programs = [self.model.compile(policy, batch=2) for policy in (None, 'allow_mix_precision_bf16')]
        ht.save(programs, self.path('m.htx'))
        self.assertTrue(ht.is_artefact(self.path('m.htx')))
        self.assertFalse(ht.is_artefact(SMALL))
        second = ht.Program.load(self.path('m.htx'), policy='allow_mix_precision_bf16', inputs={'x': (None, 4)})
        self.assertEqual(second.info.policy, 'allow_mix_precision_bf16')
        self.assertIsInstance(ht.manifest(self.path('m.htx')), dict)
        with self.assertRaises(ht.UsageError):
            ht.Program.load(self.path('m.htx'), policy='force_fp16')
        with self.assertRaises(ht.UsageError):
            ht.save([programs[0], programs[0]], self.path('n.htx'))

    def test_same_bytes_as_the_tool(self):
        self.model.compile('force_fp16', target='x86-64-v3', batch=2).save(self.path('a.htx'))
        tool('compile', '-q', '--policy', 'force_fp16', '--target', 'x86-64-v3', '--batch', '2', SMALL, '-o', self.path('b.htx'))
        self.assertEqual(ht.Program.load(self.path('a.htx'))(np.ones((2, 4), np.float32))['y'].tobytes(),
                         ht.Program.load(self.path('b.htx'))(np.ones((2, 4), np.float32))['y'].tobytes())


class Ways(FolderCase):
    """The code of call.c and the Python code through ctypes give the same results and the same errors."""

    def setUp(self):
        super().setUp()
        text = '\n'.join(['hir 1', 'entry "" {', '  input "x" = %x', '  input "n" = %n', '  output "y" = %y', '  output "m" = %m', '}',
                          '%x = Placeholder() {dtype=f32, shape=shape[2,3]}', '%n = Placeholder() {dtype=i64, shape=shape[3]}',
                          '%y = Neg(%x) {T=f32}', '%m = Neg(%n) {T=i64}', ''])
        self.program = ht.load(self.path('two.hir', text.encode())).compile()

    @staticmethod
    def variants(shape, dtype):
        """Valid arrays, and arrays with one error each."""
        a = RNG.integers(-9, 9, shape).astype(dtype)
        bytes_ = np.zeros(a.nbytes + 1, np.uint8)
        misaligned = bytes_[1:].view(dtype).reshape(shape)
        misaligned[:] = a
        frozen = a.copy()
        frozen.flags.writeable = False
        twice = np.repeat(a, 2, -1)
        return {
            'right': a, 'misaligned': misaligned, 'frozen': frozen, 'strided': twice[..., ::2], 'reversed': a[..., ::-1],
            'fortran': np.asfortranarray(a), 'matrix': a.view(type('Sub', (np.ndarray,), {})), 'swapped': a.astype(a.dtype.newbyteorder()),
            'double': a.astype(np.float64), 'narrow': a.astype(np.int16), 'bits': a.view(f'u{a.itemsize}'), 'void': a.view(f'V{a.itemsize}'),
            'short': a[:1], 'flat': a.ravel() if a.ndim > 1 else a[None], 'empty': a[:0], 'scalar': a.ravel()[0], 'list': a.tolist(),
            'broadcast': np.broadcast_to(a[:1], shape), 'none': None, 'object': a.astype(object), 'text': 'text', 'memoryview': memoryview(a),
            'records': a.view([('a', dtype)]), 'masked': np.ma.masked_array(a), 'dlpack': type('D', (), {
                '__dlpack__': lambda self, **how: a.__dlpack__(), '__dlpack_device__': lambda self: (1, 0)})(),
        }

    def outcome(self, context, inputs, named, out):
        try:
            got = context.run(*inputs, out=out, **named)
        except Exception as error:
            return type(error), str(error)
        for name, array in (out or {}).items():
            self.assertTrue(array is None or got[name.partition(':')[0]] is array)
        return [(name, np.from_dlpack(y).tolist()) for name, y in got.items()]

    def test_same_outcomes(self):
        from halftone._no_call import NoCall
        x, n = self.variants((2, 3), np.float32), self.variants((3,), np.int64)
        y, m = self.variants((2, 3), np.float32), self.variants((3,), np.int64)
        fast, slow = self.program.context(), self.program.context()
        slow._call = NoCall()
        fast.run(x['right'], n['right'])
        done = []
        run = fast._call.run
        fast._call = type('Watched', (), {'run': lambda self, *a: done.append(run(*a)) or done[-1], 'acquire': fast._call.acquire,
                                          'release': fast._call.release, 'slow': fast._call.slow, 'close': fast._call.close})()
        right = x['right'], n['right']
        cases = [((a, n['right']), {}, None) for a in x.values()] + [((x['right'], b), {}, None) for b in n.values()]
        cases += [((x['right'],), {'n': b}, None) for b in n.values()] + [(right, {}, {'y': o}) for o in y.values()]
        cases += [(right, {}, {'m:0': o, 'y': y['right']}) for o in m.values()]
        cases += [((), {}, None), (right, {'x': x['right']}, None), (right * 2, {}, None), ((), {'x': right[0], 'z': right[1]}, None),
                  (({'x': right[0], 'n': right[1]},), {}, None), ((), {'n:0': right[1], 'x:0': right[0]}, None), (right, {}, {'z': y['right']}),
                  (right, {}, {'y': right[0]}), (right, {}, {'y': y['right'], 'y:0': y['right']}), (right, {}, {}), (right, {}, [1]),
                  ((x['right'][:, :], n['right']), {}, {'y': x['right'].base if x['right'].base is not None else x['right']})]
        for inputs, named, out in cases:
            with self.subTest([type(i) for i in inputs], named=list(named), out=out):
                want = self.outcome(slow, inputs, named, out)
                self.assertEqual(self.outcome(fast, inputs, named, out), want)
        own = [d for d in done if d is not None]
        self.assertGreater(len(own), 15)  # call.c did not leave all of them to the Python code
        self.assertLess(len(own), len(cases) / 2)

    def test_arrays_that_run_code(self):
        """Reading an attribute of an array may call the context that reads it, or close it."""
        c, a = self.program.context(), np.ones((2, 3), np.float32)
        n = np.ones(3, np.int64)
        c.run(a, n)
        seen = []

        class Calls(np.ndarray):
            @property
            def dtype(self):
                try:
                    seen.append(c.run(a, n))
                except (ht.UsageError, ValueError) as error:
                    seen.append(error)
                return np.dtype(np.float32)

        class Closes(np.ndarray):
            @property
            def dtype(self):
                c.close()
                return np.dtype(np.float32)

        c.run(a.view(Calls), n)
        self.assertRegex(str(seen[0]), 'in one thread at a time')
        np.testing.assert_array_equal(c.run(a, n)['y'], -a)
        with self.assertRaisesRegex(ValueError, 'this Context is closed'):
            c.run(a.view(Closes), n)

    def test_references(self):
        """Neither code leaks or loses a reference."""
        c, a, n = self.program.context(), np.ones((2, 3), np.float32), np.ones(3, np.int64)
        out = {'y': np.empty((2, 3), np.float32)}
        c.run(a, n, out=out)
        watched = a, n, out, out['y'], a.dtype, n.dtype

        def counts():
            return [sys.getrefcount(o) for o in watched]

        before = counts()
        for _ in range(1000):
            c.run(a, n=n, out=out)
            c.run(a, n)
            with self.assertRaises(ht.InputError):
                c.run(a[:1], n)
            with self.assertRaises(ht.InputError):
                c.run(a, n, out={'y': a})
        self.assertLess(max(abs(p - q) for p, q in zip(before, counts())), 500)

    def test_threads_in_one_context(self):
        c, a, n = self.program.context(), np.ones((2, 3), np.float32), np.ones(3, np.int64)
        c.run(a, n)
        wrong = []

        def work():
            for _ in range(3000):
                try:
                    if not np.array_equal(c.run(a, n)['y'], -a):
                        wrong.append('result')
                except ht.UsageError as error:
                    if 'one thread at a time' not in str(error):
                        wrong.append(error)

        workers = [threading.Thread(target=work) for _ in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        self.assertEqual(wrong, [])


class Messages(FolderCase):
    def test_places(self):
        path = self.path('bad.hir', b'hir 1\nentry "" {\n  input "x" = %y\n}\n')
        with self.assertRaises(ht.InputError) as raised:
            ht.load(path)
        self.assertEqual((raised.exception.path, raised.exception.code), (path, 3))
        self.assertGreater(raised.exception.line, 1)
        self.assertEqual(raised.exception.messages[0].severity, 'error')
        self.assertTrue(str(raised.exception).startswith(f'{path}:'))

    def test_classes(self):
        for error, base, call in (
                (ht.SystemFailure, OSError, lambda: ht.load(self.path('none.pb'))),
                (ht.UsageError, ValueError, lambda: ht.Policy('force_fp61')),
                (ht.UnsupportedError, NotImplementedError, lambda: ht.Policy('force_fp16', aoe_mode=2)),
                (ht.LimitError, ht.HalftoneError, lambda: ht.load(SMALL, max_nodes=2)),
                (ht.Verdict, ht.HalftoneError, lambda: ht.load(SMALL).explain().check(
                    ht.load(SMALL).explain('force_fp16'), 'new-cast'))):
            with self.subTest(error), self.assertRaises(error) as raised:
                call()
            self.assertIsInstance(raised.exception, base)
            self.assertTrue(str(raised.exception))

    def test_near(self):
        with self.assertRaises(ht.UsageError) as raised:
            ht.Policy('force_fp61')
        self.assertEqual(raised.exception.near, ('force_fp16',))

    def test_notes_and_warnings(self):
        with self.assertLogs('halftone', logging.INFO) as log:
            ht.load(SMALL).explain('force_fp16')
        self.assertIn('the open first dimension counts as one row', log.output[0])
        with self.assertWarnsRegex(ht.HalftoneWarning, 'ac_parallel_enable') as warned:
            ht.Policy('force_fp16', ac_parallel_enable=1).validate()
            ht.load(SMALL).explain('force_fp16', options={'ac_parallel_enable': 1})
        self.assertEqual(warned.filename, __file__)
        with warnings.catch_warnings():
            warnings.simplefilter('error')
            warnings.simplefilter('ignore', ht.HalftoneWarning)
            ht.load(SMALL).explain('force_fp16', options={'ac_parallel_enable': 1})

    def test_arguments(self):
        for call in (lambda: ht.load(7), lambda: ht.load('a\0b'), lambda: ht.load(SMALL).with_(shapes={'x': (1.5, 4)}),
                     lambda: ht.load(SMALL).with_(shapes={'x': (-2, 4)}), lambda: ht.load(SMALL).compile(target=3)):
            with self.assertRaises((TypeError, ValueError, AttributeError)):
                call()


class Decisions(FolderCase):
    def test_report(self):
        m = ht.load(SMALL)
        r = m.explain('force_fp16')
        self.assertEqual([n['node'] for n in r.nodes], ['x', 'w', 'y', 'top'])
        row = next(row for row in r.table() if row['node'] == 'y')
        self.assertEqual((row['from'], row['to']), ('float32', 'float16'))
        self.assertIn('float16', repr(r.table()))
        self.assertEqual(r.why_not('w', 'float16'), 'fixed: a constant')
        self.assertEqual({u['node'] for u in r.why_not(dtype='f16')}, {'x', 'w'})
        self.assertIn('digraph', r.dot())
        self.assertIn('y', r.text('y'))
        r.save(self.path('r.json'))
        self.assertEqual(ht.load(SMALL).explain(self.path('r.json')).casts, r.casts)
        self.assertTrue(r.diff(m.explain()))
        ht.Report.read(self.path('r.json')).check(r, 'new-cast', 'lower-precision')
        self.assertIn('force_fp16', repr(r))

    def test_budget(self):
        p = ht.Policy('optimal', budget='rel<=0.01')
        p.add_sample({'x': x(1)}, 'mine')
        self.assertTrue(ht.load(SMALL).explain(p).to_dict())
        with self.assertRaises(ht.InputError):
            p.add_sample({'x': object()})

    def test_tables(self):
        self.assertIn('force_fp16', [p['name'] for p in ht.policies()])
        self.assertIn('x86-64-v3', json.dumps(ht.targets()))
        for table in ht.profiles, ht.ops, ht.fusions:
            self.assertTrue(table())
        self.assertIn('fold', ht.passes())
        options = ht.options()
        self.assertEqual(options['aoe_mode'].kind, 'refused')
        self.assertEqual(ht.option('allow-hf32').name, 'allow_hf32')
        self.assertRaises(KeyError, ht.option, 'nonsense')
        ht.check_option('allow_hf32', True)
        self.assertRaises(ht.UsageError, ht.check_option, 'allow_hf32', 'x')
        ht.check_settings({'precision_mode': 'force_fp16'})
        self.assertRaises(ht.UsageError, ht.check_settings, {'precision_mode': 'force_fp61'})
        self.assertIn('19', ht.build_info().__repr__())

    def test_config(self):
        path = self.path('run.json', b'{"graph_run_mode": 0, "precision_mode": "force_fp16"}')
        self.assertEqual(ht.config(path)['precision_mode'], 'force_fp16')
        p = ht.load(SMALL).compile(options=ht.config(path))
        self.assertEqual(p.info.policy, 'force_fp16')
        with self.assertRaises(ht.InputError) as raised:
            ht.config(self.path('bad.json', b'{\n"precision_mod": "force_fp16"}'))
        self.assertEqual(raised.exception.line, 2)


class Caches(FolderCase):
    def test_hits(self):
        c, m = ht.cache.Cache(self.path('cache')), ht.load(SMALL)
        self.assertRaises(ht.Verdict, c.why_miss, m)
        m.compile(cache=c)
        c.why_miss(m)
        m.compile(cache=c)
        c.close()
        c = ht.cache.Cache(self.path('cache'))
        self.assertEqual(c.stats()['graph_hits'], 1)
        key, = c.key(m)
        c.pin(key)
        self.assertTrue(os.path.exists(c.path(key)))
        c.export(self.path('all'))
        other = ht.cache.Cache(self.path('other'))
        # The rates of a machine without a table of costs are measured, and stay on it.
        rates = sum(len(files) for _, _, files in os.walk(self.path('cache/v1/rates')))
        self.assertEqual(other.import_(self.path('all')).entries, c.verify().entries - rates)
        self.assertEqual(c.gc(0).entries, 1)  # the pinned one
        with self.assertRaises(ht.Verdict):
            ht.load(SMALL).compile('force_fp16', cache=ht.cache.Cache(self.path('empty'), must_hit=True))
        self.assertRaises(ht.UsageError, ht.cache.Cache, self.path('cache'), 'sometimes')
        self.assertRaises(ht.UsageError, c.gc, -1)


class Everything(FolderCase):
    """The C API in Python: every function is used, and Ctrl-C can interrupt each long call."""

    # Functions that Python replaces by something else, or does not need.
    WITHOUT = {
        'ht_profiling_value': 'for the tool', 'ht_mean_interval_of': 'likewise', 'ht_comparison_rows': 'the JSON has them', 'ht_comparison_failed': 'for reports of several models', 'ht_worse_status': 'likewise', 'ht_search_rows': 'likewise', 'ht_search_look': 'likewise', 'ht_search_members': 'likewise',
        'ht_context_recording': 'trace() and profile_table() have it', 'ht_context_iterations': 'iterations() has each',
        'ht_model_compute_defaults': 'a run is fed all inputs of its program',
        'ht_program_tell_memory': 'for the tool, which knows beforehand how much memory is free',
        'ht_program_save': 'save() writes one program as it writes several',
        'ht_model_set_open': 'ht_model_set_open_dimension() serves every dimension', 'ht_model_open_size_name': 'Python has the names that it sets', 'ht_program_open': 'likewise of ht_program_open_dimension()',
        'ht_program_tensor': 'for dumps, which the tool writes', 'ht_context_see': 'likewise', 'ht_contexts_trace': 'for phases of trainings, of which the tool makes one timeline',
        'ht_artefact_writer_take': 'programs belong to their Python objects', 'ht_artefact_writer_spill': 'likewise',
        'ht_session_steps': 'Session.loop() is made of steps, whose feeds may have other shapes',
        'ht_artefact_writer_add_entry': 'the tool writes artefacts of entries', 'ht_artefact_writer_add_values': 'likewise',
        'ht_context_variable_unchanged': 'nobody in Python has the address of a variable',
        'ht_cache_graph_key_check': 'Cache(graph_key=...) checks it', 'ht_tool_signals': 'signals are those of the interpreter',
        **{f'ht_threads_{what}': 'for nets in C' for what in ('new', 'free', 'run', 'barrier')},
    }
    # Functions that return at once, whatever the model.
    SHORT = {
        'ht_artefact_writer_add', 'ht_artefact_writer_new', 'ht_build_info', 'ht_cache_entry_path', 'ht_cache_open',
        'ht_cache_close', 'ht_context_count', 'ht_context_divide', 'ht_context_output', 'ht_context_record', 'ht_cache_pin', 'ht_cache_stats_reset', 'ht_diags_get', 'ht_diags_line', 'ht_config_parse', 'ht_config_read', 'ht_context_new',
        'ht_list', 'ht_model_set_batch', 'ht_model_set_inputs', 'ht_model_set_open_dimension', 'ht_model_set_open_size', 'ht_model_set_outputs', 'ht_model_set_shape', 'ht_model_widen', 'ht_option_check',
        'ht_policy_add_sample', 'ht_policy_new', 'ht_policy_parse', 'ht_policy_set', 'ht_policy_validate',
        'ht_program_announce', 'ht_program_memory_for', 'ht_program_output_for', 'ht_program_run_at_most', 'ht_program_use_pages', 'ht_settings_check', 'ht_file_write', 'ht_use_device',
        'ht_context_input_unchanged', 'ht_model_set_steady',
        'ht_session_assign', 'ht_session_new', 'ht_session_scale_loss', 'ht_session_take',
    }

    def calls(self):
        """{function of the library: a call that uses it}"""
        m, one = ht.load(SMALL), np.ones((1, 4), np.float32)
        p, c = m.compile(cache='off'), lambda: ht.cache.Cache(self.path('cache'))  # an interrupted call closes its object
        p.save(self.path('m.htx'))
        c().export(self.path('all'))
        key, context = self.path('key.pem'), p.context()
        session = ht.load(TRAINING).session(train_op='train', loss='loss')
        step = lambda: session.step(x=np.ones((8, 4), np.float32), y=np.ones((8, 1), np.float32), rate=np.float32(.1))
        recorded = p.context()
        recorded.record()
        return {
            'ht_model_load': lambda: ht.load(SMALL), 'ht_model_inspect': m.inspect, 'ht_model_missing': m.missing, 'ht_compile': lambda: m.compile(cache='off'),
            'ht_report_new': m.explain, 'ht_convert': lambda: m.convert(path=self.path('o.pb')), 'ht_rewrite': lambda: m.rewrite('fold'),
            'ht_emit_code': lambda: m.emit('asm'), 'ht_aot_write': lambda: ht.aot(p, self.path('net')),
            'ht_aot_load': lambda: ht.aot(self.path('m.htx'), self.path('net')), 'ht_artefact_writer_write': lambda: p.save(self.path('o.htx')),
            'ht_artefact_diff': lambda: ht.diff(self.path('m.htx'), self.path('m.htx')),
            'ht_artefact_sign': lambda: ht.sign(self.path('m.htx'), key), 'ht_program_load': lambda: ht.Program.load(self.path('m.htx')),
            'ht_artefact_manifest': lambda: ht.manifest(self.path('m.htx')), 'ht_cache_stats': lambda: c().stats(),
            'ht_context_trace': recorded.trace, 'ht_measure_rates': ht.measure_rates,
            'ht_report_print': lambda: m.explain().text(), 'ht_report_why_not': lambda: m.explain().why_not(),
            'ht_report_diff': lambda: m.explain().diff(m.explain()), 'ht_report_check': lambda: m.explain().check(m.explain(), 'new-cast'),
            'ht_report_read': lambda: ht.Report.read(self.path('r.json')),
            'ht_context_run': lambda: context.run(one), 'ht_session_run': step, 'ht_cache_verify': lambda: c().verify(), 'ht_cache_gc': lambda: c().gc(1),
            'ht_cache_age': lambda: c().age(1, 1, 1), 'ht_cache_export': lambda: c().export(self.path('o')),
            'ht_cache_import': lambda: c().import_(self.path('all')), 'ht_cache_key_of': lambda: c().key(m), 'ht_cache_why_miss': lambda: c().why_miss(m),
        }

    def test_every_function(self):
        from halftone import _api
        text = ''
        folder = os.path.dirname(ht.__file__)
        for file in os.listdir(folder):
            if file.endswith('.py') and file != '_api.py':
                with open(os.path.join(folder, file)) as f:
                    text += f.read()
        self.assertEqual({f for f in _api.FUNCTIONS if not re.search(rf'\b{f}\b', text)}, set(self.WITHOUT))

    def test_every_long_call_is_interrupted(self):
        """The library's function does not return before the exception is raised."""
        from halftone import _api, _library
        calls = self.calls()
        headers = ''
        for name in 'halftone', 'runtime', 'cache', 'tool':
            with open(f'{environment.ROOT}/include/halftone/{name}.h') as f:
                headers += f.read()
        fail = set(re.findall(r'HT_API enum ht_status\s+(ht_\w+)\([^;]*struct ht_diags \*d', headers)) | {'ht_cache_close'}
        self.assertEqual(fail - set(self.WITHOUT), self.SHORT | set(calls))
        lib = _library.lib
        for name, use in calls.items():
            with self.subTest(name):
                begun, end = threading.Event(), threading.Event()

                def held(*_, begun=begun, end=end):
                    begun.set()
                    if threading.current_thread() is not threading.main_thread():  # here Python would end a wait
                        end.wait()
                    return _api.HT_E_INTERNAL

                def interrupt(begun=begun, end=end):
                    begun.wait()
                    if not end.is_set():
                        os.kill(os.getpid(), signal.SIGINT)

                original = getattr(lib, name)
                setattr(lib, name, held)
                sender = threading.Thread(target=interrupt)
                sender.start()
                try:
                    with self.assertRaises(KeyboardInterrupt):
                        use()
                    self.assertFalse(end.is_set())
                finally:
                    end.set()
                    begun.set()
                    sender.join()
                    setattr(lib, name, original)
                    for thread in threading.enumerate():
                        if thread.name == 'halftone':
                            thread.join()

    def test_files(self):
        m = ht.load(SMALL)
        m.compile(cache='off').save(self.path('a.htx'))
        m.compile('force_fp16', cache='off').save(self.path('b.htx'))
        self.assertTrue(ht.diff(self.path('a.htx'), self.path('b.htx'))['differences'])
        same = ht.diff(self.path('a.htx'), self.path('a.htx'))
        self.assertEqual(same['differences'], [])
        key, public = self.path('key.pem'), self.path('public.pem')
        subprocess.run(['openssl', 'genpkey', '-algorithm', 'ed25519', '-out', key], check=True, capture_output=True)
        subprocess.run(['openssl', 'pkey', '-in', key, '-pubout', '-out', public], check=True, capture_output=True)
        ht.sign(self.path('a.htx'), key, self.path('signed.htx'))
        ht.Program.load(self.path('signed.htx'), require_signature=public)
        with self.assertRaises(ht.InputError):
            ht.Program.load(self.path('a.htx'), require_signature=public)
        ht.save([m.compile(target=t, cache='off') for t in ('x86-64', 'x86-64-v3')], self.path('two.htx'))
        files = ht.aot(self.path('two.htx'), self.path('net'), name='two')
        self.assertIn('x86-64-v3', json.dumps(files) + self.read('net/two.h').decode())
        with self.assertRaises(ht.HalftoneError):
            ht.aot(self.path('two.htx'), self.path('net'), targets=['znver4'])

    def test_halves(self):
        every = np.arange(1 << 16, dtype=np.uint16)
        for halves in every.view(np.float16), every.view(ml_dtypes.bfloat16):
            want = halves.astype(np.float32)
            if halves.dtype != np.float16:
                want = np.where(np.abs(want) < 2 ** -126, np.copysign(np.float32(0), want), want)  # subnormals count as zero
            got = ht.widen(halves)
            np.testing.assert_array_equal(got, want)
            finite = np.isfinite(want)
            np.testing.assert_array_equal(ht.narrow(got[finite], halves.dtype.name), want[finite].astype(halves.dtype))
        np.testing.assert_array_equal(ht.widen(every), ht.widen(every.view(ml_dtypes.bfloat16)))
        for call in lambda: ht.widen(np.ones(2, np.float32)), lambda: ht.narrow([1], 'float64'), lambda: ht.narrow([1], 'half'):
            self.assertRaises((ht.UsageError, ht.InputError), call)


class Progress(FolderCase):
    def test_a_function(self):
        told = []
        ht.load(SMALL).compile(cache='off', progress=lambda *what: told.append(what))
        self.assertEqual([phase for phase, done, _ in told if not done], ['passes', 'lower', 'weights', 'code'])
        self.assertEqual(told[-1][1:], (told[-1][2], told[-1][2]))

    def test_a_function_that_raises(self):
        for phase in 'passes', 'lower', 'weights', 'code':
            def stop(now, *_, phase=phase):
                if now == phase:
                    raise KeyError(phase)
            with self.assertRaisesRegex(KeyError, phase):
                ht.load(SMALL).compile(cache='off', progress=stop)

    def test_another_thread(self):
        told = []
        worker = threading.Thread(target=lambda: ht.load(SMALL).compile(cache='off', progress=lambda *what: told.append(what)))
        worker.start()
        worker.join()
        self.assertGreater(len(told), 4)


if __name__ == '__main__':
    unittest.main()
