"""What a kernel is, and the algebra that combines kernels.

A kernel k measures how similar two outcomes of the condition are. Kernels add, multiply and scale
like the functions they are, each on its own columns: `Delta("site") * RBF("age") + 0.5 *
Linear("dose")`. Sums and products of kernels are kernels.
"""

from __future__ import annotations

import copy
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from cclk.condition import Columns, Condition, as_condition
from cclk.eager import eager
from cclk.errors import warn
from cclk.kernels import bandwidth


class Kernel(ABC):
    """A similarity of conditions: `kernel(a)` is the (n, n) matrix within a, `kernel(a, b)` the
    (n, m) matrix between a and b.
    """

    positive_definite: bool = True
    """False where the function may have negative eigenvalues; solvers then clip them and say so."""

    @eager
    def __call__(self, a: object, b: object | None = None) -> Tensor:
        left = as_condition(a, name="a")
        right = (
            left
            if b is None
            else as_condition(b, name="b", device=left.values.device).in_columns_of(left)
        )
        self.ensure_fitted(left)
        return self.evaluate(left, right).to(left.dtype)

    @abstractmethod
    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        """The float64 (len(a), len(b)) matrix of similarities. No gradient flows through it."""

    def diagonal(self, a: Condition) -> Tensor:
        """k(a_i, a_i) for every row, float64 (len(a),)."""
        blocks = [a.rows(slice(start, start + 256)) for start in range(0, len(a), 256)]
        return torch.cat([self.evaluate(block, block).diagonal() for block in blocks])

    def feature_count(self, a: Condition) -> int | None:
        """How many explicit features this kernel has on such a condition; None where there is no
        finite map.
        """
        return None

    def features(self, a: Condition) -> Tensor:
        """An explicit map G, float64 (len(a), m), with G G^T = k(a, a)."""
        raise ValueError(f"{self!r} has no explicit feature map: use solver='nystrom' or 'exact'")

    def groups(self, a: Condition) -> Tensor | None:
        """Group numbers when the kernel is 'same group or not', where the operator has a closed
        form; None otherwise.
        """
        return None

    def leaves(self) -> Iterator[Kernel]:
        """The elementary kernels of the expression, from left to right."""
        yield self

    @abstractmethod
    def on(self, columns: Columns) -> Kernel:
        """The same kernel, looking only at these columns of the condition (names or numbers)."""

    @eager
    def fit(self, condition: object, batch_size: int = 256) -> Self:
        """Set every length scale that is "auto" or "median" from the training condition, once;
        returns the kernel.

        Args:
            condition: the condition of the training split, n rows.
            batch_size: the size of the batches to come; "auto" gives the median anchor of such a
                batch its few neighbors.
        """
        bandwidth.fit(self, as_condition(condition), batch_size)
        return self

    @property
    def is_fitted(self) -> bool:
        """Whether every length scale is a number by now."""
        return all(
            leaf.length_scale_ is not None
            for leaf in self.leaves()
            if isinstance(leaf, bandwidth.HasLengthScale)
        )

    def ensure_fitted(self, condition: Condition, *, training: bool = True) -> None:
        """Check the condition; if the kernel has not been fitted, fit it on this condition and
        emit a `CclkWarning`.

        Args:
            training: Whether the condition is one of training; if not, the warning says so.
        """
        for leaf in self.leaves():
            leaf.check(condition)
        if not self.is_fitted:
            before = repr(self)
            self.fit(condition, batch_size=len(condition))
            outside = (
                " The loss is in evaluation mode, so this may be a validation batch, such as one of"
                " Lightning's sanity check, and the length scale is kept for training."
            )
            warn(
                f"{before} was not fitted: fitted on the first batch of {len(condition)} as"
                f" {self!r}.{'' if training else outside} Call kernel.fit(training_condition,"
                " batch_size) beforehand to fit it on the whole training split."
            )

    def warn_once(self, topic: str, message: str) -> None:
        """Warn about this kernel, once per topic: the numbers of a message differ from batch to
        batch, its meaning does not.
        """
        said: set[str] = self.__dict__.setdefault("_said", set())
        if topic not in said:
            said.add(topic)
            warn(message)

    def check(self, condition: Condition) -> None:  # noqa: B027 (most kernels take anything)
        """Complain about a condition that this kernel cannot take."""

    def state_dict(self) -> dict[str, bandwidth.Scale]:
        """The fitted length scales, by position in the expression: a number each, or one number
        per column.
        """
        return {
            str(i): leaf.length_scale_
            for i, leaf in enumerate(self.leaves())
            if bandwidth.is_fittable(leaf) and leaf.length_scale_ is not None
        }

    def load_state_dict(self, state: Mapping[str, float | Sequence[float]]) -> Self:
        """Take over fitted length scales saved by `state_dict` from a kernel of the same form."""
        leaves = list(self.leaves())
        for place, scale in state.items():
            leaf = leaves[int(place)] if int(place) < len(leaves) else None
            if leaf is None or not bandwidth.is_fittable(leaf):
                raise ValueError(
                    f"{self!r} has no length scale to be fitted at place {place}: the state belongs"
                    " to another kernel"
                )
            leaf.length_scale_ = (
                tuple(map(float, scale)) if isinstance(scale, Sequence) else float(scale)
            )
        return self

    def __add__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Sum(self, other)
        if not isinstance(other, numbers.Real):
            return NotImplemented
        from cclk.kernels.constant import Constant

        return self if other == 0 else Sum(self, Constant(float(other)))  # `sum` begins with 0

    def __radd__(self, other: float) -> Kernel:
        return self + other

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        if not isinstance(other, numbers.Real):
            return NotImplemented
        return Scaled(float(other), self)

    def __rmul__(self, other: float) -> Kernel:
        return self * other


class Leaf(Kernel):
    """An elementary kernel on some columns of the condition, all of them by default."""

    takes_text = False
    """Whether it only asks if two values are equal, so that a column of text will do."""

    def __init__(self, columns: Columns | None = None) -> None:
        if isinstance(columns, numbers.Real):
            name = type(self).__name__
            setting = (
                f"length_scale={columns} or " if isinstance(self, bandwidth.HasLengthScale) else ""
            )
            raise ValueError(
                f"{name}({columns}): a bare number is ambiguous; write"
                f" {name}({setting}columns=[{columns:.0f}])"
            )
        if isinstance(columns, Sequence) and len(columns) == 0:
            raise ValueError(f"{type(self).__name__}([]): it needs at least one column")
        self.columns = columns

    def on(self, columns: Columns) -> Self:
        if self.columns is not None:
            raise ValueError(f"{self!r} already looks at columns {self.columns!r}")
        chosen = copy.copy(self)
        chosen.columns = [columns] if isinstance(columns, int) else columns
        return chosen

    def check(self, condition: Condition) -> None:
        text = None if self.takes_text else condition.nominal(self.columns)
        if text is not None:
            own = repr(text.name) if text.name else ""
            raise ValueError(
                f"{self!r} needs numbers, but condition{f' column {own}' if own else ''} holds"
                f" categories: use Delta({own}), which compares whether they are equal"
            )

    def settings(self) -> dict[str, object]:
        """What `repr` shows beside the columns."""
        return {}

    def __repr__(self) -> str:
        words = [] if self.columns is None else [repr(self.columns)]
        words += [f"{key}={value}" for key, value in self.settings().items()]
        return f"{type(self).__name__}({', '.join(words)})"


class Pair(Kernel):
    """Two kernels combined."""

    symbol: str

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left, self.right = left, right
        self.positive_definite = left.positive_definite and right.positive_definite

    def on(self, columns: Columns) -> Self:
        return type(self)(self.left.on(columns), self.right.on(columns))

    def leaves(self) -> Iterator[Kernel]:
        yield from self.left.leaves()
        yield from self.right.leaves()

    def __repr__(self) -> str:
        return f" {self.symbol} ".join(
            f"({side!r})" if self.symbol == "*" and isinstance(side, Sum) else repr(side)
            for side in (self.left, self.right)
        )


class Sum(Pair):
    """k(a, b) = left(a, b) + right(a, b): alike in either respect."""

    symbol = "+"

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        return self.left.evaluate(a, b) + self.right.evaluate(a, b)

    def diagonal(self, a: Condition) -> Tensor:
        return self.left.diagonal(a) + self.right.diagonal(a)

    def feature_count(self, a: Condition) -> int | None:
        left, right = self.left.feature_count(a), self.right.feature_count(a)
        return None if left is None or right is None else left + right

    def features(self, a: Condition) -> Tensor:
        return torch.cat([self.left.features(a), self.right.features(a)], dim=1)


class Product(Pair):
    """k(a, b) = left(a, b) * right(a, b): alike in both respects."""

    symbol = "*"

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        return self.left.evaluate(a, b) * self.right.evaluate(a, b)

    def diagonal(self, a: Condition) -> Tensor:
        return self.left.diagonal(a) * self.right.diagonal(a)

    def feature_count(self, a: Condition) -> int | None:
        left, right = self.left.feature_count(a), self.right.feature_count(a)
        return None if left is None or right is None else left * right

    def features(self, a: Condition) -> Tensor:
        # Every product of one feature of the left with one of the right.
        return (self.left.features(a)[:, :, None] * self.right.features(a)[:, None, :]).flatten(1)

    def groups(self, a: Condition) -> Tensor | None:
        left, right = self.left.groups(a), self.right.groups(a)
        if left is None or right is None:
            return None
        return codes(torch.stack([left, right], dim=1))


class Scaled(Kernel):
    """k(a, b) = factor * kernel(a, b)."""

    def __init__(self, factor: float, kernel: Kernel) -> None:
        if not 0 < factor < float("inf"):
            raise ValueError(f"a kernel can only be scaled by a positive number, not by {factor}")
        self.factor, self.kernel = factor, kernel
        self.positive_definite = kernel.positive_definite

    def on(self, columns: Columns) -> Scaled:
        return Scaled(self.factor, self.kernel.on(columns))

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        return self.factor * self.kernel.evaluate(a, b)

    def diagonal(self, a: Condition) -> Tensor:
        return self.factor * self.kernel.diagonal(a)

    def feature_count(self, a: Condition) -> int | None:
        return self.kernel.feature_count(a)

    def features(self, a: Condition) -> Tensor:
        return self.kernel.features(a) * math.sqrt(self.factor)

    def leaves(self) -> Iterator[Kernel]:
        yield from self.kernel.leaves()

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, Sum) else repr(self.kernel)
        return f"{self.factor:g} * {inner}"


def codes(values: Tensor) -> Tensor:
    """A number for every distinct row of (n, k) values, (n,) from 0 upwards."""
    if values.shape[1] == 1:
        return torch.unique(values[:, 0], return_inverse=True)[1]  # type: ignore[no-any-return]
    return torch.unique(values, dim=0, return_inverse=True)[1]  # type: ignore[no-any-return]
