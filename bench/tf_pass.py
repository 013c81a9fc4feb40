"""Measures TensorFlow's own auto_mixed_precision; bench/policy starts it in the Grappler tests'
environment.

    tf_pass.py GRAPH.pb MODE FETCH REPEATS

Prints the milliseconds of each repeat as JSON, as Grappler's meta optimizer measures them around that
one optimizer.  They do not include reading the graph, filling in attributes, copying the graph to
Python, or any other optimizer."""
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tests', 'tools'))
os.environ['CUDA_VISIBLE_DEVICES'] = ''
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '0'
os.environ['TF_CPP_VMODULE'] = 'meta_optimizer=1'
import grappler_oracle  # noqa: E402


class Messages:
    """Captures standard error, also of C++ code."""

    def __enter__(self):
        self.file = tempfile.TemporaryFile()
        self.saved = os.dup(2)
        os.dup2(self.file.fileno(), 2)
        return self

    def __exit__(self, *_):
        os.dup2(self.saved, 2)
        os.close(self.saved)
        self.file.seek(0)
        self.text = self.file.read().decode(errors='replace')


def main():
    path, mode, fetch, repeats = sys.argv[1:]
    import tensorflow as tf
    meta = tf.compat.v1.MetaGraphDef()
    with open(path, 'rb') as f:
        meta.graph_def.ParseFromString(f.read())
    times = []
    for _ in range(int(repeats)):
        with Messages() as m:
            grappler_oracle.optimize(meta, [fetch], mode, verbose=True)
        found = re.findall(r'\] auto_mixed_precision\w*: .*time = ([\d.]+)ms', m.text)
        if len(found) != 1:
            sys.exit(f'no time in what TensorFlow says:\n{m.text[-6000:]}')
        times.append(float(found[0]))
    print(json.dumps(times))


if __name__ == '__main__':
    main()
