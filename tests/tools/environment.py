"""The paths of the tool, the models and the oracles for tests, and their Python environments."""
import os
import subprocess
import sys
import time

import tensorflow_server

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get('HALFTONE_BUILD', f'{ROOT}/build'))
TOOL = os.environ.get('HALFTONE_TOOL', f'{BUILD}/halftone')
MODELS = os.environ.get('HALFTONE_MODELS', f'{ROOT}/build/models')
SHARED = os.path.join(ROOT, os.environ.get('HALFTONE_SHARED', '../shared'))
LONG = os.environ.get('HALFTONE_LONG') == '1'  # all cases instead of samples, which takes minutes or more
# The tool has sanitizers, which make it several times as slow.  Tests that run many models under
# many policies then run only a few of them: the build without sanitizers compares the numbers.
SANITIZED = bool(os.environ.get('HALFTONE_SANITIZE'))
SKIPPED = 77  # the exit code that ctest counts as skipped
HANGS = 900  # seconds that no run of the tool takes in a test, on a slow machine with sanitizers and other tests beside it
# A number that is another one every day.  Cases that a single run leaves out have their turn by it; HALFTONE_TURN
# repeats the run of another day.
TURN = int(os.environ.get('HALFTONE_TURN') or time.time() // 86400)


def share(cases, seed=None):
    """All cases as a list; under sanitizers every third of them, from one on that the seed chooses, or in turn, since the
    cases use memory in similar ways."""
    if not SANITIZED:
        return list(cases)
    return in_turn(cases, 3) if seed is None else list(cases)[seed % 3::3]


def in_turn(cases, n, first=0):
    """Every n-th case, so that n days in a row try each of them; with HALFTONE_LONG all.  `first` moves the turn, so that
    several lists of one test do not all begin with their first case on the same day."""
    cases = list(cases)
    if LONG:
        return cases
    assert len(cases) >= n, 'on some days nothing would be tried'
    print(f'one in {n} of {len(cases)} cases is tried; HALFTONE_TURN={TURN} repeats this', file=sys.stderr, flush=True)
    return cases[(TURN + first) % n::n]


def share_of_forms(cases, seed, second, n=2):
    """Cases of a test that has two forms, of which ctest runs both: on each day every n-th case is tried in one form, and the
    cases of the next day in the other.  Under sanitizers, where one form alone runs, share()."""
    return share(cases, seed) if SANITIZED else in_turn(cases, n, int(second))


def set_variables():
    """TensorFlow is quiet, and computes on the CPU."""
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    os.environ['CUDA_VISIBLE_DEVICES'] = ''


def interpreter(name='tests', requirements='tests/requirements.txt'):
    """Python in a pinned environment, which is made if it does not exist.  HALFTONE_PYTHON names another interpreter that has
    the packages of the requirements file of environment `tests`."""
    python = os.environ.get('HALFTONE_PYTHON') if name == 'tests' else None
    return python or subprocess.run([f'{ROOT}/scripts/venv', name, requirements], check=True,
                                    stdout=subprocess.PIPE, text=True).stdout.strip()


def enter_venv(name='tests', requirements='tests/requirements.txt', onednn=True, served=True):
    """Continues in the pinned environment, where TensorFlow runs without Keras; see keras().  Without `onednn` TensorFlow computes
    with its own kernels alone.  Where a server runs (tensorflow_server.py), TensorFlow is imported already if `served`."""
    set_variables()
    if not onednn:
        os.environ[tensorflow_server.ONEDNN] = '0'
    python = interpreter(name, requirements)
    if os.path.abspath(sys.executable) != os.path.abspath(python):
        os.environ['PYTHONDONTWRITEBYTECODE'] = '1'
        if name == 'tests' and served:
            tensorflow_server.run()
        os.execv(python, [python] + sys.argv)
    if name == 'tests':
        tensorflow_server.leave_out_unused()


def keras():
    """The module Keras, for tests that use it."""
    if sys.modules.get('keras') is None:
        sys.modules.pop('keras', None)
    import keras as module
    return module


def obtain(name):
    """Makes sure that MODELS contains a model or package of scripts/models."""
    subprocess.run([f'{ROOT}/scripts/models', MODELS, name], check=True, stdout=sys.stderr)


def node_modules(folder='tests', name='node'):
    """The folder with TensorFlow.js, installed in build/NAME with the versions of FOLDER/package-lock.json."""
    where = f'{ROOT}/build/{name}'
    with open(f'{ROOT}/{folder}/package-lock.json') as f:
        lock = f.read()
    done = f'{where}/installed.json'
    if not os.path.exists(done) or open(done).read() != lock:
        os.makedirs(where, exist_ok=True)
        for f in 'package.json', 'package-lock.json':
            with open(f'{ROOT}/{folder}/{f}') as a, open(f'{where}/{f}', 'w') as b:
                b.write(a.read())
        subprocess.run(['npm', 'ci', '--silent', '--no-audit', '--no-fund'], cwd=where, check=True,
                       stdout=sys.stderr)
        with open(done, 'w') as f:
            f.write(lock)
    return where
