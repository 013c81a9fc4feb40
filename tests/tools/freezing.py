"""Graphs of TensorFlow's functions, with constants in place of variables."""
import itertools

from tensorflow.python.framework import convert_to_constants

numbers = itertools.count()


def renamed(graph, names):
    """Gives functions of a graph other names, wherever it has the old ones."""
    library = graph.library.function
    for function in library:
        function.signature.name = names.get(function.signature.name, function.signature.name)
    for node in itertools.chain(graph.node, *(function.node_def for function in library)):
        node.op = names.get(node.op, node.op)
        for value in node.attr.values():
            for called in [value.func] if value.HasField('func') else value.list.func:
                called.name = names.get(called.name, called.name)


def frozen(f, lower_control_flow=True):
    """convert_variables_to_constants_v2(), for any number of functions in a process: TensorFlow's optimiser names some of the functions
    that it makes, such as conditions of loops, alike in all graphs, while a process has one function of each name until the garbage
    collector has found the others.  Here such names end with a number."""
    data = convert_to_constants._FunctionConverterDataInEager(  # pylint: disable=protected-access
        func=f, lower_control_flow=lower_control_flow, aggressive_inlining=False)
    graph, inputs = convert_to_constants._replace_variables_by_constants(data)  # pylint: disable=protected-access
    own = {function.signature.name for function in f.graph.as_graph_def().library.function}
    made = {function.signature.name for function in graph.library.function} - own
    number = next(numbers)
    renamed(graph, {name: f'{name}_{number}' for name in made})
    return convert_to_constants._construct_concrete_function(f, graph, inputs)  # pylint: disable=protected-access
