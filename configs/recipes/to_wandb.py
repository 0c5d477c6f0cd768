"""Log a night to Weights & Biases: python to_wandb.py 2026-11-20. WANDB_MODE=offline stays here."""

import wandb
from night_numbers import day, numbers, words

with wandb.init(project="nights", name=day, config=words) as run:
    run.log(numbers)
