"""What tests of models with open sizes share."""
import subprocess
import sys

from live import TOLERANCE, close, np, tf, tool


def weights(r, *shape):
    return tf.constant((r.standard_normal(shape) / np.sqrt(np.prod(shape[:-1]))).astype('f4'))


def agree(name, how, outputs, got, want, tolerance=TOLERANCE):
    for o, g, w in zip(outputs, got, want):
        if not close(g, w, tolerance):
            sys.exit(f'{name}, {how}: {o} is {g}, not {w}')


def expected(f, feeds):
    return [t.numpy() for t in f(*map(tf.constant, feeds.values()))]


def make_net(folder, asked):
    net = f'{folder}/net'
    tool('aot', '-q', f'{folder}/m.pb', '--name', 'm', '-o', net, '--target', 'x86-64-v3', *asked)
    subprocess.run(['gcc', '-D_GNU_SOURCE', '-Wall', '-Werror', f'-I{net}', f'{net}/m_main.c', f'{net}/m.o', '-o',
                    f'{net}/main'], check=True)
    return net


def run_net(net, sizes, feeds, want):
    """The results of the net's example, which have the types and shapes of `want`."""
    for n, x in feeds.items():
        x.tofile(f'{net}/{n}.raw')
    raw = subprocess.run([f'{net}/main', *map(str, sizes), *(f'{net}/{n}.raw' for n in feeds)], check=True,
                         stdout=subprocess.PIPE).stdout
    got, at = [], 0
    for w in want:
        got.append(np.frombuffer(raw, w.dtype, w.size, at).reshape(w.shape))
        at += w.nbytes
    return got


def net_refuses(net, *sizes):
    return subprocess.run([f'{net}/main', *map(str, sizes)], capture_output=True).returncode != 0
