"""The saved activations of a training step: tensors that are computed from inputs, that the loss needs, and that steps read which the loss
does not need.  They follow from the text of the plan (`compile --emit plan --outputs LOSS,OP`)."""
import re


class Plan:
    """Of the main procedure in the text of a plan: for each step what it reads and writes, as (letter of the kind, first byte or number, bytes)."""

    def __init__(self, text):
        kernels = {int(k): [a.startswith('out') for a in args.split(', ')]
                   for k, args in re.findall(r'^kernel (\d+) \w+ \((.*?)\)', text, re.M)}
        procedures = {int(n): [a.startswith('out') for a in args.split(', ')]
                      for n, args in re.findall(r'^procedure (\d+) \S+ \((.*?)\), frame', text, re.M)}
        main = re.search(r'^entry .*procedure (\d+)', text, re.M).group(1)
        body = re.search(rf'^procedure {main} .*\n((?:  \d+:.*\n)*)', text, re.M).group(1)
        self.outputs = [i for i, out in enumerate(procedures[int(main)]) if out]
        self.reads, self.writes = [], []
        for what, number, args in re.findall(r'^  \d+: (\w+)(?: (\d+))?.*? \((.*?)\)', body, re.M):
            args = [(a[0], int(m[1]), int(m[2])) for a in args.split(', ') if (m := re.match(r'[a-z](\d+):(\d+)', a))]
            outs = kernels[int(number)] if what == 'kernel' else [True] + [False] * (len(args) - 1) if what == 'copy' else \
                procedures[int(number)] if what == 'call' else [None] * len(args)  # None: a loop or a condition, whose results are not told apart
            self.reads.append([a for a, out in zip(args, outs) if not out])
            self.writes.append([a for a, out in zip(args, outs) if out is not False])

    def producers(self):
        """For each step the earlier ones that wrote what it reads."""
        last, made = {}, []
        for i, (reads, writes) in enumerate(zip(self.reads, self.writes)):
            made.append({(last[a], a) for a in reads if a in last})
            last = {a: s for a, s in last.items() if not any(overlap(a, w) for w in writes if w not in reads)}
            last |= {w: i for w in writes if w[0] in 'tp'}
        return made


def overlap(a, b):
    return a[0] == b[0] == 't' and a[1] < b[1] + b[2] and b[1] < a[1] + a[2]


def tensors(text):
    """The saved activations, as (step that makes it, place)."""
    plan = Plan(text)
    made, fed, forward = plan.producers(), set(), set()
    for i, reads in enumerate(plan.reads):
        if any(k == 'p' or k == 's' for k, *_ in reads) or any(s in fed for s, _ in made[i]):
            fed.add(i)
    todo = [i for i, w in enumerate(plan.writes) if any(a[0] == 'p' and a[1] == plan.outputs[0] for a in w)]
    while todo:
        i = todo.pop()
        if i not in forward:
            forward.add(i)
            todo += [s for s, _ in made[i]]
    return {(s, a) for i, of in enumerate(made) if i not in forward for s, a in of if s in forward and s in fed and a[0] == 't'}


def saved(text):
    """Their bytes."""
    return sum(a[2] for _, a in tensors(text))
