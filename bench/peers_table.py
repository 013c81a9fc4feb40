"""Tables and plot of bench/peers' results."""
import statistics

COLOURS = {'halftone': '#1b6ca8', 'openvino': '#e8963c', 'ort': '#7f9f5f', 'tensorflow': '#b05b6f',
           'xla': '#8f7fb0', 'iree': '#5aa5a0', 'tvm': '#a08040'}


def is_ours(name):
    return name.startswith('halftone')


def key(name):
    """The key of engines that are compared: dtype, and the level of code if it is limited."""
    dtype, _, level = name.partition('-')[2].partition('-')
    return ('bf16' if dtype == 'optimal' else dtype), level


def engines(result):
    return list(dict.fromkeys(n for m in result['models'].values() for n in m))


def limit_ms(result, model, dtype):
    """The share of the peak: 2 x multiply-adds over the peak of all threads."""
    kind = {'bf16': 'bf16', 'optimal': 'bf16', 'f16short': 'f16'}.get(dtype, 'f32')
    rate = result['peak_gflops'].get(kind)
    work = 2 * result['sizes'][model]['multiply_adds'] * result['batch']
    return work / rate / result['threads'] * 1e-6 if rate else None


def best_peer(results, name):
    peers = {n: r for n, r in results.items()
             if not is_ours(n) and key(n) == key(name) and 'median' in r}
    return min(peers, key=lambda n: peers[n]['median']) if peers else None


def rows(result):
    """(model, Halftone's engine, its result, fastest peer or None, its result, ratio or None)."""
    for model, results in result['models'].items():
        for name, r in results.items():
            if is_ours(name) and 'median' in r:
                peer = best_peer(results, name)
                p = results[peer] if peer else None
                yield model, name, r, peer, p, p['median'] / r['median'] if p else None


def speeds(result):
    lines = ['| model | dtype | batch | threads | median ms | spread | fastest peer | median ms | '
             'spread | ratio | of the limit |', '| --- |' + ' --- |' * 10]
    ratios = {}
    for model, name, r, peer, p, ratio in rows(result):
        dtype = name.partition('-')[2]
        limit = limit_ms(result, model, dtype.partition('-')[0])
        other = (f'{peer} | {p["median"]:.2f} | {p["spread"]:.0%} | {ratio:.2f}' if peer
                 else '- | - | - | -')
        of = '-' if not limit or '-' in dtype else f'{limit / r["median"]:.2f}'
        lines.append(f'| {model} | {dtype} | {result["batch"]} | {result["threads"]} | '
                     f'{r["median"]:.2f} | {r["spread"]:.0%} | {other} | {of} |')
        if ratio:
            ratios.setdefault(dtype, []).append(ratio)
    return lines + [''] + [
        f'{dtype}: speed against the fastest peer, geometric mean of {len(r)}: '
        f'{statistics.geometric_mean(r):.2f}; slower on {sum(x < 1 for x in r)}.'
        for dtype, r in ratios.items()]


def all_engines(result):
    names = engines(result)
    lines = ['| ms (median) | ' + ' | '.join(names) + ' |', '| --- |' + ' --- |' * len(names)]
    for model, results in result['models'].items():
        cells = [f'{results[n]["median"]:.2f}' if 'median' in results.get(n, {}) else '-' for n in names]
        lines.append(f'| {model} | ' + ' | '.join(cells) + ' |')
    return lines


def memory(result):
    lines = ['| model | dtype | weights of the model MB | packed MB | packed : model | arena MB | '
             'arena : live | code kB | kernels | warm run MB | over weights and arena | compile ms |',
             '| --- |' + ' --- |' * 11]
    for model, name, r, *_ in rows(result):
        if 'warm_rss' not in r:
            continue
        original = result["sizes"][model]["model_weight_bytes"]
        lines.append(
            f'| {model} | {name.partition("-")[2]} | {original / 1e6:.1f} | '
            f'{r["weight_bytes"] / 1e6:.1f} | {r["weight_bytes"] / original:.2f} | '
            f'{r["arena_bytes"] / 1e6:.2f} | {r["arena_bytes"] / r["live_bytes"]:.2f} | {r["code_bytes"] / 1e3:.0f} | '
            f'{r["kernels"]:.0f} | {r["warm_rss"]:.1f} | {r["warm_over"]:.1f} | {r["load"]:.0f} |')
    return lines


def failures(result):
    return [f'{model} {n}: {r["failed"]}' for model, results in result['models'].items()
            for n, r in results.items() if 'failed' in r]


def markdown(result):
    peaks = ', '.join(f'{v:.1f} GFLOP/s ({k})' for k, v in result['peak_gflops'].items())
    parts = [[f'{result["threads"]} thread(s), batch {result["batch"]}; peak of a core {peaks}'],
             speeds(result), all_engines(result), memory(result), failures(result)]
    return '\n\n'.join('\n'.join(p) for p in parts if p) + '\n'


def plot(result):
    """A bar chart: speed of each engine relative to the fastest peer in float32; higher is faster."""
    names, models = engines(result), list(result['models'])
    bar, gap, height, left = 12, 18, 260, 40
    group = bar * len(names) + gap
    width = left + group * len(models) + 10
    values = {}
    for model, results in result['models'].items():
        peer = best_peer(results, 'halftone-f32')
        for n, r in results.items():
            if peer and 'median' in r:
                values[model, n] = results[peer]['median'] / r['median']
    top = max([*values.values(), 1.]) * 1.05
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height + 90}" '
           'font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height + 90}" fill="white"/>',
           f'<text x="{left}" y="14">speed over the fastest peer in float32, '
           f'{result["threads"]} thread(s), batch {result["batch"]}</text>']
    y = lambda v: 20 + height - height * v / top
    step = .5 if top < 4 else 1.
    for i in range(int(top / step) + 1):
        out.append(f'<line x1="{left}" x2="{width}" y1="{y(i * step):.1f}" y2="{y(i * step):.1f}" '
                   f'stroke="{"#444" if i * step == 1 else "#ddd"}"/>'
                   f'<text x="4" y="{y(i * step) + 4:.1f}">{i * step:g}</text>')
    for m, model in enumerate(models):
        x = left + gap / 2 + m * group
        for i, n in enumerate(names):
            v = values.get((model, n))
            if v:
                light = 1 if n.endswith('f32') else .55
                out.append(f'<rect x="{x + i * bar:.1f}" y="{y(v):.1f}" width="{bar - 1}" '
                           f'height="{y(0) - y(v):.1f}" fill="{COLOURS.get(n.split("-")[0], "#888")}" '
                           f'fill-opacity="{light}"><title>{model} {n}: {v:.2f}</title></rect>')
        out.append(f'<text x="{x:.1f}" y="{height + 36}">{model}</text>')
    for i, n in enumerate(names):
        x, line = left + 150 * (i % 5), height + 54 + 16 * (i // 5)
        out.append(f'<rect x="{x}" y="{line - 9}" width="10" height="10" '
                   f'fill="{COLOURS.get(n.split("-")[0], "#888")}" '
                   f'fill-opacity="{1 if n.endswith("f32") else .55}"/>'
                   f'<text x="{x + 14}" y="{line}">{n}</text>')
    return '\n'.join(out + ['</svg>']) + '\n'
