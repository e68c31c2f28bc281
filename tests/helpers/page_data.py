"""What the script of the HTML report reads from its page."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np


def unpacked(packed: dict[str, str]) -> Any:
    return np.frombuffer(zlib.decompress(base64.b64decode(packed["deflated"])), packed["dtype"])
