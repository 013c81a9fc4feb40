"""Debian's Chromium without a window, controlled by the protocol of its developer tools over two pipes: no port, no
network."""
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.parse

COMMAND = 'chromium'
QUIET = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
         '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage']


def is_installed():
    return shutil.which(COMMAND) is not None


class Browser:
    """A browser with one page, in a folder of its own.  `events` are those of the page and its requests, in order."""

    def __init__(self, width=1200, height=1400, prefix=()):
        self.folder = tempfile.TemporaryDirectory(prefix='halftone-browser-', ignore_cleanup_errors=True)
        to_child, self.to = os.pipe()
        self.come_from, from_child = os.pipe()
        # The browser reads file descriptor 3 and writes 4.
        shell = f'exec 3<&{to_child} 4>&{from_child}; exec "$@"'
        self.process = subprocess.Popen(
            ['sh', '-c', shell, 'sh', *prefix, COMMAND, *QUIET, '--remote-debugging-pipe', f'--user-data-dir={self.folder.name}',
             f'--window-size={width},{height}', 'about:blank'], pass_fds=(to_child, from_child), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.rest, self.events, self.number, self.session = b'', [], 0, None
        target = self.ask('Target.createTarget', url='about:blank')['targetId']
        self.session = self.ask('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        for domain in 'Page', 'Runtime', 'Log', 'Network', 'DOM':
            self.ask(f'{domain}.enable')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.to)
        os.close(self.come_from)
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def message(self):
        while b'\0' not in self.rest:
            more = os.read(self.come_from, 1 << 16)
            if not more:
                raise RuntimeError('the browser ended')
            self.rest += more
        one, self.rest = self.rest.split(b'\0', 1)
        return json.loads(one)

    def ask(self, method, **parameters):
        self.number += 1
        asked = dict(id=self.number, method=method, params=parameters)
        if self.session:
            asked['sessionId'] = self.session
        data = json.dumps(asked).encode() + b'\0'
        while data:
            data = data[os.write(self.to, data):]
        while True:
            m = self.message()
            if m.get('id') == self.number:
                if 'error' in m:
                    raise RuntimeError(f'{method}: {m["error"]}')
                return m['result']
            self.events.append(m)

    def wait_for(self, method):
        """Waits for an event since the last clear."""
        while not any(e.get('method') == method for e in self.events):
            self.events.append(self.message())

    def open(self, path):
        self.events.clear()
        self.ask('Page.navigate', url='file://' + urllib.parse.quote(os.path.abspath(path)))
        self.wait_for('Page.loadEventFired')

    def value(self, expression):
        found = self.ask('Runtime.evaluate', expression=expression, returnByValue=True)
        if 'exceptionDetails' in found:
            raise RuntimeError(found['exceptionDetails'])
        return found['result'].get('value')

    def until(self, expression):
        """Waits for changes that the page makes by itself, such as scrolling."""
        for _ in range(200):
            if self.value(expression):
                return
            time.sleep(0.05)
        raise AssertionError(f'{expression}: it is {self.value(expression)} after 10 s')

    def press(self, key, code=None, text=None):
        for kind in 'keyDown', 'keyUp':
            self.ask('Input.dispatchKeyEvent', type=kind, key=key, code=key if key != ' ' else 'Space',
                     windowsVirtualKeyCode=code or 0, **({'text': text} if text and kind == 'keyDown' else {}))

    def complaints(self):
        """Messages of the console and exceptions."""
        return [e for e in self.events if e.get('method') in ('Runtime.consoleAPICalled', 'Runtime.exceptionThrown', 'Log.entryAdded')]

    def requests(self):
        return [e['params']['request']['url'] for e in self.events if e.get('method') == 'Network.requestWillBeSent']
