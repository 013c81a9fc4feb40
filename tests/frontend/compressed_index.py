#!/usr/bin/env python3
"""Checkpoints whose index has blocks that snappy compressed, as other writers of TensorBundles write them: the tool computes what it computes from
the index that TensorFlow wrote, and TensorFlow reads the same values.  Damaged blocks, with correct checksums, are errors with their place in the
file.  The encoder here uses all forms of literals and copies, so it tests more than one that compresses well.
"""
import argparse
import os
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import live  # noqa: E402, enters the environment
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from crc32c import crc32c  # noqa: E402

FOOTER, MAGIC = 48, 0xdb4775248b80fb57
PLAIN, SNAPPY = 0, 1


def varint(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def read_varint(data, at):
    n = shift = 0
    while True:
        byte = data[at]
        n |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return n, at


# ---- snappy ----

def literal(r, data):
    n = len(data) - 1
    least = 0 if n < 60 else (n.bit_length() + 7) // 8
    width = int(r.integers(max(least, 0), 5))
    if n < 60 and width == 0:
        return bytes([n << 2]) + data
    return bytes([(59 + max(width, 1)) << 2]) + n.to_bytes(max(width, 1), 'little') + data


def copy(r, offset, n):
    forms = [2] * (offset < 1 << 16) + [3] + [1] * (4 <= n <= 11 and offset < 1 << 11)
    form = int(r.choice(forms))
    if form == 1:
        return bytes([1 | n - 4 << 2 | offset >> 8 << 5, offset & 255])
    return bytes([form | n - 1 << 2]) + offset.to_bytes(2 if form == 2 else 4, 'little')


def compressed(r, data):
    out, last, at, start = varint(len(data)), {}, 0, 0
    while at < len(data):
        word = data[at:at + 4]
        before, n = last.get(word), 4
        last[word] = at
        if before is None or len(word) < 4 or r.random() < .1:
            at += 1
            continue
        while n < 64 and at + n < len(data) and data[before + n] == data[at + n]:
            n += 1
        if start < at:
            out += literal(r, data[start:at])
        out += copy(r, at - before, n)
        at = start = at + n
    return out + (literal(r, data[start:]) if start < len(data) else b'')


# ---- tables ----

def entries(block):
    restarts, = struct.unpack('<I', block[-4:])
    at, key = 0, b''
    while at < len(block) - 4 - 4 * restarts:
        shared, at = read_varint(block, at)
        rest, at = read_varint(block, at)
        length, at = read_varint(block, at)
        key = key[:shared] + block[at:at + rest]
        yield key, block[at + rest:at + rest + length]
        at += rest + length


def packed(pairs):
    """A block with one restart, so that each key goes on from the one before it."""
    out, before = b'', b''
    for key, value in pairs:
        shared = len(os.path.commonprefix([key, before]))
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    return out + struct.pack('<II', 0, 1)


def block_of(table, handles, at):
    """The block of the handle at `at`, and where the next handle is."""
    offset, at = read_varint(handles, at)
    size, at = read_varint(handles, at)
    assert table[offset + size] == PLAIN
    return table[offset:offset + size], at


class Table:
    """Blocks one after the other; of each, its offset, bytes and form are kept."""

    def __init__(self):
        self.blocks, self.bytes = [], b''

    def add(self, data, form):
        offset = len(self.bytes)
        self.blocks.append((offset, data, form))
        self.bytes += data + bytes([form]) + crc32c(data + bytes([form]))
        return varint(offset) + varint(len(data))


def recompressed(r, table):
    """The table in blocks of a few entries, nearly all of them compressed."""
    out, footer = Table(), len(table) - FOOTER
    meta, at = block_of(table, table, footer)
    index, _ = block_of(table, table, at)
    pairs = [p for _, handle in entries(index) for p in entries(block_of(table, handle, 0)[0])]

    def add(block):
        return out.add(*(compressed(r, block), SNAPPY) if r.random() < .8 else (block, PLAIN))
    handles = []
    while pairs:
        n = int(r.integers(1, 5))
        handles.append((pairs[:n][-1][0], add(packed(pairs[:n]))))
        pairs = pairs[n:]
    ends = add(meta) + out.add(compressed(r, packed(handles)), SNAPPY)
    out.bytes += ends.ljust(FOOTER - 8, b'\0') + struct.pack('<Q', MAGIC)
    return out


# ---- damage ----

def damages(data):
    """Compressed data that is wrong, and what the tool says of it."""
    size, at = read_varint(data, 0)
    body, damaged, impossible = data[at:], 'a compressed block is damaged', 'a compressed block has an impossible size'
    yield b'', impossible
    yield b'\xff' * 5, impossible
    yield varint(1 << 31) + body, impossible
    yield varint(size + 1) + body, damaged
    yield varint(size - 1) + body, damaged
    yield data[:-1], damaged
    yield data[:at], damaged
    yield data + b'\0x', damaged
    for offset in 0, size + 1, 1 << 16, 0xffffffff:
        yield varint(size + 4) + body + bytes([3 | 3 << 2]) + offset.to_bytes(4, 'little'), damaged
    yield varint(size + 4) + body + bytes([2 | 3 << 2, 1]), damaged  # the offset of a copy is cut off
    yield varint(size + 70) + body + bytes([60 << 2, 69]) + b'x' * 69, damaged  # a literal is
    yield varint(size + 70) + body + bytes([63 << 2]) + b'\xff' * 4 + b'x' * 70, damaged


def with_index(table, data):
    """The table whose list of blocks has these bytes, with a correct checksum, behind all blocks; and their offset."""
    out = Table()
    out.bytes = table.bytes[:-FOOTER]
    handle = out.add(data, SNAPPY)
    meta = read_varint(table.bytes, read_varint(table.bytes, len(table.bytes) - FOOTER)[1])[1]
    out.bytes += (table.bytes[len(table.bytes) - FOOTER:meta] + handle).ljust(FOOTER - 8, b'\0') + struct.pack('<Q', MAGIC)
    return out.bytes, out.blocks[0][0]


# ---- the test ----

def save(r, folder):
    module = tf.Module()
    module.parts = [tf.Variable(r.standard_normal((3, int(n))).astype('f4'), name=f'layer/of/the/model/{n}') for n in r.integers(1, 9, 12)]

    @tf.function(input_signature=[tf.TensorSpec((2, 3), tf.float32)])
    def serve(x):
        return {'y': tf.concat([x @ p for p in module.parts], 1)}
    tf.saved_model.save(module, folder, signatures=serve)


def outputs(folder, x, name):
    live.tool('run', f'{folder}/m', '--input', f'x=@{x}', '-o', f'{folder}/{name}.npz', '-q')
    with np.load(f'{folder}/{name}.npz') as z:
        return z[z.files[0]]


def check(seed, folder):
    r = np.random.default_rng(seed)
    save(r, f'{folder}/m')
    prefix, x = f'{folder}/m/variables/variables', f'{folder}/x.npy'
    np.save(x, r.standard_normal((2, 3)).astype('f4'))
    want, read = outputs(folder, x, 'want'), tf.train.load_checkpoint(prefix)
    values = {k: read.get_tensor(k) for k in read.get_variable_to_shape_map()}
    with open(f'{prefix}.index', 'rb') as f:
        table = recompressed(r, f.read())

    def write(data):
        with open(f'{prefix}.index', 'wb') as f:
            f.write(data)
    write(table.bytes)
    assert sum(form == SNAPPY for *_, form in table.blocks) >= 2
    np.testing.assert_array_equal(outputs(folder, x, 'got'), want)
    read = tf.train.load_checkpoint(prefix)
    for k, v in values.items():
        assert np.array_equal(read.get_tensor(k), v), k
    for data, said in damages(table.blocks[-1][1]):
        damaged, offset = with_index(table, data)
        write(damaged)
        message = live.tool('run', f'{folder}/m', '--input', f'x=@{x}', code=3)
        if f'variables.index: byte {offset}: error: checkpoint index: {said}' not in message.replace('+', ' '):
            sys.exit(f'seed {seed}: {data!r}: {message}')


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--rounds', type=int, default=10 if live.environment.LONG else 1 if live.environment.SANITIZED else 2)
    a = p.parse_args()
    for i in range(a.rounds):
        with tempfile.TemporaryDirectory() as folder:
            check(a.seed + i, folder)


if __name__ == '__main__':
    main()
