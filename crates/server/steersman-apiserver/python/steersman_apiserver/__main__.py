"""Runs the program in place of Python: ``python -m steersman_apiserver``, and the command of the package."""

from __future__ import annotations

import os
import sys

from .program import program_path


def main() -> int:
    """Replaces this process by the program, with the same arguments."""
    try:
        program = program_path()
        os.execv(program, ["steersman-apiserver", *sys.argv[1:]])
    except OSError as error:
        print(f"steersman-apiserver: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
