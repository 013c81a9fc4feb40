"""The outputs of a model as TensorFlow computes them, which comparisons take as the reference.

The tool and compare() start it as a program: python3 _tensorflow.py MODEL INPUTS OUTPUTS NAME...

MODEL is a GraphDef or the folder of a SavedModel; INPUTS and OUTPUTS are the numbers of the names that follow.  It
writes "ok" once the model is loaded.  For each sample it then reads the inputs from standard input, each as a .npy
file, and writes "ok", and for each output the number of its bytes on a line and a .npy file.  If it fails, it writes
"error: TEXT" instead of "ok" and ends.  bfloat16 is written as float32.
"""
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, BinaryIO


def serve(model: str, inputs: Sequence[str], outputs: Sequence[str], source: BinaryIO, sink: BinaryIO) -> None:
    """Computes samples of `source` until it ends."""
    import io
    run = opened(model, inputs, outputs)
    import numpy
    say(sink, 'ok')
    stream: Any = Stream(source)
    while source.peek(1):  # type: ignore[attr-defined]
        results = run([numpy.lib.format.read_array(stream, allow_pickle=False) for _ in inputs])
        say(sink, 'ok')
        for result in results:
            file = io.BytesIO()
            array = numpy.asarray(result)
            numpy.lib.format.write_array(file, numpy.ascontiguousarray(array.astype('f4') if array.dtype.kind == 'V' or
                                                                       array.dtype.name == 'bfloat16' else array), allow_pickle=False)
            say(sink, str(file.tell()))
            sink.write(file.getbuffer())
        sink.flush()


class Stream:
    """A pipe as a stream for NumPy, which would ask a file for its position."""

    def __init__(self, source: BinaryIO):
        self.read = source.read


def opened(model: str, inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """A function that computes the outputs for a list of inputs.  TensorFlow does not rewrite the graph before it runs."""
    import os
    os.environ.update(TF_CPP_MIN_LOG_LEVEL='3', TF_ENABLE_ONEDNN_OPTS='0', CUDA_VISIBLE_DEVICES='')
    import tensorflow as tf  # type: ignore[import-untyped]
    v1 = tf.compat.v1
    graph, config = tf.Graph(), v1.ConfigProto()
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    session = v1.Session(graph=graph, config=config)
    with graph.as_default():
        if os.path.isdir(model):
            v1.saved_model.load(session, ['serve'], model)
        else:
            read = v1.GraphDef()
            with open(model, 'rb') as f:
                read.ParseFromString(f.read())
            for node in read.node:
                node.device = ''
            tf.graph_util.import_graph_def(read, name='')
    tensors = [graph.get_tensor_by_name(n if ':' in n else f'{n}:0') for n in inputs]
    fetches = [n if ':' in n else f'{n}:0' for n in outputs]

    def run(arrays: list[Any]) -> Any:
        return session.run(fetches, {t: a.view(t.dtype.as_numpy_dtype) if a.dtype.kind == 'V' else a for t, a in zip(tensors, arrays)})
    return run


def say(sink: BinaryIO, line: str) -> None:
    sink.write(' '.join(line.split()).encode() + b'\n')
    sink.flush()


def main(arguments: list[str]) -> int:
    import os
    import sys
    # TensorFlow's own output must not mix with the answers.
    sink = os.fdopen(os.dup(1), 'wb')
    os.dup2(2, 1)
    model, ins, outs, *names = arguments
    try:
        serve(model, names[:int(ins)], names[int(ins):][:int(outs)], sys.stdin.buffer, sink)
    except ModuleNotFoundError as e:
        say(sink, f'error: the Python package {e.name} is not installed for {sys.executable}')
        return 1
    except BrokenPipeError:
        return 1
    except Exception as e:  # the parent process gets every error
        say(sink, f'error: {type(e).__name__}: {e}'[:2000])
        return 1
    return 0


if __name__ == '__main__':
    import sys
    sys.exit(main(sys.argv[1:]))
