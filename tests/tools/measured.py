#!/usr/bin/env python3
"""measured.py COMMAND...: runs the command, and writes its user time in seconds, peak memory in bytes and exit code to
file descriptor 3.

The peak memory that the system reports for a process is at least that of the process that started it.  Therefore a
large test starts commands through this script, in a small Python (-I -S)."""
import os, sys

pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_CLOSE, 3)])
_, status, used = os.wait4(pid, 0)
os.write(3, f'{used.ru_utime} {used.ru_maxrss * 1024} {os.waitstatus_to_exitcode(status)}'.encode())
