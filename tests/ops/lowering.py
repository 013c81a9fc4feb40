#!/usr/bin/env python3
"""Kernels that have several methods, on random graphs.

NAME is a module of this folder with SEED, CASES, random_case() and check(), whose docstring says what it tests:
attention, blocks, excite, held, long_sums, orders, parts, pieces, rounding, shared_rows, widened, winograd.  The seed of each is printed; --seed
takes another.
"""
import argparse
import importlib
import sys

import cases
import environment

NAMES = 'attention blocks excite held long_sums orders parts pieces rounding shared_rows widened winograd'.split()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument('names', nargs='*', metavar='NAME', help='all without a name')
    p.add_argument('--seed', type=int)
    p.add_argument('--cases', type=int, help='at most so many cases of each')
    a = p.parse_args()
    unknown = set(a.names) - set(NAMES)
    if unknown:
        p.error(f'no module {", ".join(unknown)}')
    environment.enter_venv(onednn=False)
    passed = failed = 0
    for name in a.names or NAMES:
        module = importlib.import_module(name)
        right, wrong = cases.run(module, module.SEED if a.seed is None else a.seed,
                                 module.CASES if a.cases is None else min(a.cases, module.CASES))
        passed, failed = passed + right, failed + wrong
    print(f'{passed} passed, {failed} failed')
    return 1 if failed or not passed else 0


if __name__ == '__main__':
    sys.exit(main())
