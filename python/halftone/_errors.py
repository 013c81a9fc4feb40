"""The exceptions and warnings of Halftone."""
from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Message:
    """One message of the compiler.

    Attributes: `severity` ("error", "warning", "note"), `text`, and the place that it concerns: `path`, `line`,
    `column` (from 1), `offset` (bytes into the file), `node`, `op`; each is None if it is not known. `str(message)` is
    the line that the command line tool prints.
    """
    __slots__ = ('severity', 'text', 'path', 'line', 'column', 'offset', 'node', 'op', '_printed')

    def __init__(self, severity: str, text: str, printed: str, path: str | None = None, line: int | None = None,
                 column: int | None = None, offset: int | None = None, node: str | None = None, op: str | None = None):
        self.severity, self.text, self._printed = severity, text, printed
        self.path, self.line, self.column, self.offset = path, line, column, offset
        self.node, self.op = node, op

    def __str__(self) -> str:
        return self._printed

    def __repr__(self) -> str:
        return f'<{self.severity}: {self._printed}>'


class HalftoneWarning(UserWarning):
    """A warning of the compiler.  `warnings.simplefilter("ignore", halftone.HalftoneWarning)` suppresses these
    warnings."""


class HalftoneError(Exception):
    """Base of all exceptions of Halftone.

    `code` is the exit code of the command line tool for it, `messages` are all messages of the call.  `node`, `op`,
    `path`, `line`, `column` and `offset` are those of the first error, None if it has none; `near` are the names that
    it suggests.
    """
    code = 70
    node: str | None = None
    op: str | None = None
    path: str | None = None
    line: int | None = None
    column: int | None = None
    offset: int | None = None

    def __init__(self, text: str, messages: Sequence[Message] = ()):
        super().__init__(text)
        self.messages = tuple(messages)
        for name in ('node', 'op', 'path', 'line', 'column', 'offset') if self.messages else ():
            setattr(self, name, getattr(self.messages[0], name))

    @property
    def near(self) -> tuple[str, ...]:
        """The names nearest to an unknown one."""
        import re
        _, found, names = str(self).partition('did you mean ')
        return tuple(re.findall(r"'([^']+)'", names.partition('?')[0])) if found else ()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self),)


class Verdict(HalftoneError):
    """The call finished with a negative verdict: a condition was not met, or an entry of the cache is missing or
    damaged."""
    code = 1


class UsageError(HalftoneError, ValueError):
    """An argument, an option or a name is wrong."""
    code = 2


class InputError(HalftoneError, ValueError):
    """The model, the data or a file is invalid, or an array does not fit the program."""
    code = 3


class UnsupportedError(HalftoneError, NotImplementedError):
    """The input is valid, but not supported."""
    code = 4


class SystemFailure(HalftoneError, OSError):
    """A file cannot be read or written, or memory is exhausted."""
    code = 5


class LimitError(HalftoneError):
    """A limit was exceeded, such as `max_nodes`."""
    code = 6


class InternalError(HalftoneError, RuntimeError):
    """A defect of Halftone."""
    code = 70


BY_CODE: dict[int, type[HalftoneError]] = {
    kind.code: kind
    for kind in (Verdict, UsageError, InputError, UnsupportedError, SystemFailure, LimitError, InternalError)
}
