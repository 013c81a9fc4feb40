"""Common to the tests of the Python package: the package of this build, its models, and child processes."""
import os, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'tools'))
import environment

environment.enter_venv(served=False)  # TensorFlow's libraries are loaded only where a test wants them beside the package's
PRELOAD = os.environ.get('HALFTONE_PRELOAD')  # the library of a build with sanitizers
if PRELOAD and os.environ.get('LD_PRELOAD') != PRELOAD:
    # The library must be loaded before Python, whose own leaks are ignored.
    os.environ.update(LD_PRELOAD=PRELOAD, ASAN_OPTIONS=os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0')
    os.execv(sys.executable, [sys.executable, *sys.argv])
PACKAGE = os.path.join(environment.BUILD, 'python')
sys.path.insert(0, PACKAGE)
SMALL = os.path.join(environment.ROOT, 'tests', 'cli', 'small.hir')
TRAINING = os.path.join(environment.ROOT, 'tests', 'cli', 'train.hir')
TYPES = os.path.join(environment.ROOT, 'tests', 'cli', 'types.hir')


def python(code, *arguments, timeout=600, **variables):
    """Runs code in a new interpreter; returns the process with its output."""
    return subprocess.run([sys.executable, '-c', code, *arguments], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, 'PYTHONPATH': PACKAGE, **variables})


def tool(*arguments):
    """Runs the command line tool, which contains the sanitizers."""
    return subprocess.run([environment.TOOL, *arguments], capture_output=True, text=True, check=True,
                          env={k: v for k, v in os.environ.items() if k != 'LD_PRELOAD'})
