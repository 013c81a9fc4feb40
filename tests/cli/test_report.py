#!/usr/bin/env python3
"""halftone report: pages of the results of compare and explain, and refused input."""
import copy, html, html.parser, json, os, re, unittest

from tool import SMALL, TOP, ToolCase

DIGITS = os.path.join(TOP, 'examples', 'digits')
VOID = {'meta', 'br', 'hr', 'img', 'input', 'link'}
HOSTILE = ['</script><img onerror=alert(1)>', '"><script>alert(1)</script>', "' onload='x", '&lt;b&gt;', '<!-- ', ']]>',
           '</td></table></details>', '\u202egnp.exe', 'javascript:alert(1)', 'a\nb\tc', 'é漢😀', '\x01\x7f\x85']


class Page(html.parser.HTMLParser):
    """The parts of a page; each element must be closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.rows, self.headings, self.errors = [], [], [], [], []
        self.ids, self.links, self.tags, self.captions, self.branches = set(), set(), {}, 0, 0
        self.feed(text)
        self.close()
        if self.open:
            self.errors.append(f'{self.open} stay open')
        if not self.links <= self.ids:
            self.errors.append('a link leads nowhere')
        if self.captions != self.tags.get('table', 0):
            self.errors.append('a table has no caption')

    def handle_starttag(self, tag, attributes):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.captions += tag == 'caption'
        self.branches += tag == 'details' and ('class', 'branch') in attributes
        for name, value in attributes:
            if name.startswith('on') or name in ('src', 'style', 'srcset', 'action', 'xlink:href'):
                self.errors.append(f'{tag} has {name}={value}')
            if name == 'href':
                self.links.add(value.removeprefix('#'))
            if name == 'id':
                if value in self.ids:
                    self.errors.append(f'two elements are {value}')
                self.ids.add(value)
        if tag == 'tr':
            self.rows.append([])
        if tag in ('td', 'th'):
            self.rows[-1].append('')
        if re.fullmatch('h[1-3]', tag):
            self.headings.append([tag, ''])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.errors.append(f'</{tag}> closes another element at {self.getpos()}')

    def handle_comment(self, data):
        self.errors.append(f'a comment: {data!r}')

    def handle_data(self, data):
        self.text.append(data)
        if self.open and self.open[-1] in ('td', 'th'):
            self.rows[-1][-1] += data
        if self.open and re.fullmatch('h[1-3]', self.open[-1]):
            self.headings[-1][1] += data

    def row(self, *cells):
        """The first row that begins with these cells."""
        return next((r for r in self.rows if r[:len(cells)] == list(cells)), None)

    def titles(self, of='h3'):
        return [text for tag, text in self.headings if tag == of]


class Reports(ToolCase):
    def compare(self, *more, model=SMALL, policies=('must_keep_origin_dtype', 'force_fp16'), code=0):
        name = self.path(f'compare{len(os.listdir(self.dir))}.json')
        self.tool('compare', '-q', model, *(f'--policy={p}' for p in policies), '--format=json', '-o', name, *more, code=code)
        return name

    def explain(self, policy, *more, model=SMALL):
        return self.path(f'explain{len(os.listdir(self.dir))}.json',
                         self.tool('explain', '-q', model, f'--policy={policy}', '--format=json', *more).stdout)

    def edited(self, path, edit):
        with open(path) as f:
            j = json.load(f)
        edit(j)
        return self.path(f'edited{len(os.listdir(self.dir))}.json', json.dumps(j, ensure_ascii=False).encode())

    def page(self, *results):
        data = self.tool('report', *results).stdout
        self.assertEqual(data, self.tool('report', *results, '-o', '-').stdout)
        text = data.decode()
        page = Page(text)
        self.assertEqual(page.errors, [])
        self.assertEqual({t for t in page.tags if t in ('script', 'img', 'iframe', 'object', 'embed', 'form', 'base', 'link')}, set())
        self.assertNotRegex(text, r'(?i)https?:|url\(|@import|//[a-z]')
        self.assertEqual(page.tags['h1'], 1)
        self.assertEqual(page.tags.get('h2', 0), page.tags.get('section', 0))
        self.assertEqual(page.tags.get('summary', 0), page.tags.get('h3', 0) + page.branches)
        self.assertIn('prefers-color-scheme:dark', text)
        self.assertIn('@media print', text)
        return page

    def test_comparison(self):
        name = self.compare('--tol=rel<=1e-5', '--metric=top1', '--samples=20:3', '--runs=8', code=1)
        with open(name) as f:
            j = json.load(f)
        page, model = self.page(name), j['models'][0]
        self.assertEqual(page.titles()[:5], ['Policies', 'Notes', 'Tolerances', 'Environment', 'Frontier'])
        self.assertEqual(page.row('command')[1], j['command'])
        self.assertEqual([page.row(k)[1] for k in ('Halftone', 'target', 'threads', 'samples')],
                         [j['version'], model['target'], '1', '20'])
        for p in model['policies']:
            row = page.row(p['policy'], p['verdict'])
            self.assertEqual(row[2:5], [p['lowest'], f"{p['low_nodes']} of {p['float_nodes']}", str(p['casts'])])
            median, interval = row[7].split('\n')
            self.assertAlmostEqual(float(median) / p['latency_ms']['median'], 1, 2)
            self.assertRegex(interval, '^.+ to .+$')
            self.assertEqual(len(row), 12)
        failed = [(p['policy'], t) for p in model['policies'] for t in p['tolerances'] if not t['ok']]
        self.assertTrue(failed)
        for policy, t in failed:
            row = page.row(policy, t['output'], 'rel <= 0.00001')
            self.assertEqual(row[4:], ['FAIL', f"rel <= {t['would_pass']:.12g}", 'stated'])
        self.assertEqual(page.tags['svg'], 3)
        self.assertEqual(page.tags['figcaption'], 3)
        text = ''.join(page.text)
        for p in model['policies']:
            self.assertIn(f"{p['policy']}: median latency in ms", text)
        for o in model['policies'][0]['outputs']:
            self.assertIn(f"Output {o['output']} ({o['dtype']})", page.titles())
        statistics = [r for r in page.rows if r[0] == 'mean_abs']
        self.assertEqual([len(r) for r in statistics], [3] * len(model['policies'][0]['outputs']))

    def test_what_was_not_measured_is_left_out(self):
        page = self.page(self.compare('--runs=0'))
        self.assertEqual(page.tags['svg'], 1)  # the plot of memory
        self.assertIsNone(page.row('metric'))
        self.assertNotIn('median latency of the model as it is, ms', [r[0] for r in page.rows])
        none = self.edited(self.compare('--runs=0'), lambda j: j['models'][0].update(policies=[], seconds={}))
        page = self.page(none)
        self.assertEqual((page.titles(), page.tags.get('svg')), (['Environment'], None))
        page = self.page(self.edited(none, lambda j: j.update(models=[])))
        self.assertEqual(page.titles('h2'), [])
        bare = self.edited(self.explain('force_fp16'), lambda j: [j.update({k: []}) for k, v in list(j.items()) if isinstance(v, list)])
        self.assertEqual(self.page(bare).titles(), ['Policy'])

    def test_policy_with_an_error(self):
        def fail(j):
            p = j['models'][0]['policies'][1]
            j['models'][0]['policies'][1] = {'policy': p['policy'], 'verdict': 'unsupported', 'code': 4, 'error': 'no <kernel>',
                                             'outputs': [], 'tolerances': []}
        page = self.page(self.edited(self.compare(), fail))
        self.assertEqual(page.row('force_fp16', 'no <kernel>'), ['force_fp16', 'no <kernel>'])
        self.assertEqual(page.row('force_fp16', 'unsupported')[2:], [''] * 8)

    def test_decisions(self):
        lists = self.path('keep.txt', b'dense\nnone_such\n')
        name = self.explain('force_fp16', '--keep_dtype', lists, '--lenient')
        with open(name) as f:
            j = json.load(f)
        page = self.page(name)
        self.assertIn(f"Decisions of {j['model']}: force_fp16", page.titles('h2'))
        counts = {}
        for n in j['nodes']:
            for u in n['units']:
                key = n['op'], u['from'], u['to'], u['rule'], u.get('list', '')
                counts[key] = counts.get(key, 0) + 1
        for key, n in counts.items():
            self.assertEqual(page.row(*key), [*key, str(n)])
        self.assertTrue(j['casts'])
        for c in j['casts']:
            row = page.row(c['source'], c['from'], c['to'])
            self.assertEqual(row[3], str(c['elements'] if c['elements'] is not None else ''))
        for rule in j['acting_rules']:
            self.assertEqual(page.row(*rule), [*rule, 'yes'])
        self.assertTrue(j['idle_rules'])
        for rule in j['idle_rules']:
            self.assertEqual(page.row(*rule), [*rule, 'no'])
        for f in j['fusion_results']:
            row = page.row(f['name'], f['kind'], f['state'])
            self.assertEqual(row[3:5], [str(f['matches']), str(f['effects'])])
            self.assertIn(f.get('missed', ''), row[5])

    def test_digits(self):
        """A real model: methods, fusions, casts with prices, policies of all kinds, and several files on one page."""
        model = os.path.join(DIGITS, 'model.pb')
        names = [self.compare(model=model, policies=('must_keep_origin_dtype', 'optimal', 'grappler-fp16'), code=0),
                 self.explain('optimal', model=model), self.explain('grappler-fp16', model=model), self.compare()]
        page = self.page(*names)
        self.assertEqual(page.titles('h2'), [f'Comparison of {model}', f'Decisions of {model}: optimal',
                                             f'Decisions of {model}: grappler-fp16', f'Comparison of {SMALL}'])
        self.assertEqual(page.titles('h1'), ['Precision report'])
        self.assertEqual(self.page(names[1]).titles('h1'), [f'Precision report: {model}'])
        for title in 'Methods', 'Fusions', 'Casts':
            self.assertIn(title, page.titles())
        with open(names[1]) as f:
            for m in json.load(f)['methods']:
                self.assertEqual(page.row(m['node'], m['method'], m['reason'])[6], m.get('other', ''))

    def test_nodes(self):
        name = self.compare('--nodes', '--samples=4:3', '--runs=0', policies=['force_fp16', 'allow_mix_precision_bf16'])
        with open(name) as f:
            model = json.load(f)['models'][0]
        page, policies = self.page(name), model['policies']
        phases = [[p['policy'], p['phase']] for p in model['seconds']['phases']]
        self.assertEqual([r[:2] for r in page.rows if r[:2] in phases and len(r) == 3], phases)
        self.assertEqual(page.tags['svg'], 1 + 2 * 2)  # one plot of memory; for each policy one of errors by depth and one of exponents
        self.assertEqual(page.tags['circle'], sum(2 * len({t['depth'] for t in p['nodes']['tensors']}) for p in policies))
        for p in policies:
            self.assertIn(f"Nodes under {p['policy']}", page.titles())
            for t in p['nodes']['tensors']:
                rows = [r for r in page.rows if r[:2] == [t['node'], t['op']] and len(r) == 11]
                self.assertIn(len(rows), (1, 2))
        worst = [r for r in page.rows if len(r) == 11 and r[0] != 'node'][:len(policies[0]['nodes']['tensors'])]
        self.assertEqual([r[0] for r in worst], [t['node'] for t in sorted(policies[0]['nodes']['tensors'], key=lambda t: (-t['own'], t['order']))])

        def fault(j):
            j['models'][0]['policies'][0]['nodes']['tensors'][-1].update(excess=7, own=1e-9, body='loop', error='inf')
            j['models'][0]['policies'][0]['nodes']['first']['nan'] = dict(node='somewhere', sample=3)
        page = self.page(self.edited(name, fault))
        first = next(r for r in page.rows if len(r) == 11 and r[0] != 'node')
        self.assertEqual((first[0][:5], first[5], first[7]), ('loop/', '7', 'inf'))
        self.assertEqual(page.row('nan', 'somewhere'), ['nan', 'somewhere', '3'])
        self.fails(3, 'own is missing', 'report', self.edited(name, lambda j: j['models'][0]['policies'][0]['nodes']['tensors'][0].pop('own')))

    def test_training(self):
        """The results of a training, and the curves of its log."""
        result = dict(schema='halftone.train/1', model='m.hir', policy='force_fp16', target='x86-64', first=0, steps=1000, loss=0.5,
                      loss_scale=dict(scale=1024, good=1, bad=0, steps=1000, skipped=2), seconds=2.5,
                      phases=[dict(policy='original', steps=10, seconds=1)], evaluation={'accuracy': 0.75, '<b>': 1})
        lines = [dict(event='step', step=i, loss=2 / i if i != 500 else 'nan', scale=2048. if i < 600 else 1024., skipped=i == 600)
                 for i in range(1, 1001)]
        lines.insert(700, dict(event='evaluation', step=700, values={'accuracy': 0.5, '<i>': 1, 'step': 3}))
        log = self.path('run.ndjson', '\n'.join(map(json.dumps, lines)).encode() + b'\n')
        text = self.tool('report', self.path('train.json', json.dumps(result).encode()), log).stdout.decode()
        page = self.page(self.path('train.json'), log)
        self.assertEqual(page.titles('h2'), ['Training of m.hir: force_fp16', f'Training log of {log}'])
        self.assertEqual([page.row(k)[1] for k in ('steps', 'skipped steps', 'evaluation: <b>')], ['1000', '2', '1'])
        self.assertEqual(page.row('original'), ['original', '10', '1'])
        self.assertEqual([page.row('600')[1], page.row('700')], ['skipped', ['700', 'evaluation', 'accuracy 0.5, <i> 1, step 3']])
        loss, scale = re.findall(r'<path class="line line0" d="([^"]*)"', text)
        # Points of three steps each; the step without a number interrupts the curve.
        self.assertEqual((loss.count('M'), loss.count('M') + loss.count('L')), (2, 333))
        self.assertEqual((scale.count('M'), scale.count('M') + scale.count('L')), (1, 334))
        heights = [float(p.split(' ')[1]) for p in re.split('[ML]', loss)[1:]]
        self.assertEqual(heights, sorted(heights))  # the curve falls
        sides = [dict(event='step', step=i, policy=f'p{k}', seed=1, loss=k + 1) for i in (1, 2) for k in range(9)]
        text = ''.join(self.page(self.path('sides.ndjson', '\n'.join(map(json.dumps, sides)).encode())).text)
        self.assertIn('p7, seed 1', text)
        self.assertIn('The first 8 curves are drawn.', text)
        self.fails(3, r'cut.ndjson:2: error: no strict JSON', 'report', self.path('cut.ndjson', b'{"event": "step", "step": 1}\n{"event": \n'))
        self.fails(3, r'step.ndjson:2: error: step is', 'report',
                   self.path('step.ndjson', b'{"event": "step", "step": 1}\n{"event": "x", "step": "y"}\n'))
        self.fails(3, 'loss is missing', 'report', self.path('no.json', json.dumps({k: v for k, v in result.items() if k != 'loss'}).encode()))

    def test_cache(self):
        """Whether each program was in the compile cache, and the reason if it was not."""
        args = ('compare', SMALL, '--policy', 'force_fp16', '--runs=0', '--format=json', '--cache-mode=rw', '--cache-dir', self.path('cache'), '-o')
        names = [self.path(f'cache{i}.json') for i in range(3)]
        self.tool(*args, names[0])
        self.tool(*args, names[1])
        self.tool(*args, names[2], '--input-shape=x:2,4')
        for name, result, says in zip(names, ('miss', 'hit', 'miss'), ('^option-policy is .force_fp16., in the nearest entry ', '[0-9a-f]{32}', ' is .*, in the nearest entry ')):
            with open(name) as f:
                cache = json.load(f)['models'][0]['policies'][0]['cache']
            self.assertEqual(cache['hit'], result == 'hit')
            row = self.page(name).row('force_fp16', result)
            self.assertRegex(row[2], says)
            self.assertEqual(row[2], cache.get('entry', cache.get('reason')))
        self.assertNotIn('Compile cache', self.page(self.compare('--no-cache')).titles('h3'))

    def test_formats_are_low(self):
        """A number format counts as low, though its tensors are float32."""
        self.assertIn('The whole graph: 2 of 2 nodes low', ''.join(self.page(self.explain('force_fp16:e4m3fn')).text))

    def test_scopes(self):
        explained = self.explain('force_fp16')

        def rename(j):
            units = [n for n in j['nodes'] if n['units']]
            for i, n in enumerate(units):
                n['node'] = f'net/block_{i % 2}/{n["node"]}'
            j['casts'] = [{**j['casts'][0], 'source': 'net/block_1/x', 'bytes': 3000, 'folded': False}]
        text = ''.join(self.page(self.edited(explained, rename)).text)
        self.assertRegex(text, r'net \d+ of \d+ nodes low, 1 cast, 3 kB')
        self.assertRegex(text, r'block_1 \d+ of \d+ nodes low, 1 cast, 3 kB')
        self.assertIn('The whole graph: 2 of 2 nodes low', text)
        kept = self.edited(self.explain('must_keep_origin_dtype'), lambda j: [n.update(node=f'net/{n["node"]}') for n in j['nodes']])
        self.assertIn('The whole graph: 0 of 2 nodes low', ''.join(self.page(kept).text))

    def test_hostile_names(self):
        explained, compared = self.explain('force_fp16'), self.compare('--metric=cosine', '--nodes')
        for evil in HOSTILE:
            def decisions(j, evil=evil):
                j['model'] = j['policy'] = j['profile'] = evil
                for n in j['nodes']:
                    n['node'], n['op'] = f'{evil}/{evil}', evil
                    for u in n['units']:
                        u.update({k: evil for k in ('attribute', 'from', 'to', 'rule', 'list', 'follows')})
                for c in j['casts']:
                    c.update({k: evil for k in ('name', 'source', 'from', 'to')})
                j.update(unknown=[evil], assumed=[evil], fallback=[evil], implementation=[[evil] * 4], acting_rules=[[evil] * 3],
                         idle_rules=[[evil] * 3], without_effect=[evil], fusions=[[evil] * 3], fusions_off=[[evil] * 2],
                         methods=[dict(node=evil, method=evil, reason=evil, other=evil)],
                         fusion_results=[dict(name=evil, kind=evil, state=evil, matches=1, effects=1, missed_node=evil, missed=evil)])

            def comparison(j, evil=evil):
                j['command'] = j['version'] = evil
                m = j['models'][0]
                m['model'] = m['reference'] = m['target'] = evil
                m['metric'].update(name=evil, output=evil)
                m['seconds']['phases'][0].update(policy=evil, phase=evil)
                for p in m['policies']:
                    p.update(policy=evil, lowest=evil, same_as=evil)
                    p['metric']['method'] = evil
                    p['nodes']['first']['nan'] = dict(node=evil, sample=1)
                    for t in p['nodes']['tensors']:
                        t.update(node=evil, op=evil, body=evil, dtype=evil)
                    for o in p['outputs']:
                        o.update({'output': evil, 'dtype': evil, evil + '1': 1})
                    for t in p['tolerances']:
                        t.update(output=evil, statistic=evil, sign=evil)
            page = self.page(self.edited(explained, decisions), self.edited(compared, comparison))
            shown = re.sub('[\x01\x7f\x85]', '\ufffd', evil)
            self.assertEqual(page.row('command')[1], shown)
            self.assertEqual(page.row(*[shown] * 3, 'yes'), [*[shown] * 3, 'yes'])
            self.assertIn(f'Decisions of {shown}: {shown}', page.titles('h2'))

    def test_bytes_that_are_no_text(self):
        with open(self.explain('force_fp16'), 'rb') as f:
            data = f.read()
        page = self.page(self.path('utf8.json', data.replace(b'force_fp16', b'\xff\xc3(\xed\xa0\x80')))
        self.assertIn('\ufffd\ufffd(\ufffd\ufffd\ufffd', ''.join(page.text))
        self.fails(3, r'zero\.json:\d+: error: a string with a zero character', 'report',
                   self.path('zero.json', data.replace(b'force_fp16', b'a\\\\\\u0000b')))
        self.page(self.path('no_zero.json', data.replace(b'force_fp16', b'a\\\\u0000b')))
        self.fails(3, 'a zero byte', 'report', self.path('nul.json', data.replace(b'force_fp16', b'a\0b')))

    def test_numbers(self):
        def change(j):
            for p, v in zip(j['models'][0]['policies'], ('inf', 'nan', '-inf', 1e308, -1e308, 1e-320, 0)):
                p['outputs'][0].update(rel=v, snr='-inf', mean_abs='nan')
                p['tolerances'][0].update(value=v, bound='inf', would_pass='inf', ok=False)
                p['latency_ms'] = dict(median=v, low=v, high='inf')
                p['metric'] = dict(reference=v, value='nan', drop=v, low='-inf', high='inf', samples=1, method='x')
                p['memory_bytes'] = 10**300
        policies = ['must_keep_origin_dtype', 'force_fp16', 'optimal', 'grappler-fp16', 'allow_mix_precision_bf16',
                    'allow_mix_precision_fp16', 'grappler-bf16']
        page = self.page(self.edited(self.compare('--metric=cosine', policies=policies), change))
        self.assertIn('not finite', ''.join(page.text))
        self.assertEqual(page.row('must_keep_origin_dtype', 'y')[2:6], ['rel <= inf', 'inf', 'FAIL', 'none'])
        self.assertEqual(page.row('snr')[1], '-inf')
        self.assertEqual(page.row('mean_abs')[1], 'nan')

    def test_large_graphs(self):
        """The page stays below its limit of 2 MB, and a line states the number of omitted rows."""
        explained, compared = self.explain('force_fp16'), self.compare(policies=['force_fp16'])

        def grow(n):
            def change(j):
                node = next(m for m in j['nodes'] if m['units'])
                j['nodes'] = [{**node, 'node': f'model/some/scope/of_a_usual_length/block_{i}/conv<2d>_{i}'} for i in range(n)]
                cast = j['casts'][0]
                j['casts'] = [{**cast, 'source': f'model/some/scope/of_a_usual_length/block_{i}/relu_{i}', 'price_ps': i, 'bytes': i}
                              for i in range(n)]
                j['idle_rules'] = [[f'list:{i}', f'entry {i}', 'names no node'] for i in range(n)]
                j['methods'] = [dict(node=f'block_{i}', method='winograd', reason='faster', other='direct') for i in range(n)]
            return change
        for n in 1000, 10000:
            name = self.edited(explained, grow(n))
            self.assertLess(len(self.tool('report', name, compared).stdout), 2_000_000)
            text = ''.join(self.page(name).text)
            self.assertIn(f'300 of {n} rows are shown; {n - 300} are left out.', text)
            self.assertIn(f'block_{n - 1}/relu_{n - 1}', text)  # the one with the highest cost
            self.assertEqual(f'1000 of {n} rows are shown' in text, n > 1000)

        def widen(j):
            p = j['models'][0]['policies'][0]
            p['outputs'] = [{**copy.deepcopy(p['outputs'][0]), 'output': f'o{i}'} for i in range(50)]
        self.assertIn('The first 20 of 50 outputs are shown; 30 are left out.', ''.join(self.page(self.edited(compared, widen)).text))
        long = self.edited(explained, lambda j: j.update(unknown=['é' * 1000]))
        self.assertRegex(''.join(self.page(long).text), '[^é]é{100}…')

    def test_what_is_refused(self):
        explained, compared = self.explain('force_fp16'), self.compare()
        self.fails(2, 'needs results', 'report')
        self.fails(2, "no option '--policy'", 'report', explained, '--policy=optimal')
        self.fails(5, 'cannot read', 'report', self.path('none.json'))
        self.fails(3, 'nothing but blanks', 'report', self.path('empty.json', b' \n'))
        self.fails(3, r'bad\.json:2: error: no strict JSON', 'report', explained, self.path('bad.json', b'{"schema":\n,}'))
        self.fails(3, 'an array; a result is an object', 'report', self.path('list.json', b'[]'))
        self.fails(3, 'there is no schema', 'report', self.path('object.json', b'{"a": 1}'))
        self.fails(3, r"own\.json:2: error: the schema is 'halftone.bench/1'", 'report',
                   self.path('own.json', b'{"a": "b",\n "schema": "halftone.bench/1"}'))
        for other in 'halftone.comparer/1', 'halftone.compare', 'halftone.compare/', 'halftone.compare/0', 'halftone.compare/x':
            self.fails(3, 'a page is made of', 'report', self.edited(compared, lambda j, s=other: j.update(schema=s)))
        self.fails(3, r'the schema is halftone.compare/2; this version of Halftone reads halftone.compare/1', 'report',
                   self.edited(compared, lambda j: j.update(schema='halftone.compare/2')))
        self.fails(3, 'halftone.decisions/1 and none that is newer', 'report',
                   self.edited(explained, lambda j: j.update(schema='halftone.decisions/99999')))
        self.fails(3, 'nodes is missing', 'report', self.edited(explained, lambda j: j.pop('nodes')))
        self.fails(3, 'nodes is an object; it has to be an array', 'report', self.edited(explained, lambda j: j.update(nodes={})))
        self.fails(3, 'op is a number; it has to be a string', 'report', self.edited(explained, lambda j: j['nodes'][0].update(op=1)))
        self.fails(3, 'an array of 2 elements, where there have to be 3', 'report',
                   self.edited(explained, lambda j: j.update(idle_rules=[['a', 'b']])))
        self.fails(3, 'median is a string; it has to be a number, "inf"', 'report',
                   self.edited(compared, lambda j: j['models'][0]['latency_ms'].update(median='fast')))
        self.fails(3, 'casts is a number; it has to be a whole number', 'report',
                   self.edited(compared, lambda j: j['models'][0]['policies'][0].update(casts=-1)))
        with open(explained, 'rb') as f:
            data = f.read()
        line = data[:data.index(b'"profile"')].count(b'\n') + 1
        self.fails(3, rf'twice\.json:{line}: error: profile stands twice', 'report',
                   self.path('twice.json', data.replace(b'"policy"', b'"profile"', 1)))

    def test_no_page_where_it_cannot_be_written(self):
        name = self.compare()
        self.fails(5, 'No such file', 'report', name, '-o', self.path('none/page.html'))
        out = self.path('page.html', b'before')
        self.fails(3, 'no strict JSON', 'report', name, self.path('bad.json', b'{'), '-o', out)
        self.assertEqual(self.read('page.html'), b'before')
        self.tool('report', name, '-o', out)
        self.assertEqual(self.read('page.html'), self.tool('report', name).stdout)
        with open('/dev/full', 'wb') as full:
            r = self.tool('report', name, code=5, out=full)
        self.assertIn('cannot write', r.err)

    def test_show_options(self):
        r = self.tool('report', 'a b.json', 'c.json', '-o', 'r.html', '--version')
        self.assertIn(b'halftone', r.stdout)
        self.path('args', f"report-is-no-verb-here '{self.compare()}'".encode())
        self.fails(5, 'report-is-no-verb-here', 'report', '@' + self.path('args'))


if __name__ == '__main__':
    unittest.main()
