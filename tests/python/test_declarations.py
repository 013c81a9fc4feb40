#!/usr/bin/env python3
"""The package's declarations against the headers as a C compiler reads them."""
import ctypes, os, subprocess, tempfile, unittest

from package import environment
from halftone import _api

HEADERS = ''.join(f'#include <halftone/{h}.h>\n' for h in ('halftone', 'cache', 'compare', 'page', 'records', 'search', 'tool', 'train'))


def answers(lines):
    """The output of a C program with these statements."""
    with tempfile.TemporaryDirectory() as d:
        with open(f'{d}/p.c', 'w') as f:
            f.write(f'{HEADERS}#include <stdio.h>\n#include <stddef.h>\nint main(void)\n{{\n{"".join(lines)}return 0;\n}}\n')
        subprocess.run([os.environ.get('CC', 'cc'), '-I', f'{environment.ROOT}/include', f'{d}/p.c', '-o', f'{d}/p'], check=True)
        return subprocess.run([f'{d}/p'], check=True, capture_output=True, text=True).stdout.split()


SCALARS = (ctypes.c_double, ctypes.c_int, ctypes.c_long, ctypes.c_size_t, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64)
STRUCTS = {n: t for n, t in vars(_api).items()
           if isinstance(t, type) and issubclass(t, ctypes.Structure) and t is not ctypes.Structure}


class Declarations(unittest.TestCase):
    def test_structs(self):
        lines, ours = [], []
        for name, struct in STRUCTS.items():
            lines.append(f'printf("%zu ", sizeof(struct {name}));\n')
            ours.append(ctypes.sizeof(struct))
            for field, _ in struct._fields_:
                member = f'((struct {name} *)0)->{field}'
                lines.append(f'printf("%zu %zu ", offsetof(struct {name}, {field}), sizeof({member}));\n')
                ours += [getattr(struct, field).offset, getattr(struct, field).size]
        self.assertGreater(len(ours), 200)
        self.assertEqual(answers(lines), [str(n) for n in ours])

    def test_constants(self):
        names = [n for n, v in vars(_api).items() if n.startswith('HT_') and isinstance(v, int)]
        self.assertGreater(len(names), 50)
        self.assertEqual(answers(f'printf("%d ", (int){n});\n' for n in names), [str(getattr(_api, n)) for n in names])

    def test_initialisers(self):
        names = [n[:-5] for n in vars(_api) if n.endswith('_init')]
        self.assertGreater(len(names), 6)
        for name in names:
            lines = [f'struct {name} s = HT_{name[3:].upper()}_INIT;\nunsigned char *p = (void *)&s;\n',
                     'for (size_t i = 0; i < sizeof s; i++) printf("%d ", p[i]);\n']
            self.assertEqual(answers(lines), [str(b) for b in bytes(getattr(_api, f'{name}_init')())], name)

    def test_every_function_is_there(self):
        exported = subprocess.run(['nm', '-D', '--defined-only', '--format=just-symbols',
                                   f'{environment.BUILD}/lib/libhalftone.so'], check=True, capture_output=True, text=True)
        for_gdb = {'__jit_debug_descriptor', '__jit_debug_register_code'}
        self.assertEqual(sorted(set(exported.stdout.split()) - for_gdb), sorted(_api.FUNCTIONS))

    def test_sizes_of_arguments(self):
        """Calls each function's type with the package's arguments, in C: their number and types must fit."""
        calls = []
        for name, (_, arguments) in _api.FUNCTIONS.items():
            given = ', '.join('0' if a in SCALARS else '(void *)0' for a in arguments)
            calls.append(f'if (argc > 99) {name}({given});\n')
        subprocess.run([os.environ.get('CC', 'cc'), '-I', f'{environment.ROOT}/include', '-Werror', '-Wall', '-fsyntax-only',
                        '-x', 'c', '-'], check=True, text=True,
                       input=f'{HEADERS}int main(int argc, char **argv)\n{{\n(void)argv;\n{"".join(calls)}return 0;\n}}\n')


if __name__ == '__main__':
    unittest.main()
