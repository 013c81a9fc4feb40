#!/usr/bin/env python3
"""The vendor's msaccucmp, from PyPI's mindstudio-probe, reads the files of run --dump, and finds the same errors as
NumPy.

Its wheel is unpacked without its other dependencies; without a network and without the wheel the test is skipped."""
import glob
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f'{HERE}/../tools']
import environment

VERSION = '26.2.0'
MODEL, POLICY = 'mobilenetv2', 'allow_mix_precision_bf16'


def obtain():
    where = f'{environment.BUILD}/msprobe-{VERSION}'
    if not os.path.exists(f'{where}/msprobe/msaccucmp/msaccucmp.py'):
        done = subprocess.run([sys.executable, '-m', 'pip', 'install', '--quiet', '--no-deps', '--target', where,
                               f'mindstudio-probe=={VERSION}'], capture_output=True, text=True)
        if done.returncode:
            print(done.stderr.strip()[-300:])
            sys.exit(environment.SKIPPED)
    return f'{where}/msprobe/msaccucmp'


def dump(folder, *policy):
    model = f'{environment.MODELS}/frozen/{MODEL}.pb'
    subprocess.run([environment.TOOL, 'run', model, '-q', '--dump', folder, '--dump-mode', 'all', *policy], check=True, stdout=subprocess.DEVNULL)
    found = {}
    for f in glob.glob(f'{folder}/*/0/{MODEL}/1/0/*.npy'):
        part = os.path.basename(f).split('.')
        found['.'.join(part[1:2] + part[5:7])] = f
    return found


def main():
    import numpy as np
    tool = obtain()
    environment.obtain(MODEL)
    sys.path.insert(0, tool)
    from cmp_utils import file_utils
    from dump_parse import dump_utils
    with tempfile.TemporaryDirectory() as folder:
        plain, low = dump(f'{folder}/plain'), dump(f'{folder}/low', '--policy', POLICY)
        names = sorted(set(plain) & set(low))
        assert len(names) > 200, len(names)
        for name in names[::5]:
            data = dump_utils.parse_dump_file(low[name], 2)
            data = data[0] if isinstance(data, (list, tuple)) else data
            assert list(data.output_data[0].shape) == list(np.load(low[name]).shape), name
        for name in names[::60]:
            mine, golden = np.load(low[name]).astype(np.float64), np.load(plain[name]).astype(np.float64)
            if not golden.any():
                continue
            os.makedirs(f'{folder}/out', exist_ok=True)
            said = subprocess.run([sys.executable, 'msaccucmp.py', 'file_compare', '-m', low[name], '-g', plain[name], '-out', f'{folder}/out'],
                                  cwd=tool, capture_output=True, text=True)
            assert said.returncode == 0, said.stdout[-600:]
            lines = (said.stdout + said.stderr).splitlines()
            at = [i for i, line in enumerate(lines) if 'CosineSimilarity' in line][-1]
            values = lines[at + 1].split(']')[-1].split()
            cosine = (mine * golden).sum() / np.sqrt((mine**2).sum() * (golden**2).sum())
            assert abs(float(values[0]) - cosine) < 1e-4, (name, values, cosine)
            assert abs(float(values[1]) - np.abs(mine - golden).max()) <= 1e-5 * max(1, np.abs(golden).max()), (name, values)
        print(f'{len(names)} tensors, read by msaccucmp {VERSION}')


if __name__ == '__main__':
    environment.enter_venv()
    main()
