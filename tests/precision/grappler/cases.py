"""The graphs of TensorFlow's own tests of auto_mixed_precision, rebuilt small, with their expected decisions.

A case builds its graph in TensorFlow and states which nodes become low, which stay, and the number of casts: (down,
up), in each of its modes.  run.py cases checks both TensorFlow and the policies; run.py fixtures writes the graphs to
tests/golden/grappler.
"""
import dataclasses
import typing

import tensorflow as tf

raw = tf.raw_ops
v1 = tf.compat.v1
F32 = tf.float32
CASES = []


@dataclasses.dataclass
class Case:
    name: str
    build: typing.Callable  # () → nodes to fetch
    modes: tuple
    what: str
    low: str = ''           # names of nodes
    kept: str = ''
    casts: tuple = None     # (down, up), or None: not stated
    edits: dict = dataclasses.field(default_factory=dict)
    level: str = None


def case(modes='fp16', **facts):
    def add(f):
        CASES.append(Case(f.__name__, f, tuple(modes.split()), f.__doc__, **facts))
        return f
    return add


def make(case_):
    """(GraphDef, nodes to fetch)"""
    v1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        fetch = case_.build().split()
    graph_def = graph.as_graph_def()
    for n in graph_def.node:
        n.attr.pop('_class', None)  # colocation constraints, which would keep the other node
    return v1.graph_util.extract_sub_graph(graph_def, fetch), fetch


def const(name='input'):
    return tf.constant([[1.0, 2.0], [3.0, 4.0]], name=name)


def relu(x, name):
    return raw.Relu(features=x, name=name)


def matmul(a, b=None, name='MatMul'):
    return raw.MatMul(a=a, b=a if b is None else b, name=name)


# ---- TensorFlow's C++ tests ----

@case('fp16 bf16', kept='deny clr1 infer clr2', casts=(0, 0))
def no_op():
    """Without an op of the allow list nothing changes."""
    x = relu(raw.Exp(x=const(), name='deny'), 'clr1')
    relu(raw.Sqrt(x=x, name='infer'), 'clr2')
    return 'clr2'


def already_low(low):
    x = raw.Cast(x=const(), DstT=low, name='cst1')
    x = relu(matmul(x, name='allow1'), 'clr1')
    relu(raw.Cast(x=x, DstT=F32, name='cst2'), 'clr2')
    return 'clr2'


@case('fp16', casts=(0, 0))
def already_fp16():
    """Types and casts of the graph stay."""
    return already_low(tf.float16)


@case('bf16', casts=(0, 0))
def already_bf16():
    """Types and casts of the graph stay."""
    return already_low(tf.bfloat16)


def simple_graph():
    x = relu(raw.Exp(x=const(), name='deny1'), 'clr1')
    x = relu(raw.Sqrt(x=x, name='infer1'), 'clr2')
    x = relu(matmul(x, name='allow1'), 'clr3')
    x = relu(raw.Log(x=x, name='infer2'), 'clr4')
    relu(raw.SparseMatMul(a=x, b=x, name='deny2'), 'clr5')
    return 'clr5'


@case('fp16 bf16', low='clr2 allow1 clr3', kept='deny1 clr1 infer1 infer2 clr4 deny2 clr5', casts=(1, 1))
def simple():
    """An allow op and the clear ops around it; infer ops behind a deny op stay."""
    return simple_graph()


@case('fp16-cpu', kept='allow1', casts=None)
def simple_emulated():
    """Emulated: types stay, values are rounded where they enter and leave what would be low."""
    return simple_graph()


@case('fp16', level='TREAT_INFER_AS_DENY', low='clr2 allow1 clr3 clr4 allow2', kept='deny1 clr1 infer1 infer2 infer3',
      casts=(2, 2))
def no_infer_op():
    """Level treat_infer_as_deny: every infer op stays."""
    x = relu(raw.Exp(x=const(), name='deny1'), 'clr1')
    x = relu(raw.Sqrt(x=x, name='infer1'), 'clr2')
    x = relu(matmul(x, name='allow1'), 'clr3')
    x = relu(raw.Log(x=x, name='infer2'), 'clr4')
    raw.Log(x=matmul(x, name='allow2'), name='infer3')
    return 'infer3'


@case('fp16', low='clr1 clr2 allow1 clr3 clr4', casts=(1, 2))
def bidirectional_clear_chain():
    """Clear ops go low upstream and downstream of an allow op."""
    x = const()
    a, b = relu(x, 'clr1'), relu(x, 'clr2')
    raw.Identity(input=matmul(a, name='allow1'), name='fetch1')
    raw.Identity(input=relu(b, 'clr4'), name='fetch2')
    raw.Identity(input=raw.ShapeN(input=[a, b], name='clr3')[0], name='fetch3')
    return 'fetch1 fetch2 fetch3'


@case('fp16', low='allow2', kept='allow1 clr2 clr3', casts=(1, 1))
def preserve_fetches():
    """What is fetched stays, on the allow list too."""
    x = relu(matmul(const(), name='allow1'), 'clr1')
    x = raw.Sqrt(x=x, name='infer1')
    x = relu(raw.Exp(x=x, name='deny1'), 'clr2')
    x = relu(matmul(x, name='allow2'), 'clr3')
    relu(raw.Exp(x=x, name='deny2'), 'clr4')
    return 'allow1 clr2 clr3'


@case('fp16', low='clr1 allow1', kept='allow2 clr2', casts=None)
def preserve_cpu_nodes():
    """What is placed on another device stays."""
    x = matmul(relu(const(), 'clr1'), name='allow1')
    x = raw.Tanh(x=x, name='infer1')
    with tf.device('/device:CPU:0'):
        x = matmul(x, name='allow2')
    raw.Identity(input=relu(x, 'clr2'), name='fetch')
    return 'fetch'


@case('fp16', low='allow1 allow2 id2', kept='id1', casts=None)
def preserve_identity_after_variable():
    """What reads a variable's memory stays; the same behind a constant goes low."""
    x = const()
    v = raw.VariableV2(shape=[2, 2], dtype=F32, name='var1')
    matmul(x, raw.Identity(input=v, name='id1'), 'allow1')
    matmul(x, raw.Identity(input=const('const1'), name='id2'), 'allow2')
    g = v1.get_default_graph()
    for i in '12':
        raw.Cos(x=g.get_tensor_by_name(f'allow{i}:0'), name=f'fetch{i}')
    return 'fetch1 fetch2'


def image(name='input'):
    return tf.constant(1.0, shape=[8, 56, 56, 16], name=name)


@case('fp16 bf16', low='allow1 bn1 bng1 infer1 allow2', casts=None)
def fused_batch_norm():
    """The first version of batch norm becomes the second, whose statistics stay."""
    x = image()
    w = tf.constant(1.0, shape=[3, 3, 16, 16], name='weight')
    s = tf.constant(1.0, shape=[16], name='scale')
    c1 = raw.Conv2D(input=x, filter=w, strides=[1, 1, 1, 1], padding='SAME', name='allow1')
    bn = raw.FusedBatchNorm(x=c1, scale=s, offset=s, mean=[], variance=[], name='bn1')
    bng = raw.FusedBatchNormGrad(y_backprop=c1, x=c1, scale=s, reserve_space_1=bn[3], reserve_space_2=bn[4], name='bng1')
    y = raw.Add(x=bn[0], y=bng[0], name='infer1')
    y = raw.Conv2D(input=y, filter=w, strides=[1, 1, 1, 1], padding='SAME', name='allow2')
    raw.Identity(input=y, name='fetch')
    return 'fetch'


@case('fp16 bf16', low='allow1 clr1 infer1 allow2', casts=(1, 1))
def repeated_and_list_type_attrs():
    """Each element of a list of types, and each of N operands."""
    x = matmul(const(), name='allow1')
    x = raw.AddN(inputs=list(raw.IdentityN(input=[x, x, x], name='clr1')), name='infer1')
    raw.Identity(input=matmul(x, name='allow2'), name='fetch')
    return 'fetch'


@case('fp16 bf16', low='cst1 allow1', casts=(0, 1))
def existing_cast():
    """A cast to float32 that only low ops take is retargeted."""
    x = raw.Cast(x=v1.placeholder(tf.bool, [2, 2], name='input'), DstT=F32, name='cst1')
    raw.Identity(input=matmul(x, name='allow1'), name='fetch')
    return 'fetch'


@case('fp16 bf16', low='allow1', kept='merge1 merge2 next', casts=None)
def recurrent_edge_color_mismatch():
    """Two Merges that one loop value comes back to agree."""
    x = raw.Exp(x=const(), name='deny1')
    e1, e2 = (raw.Enter(data=d, frame_name='loop1', name=n) for d, n in ((x, 'ent1'), (const('c2'), 'ent2')))
    m1 = raw.Merge(inputs=[e1, e1], name='merge1')[0]
    s1 = raw.Switch(data=m1, pred=tf.constant(False), name='switch1')
    y = matmul(raw.Sqrt(x=s1[0], name='infer1'), name='allow1')
    n = raw.NextIteration(data=y, name='next')
    m2 = raw.Merge(inputs=[e2, n], name='merge2')[0]
    m1.op._update_input(1, n)
    raw.Identity(input=raw.Exit(data=raw.Sqrt(x=m2, name='infer2'), name='exit1'), name='fetch')
    return 'fetch'


def reserve(name):
    return raw.TensorListReserve(element_shape=[2, 2], num_elements=3, element_dtype=F32, name=name)


def set_item(handle, i, x, name):
    return raw.TensorListSetItem(input_handle=handle, index=i, item=x, name=name)


def get_item(handle, i, name):
    return raw.TensorListGetItem(input_handle=handle, index=i, element_shape=[2, 2], element_dtype=F32, name=name)


@case('fp16 bf16', low='tl1 tl1w1 tl1w2 tl1r1 tl1r2 tl1w3 allow1 allow2', kept='tl2 tl2w1 tl2r1', casts=(1, 1))
def tensor_list_set_get():
    """All ops of a list go low together; a list that no allow op touches stays."""
    x = const()
    l1 = set_item(reserve('tl1'), 0, x, 'tl1w1')
    a = matmul(x, name='allow1')
    l1 = set_item(l1, 1, a, 'tl1w2')
    m = raw.Mul(x=get_item(l1, 0, 'tl1r1'), y=get_item(l1, 1, 'tl1r2'), name='infer1')
    a2 = matmul(m, name='allow2')
    set_item(l1, 2, a2, 'tl1w3')
    l2 = set_item(reserve('tl2'), 0, x, 'tl2w1')
    r2 = get_item(l2, 0, 'tl2r1')
    l3 = raw.TensorListLength(input_handle=v1.get_default_graph().get_tensor_by_name('tl1w3:0'), name='fetch3')
    raw.Identity(input=a2, name='fetch1'), raw.Identity(input=r2, name='fetch2'), l3
    return 'fetch1 fetch2 fetch3'


@case('fp16 bf16', low='tl1 tl1w1 tl1w2 tl1r1 tl1r2 allow1', kept='tl2 tl2w1 tl2r1', casts=(1, 1))
def tensor_list_push_pop():
    """Likewise with push and pop."""
    x = const()
    l1 = raw.EmptyTensorList(element_shape=[2, 2], max_num_elements=8, element_dtype=F32, name='tl1')
    l1 = raw.TensorListPushBack(input_handle=l1, tensor=x, name='tl1w1')
    l1 = raw.TensorListPushBack(input_handle=l1, tensor=matmul(x, name='allow1'), name='tl1w2')
    l1, a = raw.TensorListPopBack(input_handle=l1, element_shape=[2, 2], element_dtype=F32, name='tl1r1')
    l1, b = raw.TensorListPopBack(input_handle=l1, element_shape=[2, 2], element_dtype=F32, name='tl1r2')
    l2 = raw.EmptyTensorList(element_shape=[2, 2], max_num_elements=8, element_dtype=F32, name='tl2')
    l2 = raw.TensorListPushBack(input_handle=l2, tensor=x, name='tl2w1')
    _, c = raw.TensorListPopBack(input_handle=l2, element_shape=[2, 2], element_dtype=F32, name='tl2r1')
    raw.Identity(input=matmul(a, b, 'allow2'), name='fetch1'), raw.Identity(input=c, name='fetch2')
    return 'fetch1 fetch2'


@case('fp16 bf16', low='tl1 tl1r1 infer1 allow1 allow2 tl2w1', casts=None)
def tensor_list_from_tensor():
    """A list made from a tensor; a push is low as its list is."""
    a = matmul(const(), name='allow1')
    l1 = raw.TensorListFromTensor(tensor=a, element_shape=[2], name='tl1')
    t = raw.TensorListStack(input_handle=l1, element_shape=[2], element_dtype=F32, name='tl1r1')
    b = matmul(raw.Tanh(x=t, name='infer1'), name='allow2')
    l2 = raw.TensorListFromTensor(tensor=a, element_shape=[2], name='tl2')
    l2 = raw.TensorListPushBack(input_handle=l2, tensor=tf.constant([1.0, 2.0], name='input2'), name='tl2w1')
    raw.Identity(input=b, name='fetch1'), raw.TensorListLength(input_handle=l2, name='fetch2')
    return 'fetch1 fetch2'


@case('fp16', low='tl1 tl2 tl3 infer1 allow1 allow2 tl1w1', casts=(1, 1))
def tensor_list_push_back_batch_and_concat_lists():
    """Colour travels with the handles through ops that only move them."""
    x = const()
    shape = [2, 2]
    l1 = raw.EmptyTensorList(element_shape=shape, max_num_elements=8, element_dtype=F32, name='tl1')
    l2 = raw.EmptyTensorList(element_shape=shape, max_num_elements=8, element_dtype=F32, name='tl2')
    l12 = raw.Pack(values=[l1, l2], name='tl1tl2')
    a = matmul(x, name='allow1')
    l12 = raw.TensorListPushBackBatch(input_handles=l12, tensor=raw.Pack(values=[a, a], name='batch'), name='tl1w1')
    both = raw.Split(axis=0, value=l12, num_split=2, name='split')
    l1, l2 = (raw.Reshape(tensor=h, shape=tf.constant([], tf.int32), name=f'r{i}') for i, h in enumerate(both))
    l3 = raw.TensorListConcatLists(input_a=l1, input_b=l2, element_dtype=F32, name='tl3')
    _, y = raw.TensorListPopBack(input_handle=l3, element_shape=shape, element_dtype=F32, name='tl3r1')
    raw.Identity(input=matmul(raw.Tanh(x=y, name='infer1'), name='allow2'), name='fetch')
    return 'fetch'


@case('fp16', low='allow1 allow2 infer1 tl2 tl2w1 tl2r1', kept='tl1', casts=None)
def tensor_list_through_function():
    """A list that goes into a function is out of sight and stays; another does not mind."""
    x = const()

    @tf.function(autograph=False)
    def push(handle, item):
        return raw.TensorListPushBack(input_handle=handle, tensor=item)

    l1 = raw.EmptyTensorList(element_shape=[2, 2], max_num_elements=8, element_dtype=F32, name='tl1')
    a = matmul(x, name='allow1')
    l1 = push(l1, a)
    l2 = raw.EmptyTensorList(element_shape=[2, 2], max_num_elements=8, element_dtype=F32, name='tl2')
    l2 = raw.TensorListPushBack(input_handle=l2, tensor=a, name='tl2w1')
    _, y = raw.TensorListPopBack(input_handle=l2, element_shape=[2, 2], element_dtype=F32, name='tl2r1')
    _, z = raw.TensorListPopBack(input_handle=l1, element_shape=[2, 2], element_dtype=F32, name='tl1r1')
    raw.Identity(input=matmul(raw.Tanh(x=y, name='infer1'), name='allow2'), name='fetch1')
    raw.Identity(input=z, name='fetch2')
    return 'fetch1 fetch2'


@case('fp16 bf16', low='allow1', casts=None)
def batch_mat_mul():
    """A batched product is on the allow list."""
    x = tf.constant(1.0, shape=[2, 4, 4], name='input')
    raw.Identity(input=raw.BatchMatMul(x=x, y=x, name='allow1'), name='fetch')
    return 'fetch'


def between(name, op, **more):
    def build():
        x = matmul(tf.constant(1.0, shape=[8, 8], name='input'), name='allow1')
        x = getattr(raw, op)(**{more.get('operand', 'x'): x}, name='infer1')
        raw.Identity(input=matmul(x, name='allow2'), name='fetch')
        return 'fetch'
    CASES.append(Case(name, build, ('fp16', 'bf16'), f'{op} between allow ops goes low.', low='allow1 infer1 allow2',
                      casts=(1, 1)))


for op_ in 'Elu Erf Erfc Inv Log Log1p LogSoftmax Reciprocal Sigmoid Softmax Softplus Sqrt Tanh'.split():
    between(f'op_{op_.lower()}', op_, operand={'Elu': 'features', 'Softplus': 'features', 'LogSoftmax': 'logits',
                                               'Softmax': 'logits'}.get(op_, 'x'))


@case('fp16-cpu', casts=None, kept='allow1 allow2 deny1')
def mixed_fanout_emulated():
    """Emulated: a low result is made float32 again only for who is not low."""
    x = matmul(const(), name='allow1')
    a, b = matmul(x, name='allow2'), raw.Exp(x=x, name='deny1')
    raw.Identity(input=raw.Add(x=a, y=b, name='infer1'), name='fetch')
    return 'fetch'


@case('fp16', casts=(0, 0))
def cpu_scope():
    """All on another device: nothing changes."""
    with tf.device('/device:CPU:0'):
        return simple_graph()


@case('bf16 fp16', low='allow bias relu', casts=(3, 1))
def infer_follows_allow():
    """An infer op directly behind an allow op goes low, though nothing behind it is on the allow list."""
    w = tf.constant(1.0, shape=[3, 3, 16, 16], name='weight')
    x = raw.Conv2D(input=image(), filter=w, strides=[1, 1, 1, 1], padding='SAME', name='allow')
    x = raw.BiasAdd(value=x, bias=tf.constant(1.0, shape=[16], name='b'), name='bias')
    raw.Identity(input=relu(x, 'relu'), name='fetch')
    return 'fetch'


@case('bf16 fp16', kept='deny bias relu', casts=(0, 0))
def infer_follows_deny():
    """Behind a deny op it stays."""
    x = raw.Pow(x=image(), y=image('exponent'), name='deny')
    x = raw.BiasAdd(value=x, bias=tf.constant(1.0, shape=[16], name='b'), name='bias')
    raw.Identity(input=relu(x, 'relu'), name='fetch')
    return 'fetch'


# ---- TensorFlow's Python tests ----

def weight(*shape, name='w'):
    return v1.get_variable(name, shape, use_resource=True)


def conv(x, w, name):
    return tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding='SAME', name=name)


def photo():
    return v1.placeholder(F32, [2, 8, 8, 1], name='x')


def batch_norm(x, channels, name, layout='NHWC'):
    s, b = tf.constant(1.0, shape=[channels]), tf.constant(0.0, shape=[channels])
    return raw.FusedBatchNormV3(x=x, scale=s, offset=b, mean=[], variance=[], data_format=layout,
                                name=name)[0]


@case('fp16 bf16', low='conv bn conv2', casts=None)
def conv_bn():
    """Convolution, batch norm, convolution."""
    x = batch_norm(conv(photo(), weight(3, 3, 1, 4), 'conv'), 4, 'bn')
    raw.Identity(input=conv(x, weight(3, 3, 4, 4, name='w2'), 'conv2'), name='fetch')
    return 'fetch'


def train(loss, what):
    """The step that changes all variables."""
    v1.train.GradientDescentOptimizer(0.1).minimize(loss, name=what)


@case('fp16', low='conv', casts=None)
def conv3d_training():
    """A convolution in three dimensions and both its gradients."""
    x = v1.placeholder(F32, [1, 4, 4, 4, 1], name='x')
    y = tf.nn.conv3d(x, weight(2, 2, 2, 1, 2), [1] * 5, 'SAME', name='conv')
    y = tf.nn.conv3d(relu(y, 'relu'), weight(2, 2, 2, 2, 2, name='w2'), [1] * 5, 'SAME', name='conv2')
    train(tf.reduce_sum(y, name='loss'), 'step')
    return 'loss step'


@case('fp16 bf16', low='conv bn conv2', casts=None)
def conv3d_bn():
    """Convolution, batch norm, convolution, all in three dimensions."""
    x = v1.placeholder(F32, [1, 4, 4, 4, 1], name='x')
    x = tf.nn.conv3d(x, weight(2, 2, 2, 1, 2), [1] * 5, 'SAME', name='conv')
    x = batch_norm(x, 2, 'bn', 'NDHWC')
    raw.Identity(input=tf.nn.conv3d(x, weight(2, 2, 2, 2, 2, name='w2'), [1] * 5, 'SAME', name='conv2'),
                 name='fetch')
    return 'fetch'


@case('fp16', low='conv bn add conv2', casts=None)
def conv_bn_dropout_training():
    """Through dropout and all gradients of a training step."""
    x = batch_norm(conv(photo(), weight(3, 3, 1, 4), 'conv'), 4, 'bn')
    mask = v1.placeholder(F32, [2, 8, 8, 4], name='mask')
    x = raw.Add(x=raw.Mul(x=x, y=mask, name='dropout'), y=x, name='add')
    x = conv(x, weight(3, 3, 4, 4, name='w2'), 'conv2')
    train(tf.reduce_mean(relu(x, 'relu'), name='loss'), 'step')
    return 'loss step'


@case('fp16 bf16', low='conv bias relu pool conv2', casts=None)
def conv_pool():
    """Convolution, bias, relu and pooling, twice."""
    x = photo()
    for i, (a, b) in enumerate(((1, 4), (4, 4))):
        n = '2' * i
        x = conv(x, weight(3, 3, a, b, name=f'w{i}'), f'conv{n}')
        x = tf.nn.bias_add(x, weight(b, name=f'b{i}'), name=f'bias{n}')
        x = tf.nn.max_pool2d(relu(x, f'relu{n}'), 2, 2, 'SAME', name=f'pool{n}')
    raw.Identity(input=x, name='fetch')
    return 'fetch'


def matrix(name='x'):
    return v1.placeholder(F32, [8, 8], name=name)


def loop(body, *starts):
    return v1.while_loop(lambda i, *_: i < 4, lambda i, *v: [i + 1, *body(*v)], [0, *starts], name='while')[1:]


@case('fp16', low='while/MatMul while/Relu', casts=None)
def simple_loop_training():
    """A loop and its gradient."""
    w = weight(8, 8)
    y, = loop(lambda x: [tf.nn.relu(tf.matmul(x, w))], matrix())
    train(tf.reduce_sum(y, name='loss'), 'step')
    return 'loss step'


@case('fp16', low='while/MatMul while/Relu', casts=None)
def loop_with_vars_intertwined():
    """Loop variables that swap places agree."""
    w = weight(8, 8)
    a, b = loop(lambda x, y: [tf.nn.relu(tf.matmul(y, w)), x], matrix(), matrix('y'))
    raw.Identity(input=a + b, name='fetch')
    return 'fetch'


@case('fp16 bf16', low='split conv0 conv1 conv2 relu0 relu1 relu2 concat', casts=None)
def multi_paths():
    """Three towers between a split and a concat."""
    x = tf.split(v1.placeholder(F32, [2, 8, 8, 3], name='x'), 3, axis=3, name='split')
    y = [relu(conv(p, weight(3, 3, 1, 4, name=f'w{i}'), f'conv{i}'), f'relu{i}') for i, p in enumerate(x)]
    x = tf.concat([tf.nn.max_pool2d(p, 2, 2, 'SAME') for p in y], 3, name='concat')
    raw.Identity(input=conv(x, weight(3, 3, 12, 2, name='w3'), 'last'), name='fetch')
    return 'fetch'


@case('fp16 bf16', low='MatMul0 MatMul1 relu0 relu1', casts=None)
def multi_paths_2():
    """Two branches and what goes past them."""
    x = matrix()
    y = [relu(tf.matmul(x, weight(8, 8, name=f'w{i}'), name=f'MatMul{i}'), f'relu{i}') for i in range(2)]
    raw.Identity(input=tf.matmul(y[0] + y[1] + x, weight(8, 8), name='last'), name='fetch')
    return 'fetch'


@case('fp16', low='while/concat while/MatMul while/split while/Sigmoid while/Tanh', casts=None)
def recurrent_lstm():
    """A cell in a loop that reads and writes arrays of tensors."""
    xs = tf.TensorArray(F32, 4, element_shape=[8, 8]).unstack(v1.placeholder(F32, [4, 8, 8], name='x'))
    w = weight(16, 32)

    def cell(h, c):
        z = tf.concat([xs.read(0), h], 1, name='concat')
        i, f, o, g = tf.split(tf.matmul(z, w), 4, axis=1, name='split')
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        return [tf.sigmoid(o) * tf.tanh(c), c]

    h, _ = loop(cell, matrix('h'), matrix('c'))
    train(tf.reduce_sum(h, name='loss'), 'step')
    return 'loss step'


def propagation(number, before, body, after, low):
    def chain(x, letters, place):
        for i, letter in enumerate(letters):
            name = f'{place}{i}'
            if letter == 'w':
                x = tf.matmul(x, x, name=name)
            elif letter == 'g':
                x = raw.Mul(x=x, y=x, name=name)
            elif letter == 'c':
                x = relu(x, name)
            else:
                x = raw.Sqrt(x=raw.Pow(x=x, y=x, name=f'{place}{i}_pow'), name=name)
        return x

    def build():
        x = chain(matrix(), before, 'before')
        x, = loop(lambda v: [chain(v, body, 'body')], x)
        raw.Identity(input=chain(x, after, 'after'), name='fetch')
        return 'fetch'
    CASES.append(Case(f'propagation_through_simple_loop_{number}', build, ('fp16',),
                      f'{before} before, {body} in and {after} behind a loop (w allow, g infer, c clear, b deny).',
                      low=low))


propagation(1, 'w', 'c', 'c', 'before0 while/body0 after0')
propagation(2, 'c', 'c', 'w', 'before0 while/body0 after0')
propagation(3, 'w', 'g', 'w', 'before0 while/body0 after0')
propagation(4, 'w', 'gbg', 'w', 'before0 after0')
propagation(5, 'b', 'gwc', 'c', 'while/body1 while/body2')
propagation(6, 'b', 'cwcg', 'c', 'while/body0 while/body1 while/body2 while/body3 after0')
propagation(7, 'c', 'gwcg', 'c', 'before0 while/body0 while/body1 while/body2 while/body3 after0')
propagation(8, 'c', 'cgbgwc', 'g', 'before0 while/body0 while/body4 while/body5')


@case('fp16', low='MatMul', casts=None)
def noninlined_function():
    """An op that only the function library knows does not stop the rest."""
    from tensorflow.python.framework import function

    @function.Defun(F32, noinline=True)
    def called(x):
        return tf.nn.relu(x)

    raw.Identity(input=called(tf.matmul(matrix(), weight(8, 8), name='MatMul')), name='fetch')
    return 'fetch'


@case('fp16', low='while/MatMul while/gradients/while/MatMul_grad/MatMul_1', kept='w/read while/MatMul/Enter_1', casts=None)
def ingraph_train_loop():
    """Training steps in a loop, on variables whose memory is referred to."""
    w = v1.get_variable('w', [8, 8], use_resource=False)
    x = matrix()

    def body(i):
        loss = tf.reduce_sum(tf.matmul(x, w))
        step = w.assign_sub(tf.gradients(loss, [w])[0])
        with tf.control_dependencies([step, loss]):
            return i + 1

    i = v1.while_loop(lambda i: i < 4, body, [0], name='while')
    raw.Identity(input=i, name='fetch')
    return 'fetch'
