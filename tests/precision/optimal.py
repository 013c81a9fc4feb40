#!/usr/bin/env python3
"""Policy optimal on every frozen model: its price never exceeds that of float32 or of a safe painting; the
bound is met; the decision has the price of its trial; and two runs give the same report.

Exit code 77: nothing to test with.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402


def explain(path):
    # Measured rates may differ between two runs, on a machine whose costs are not part of the library.
    return subprocess.run([environment.TOOL, 'explain', '-q', '--no-measure', '--policy', 'optimal', '--format=json', path],
                          check=True, stdout=subprocess.PIPE).stdout


def check(path):
    text = explain(path)
    report = json.loads(text)
    c = report['certificate']
    assert text == explain(path), 'two runs differ'
    assert c['last_iterate']['cost_ps'] == c['last_iterate']['bound_ps'], c['last_iterate']
    assert abs(report['price_ps'] - c['price_ps']) <= .001 * c['price_ps'], (report['price_ps'], c['price_ps'])
    names = [a['name'] for a in c['alternatives']]
    for name in 'float32', 'iterate 1', 'allow_mix_precision_bf16', 'grappler-bf16', 'pytorch-autocast-bf16':
        assert name in names, (name, names)
    for a in c['alternatives']:
        assert 'refused' in a or c['price_ps'] <= a['price_ps'], (c['winner'], c['price_ps'], a)
    assert c['free_nodes'] > 0
    print(f'{os.path.basename(path)}: {c["winner"]}, {c["price_ps"] / 1e9:.3f} ms; ' +
          ', '.join(f'{a["name"]} {a["price_ps"] / 1e9:.3f}' for a in c['alternatives']))


def main():
    folder = os.path.join(environment.MODELS, 'frozen')
    models = [n for n in sorted(os.listdir(folder)) if n.endswith('.pb')] if os.path.isdir(folder) else []
    if not models:
        print(f'no frozen models in {folder}')
        return environment.SKIPPED
    for name in models:
        check(os.path.join(folder, name))
    return 0


if __name__ == '__main__':
    sys.exit(main())
