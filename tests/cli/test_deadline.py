#!/usr/bin/env python3
"""Limits of time for runs, and devices: those that are kept to, and those that are not there."""
import os, subprocess, unittest

from tool import TOOL, ToolCase

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


class Deadline(ToolCase):
    def setUp(self):
        super().setUp()
        self.model = self.path('m.hir', STRAIGHT)

    def test_between_kernels(self):
        for threads in '1', '2':
            for option in 'graph_exec_timeout', 'stream_sync_timeout':
                with self.subTest(option, threads=threads):
                    self.fails(6, "node '[aby]': the run took longer than its limit of time", 'run', self.model,
                               '--threads', threads, '--%s=1' % option)
        self.fails(6, 'limit of time', 'bench', self.model, '--graph_exec_timeout=1', '--duration=0')

    def test_the_shorter_counts(self):
        self.fails(6, 'limit of time', 'run', self.model, '--graph_exec_timeout=1', '--stream_sync_timeout=2000000')
        self.fails(6, 'limit of time', 'run', self.model, '--graph_exec_timeout=2000000', '--stream_sync_timeout=1')

    def test_no_limit(self):
        """The result is that of a run without a limit."""
        y = [self.path('%d.npy' % i) for i in range(4)]
        for at, args in zip(y, ([], ['--graph_exec_timeout=2000000'], ['--graph_exec_timeout=-1'], ['--graph_exec_timeout=0', '--threads=2'])):
            self.tool('run', self.model, '-o', at, *args)
        self.assertEqual(len({self.read(at) for at in y}), 1)

    def test_configuration(self):
        config = self.path('run.json', b'{"graph_exec_timeout": 1}')
        self.fails(6, 'limit of time', 'run', self.model, '--config', config)

    def test_device(self):
        self.tool('run', self.model, '--session_device_id=0')
        self.tool('run', self.model, '--session_device_id=-1')
        self.fails(5, 'there is no device 1023: .* this machine has [1-9]', 'run', self.model, '--session_device_id=1023')
        self.fails(5, 'there is no device 1023', 'run', self.model, env={'ASCEND_DEVICE_ID': '1023'})
        self.tool('run', self.model, '--session_device_id=0', env={'ASCEND_DEVICE_ID': '1023'})
        self.fails(2, "ASCEND_DEVICE_ID: 'x' is no number", 'run', self.model, env={'ASCEND_DEVICE_ID': 'x'})

    def test_cores(self):
        """The process runs on those of the node, as far as it was allowed to."""
        with open('/sys/devices/system/node/node0/cpulist') as f:
            node = f.read().strip()
        cores = {c for part in node.split(',') for c in range(int(part.split('-')[0]), int(part.split('-')[-1]) + 1)}
        p = subprocess.Popen([TOOL, 'run', self.model, '--session_device_id=0', '--runs=1000000'], stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE)
        try:
            while os.sched_getaffinity(p.pid) != cores & os.sched_getaffinity(0):
                self.assertIsNone(p.poll())  # it has a million runs to go
        finally:
            p.kill()
            p.communicate()


if __name__ == '__main__':
    unittest.main()
