#!/usr/bin/env python3
"""Files of records with TensorFlow: trainings on files of tf.train.Example that TensorFlow wrote give the same bits as
trainings on arrays; damaged files are located errors; event files have the values of the log, as TensorFlow and
TensorBoard read them.

Exit code 77: nothing to test with.
"""
import glob
import gzip
import json
import os
import resource
import struct
import subprocess
import sys
import unittest

from beside import HERE, environment, np, tf, v1

sys.path.insert(0, os.path.join(HERE, '..', 'cli'))
from tool import ToolCase  # noqa: E402

ROWS = 50
MODEL = os.path.join(HERE, '..', 'cli', 'train.hir')
TYPED = '''hir 1
entry "" {
  input "image" = %image
  input "label" = %label
  input "flag" = %flag
  output "loss" = %loss
}
%image = Placeholder() {dtype=u8, shape=shape[?,2,?]}
%label = Placeholder() {dtype=i32, shape=shape[?]}
%flag = Placeholder() {dtype=bool, shape=shape[?,1]}
%w = VarHandleOp() {container="", dtype=f32, shape=shape[], shared_name="w"}
%zero = Const() {dtype=f32, value=tensor f32[] {0.0}}
%w/Assign = AssignVariableOp(%w, %zero) {dtype=f32}
%image/f = Cast(%image) {DstT=f32, SrcT=u8, Truncate=false}
%label/f = Cast(%label) {DstT=f32, SrcT=i32, Truncate=false}
%flag/f = Cast(%flag) {DstT=f32, SrcT=bool, Truncate=false}
%axis = Const() {dtype=i32, value=tensor i32[3] {0, 1, 2}}
%axis0 = Const() {dtype=i32, value=tensor i32[1] {0}}
%axis1 = Const() {dtype=i32, value=tensor i32[2] {0, 1}}
%a = Sum(%image/f, %axis) {T=f32, Tidx=i32, keep_dims=false}
%b = Sum(%label/f, %axis0) {T=f32, Tidx=i32, keep_dims=false}
%c = Sum(%flag/f, %axis1) {T=f32, Tidx=i32, keep_dims=false}
%w/read = ReadVariableOp(%w) {dtype=f32}
%cw = Add(%c, %w/read) {T=f32}
%ab = Add(%a, %b) {T=f32}
%loss = Add(%ab, %cw) {T=f32}
%step = AssignAddVariableOp(%w, %loss) {dtype=f32}
%train = NoOp(^step)
'''


def feature(values, packed=True):
    """A tf.train.Feature: floats, integers or bytes."""
    if isinstance(values, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[values]))
    if isinstance(values, list) and values and isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if np.asarray(values).dtype.kind == 'f':
        return tf.train.Feature(float_list=tf.train.FloatList(value=np.ravel(values)))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=np.ravel(values)))


def write(path, rows, options=None):
    with tf.io.TFRecordWriter(path, options) as w:
        for row in rows:
            example = tf.train.Example(features=tf.train.Features(feature={k: feature(v) for k, v in row.items()}))
            w.write(example.SerializeToString())


def events(folder):
    """{tag: [(step, value)]} of all files, by TensorFlow's reader."""
    got = {}
    for path in sorted(glob.glob(os.path.join(folder, 'events.out.tfevents.*'))):
        for e in v1.train.summary_iterator(path):
            for v in e.summary.value:
                got.setdefault(v.tag, []).append((e.step, v.simple_value))
    return got


class Records(ToolCase):
    def setUp(self):
        super().setUp()
        r = np.random.default_rng(1)
        self.x = r.uniform(-1, 1, (ROWS, 4)).astype('f4')
        self.y = self.x @ np.array([[1.5], [-2], [.5], [3]], 'f4')
        np.save(self.at('x.npy'), self.x)
        np.save(self.at('y.npy'), self.y)
        self.rows = [{'x': a, 'y': b, 'name': b'row', 'many': [b'a', b'b']} for a, b in zip(self.x, self.y)]
        self.records = self.at('all.tfrecord')
        write(self.records, self.rows)

    def at(self, name):
        return os.path.join(self.dir, name)

    def train(self, x, y, *more, code=0, model=MODEL):
        return self.tool('train', model, '--data', f'x=@{x}', '--data', f'y=@{y}', '--loss', 'loss', '--train-op', 'train', '--feed',
                         'rate=0.05', '--batch', '8', '--no-cache', '--steps', '20', *more, code=code)

    def bytes_of(self, *args):
        self.train(*args, '--save', self.at('save'))
        with open(self.at('save/ckpt-20.data-00000-of-00001'), 'rb') as f:
            return f.read()

    def fails_with(self, pattern, x, y=None, code=3):
        self.assertRegex(self.train(x, y or self.at('y.npy'), code=code).err, pattern)

    # ---- examples ----

    def test_same_bits_as_arrays(self):
        want = self.bytes_of(self.at('x.npy'), self.at('y.npy'))
        self.assertEqual(self.bytes_of(self.records, self.records), want)
        self.assertEqual(self.bytes_of(self.records + '#x', self.at('y.npy')), want)
        write(self.at('named.tfrecords'), [{'in/x': r['x'], 'y': r['y'].tobytes()} for r in self.rows])  # raw bytes
        self.assertEqual(self.bytes_of(self.at('named.tfrecords') + '#in/x', self.at('named.tfrecords')), want)

    def test_many_files(self):
        """Rows follow each other in the order of the files' names; one file is empty."""
        for i, (low, high) in enumerate(((0, 17), (17, 17), (17, 18), (18, 50))):
            write(self.at(f'part.tfrecord-{i:05}-of-00004'), self.rows[low:high])
        both = self.at('part.tfrecord-*')
        self.assertEqual(self.bytes_of(both, both), self.bytes_of(self.at('x.npy'), self.at('y.npy')))
        self.fails_with('50 rows', self.at('part.tfrecord-00003-of-00004'), self.at('y.npy'))
        self.fails_with('there are no rows', self.at('part.tfrecord-00001-of-00004'))
        self.fails_with(r'none\.tfrecord-\*.*No such file', self.at('none.tfrecord-*'), code=5)

    def test_evaluation(self):
        r = json.loads(self.train(self.records, self.records, '--format', 'json', '--eval', f'x=@{self.records}', '--eval',
                                  f'y=@{self.records}', '--eval-fetch', 'error').stdout)
        s = json.loads(self.train(self.at('x.npy'), self.at('y.npy'), '--format', 'json', '--eval', f'x=@{self.at("x.npy")}', '--eval',
                                  f'y=@{self.at("y.npy")}', '--eval-fetch', 'error').stdout)
        self.assertEqual(r['evaluation'], s['evaluation'])

    def test_types_and_open_shapes(self):
        """Integers of 32 bits, Booleans, bytes as uint8, an open dimension, a file without packed lists."""
        r = np.random.default_rng(2)
        rows = [{'image': r.integers(0, 256, 6).astype('u1').tobytes(), 'label': r.integers(-2**31, 2**31, 1), 'flag': [i % 2]} for i in range(8)]
        path, model = self.at('typed.tfrecord'), self.path('typed.hir', TYPED.encode())
        write(path, rows)
        want = sum(float(np.frombuffer(row['image'], 'u1').sum()) + row['flag'][0] for row in rows) + float(sum(int(row['label'][0]) for row in rows))
        run = ['train', model, *(a for n in ('image', 'label', 'flag') for a in ('--data', f'{n}=@{path}')), '--loss', 'loss', '--train-op', 'train',
               '--batch', '8', '--steps', '1', '--no-cache', '--format', 'json']
        got = json.loads(self.tool(*run).stdout)['loss']
        self.assertLess(abs(got - want), 1e-5 * 2**31)
        self.assertEqual(self.loose(path), got)
        write(path, [{**rows[0], 'label': [2**31]}])
        self.fails(3, r"typed.tfrecord:.*record 0, feature 'label': 2147483648 is no int32", *run)
        write(path, [{**rows[0], 'flag': [2]}])
        self.fails(3, r"feature 'flag': 2 is no bool", *run)
        write(path, [{**rows[0], 'image': b'12345'}])
        self.fails(3, r"'image' has 5 elements in its first record, which are no row of input 'image'", *run)
        write(path, [{**rows[0], 'image': [1.5] * 6}])
        self.fails(3, r"feature 'image': it has floats, where uint8 is read", *run)

    def loose(self, path):
        """The loss from a copy of the file whose lists of integers are not packed, and whose names occur twice."""
        out, frames = self.at('loose.tfrecord'), [tf.train.Example.FromString(r) for r in v1.io.tf_record_iterator(path)]
        with tf.io.TFRecordWriter(out) as w:
            for e in frames:
                body = b''
                for name, f in e.features.feature.items():
                    value = f.SerializeToString()
                    if f.WhichOneof('kind') == 'int64_list':
                        values = b''.join(b'\x08' + varint(v) for v in f.int64_list.value)
                        value = b'\x1a' + varint(len(values)) + values
                    for v in (feature([7, 8, 9]).SerializeToString(), value):
                        entry = b'\x0a' + varint(len(name)) + name.encode() + b'\x12' + varint(len(v)) + v
                        body += b'\x0a' + varint(len(entry)) + entry
                w.write(b'\x0a' + varint(len(body)) + body)
        done = self.tool('train', self.at('typed.hir'), *(a for n in ('image', 'label', 'flag') for a in ('--data', f'{n}=@{out}')), '--loss', 'loss',
                         '--train-op', 'train', '--batch', '8', '--steps', '1', '--no-cache', '--format', 'json')
        return json.loads(done.stdout)['loss']

    def test_damage(self):
        with open(self.records, 'rb') as f:
            good = f.read()
        length = struct.unpack('<Q', good[:8])[0]
        for at, pattern in ((0, r'bad.tfrecord: byte 0: error: record 0: the checksum of its length is wrong'),
                            (9, 'record 0: the checksum of its length is wrong'), (14, 'byte 12: error: record 0: the checksum of its bytes is wrong'),
                            (12 + length + 1, 'record 0: the checksum of its bytes is wrong'),
                            (12 + length + 4, f'byte {16 + length}: error: record 1: the checksum of its length is wrong')):
            bad = bytearray(good)
            bad[at] ^= 4
            self.fails_with(pattern, self.path('bad.tfrecord', bytes(bad)))
        self.fails_with('record 49 is cut off', self.path('bad.tfrecord', good[:-1]))
        self.fails_with('record 50 is cut off', self.path('bad.tfrecord', good + b'\0' * 3))
        for body, pattern in ((b'\x0a\x07\x0a\x05\x0a\x01x\x12\x00', "record 0, feature 'x': it has no list of values"),
                              (b'\x0a\x7f', r'byte 13: error: tensorflow.Example: field 1 \(features\) says it has 127 bytes; 0 are left'),
                              (b'', "record 0, feature 'x': the record has none of this name")):
            self.fails_with(pattern, *2 * [self.path('bad.tfrecord', frame(body))])
        self.fails_with('the records are compressed', self.path('bad.tfrecord', gzip.compress(good)), code=4)
        self.fails_with('cannot', self.at('none.tfrecord'), code=5)
        self.fails_with('no rows', self.path('bad.tfrecord', b''))

    def test_a_record_that_differs(self):
        """An error is found when its step comes, with the number of the record; damage of a record that no step takes
        does not matter."""
        for change, pattern in (({'x': self.x[0][:3]}, "record 30, feature 'x': it has 3 elements, where 4 are read"),
                                ({'x': [1, 2, 3, 4]}, "record 30, feature 'x': it has integers, where float32 is read"),
                                ({'x': b'123'}, "record 30, feature 'x': its string has 3 bytes, where 4 elements of float32 are 16"),
                                ({'x': [b'a', b'b']}, "record 30, feature 'x': it has 2 strings, where one is read")):
            rows = [*self.rows]
            rows[30] = {**rows[30], **change}
            write(self.at('odd.tfrecord'), rows)
            odd = self.at('odd.tfrecord'), self.at('y.npy'), '--no-shuffle'
            self.assertRegex(self.train(*odd, code=3).err, f'(?s){pattern}.*step 4 failed')
            self.train(*odd, '--steps', '3')
        rows[30] = {'y': [1.]}
        write(self.at('odd.tfrecord'), rows)
        self.assertRegex(self.train(*odd, code=3).err, "record 30, feature 'x': the record has none of this name")
        self.fails_with("record 0, feature 'z': the record has none", self.records + '#z')

    @unittest.skipIf(os.environ.get('HALFTONE_SANITIZE'), 'a sanitizer has memory of its own')
    def test_memory_is_bounded(self):
        """A file of 256 MB with less memory than that."""
        big = {'x': self.x[0], 'y': self.y[0], 'ballast': b'\0' * (1 << 20)}
        write(self.at('big.tfrecord'), [big] * 256)
        limit = 200 << 20
        run = [environment.TOOL, 'train', MODEL, '--data', f'x=@{self.at("big.tfrecord")}', '--data', f'y=@{self.at("big.tfrecord")}', '--loss',
               'loss', '--train-op', 'train', '--feed', 'rate=0.05', '--batch', '8', '--no-cache', '--steps', '40']
        base = subprocess.run([*run[:3], '--data', f'x=@{self.at("x.npy")}', '--data', f'y=@{self.at("y.npy")}', *run[7:]], capture_output=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
        self.assertEqual(base.returncode, 0, base.stderr)
        done = subprocess.run(run, capture_output=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
        self.assertEqual(done.returncode, 0, done.stderr)

    # ---- events ----

    def logged(self, *more):
        log, board = self.at('log'), self.at('board')
        self.train(self.at('x.npy'), self.at('y.npy'), '--log', log, '--tensorboard', board, *more)
        with open(log) as f:
            return [json.loads(line) for line in f], board

    def test_events(self):
        lines, board = self.logged('--loss-scale', 'dynamic:1e38,decr-every=1', '--accelerate-train-mode', 'phases=fast1:5,original:5,fast', '--eval',
                                   f'x=@{self.at("x.npy")}', '--eval', f'y=@{self.at("y.npy")}', '--eval-fetch', 'error', '--eval-every', '7')
        got = events(board)
        steps = [e for e in lines if e['event'] == 'step']
        self.assertEqual([s for s, _ in got['loss']], list(range(1, 21)))
        np.testing.assert_array_equal([v for _, v in got['loss']], np.array([e['loss'] for e in steps], 'f4'))
        np.testing.assert_array_equal([v for _, v in got['loss_scale']], np.array([e['scale'] for e in steps], 'f4'))
        np.testing.assert_array_equal([v for _, v in got['skipped_steps']], np.cumsum([e['skipped'] for e in steps]))
        self.assertGreater(got['skipped_steps'][-1][1], 0)
        self.assertEqual([v for _, v in got['phase']], [2] * 5 + [0] * 5 + [1] * 10)
        self.assertTrue(all(v > 0 for _, v in got['steps_per_second']))
        self.assertEqual([(s, np.float32(v)) for s, v in got['evaluation/error']],
                         [(e['step'], np.float32(e['values']['error'])) for e in lines if e['event'] == 'evaluation'])
        first = next(v1.train.summary_iterator(glob.glob(board + '/*')[0]))
        self.assertEqual(first.file_version, 'brain.Event:2')
        self.assertEqual(self.in_tensorboard(board), {tag: [list(v) for v in values] for tag, values in got.items()})

    def in_tensorboard(self, folder):
        script = os.path.join(HERE, 'tensorboard_scalars.py')
        return json.loads(subprocess.run([sys.executable, script, folder], check=True, stdout=subprocess.PIPE).stdout)

    def test_loops(self):
        lines, board = self.logged('--iterations-per-loop', '8')
        got = events(board)
        self.assertEqual([s for s, _ in got['loss']], [8, 16, 20])
        np.testing.assert_array_equal([v for _, v in got['mean_loss']], np.array([e['mean_loss'] for e in lines if e['event'] == 'loop'], 'f4'))

    def test_resumed(self):
        """A run that continues states the step from which readers drop earlier values."""
        both = ['--save', self.at('save'), '--tensorboard', self.at('board/deep')]
        self.train(self.at('x.npy'), self.at('y.npy'), *both)
        self.train(self.at('x.npy'), self.at('y.npy'), *both, '--resume', self.at('save'), '--steps', '25')
        starts = [(e.step, e.session_log.status) for path in glob.glob(self.at('board/deep/*')) for e in v1.train.summary_iterator(path)
                  if e.HasField('session_log')]
        self.assertEqual(starts, [(21, tf.compat.v1.SessionLog.START)])
        self.assertEqual([s for s, _ in events(self.at('board/deep'))['loss']], list(range(1, 26)))
        self.train(self.at('x.npy'), self.at('y.npy'), *both, '--resume', self.at('save'), '--steps', '30')
        os.remove(self.at('save/checkpoint'))
        self.path('save/checkpoint', b'model_checkpoint_path: "ckpt-20"\n')
        self.train(self.at('x.npy'), self.at('y.npy'), *both, '--resume', self.at('save'), '--steps', '23')
        self.assertEqual([s for s, _ in self.in_tensorboard(self.at('board/deep'))['loss']], list(range(1, 24)))

    def test_sides(self):
        lines, board = self.logged('--policy', 'allow_mix_precision_bf16', '--seeds', '2', '--eval', f'x=@{self.at("x.npy")}', '--eval',
                                   f'y=@{self.at("y.npy")}', '--eval-fetch', 'error')
        sides = 'must_keep_origin_dtype', 'allow_mix_precision_bf16', 'null'
        self.assertEqual(sorted(os.listdir(board)), sorted(f'{s} seed {n}' for s in sides for n in (1, 2)))
        for s in sides:
            for n in 1, 2:
                got = events(os.path.join(board, f'{s} seed {n}'))
                mine = [e for e in lines if e['policy'] == s and e['seed'] == n]
                for tag, key in ('loss', 'loss'), ('gradient_norm', 'gradient_norm'):
                    np.testing.assert_array_equal([v for _, v in got[tag]], np.array([e[key] for e in mine], 'f4'))
                self.assertEqual([s for s, _ in got['evaluation/error']], [20])

    def test_a_folder_that_cannot_be(self):
        self.path('taken', b'')
        self.assertRegex(self.train(self.at('x.npy'), self.at('y.npy'), '--tensorboard', self.at('taken'), code=5).err, 'cannot make the folder')
        self.assertRegex(self.train(self.at('x.npy'), self.at('y.npy'), '--tensorboard', self.at('taken/in'), code=5).err, 'cannot make the folder')


def varint(v):
    v &= 2**64 - 1
    out = b''
    while v > 127:
        out += bytes([v & 127 | 128])
        v >>= 7
    return out + bytes([v])


def frame(data):
    """Writes a record with TensorFlow's writer."""
    import tempfile
    with tempfile.TemporaryDirectory() as d:
        with tf.io.TFRecordWriter(os.path.join(d, 'x')) as w:
            w.write(data)
        with open(os.path.join(d, 'x'), 'rb') as f:
            return f.read()


if __name__ == '__main__':
    unittest.main()
