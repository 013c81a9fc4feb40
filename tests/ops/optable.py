"""Reads ir/ops.def: the rows that the tests cover, and their signatures."""
import os
import re
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLOATS = ['f16', 'bf16', 'f32', 'f64']
INTEGERS = ['i8', 'i16', 'i32', 'i64', 'u8', 'u16', 'u32', 'u64']
# The types with which the compiler computes.  Complex and quantized numbers and strings are only
# imported.
COMPUTED = FLOATS + INTEGERS + ['bool']
SETS = {'float': FLOATS, 'index': ['i32', 'i64'], 'real': FLOATS + INTEGERS,
        'num': FLOATS + INTEGERS, 'any': COMPUTED}
NAMES = {'f16': 'float16', 'bf16': 'bfloat16', 'f32': 'float32', 'f64': 'float64', 'i8': 'int8',
         'i16': 'int16', 'i32': 'int32', 'i64': 'int64', 'u8': 'uint8', 'u16': 'uint16',
         'u32': 'uint32', 'u64': 'uint64', 'bool': 'bool', 'string': 'string'}


@dataclass
class Arg:
    name: str
    type: str            # a type attribute or a tag
    number: str = None   # attribute with the number of tensors
    list: bool = False   # one element of a list(type) attribute for each tensor


@dataclass
class Op:
    name: str
    lower: str
    test: str
    args: list
    results: list
    types: dict = field(default_factory=dict)    # type attribute → tags with which the compiler computes
    default: dict = field(default_factory=dict)  # type attribute → tag


ROW = re.compile(r'OP\((\w+),\s*"([^"]*)",\s*[^,]+,\s*[^,]+,\s*\w+,\s*\w+,\s*(\w+),\s*"([^"]*)"')


def parse_args(text):
    out = []
    for word in text.split():
        name, kind = word.split(':')
        number, _, kind = kind.rpartition('*')
        out.append(Arg(name, kind.removesuffix('...').removesuffix('&'), number.partition('=')[0] or None,
                       kind.endswith('...')))
    return out


def parse_row(name, signature, lower, test):
    flow, _, types = signature.partition(';')
    args, results = flow.split('->')
    op = Op(name, lower, test, parse_args(args), parse_args(results))
    for word in types.split():
        attr, members, default = re.fullmatch(r'(\w+)\{([^}]*)\}(?:=(\w+))?', word).groups()
        tags = [t for m in members.split('|') for t in SETS.get(m, [m])]
        op.types[attr] = [t for t in COMPUTED if t in tags]
        if default:
            op.default[attr] = default
    return op


def rows():
    """Op name → row, for the rows that are lowered."""
    with open(f'{ROOT}/ir/ops.def') as f:
        found = [parse_row(*m.groups()) for m in ROW.finditer(f.read())]
    assert found
    return {o.name: o for o in found if not o.lower.startswith('no_')}
