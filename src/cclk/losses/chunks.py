"""Large batches in little memory: embeddings are computed twice, in chunks, and cached between.

The loss of a batch needs all its embeddings, but not the activations that led to them. First, the
network embeds chunk after chunk without a gradient. Then the loss of all embeddings is
differentiated with respect to them. Last, each chunk is embedded again, with a gradient, and
backpropagates what its embeddings received. Gradients are those of the full batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from cclk.errors import DataError, SettingsError


def backward_in_chunks(
    network: nn.Module,
    views: Sequence[Tensor] | Tensor,
    loss: Callable[..., Tensor],
    *,
    chunk: int,
) -> Tensor:
    """Backpropagate the loss of a batch whose activations do not fit in memory.

    Gradients of the parameters of the network, and of the loss if it has any, are those of the
    full batch, and are added to `.grad` as `backward` does. The network runs forward twice. A
    layer that mixes samples, such as batch normalization, mixes those of one chunk.

    Args:
        network: Embeds a chunk of a view: `network(view[:chunk])`, (chunk, d).
        views: Views of the batch, each (b, ...), or one tensor of them, (views, b, ...).
        loss: Called with the embeddings of each view, (b, d), which it must not change; returns a
            scalar.
        chunk: Number of samples of one view that are embedded at a time.

    Returns:
        The loss, without a gradient.

    Example:
        >>> network, fair = nn.Linear(8, 4), torch.nn.functional.mse_loss
        >>> x, y = torch.randn(2, 100, 8)
        >>> value = backward_in_chunks(network, (x, y), fair, chunk=32)
        >>> expected = torch.autograd.grad(fair(network(x), network(y)), network.weight)[0]
        >>> torch.allclose(network.weight.grad, expected, atol=1e-6)
        True

    Reference:
        Gao et al., Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup, 2021.
    """
    if chunk < 1:
        raise SettingsError(f"chunk is {chunk}: it must be at least 1")
    views = tuple(views)
    if not views or len({len(view) for view in views}) > 1:
        raise DataError(
            f"views have {', '.join(str(len(view)) for view in views) or 'no'} rows: pass one or"
            " more views of the same samples"
        )
    parts = [part for view in views for part in torch.split(view, chunk)]
    states, outputs = [], []
    before = [buffer.clone() for buffer in network.buffers()]
    with torch.no_grad():
        for part in parts:
            states.append(_random_state())
            outputs.append(network(part))
        # Running statistics are updated when chunks are computed again.
        for buffer, values in zip(network.buffers(), before, strict=True):
            buffer.copy_(values)
    count = len(parts) // len(views)
    embeddings = [
        torch.cat(outputs[start : start + count]).requires_grad_()
        for start in range(0, len(parts), count)
    ]
    del outputs
    value = loss(*embeddings)
    torch.autograd.backward(value)
    with torch.random.fork_rng():
        for number, (part, state) in enumerate(zip(parts, states, strict=True)):
            _set_random_state(state)
            output, gradient = network(part), embeddings[number // count].grad
            if gradient is not None:
                start = chunk * (number % count)
                torch.autograd.backward(output, gradient[start : start + chunk])
    return value.detach()


def _random_state() -> tuple[Tensor, list[Tensor]]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return torch.get_rng_state(), cuda


def _set_random_state(state: tuple[Tensor, list[Tensor]]) -> None:
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])
