"""The lists of TVM and PyTorch as their sources publish them, read independently of precision/data, and the systems'
names for the ops of random graphs.

tvm      python/tvm/relay/transform/mixed_precision.py of apache/tvm at 0a42938accc0fc1f86bcc4c14046050cc8763776
pytorch  TORCH_LIBRARY_IMPL(aten, AutocastCPU, m) in aten/src/ATen/autocast_mode.cpp of pytorch/pytorch at
         008ec6b1840c94ff6d0f685bc10fbf585167c673, overloads of one name once

Neither can be installed for the tests: TVM's releases no longer have Relay, and PyTorch's packages have the lists only
as machine code.
"""


def dimensions(*names, of=(1, 2, 3)):
    return [f'{n}{d}d' for n in names for d in of]


LISTS = {
    'tvm': {
        'DEFAULT_ALWAYS_LIST': [*dimensions('nn.conv'), 'nn.conv1d_transpose', 'nn.conv2d_transpose', 'nn.conv3d_transpose',
                                'nn.dense', 'nn.batch_matmul'],
        'DEFAULT_FOLLOW_LIST': [
            # data and shape
            'nn.pad', 'nn.batch_flatten', 'concatenate', 'zeros', 'split', 'squeeze', 'transpose', 'expand_dims', 'reshape',
            'dyn.reshape', 'broadcast_to_like', 'dyn.broadcast_to', 'strided_slice', 'dyn.strided_slice', 'take',
            'argwhere', 'where', 'tile', 'dyn.tile', 'scatter', 'scatter_elements', 'scatter_nd', 'full', 'dyn.full',
            'nn.depth_to_space',
            # comparison, copies
            'less', 'greater', 'less_equal', 'greater_equal', 'copy', 'cast', 'cast_like',
            # arithmetic
            'add', 'subtract', 'multiply', 'divide', 'nn.bias_add', 'nn.batch_norm', 'sqrt', 'shape_of',
            # activations
            'max', 'min', 'maximum', 'minimum', 'argmax', 'argmin', 'nn.relu', 'nn.leaky_relu', 'nn.prelu', 'nn.dropout',
            'sigmoid', 'tanh', 'fast_tanh', 'fast_exp', 'fast_erf', 'clip',
            # pooling
            *dimensions('nn.max_pool', 'nn.avg_pool'), 'nn.global_max_pool2d', *dimensions('nn.adaptive_max_pool'),
            'image.resize2d'],
        'DEFAULT_NEVER_LIST': ['exp', 'power', 'nn.cross_entropy', 'nn.cross_entropy_with_logits', 'nn.softmax',
                               'nn.l2_normalize', 'erf', 'arange', 'nn.global_avg_pool2d',
                               *dimensions('nn.adaptive_avg_pool'), 'sum', 'mean', 'variance', 'nn.layer_norm'],
    },
    'pytorch': {
        'lower_precision_fp': [*dimensions('conv'), 'bmm', 'mm', 'linalg_vecdot', 'baddbmm', 'addmm', '_addmm_activation',
                               'addbmm', 'linear', '_convolution', 'matmul', 'conv_tbc', 'mkldnn_rnn_layer',
                               *dimensions('conv_transpose'), 'prelu', 'scaled_dot_product_attention',
                               '_native_multi_head_attention'],
        'fp32': ['avg_pool3d', 'binary_cross_entropy', 'grid_sampler', 'polar', 'prod', 'quantile', 'nanquantile', 'stft',
                 'cdist', 'grid_sampler_2d', '_grid_sampler_2d_cpu_fallback', 'grid_sampler_3d', 'trace',
                 'view_as_complex', 'cholesky', 'cholesky_inverse', 'cholesky_solve', 'inverse', 'lu_solve', 'orgqr',
                 'ormqr', 'pinverse', 'max_pool3d', *dimensions('max_unpool', of=(2, 3)), 'adaptive_avg_pool3d',
                 *dimensions('reflection_pad', of=(1, 2)), *dimensions('replication_pad'), 'mse_loss',
                 'cosine_embedding_loss', 'nll_loss', 'nll_loss2d', 'hinge_embedding_loss', 'poisson_nll_loss',
                 'smooth_l1_loss', 'cross_entropy_loss', 'l1_loss', 'huber_loss', 'margin_ranking_loss',
                 'soft_margin_loss', 'triplet_margin_loss', 'multi_margin_loss', 'ctc_loss', 'kl_div',
                 'multilabel_margin_loss', 'binary_cross_entropy_with_logits',
                 *(f'fft_{f}fft{n}' for n in ('', '2', 'n') for f in ('', 'i')),
                 *(f'fft_{f}fft{n}' for n in ('', '2', 'n') for f in ('r', 'ir')), 'fft_hfft', 'fft_ihfft',
                 *(f'linalg_{n}' for n in ('cond', 'matrix_rank', 'solve', 'cholesky', 'svdvals', 'eigvals', 'eigvalsh',
                                           'inv', 'householder_product', 'tensorinv', 'tensorsolve')),
                 'fake_quantize_per_tensor_affine', 'geqrf', '_lu_with_info', 'qr', 'svd', 'triangular_solve',
                 *dimensions('fractional_max_pool', of=(2, 3)), 'adaptive_max_pool3d', 'multilabel_margin_loss_forward',
                 *(f'linalg_{n}' for n in ('qr', 'cholesky_ex', 'svd', 'eig', 'eigh', 'lstsq', 'inv_ex'))],
        'promote': ['stack', 'cat', 'index_copy'],
    },
}
CLASSES = {'DEFAULT_ALWAYS_LIST': 'low', 'DEFAULT_FOLLOW_LIST': 'follow', 'DEFAULT_NEVER_LIST': 'float32',
           'lower_precision_fp': 'low', 'fp32': 'float32', 'promote': 'widest'}

# TensorFlow's op → the system's.
NAMES = {
    'tvm': {'MatMul': 'nn.dense', 'Relu': 'nn.relu', 'Exp': 'exp', 'Tanh': 'tanh', 'Sigmoid': 'sigmoid', 'Sqrt': 'sqrt',
            'Softmax': 'nn.softmax', 'Erf': 'erf', 'Identity': 'copy', 'AddV2': 'add', 'Mul': 'multiply',
            'Sub': 'subtract', 'RealDiv': 'divide', 'Maximum': 'maximum', 'Minimum': 'minimum', 'Pow': 'power',
            'BiasAdd': 'nn.bias_add', 'Sum': 'sum', 'Mean': 'mean'},
    'pytorch': {'MatMul': 'matmul', 'Prod': 'prod'},
    'onnx': {'Maximum': 'Max', 'Minimum': 'Min', 'AddV2': 'Add', 'RealDiv': 'Div', 'BiasAdd': 'Add', 'Prod': 'ReduceProd',
             'Sum': 'ReduceSum', 'Mean': 'ReduceMean'},  # the others as in TensorFlow
}


def listed(system):
    """{TensorFlow's op: class}"""
    of_name = {n: CLASSES[of] for of, names in LISTS[system].items() for n in names}
    return {op: of_name[name] for op, name in NAMES[system].items()}


def rules(blocked, ops):
    """{policy: (class of all other ops, {TensorFlow's op: class})}; for ONNX the list of its converter."""
    elementwise = 'AddV2 Mul Sub RealDiv Maximum Minimum Pow BiasAdd Rsqrt Relu Exp Tanh Sigmoid Abs Erf Log Sqrt'
    return {
        'pytorch-autocast-bf16': ('widest', listed('pytorch') | {'BiasAdd': 'first'}),  # which is part of its product in PyTorch
        'tvm-fp16': ('follow', listed('tvm')),
        'onnx-fp16': ('low', {op: 'float32' for op in ops if NAMES['onnx'].get(op, op) in blocked}),
        'keras-fp16': ('low', {'Mean': 'float32'}),
        'openvino-bf16': ('tail', {'MatMul': 'low'}),
        'openvino-fp16': ('low', dict.fromkeys(f'{elementwise} Sum Mean Identity'.split(), 'spread')),
    }
