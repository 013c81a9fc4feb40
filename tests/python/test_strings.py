#!/usr/bin/env python3
"""Strings from Python and through the C API: any bytes in and out, like TensorFlow's, and arrays whose layout differs
from the header's are refused."""
import ctypes, os, unittest

from package import environment
from case import FolderCase

import numpy as np
import halftone as ht
from halftone import _api
from halftone._library import lib

TABLE = r'''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
  output "z" = %z
  output "n" = %n
}
%x = Placeholder() {dtype=str, shape=shape[4]}
%keys = Const() {dtype=str, value=tensor str[3] values 3 strings {"", "a\x00", "\xff\xfe"}}
%values = Const() {dtype=i64, value=tensor i64[3] {3, 5, 7}}
%none = Const() {dtype=i64, value=tensor i64[] {-1}}
%labels = Const() {dtype=str, value=tensor str[3] values 3 strings {"zero", "one\x00", ""}}
%other = Const() {dtype=str, value=tensor str[] values 1 strings {"?"}}
%numbers = Const() {dtype=i64, value=tensor i64[3] {3, 5, 7}}
%table = HashTableV2() {key_dtype=str, value_dtype=i64, shared_name="names"}
%fill = LookupTableImportV2(%table, %keys, %values) {Tin=str, Tout=i64}
%back = HashTableV2() {key_dtype=i64, value_dtype=str, shared_name="back"}
%fill_back = LookupTableImportV2(%back, %numbers, %labels) {Tin=i64, Tout=str}
%n = LookupTableFindV2(%table, %x, %none) {Tin=str, Tout=i64}
%y = LookupTableFindV2(%back, %n, %other) {Tin=i64, Tout=str}
%z = Identity(%x) {T=str}
'''
LABEL = {b'': b'zero', b'a\0': b'one\0', b'\xff\xfe': b''}


def block(strings, offsets=None):
    ends = np.cumsum([0, *map(len, strings)], dtype='u8') if offsets is None else np.array(offsets, 'u8')
    return ends.tobytes() + b''.join(strings)


class Strings(FolderCase):
    def setUp(self):
        super().setUp()
        self.program = ht.load(self.path('table.hir', TABLE.encode())).compile()

    def expect(self, got, strings):
        self.assertEqual(got['z'].tolist(), list(strings))
        self.assertEqual(got['y'].tolist(), [LABEL.get(s, b'?') for s in strings])
        self.assertEqual(got['n'].tolist(), [{b'': 3, b'a\0': 5, b'\xff\xfe': 7}.get(s, -1) for s in strings])

    def test_described(self):
        self.assertEqual([repr(t) for t in self.program.inputs + self.program.outputs],
                         ['x: string[4]', 'y: string[4]', 'z: string[4]', 'n: int64[4]'])

    def test_values(self):
        """Empty strings, strings with zeros inside and at the end, not UTF-8, long; many runs of one context."""
        context = self.program.context(threads=2)
        r = np.random.default_rng(8301)
        for _ in range(50):
            strings = [[b'', b'a\0', b'\xff\xfe', r.bytes(int(r.integers(0, 40))), r.bytes(100000)][i] for i in r.integers(0, 5, 4)]
            self.expect(context.run(np.array([*strings, None], object)[:4]), strings)
            self.expect(self.program(x=strings), strings)

    def test_forms(self):
        """NumPy arrays of bytes and of text, which becomes UTF-8, and arrays for the outputs."""
        self.assertEqual(self.program(np.array(['ä', 'a', '', 'b']))['z'].tolist(), ['ä'.encode(), b'a', b'', b'b'])
        self.assertEqual(self.program(np.array([b'x', b'yy', b'', b'\xff\xfe']))['n'].tolist(), [-1, -1, 3, 7])
        z = np.empty(4, object)
        self.assertIs(self.program(['a', b'b', '', 'c'], out={'z': z})['z'], z)
        self.assertEqual(z.tolist(), [b'a', b'b', b'', b'c'])

    def test_refused(self):
        for x in [1, 2, 3, 4], ['a', 'b', 'c'], ['a', None, 'b', 'c'], np.zeros(4, 'f4'), ['\ud800', '', '', '']:
            with self.assertRaises(ht.InputError):
                self.program(x=x)
        for z in np.empty(4, 'S3'), np.empty(3, object):
            with self.assertRaisesRegex(ht.InputError, 'one of objects'):
                self.program(x=['a'] * 4, out={'z': z})
        with self.assertRaisesRegex(ht.UsageError, 'strings are copied'):
            self.program.context().bind(['a'] * 4)

    def test_artefact(self):
        path = self.path('m.htx')
        self.program.save(path)
        strings = [b'\xff\xfe', b'a\0', b'a', b'']
        self.expect(ht.Program.load(path)(x=strings), strings)

    def test_tensorflow(self):
        environment.enter_venv()
        import tensorflow as tf
        r = np.random.default_rng(8302)
        keys = list({r.bytes(int(n)) for n in r.integers(0, 30, 200)} | {b'', b'\0', b'\0\0', b'x' * 100000})
        labels = [r.bytes(int(n)) for n in r.integers(0, 30, len(keys))]
        with tf.Graph().as_default() as g:
            x = tf.compat.v1.placeholder(tf.string, [60], 'x')
            table = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.string)
            fill = tf.raw_ops.LookupTableImportV2(table_handle=table, keys=tf.constant(keys), values=tf.constant(labels))
            y = tf.raw_ops.LookupTableFindV2(table_handle=table, keys=x, default_value=tf.constant(b'\0none\0'), name='y')
            tf.equal(y, tf.reverse(x, [0]), name='same')
        program = ht.load(self.path('g.pb', g.as_graph_def().SerializeToString()), outputs=['y', 'same']).compile()
        with tf.compat.v1.Session(graph=g) as session:
            session.run(fill)
            for _ in range(5):
                strings = [keys[i] if i < len(keys) else r.bytes(9) for i in r.integers(0, 2 * len(keys), 60)]
                want, same = session.run(['y:0', 'same:0'], {'x:0': np.array([*strings, None], object)[:60]})
                got = program(x=strings)
                self.assertEqual(got['y'].tolist(), want.tolist())
                self.assertEqual(got['same'].tolist(), same.tolist())


class Layout(FolderCase):
    """The arrays of the C API."""
    def setUp(self):
        super().setUp()
        self.program = ht.load(self.path('table.hir', TABLE.encode())).compile()
        self.context = self.program.context()
        self.dim = (ctypes.c_int64 * 1)(4)
        self.n = (ctypes.c_int64 * 4)()

    def array(self, data, size, dtype=_api.HT_STRING):
        return _api.ht_array(data=data, bytes=size, dtype=dtype, rank=1, dim=self.dim)

    def run_with(self, given, room=None):
        """The status, its message and the contents of the memory for output z."""
        keep = ctypes.create_string_buffer(given, len(given))
        z = ctypes.create_string_buffer(room or 1)
        ins = (_api.ht_array * 1)(self.array(ctypes.addressof(keep), len(given)))
        outs = (_api.ht_array * 3)(self.array(None, 0), self.array(ctypes.addressof(z) if room else None, room or 0),
                                   self.array(ctypes.addressof(self.n), 32, _api.HT_I64))
        diags = lib.ht_diags_new()
        status = lib.ht_context_run(self.context._handle, ins, 1, outs, 3, diags)
        message = _api.ht_message()
        said = message.text.decode() if status and not lib.ht_diags_get(diags, 0, message) else ''
        lib.ht_diags_free(diags)
        return status, said, z.raw

    def test_refused(self):
        four = [b'ab', b'', b'c', b'd']
        for given, n in ((b'', 0), (block(four)[:39], 0), (block(four)[:-1], 4), (block(four) + b'x', 4), (block(four, [0, 2, 1, 3, 4]), 2),
                         (block(four, [1, 2, 2, 3, 4]), 0), (block(four, [0, 2, 2, 2**63, 4]), 4)):
            words = f"the {len(given)} bytes of input 'x' are no 4 strings behind their offsets: offset {n} is wrong"
            status, said, _ = self.run_with(given)
            self.assertEqual(status, _api.HT_E_INPUT)
            self.assertIn(words, said)
            size = ctypes.c_size_t(1)
            self.assertFalse(lib.ht_context_strings(self.context._handle, 1, size))
            self.assertEqual(size.value, 0)

    def test_room(self):
        strings = [b'ab', b'', b'\xff\xfe', b'd\0']
        given = block(strings)
        self.assertEqual(self.run_with(given, len(given)), (_api.HT_OK, '', given))
        self.assertEqual(self.run_with(given, len(given) + 9)[2][:len(given)], given)
        status, said, _ = self.run_with(given, len(given) - 1)
        self.assertEqual((status, said), (_api.HT_E_INPUT, f"output 'z' has room for {len(given) - 1} bytes; its strings and offsets have {len(given)}"))
        self.assertEqual(self.run_with(given)[0], _api.HT_OK)
        for i, want in enumerate([[LABEL.get(s, b'?') for s in strings], strings]):
            size = ctypes.c_size_t()
            self.assertEqual(ctypes.string_at(lib.ht_context_strings(self.context._handle, i, size), size.value), block(want))
        self.assertFalse(lib.ht_context_strings(self.context._handle, 2, size))
        self.assertFalse(lib.ht_context_strings(self.context._handle, 3, size))

    def test_any_address(self):
        given = block([b'ab', b'', b'c', b'd'])
        keep = ctypes.create_string_buffer(b'x' + given, len(given) + 1)
        ins = (_api.ht_array * 1)(self.array(ctypes.addressof(keep) + 1, len(given)))
        outs = (_api.ht_array * 3)(self.array(None, 0), self.array(None, 0), self.array(ctypes.addressof(self.n), 32, _api.HT_I64))
        self.assertEqual(lib.ht_context_run(self.context._handle, ins, 1, outs, 3, None), _api.HT_OK)


if __name__ == '__main__':
    unittest.main()
