"""Large batches in little memory: embeddings are computed twice, in chunks, and cached between.

The loss of a batch needs all its embeddings, but not the activations that led to them. First, the
network embeds chunk after chunk without a gradient. Then the loss of all embeddings is
differentiated with respect to them. Last, each chunk is embedded again, with a gradient, and
backpropagates what its embeddings received. Gradients are those of the full batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cclk.errors import DataError, SettingsError


class Chunks:
    """The outputs of a network for several chunks of a batch, from which a loss is computed.

    Args:
        network: Called as `network(*inputs)`; returns a tensor, or a tuple of tensors and None.
        inputs: The inputs of each chunk.

    Attributes:
        outputs: The outputs of each chunk, cut off from the network. The loss of them has to be
            backpropagated before `backward` is called.
    """

    def __init__(self, network: nn.Module, inputs: Sequence[tuple[Tensor, ...]]) -> None:
        self.network, self.inputs = network, inputs
        self.outputs: list[tuple[Tensor | None, ...]] = []
        self._random: list[tuple[Tensor, list[Tensor]]] = []
        before = [buffer.clone() for buffer in network.buffers()]
        with torch.no_grad():
            for each in inputs:
                self._random.append(_random_state())
                outputs = _as_tuple(network(*each))
                self.outputs.append(
                    tuple(None if out is None else out.requires_grad_() for out in outputs)
                )
            # Running statistics are updated when chunks are computed again.
            for buffer, values in zip(network.buffers(), before, strict=True):
                buffer.copy_(values)

    def backward(self, gradients: Sequence[tuple[Tensor | None, ...]] | None = None) -> None:
        """Compute each chunk again and add the gradient of the loss to the parameters.

        Args:
            gradients: Of the outputs of each chunk; by default what the outputs received.
        """
        if gradients is None:
            gradients = [
                tuple(None if leaf is None else leaf.grad for leaf in cached)
                for cached in self.outputs
            ]
        with torch.random.fork_rng():
            for inputs, incoming, random in zip(self.inputs, gradients, self._random, strict=True):
                _set_random_state(random)
                outputs = _as_tuple(self.network(*inputs))
                pairs = [
                    (out, gradient)
                    for out, gradient in zip(outputs, incoming, strict=True)
                    if out is not None and gradient is not None
                ]
                if pairs:
                    torch.autograd.backward(
                        [out for out, _ in pairs], [gradient for _, gradient in pairs]
                    )


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
    parts = [(part,) for view in views for part in torch.split(view, chunk)]
    chunks = Chunks(network, parts)
    count = len(parts) // len(views)
    embeddings = [
        torch.cat(
            [out.detach() for (out,) in chunks.outputs[start : start + count] if out is not None]
        )
        for start in range(0, len(parts), count)
    ]
    chunks.outputs.clear()
    value = loss(*(each.requires_grad_() for each in embeddings))
    torch.autograd.backward(value)
    gradients = [each.grad for each in embeddings]
    del embeddings
    chunks.backward(
        [
            (part,)
            for each in gradients
            for part in ([None] * count if each is None else torch.split(each, chunk))
        ]
    )
    return value.detach()


def _as_tuple(outputs: Any) -> tuple[Tensor | None, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _random_state() -> tuple[Tensor, list[Tensor]]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return torch.get_rng_state(), cuda


def _set_random_state(state: tuple[Tensor, list[Tensor]]) -> None:
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])
