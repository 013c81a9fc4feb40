#!/usr/bin/env python3
"""Writes the declarations of the public C headers as Python, for ctypes.

    python/declare.py OUT VERSION ABI HEADER...    (headers in the order in which they include each other)

Every enum becomes integers, every struct a ctypes.Structure with a function that initialises it as the header's
initialiser does, and every function an entry of FUNCTIONS.  A declaration that this program does not understand is an
error with its text, so no new declaration is left out unnoticed.
"""
import contextlib, os, re, sys

SCALARS = {
    'int': 'c_int', 'long': 'c_long', 'size_t': 'c_size_t', 'int32_t': 'c_int32', 'int64_t': 'c_int64',
    'uint64_t': 'c_uint64', 'double': 'c_double', 'void': None,
}
HEAD = '''"""Declarations of Halftone's C API.  Written by python/declare.py from the headers."""
from __future__ import annotations

from ctypes import (
    CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int, c_int32, c_int64, c_long, c_size_t, c_uint64, c_void_p, sizeof,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
'''


def fail(text):
    sys.exit(f'declare.py: cannot read the declaration: {" ".join(text.split())}')


def without_comments(text):
    text = re.sub(r'/\*.*?\*/', ' ', text, flags=re.S).replace('\\\n', ' ')
    return re.sub(r'//.*', '', text)


class Headers:
    """The declarations of the headers: enum constants, structs with their fields, initialisers, functions."""

    def __init__(self, texts):
        self.constants, self.structs, self.initialised, self.functions = {}, {}, {}, {}
        for text in texts:
            self.read(without_comments(text))

    def read(self, text):
        for name, values in re.findall(r'#define\s+HT_(\w+)_INIT\s+\{([^}]*)\}', text):
            self.initialised['ht_' + name.lower()] = [v.strip() for v in values.split(',')]
        text = re.sub(r'^\s*#.*$', '', text, flags=re.M)
        text = text.replace('extern "C" {', '')
        text = re.sub(r'^}\s*$', '', text, flags=re.M)
        for part in re.findall(r'(?:HT_API\s+)?[^;{]*(?:\{[^}]*\})?[^;{}]*;', text):
            self.declaration(part.strip().rstrip(';').strip())

    def declaration(self, text):
        enum = re.fullmatch(r'enum\s+(\w+)\s*\{(.*)\}', text, re.S)
        struct = re.fullmatch(r'struct\s+(\w+)\s*\{(.*)\}', text, re.S)
        if enum:
            self.enum(enum[2])
        elif struct:
            self.structs[struct[1]] = [f for line in struct[2].split(';') if line.strip() for f in self.fields(line)]
        elif text.startswith('HT_API'):
            self.function(text[len('HT_API'):].strip())
        elif not re.fullmatch(r'struct\s+\w+', text):
            fail(text)

    def enum(self, body):
        value = -1
        for item in filter(None, (i.strip() for i in body.split(','))):
            name, _, stated = item.partition('=')
            value = int(stated) if stated else value + 1
            self.constants[name.strip()] = value

    def fields(self, line):
        """Reads a line of a struct, which may declare several members: `const char *a, *b`."""
        function = re.fullmatch(r'\s*void\s*\(\s*\*\s*(\w+)\s*\)\s*\(.*\)', line, re.S)
        if function:
            yield function[1], self.parameter(line)
            return
        first, *others = [p.strip() for p in line.split(',')]
        base, stars, name = re.fullmatch(r'(.*?)((?:\*|\bconst\b|\s)*)\b(\w+)', first, re.S).groups()
        yield name, self.type(base, stars.count('*'))
        for other in others:
            yield other.lstrip('* '), self.type(base, other.count('*'))

    def type(self, base, stars):
        words = [w for w in base.split() if w not in ('const',)]
        if not words:
            fail(base)
        if words[0] == 'enum':
            return self.pointer('c_int', stars)
        if words[0] == 'struct':
            known = words[1] in self.structs
            return self.pointer(words[1], stars) if known else self.pointer('c_void_p', stars - 1)
        if words == ['char'] and stars:
            return self.pointer('c_char_p', stars - 1)
        if words == ['void'] and stars:
            return self.pointer('c_void_p', stars - 1)
        if words == ['float'] and stars == 1:
            return 'c_void_p'
        if len(words) != 1 or words[0] not in SCALARS:
            fail(base)
        return self.pointer(SCALARS[words[0]], stars)

    @staticmethod
    def pointer(of, stars):
        for _ in range(stars):
            of = f'POINTER({of})'
        return of

    def parameter(self, text):
        text = text.strip()
        if re.search(r'\(\s*\*\s*\w+\s*\)', text):  # void (*fn)(void *arg, int worker, int workers)
            inner = re.fullmatch(r'void\s*\(\s*\*\s*\w+\s*\)\s*\((.*)\)', text, re.S) or fail(text)
            return f'CFUNCTYPE(None, {", ".join(self.parameter(p) for p in inner[1].split(","))})'
        base, stars, name = re.fullmatch(r'(.*?)((?:\*|\bconst\b|\s)*)\b(\w+)', text, re.S).groups()
        return self.type(base, stars.count('*'))

    def function(self, text):
        match = re.fullmatch(r'(.*?)((?:\*|\s)*)\b(ht_\w+)\s*\((.*)\)', text, re.S) or fail(text)
        base, stars, name, arguments = match.groups()
        split = re.split(r',(?![^()]*\))', arguments)
        types = [] if arguments.strip() == 'void' else [self.parameter(a) for a in split]
        self.functions[name] = (self.type(base, stars.count('*')), types)


def write(version, abi, headers):
    print(HEAD)
    print(f'HALFTONE_VERSION = "{version}"\nHALFTONE_ABI = {abi}')
    for name, value in headers.constants.items():
        print(f'{name} = {value}')
    for name, fields in headers.structs.items():
        print(f'\n\nclass {name}(Structure):')
        print('    if TYPE_CHECKING:')
        for field, _ in fields:
            print(f'        {field}: Any')
        print('    _fields_ = [')
        for field, kind in fields:
            print(f'        ("{field}", {kind}),')
        print('    ]')
    for name, values in headers.initialised.items():
        fields = [f for f, _ in headers.structs[name]]
        if len(values) != len(fields) or values[0] != f'sizeof(struct {name})':
            fail(f'HT_{name.upper()[3:]}_INIT')
        stated = [f', {f}={headers.constants[v]}' for f, v in zip(fields[1:], values[1:]) if v not in ('0', 'NULL')]
        print(f'\n\ndef {name}_init() -> {name}:')
        print(f'    return {name}({fields[0]}=sizeof({name}){"".join(stated)})')
    print('\n\nFUNCTIONS: dict[str, tuple[Any, list[Any]]] = {')
    for name, (result, arguments) in sorted(headers.functions.items()):
        print(f'    "{name}": ({result}, [{", ".join(map(str, arguments))}]),')
    print('}')


if __name__ == '__main__':
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    out, version, abi = sys.argv[1:4]
    texts = []
    for path in sys.argv[4:]:
        with open(path, encoding='utf-8') as f:
            texts.append(f.read())
    headers = Headers(texts)
    with open(out + '.new', 'w', encoding='utf-8') as f, contextlib.redirect_stdout(f):
        write(version, int(abi), headers)
    os.replace(out + '.new', out)
