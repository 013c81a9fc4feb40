"""Reads perf's jitdump as tools/perf/Documentation/jitdump-specification.txt describes it."""
import struct
from dataclasses import dataclass, field


@dataclass
class Function:
    name: str
    address: int
    code: bytes
    lines: list = field(default_factory=list)  # (offset in the code, line, file)


def read(path):
    """The process and the functions of a file, which must be complete."""
    with open(path, 'rb') as f:
        data = f.read()
    magic, version, size, machine, pad, pid, _, flags = struct.unpack_from('<IIIIIIQQ', data)
    assert (magic, version, size, machine, pad, flags) == (0x4A695444, 1, 40, 62, 0, 0)
    at, functions, noted, last = size, [], {}, 0
    while at < len(data):
        kind, n, time = struct.unpack_from('<IIQ', data, at)
        assert 16 <= n <= len(data) - at and time >= last, (kind, n, time)
        body, last = data[at + 16:at + n], time
        if kind == 0:
            owner, _, vma, address, length, index = struct.unpack_from('<IIQQQQ', body)
            name, code = body[40:].split(b'\0', 1)
            assert (owner, vma, length, index) == (pid, address, len(code), len(functions))
            functions.append(Function(name.decode(), address, code, noted.pop(address, [])))
        else:
            assert kind == 2
            address, entries = struct.unpack_from('<QQ', body)
            rest, lines = body[16:], []
            for _ in range(entries):
                where, line, discriminator = struct.unpack_from('<Qii', rest)
                source, rest = rest[16:].split(b'\0', 1)
                lines.append((where - address, line, source.decode()))
                assert discriminator == 0
            assert not rest
            noted[address] = lines
        at += n
    assert not noted
    return pid, functions
