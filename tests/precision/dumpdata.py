#!/usr/bin/env python3
"""run --dump-format dumpdata: protobuf's own library reads the messages and finds the tensors of the .npy dump; compare
reads messages that this library writes, in forms that Halftone does not write itself."""
import glob, os, random, struct, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools']
import environment

# The fields of the vendor's messages: name, number, type.
TENSOR = ['data_type', 'format', 'shape']
MESSAGES = {
    'Shape': [('dim', 1, 'uint64*')],
    'OriginalOp': [('name', 1, 'string'), ('output_index', 2, 'uint32'), ('data_type', 3, 'int32'), ('format', 4, 'int32')],
    'OpOutput': [('data_type', 1, 'int32'), ('format', 2, 'int32'), ('shape', 3, 'Shape'), ('original_op', 4, 'OriginalOp'),
                 ('data', 5, 'bytes'), ('size', 6, 'uint64'), ('original_shape', 7, 'Shape'), ('sub_format', 8, 'int32')],
    'OpInput': [('data_type', 1, 'int32'), ('format', 2, 'int32'), ('shape', 3, 'Shape'), ('data', 4, 'bytes'), ('size', 5, 'uint64'),
                ('original_shape', 6, 'Shape'), ('sub_format', 7, 'int32')],
    'OpBuffer': [('buffer_type', 1, 'int32'), ('data', 2, 'bytes'), ('size', 3, 'uint64')],
    'DumpData': [('version', 1, 'string'), ('dump_time', 2, 'uint64'), ('output', 3, 'OpOutput*'), ('input', 4, 'OpInput*'),
                 ('buffer', 5, 'OpBuffer*'), ('op_name', 6, 'string')],
}
TYPES = {1: 'f4', 2: 'f2', 3: 'i1', 4: 'u1', 6: 'i2', 7: 'i4', 8: 'i8', 11: '?', 12: 'f8', 27: 'u2'}
MODEL = '''hir 1
entry "" {
  input "x" = %x
  input "k" = %k
  output "y" = %y
  output "h" = %h
  output "top" = %top
  output "where" = %top:1
}
%x = Placeholder() {dtype=f32, shape=shape[3,5]}
%k = Placeholder() {dtype=i32, shape=shape[3,5]}
%h = Cast(%x) {SrcT=f32, DstT=f16, Truncate=false}
%b = Cast(%x) {SrcT=f32, DstT=bf16, Truncate=false}
%s = Square(%b) {T=bf16}
%wide = Cast(%s) {SrcT=bf16, DstT=f32, Truncate=false}
%d = Cast(%k) {SrcT=i32, DstT=f64, Truncate=false}
%two = Const() {dtype=f64, value=tensor f64[] {2.0}}
%more = Greater(%d, %two) {T=f64}
%e = Exp(%x) {T=f32}
%y = Select(%more, %wide, %e) {T=f32}
%two_i = Const() {dtype=i32, value=tensor i32[] {2}}
%top = TopKV2(%x, %two_i) {T=f32, sorted=true}
'''


def message_class():
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    file = descriptor_pb2.FileDescriptorProto(name='dumpdata.proto', package='t', syntax='proto3')
    for name, fields in MESSAGES.items():
        m = file.message_type.add(name=name)
        for field, number, kind in fields:
            f = m.field.add(name=field, number=number, label=3 if kind.endswith('*') else 1)
            kind = kind.rstrip('*')
            if kind in MESSAGES:
                f.type, f.type_name = f.TYPE_MESSAGE, '.t.' + kind
            else:
                f.type = getattr(f, 'TYPE_' + kind.upper())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName('t.DumpData'))


def run(*args, code=0):
    done = subprocess.run([environment.TOOL, *args], capture_output=True, text=True)
    assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
    return done


def read(path, DumpData):
    """[(kind, index, array)], and the message."""
    import numpy as np
    with open(path, 'rb') as f:
        data = f.read()
    n, = struct.unpack('<Q', data[:8])
    message = DumpData.FromString(data[8:8 + n])
    assert message.SerializeToString(deterministic=True) == data[8:8 + n], path  # every field is known to the vendor's definition
    at, found = 8 + n, []
    for what, tensors in ('input', message.input), ('output', message.output):
        for i, t in enumerate(tensors):
            if not t.data_type:
                assert not t.size
                continue
            assert list(t.shape.dim) == list(t.original_shape.dim) and t.format == 2
            a = np.frombuffer(data[at:at + t.size], np.dtype(TYPES[t.data_type]))
            if t.data_type == 27:
                a = (a.astype(np.uint32) << 16).view(np.float32)
            found.append((what, i, a.reshape(tuple(t.shape.dim))))
            at += t.size
    assert at == len(data), path
    return found, message


def arrays(folder, DumpData):
    found = {}
    for path in glob.glob(f'{folder}/*/*/*/1/0/*'):
        kind, node, task, stream, stamp = os.path.basename(path).split('.')
        tensors, message = read(path, DumpData)
        assert message.dump_time == int(stamp) and message.version and message.op_name == node, path
        for what, i, a in tensors:
            found[f'{node}.{what}.{i}'] = a
    return found


def plain(folder):
    import numpy as np
    found = {}
    for path in glob.glob(f'{folder}/*/*/*/1/0/*.npy'):
        part = os.path.basename(path).split('.')
        found['.'.join(part[1:2] + part[5:7])] = np.load(path)
    return found


def check_writer(folder, DumpData):
    """The messages have the tensors of the .npy files, with their types."""
    import numpy as np
    with open(f'{folder}/m.hir', 'w') as f:
        f.write(MODEL)
    feed = ['--input', 'x=random(3,-2,2)', '--input', 'k=random(5,-9,9)']
    for mode in 'all', 'output', 'input':
        one, two = f'{folder}/{mode}-dumpdata', f'{folder}/{mode}-npy'
        for to, form in (one, 'dumpdata'), (two, 'npy'):
            run('run', f'{folder}/m.hir', *feed, '--dump', to, '--dump-mode', mode, '--dump-format', form)
        mine, want = arrays(one, DumpData), plain(two)
        assert mine.keys() == want.keys() and len(want) > 6, (mode, mine.keys() ^ want.keys())
        for name in want:
            assert mine[name].shape == want[name].shape, name
            np.testing.assert_array_equal(mine[name], want[name], name)
        assert 'different' in run('compare', one, two).stdout and '0 different' in run('compare', one, two, '--format=text').stdout
    return one


def check_reader(folder, DumpData):
    """Fields that Halftone never writes, in any order, are skipped; dimensions may be unpacked."""
    import numpy as np
    a = np.arange(6, dtype='<f4').reshape(2, 3)
    for name, change in ('left', 0), ('right', 1):
        m = DumpData(version='9', dump_time=1, op_name='n')
        m.buffer.add(buffer_type=0, size=0, data=b'abc')
        o = m.output.add(data_type=1, format=29, size=24, sub_format=4)
        o.original_op.name = 'imported'
        o.shape.dim.extend([2, 3])
        o.original_shape.dim.extend([6])
        i = m.input.add(data_type=7, format=2, size=8)
        i.shape.dim.extend([2])
        text = m.SerializeToString()
        if change:  # unpacked
            text = text.replace(b'\x1a\x04\x0a\x02\x02\x03', b'\x1a\x04\x08\x02\x08\x03')
            assert text != m.SerializeToString()
        os.makedirs(f'{folder}/{name}')
        with open(f'{folder}/{name}/Relu.n.3.0.1600000000000001', 'wb') as f:
            f.write(struct.pack('<Q', len(text)) + text + struct.pack('<2i', 4, 5 + change) + (a + change).tobytes())
    said = run('compare', f'{folder}/left', f'{folder}/right', '--format=csv').stdout.splitlines()
    got = {line.split(',')[0]: float(line.split(',')[6]) for line in said[1:]}
    assert got == {'0/n.input.0': 1, '0/n.output.0': 1}, said


def check_damage(folder):
    """For any bytes, compare reads tensors or ends with an error that names the byte."""
    path, = glob.glob(f'{folder}/left/*')
    with open(path, 'rb') as f:
        whole = f.read()
    r = random.Random(3)
    errors = 0
    for n in range(300):
        data = bytearray(whole)
        if n % 3:
            data[r.randrange(90)] = r.randrange(256)
        else:
            del data[r.randrange(len(data)):]
        with open(path, 'wb') as f:
            f.write(data)
        done = subprocess.run([environment.TOOL, 'compare', f'{folder}/left', f'{folder}/left'], capture_output=True, text=True)
        assert done.returncode in (0, 3), (n, done.returncode, done.stderr)
        errors += done.returncode == 3 and ': byte ' in done.stderr
    assert errors > 100, errors
    with open(path, 'wb') as f:
        f.write(whole)


def main():
    DumpData = message_class()
    with tempfile.TemporaryDirectory() as folder:
        check_writer(folder, DumpData)
        check_reader(folder, DumpData)
        check_damage(folder)
    print('dumps as protocol buffers')


if __name__ == '__main__':
    environment.enter_venv()
    main()
