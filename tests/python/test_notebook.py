#!/usr/bin/env python3
"""Jupyter runs examples/digits.ipynb; and the progress of a long compilation there."""
import os, subprocess, sys, unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'tools'))
import environment

environment.enter_venv('notebook', 'tests/python/notebook.txt')
import nbformat
from nbclient import NotebookClient

os.environ.update(PYTHONPATH=f'{environment.BUILD}/python', PYDEVD_DISABLE_FILE_VALIDATION='1')


def run(notebook, folder):
    """Runs all cells, each of which must succeed."""
    NotebookClient(notebook, timeout=None, kernel_name='python3', resources={'metadata': {'path': folder}}).execute()
    return [cell for cell in notebook.cells if cell.cell_type == 'code']


class Notebooks(unittest.TestCase):
    def test_example(self):
        path = f'{environment.ROOT}/examples/digits.ipynb'
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        self.assertFalse([cell for cell in notebook.cells if cell.get('outputs')])  # as git has it, without outputs
        cells = run(notebook, os.path.dirname(path))
        shown = '\n'.join(str(cell.outputs) for cell in cells)
        for text in '<Program', 'bfloat16', 'node':
            self.assertIn(text, shown)

    def test_progress(self):
        code = ('import halftone as ht, halftone._progress as progress, halftone._library as library, time\n'
                'clock = iter(range(1000)); progress.monotonic = lambda: next(clock)\n'  # simulates the second second, without waiting for it
                'compile = library.lib.ht_compile\n'
                'library.lib.ht_compile = lambda *a: (compile(*a), time.sleep(.5))[0]\n'
                f'p = ht.load({f"{environment.ROOT}/tests/cli/small.hir"!r}).compile(cache="off")')
        cell, = run(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)]), environment.ROOT)
        output, = cell.outputs
        self.assertEqual(output.output_type, 'display_data')
        self.assertRegex(output.data['text/plain'], r'^compiled in \d+\.\d s$')


if __name__ == '__main__':
    unittest.main()
