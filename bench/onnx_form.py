"""The ONNX form of graphs, for peers that read ONNX."""
import subprocess
import sys


def write(graph, path, inputs, outputs):
    """Writes that of a GraphDef with tf2onnx; inputs and outputs are names of tensors.  RuntimeError with what tf2onnx said if it fails."""
    done = subprocess.run([sys.executable, '-m', 'tf2onnx.convert', '--graphdef', graph, '--output', path, '--opset', '17',
                           '--inputs', ','.join(inputs), '--outputs', ','.join(outputs)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
