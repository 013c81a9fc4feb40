"""Tables of the library: options, policies, targets; run configurations."""
from __future__ import annotations

from . import _api
from ._library import call, created, int64, json_of, lib, raw, text, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CLASSES = ('honoured', 'accepted', 'refused')
STANDINGS = ('', 'deprecated', 'experimental')


class Option:
    """An option of policies and run configurations: `name`, `values`, `default`, `help`, `vendor`, its `kind`
    ("honoured", "accepted", "refused") and `standing` ("", "deprecated", "experimental")."""
    __slots__ = ('name', 'values', 'default', 'help', 'vendor', 'kind', 'standing', 'instead')

    def __init__(self, o: Any):
        import ctypes
        instead = ctypes.c_char_p()
        self.name, self.values, self.default = text(o.name) or '', text(o.values) or '', text(o.fallback) or ''
        self.help, self.vendor, self.kind = text(o.help) or '', text(o.vendor) or '', CLASSES[o.option_class]
        self.standing = STANDINGS[lib.ht_option_standing(o.name, instead)]
        self.instead = text(instead.value) or ''

    def __repr__(self) -> str:
        return f'<Option {self.name}={self.values}, {self.kind}: {self.help}>'


def use_device(device: int) -> None:
    """Keeps the calling thread, and those that it starts later, on the cores of NUMA node `device` (docs/limits.md)."""
    call(lib.ht_use_device, int64('device', device))


def options() -> dict[str, Option]:
    """All options by name.

    >>> import halftone as ht
    >>> ht.options()["allow_hf32"].kind
    'honoured'
    """
    found: dict[str, Option] = {}
    o = _api.ht_option_info()
    while lib.ht_option(len(found), o):
        one = Option(o)
        found[one.name] = one
    return found


def option(name: str) -> Option:
    """An option by its name, the last part of its name, or an alias; KeyError: there is none."""
    o = _api.ht_option_info()
    if not lib.ht_option_named(raw(name), o):
        raise KeyError(name)
    return Option(o)


def check_option(name: str, value: object) -> None:
    """Raises UsageError if there is no such option or value, UnsupportedError if it is refused."""
    from ._policy import option_text
    call(lib.ht_option_check, raw(name), raw(option_text(value)))


def check_settings(settings: Mapping[str, object]) -> None:
    """Raises an error if settings are illegal or exclude each other by the vendor's rules."""
    from ._policy import option_text
    stated = (_api.ht_stated * len(settings))()
    for s, (name, value) in zip(stated, settings.items()):
        s.name, s.value = raw(name), raw(option_text(value))
    call(lib.ht_settings_check, stated, len(stated))


def config(path: Any, *, lenient: bool = False, check: bool = True) -> dict[str, str]:
    """The settings of a run configuration (docs/options.md), in the order of the file: options for compile().

    With `lenient`, unknown names cause warnings instead of errors; without `check`, each value is only checked by
    itself.  Raises InputError with the line, and UnsupportedError.
    """
    function = lib.ht_config_read if check else lib.ht_config_parse
    handle = created(lib.ht_config_free, function, raw(path), int(lenient))
    settings: dict[str, str] = {}
    s, i = _api.ht_setting(), 0
    while lib.ht_config_get(handle, i, s):
        settings[text(s.name) or ''] = text(s.value) or ''
        i += 1
    return settings


def _listed(what: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json_of(lib.ht_list, raw(what), _api.HT_FORMAT_JSON)[what]
    return found


def policies() -> list[dict[str, Any]]:
    """The policies: name, summary, and the policy of which it is another name.

    >>> import halftone as ht
    >>> ht.policies()[0]["name"]
    'allow_fp32_to_bf16'
    """
    return _listed('policies')


def formats() -> list[dict[str, Any]]:
    """The number formats that policies can round to."""
    return _listed('formats')


def profiles() -> list[dict[str, Any]]:
    """The profiles: the devices by whose kernels a policy decides."""
    return _listed('profiles')


def targets() -> list[dict[str, Any]]:
    """The machines for which programs can be compiled."""
    return _listed('targets')


def ops() -> list[dict[str, Any]]:
    """The ops in the op table."""
    return _listed('ops')


def fusions() -> list[dict[str, Any]]:
    """The fusions and their switches."""
    return _listed('fusions')


def passes() -> str:
    """The passes, as the tool lists them."""
    return text_of(lib.ht_list, raw('passes'), _api.HT_FORMAT_TEXT).decode()


def build_info() -> dict[str, Any]:
    """Versions and identifiers of the library, its code generator, LLVM, artefacts and cache entries; targets."""
    found: dict[str, Any] = json_of(lib.ht_build_info)
    return found


def measure_rates() -> str:
    """Measured rates of this machine that decide between kernels, for the option "rates"; takes up to half a second."""
    return text_of(lib.ht_measure_rates, long=True).decode()
