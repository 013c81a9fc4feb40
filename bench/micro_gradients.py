"""The products of a training step at ResNet-18's shapes, convolutions, their gradients, and those of its last layer, and those of a layer of BERT-base.

Each is a graph of one node whose operands are all computed in the run, so its time includes the copies and the packing in
front of the product and the sum of parts behind it.  Convolutions and gradients by images are direct.  Positions in the
padding count as multiply-adds.  The times and the peak alternate; the fastest of all rounds counts, of both.  Of bfloat16 the peak is
the higher one of products of pairs, by matrices where the machine has them, and of products of float32, which kernels compute where the machine's pairs are slow.
That is the momentary peak.  The share of the sustained one compares each run with products of registers alone that take as long, right behind it in the same
process; of each round the median counts, and of all rounds the median of those."""
from statistics import median

from machine import peak
from micro_half import constant, graph

# Images, height and width, channels, results, size of the filter, stride; padding as the model has it.
CONVOLUTIONS = [
    (224, 3, 64, 7, 2), (56, 64, 64, 3, 1), (56, 64, 128, 3, 2), (56, 64, 128, 1, 2), (28, 128, 128, 3, 1),
    (28, 128, 256, 3, 2), (28, 128, 256, 1, 2), (14, 256, 256, 3, 1), (14, 256, 512, 3, 2), (14, 256, 512, 1, 2),
    (7, 512, 512, 3, 1)]
BATCH, SLICES, BETWEEN_PEAKS = 32, 32, 5
# Rows, results, features of products of matrices.
PRODUCTS = [(BATCH, 1000, 512), (1024, 3072, 768), (1024, 768, 3072)]
TARGET = {'f32': .9, 'bf16': .85}


def sizes(name, values):
    return constant(name, 'i32', len(values), f'values {len(values)} {{{", ".join(map(str, values))}}}')


def joined(shape):
    return ','.join(map(str, shape))


def convolution_graphs(t, side, channels, results, size, stride):
    """(name, graph) of the convolution and its two gradients, and their multiply-adds."""
    pad = size // 2
    out = (side + 2 * pad - size) // stride + 1
    image, filter_ = (BATCH, side, side, channels), (size, size, channels, results)
    result = BATCH, out, out, results
    attributes = (f'{{T={t}, strides=[1, {stride}, {stride}, 1], padding="EXPLICIT", '
                  f'explicit_paddings=[0, 0, {pad}, {pad}, {pad}, {pad}, 0, 0], data_format="NHWC", '
                  'dilations=[1, 1, 1, 1]}\n')
    x, f, g = (('x', t, joined(image)), ('f', t, joined(filter_)), ('g', t, joined(result)))
    graphs = [('convolution', graph([x, f], '%y = Conv2D(%x, %f) ' + attributes)),
              ('by the filter', graph([x, g], sizes('s', filter_) + '%y = Conv2DBackpropFilter(%x, %s, %g) '
                                      + attributes))]
    if channels > 3:  # nothing needs the gradient of the model's input
        graphs.insert(1, ('by the image', graph([f, g], sizes('s', image) + '%y = Conv2DBackpropInput(%s, %f, %g) '
                                                + attributes)))
    return graphs, BATCH * out * out * size * size * channels * results


def matrix_graphs(t, rows, results, features):
    a, w, g = (('a', t, f'{rows},{features}'), ('w', t, f'{features},{results}'), ('g', t, f'{rows},{results}'))

    def product(left, right, turned):
        return f'%y = MatMul(%{left}, %{right}) {{T={t}, {turned}}}\n'
    return [('product', graph([a, w], product('a', 'w', 'transpose_a=false, transpose_b=false'))),
            ('by its input', graph([w, g], product('g', 'w', 'transpose_a=false, transpose_b=true'))),
            ('by its weights', graph([a, g], product('a', 'g', 'transpose_a=true, transpose_b=false')))
            ], rows * results * features


def cases(t):
    for side, channels, results, size, stride in CONVOLUTIONS:
        graphs, multiply_adds = convolution_graphs(t, side, channels, results, size, stride)
        yield (f'{size}x{size} {side}x{side}x{channels} -> {results}' + (f' /{stride}' if stride > 1 else ''),
               graphs, multiply_adds)
    for shape in PRODUCTS:
        graphs, multiply_adds = matrix_graphs(t, *shape)
        yield ' x '.join(map(str, shape)), graphs, multiply_adds


def time_of(path, timed_kernels):
    """(ms of all kernels, ms of the products alone, multiply-adds that registers make in the time of all kernels)."""
    kernels = timed_kernels(path, '--conv-method', 'direct', '--slices', str(SLICES), '--beside-peak', 'yes')
    return (1e-3 * sum(k['min_us'] * k['uses'] for k in kernels),
            1e-3 * sum(k['min_us'] * k['uses'] for k in kernels if k['contractions']),
            sum(k['beside'] * k['uses'] for k in kernels))


def peak_of(t, wrap):
    rates = peak(wrap)
    return max(rates['f32'], rates.get(t, 0))


def measure_type(a, folder, t, timed_kernels):
    rows, most = [], 0
    for shape, graphs, multiply_adds in cases(t):
        for name, text in graphs:
            if a.shapes and not any(word in f'{shape} {name}' for word in a.shapes.split(',')):
                continue
            rows.append({'shape': shape, 'what': name, 'dtype': t, 'multiply_adds': multiply_adds,
                         'path': f'{folder}/{t}.{len(rows)}.hir', 'ms': 1e9, 'product_ms': 1e9, 'of_sustained': []})
            with open(rows[-1]['path'], 'w') as f:
                f.write(text)
    for i in range(a.rounds * len(rows)):
        r = rows[i % len(rows)]
        if i % BETWEEN_PEAKS == 0:
            most = max(most, peak_of(t, a.wrap))
        ms, product, beside = time_of(r['path'], lambda *words: timed_kernels(a, *words))
        r['ms'], r['product_ms'] = min(r['ms'], ms), min(r['product_ms'], product)
        r['of_sustained'].append(r['multiply_adds'] / beside)
    for r in rows:
        del r['path']
        r['of_peak'] = 2e-6 * r['multiply_adds'] / r['ms'] / most
        r['of_sustained'] = median(r['of_sustained'])
    return rows, most


def measure(a, folder, timed_kernels):
    """(results, lines of the report)."""
    results, lines = [], ['## Products of a training step', '']
    for t in a.dtypes.split(','):
        rows, most = measure_type(a, folder, t, timed_kernels)
        lines += [f'{t}, {BATCH} images; momentary peak: {most:.1f} GFLOP/s; target: {TARGET[t]}', '',
                  '| shape | what | ms | of it the product | of the momentary peak | of the sustained one |',
                  '| --- | --- | --- | --- | --- | --- |']
        for r in rows:
            mark = ' **' if r['of_sustained'] < TARGET[t] else ''
            lines.append(f'| {r["shape"]} | {r["what"]}{mark} | {r["ms"]:.2f} | {r["product_ms"]:.2f} | '
                         f'{r["of_peak"]:.2f} | {r["of_sustained"]:.2f} |')
        results += rows
        lines.append('')
    return results, lines
