"""Finds the program."""

from __future__ import annotations

import os
from pathlib import Path

#: Names another program than the one in this package, for example a build of its sources.
VARIABLE = "STEERSMAN_APISERVER"


def program_path() -> Path:
    """Returns the path of the program: the one in this package, unless ``STEERSMAN_APISERVER`` names another one.

    :raises FileNotFoundError: if there is no program, with the path.
    :raises PermissionError: if the file cannot be executed.
    """
    named = os.environ.get(VARIABLE)
    path = Path(named) if named else Path(__file__).parent / "bin" / "steersman-apiserver"
    if not path.is_file():
        remedy = f"correct {VARIABLE}" if named else f"install the wheel, or name the program in {VARIABLE}"
        raise FileNotFoundError(f"there is no program at {path}; {remedy}")
    if not os.access(path, os.X_OK):
        raise PermissionError(f"{path} cannot be executed; make it executable: chmod +x {path}")
    return path
