"""What the tests of the Python package share: the package of this build, its models, and processes of their own."""
import os, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'tools'))
import environment

environment.enter_venv()
PACKAGE = os.path.join(environment.BUILD, 'python')
sys.path.insert(0, PACKAGE)
SMALL = os.path.join(environment.ROOT, 'tests', 'cli', 'small.hir')
TYPES = os.path.join(environment.ROOT, 'tests', 'cli', 'types.hir')


def python(code, *arguments, timeout=600, **variables):
    """Runs code in an interpreter of its own; returns it with what it printed."""
    return subprocess.run([sys.executable, '-c', code, *arguments], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, 'PYTHONPATH': PACKAGE, **variables})
