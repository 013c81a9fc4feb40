"""Halftone: a mixed-precision graph compiler.

>>> import halftone as ht
>>> m = ht.load(GRAPH)                                   # a GraphDef, SavedModel, TF.js model or .hir file
>>> p = m.compile(policy="allow_mix_precision_bf16")     # native code for this machine
>>> p(x=[[1, 2, 3, 4]])["top"]
array([0])

Failures are exceptions below HalftoneError, one class for each exit code of the command line tool; warnings are
HalftoneWarning; notes go to the logger "halftone" at level INFO.
"""
from __future__ import annotations

from . import cache
from ._api import HALFTONE_VERSION as __version__
from ._arrays import Tensor, narrow, widen
from ._comparison import Comparison, compare
from ._errors import (
    HalftoneError, HalftoneWarning, InputError, InternalError, LimitError, Message, SystemFailure, UnsupportedError,
    UsageError, Verdict,
)
from ._model import Model, aot, load, run
from ._page import report_page
from ._policy import Policy
from ._program import Context, Info, Program, diff, is_artefact, manifest, save, sign
from ._records import EventFile, Feature, Records
from ._report import Report
from ._search import Search, search
from ._session import Counters, Entries, Loop, LossScale, Session, StepMemory
from ._tables import (
    Option, build_info, check_option, check_settings, config, formats, fusions, measure_rates, option, options, ops, passes, policies,
    profiles, targets, use_device,
)

__all__ = [
    'Comparison', 'Context', 'Counters', 'Entries', 'EventFile', 'Feature', 'HalftoneError', 'HalftoneWarning', 'Info', 'InputError', 'InternalError',
    'LimitError', 'Loop', 'LossScale', 'Message', 'Model', 'Option', 'Policy', 'Program', 'Records', 'Report', 'Search', 'Session', 'StepMemory',
    'SystemFailure', 'Tensor', 'UnsupportedError', 'UsageError', 'Verdict', '__version__', 'aot', 'build_info', 'cache', 'check_option',
    'check_settings', 'compare',
    'config', 'diff', 'formats', 'fusions', 'is_artefact', 'load', 'manifest', 'measure_rates', 'narrow', 'option', 'options',
    'ops', 'passes', 'policies', 'profiles', 'report_page', 'run', 'save', 'search', 'sign', 'targets', 'use_device', 'widen',
]
