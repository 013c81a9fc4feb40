"""Base of tests of the compile cache: a model, and the tool with a cache of its own."""
import json, os, subprocess

from tool import TOOL, ToolCase

MODEL = f"""hir 1
entry "" {{
  input "x" = %x
  output "y" = %y
}}

%x = Placeholder() {{dtype=f32, shape=shape[2,8]}}
%w = Const() {{dtype=f32, value=tensor f32[8,8] {{{', '.join(str(i % 7 - 3 + 0.5) for i in range(64))}}}}}
%b = Const() {{dtype=f32, value=tensor f32[8] {{0.25, 1.0, 0.5, -0.75, 2.0, 0.125, 1.5, -0.5}}}}
%first = MatMul(%x, %w) {{T=f32, transpose_a=false, transpose_b=false}}
%sum = BiasAdd(%first, %b) {{T=f32, data_format="NHWC"}}
%act = Relu(%sum) {{T=f32}}
%half = Mul(%act, %act) {{T=f32}}
%second = MatMul(%half, %w) {{T=f32, transpose_a=false, transpose_b=false}}
%y = Softmax(%second) {{T=f32}}
"""


class Cached(ToolCase):
    def setUp(self):
        super().setUp()
        self.cache = os.path.join(self.dir, 'cache')
        self.model = self.path('m.hir', MODEL.encode())

    def tool(self, *args, env=None, code=0, **more):
        """`code` None: any exit code is accepted."""
        env = {**os.environ, 'HALFTONE_CACHE_MODE': '', 'HALFTONE_CACHE_DIR': self.cache, 'HALFTONE_TARGET': 'x86-64-v3', **(env or {})}
        if code is not None:
            return super().tool(*args, env=env, code=code, **more)
        return subprocess.run([TOOL, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)

    def compile(self, *args, model=None, **more):
        """Compiles the model and returns the artefact's bytes."""
        out = os.path.join(self.dir, 'out.htx')
        if os.path.exists(out):
            os.unlink(out)
        self.last = self.tool('compile', '-q', model or self.model, *args, '-o', out, **more)
        if not os.path.exists(out):
            return None
        return self.read('out.htx')

    def stats(self):
        return json.loads(self.tool('cache', 'stats', '--format', 'json').stdout)

    def counted(self, what, run):
        before = self.stats()[what]
        run()
        return self.stats()[what] - before
