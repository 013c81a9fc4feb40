"""Cases of ops that pass on their operands, are fed, or carry control edges."""
import numpy as np

from case import Case, Type, set_attr, TAGS
from optable import COMPUTED
from values import SHAPES, edges, pick, random


def same(inputs, attrs):
    return [a for i in inputs for a in (i if isinstance(i, list) else [i])]


def cases(r, rows):
    for op in rows:
        yield from SPECIAL.get(op.name, handed_on)(r, op)


def handed_on(r, op):
    for tag in op.types['T']:
        plain = {'attrs': {'shape': tuple(edges(tag).shape)}} if op.name == 'EnsureShape' else {}
        yield Case(op.name, [edges(tag)], oracle=same, **plain)
        for shape in pick(r, SHAPES, 2):
            more = {'attrs': {'shape': tuple(shape)}} if op.name == 'EnsureShape' else {}
            yield Case(op.name, [random(r, tag, shape)], oracle=same, **more)


def finite(r, op):
    for tag in op.types['T']:
        yield Case(op.name, [random(r, tag, (3, 17))], {'message': 'odd'}, oracle=same)


def several(r, op):
    for tag in op.types['T']:
        yield Case(op.name, [[random(r, tag, (3,)), random(r, 'f32', (2, 5))]], oracle=same,
                   outputs=(0, 1))


def printed(r, op):
    yield Case(op.name, [random(r, 'f32', (3, 5)), [random(r, 'f32', (2,))]],
               {'message': 'seen', 'first_n': -1, 'summarize': 3}, oracle=same)


# ---- ops whose graphs are built by hand: the case's node is an Identity ----

def node(graph, name, op, inputs=(), **attrs):
    n = graph.proto.node.add(name=name, op=op, input=list(inputs))
    for k, v in attrs.items():
        set_attr(n.attr[k], v)
    return n


def handmade(op, x, build, **more):
    return Case(op, [x], oracle=same, build=build, **more)


def constants(r, op):
    def build(graph, name, case):
        graph.operand(f'{name}_x', case.inputs[0], True)
        node(graph, name, 'Identity', [f'{name}_x'], T=Type(case.dtype()))
    for tag in COMPUTED:
        yield handmade('Const', edges(tag), build)
        yield handmade('Const', random(r, tag, (2, 0, 3)), build)
        yield handmade('Const', random(r, tag, ()), build)


def placeholders(r, op):
    def build(graph, name, case):
        graph.operand(f'{name}_x', case.inputs[0], False)
        graph.proto.node[-1].op = case.op
        node(graph, name, 'Identity', [f'{name}_x'], T=Type(case.dtype()))
    for tag in COMPUTED:
        yield handmade(op.name, edges(tag), build)
        yield handmade(op.name, random(r, tag, ()), build)


def defaults(r, op):
    def build(graph, name, case):
        x, other = case.inputs[0], np.roll(case.inputs[0], 1)
        feed = case.note == 'fed'
        graph.operand(f'{name}_default', other if feed else x, True)
        n = node(graph, f'{name}_x', op.name, [f'{name}_default'], dtype=Type(case.dtype()),
                 shape=tuple(x.shape))
        assert n
        if feed:
            graph.feeds[f'{name}_x'] = x
        node(graph, name, 'Identity', [f'{name}_x'], T=Type(TAGS[x.dtype]))
    for tag in COMPUTED:
        yield handmade(op.name, edges(tag), build, note='fed')
        yield handmade(op.name, edges(tag), build, note='not fed')


def controls(r, op):
    def build(graph, name, case):
        x = graph.operand(f'{name}_x', case.inputs[0], False)
        if op.name == 'Assert':
            yes = graph.operand(f'{name}_yes', np.array(True), True)
            n = node(graph, f'{name}_first', 'Assert', [yes, x], summarize=3)
            set_attr(n.attr['T'], [Type(case.dtype())])
        else:
            node(graph, f'{name}_first', 'NoOp', [f'^{x}'])
        node(graph, name, 'Identity', [x, f'^{name}_first'], T=Type(case.dtype()))
    yield handmade(op.name, random(r, 'f32', (3, 5)), build)


SPECIAL = {'CheckNumerics': finite, 'CheckNumericsV2': finite, 'IdentityN': several, 'Print': printed, 'Const': constants,
           'Placeholder': placeholders, 'PlaceholderV2': placeholders, 'NoOp': controls,
           'PlaceholderWithDefault': defaults, 'Assert': controls}
