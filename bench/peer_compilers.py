"""IREE and TVM, which compile a model for its shapes and then run the compiled file.

ENGINE REQUEST OUT compiles the model, which takes minutes and is done once, unmeasured
(peers_frozen.compile_for)."""
import json
import os
import subprocess
import sys
import time


def fixed(q):
    """The ONNX form with the requested batch."""
    import onnx
    model = onnx.load(q['onnx'])
    for value in [*model.graph.input, *model.graph.output]:
        first = value.type.tensor_type.shape.dim
        if first and first[0].dim_param:
            first[0].dim_value = q['batch']
    del model.graph.value_info[:]  # inferred again
    return model


def compile_iree(q, path):
    import onnx
    here = os.path.dirname(sys.executable)
    model, mlir = f'{q["folder"]}/m.onnx', f'{q["folder"]}/m.mlir'
    onnx.save(fixed(q), model)
    for command in ([f'{here}/iree-import-onnx', model, '-o', mlir],
                    [f'{here}/iree-compile', mlir, '--iree-input-type=onnx', '--iree-opt-level=O3',
                     '--iree-hal-target-backends=llvm-cpu', '--iree-llvmcpu-target-cpu=host',
                     '--iree-llvmcpu-stack-allocation-limit=1048576', '-o', path]):  # BERT needs 73 kB
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = [l for l in done.stderr.splitlines() if 'error' in l.lower()]
            sys.exit((said or done.stderr.splitlines() or ['?'])[0])


def iree(q, inputs):
    import iree.runtime as rt
    start = time.perf_counter()
    if q['threads'] > 1:
        rt.flags.parse_flags(f'--task_topology_max_group_count={q["threads"]}')
    module = rt.load_vm_flatbuffer_file(q['compiled'],
                                        driver='local-sync' if q['threads'] == 1 else 'local-task')
    name = next(n for n in module.vm_module.function_names if '$' not in n and not n.startswith('__'))
    load = time.perf_counter() - start
    device = rt.get_device('local-sync' if q['threads'] == 1 else 'local-task')
    feeds, last = [rt.asdevicearray(device, x) for x in inputs.values()], []

    def run():
        results = module[name](*feeds)
        last[:] = [r.to_host() for r in (results if isinstance(results, (list, tuple)) else [results])]
    return load, run, lambda: last


def compile_tvm(q, path):
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx
    model = fixed(q)
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input}
    module = from_onnx(model, shape_dict=shapes, keep_params_in_input=False)
    cpu = tvm.target.codegen.llvm_get_system_cpu()
    relax.build(module, target=tvm.target.Target({'kind': 'llvm', 'mcpu': cpu})).export_library(path)


def tvm(q, inputs):
    os.environ['TVM_NUM_THREADS'] = str(q['threads'])
    import tvm as t
    from tvm import relax
    start = time.perf_counter()
    program = relax.VirtualMachine(t.runtime.load_module(q['compiled']), t.cpu())
    load = time.perf_counter() - start
    feeds, last = [t.runtime.tensor(x) for x in inputs.values()], []

    def run():
        results = program['main'](*feeds)
        last[:] = [r.numpy() for r in (results if isinstance(results, (list, tuple, t.ir.Array)) else [results])]
    return load, run, lambda: last


if __name__ == '__main__':
    {'iree': compile_iree, 'tvm': compile_tvm}[sys.argv[1]](json.loads(sys.argv[2]), sys.argv[3])
