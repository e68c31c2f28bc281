"""Hooks for training frameworks that are ready to use, with one module for each framework, which imports it.

``timing_logger.integrations.lightning``: PyTorch Lightning, the ``lightning`` package.
``timing_logger.integrations.pytorch_lightning``: the same for the ``pytorch_lightning`` package.
``timing_logger.integrations.huggingface``: the Hugging Face ``Trainer``.
"""
