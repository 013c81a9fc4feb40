#!/usr/bin/env python3
"""tensorflow_server.py COMMAND...: runs a command, such as ctest, whose tests share one import of TensorFlow.

`import tensorflow` takes about three seconds of a processor, in some hundred tests.  While the command runs, a test that asks for
the environment `tests` (environment.enter_venv()) hands its arguments, environment, folder and standard files to a server,
which has imported TensorFlow; the server forks a process that continues as the test, and the test's first process ends as that one does.
Where there is no server, the test imports TensorFlow itself.
The continued test has the limits, the priority, and the mask of new files' modes of the command.  It ends when its first process, the command or the server does.

TensorFlow reads TF_ENABLE_ONEDNN_OPTS while it is imported, so there is a server for each of its values; it starts when a
test first asks for it.  A test sets the variable before it enters the environment, or says it there; if it sets it later, `import tensorflow` fails.

$HALFTONE_TENSORFLOW is the folder of the sockets.  A request is a message of one byte with four files: the standard files, and
the rest as JSON in memory.  The answer is a byte when the process was forked, and its status, four bytes, when it has ended; if the
connection ends before the first byte, nothing was begun.
"""
import atexit
import gc
import importlib.machinery
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import types
import warnings

FOLDER = 'HALFTONE_TENSORFLOW'
ONEDNN = 'TF_ENABLE_ONEDNN_OPTS'
VALUES = '0', '1'  # of ONEDNN
# `import tensorflow` imports Keras if it can, and Keras imports the others if it can.  They take
# much of the time of that import, and few tests use them.  Importing a module that is None here
# fails.
UNUSED = 'keras', 'matplotlib', 'sklearn'
PR_SET_PDEATHSIG = 1


def leave_out_unused():
    sys.modules.update(dict.fromkeys(m for m in UNUSED if m not in sys.modules))


# ---- a test ----

def run():
    """Has a server run this program from its beginning, and ends as that does.  Returns if there is no server."""
    folder, onednn = os.environ.get(FOLDER), os.environ.get(ONEDNN, '1')
    if not folder or onednn not in VALUES:
        return
    with socket.socket(socket.AF_UNIX) as server, tempfile.TemporaryFile() as rest:
        rest.write(json.dumps({'argv': sys.argv, 'folder': os.getcwd(), 'environment': dict(os.environ)}).encode())
        rest.flush()
        try:
            server.connect(f'{folder}/{onednn}')
            socket.send_fds(server, [b'?'], [0, 1, 2, rest.fileno()])
            begun = server.recv(1)
        except OSError:
            return
        if begun:
            end_as(server.recv(4, socket.MSG_WAITALL))


def end_as(status):
    if len(status) < 4:
        print('the server of TensorFlow ended before the test did', file=sys.stderr, flush=True)
        os._exit(1)
    code = os.waitstatus_to_exitcode(struct.unpack('i', status)[0])
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


# ---- a server ----

class Imported:
    """Has `import tensorflow` find the module that the server imported, if the test wants it with the server's value of ONEDNN."""

    def __init__(self):
        self.module = sys.modules.pop('tensorflow')
        self.spec, self.onednn = self.module.__spec__, os.environ[ONEDNN]

    def find_spec(self, name, path=None, target=None):
        if name != 'tensorflow':
            return None
        if os.environ.get(ONEDNN, '1') != self.onednn:
            raise RuntimeError(f'{ONEDNN} has another value than before environment.enter_venv()')
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        module.__spec__ = self.spec


class Tests:
    """The processes of a server, each with the connection of its test.  Standard input ends when the command has ended."""

    def __init__(self, listening):
        self.listening, self.connections = listening, {}  # process → connection
        self.selector = selectors.DefaultSelector()
        self.selector.register(listening, selectors.EVENT_READ, self.accept)
        self.selector.register(0, selectors.EVENT_READ, self.stop)

    def next(self):
        """Serves until it is in a process that is to continue as a test; returns that test's files."""
        while True:
            for key, _ in self.selector.select():
                files = key.data()
                if files:
                    return files

    def accept(self):
        connection, _ = self.listening.accept()
        _, files, _, _ = socket.recv_fds(connection, 1, 4)
        pid = fork() if len(files) == 4 else None
        if pid == 0:
            self.leave()
            connection.close()
            return files
        for f in files:
            os.close(f)
        if pid:
            self.begin(pid, connection)
        else:
            connection.close()
        return None

    def begin(self, pid, connection):
        self.connections[pid] = connection
        ended = os.pidfd_open(pid)
        for f in ended, connection:
            self.selector.register(f, selectors.EVENT_READ, lambda: self.end(pid, ended))
        send(connection, b'!')

    def end(self, pid, ended):
        """One of two has happened: the process has ended, or else its test has, and the process ends with it."""
        if pid not in self.connections:
            return  # both at once
        connection = self.connections.pop(pid)
        done, status = os.waitpid(pid, os.WNOHANG)
        if not done:
            kill(pid)
            _, status = os.waitpid(pid, 0)
        self.selector.unregister(ended)
        self.selector.unregister(connection)
        send(connection, struct.pack('i', status))
        os.close(ended)
        connection.close()

    def stop(self):
        for pid in self.connections:
            kill(pid)
        os._exit(0)

    def leave(self):
        """In a new process: closes what belongs to the server."""
        for key in list(self.selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
            elif key.fd > 2:
                os.close(key.fd)
        self.selector.close()


def fork():
    """As os.fork(), or None where the machine has no memory or no process left: then the test imports TensorFlow itself."""
    import ctypes
    server, prctl = os.getpid(), ctypes.CDLL(None).prctl
    try:
        with warnings.catch_warnings():  # of Python 3.12 and later, that NumPy has threads; none of them runs while the server waits
            warnings.simplefilter('ignore', DeprecationWarning)
            pid = os.fork()
    except OSError as e:
        print(f'the server of TensorFlow cannot fork: {e}', file=sys.stderr, flush=True)
        return None
    if pid == 0:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # if something kills the server, nobody else ends its tests
        if os.getppid() != server:
            os._exit(1)
    return pid


def send(connection, answer):
    try:
        connection.sendall(answer)
    except OSError:
        pass  # the test has ended


def kill(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has no group of its own yet
        os.kill(pid, signal.SIGKILL)


def continue_as(files):
    """Becomes the test that sent the files."""
    os.setsid()
    for i in range(3):
        os.dup2(files[i], i)
        os.close(files[i])
    with os.fdopen(files[3], 'rb') as f:
        f.seek(0)
        test = json.load(f)
    os.chdir(test['folder'])
    os.environ.clear()
    os.environ.update(test['environment'])
    sys.modules['numpy'].random.seed()  # else the tests of a server have the same random numbers
    sys.argv[:] = test['argv']
    sys.path[0] = os.path.dirname(os.path.realpath(sys.argv[0]))
    sys.modules['__main__'] = main_module = types.ModuleType('__main__')
    main_module.__file__ = sys.argv[0]
    with open(sys.argv[0], 'rb') as f:
        exec(compile(f.read(), sys.argv[0], 'exec'), main_module.__dict__)


def exit_code_of(exit):
    """As Python does: None is success, a text is printed and is a failure."""
    if exit.code is None or isinstance(exit.code, int):
        return exit.code or 0
    print(exit.code, file=sys.stderr)
    return 1


def end(code):
    """Ends without taking TensorFlow's modules apart, which takes longer than forking."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 255)


def serve(listening):
    leave_out_unused()
    import tensorflow  # noqa: F401
    sys.meta_path.insert(0, Imported())
    gc.collect()
    gc.freeze()  # collections in the forked processes leave these objects in memory that is shared
    sys.stdout.flush()
    sys.stderr.flush()
    files = Tests(listening).next()
    code = 0
    try:
        continue_as(files)
    except SystemExit as e:
        code = exit_code_of(e)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    end(code)


# ---- the command ----

class Server:
    """A socket, and the process that serves it once a test has asked for it."""

    def __init__(self, folder, onednn):
        self.onednn, self.process = onednn, None
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(f'{folder}/{onednn}')
        self.listening.listen(64)

    def start(self):
        """Ctrl-C in a terminal, which ends the command, leaves the server alone: it has a session of its own, and ends the tests."""
        import environment
        environment.set_variables()
        f = self.listening.fileno()
        try:
            self.process = subprocess.Popen([environment.interpreter(), __file__, '--serve', str(f)], pass_fds=[f], stdin=subprocess.PIPE,
                                            env={**os.environ, ONEDNN: self.onednn, 'PYTHONDONTWRITEBYTECODE': '1'}, start_new_session=True)
        except (OSError, subprocess.CalledProcessError) as e:
            print(f'no server of TensorFlow: {e}', file=sys.stderr, flush=True)
        self.listening.close()  # so that connections end when the server does

    def stop(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


def wait(running, servers):
    with selectors.DefaultSelector() as selector:
        selector.register(os.pidfd_open(running.pid), selectors.EVENT_READ)
        for server in servers:
            selector.register(server.listening, selectors.EVENT_READ, server)
        while running.poll() is None:
            for key, _ in selector.select():
                if key.data:
                    selector.unregister(key.fileobj)
                    key.data.start()


def servers_in(folder):
    try:
        return [Server(folder, v) for v in VALUES]
    except OSError as e:  # the path of a socket has about a hundred bytes
        print(f'no server of TensorFlow in {folder}: {e}', file=sys.stderr, flush=True)
        return []


def with_servers(command):
    """The exit code of the command."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore it, but tests send it
    with tempfile.TemporaryDirectory() as folder:
        servers = servers_in(folder)
        running = subprocess.Popen(command, env={**os.environ, FOLDER: folder})
        try:
            wait(running, servers)
        except KeyboardInterrupt:
            running.wait()
        finally:
            for server in servers:
                server.stop()
        return running.returncode


def main():
    if sys.argv[1:2] == ['--serve']:
        serve(socket.socket(fileno=int(sys.argv[2])))
    elif len(sys.argv) < 2 or sys.argv[1].startswith('-'):
        sys.exit(__doc__)
    code = with_servers(sys.argv[1:])
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == '__main__':
    main()
