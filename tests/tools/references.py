"""Trainings of TensorFlow with variables by reference, which change in place: an update that does not wait may change what other gradients still
read, and on a busy machine it does.  So the result would not be one that a test can compare with."""


def update_last(graph, loss):
    """The updates of a graph that no session has run wait for operation `loss` and for all gradients."""
    updates = [op for op in graph.get_operations() if 'Apply' in op.type]
    for op in updates:
        op._add_control_inputs({loss, *(t.op for u in updates for t in u.inputs)})
