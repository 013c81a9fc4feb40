#!/usr/bin/env python3
"""Limits of time for runs, turns of contexts, and devices: limits that hold, and devices that do not exist."""
import json, os, subprocess, unittest

from tool import TOOL, ToolCase
from loop_text import while_functions

STRAIGHT = b'''hir 1
entry "" {
  input "x" = %x
  output "y" = %y
}
%x = Placeholder() {dtype=f32, shape=shape[1024,1024]}
%a = MatMul(%x, %x) {T=f32, transpose_a=false, transpose_b=false}
%b = MatMul(%a, %a) {T=f32, transpose_a=false, transpose_b=false}
%y = MatMul(%b, %b) {T=f32, transpose_a=false, transpose_b=false}
'''
LOOP = '''hir 1
entry "" {
  input "x" = %x
  output "y" = %loop
}
%x = Placeholder() {dtype=f32, shape=shape[2]}
%loop = StatelessWhile(%x) {T=[f32], cond=@more{}, body=@step{}}
''' + while_functions('%next = Mul(%y, %y) {T=f32}')
LIMITS = 'graph_exec_timeout', 'stream_sync_timeout', 'event_sync_timeout', 'op_execute_timeout', 'op_wait_timeout'


class Deadline(ToolCase):
    def setUp(self):
        super().setUp()
        self.model = self.path('m.hir', STRAIGHT)

    def test_between_kernels(self):
        for threads in '1', '2':
            for option, what in ('graph_exec_timeout', 'the run took'), ('stream_sync_timeout', 'the run and the wait for its turn took'):
                with self.subTest(option, threads=threads):
                    self.fails(6, r"node '[aby]': %s [0-9.]+ ms, longer than its limit of time, 1 ms \(%s\)" % (what, option), 'run',
                               self.model, '--threads', threads, '--%s=1' % option)
        self.fails(6, 'limit of time', 'bench', self.model, '--graph_exec_timeout=1', '--duration=0')

    def test_at_back_edges(self):
        """An endless loop with short iterations."""
        loop = self.path('loop.hir', LOOP.encode())
        for option in 'graph_exec_timeout=50', 'stream_sync_timeout=50', 'graph_exec_timeout=50 --threads=2':
            self.fails(6, "in iteration [0-9]+ of 'loop'", 'run', loop, '--input=x=f32[2]:1,1', *('--' + option).split())

    def test_the_shorter_counts(self):
        self.fails(6, 'limit of time', 'run', self.model, '--graph_exec_timeout=1', '--stream_sync_timeout=2000000')
        self.fails(6, 'limit of time', 'run', self.model, '--graph_exec_timeout=2000000', '--stream_sync_timeout=1')

    def test_no_limit(self):
        """The result is that of a run without a limit."""
        y = [self.path('%d.npy' % i) for i in range(9)]
        ways = [[], *(['--%s=2000000' % o, '--threads=2'] for o in LIMITS), ['--graph_exec_timeout=-1'],
                ['--%s=0' % o for o in LIMITS], ['--op_wait_timeout=120', '--op_execute_timeout=120']]
        for at, args in zip(y, ways):
            self.tool('run', self.model, '-o', at, *args)
        self.assertEqual(len({self.read(at) for at in y}), 1)

    def test_files_stay(self):
        """An existing result stays as it is, and no other one appears."""
        y = self.path('y.npy', b'as it was')
        self.fails(6, 'limit of time', 'run', self.model, '-o', y, '--graph_exec_timeout=1')
        self.assertEqual(self.read(y), b'as it was')
        new = y + '.npy'
        self.fails(6, 'limit of time', 'run', self.model, '-o', new, '--graph_exec_timeout=1')
        self.assertFalse(os.path.exists(new))

    def test_configuration(self):
        config = self.path('run.json', b'{"graph_exec_timeout": 1}')
        self.fails(6, 'limit of time', 'run', self.model, '--config', config)
        config = self.path('crowd.json', b'{"graph_max_parallel_model_num": 1, "event_sync_timeout": 1}')
        self.fails(6, r"error: the wait for the run's turn took [0-9.]+ ms, longer than its limit of time, 1 ms \(event_sync_timeout\)",
                   'bench', self.model, '--config', config, '--contexts=3', '--runs=10')

    def test_turns(self):
        """All runs of all contexts are executed, whether they take turns or not."""
        for most in [], ['--graph_max_parallel_model_num=1'], ['--graph_max_parallel_model_num=2']:
            r = self.tool('bench', self.model, '--contexts=3', '--runs=4', '--duration=0', '--format=json', *most)
            got = json.loads(r.stdout)
            self.assertEqual((got['contexts'], got['latency_ms']['runs']), (3, 12))
        self.fails(2, 'of a single context', 'bench', self.model, '--contexts=2', '--profile-table')

    def test_device(self):
        self.tool('run', self.model, '--session_device_id=0')
        self.tool('run', self.model, '--session_device_id=-1')
        self.fails(5, 'there is no device 1023: .* this machine has [1-9]', 'run', self.model, '--session_device_id=1023')
        self.fails(5, 'there is no device 1023', 'run', self.model, env={'ASCEND_DEVICE_ID': '1023'})
        self.tool('run', self.model, '--session_device_id=0', env={'ASCEND_DEVICE_ID': '1023'})
        self.fails(2, "ASCEND_DEVICE_ID: 'x' is no number", 'run', self.model, env={'ASCEND_DEVICE_ID': 'x'})

    def test_cores(self):
        """The process runs on the node's processors, as far as it was allowed to."""
        with open('/sys/devices/system/node/node0/cpulist') as f:
            node = f.read().strip()
        cores = {c for part in node.split(',') for c in range(int(part.split('-')[0]), int(part.split('-')[-1]) + 1)}
        p = subprocess.Popen([TOOL, 'run', self.model, '--session_device_id=0', '--runs=1000000'], stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE)
        try:
            while os.sched_getaffinity(p.pid) != cores & os.sched_getaffinity(0):
                self.assertIsNone(p.poll())  # a million runs remain
        finally:
            p.kill()
            p.communicate()


if __name__ == '__main__':
    unittest.main()
