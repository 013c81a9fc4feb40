"""Common to the tests of methods: random graphs whose kernels have several methods."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, f'{HERE}/../tools']
import environment

ROUNDING = {'float32': 0., 'bfloat16': 2.**-8, 'float16': 2.**-11}
# Bounds for the errors of a block, relative to the root mean square of the results: for float32,
# and in roundings of a 16-bit number.
RMS, LARGEST, LARGEST_ROUNDINGS = 2e-6, 5e-5, 60


def rounded(a, dtype):
    """Random float64 numbers that the type can represent."""
    import numpy as np
    return a.astype(dtype.as_numpy_dtype).astype(np.float64)


def stored(a):
    """In a form that NumPy can store: bfloat16 as its 16 bits."""
    import numpy as np
    return a.view(np.uint16) if a.dtype.itemsize == 2 and a.dtype != np.float16 else a


def tool(*arguments):
    done = subprocess.run([environment.TOOL, *arguments, '-q'], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f'{arguments[0]}: exit {done.returncode}: {done.stderr.strip()[:300]}')
    return done.stdout


def given(folder, proto, feeds, dtype):
    """Writes the graph and the feeds."""
    import numpy as np
    with open(f'{folder}/g.pb', 'wb') as f:
        f.write(proto.SerializeToString())
    np.savez(f'{folder}/x.npz', **{k: stored(v.astype(dtype)) for k, v in feeds.items()})


def computed(folder, feeds, dtype, **options):
    import ml_dtypes
    import numpy as np
    given = [o for k in feeds for o in ('--input', f'{k}=@{folder}/x.npz#{k}')]
    given += [o for k, v in options.items() for o in (f'--{k.replace("_", "-")}', str(v))]
    tool('run', f'{folder}/g.pb', '-o', f'{folder}/y.npz', *given)
    with np.load(f'{folder}/y.npz') as z:
        y = z['y']
    return y.view(ml_dtypes.bfloat16) if dtype == 'bfloat16' else y


def methods(folder, *forced):
    """The methods of the steps of the graph's program, if one method is requested."""
    text = tool('bench', f'{folder}/g.pb', *forced, '--steps', '--format', 'json',
                '--runs', '1', '--duration', '0', '--warmup', '0')
    return [step[2] for step in json.loads(text)['steps_ms'] if len(step) > 2]


def error_of_block(y, exact, dtype, roundings):
    """The error of a result for an expected root mean square error of so many roundings, or None."""
    import numpy as np
    scale = np.sqrt(np.mean(exact ** 2)) or 1.
    error = np.abs(y.astype(np.float64) - exact) / scale
    rms, largest = np.sqrt(np.mean(error ** 2)), error.max(initial=0)
    if not np.isfinite(y).all() or rms > RMS + roundings * ROUNDING[dtype] or \
            largest > LARGEST + LARGEST_ROUNDINGS * ROUNDING[dtype]:
        return f'errors {rms:.2g} (root mean square), {largest:.2g} (largest)'
    return None


def problems_of_blocks(folder, feeds, dtype, targets, wrong):
    """Checks that both methods of a block give the same bits, with one thread and with two; `wrong` judges them."""
    for target in targets:
        bits = {}
        for name, method, threads in (('kernels', 'kernels', 1), ('rows', 'rows', 1),
                                      ('rows by two threads', 'rows', 2)):
            y = computed(folder, feeds, dtype, target=target, block_method=method, threads=threads)
            bits[name] = stored(y).tobytes()
        problem = wrong(y)
        if problem:
            yield f'{target}: {problem}'
        for name in bits:
            if bits[name] != bits['kernels']:
                yield f'{target}: {name}: other bits than kernels'


def runnable():
    """The targets up to that of this machine."""
    rows = json.loads(tool('targets', '--format', 'json'))['targets']
    return [t['name'] for t in rows[:1 + [bool(t['host']) for t in rows].index(True)]]


def problems_of(tf, r, case, targets, check):
    with tempfile.TemporaryDirectory() as folder:
        try:
            return list(check(tf, r, case, targets, folder))
        except (RuntimeError, ValueError) as e:
            return [str(e)]


def run(module, seed, count):
    """Of so many cases checks every third one, under sanitizers every twelfth, in turn; (passed, failed).  The module's check() yields the
    errors of one case.  Each case has random numbers of its own, so that it is the same whichever others are checked."""
    import numpy as np
    import tensorflow as tf
    targets, passed, failed = runnable(), 0, 0
    print(f'{module.__name__}: seed {seed}, targets {" ".join(targets)}')
    for i in environment.in_turn(range(count), min(12 if environment.SANITIZED else 3, count)):
        r = np.random.default_rng([seed, i])
        case = module.random_case(r)
        # code of this machine, and of a lesser one by turn
        some = targets if environment.LONG else sorted({targets[i % len(targets)], targets[-1]}, key=targets.index)
        problems = problems_of(tf, r, case, some, module.check)
        passed, failed = passed + (not problems), failed + bool(problems)
        for p in problems:
            print(f'FAIL {module.__name__}, case {i} {case}: {p}', flush=True)
    return passed, failed
