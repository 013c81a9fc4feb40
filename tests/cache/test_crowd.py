#!/usr/bin/env python3
"""64 processes compile the same and different models into one cache; some are killed at random moments.  There is no
wrong result, no kept entry is lost, no temporary files are left behind, and all processes end.

HALFTONE_CROWD: duration in seconds (15)."""
import json, os, random, signal, threading, time, unittest

from tool import LONG, SMALL, Case

PROCESSES = 64
SECONDS = float(os.environ.get('HALFTONE_CROWD', 300 if LONG else 15))
COUNTERS = 'graph_hits', 'graph_misses', 'kernel_hits', 'kernel_misses', 'hit_bytes', 'puts', 'put_bytes'
BATCHES, POLICIES = range(1, 5), ('must_keep_origin_dtype', 'force_fp16', 'allow_mix_precision_bf16')


class Crowd(Case):
    def compile(self, batch, policy, out):
        return 'compile', '-q', SMALL, '--target', 'x86-64-v3', '--input-shape', f'x:{batch},4', '--policy', policy, '-o', out

    def work(self, number, end):
        """Compiles one model after the other until the time is over."""
        r = random.Random(number)
        out = self.path(f'{number}.htx')
        while time.monotonic() < end:
            what = r.choice(BATCHES), r.choice(POLICIES)
            act = r.random()
            args = ('cache', r.choice(('verify', 'stats')), '-q') if act < .02 else self.compile(*what, out)
            p = self.start(*args)
            if r.random() < .3:
                threading.Timer(r.random() ** 2 * .5, lambda: p.poll() is None and p.send_signal(signal.SIGKILL)).start()
            said, err = p.communicate(timeout=300)
            self.done[p.returncode] = self.done.get(p.returncode, 0) + 1
            if p.returncode == -signal.SIGKILL:
                continue
            if p.returncode or b'damaged' in err:
                self.wrong.append((args, p.returncode, said, err))
            elif args[0] == 'compile':
                with open(out, 'rb') as f:
                    if f.read() != self.right[what]:
                        self.wrong.append((args, 'other bytes'))
                self.kept.add(what)

    def watch(self, end):
        """Reads the statistics meanwhile: they never decrease."""
        last = {}
        while time.monotonic() < end:
            out, err = self.tool('cache', 'stats', '--format', 'json', '--cache-mode', 'ro', code=None)
            now = json.loads(out) if self.code == 0 and not err else None
            if not now or any(now[name] < last.get(name, 0) for name in COUNTERS):
                self.wrong.append(('stats', last, out, err))
            last = now or last

    def test_crowd(self):
        self.right, self.wrong, self.kept, self.done = {}, [], set(), {}
        for b in BATCHES:
            for p in POLICIES:
                self.tool(*self.compile(b, p, self.path('right.htx')), '--no-cache')
                self.right[b, p] = self.read('right.htx')
        self.assertEqual(len(set(self.right.values())), len(self.right))
        end = time.monotonic() + SECONDS
        crowd = [threading.Thread(target=self.work, args=(i, end)) for i in range(PROCESSES)]
        crowd.append(threading.Thread(target=self.watch, args=[end]))
        for t in crowd:
            t.start()
        for t in crowd:
            t.join(SECONDS + 600)
            self.assertFalse(t.is_alive(), 'it does not come to an end')
        print(f'{self.done.get(0, 0)} ended, {self.done.get(-9, 0)} were killed')
        self.assertEqual(self.wrong, [])
        self.assertTrue(self.kept)
        self.tool('cache', 'verify')
        self.clean_up()
        for b, p in self.kept:
            self.tool(*self.compile(b, p, self.path('again.htx')), '--error-on-cache-miss')
            self.assertEqual(self.read('again.htx'), self.right[b, p])


if __name__ == '__main__':
    unittest.main()
