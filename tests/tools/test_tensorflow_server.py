#!/usr/bin/env python3
"""Tests that a server of TensorFlow continues (tensorflow_server.py): they end, print and read as they do without one, and no process
is left over."""
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import environment
import tensorflow_server

HERE = os.path.dirname(os.path.abspath(__file__))
SERVER = os.path.join(HERE, 'tensorflow_server.py')
ENTER = f'import os, sys\nsys.path.insert(0, {HERE!r})\nimport environment\nenvironment.enter_venv(onednn=False)\n'


class Server(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.path.abspath(environment.interpreter()) == os.path.abspath(sys.executable):
            raise unittest.SkipTest('tests are in their environment from the beginning, and ask no server')
        cls.folder = tempfile.TemporaryDirectory()
        cls.command, cls.env = cls.serve('folder')

    @classmethod
    def tearDownClass(cls):
        cls.command.stdin.close()
        cls.command.wait()
        cls.folder.cleanup()

    @classmethod
    def serve(cls, name, **more):
        """A command beside which servers run until its standard input ends, and the environment of its tests."""
        ready = cls.path(name)
        program = f'import os\nwith open({ready!r}, "w") as f: f.write(os.environ["HALFTONE_TENSORFLOW"])\nos.read(0, 1)'
        command = subprocess.Popen([sys.executable, SERVER, sys.executable, '-c', program], stdin=subprocess.PIPE, **more)
        return command, {**os.environ, 'HALFTONE_TENSORFLOW': cls.read(ready, command)}

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @staticmethod
    def read(path, process):
        """The text of a file that the process writes at once."""
        while not os.path.exists(path) or not os.path.getsize(path):
            if process.poll() is not None:
                raise RuntimeError(f'{process.args} ended with {process.returncode}')
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
        r = self.run_test('before = set(sys.modules)\nimport tensorflow as tf\nprint(tf.constant([1., 2.]).numpy().sum(), sorted(set(sys.modules) - before))')
        self.assertEqual(r.stdout, "3.0 ['tensorflow']\n", 'TensorFlow was imported again')

    def test_surroundings(self):
        self.env['ODD'] = 'é 1'
        self.env.pop('PYTHONDONTWRITEBYTECODE', None)  # which tests set for what they start
        r = self.run_test('print(sys.argv[1:], os.environ["ODD"], os.environ["PYTHONDONTWRITEBYTECODE"], os.getcwd(), input(), __name__, '
                          'sys.path[1])', 'a b', 'c', input='said\n', cwd='/')
        self.assertEqual(r.stdout, f"['a b', 'c'] é 1 1 / said __main__ {self.folder.name}\n")

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

    def begin(self, name, env, text=''):
        """A test that waits for ever: its first process, the group of the process that continues, and the process of the server."""
        path = self.path(name)
        running = subprocess.Popen(self.write(f'{text}\nwith open({path!r}, "w") as f: f.write(f"{{os.getpgid(0)}} {{os.getppid()}}")\n'
                                              'os.read(os.pipe()[0], 1)'), env=env, stderr=subprocess.DEVNULL)
        return running, *map(int, self.read(path, running).split())

    def assert_ended(self, group):
        for _ in range(1000):
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return
            time.sleep(.01)
        os.killpg(group, signal.SIGKILL)
        self.fail('the test runs on')

    def test_ends_with_the_program_that_ctest_ends(self):
        running, group, _ = self.begin('ended', self.env, 'import subprocess\nsubprocess.Popen(["sleep", "600"])')
        running.kill()
        running.wait()
        self.assert_ended(group)

    def test_interrupted(self):
        """Ctrl-C in a terminal is a signal for the command and the tests, but not for the server, which ends what is left of them."""
        command, env = self.serve('interrupted', start_new_session=True, stderr=subprocess.DEVNULL)
        running, group, _ = self.begin('interrupted_test', env)
        os.killpg(command.pid, signal.SIGINT)
        self.assertEqual(command.wait(), 128 + signal.SIGINT)
        self.assert_ended(group)
        self.assertEqual(running.wait(), 1)
        command.stdin.close()

    def test_server_is_killed(self):
        command, env = self.serve('killed')
        running, group, server = self.begin('killed_test', env)
        os.kill(server, signal.SIGKILL)
        self.assert_ended(group)
        self.assertEqual(running.wait(), 1)
        command.stdin.close()
        self.assertEqual(command.wait(), 0)

    def test_no_memory(self):
        """A server that cannot fork begins nothing, so that the test imports TensorFlow itself; and it goes on."""
        with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as test:
            listening.bind(self.path('socket'))
            listening.listen()
            test.connect(self.path('socket'))
            socket.send_fds(test, [b'?'], [test.fileno()] * 4)
            with unittest.mock.patch('selectors.DefaultSelector', selectors.SelectSelector), \
                    unittest.mock.patch('os.fork', side_effect=BlockingIOError('no process')), unittest.mock.patch('sys.stderr'):
                self.assertIsNone(tensorflow_server.Tests(listening).accept())
            self.assertEqual(test.recv(1), b'')

    def test_long_folder(self):
        """Sockets cannot have such paths; the command runs without servers."""
        folder = self.path('long' * 30)
        os.mkdir(folder)
        r = subprocess.run([sys.executable, SERVER, sys.executable, '-c', 'print(5)'], env={**os.environ, 'TMPDIR': folder}, capture_output=True)
        self.assertEqual((r.returncode, r.stdout), (0, b'5\n'), r.stderr)

    def test_without_server(self):
        with tempfile.TemporaryDirectory() as nothing:
            self.assertEqual(subprocess.run(self.write('sys.exit(5)'), env={**self.env, 'HALFTONE_TENSORFLOW': nothing}).returncode, 5)


if __name__ == '__main__':
    unittest.main()
