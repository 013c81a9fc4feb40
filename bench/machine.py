"""Common parts of measurements: the description of the machine, child processes, and files of results."""
import json
import os
import platform
import shlex
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def processor():
    with open('/proc/cpuinfo') as f:
        names = [l.split(':')[1].strip() for l in f if l.startswith('model name')]
    return names[0] if names else platform.processor()


def describe():
    """The time and the machine, for a file of results."""
    return {'cpu': processor(), 'processors': len(os.sched_getaffinity(0)),
            'load': os.getloadavg(), 'date': time.strftime('%Y-%m-%d', time.gmtime())}


def pinned(threads):
    """Runs a child on the first processors only."""
    return lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def run(command, threads, wrap='', **more):
    """Runs a measurement as a process on the first processors, or by the command `wrap`."""
    return subprocess.run(shlex.split(wrap) + command, capture_output=True, text=True,
                          preexec_fn=None if wrap else pinned(threads), **more)


def run_peer(request, a, python=sys.executable, **more):
    """What a run of bench/peer.py printed before its last line, and that line's JSON; RuntimeError with the reason if it fails."""
    done = run([python, f'{ROOT}/bench/peer.py', json.dumps(request)], a.threads, a.wrap, **more)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ['?'])[-1][:200])
    *said, last = done.stdout.splitlines()
    return said, json.loads(last)


def peak(wrap='', sustained=0):
    """The present multiply-add rate of one core, times two, in GFLOP/s: {'f32': …, 'bf16': …, 'f16': …}, for the
    types that it has.  That of bfloat16 is by matrices where the machine multiplies them.  It is that of the fastest half
    millisecond, or the average of so many seconds."""
    command = [f'{ROOT}/build/bench/peak', *([str(sustained)] if sustained else [])]
    rates = {}
    for line in run(command, 1, wrap, check=True).stdout.splitlines():
        word, *numbers = line.replace(',', '').split()
        name = {'fp32': 'f32', 'bf16': 'bf16', 'fp16': 'f16', 'matrices': 'bf16'}[word]
        rates[name] = float(numbers[-1] if sustained else numbers[0])
    return rates


def write_json(path, schema, content):
    """Writes results with the machine's description, without paths of this machine."""
    text = json.dumps({'schema': schema, **describe(), **content}, indent=1)
    for place in ROOT, os.environ.get('HALFTONE_MODELS', ''), os.path.expanduser('~'):
        text = text.replace(place + '/', '') if place else text
    with open(path, 'w') as f:
        f.write(text + '\n')
