"""python -m halftone: the command line tool."""
from __future__ import annotations

import os
import sys


def main() -> None:
    """Replaces this process by the tool in the package, or by the system's."""
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'bin', 'halftone')
    tool = inside if os.path.exists(inside) else 'halftone'
    try:
        os.execvp(tool, ['halftone', *sys.argv[1:]])
    except OSError as error:
        sys.exit(f'halftone: cannot start {tool}: {error.strerror}')


if __name__ == '__main__':
    main()
