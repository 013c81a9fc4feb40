"""The table of tests in docs/building.md names every test of ctest, with its labels, and no other.

A cell of names contains patterns such as `unit.*`; if several match a test, the longest gives its row. A build under
sanitizers registers fewer tests, so rows without a test are allowed there.

usage: tests.py CTEST BUILD sanitized|whole
"""
import fnmatch
import json
import os
import re
import subprocess
import sys

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'docs', 'building.md')
HEAD = '| tests | names | labels |'


def code(cell):
    return re.findall(r'`([^`]*)`', cell)


def rows():
    """{pattern: labels} of the table."""
    with open(PAGE, encoding='utf-8') as f:
        lines = f.read().split('\n')
    first = next((i for i, line in enumerate(lines) if line.startswith(HEAD)), None)
    if first is None:
        sys.exit(f'docs/building.md has no table that begins with {HEAD}')
    table = {}
    for line in lines[first + 2:]:
        if not line.startswith('|'):
            break
        _, names, labels, *_ = line.strip('|').split('|')
        table.update((pattern, set(code(labels))) for pattern in code(names))
    return table


def registered(ctest, build):
    """{name: labels}"""
    text = subprocess.run([ctest, '--test-dir', build, '--show-only=json-v1'], check=True, stdout=subprocess.PIPE).stdout
    return {t['name']: {label for p in t['properties'] if p['name'] == 'LABELS' for label in p['value']}
            for t in json.loads(text)['tests']}


def problems(table, tests, whole):
    used = set()
    for name, labels in tests.items():
        fitting = [p for p in table if fnmatch.fnmatchcase(name, p)]
        if not fitting:
            yield f'test {name} is in no row'
            continue
        row = max(fitting, key=len)
        used.add(row)
        if labels != table[row]:
            yield f'test {name} has the labels {sorted(labels)}, its row `{row}` has {sorted(table[row])}'
    for row in table if whole else ():
        if row not in used:
            yield f'row `{row}` has no test'


def main():
    ctest, build, what = sys.argv[1:]
    tests = registered(ctest, build)
    wrong = list(problems(rows(), tests, what == 'whole'))
    for w in wrong:
        print(f'docs/building.md: {w}')
    print(f'{len(tests) - len(wrong)} passed, {len(wrong)} failed')
    return 1 if wrong or not tests else 0


if __name__ == '__main__':
    sys.exit(main())
