"""Ready-made hooks for training frameworks: one module for each, which imports its framework.

``timing_logger.integrations.lightning``: PyTorch Lightning, the ``lightning`` package.
``timing_logger.integrations.pytorch_lightning``: the same for the ``pytorch_lightning`` package.
``timing_logger.integrations.huggingface``: the Hugging Face ``Trainer``.
"""
