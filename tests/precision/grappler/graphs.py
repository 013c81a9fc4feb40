"""Random graphs for TensorFlow's auto_mixed_precision: typed DAGs of listed and unlisted ops, with list
attributes, variables, loops, branches, tensor lists and functions."""
import tensorflow as tf

raw = tf.raw_ops
v1 = tf.compat.v1

UNARY = ('Relu Relu6 Elu Selu Softplus Softsign Exp Expm1 Log Log1p Tanh Sigmoid Sqrt Rsqrt Square Inv '
         'Reciprocal Erf Erfc Neg Abs Sign Floor Ceil Round Identity StopGradient Snapshot OnesLike ZerosLike '
         'Softmax LogSoftmax Cos Sin L2Loss LeakyRelu').split()
BINARY = ('Add AddV2 Sub Mul RealDiv FloorDiv Maximum Minimum Pow SquaredDifference Atan2 MatMul BatchMatMulV2 '
          'ReluGrad TanhGrad SigmoidGrad BiasAdd').split()
COMPARE = 'Greater Less Equal NotEqual GreaterEqual LessEqual'.split()
REDUCE = 'Mean Sum Max Min Prod'.split()
FIRST = {'Softmax': 'logits', 'LogSoftmax': 'logits', 'L2Loss': 't', 'Identity': 'input', 'StopGradient': 'input',
         'Snapshot': 'input', 'Relu': 'features', 'Relu6': 'features', 'Elu': 'features', 'Selu': 'features',
         'Softplus': 'features', 'Softsign': 'features', 'LeakyRelu': 'features'}


class Maker:
    def __init__(self, rng):
        self.rng = rng
        self.f32, self.i32, self.bools, self.half = [], [], [], []
        self.depth = 0

    def pick(self):
        """Mostly a recent value, so that chains arise."""
        n = len(self.f32)
        i = n - 1 - min(int(self.rng.expovariate(0.4)), n - 1)
        return self.f32[i]

    def scalar(self, value):
        return tf.constant(value, tf.int32)

    def axis(self):
        return tf.constant([0], tf.int32)

    def integer(self):
        return self.rng.choice(self.i32) if self.i32 and self.rng.random() < 0.7 else self.scalar(1)

    def boolean(self):
        if not self.bools or self.rng.random() < 0.3:
            self.bools.append(v1.placeholder(tf.bool, name='b') if not self.depth else
                              raw.Greater(x=self.pick(), y=self.pick()))
        return self.rng.choice(self.bools)

    def variable(self):
        v = raw.VariableV2(shape=tf.TensorShape(None), dtype=tf.float32)
        self.f32.append(self.rng.choice([v, raw.Identity(input=v)]))

    # Every method adds at least one value.

    def unary(self):
        name = self.rng.choice(UNARY)
        self.f32.append(getattr(raw, name)(**{FIRST.get(name, 'x'): self.pick()}))

    def binary(self):
        name = self.rng.choice(BINARY)
        a, b = self.pick(), self.pick()
        if name == 'MatMul':
            a = raw.MatMul(a=a, b=b)
        elif name == 'BiasAdd':
            a = raw.BiasAdd(value=a, bias=b)
        elif name == 'ReluGrad':
            a = raw.ReluGrad(gradients=a, features=b)
        elif name in ('TanhGrad', 'SigmoidGrad'):
            a = getattr(raw, name)(y=a, dy=b)
        else:
            a = getattr(raw, name)(x=a, y=b)
        self.f32.append(a)

    def matmul(self):
        self.f32.append(raw.MatMul(a=self.pick(), b=self.pick()))

    def reduce(self):
        name = self.rng.choice(REDUCE)
        self.f32.append(getattr(raw, name)(input=self.pick(), axis=self.axis()))

    def compare(self):
        self.bools.append(getattr(raw, self.rng.choice(COMPARE))(x=self.pick(), y=self.pick()))
        self.f32.append(raw.SelectV2(condition=self.rng.choice(self.bools), t=self.pick(), e=self.pick()))

    def convolution(self):
        x, w = self.pick(), self.pick()
        kind = self.rng.randrange(5)
        if kind == 0:
            y = raw.DepthwiseConv2dNative(input=x, filter=w, strides=[1, 1, 1, 1], padding='SAME')
        elif kind == 1:
            y = raw.Conv2DBackpropInput(input_sizes=raw.Shape(input=self.pick()), filter=w, out_backprop=x,
                                        strides=[1, 1, 1, 1], padding='SAME')
        elif kind == 2:
            y = raw.Einsum(inputs=[x, w], equation='ab,bc->ac')
        else:
            y = raw.Conv2D(input=x, filter=w, strides=[1, 1, 1, 1], padding='SAME')
        self.f32.append(y)

    def pool(self):
        args = dict(ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding='SAME')
        self.f32.append(raw.MaxPool(input=self.pick(), **args) if self.rng.random() < 0.5 else
                        raw.AvgPool(value=self.pick(), **args))

    def batch_norm(self):
        op = self.rng.choice([raw.FusedBatchNorm, raw.FusedBatchNormV2, raw.FusedBatchNormV3])
        r = op(x=self.pick(), scale=self.pick(), offset=self.pick(), mean=self.pick(), variance=self.pick(),
               is_training=self.rng.random() < 0.5)
        self.f32.append(r[0])
        if self.rng.random() < 0.3:
            self.f32.append(r[1])

    def many(self):
        some = [self.pick() for _ in range(self.rng.randint(2, 4))]
        kind = self.rng.randrange(6)
        if kind == 0:
            self.f32.append(raw.AddN(inputs=some))
        elif kind == 1:
            self.f32.append(raw.ConcatV2(values=some, axis=self.scalar(0)))
        elif kind == 2:
            self.f32.extend(raw.Unpack(value=raw.Pack(values=some), num=2))
        elif kind == 3:
            self.f32.extend(raw.Split(axis=self.scalar(0), value=self.pick(), num_split=2))
        elif kind == 4:
            mixed = some + [self.integer()] + ([self.boolean()] if not self.depth else [])
            self.rng.shuffle(mixed)
            self.f32.extend(t for t in raw.IdentityN(input=mixed) if t.dtype == tf.float32)
        else:
            self.i32.extend(raw.ShapeN(input=some))

    def move(self):
        x = self.pick()
        kind = self.rng.randrange(12)
        if kind == 0:
            y = raw.Reshape(tensor=x, shape=raw.Shape(input=self.pick()))
        elif kind == 1:
            y = raw.Transpose(x=x, perm=raw.Shape(input=self.pick()))
        elif kind == 2:
            y = raw.ExpandDims(input=x, axis=self.scalar(0))
        elif kind == 3:
            y = raw.Squeeze(input=x)
        elif kind == 4:
            y = raw.GatherV2(params=x, indices=self.integer(), axis=self.scalar(0))
        elif kind == 5:
            y = raw.Tile(input=x, multiples=raw.Shape(input=self.pick()))
        elif kind == 6:
            layout = self.rng.choice(['NHWC', 'NCHW'])
            y = self.rng.choice([raw.DepthToSpace, raw.SpaceToDepth])(input=x, block_size=2, data_format=layout)
        elif kind == 7:
            y, indices = raw.TopKV2(input=x, k=self.scalar(1))
            self.i32.append(indices)
        elif kind == 8:
            y = raw.Cast(x=raw.ArgMax(input=x, dimension=self.scalar(0)), DstT=tf.float32)
        elif kind == 9:
            y = raw.BroadcastTo(input=x, shape=raw.Shape(input=self.pick()))
        elif kind == 10:
            y = raw.Fill(dims=raw.Shape(input=x), value=self.pick())
        else:
            y = raw.StridedSlice(input=x, begin=[0], end=[1], strides=[1])
        self.f32.append(y)

    def cast(self):
        kind = self.rng.randrange(4)
        low = self.rng.choice([tf.float16, tf.bfloat16])
        if kind == 0:
            self.half.append(raw.Cast(x=self.pick(), DstT=low))
        elif kind == 1 and self.half:
            self.half.append(raw.Relu(features=self.rng.choice(self.half)))
        elif kind == 2 and self.half:
            self.f32.append(raw.Cast(x=self.rng.choice(self.half), DstT=tf.float32))
        else:
            self.f32.append(raw.Cast(x=self.integer(), DstT=tf.float32))

    def odd_types(self):
        """Ops with several floating-point type attributes."""
        if self.rng.random() < 0.5:
            self.f32.append(raw.SparseMatMul(a=self.pick(), b=self.pick()))
        else:
            loss, grad = raw.SoftmaxCrossEntropyWithLogits(features=self.pick(), labels=self.pick())
            self.f32 += [loss, grad]

    def resource(self):
        v = raw.VarHandleOp(dtype=tf.float32, shape=tf.TensorShape(None))
        self.f32.append(raw.ReadVariableOp(resource=v, dtype=tf.float32))

    def tensor_list(self):
        n = self.rng.randint(1, 4)
        shape = self.scalar(-1)
        if self.rng.random() < 0.3:
            handle = raw.TensorListFromTensor(tensor=self.pick(), element_shape=shape)
        elif self.rng.random() < 0.5:
            handle = raw.TensorListReserve(element_shape=shape, num_elements=self.scalar(n),
                                           element_dtype=tf.float32)
        else:
            handle = raw.EmptyTensorList(element_shape=shape, max_num_elements=self.scalar(n),
                                         element_dtype=tf.float32)
        for _ in range(n):
            kind = self.rng.randrange(6)
            if kind == 0:
                handle = raw.TensorListPushBack(input_handle=handle, tensor=self.pick())
            elif kind == 1:
                handle = raw.TensorListSetItem(input_handle=handle, index=self.scalar(0), item=self.pick())
            elif kind == 2:
                handle, item = raw.TensorListPopBack(input_handle=handle, element_shape=shape,
                                                     element_dtype=tf.float32)
                self.f32.append(item)
            elif kind == 3:
                self.f32.append(raw.TensorListGetItem(input_handle=handle, index=self.scalar(0),
                                                      element_shape=shape, element_dtype=tf.float32))
            elif kind == 4:
                handle = raw.Identity(input=handle)
            else:
                self.unary()
        self.f32.append(raw.TensorListStack(input_handle=handle, element_shape=shape, element_dtype=tf.float32))

    def step(self, name):
        """Steps that do not fit the shapes of constants are skipped."""
        try:
            getattr(self, name)()
        except ValueError:
            pass

    def inside(self, count):
        """Values made in a scope of their own from existing ones."""
        saved = [list(x) for x in (self.f32, self.i32, self.bools, self.half)]
        self.depth += 1
        for _ in range(count):
            self.step(self.rng.choice(['unary', 'unary', 'binary', 'matmul', 'reduce', 'move']))
        self.depth -= 1
        made = self.f32[len(saved[0]):] or [self.pick()]
        self.f32, self.i32, self.bools, self.half = saved
        return made

    def loop(self):
        starts = [self.pick() for _ in range(self.rng.randint(1, 3))]

        def body(i, *values):
            outer = self.f32, self.i32, self.bools, self.half
            self.f32, self.i32, self.bools, self.half = list(values) + self.rng.sample(
                outer[0], min(len(outer[0]), self.rng.randint(0, 1))), [], [], []
            made = self.inside(self.rng.randint(1, 5)) + list(values)
            results = [self.rng.choice(made) for _ in values]
            self.f32, self.i32, self.bools, self.half = outer
            return [i + 1] + [raw.Identity(input=r) for r in results]

        unknown = [tf.TensorShape(None)] * len(starts)
        out = v1.while_loop(lambda i, *_: i < 3, body, [tf.constant(0)] + starts,
                            shape_invariants=[tf.TensorShape([])] + unknown)
        self.f32.extend(out[1:])

    def branch(self):
        value = self.pick()
        f, t = raw.Switch(data=value, pred=self.boolean())
        saved = self.f32
        arms = []
        for arm in f, t:
            self.f32 = [arm]
            for _ in range(self.rng.randint(0, 2)):
                self.unary()
            arms.append(self.f32[-1])
        self.f32 = saved
        self.f32.append(raw.Merge(inputs=arms)[0])

    def function(self):
        count = self.rng.randint(1, 6)
        args = [self.pick() for _ in range(self.rng.randint(1, 2))]

        @tf.function(autograph=False)
        def body(*values):
            outer = self.f32, self.i32, self.bools, self.half
            self.f32, self.i32, self.bools, self.half = list(values), [], [], []
            made = self.inside(count)
            self.f32, self.i32, self.bools, self.half = outer
            return made[-1] if self.rng.random() < 0.7 else (made[-1], made[0])

        r = body(*args)
        self.f32.extend(r if isinstance(r, tuple) else [r])


STEPS = [('unary', 10), ('binary', 6), ('matmul', 6), ('reduce', 2), ('compare', 1), ('convolution', 3), ('pool', 1),
         ('batch_norm', 2), ('many', 3), ('move', 4), ('cast', 2), ('odd_types', 1), ('resource', 1), ('variable', 1),
         ('tensor_list', 1.2), ('branch', 0.6), ('loop', 0.5), ('function', 0.4)]


def random_graph(rng):
    """(GraphDef, nodes to fetch)"""
    # Loops of v1 are nodes of the graph, those of v2 are calls of functions.
    (v1.disable_control_flow_v2 if rng.random() < 0.7 else v1.enable_control_flow_v2)()
    with tf.Graph().as_default() as graph:
        m = Maker(rng)
        for i in range(rng.randint(1, 3)):
            m.f32.append(v1.placeholder(tf.float32, name=f'x{i}') if rng.random() < 0.8 else
                         tf.constant(1.0, name=f'c{i}'))
        names, weights = zip(*STEPS)
        for step in rng.choices(names, weights, k=rng.randint(3, 30)):
            if rng.random() < 0.03:
                with tf.device(rng.choice(['/device:CPU:0', '/device:GPU:0'])):
                    m.step(step)
            else:
                m.step(step)
        ends = [t.op.name for t in m.f32[-3:]]
        fetch = sorted(set(rng.sample(ends, rng.randint(1, len(ends)))))
    return v1.graph_util.extract_sub_graph(graph.as_graph_def(), fetch), fetch


def ops_of(graph_def):
    nodes = list(graph_def.node) + [n for f in graph_def.library.function for n in f.node_def]
    return sorted({n.op for n in nodes})


# With these, only their type attributes would become low, and TensorFlow would write graphs that do
# not run.
ONLY_DENIED = {'Const', 'PartitionedCall', 'StatefulPartitionedCall', 'While', 'StatelessWhile'}


def random_edits(rng, ops, lists):
    """Moves some ops of the graph to another list.  lists: {op: list} as shipped."""
    edits = {}
    for op in rng.sample(ops, min(len(ops), rng.choice([0, 0, 1, 2, 4]))):
        was, to = lists.get(op), rng.choice(['allow', 'infer', 'deny', 'clear', None])
        if was == to or op in ONLY_DENIED and to != 'deny':
            continue
        if was:
            edits.setdefault((was, 'remove'), []).append(op)
        if to:
            edits.setdefault((to, 'add'), []).append(op)
    return edits
