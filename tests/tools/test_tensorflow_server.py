#!/usr/bin/env python3
"""Tests that a server of TensorFlow continues (tensorflow_server.py): they end, print and read as they do without one, and no process
is left over."""
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER = os.path.join(HERE, 'tensorflow_server.py')
ENTER = f'import os, sys\nsys.path.insert(0, {HERE!r})\nimport environment\nenvironment.enter_venv(onednn=False)\n'


class Server(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        ready = cls.path('folder')
        program = f'import os\nwith open({ready!r}, "w") as f: f.write(os.environ["HALFTONE_TENSORFLOW"])\nos.read(0, 1)'
        cls.server = subprocess.Popen([sys.executable, SERVER, sys.executable, '-c', program], stdin=subprocess.PIPE)
        cls.env = {**os.environ, 'HALFTONE_TENSORFLOW': cls.read(ready)}

    @classmethod
    def tearDownClass(cls):
        cls.server.stdin.close()
        cls.server.wait()
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @staticmethod
    def read(path):
        """The text of a file that another process writes at once."""
        while not os.path.exists(path) or not os.path.getsize(path):
            time.sleep(.01)
        with open(path) as f:
            return f.read()

    def write(self, text):
        with open(self.path('t.py'), 'w') as f:
            f.write(ENTER + text)
        return [sys.executable, self.path('t.py')]

    def run_test(self, text, *arguments, **more):
        return subprocess.run([*self.write(text), *arguments], capture_output=True, text=True, env=self.env, **more)

    def test_is_forked(self):
        r = self.run_test('import resource\nused = resource.getrusage(resource.RUSAGE_SELF)\nimport tensorflow as tf\n'
                          'print(tf.constant([1., 2.]).numpy().sum(), used.ru_utime)')
        total, seconds = map(float, r.stdout.split())
        self.assertEqual(total, 3)
        self.assertLess(seconds, .5, 'TensorFlow was imported again')

    def test_surroundings(self):
        self.env['ODD'] = 'é 1'
        r = self.run_test('print(sys.argv[1:], os.environ["ODD"], os.getcwd(), input(), __name__, sys.path[1])', 'a b', 'c',
                          input='said\n', cwd='/')
        self.assertEqual(r.stdout, f"['a b', 'c'] é 1 / said __main__ {self.folder.name}\n")

    def test_ends(self):
        for text, code, said in (('', 0, ''), ('sys.exit(77)', 77, ''), ('sys.exit("reason")', 1, 'reason\n'),
                                 ('os.kill(os.getpid(), 11)', -signal.SIGSEGV, ''), ('os.kill(os.getpid(), 9)', -signal.SIGKILL, ''),
                                 ('os._exit(3)', 3, ''), ('1 / 0', 1, 'ZeroDivisionError: division by zero\n'),
                                 ('import atexit\natexit.register(os.write, 2, b"last")', 0, 'last')):
            with self.subTest(text):
                r = self.run_test(text)
                self.assertEqual(r.returncode, code, r.stderr)
                self.assertTrue(r.stderr.endswith(said), r.stderr)

    def test_random_numbers_differ(self):
        text = 'import numpy, random\nprint(numpy.random.rand(), random.random())'
        self.assertFalse({*self.run_test(text).stdout.split()} & {*self.run_test(text).stdout.split()})

    def test_onednn_is_decided_before(self):
        r = self.run_test('os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"\nimport tensorflow')
        self.assertEqual(r.returncode, 1)
        self.assertIn('TF_ENABLE_ONEDNN_OPTS has another value', r.stderr)

    def test_ends_with_the_program_that_ctest_ends(self):
        path = self.path('group')
        running = subprocess.Popen(self.write('import subprocess\nsubprocess.Popen(["sleep", "600"])\n'
                                              f'with open({path!r}, "w") as f: f.write(str(os.getpgid(0)))\nos.read(os.pipe()[0], 1)'), env=self.env)
        group = int(self.read(path))
        running.kill()
        running.wait()
        for _ in range(1000):
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return
            time.sleep(.01)
        self.fail('the test runs on')

    def test_without_server(self):
        with tempfile.TemporaryDirectory() as nothing:
            self.assertEqual(subprocess.run(self.write('sys.exit(5)'), env={**self.env, 'HALFTONE_TENSORFLOW': nothing}).returncode, 5)


if __name__ == '__main__':
    unittest.main()
