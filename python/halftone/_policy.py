"""Policies, and the samples with which they are calibrated."""
from __future__ import annotations

import ctypes

from . import _api
from ._library import Handle, Owner, call, created, lib, names, raw, raw_or_none, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Policy(Owner):
    """An algorithm that decides the dtype of each tensor.

    `name` is one of `halftone.policies()`, or the path of a report (".json"), whose decisions the policy repeats;
    None leaves the choice to the options.  Options are those of docs/options.md, as `halftone.options()` lists
    them: text, numbers and truth values.  Raises UsageError, InputError or UnsupportedError if a value is wrong,
    invalid or not supported.

    >>> import halftone as ht
    >>> ht.Policy("allow_mix_precision_bf16", profile="cpu")
    <Policy allow_mix_precision_bf16>
    """
    __slots__ = ()

    def __init__(self, name: str | None = None, **options: object):
        self._held = created(lib.ht_policy_free, lib.ht_policy_new, raw_or_none(name))
        for key, value in options.items():
            self.set(key, value)

    @classmethod
    def of_report(cls, name: str, report: bytes) -> Policy:
        """The policy that repeats a decision report, given as JSON; messages call it `name`."""
        made = cls.__new__(cls)
        made._held = created(lib.ht_policy_free, lib.ht_policy_parse, raw(name), report, len(report))
        return made

    def set(self, key: str, value: object) -> None:
        """Sets an option.  A file that it names is read immediately."""
        call(lib.ht_policy_set, self._handle, raw(key), raw(option_text(value)))

    def add_sample(self, sample: Mapping[str, Any], name: str | None = None) -> None:
        """Adds arrays, one for each input, on which the option `budget` measures errors.  They are copied."""
        from ._arrays import Tensor, code_of, dense
        memory = [dense(f'input {key!r}', value, Tensor(key, 'float32', None)) for key, value in sample.items()]
        arrays = (_api.ht_array * len(memory))()
        for a, d in zip(arrays, memory):
            a.data, a.bytes, a.dtype, a.rank = d.address, d.bytes, code_of(d.dtype), len(d.shape)
            a.dim = (ctypes.c_int64 * len(d.shape))(*d.shape)
        call(lib.ht_policy_add_sample, self._handle, raw_or_none(name), names(sample)[0], arrays, len(memory))

    def validate(self) -> None:
        """Raises an error if options exclude each other.  Every function that uses the policy checks this, too."""
        call(lib.ht_policy_validate, self._handle)

    @property
    def name(self) -> str:
        """The name of the selected policy."""
        return text(lib.ht_policy_name(self._handle)) or ''

    def __repr__(self) -> str:
        return '<Policy, closed>' if self.closed else f'<Policy {self.name}>'


def option_text(value: object) -> str:
    """An option's value as text for the library: truth values are "true" and "false", lists have commas."""
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, (list, tuple)):
        return ','.join(option_text(v) for v in value)
    return str(value)


def handle_of(policy: Policy | str | None, options: Mapping[str, object] | None) -> Handle | None:
    """The policy that compile() and others use for these arguments; None keeps every dtype."""
    if isinstance(policy, Policy):
        if options:
            raise ValueError('options belong to the Policy where one is given: Policy(name, **options)')
        return policy._handle
    if policy is None and not options:
        return None
    return Policy(policy, **(options or {}))._handle
