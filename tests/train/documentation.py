"""Texts to classify: docstrings of Python packages in the pinned environment of the tests; the class of a text is its package."""
import ast
import os
import zlib

import numpy as np

LENGTH, LEAST, EACH = 1014, 200, 200  # characters of a row; characters of a text at least; texts of each package
ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789-,;.!?:\'"/\\|_@#$%^&*~`+=<>()[]{}'
PADDING, OTHER = 0, 1
PACKAGES = ('PIL', 'absl', 'fontTools', 'grpc', 'keras', 'matplotlib', 'narwhals', 'numpy', 'pygments', 'rich', 'scipy', 'setuptools', 'sklearn',
            'tensorflow')


def order(text):
    return zlib.crc32(text.encode()), text


def files(folder):
    """The modules of a package, without packages that it brings along, in an order that has nothing to do with their contents."""
    found = []
    for path, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if f != '_vendor']
        found += [os.path.relpath(os.path.join(path, n), folder) for n in names if n.endswith('.py')]
    return [os.path.join(folder, f) for f in sorted(found, key=order)]


def docstrings(file):
    with open(file, 'rb') as f:
        source = f.read()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a template, or a module for another version of Python
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ''


def texts(package):
    """The first EACH different texts, from the first modules that have twice as many."""
    found, site = set(), os.path.dirname(os.path.dirname(np.__file__))
    for file in files(os.path.join(site, package)):
        found.update(t for t in docstrings(file) if len(t) >= LEAST)
        if len(found) >= 2 * EACH:
            break
    assert len(found) >= EACH, f'{package} has {len(found)} texts'
    return sorted(found, key=order)[:EACH]


def numbers(text):
    """A row: the places of the characters in the alphabet, and padding behind them."""
    at = {c: OTHER + 1 + i for i, c in enumerate(ALPHABET)}
    row = [at.get(c, OTHER) for c in ' '.join(text.lower().split())[:LENGTH]]
    return row + [PADDING] * (LENGTH - len(row))


def rows():
    """The texts as numbers, and their classes, in an order that has nothing to do with either."""
    of = sorted((order(t), t, label) for label, p in enumerate(PACKAGES) for t in texts(p))
    return np.array([numbers(t) for _, t, _ in of], 'i4'), np.array([label for *_, label in of], 'i4')
