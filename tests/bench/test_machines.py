#!/usr/bin/env python3
"""bench/machines replaces the rows of its machine and keeps those of others; it merges rounds, and a disturbed start
does not count."""
import importlib.machinery
import importlib.util
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = f'{HERE}/../../bench'
loader = importlib.machinery.SourceFileLoader('machines', f'{BENCH}/machines')
sys.dont_write_bytecode = True
machines = importlib.util.module_from_spec(importlib.util.spec_from_loader('machines', loader))
loader.exec_module(machines)


def one(median):
    return {'median': median, 'min': median, 'p90': median, 'spread': .01, 'samples': [{'median': median}]}


def result(ours, peer, **more):
    return {'cpu': 'C', 'processors': 2, 'load': [.5, 0, 0], 'date': '2026-01-02', 'threads': 1, 'batch': 1, 'peak_gflops': {'f32': 100., 'bf16': 200.},
            'sizes': {'bert': {}}, 'models': {'bert': {
                'halftone-f32': one(ours), 'openvino-f32': one(peer), 'halftone-bf16': one(ours / 2), 'openvino-bf16': one(peer)}}, **more}


class Machines(unittest.TestCase):
    def test_rounds_that_agree(self):
        rounds = [result(10, 12), result(10.2, 12.1)]
        joined = machines.steady(rounds, .05)
        self.assertAlmostEqual(joined['models']['bert']['halftone-f32']['median'], 10.1)
        self.assertEqual(len(joined['models']['bert']['halftone-f32']['samples']), 2)
        self.assertIsNone(machines.steady([result(10, 12), result(12, 12)], .05))
        self.assertIsNone(machines.steady([result(10, 12)], .05))
        disturbed = machines.steady([result(20, 12), *rounds], .05)
        self.assertAlmostEqual(disturbed['models']['bert']['halftone-f32']['median'], 10.1)

    def test_rows_of_others_stay(self):
        head = 'text\n\n| machine | dtype | BERT | least |\n| --- | --- | --- | --- |\n'
        text = head + '| A | float32 | 1.00 | 1.00 |\n| B | float32 | 2.00 | 2.00 |\n\nbehind\n'
        self.assertEqual(machines.replace_rows(text, 'A', ['| A | new |']), head + '| A | new |\n| B | float32 | 2.00 | 2.00 |\n\nbehind\n')
        self.assertEqual(machines.replace_rows(text, 'C', ['| C | new |']),
                         head + '| A | float32 | 1.00 | 1.00 |\n| B | float32 | 2.00 | 2.00 |\n| C | new |\n\nbehind\n')

    def test_sections_of_others_stay(self):
        text = 'x\n<!-- machine a -->\n1\n<!-- end of machine -->\n\n<!-- machine b -->\n2\n<!-- end of machine -->\ny\n'
        self.assertEqual(machines.replace_section(text, 'a', ['new']), text.replace('1', 'new'))
        added = machines.replace_section(text, 'c', ['3'])
        self.assertEqual(added, text.replace('y\n', '\n<!-- machine c -->\n3\n<!-- end of machine -->\ny\n'))

    def test_tables(self):
        with tempfile.TemporaryDirectory() as top:
            os.mkdir(f'{top}/bench')
            with open(f'{top}/README.md', 'w') as f:
                f.write('| machine | dtype | BERT | least |\n| --- | --- | --- | --- |\n')
            with open(f'{top}/bench/README.md', 'w') as f:
                f.write('<!-- machine zen4 -->\n<!-- end of machine -->\n')
            for _ in range(2):  # a second call changes nothing
                machines.write_tables(result(10, 12), 'zen4', .05, top)
                with open(f'{top}/README.md') as f:
                    self.assertEqual(f.read().split('\n')[2:], ['| Zen 4 | float32 | 1.20 | 1.20 |', '| Zen 4 | bfloat16 | 2.40 | 2.40 |', ''])
                with open(f'{top}/bench/README.md') as f:
                    text = f.read()
                self.assertIn('| bert | 10.00 | openvino-f32 | 12.00 | 1.20 | 5.00 | openvino-bf16 | 12.00 | 2.40 |', text)
                self.assertNotIn('not steady', text)
            machines.write_tables(result(10, 12), 'zen4', .001, top)
            with open(f'{top}/bench/README.md') as f:
                self.assertIn('**above 0%: not steady**', f.read())

    def test_what_was_not_measured_stays(self):
        with tempfile.TemporaryDirectory() as top:
            path = f'{top}/r.json'
            machines.keep(result(10, 12), path)
            again = result(9, 12)
            del again['models']['bert']['halftone-bf16']
            machines.keep(again, path)
            kept = machines.load(path)['models']['bert']
            self.assertEqual((kept['halftone-f32']['median'], kept['halftone-bf16']['median']), (9, 5))

    def test_the_tables_that_are_there(self):
        """The figures in README.md are the measured ones."""
        with open(f'{BENCH}/../README.md') as f:
            readme = f.read()
        for machine in 'zen4', 'emeraldrapids':
            measured = machines.load(machines.path_of(machine))
            for row in machines.short_rows(measured, machines.WORDS[machine]):
                self.assertIn(row, readme)


if __name__ == '__main__':
    unittest.main()
