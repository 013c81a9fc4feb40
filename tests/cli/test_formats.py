#!/usr/bin/env python3
"""The formats that `convert` and `run` write by a file's name, files that they do not overwrite, and files of other
formats."""
import json, os, resource, signal, struct, subprocess, unittest, zipfile

from tool import MODEL_VERBS, SMALL, TOOL, ToolCase


def varint(n):
    out = b''
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


# A ModelProto: version of the format, producer, a graph of one node, the set of ops.
ONNX = b'\x08\x08' + field(2, b'test') + field(7, field(1, field(1, b'x') + field(2, b'y') + field(4, b'Relu')) + field(2, b'g')) + \
    field(8, b'\x10\x11')


class Formats(ToolCase):
    def read(self, path):
        with open(path, 'rb') as f:
            return f.read()

    def folder(self, name):
        os.makedirs(self.path(name), exist_ok=True)
        return self.path(name)

    # ---- written files ----

    def test_a_model_for_tfjs(self):
        out = self.folder('js')
        self.tool('convert', SMALL, '-o', out + '/model.json')
        self.assertEqual(sorted(os.listdir(out)), ['group1-shard1of1.bin', 'model.json'])
        model = json.loads(self.read(out + '/model.json'))
        self.assertEqual(model['format'], 'graph-model')
        self.assertEqual(model['generatedBy'], 'Halftone')
        self.assertEqual(model['signature']['inputs']['x']['name'], 'x:0')
        self.assertEqual(model['signature']['inputs']['x']['dtype'], 'DT_FLOAT')
        self.assertEqual(model['signature']['inputs']['x']['tensorShape'], {'dim': [{'size': '-1'}, {'size': '4'}]})
        group, = model['weightsManifest']
        self.assertEqual(group['paths'], ['group1-shard1of1.bin'])
        count = {'float32': 4, 'int32': 4, 'bool': 1}
        size = 0
        for w in group['weights']:
            n = count[w['dtype']]
            for d in w['shape']:
                n *= d
            size += n
        self.assertEqual(size, os.path.getsize(out + '/group1-shard1of1.bin'))
        fed = ['--input', 'x=@' + self.x(1, 2, 3, 4)]
        self.assertEqual(self.tool('run', *fed, '-o', '-', '--outputs', 'y', out + '/model.json').stdout,
                         self.tool('run', *fed, '-o', '-', '--outputs', 'y', SMALL).stdout)

    def large(self):
        """A model with 9 MiB of weights."""
        return self.path('large.hir', b'hir 1\nentry "" {\n  input "x" = %x\n  output "y" = %y\n}\n'
                         b'%x = Placeholder() {dtype=f32, shape=shape[2359296]}\n'
                         b'%w = Const() {dtype=f32, value=tensor f32[2359296] {1.5 ...}}\n%y = AddV2(%x, %w) {T=f32}\n')

    def test_shards(self):
        out = self.folder('js')
        self.tool('convert', self.large(), '-o', out + '/other.json')
        names = ['other-group1-shard%dof3.bin' % i for i in (1, 2, 3)]
        self.assertEqual(sorted(os.listdir(out)), names + ['other.json'])
        self.assertEqual([os.path.getsize(f'{out}/{n}') for n in names], [4 << 20, 4 << 20, 1 << 20])
        self.tool('convert', out + '/other.json', '-o', out + '/again.json')
        for a, b in zip(names, sorted(n for n in os.listdir(out) if n.startswith('again-'))):
            self.assertEqual(self.read(f'{out}/{a}'), self.read(f'{out}/{b}'))

    def test_low_types_are_not_for_tfjs(self):
        out = self.folder('js')
        self.fails(4, r"node '.*TF\.js computes in float32 alone", 'convert', '--policy=force_fp16', SMALL, '-o', out + '/model.json')
        self.assertEqual(os.listdir(out), [])

    def test_a_full_disk_leaves_nothing(self):
        model, out = self.large(), self.folder('js')

        def limits():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))
        r = subprocess.run([TOOL, 'convert', model, '-o', out + '/model.json'], capture_output=True, preexec_fn=limits)
        self.assertEqual((r.returncode, os.listdir(out)), (5, []), r.stderr)
        self.assertIn(b'cannot write', r.stderr)

    def test_names_of_other_formats(self):
        for name in ('m.onnx', 'm.tflite', 'm.h5', 'm.keras', 'm.pt', 'm.csv', 'm.npz', 'm.htx'):
            self.fails(2, r'convert writes no .*GraphDefs \(\.pb', 'convert', SMALL, '-o', self.path(name))
            self.assertFalse(os.path.exists(self.path(name)))
        for name in ('y.csv', 'y.json', 'y.txt', 'y.pb'):
            self.fails(2, r'written as \.npz, or one of them as \.npy, not as', 'run', SMALL, '-o', self.path(name))
            self.assertFalse(os.path.exists(self.path(name)))
        self.tool('run', SMALL, '-o', self.path('y'))
        self.assertTrue(zipfile.is_zipfile(self.path('y')))

    # ---- files that are not overwritten ----

    def refuses(self, model, out):
        before = self.read(out)
        for policy in ([], ['--policy=force_fp32']):
            self.fails(2, 'a file of the model', 'convert', *policy, model, '-o', out)
        self.assertEqual(self.read(out), before)

    def test_the_model_is_not_written_over(self):
        pb = self.path('m.pb')
        self.tool('convert', SMALL, '-o', pb)
        os.symlink(pb, self.path('soft.pb'))
        os.link(pb, self.path('hard.pb'))
        os.symlink(os.path.dirname(pb), self.path('folder'))
        for out in (pb, self.path('soft.pb'), self.path('hard.pb'), self.path('folder/m.pb'), self.path('./m.pb')):
            self.refuses(pb, out)
        self.refuses(self.path('soft.pb'), pb)
        self.tool('convert', pb, '-o', self.path('other.pb'))
        self.tool('convert', pb, '-o', self.path('other.pb'))  # an earlier result may be overwritten

    def test_files_beside_the_model_are_not_written_over(self):
        out = self.folder('js')
        self.tool('convert', SMALL, '-o', out + '/model.json')
        self.refuses(out + '/model.json', out + '/group1-shard1of1.bin')
        os.link(out + '/group1-shard1of1.bin', out + '/z-group1-shard1of1.bin')
        self.fails(2, 'a file of the model', 'convert', out + '/model.json', '-o', out + '/z.json')

    def test_a_saved_model_is_not_written_over(self):
        self.tool('convert', SMALL, '-o', self.path('g.pb'))
        saved = self.folder('saved/assets')[:-len('/assets')]
        meta = field(1, field(4, b'serve')) + field(2, self.read(self.path('g.pb')))
        with open(saved + '/saved_model.pb', 'wb') as f:
            f.write(b'\x08\x01' + field(2, meta))
        with open(saved + '/assets/words.txt', 'wb') as f:
            f.write(b'word\n')
        for model in (saved, saved + '/saved_model.pb'):
            for out in ('saved_model.pb', 'assets/words.txt'):
                self.refuses(model, f'{saved}/{out}')
        self.tool('convert', saved, '-o', saved + '/new.pb')

    # ---- models of other formats ----

    def test_other_formats_are_named(self):
        def archive(name, *members):
            with zipfile.ZipFile(self.path(name), 'w') as z:
                for m in members:
                    z.writestr(m, 'x')
            return self.path(name)
        files = {
            self.path('a.h5', b'\x89HDF\r\n\x1a\n' + bytes(64)): r'HDF5.*load_model\(.*a\.h5.*export',
            archive('b.keras', 'metadata.json', 'config.json', 'model.weights.h5'): r'Keras model.*load_model\(.*b\.keras',
            archive('c.pt', 'c/data.pkl', 'c/version'): 'PyTorch.*onnx2tf',
            self.path('d.pth', b'\x80\x02\x8a\x0alF\xfc\x9cF\xf9 j\xa8P\x19.'): 'PyTorch.*onnx2tf',
            archive('e.npz', 'x.npy'): 'NumPy arrays',
            archive('f.zip', 'readme'): 'zip archive.*unzip',
            self.path('g.tflite', b'\x1c\0\0\0TFL3' + bytes(64)): r'TensorFlow Lite.*tf2onnx\.convert --tflite .*g\.tflite',
            self.path('h.onnx', ONNX): r'ONNX model.*onnx2tf -i .*h\.onnx',
            self.path('i.gz', b'\x1f\x8b\x08' + bytes(64)): 'gzip.*tar xzf',
            self.path('j.safetensors', struct.pack('<Q', 2) + b'{"a": 1}'): 'safetensors',
        }
        for file, said in files.items():
            for name in (file, self.path('no-suffix')):
                os.replace(file if os.path.exists(file) else self.path('no-suffix'), name)
                self.fails(3, 'is not read|which is not read', 'run', name)
            for verb in MODEL_VERBS:
                out = ['-o', self.path('out.pb')] if verb == 'convert' else ['-o', self.path('o.hir')] if verb == 'opt' else []
                pattern = said.replace(os.path.basename(file).replace('.', r'\.'), 'no-suffix')
                self.fails(3, pattern, verb, *out, self.path('no-suffix'))

    def test_what_is_near_is_read_or_refused(self):
        """However such a file is cut off, the tool ends with an error."""
        with zipfile.ZipFile(self.path('z.zip'), 'w') as z:
            z.writestr('config.json', '{}')
            z.writestr('model.weights.h5', 'x' * 100)
        for data in (self.read(self.path('z.zip')), ONNX):
            for n in range(1, len(data), 7):
                self.fails(3, 'error', 'inspect', self.path('cut.bin', data[:n]))


if __name__ == '__main__':
    unittest.main()
