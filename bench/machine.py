"""What measurements have in common: the machine, and where children run."""
import os
import platform
import time


def processor():
    with open('/proc/cpuinfo') as f:
        names = [l.split(':')[1].strip() for l in f if l.startswith('model name')]
    return names[0] if names else platform.processor()


def describe():
    """What a file of results says of when and on what."""
    return {'cpu': processor(), 'processors': len(os.sched_getaffinity(0)),
            'load': os.getloadavg(), 'date': time.strftime('%Y-%m-%d', time.gmtime())}


def pinned(threads):
    """Runs a child on the first processors only."""
    return lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
