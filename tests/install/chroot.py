"""Clean systems in folders, which debootstrap makes once ($HALFTONE_CHROOTS, default build/chroots)."""
import contextlib, os, shutil, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'tools'))
import environment

CHROOTS = os.environ.get('HALFTONE_CHROOTS', f'{environment.ROOT}/build/chroots')


class Absent(Exception):
    """The reason why such a system cannot be used here."""


def run(*command, **how):
    r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **how)
    assert r.returncode == 0, (command, r.stdout[-3000:], r.stderr[-3000:])
    return r.stdout


@contextlib.contextmanager
def in_memory():
    """A temporary folder, in memory if possible, since dpkg waits for the disk after every file."""
    folder = tempfile.mkdtemp(prefix='halftone-system-')
    mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=3g,mode=755', 'halftone', folder], capture_output=True).returncode == 0
    try:
        yield folder
    finally:
        if mounted:
            run('umount', folder)
        subprocess.run(['rm', '-rf', '--one-file-system', folder], check=True)


def archive(suite, packages):
    """The archive of a new system with these packages; made if it does not exist yet."""
    path = f'{CHROOTS}/{"-".join([suite, *packages])}.tar'
    if os.path.exists(path):
        return path
    os.makedirs(CHROOTS, exist_ok=True)
    with in_memory() as root:
        made = subprocess.run(['debootstrap', '--variant=minbase', *([f'--include={",".join(packages)}'] if packages else []),
                               suite, root], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if made.returncode:
            raise Absent(f'debootstrap cannot make {suite}: {(made.stdout + made.stderr).strip()[-300:]}')
        run('tar', '-C', root, '--one-file-system', '--exclude=./var/cache/apt/archives/*.deb', '-cf', f'{path}.new', '.')
    os.rename(f'{path}.new', path)
    return path


class System:
    """Unpacks a new system to the folder `root`."""

    def __init__(self, root):
        self.root = root

    def run(self, *command, **variables):
        """Runs a command in the system, which must succeed."""
        keep = {k: v for k, v in os.environ.items() if k.lower().endswith('_proxy')}
        return run('chroot', self.root, *command, env={
            **keep, 'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': '/root', 'LC_ALL': 'C.UTF-8', 'DEBIAN_FRONTEND': 'noninteractive', **variables})

    def put(self, path, folder='/root'):
        """Copies a file to the same path in the system."""
        os.makedirs(self.root + folder, exist_ok=True)
        shutil.copy(path, self.root + folder)
        return f'{folder}/{os.path.basename(path)}'


@contextlib.contextmanager
def processes(root):
    """The dynamic linker needs /proc to find the folder of a program."""
    if subprocess.run(['mount', '-t', 'proc', 'proc', f'{root}/proc'], capture_output=True).returncode:
        raise Absent('/proc cannot be mounted')
    try:
        yield
    finally:
        run('umount', f'{root}/proc')


@contextlib.contextmanager
def system(suite, *packages):
    """`with system('bookworm') as s:` raises Absent if the system cannot be made."""
    if os.geteuid() != 0:
        raise Absent('only root can make clean systems')
    if not shutil.which('debootstrap'):
        raise Absent('debootstrap is not installed')
    if os.environ.get('HALFTONE_OFFLINE') == '1':
        raise Absent('packages are obtained from the network (HALFTONE_OFFLINE)')
    path = archive(suite, packages)
    with in_memory() as root:
        run('tar', '-C', root, '-xpf', path)
        for file in '/etc/resolv.conf', '/etc/hosts':
            if os.path.exists(file):
                shutil.copy(file, root + file)
        with processes(root):
            yield System(root)
