#!/usr/bin/env python3
"""COMMAND...: runs it and writes what it took to file descriptor 3: user time in seconds, peak memory in bytes, exit code.

The peak of a process begins at that of the one that starts it.  So this is run as a small Python (-I -S) by tests that are large."""
import os, sys

pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_CLOSE, 3)])
_, status, used = os.wait4(pid, 0)
os.write(3, f'{used.ru_utime} {used.ru_maxrss * 1024} {os.waitstatus_to_exitcode(status)}'.encode())
