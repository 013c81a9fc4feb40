"""Servers for the tests of the remote cache: nginx, bazel-remote, and a server that misbehaves."""
import base64, hashlib, http.client, os, random, shutil, socket, ssl, struct, subprocess, tempfile, threading, time, unittest


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def wait_for(port, process):
    for _ in range(3000):
        if process.poll() is not None:
            raise RuntimeError(f'the server ended with {process.returncode}')
        try:
            socket.create_connection(('127.0.0.1', port), 1).close()
            return
        except OSError:
            time.sleep(.01)
    raise RuntimeError('the server does not answer')


def certificate(folder, name):
    """A self-signed certificate for NAME, and its key."""
    cert, key = os.path.join(folder, name + '.pem'), os.path.join(folder, name + '.key')
    kind = 'IP' if name[0].isdigit() else 'DNS'
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
                    '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=test', '-addext',
                    f'subjectAltName={kind}:{name}'], check=True, capture_output=True)
    return cert, key


class Nginx:
    """Starts servers: plain, TLS (and with the certificate of another host), on a socket; with a password, a token,
    read-only."""

    def __init__(self, folder):
        self.folder, self.asked = folder, 0
        self.port, self.tls, self.wrong = free_port(), free_port(), free_port()
        self.socket = os.path.join(folder, 's')
        self.store = os.path.join(folder, 'store')
        os.mkdir(self.store)
        self.ca, key = certificate(folder, '127.0.0.1')
        other, other_key = certificate(folder, 'elsewhere.example')
        self.other_ca = other
        with open(os.path.join(folder, 'passwords'), 'w') as f:
            f.write('user:{SHA}' + base64.b64encode(hashlib.sha1(b'p@ss:w0rd').digest()).decode() + '\n')
        places = f'''
            root {self.store}; client_max_body_size 64m; create_full_put_path on;
            location / {{ dav_methods PUT; }}
            location /password/ {{ dav_methods PUT; auth_basic cache; auth_basic_user_file {folder}/passwords; }}
            location /token/ {{ if ($http_authorization != "Bearer t0ken.of-mine") {{ return 401; }} dav_methods PUT; }}
            location /readonly/ {{ dav_methods off; }}
            location /small/ {{ client_max_body_size 1k; dav_methods PUT; }}'''
        with open(os.path.join(folder, 'nginx.conf'), 'w') as f:
            f.write(f'''
                {"user root;" if os.getuid() == 0 else ""}
                daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
                events {{}}
                http {{
                    access_log {folder}/access.log; types {{}} sendfile on;
                    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
                    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
                    server {{ listen 127.0.0.1:{self.port}; listen unix:{self.socket}; {places} }}
                    server {{ listen 127.0.0.1:{self.tls} ssl; ssl_certificate {self.ca}; ssl_certificate_key {key};
                             {places} }}
                    server {{ listen 127.0.0.1:{self.wrong} ssl; ssl_certificate {other};
                             ssl_certificate_key {other_key}; {places} }}
                }}''')
        program = shutil.which('nginx') or '/usr/sbin/nginx'
        self.process = subprocess.Popen([program, '-e', os.path.join(folder, 'error.log'), '-p', folder, '-c',
                                         os.path.join(folder, 'nginx.conf')], stderr=subprocess.PIPE)
        wait_for(self.port, self.process)

    def url(self, path='', tls=False, user=''):
        return f'{"https" if tls else "http"}://{user}127.0.0.1:{self.tls if tls else self.port}{path}'

    def requests(self):
        """The log's line of each request, of those that have ended: the only worker logs requests as they end, and this asks for one more."""
        self.asked += 1
        last = f'GET /asked/{self.asked} '
        c = http.client.HTTPConnection('127.0.0.1', self.port)
        c.request(*last.split())
        c.getresponse().read()
        c.close()
        while True:
            with open(os.path.join(self.folder, 'access.log')) as f:
                lines = f.read().splitlines()
            if any(last in line for line in lines):
                return [line for line in lines if 'GET /asked/' not in line]
            time.sleep(.01)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()


class WithNginx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.nginx = Nginx(cls.enterClassContext(tempfile.TemporaryDirectory(prefix='ht')))
        cls.addClassCleanup(cls.nginx.stop)


class BazelRemote:
    def __init__(self, program, folder):
        self.port = free_port()
        self.process = subprocess.Popen(
            [program, '--dir', folder, '--max_size', '1', '--host', '127.0.0.1', '--port', str(self.port),
             '--grpc_port', str(free_port())], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.port, self.process)

    def ask(self, method, path, body=None):
        c = http.client.HTTPConnection('127.0.0.1', self.port)
        c.request(method, path, body)
        reply = c.getresponse()
        result = reply.status, reply.read()
        c.close()
        return result

    def stop(self):
        self.process.terminate()
        self.process.wait()


# ---- protobuf ----

def varint(v):
    out = b''
    while v >= 0x80:
        out, v = out + bytes([v & 0x7f | 0x80]), v >> 7
    return out + bytes([v])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def action(data=b'', sha=None, size=None, path=b'halftone-entry', more=b''):
    digest = field(1, (sha or hashlib.sha256(data).hexdigest()).encode()) + field(2, len(data) if size is None else size)
    return field(2, field(1, path) + field(2, digest)) + more


ENTRY = random.Random(1).randbytes(100_000)
GOOD = action(ENTRY)

# Results that are invalid or of another form.
GARBAGE = {
    'empty': b'',
    'zeros': bytes(100),
    'random': random.Random(2).randbytes(500),
    'html': b'<html>sign in</html>',
    'cut': GOOD[:-5],
    'long-length': b'\x12\xff\xff\xff\xff\x0f' + GOOD,
    'overlong-varint': b'\x12' + b'\xff' * 11,
    'group': b'\x13' + GOOD,
    'field-0': b'\x02\x00' + GOOD,
    'two-files': GOOD + GOOD,
    'another-path': action(ENTRY, path=b'a.out'),
    'no-path': action(ENTRY, path=b''),
    'upper-case': action(ENTRY, sha=hashlib.sha256(ENTRY).hexdigest().upper()),
    'short-digest': action(ENTRY, sha='ab' * 20),
    'no-digit': action(ENTRY, sha='g' * 64),
    'no-digest': field(2, field(1, b'halftone-entry')),
    'failed-action': action(ENTRY, more=field(4, 1)),
    'no-bytes': action(ENTRY, size=0),
    'terabytes': action(ENTRY, size=1 << 45),
    'negative': action(ENTRY, size=(1 << 64) - 1),
    'above-limit': action(ENTRY, size=(1 << 30) + 1),
}


class Hostile:
    """A server at http://127.0.0.1:PORT/BEHAVIOUR that behaves as named.  `requests`: their number, by behaviour."""

    def __init__(self, certificate=None):
        self.tls = None
        if certificate:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(*certificate)
        self.listener = socket.create_server(('127.0.0.1', 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.requests, self.heads, self.open = {}, [], True
        threading.Thread(target=self.accept, daemon=True).start()

    def url(self, behaviour):
        return f'http{"s" if self.tls else ""}://127.0.0.1:{self.port}/{behaviour}'

    def stop(self):
        self.open = False
        self.listener.close()

    def accept(self):
        while self.open:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        s.settimeout(120)
        try:
            if self.tls:
                s = self.tls.wrap_socket(s, server_side=True)
            head = b''
            while b'\r\n\r\n' not in head:
                part = s.recv(65536)
                if not part:
                    return
                head += part
            line = head.split(b'\r\n')[0].decode()
            self.heads.append(head.split(b'\r\n\r\n')[0].decode())
            method, path, _ = line.split(' ')
            behaviour = path.split('/')[1]
            self.requests[behaviour] = n = self.requests.get(behaviour, 0) + 1
            self.answer(s, behaviour, method, '/ac/' in path, n)
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        finally:
            s.close()

    @staticmethod
    def reply(s, status, body=b'', more='', length=None):
        s.sendall(f'HTTP/1.1 {status} X\r\nContent-Length: {len(body) if length is None else length}\r\n'
                  f'Connection: close\r\n{more}\r\n'.encode() + body)

    @staticmethod
    def for_ever(s, data, pause=0):
        while True:
            s.sendall(data)
            time.sleep(pause)

    def answer(self, s, what, method, ac, n):
        if what.startswith('garbage-'):
            return self.reply(s, 200, GARBAGE[what[8:]] if ac else ENTRY)
        if what.startswith('cas-'):
            if ac:
                return self.do_good(s, ac, n)
            what = what[4:]
        if what.isdigit():
            return self.reply(s, int(what), b'no')
        getattr(self, 'do_' + what.replace('-', '_'))(s, ac, n)

    def do_good(self, s, ac, n):
        self.reply(s, 200, GOOD if ac else ENTRY)

    def do_unknown_fields(self, s, ac, n):
        self.reply(s, 200, field(9, b'worker') + b'\x69' + bytes(8) + b'\x7d' + bytes(4) + field(4, 0) + GOOD if ac else ENTRY)

    def do_flaky(self, s, ac, n):
        if n % 3 == 1:
            return self.reply(s, 503)
        if n % 3:
            return s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.do_good(s, ac, n)

    def do_hang(self, s, ac, n):
        time.sleep(100)

    def do_slow_404(self, s, ac, n):
        time.sleep(.3)
        self.reply(s, 404)

    def do_hang_once(self, s, ac, n):
        if n == 1:
            time.sleep(100)
        self.do_good(s, ac, n)

    def do_drip(self, s, ac, n):
        s.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n')
        self.for_ever(s, b'x', .05)

    def do_drip_head(self, s, ac, n):
        s.sendall(b'HTTP/1.1 200 OK\r\nX: ')
        self.for_ever(s, b'x', .05)

    def do_endless_heads(self, s, ac, n):
        s.sendall(b'HTTP/1.1 200 OK\r\n')
        self.for_ever(s, b'X: ' + b'y' * 1000 + b'\r\n')

    def do_endless_continue(self, s, ac, n):
        self.for_ever(s, b'HTTP/1.1 100 Continue\r\n\r\n')

    def do_endless(self, s, ac, n):
        s.sendall(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
        self.for_ever(s, b'10000\r\n' + bytes(0x10000) + b'\r\n')

    def do_endless_404(self, s, ac, n):
        s.sendall(b'HTTP/1.1 404 No\r\n\r\n')
        self.for_ever(s, bytes(0x10000))

    def do_no_http(self, s, ac, n):
        s.sendall(b'220 mail.example ESMTP\r\n' * 100)

    def do_nothing(self, s, ac, n):
        pass

    def do_reset(self, s, ac, n):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))

    def do_truncated(self, s, ac, n):
        self.reply(s, 200, ENTRY[:500], length=len(ENTRY))

    def do_short(self, s, ac, n):
        self.reply(s, 200, ENTRY[:-1])

    def do_long(self, s, ac, n):
        self.reply(s, 200, ENTRY + b'x')

    def do_long_chunked(self, s, ac, n):
        s.sendall(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n' +
                  b'%x\r\n%s\r\n0\r\n\r\n' % (len(ENTRY) + 1, ENTRY + b'x'))

    def do_other_bytes(self, s, ac, n):
        self.reply(s, 200, ENTRY[:-1] + bytes([ENTRY[-1] ^ 1]))

    def do_huge(self, s, ac, n):
        self.reply(s, 200, ENTRY, length=10**15)

    def do_partial(self, s, ac, n):
        self.reply(s, 206, ENTRY, more='Content-Range: bytes 0-99999/100000\r\n')

    def do_elsewhere(self, s, ac, n):
        self.reply(s, 302, more=f'Location: http://localhost:{self.port}/good/secret\r\n')

    def do_same_host(self, s, ac, n):
        self.reply(s, 307, more=f'Location: http://127.0.0.1:{self.port}/good/secret\r\n')
