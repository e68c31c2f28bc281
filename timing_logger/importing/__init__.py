"""Make timing files from what other tools have recorded, so that all analyses and reports can read it."""

from timing_logger.importing.benchmarks import read_benchmark
from timing_logger.importing.following import Until
from timing_logger.importing.imported import Imported
from timing_logger.importing.inspector import follow_inspector, import_inspector
from timing_logger.importing.kineto import import_kineto
from timing_logger.importing.otf2 import import_otf2
from timing_logger.importing.step_columns import StepColumns
from timing_logger.importing.steps import follow_steps, import_steps

__all__ = [
    "Imported",
    "StepColumns",
    "Until",
    "follow_inspector",
    "follow_steps",
    "import_inspector",
    "import_kineto",
    "import_otf2",
    "import_steps",
    "read_benchmark",
]
