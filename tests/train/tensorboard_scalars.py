#!/usr/bin/env python3
"""Prints the scalars of a run's folder as TensorBoard reads them: {tag: [[step, value]]}."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tools'))
import environment  # noqa: E402

environment.enter_venv('tensorboard', 'tests/train/requirements.txt')
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402

a = EventAccumulator(sys.argv[1], size_guidance={'scalars': 0})
a.Reload()
print(json.dumps({tag: [[e.step, e.value] for e in a.Scalars(tag)] for tag in a.Tags()['scalars']}))
