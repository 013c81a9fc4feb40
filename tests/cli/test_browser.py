#!/usr/bin/env python3
"""Pages of halftone report in Chromium: no console message, no request, all of it usable by keyboard, light and dark,
and with 10,000 nodes.

Exit code 77: there is no Chromium."""
import copy, json, sys, unittest

from tool import SMALL, ToolCase
import browser

GREY = '''getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color'''


class Pages(ToolCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()

    def results(self, n):
        """A comparison with nodes, decisions for `n` nodes in scopes, each of which takes a result of the previous one,
        and a log."""
        compared, explained = self.path('c.json'), self.path('e.json')
        self.tool('compare', SMALL, '--policy=must_keep_origin_dtype', '--policy=force_fp16', '--nodes', '--runs=6', '--format=json', '-o',
                  compared)
        j = json.loads(self.tool('explain', SMALL, '--policy=force_fp16', '--format=json').stdout)
        node = next(x for x in j['nodes'] if x['op'] == 'MatMul')
        j['nodes'] = [{**copy.deepcopy(node), 'node': f'net/block_{i // 50}/part_{i // 10 % 5}/product_{i}'} for i in range(n)]
        j['edges'] = [[i, i + 1] for i in range(n - 1)]
        j['casts'] = [{**j['casts'][1], 'source': j['nodes'][i]['node']} for i in range(0, n, 20)]
        self.path('e.json', json.dumps(j).encode())
        log = '\n'.join(json.dumps(dict(event='step', step=i, loss=1 / i)) for i in range(1, 50))
        return compared, explained, self.path('l.ndjson', log.encode())

    def opened(self, n):
        page = self.path('p.html', self.tool('report', *self.results(n)).stdout)
        self.browser.open(page)
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual([r for r in self.browser.requests() if not r.endswith('/p.html')], [])
        return self.browser

    def reached(self, b):
        """The elements that Tab reaches in one cycle; Enter opens each element that folds."""
        found = []
        b.value('document.activeElement.blur(), window.seen = new Set(), 0')
        for _ in range(1000):
            b.press('Tab', 9)
            at = b.value('''(e => seen.has(e) || e === document.body ? null : (seen.add(e),
                [e.tagName, String(e.className.baseVal ?? e.className), e.tagName === "SUMMARY" && !e.parentElement.open]))(document.activeElement)''')
            if at is None:
                return found
            if at[2]:
                b.press('Enter', 13, '\r')
                self.assertTrue(b.value('document.activeElement.parentElement.open'))
            found.append(at[:2])
        self.fail('Tab does not come back')

    def test_keyboard(self):
        b = self.opened(200)
        found = self.reached(b)
        all_of = b.value('''["summary", ".pan", ".wide", "svg a"].map(s => document.querySelectorAll(s).length)''')
        self.assertTrue(all(all_of), all_of)
        self.assertEqual([sum(e[0] == 'SUMMARY' for e in found), sum('pan' in e[1].split() for e in found),
                          sum('wide' in e[1].split() for e in found), sum(e[0] == 'a' for e in found)], all_of)
        self.assertEqual(b.value('document.querySelectorAll("details:not([open])").length'), 0)
        self.assertEqual(b.complaints(), [])

    def test_map(self):
        b = self.opened(1000)
        self.assertEqual(b.value('document.querySelectorAll("details.branch[open]").length'), 0)
        b.value('for (let e = document.querySelector(".map"); e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true')
        # A box links to the branch of its scope, which then opens.
        id = b.value('(a => (a.focus(), a.getAttribute("href").slice(1)))(document.querySelector(".map a"))')
        self.assertEqual(b.value('document.activeElement.tagName'), 'a')
        b.press('Enter', 13, '\r')
        b.until(f'location.hash === "#{id}"')
        self.assertGreater(b.value(f'document.getElementById("{id}").getBoundingClientRect().height'), 0)
        # Arrow keys zoom; the frame then scrolls by keyboard.
        size = 'document.querySelector(".large .pan svg").getBoundingClientRect().height'
        b.value('document.querySelectorAll("details").forEach(d => { d.open = true })')
        b.value('document.querySelector(".large input").focus()')
        heights = [b.value(size)]
        for _ in range(2):
            b.press('ArrowRight', 39)
            heights.append(b.value(size))
        self.assertEqual(heights, sorted(set(heights)))
        b.value('document.querySelector(".large .pan").focus()')
        b.press('PageDown', 34)
        b.until('document.querySelector(".large .pan").scrollTop > 0')

    def test_colours(self):
        b = self.opened(20)
        seen = []
        for scheme in 'light', 'dark':
            b.ask('Emulation.setEmulatedMedia', media='screen', features=[dict(name='prefers-color-scheme', value=scheme)])
            seen.append(b.value(GREY))
        self.assertEqual(seen, ['rgb(255, 255, 255)rgb(31, 35, 40)', 'rgb(13, 17, 23)rgb(230, 237, 243)'])
        b.ask('Emulation.setEmulatedMedia', media='print', features=[dict(name='prefers-color-scheme', value='dark')])
        self.assertEqual(b.value(GREY), seen[0])
        b.ask('Emulation.setEmulatedMedia', media='', features=[])

    def test_large(self):
        """10,000 nodes: nothing is wider than the window, all of it opens, and the page is small."""
        b = self.opened(10000)
        self.assertLess(len(self.read('p.html')), 2_000_000)
        b.value('document.querySelectorAll("details").forEach(d => { d.open = true })')
        self.assertLessEqual(b.value('document.documentElement.scrollWidth'), b.value('window.innerWidth'))
        self.assertGreater(b.value('document.querySelectorAll(".map").length'), 10)
        self.assertEqual(b.complaints(), [])


if __name__ == '__main__':
    if not browser.is_installed():
        print('chromium is not installed', file=sys.stderr)
        sys.exit(77)
    unittest.main()
