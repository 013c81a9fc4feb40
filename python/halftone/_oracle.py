"""TensorFlow as the reference of comparisons: another process (_tensorflow.py) computes the outputs of each sample."""
from __future__ import annotations

import contextlib
import ctypes
import os

from ._arrays import numpy_dtype
from ._errors import SystemFailure, UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ._arrays import Dense, Tensor
    from ._model import Model

SAID = 'reference "tensorflow": '


class Oracle:
    """The process, which has loaded the model.  `compute` returns the outputs of one sample."""

    def __init__(self, path: str, inputs: list[Tensor], outputs: list[Tensor]):
        import subprocess
        import sys
        strings = [t.name for t in (*inputs, *outputs) if t.dtype == 'string']
        if strings:
            raise UsageError(f'{SAID}{strings[0]!r} has strings')
        self._outputs = outputs
        python = os.environ.get('HALFTONE_PYTHON') or sys.executable or 'python3'
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), '_tensorflow.py')
        command = [python, script, path, str(len(inputs)), str(len(outputs)), *(t.name for t in (*inputs, *outputs))]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except OSError as error:
            raise SystemFailure(f'{SAID}cannot run {python!r}: {error.strerror}; HALFTONE_PYTHON names an interpreter that has '
                                'TensorFlow') from None
        try:
            self._expect_ok()
        except BaseException:
            self.close()
            raise

    def compute(self, fed: list[Dense]) -> dict[str, Any]:
        """The outputs by name, as NumPy's arrays."""
        sink: Any = self._process.stdin
        try:
            for one in fed:
                sink.write(_npy(one))
            sink.flush()
        except BrokenPipeError:
            pass  # the answer states the reason
        self._expect_ok()
        return {t.name: self._read() for t in self._outputs}

    def _line(self) -> str:
        source: Any = self._process.stdout
        line: bytes = source.readline()
        if not line:
            raise SystemFailure(f'{SAID}the Python process ended')
        return line.decode(errors='replace').rstrip('\n')

    def _expect_ok(self) -> None:
        line = self._line()
        if line != 'ok':
            kind = SystemFailure if 'is not installed' in line else UnsupportedError
            raise kind(SAID + line.removeprefix('error: '))

    def _read(self) -> Any:
        import io

        import numpy
        source: Any = self._process.stdout
        size = int(self._line())
        data = source.read(size)
        if len(data) < size:
            raise SystemFailure(f'{SAID}the Python process ended')
        return numpy.lib.format.read_array(io.BytesIO(data), allow_pickle=False)

    def close(self) -> None:
        """Ends the process, which stops if there are no further samples."""
        for pipe in self._process.stdin, self._process.stdout:
            with contextlib.suppress(BrokenPipeError):
                if pipe:
                    pipe.close()
        self._process.wait()


def _npy(one: Dense) -> memoryview:
    """An input as a .npy file; a type that NumPy lacks is written as the bytes of its elements."""
    import io

    import numpy
    memory = (ctypes.c_char * one.bytes).from_address(one.address) if one.bytes else b''
    array = numpy.frombuffer(memory, numpy_dtype(one.dtype)).reshape(one.shape)
    plain = array if one.dtype in numpy.sctypeDict else array.view(f'V{array.itemsize}')
    file = io.BytesIO()
    numpy.lib.format.write_array(file, plain, allow_pickle=False)
    return file.getbuffer()


@contextlib.contextmanager
def live(reference: Any, model: Model, inputs: list[Tensor], outputs: list[Tensor]) -> Iterator[Any]:
    """The reference of comparisons: an Oracle instead of "tensorflow"; every other reference is returned as it is."""
    if not isinstance(reference, str) or reference != 'tensorflow':
        yield reference
        return
    import tempfile
    with tempfile.TemporaryDirectory(prefix='halftone-') as folder:
        path = model.path
        if not os.path.exists(os.path.join(path, 'saved_model.pb')):
            path = os.path.join(folder, 'graph.pb')
            model.convert(None, path)
        oracle = Oracle(path, inputs, outputs)
    try:
        yield oracle
    finally:
        oracle.close()
