#!/usr/bin/env python3
"""A net whose weights lie in a section for large data, in programs of each code model.  It runs with HALFTONE_LONG=1
and needs 6 GB."""
import os, random, shutil, struct, unittest

from nets import C, CXX, STRICT, Nets, sections
from environment import LONG

N, LAYERS = 6144, 4
WEIGHTS = 4 * N * N * LAYERS  # bytes
ROOM = 10 * WEIGHTS


def varint(n):
    out = b''
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def attr(name, value):
    return field(5, field(1, name) + field(2, value))


def node(name, op, *inputs, **attrs):
    return b''.join((field(1, name), field(2, op), *(field(3, i) for i in inputs),
                     *(attr(n.encode(), v) for n, v in attrs.items())))


def shape(*dims):
    return b''.join(field(2, b'\x08' + varint(d)) for d in dims)


FLOAT, NO = b'\x30\x01', b'\x28\x00'


def write_model(path):
    """A GraphDef of dense layers, whose weights differ in each row."""
    r = random.Random(3)
    block = struct.pack('<%df' % (1 << 20), *(r.gauss(0, N ** -.5) for _ in range(1 << 20)))
    value = b'\x08\x01' + field(2, shape(N, N))
    with open(path, 'wb') as f:
        f.write(field(1, node(b'x', b'Placeholder', dtype=FLOAT, shape=field(7, shape(1, N)))))
        for l in range(LAYERS):
            # The constant's bytes come last in every message that has a length, so that they can be
            # written row by row.
            head = field(1, b'w%d' % l) + field(2, b'Const') + attr(b'dtype', FLOAT)
            content = varint(4 << 3 | 2) + varint(4 * N * N)
            tail = [value + content]
            for number in 8, 2:  # AttrValue.tensor, the map's value
                inside = sum(len(t) for t in tail) + 4 * N * N
                tail.insert(0, varint(number << 3 | 2) + varint(inside))
            tail.insert(0, field(1, b'value'))
            inside = sum(len(t) for t in tail) + 4 * N * N
            tail.insert(0, varint(5 << 3 | 2) + varint(inside))
            head += b''.join(tail)
            f.write(varint(1 << 3 | 2) + varint(len(head) + 4 * N * N) + head)
            for row in range(N):
                at = 4 * ((row * 7919 + l * 104729) % ((1 << 20) - N))
                f.write(block[at:at + 4 * N])
            f.write(field(1, node(b'y%d' % l, b'MatMul', b'y%d' % (l - 1) if l else b'x', b'w%d' % l, T=FLOAT,
                                  transpose_a=NO, transpose_b=NO)))


@unittest.skipUnless(LONG, 'HALFTONE_LONG=1 runs it')
class Large(Nets):
    def setUp(self):
        super().setUp()
        if shutil.disk_usage(self.dir).free < ROOM:
            self.skipTest('no room for %d GB' % (ROOM >> 30))

    def test_links_in_each_way(self):
        model = os.path.join(self.dir, 'm.pb')
        write_model(model)
        file, raw = self.random_input((1, N), '<f4', 'f')
        how = ['--target', 'x86-64-v3', '--no-cache']
        htx = os.path.join(self.dir, 'm.htx')
        self.tool('compile', '-q', model, *how, '-o', htx)
        want = self.reference(htx, 'x', file, '--verify', 'full')
        self.assertEqual(want, self.reference(model, 'x', file, *how))
        os.unlink(model)
        folder = self.aot(htx, 'net')
        os.unlink(htx)
        for ending in '.o', '.a':
            text = self.run_ok('readelf', '-SW', os.path.join(folder, 'net' + ending if ending == '.o' else 'libnet.a')).decode()
            self.assertRegex(text, r'\.lrodata +PROGBITS .* Al ')
        self.assertGreater(sections(os.path.join(folder, 'net.o'))['.lrodata'][2], WEIGHTS)
        clang = ['clang-19', '-D_GNU_SOURCE', *STRICT]
        linkers = [(C, []), (CXX, ['-no-pie']), (C, ['-mcmodel=medium']), (C, ['-mcmodel=large', '-no-pie']), (C, ['-static'])]
        if shutil.which('ld.lld-19') and shutil.which('clang-19'):
            linkers += [(clang, ['-fuse-ld=lld-19']), (clang, ['-fuse-ld=lld-19', '-mcmodel=medium'])]
        for i, (compiler, flags) in enumerate(linkers):
            for link in self.links(folder, 'net')[:3 if '-static' not in flags else 2]:
                program = self.build(folder, 'net', [*flags, *link], compiler)
                self.assertEqual(self.run_ok(program, raw), want, (flags, link))
                os.unlink(program)


if __name__ == '__main__':
    unittest.main()
