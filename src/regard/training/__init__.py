"""Training: objectives, optimizers, schedules, the training loop, checkpoints, distributed training."""
