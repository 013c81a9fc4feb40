"""Runs Halftone for measurements."""
import json
import os

import environment
import peers_frozen
import peers_small
from machine import run

POLICIES = {'f32': 'must_keep_origin_dtype', 'bf16': 'allow_mix_precision_bf16',
            'f16': 'allow_mix_precision_fp16', 'optimal': 'optimal'}
# f16short is f16 with products that are summed in float16 over short runs (docs/modes.md), on
# machines with instructions for that.
SHORT_RUNS = ['--policy', POLICIES['f16'], '--op-select-implmode', 'high_performance', '--optypelist-for-implmode', 'MatMul,Conv2D']


def policy_options(dtype):
    """The options of an engine."""
    return SHORT_RUNS if dtype == 'f16short' else ['--policy', POLICIES[dtype]]


def check_dtypes(parser, dtypes):
    for d in dtypes.split(','):
        if d not in POLICIES:
            parser.error(f'--dtypes: {d!r} is none of {", ".join(POLICIES)}')


def find(model, batch):
    """The path of a model, and the options for its shapes."""
    if model in peers_small.ROWS:
        environment.obtain(peers_small.ROWS[model].package)
        return peers_small.source(model), []
    if model in peers_frozen.NAMES:
        environment.obtain(model)
        return peers_frozen.source(model), peers_frozen.shapes(model, batch)
    return model, []


def tool(arguments, threads, wrap=''):
    """The tool's output; RuntimeError with the reason if it fails."""
    done = run([environment.TOOL, *arguments], threads, wrap)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[:200])
    return done.stdout


def warm_memory(source, options, threads, wrap, folder):
    """MB of a process that runs an artefact: its peak, and the difference from weights and arena."""
    path = f'{folder}/m.htx'
    tool(['compile', '-q', source, '-o', path, *options], threads, wrap)
    r = json.loads(tool(['bench', '-q', path, '--runs', '2', '--duration', '0', '--threads', str(threads),
                         '--format', 'json'], threads, wrap))
    os.remove(path)
    return {'warm_rss': r['peak_rss_bytes'] / 1e6,
            'warm_over': (r['peak_rss_bytes'] - r['weight_bytes'] - r['arena_bytes']) / 1e6}
