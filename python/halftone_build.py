"""Builds the wheel and the source distribution for pip (PEP 517).

The wheel has the package, the tool, the headers, the libraries and the modules of a build with CMake.  The libraries to
which they link beyond the C library must be on the machine; scripts/wheel puts them inside.
"""
import base64, hashlib, os, re, shutil, subprocess, sys, tarfile, tempfile, zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EPOCH = (1980, 1, 1, 0, 0, 0)
REMOTE = 'halftone-remote.so'  # links to libcurl, which needs thirty libraries
TAG = 'py3-none-linux_x86_64'
METADATA = '''Metadata-Version: 2.1
Name: halftone
Version: {version}
Summary: Mixed-precision graph compiler for TensorFlow graphs on CPUs
License: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: numpy
Provides-Extra: bfloat16
Requires-Dist: ml_dtypes; extra == "bfloat16"
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

{readme}'''
WHEEL = f'Wheel-Version: 1.0\nGenerator: halftone\nRoot-Is-Purelib: false\nTag: {TAG}\n'
SCRIPTS = '[console_scripts]\nhalftone = halftone.__main__:main\n'


def read(*path):
    with open(os.path.join(ROOT, *path), encoding='utf-8') as f:
        return f.read()


def version():
    return re.search(r'project\(halftone VERSION ([0-9.]+)', read('CMakeLists.txt'))[1]


def compiled(stage):
    """Builds with CMake and installs, stripped, into the folder `stage`; returns the build's folder."""
    build = os.environ.get('HALFTONE_WHEEL_BUILD') or os.path.join(ROOT, 'build', 'wheel')
    for tool in 'cmake', 'ninja', 'llvm-config-19':
        if not shutil.which(tool):
            sys.exit(f'halftone: there is no {tool} to build with; {ROOT}/scripts/packages.txt has the packages of Debian that '
                     'a build needs, and wheels need none of them')
    run = lambda *command: subprocess.run(command, check=True, stdout=sys.stderr)
    run('cmake', '-S', ROOT, '-B', build, '-G', 'Ninja', '-DHALFTONE_TESTS=OFF', '-DCMAKE_INSTALL_LIBDIR=lib',
        f'-DPython3_EXECUTABLE={sys.executable}')
    run('cmake', '--build', build)
    run('cmake', '--install', build, '--prefix', stage, '--strip')
    return build


def package(stage, build, portable):
    """(name in the wheel, path, whether it is a program) of every file of the package."""
    made = os.path.join(build, 'python', 'halftone')
    for name in sorted(os.listdir(made)):
        if name.endswith(('.py', '.pyi', '.so')) or name == 'py.typed':
            yield f'halftone/{name}', os.path.join(made, name), name.endswith('.so')
    yield 'halftone/bin/halftone', os.path.join(stage, 'bin', 'halftone'), True
    headers = os.path.join(stage, 'include', 'halftone')
    for name in sorted(os.listdir(headers)):
        yield f'halftone/include/halftone/{name}', os.path.join(headers, name), False
    lib = os.path.join(stage, 'lib')
    for name in sorted(os.listdir(lib)):
        if re.fullmatch(r'lib.*\.so\.\d+', name):
            yield f'halftone/lib/{name}', os.path.join(lib, name), True
    for name in sorted(os.listdir(os.path.join(lib, 'halftone'))):
        if portable and name == REMOTE:
            continue
        yield f'halftone/lib/halftone/{name}', os.path.join(lib, 'halftone', name), True


class Wheel:
    """A zip archive with the list of its files and their hashes; equal files give equal bytes."""

    def __init__(self, path, info):
        self.zip, self.info, self.record = zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED, compresslevel=9), info, []

    def add(self, name, data, program=False):
        entry = zipfile.ZipInfo(name, EPOCH)
        entry.external_attr = (0o100755 if program else 0o100644) << 16
        self.zip.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
        self.record.append(f'{name},sha256={digest},{len(data)}\n')

    def close(self):
        name = f'{self.info}/RECORD'
        self.zip.writestr(zipfile.ZipInfo(name, EPOCH), ''.join(self.record) + f'{name},,\n', zipfile.ZIP_DEFLATED)
        self.zip.close()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = f'halftone-{version()}'
    file = f'{name}-{TAG}.whl'
    with tempfile.TemporaryDirectory() as stage:
        build = compiled(stage)
        wheel = Wheel(os.path.join(wheel_directory, file), f'{name}.dist-info')
        for inside, path, program in package(stage, build, bool(config_settings and config_settings.get('portable'))):
            with open(path, 'rb') as f:
                wheel.add(inside, f.read(), program)
        for member, text in (('METADATA', METADATA.format(version=version(), readme=read('docs', 'python.md'))),
                             ('WHEEL', WHEEL), ('entry_points.txt', SCRIPTS), ('LICENSE', read('LICENSE'))):
            wheel.add(f'{name}.dist-info/{member}', text.encode())
        wheel.close()
    return file


def sources():
    """The files that git tracks; in a tree without git, such as a source distribution, all files except built ones."""
    git = subprocess.run(['git', 'ls-files', '-z', '--cached'], cwd=ROOT, capture_output=True, text=True)
    if os.path.exists(os.path.join(ROOT, '.git')) and git.returncode == 0:
        yield from (f for f in git.stdout.split('\0') if f and os.path.lexists(os.path.join(ROOT, f)))
        return
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in ('build', '__pycache__'))
        yield from sorted(os.path.relpath(os.path.join(folder, f), ROOT) for f in files if f != 'PKG-INFO')


def build_sdist(sdist_directory, config_settings=None):
    name = f'halftone-{version()}'
    with tempfile.TemporaryDirectory() as work:
        info = os.path.join(work, 'PKG-INFO')
        with open(info, 'w', encoding='utf-8') as f:
            f.write(METADATA.format(version=version(), readme=read('docs', 'python.md')))
        with tarfile.open(os.path.join(sdist_directory, f'{name}.tar.gz'), 'w:gz') as tar:
            for file in sources():
                tar.add(os.path.join(ROOT, file), f'{name}/{file}', recursive=False)
            tar.add(info, f'{name}/PKG-INFO')
    return f'{name}.tar.gz'
