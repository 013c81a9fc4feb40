"""The processor time that other processes use.

What other programs do at the same time changes it little; a time that passes may be several times as long."""
import os


def of(pid):
    """What the threads of a process that runs, or that nobody waits for yet, have used: seconds, to the system's clock tick."""
    with open(f'/proc/{pid}/stat') as f:
        user, system = f.read().rpartition(')')[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf('SC_CLK_TCK')


def of_children():
    """What all processes that this one has started and waited for have used, in seconds."""
    used = os.times()
    return used.children_user + used.children_system
