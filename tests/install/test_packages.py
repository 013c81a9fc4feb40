#!/usr/bin/env python3
"""The packages of scripts/deb in a clean Debian 12: installed, used, built against, removed."""
import glob, os, re, subprocess, sys, tempfile

import chroot
from chroot import HERE, environment, run

GRAPH = f'{HERE}/graph.hir'


def packages(folder):
    """{name: path} of the packages that scripts/deb makes from this build."""
    run(f'{environment.ROOT}/scripts/deb', folder, env={**os.environ, 'HALFTONE_DEB_BUILD': environment.BUILD})
    found = {os.path.basename(p).partition('_')[0]: p for p in glob.glob(f'{folder}/*.deb')}
    assert sorted(found) == ['halftone', 'libhalftone-dev', 'libhalftone-rt1', 'libhalftone1'], found
    return found


def install(s, *paths):
    s.run('apt-get', '-qq', 'update')
    s.run('apt-get', '-qy', '--no-install-recommends', 'install', *[s.put(p, '/debs') for p in paths])


def compiled(s, source, library, static=False):
    """Builds a program of tests/install with the installed pkg-config; returns its path."""
    lib = f'{s.root}/usr/lib'
    env = {**os.environ, 'PKG_CONFIG_PATH': '', 'PKG_CONFIG_LIBDIR': f'{lib}/pkgconfig:{lib}/x86_64-linux-gnu/pkgconfig'}
    flags = run('pkg-config', '--cflags', '--libs', *(['--static'] if static else []), library, env=env).split()
    if static:
        flags = [f'-l:lib{library}.a' if f == f'-l{library}' else f for f in flags]
    out = f'/root/{source}{"-static" if static else ""}'
    compiler = 'g++' if source.endswith('.cc') else 'gcc'
    run(compiler, f'--sysroot={s.root}', f'{HERE}/{source}', *flags, '-pthread', '-o', s.root + out)
    return out


def halftone_files(s):
    """The installed files of Halftone."""
    found = run('find', s.root, '-xdev', '-iname', '*halftone*', '-not', '-path', f'{s.root}/debs*', '-not', '-path', f'{s.root}/root*',
                '-not', '-path', f'{s.root}/var/lib/dpkg/*')
    return found.replace(s.root, '').split()


def test_whole(s, debs, version):
    assert not halftone_files(s)
    install(s, *debs.values())
    graph = s.put(GRAPH)
    assert version in s.run('halftone', '--version')
    s.run('halftone', 'compile', '-q', graph, '-o', '/root/program.htx')
    s.run('halftone', 'inspect', '/root/program.htx')
    for file in 'man/man1/halftone.1', 'bash-completion/completions/halftone', 'doc/halftone/copyright':
        assert os.path.getsize(f'{s.root}/usr/share/{file}'), file
    for source in 'consumer.c', 'consumer.cc':
        for static in False, True:
            backend = {'HALFTONE_BACKEND': '/usr/lib/halftone/halftone-backend.so'} if static else {}
            s.run(compiled(s, source, 'halftone', static), version, graph, **backend)
            print(f'ok: {source}, {"static" if static else "shared"}')
    programs = [compiled(s, source, 'halftone-rt') for source in ('runtime.c', 'runtime.cc')]
    for program in programs:
        s.run(program, '/root/program.htx', '8')
    return programs


def test_modules(s):
    """Every module that the library loads finds its own libraries."""
    for module in glob.glob(f'{s.root}/usr/lib/halftone/*.so'):
        missing = [line for line in s.run('/lib64/ld-linux-x86-64.so.2', '--list', module.replace(s.root, '')).split('\n') if 'not found' in line]
        assert not missing, (module, missing)
        print('ok:', os.path.basename(module))


def test_runtime_alone(s, debs, programs):
    s.run('apt-get', '-qy', 'purge', 'halftone', 'libhalftone-dev', 'libhalftone1')
    left = [f for f in halftone_files(s) if 'halftone-rt' not in f]
    assert not left, left
    s.run('apt-get', '-qy', '--purge', 'autoremove')
    assert not os.path.exists(f'{s.root}/usr/include/halftone')
    depends = re.search('Depends: (.*)', run('dpkg', '-I', debs['libhalftone-rt1']))[1]
    assert set(re.findall(r'[\w.+-]+(?= \()', depends)) <= {'libc6', 'libmd0'}, depends
    for program in programs:
        s.run(program, '/root/program.htx', '8')


def test_removed(s):
    s.run('apt-get', '-qy', 'purge', 'libhalftone-rt1')
    assert not halftone_files(s), halftone_files(s)


def main():
    version = sys.argv[1]
    try:
        with chroot.system('bookworm') as s, tempfile.TemporaryDirectory() as folder:
            debs = packages(folder)
            programs = test_whole(s, debs, version)
            test_modules(s)
            test_runtime_alone(s, debs, programs)
            test_removed(s)
    except chroot.Absent as why:
        print(f'skipped: {why}')
        sys.exit(environment.SKIPPED)


if __name__ == '__main__':
    main()
