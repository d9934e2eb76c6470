"""What every rank needs, imported once before ranks are forked."""

import torch.distributed
import torch.distributed.checkpoint
import torch.distributed.fsdp
import torch.nn.parallel

import hitherto.distributed
import hitherto.distributed.attend
import hitherto.model
import hitherto.training

__all__ = ["hitherto", "torch"]
