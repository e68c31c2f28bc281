"""Profilers for training loops that are ready to use.

- :mod:`timing_logger.profilers.cuda_events`: coarse phases of sampled steps, one file of JSON lines per rank
- :mod:`timing_logger.profilers.runtime`: data, forward, backward and optimizer per dataloader, as scalars
"""
