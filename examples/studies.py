#!/usr/bin/env python3
"""What precision policies do to models that do a task: accuracy, error, speed and memory under five policies.

usage: studies.py [STUDY …] [--json FILE] [--runs N] [--check FILE]
       studies.py --page FILE.json > docs/studies.md

Each study makes its samples, runs `halftone compare` on them, and prints a table.  Samples are real: digits of MNIST, recordings of spoken words,
photographs; of BERT-base the shapes alone are, and its words are random.  Where there are no right answers, accuracy is the agreement with
float32.  --page makes docs/studies.md of an earlier --json.  --check compares metrics with those of an earlier --json: the exit code is
1 if one is outside of the earlier interval.  Needs what the tests need (tests/requirements.txt), their models and data."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'tests', 'tools'), os.path.join(HERE, '..', 'tests', 'models')]
import environment  # noqa: E402

environment.enter_venv()
import numpy as np  # noqa: E402

import data  # noqa: E402

POLICIES = 'must_keep_origin_dtype', 'allow_mix_precision_fp16', 'allow_mix_precision_bf16', 'force_fp16', 'optimal'
WORDS = f'{environment.SHARED}/models/data/speech_commands'
KEYWORDS = f'{environment.SHARED}/models/kws'


def digits(folder):
    with zipfile.ZipFile(os.path.join(HERE, 'digits', 'samples.npz')) as z:
        image, label = z.extract('image.npy', folder), z.extract('label.npy', folder)
    return [os.path.join(HERE, 'digits', 'model.pb'), '--samples', image, '--labels', label, '--metric', 'top1']


def recordings(known):
    """The recordings and the numbers of their labels; words that the models do not know have the label _unknown_."""
    for word in sorted(os.listdir(WORDS)):
        for name in sorted(os.listdir(f'{WORDS}/{word}')):
            yield f'{WORDS}/{word}/{name}', known.index(word) if word in known else known.index('_unknown_')


def keywords(model):
    """TensorFlow reads the recordings, which the model does from its tensor Mfcc on."""
    def study(folder):
        import tensorflow as tf
        with open(f'{KEYWORDS}/labels.txt') as f:
            known = f.read().split()
        graph = tf.Graph()
        with graph.as_default(), open(f'{KEYWORDS}/{model}.pb', 'rb') as f:
            tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(f.read()), name='')
        features, labels = [], []
        with tf.compat.v1.Session(graph=graph) as session:
            for path, label in recordings(known):
                with open(path, 'rb') as f:
                    features.append(session.run('Mfcc:0', {'wav_data:0': f.read()}))
                labels.append(label)
        np.save(f'{folder}/x.npy', np.stack(features))
        np.save(f'{folder}/y.npy', np.array(labels))
        shape = ','.join(map(str, features[0].shape))
        return [f'{KEYWORDS}/{model}.pb', '--inputs', 'Mfcc', '--input-shape', f'Mfcc:{shape}', '--samples', f'{folder}/x.npy', '--labels',
                f'{folder}/y.npy', '--metric', 'top1']
    return study


def pose(folder):
    """The heat maps of PoseNet on eight sections of a photograph of a person to the waist: whether the peak of each joint's map stays where it is.
    The maps of joints that the photograph does not show have no clear peak."""
    environment.obtain('human-models')
    people = [name for name, (package, _, _) in data.PHOTOS.items() if package == 'matplotlib']
    np.save(f'{folder}/x.npy', np.stack([data.photos(name, 385, 385, 'signed') for name in people]))
    heat = 'MobilenetV1/heatmap_2/BiasAdd'
    return [f'{environment.MODELS}/human-models/posenet.json', '--samples', f'{folder}/x.npy', '--metric', f'{heat}:keypoints']


def emotion(folder):
    environment.obtain('human-models')
    np.save(f'{folder}/x.npy', np.stack([data.photos(name, 64, 64, grey=True) for name in data.PHOTOS]))
    return [f'{environment.MODELS}/human-models/emotion.json', '--samples', f'{folder}/x.npy', '--metric', 'top1']


def bert(folder):
    environment.obtain('bert')
    fed = data.frozen_example('bert', 1)
    draw = np.random.default_rng(1)
    for i in range(4):
        np.savez(f'{folder}/{i}.npz', **{n: draw.integers(0, 1000, x.shape).astype(x.dtype) if x.max() > 1 else x for n, x in fed.items()})
    return [f'{environment.MODELS}/frozen/bert.pb', '--samples', folder, '--metric', 'cosine']


STUDIES = {
    'digits': ('Digits: a small convolutional network, 1,000 labelled digits of MNIST', digits),
    'keywords': ('Spoken words: a depthwise separable network (DS-CNN), labelled recordings', keywords('DS_CNN_S')),
    'lstm': ('Spoken words: an LSTM, the same recordings', keywords('Basic_LSTM_S')),
    'pose': ('Pose: PoseNet on sections of a photograph, agreement of the peaks of heat maps with float32', pose),
    'emotion': ('Faces: a classifier of expressions on photographs, agreement with float32', emotion),
    'bert': ('Text: the shapes of BERT-base with random weights and words, cosine with float32', bert),
}


def compared(study, runs):
    with tempfile.TemporaryDirectory(prefix='halftone-') as folder:
        arguments = study(folder)
        policies = [a for p in POLICIES for a in ('--policy', p)]
        r = subprocess.run([environment.TOOL, 'compare', *arguments, *policies, '--tol', 'rel<=1e9', '--runs', str(runs), '--format', 'json'],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if r.returncode:
        sys.exit(r.stderr)
    return shortened(json.loads(r.stdout)['models'][0])


def shortened(found):
    """What the tables need."""
    rows = [{**{k: row[k] for k in ('policy', 'low_nodes', 'float_nodes', 'memory_bytes', 'metric', 'latency_ms', 'speedup')},
             'rel': max((o['rel'] for o in row['outputs']), key=float)} for row in found['policies']]
    return {**{k: found[k] for k in ('samples', 'target', 'threads', 'metric')}, 'date': time.strftime('%Y-%m-%d'), 'policies': rows}


def table(title, found):
    lines = [f'## {title}', '', f'{found["samples"]} samples; {found["target"]}, {found["threads"]} thread; metric {found["metric"]["name"]} of '
             f'`{found["metric"]["output"]}`.', '', '| policy | low nodes | metric | drop, 95% interval | largest rel error | ms | times as fast | memory, MB |',
             '| --- ' * 8 + '|']
    for row in found['policies']:
        m, ms, speed = row['metric'], row['latency_ms'], row['speedup']
        lines.append(f'| {row["policy"]} | {row["low_nodes"]} of {row["float_nodes"]} | {m["value"]:.4g} | {m["drop"]:.3g} [{m["low"]:.2g}, {m["high"]:.2g}] '
                     f'| {float(row["rel"]):.2g} | {ms["median"]:.3g} [{ms["low"]:.3g}, {ms["high"]:.3g}] | {speed["median"]:.2f} [{speed["low"]:.2f}, {speed["high"]:.2f}] '
                     f'| {row["memory_bytes"] / 1e6:.3g} |')
    return '\n'.join(lines) + '\n'


def outside(name, found, earlier):
    """Says which metrics are not within the earlier intervals."""
    said = []
    for row, before in zip(found['policies'], earlier['policies'], strict=True):
        m, interval = row['metric'], before['metric']
        if (row['policy'], m['samples']) != (before['policy'], interval['samples']) or not interval['low'] <= m['drop'] <= interval['high']:
            said.append(f'{name}, {row["policy"]}: a drop of {m["drop"]:.3g}, earlier [{interval["low"]:.3g}, {interval["high"]:.3g}]')
    if abs(found['policies'][0]['metric']['reference'] - earlier['policies'][0]['metric']['reference']) > 1 / earlier['samples']:
        said.append(f'{name}: the metric of float32 is {found["policies"][0]["metric"]["reference"]}')
    return said


def check(found, path):
    with open(path) as f:
        earlier = json.load(f)
    return [line for name, study in found.items() for line in outside(name, study, earlier[name])]


PAGE = """# Accuracy studies

`examples/studies.py` runs six models on samples of their tasks under five policies ([policies.md](policies.md)), by `halftone compare` ([compare.md](compare.md)). [precision-guide.md](precision-guide.md) says what
follows from the numbers. Test `example.studies` compares the metrics of the first three with this page.

The machine is a Xeon (Emerald Rapids) with AVX-512, float16 and bfloat16 instructions and without AMX, {date}, one thread, shared with other work: times of the large models are longer than on a quiet machine, but programs take turns, so that the relative
speed is that of the same conditions. *metric* is that of the policy's program. *drop* is how much lower it is than that of the model as it is, with an interval of 95% over pairs of samples. Where nothing changed, the end of the interval is the
least drop that so many samples could have shown. *largest rel error* is the largest max|a−b| / max|b| of an output, over samples. *times as fast* is relative to the model as it is. Memory is weights, code, arena and scratch memory.
"""


def page(path):
    with open(path) as f:
        found = json.load(f)
    return '\n'.join([PAGE.format(date=found['digits']['date']), *(table(STUDIES[name][0], found[name]) for name in STUDIES)])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('studies', nargs='*', metavar='STUDY', help=f'{", ".join(STUDIES)} (default: all)')
    p.add_argument('--json', metavar='FILE')
    p.add_argument('--page', metavar='FILE')
    p.add_argument('--runs', type=int, default=25)
    p.add_argument('--check', metavar='FILE')
    a = p.parse_args()
    if a.page:
        sys.stdout.write(page(a.page))
        return
    unknown = set(a.studies) - set(STUDIES)
    if unknown:
        p.error(f'there is no study {sorted(unknown)[0]!r}; there are {", ".join(STUDIES)}')
    found = {}
    for name in a.studies or STUDIES:
        title, study = STUDIES[name]
        found[name] = compared(study, a.runs)
        print(table(title, found[name]), flush=True)
    if a.json:
        with open(a.json, 'w') as f:
            json.dump(found, f, indent=1)
            f.write('\n')
    said = check(found, a.check) if a.check else []
    sys.exit('\n'.join(said) or 0)


main()
