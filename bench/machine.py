"""What measurements have in common: the machine, where children run, and what becomes of results."""
import json
import os
import platform
import shlex
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def processor():
    with open('/proc/cpuinfo') as f:
        names = [l.split(':')[1].strip() for l in f if l.startswith('model name')]
    return names[0] if names else platform.processor()


def describe():
    """What a file of results says of when and on what."""
    return {'cpu': processor(), 'processors': len(os.sched_getaffinity(0)),
            'load': os.getloadavg(), 'date': time.strftime('%Y-%m-%d', time.gmtime())}


def pinned(threads):
    """Runs a child on the first processors only."""
    return lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def run(command, threads, wrap='', **more):
    """A measurement as a process: on the first processors, or as the words `wrap` in front of it say."""
    return subprocess.run(shlex.split(wrap) + command, capture_output=True, text=True,
                          preexec_fn=None if wrap else pinned(threads), **more)


def peak(wrap=''):
    """Multiply-adds of one core, times two, in GFLOP/s: {'f32': …, 'bf16': …, 'f16': …}, of what it has; now."""
    program = f'{ROOT}/build/peak'
    source = f'{ROOT}/bench/peak.c'
    if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
        subprocess.run(['clang-19', '-O3', '-march=native', '-std=c11', source, '-o', program],
                       check=True)
    said = run([program], 1, wrap, check=True).stdout.split()
    return {name: float(said[said.index(word) + 1])
            for name, word in (('f32', 'fp32'), ('bf16', 'bf16'), ('f16', 'fp16')) if word in said}


def write_json(path, schema, content):
    """With the machine, and without where on it things are."""
    text = json.dumps({'schema': schema, **describe(), **content}, indent=1)
    for place in ROOT, os.environ.get('HALFTONE_MODELS', ''), os.path.expanduser('~'):
        text = text.replace(place + '/', '') if place else text
    with open(path, 'w') as f:
        f.write(text + '\n')
