"""The table of launchers in C, made when the library is built."""

from __future__ import annotations

import json
import re

from timing_logger import launchers
from timing_logger.launchers import VARIABLE_IN_TEXT, Launcher, of_pmix


def launchers_header() -> str:
    """Return ``launchers.h``: what a launcher says of the run, as ``identity.c`` reads it.

    Launchers whose ``run_id`` is a function are not in it, but for PMIx, for which the C code has its own.
    """
    cases = [case for one in launchers.LAUNCHERS if one.run and (case := _case(one))]
    return f"""/* Made of launchers.LAUNCHERS by launchers_in_c.py. */
#define READ_STARTED \\
    {" else ".join(cases)}
"""


def _case(launcher: Launcher) -> str:
    if launcher.run_id is of_pmix:
        then = f'read_namespace(variable("{launcher.run}"));'
    elif isinstance(launcher.run_id, str):
        plain = re.sub(VARIABLE_IN_TEXT, "%s", launcher.run_id.replace("%", "%%"))
        values = [f', variable("{name}")' for name in re.findall(VARIABLE_IN_TEXT, launcher.run_id)]
        then = f"snprintf(started, sizeof started, {json.dumps(plain)}{''.join(values)});"
    else:
        return ""
    return f'if (*variable("{launcher.run}")) {{ \\\n        {then} \\\n    }}'
