"""The kernel interface, and the algebra that combines kernels.

A kernel k measures the similarity of two values of the condition. Kernels add, multiply and scale
as functions do, each on its own columns: `Delta("site") * RBF("age") + 0.5 * Linear("dose")`. Sums
and products of kernels are kernels.
"""

from __future__ import annotations

import copy
import math
import numbers
import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from cclk._eager import eager
from cclk.condition import Columns, Condition, as_condition
from cclk.errors import CclkError, warn
from cclk.kernels import bandwidth

TOO_FAR = (
    "the condition's values are too far apart. Standardize its columns, remove outliers, or use a"
    " bounded kernel such as RBF."
)


class Box(NamedTuple):
    """The smallest and the largest value of every column of the condition, in each of n groups."""

    low: Condition
    high: Condition


class Kernel(ABC):
    """k(a, b), the similarity of two values of the condition.

    `kernel(a)` returns the (n, n) matrix within a, `kernel(a, b)` the (n, m) matrix of a and b.
    """

    positive_definite: bool = True
    """Whether all eigenvalues are non-negative; if not, solvers clip them and emit a warning."""
    local: bool = False
    """Whether k is large between close values only, so that an average over it is one over
    neighbors.
    """

    standardize: bool = True
    """Whether training scales the columns of the kernel to unit variance; False if the kernel is in
    their units, as a period is.
    """

    @eager
    def __call__(self, a: object, b: object | None = None) -> Tensor:
        left = right = as_condition(a, name="a")
        if b is not None:
            right = as_condition(b, name="b", device=left.values.device).in_columns_of(left)
        self.ensure_fitted(left)
        return self.evaluate(left, right).to(left.dtype)

    @abstractmethod
    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        """Return the float64 (len(a), len(b)) matrix of similarities, without a gradient."""

    def diagonal(self, a: Condition) -> Tensor:
        """Return k(a_i, a_i) of every row, float64 (len(a),)."""
        return self.pairs(a, a)

    def pairs(self, a: Condition, b: Condition) -> Tensor:
        """Return k(a_i, b_i) of every row, float64 (len(a),)."""
        parts = [slice(start, start + 32) for start in range(0, len(a), 32)]
        blocks = [self.evaluate(a.rows(p), b.rows(p)).diagonal() for p in parts]
        return torch.cat([a.values.new_empty(0), *blocks])

    def feature_count(self, a: Condition) -> int | None:
        """Return the number of explicit features on this condition; None without a finite map."""
        return None

    def features(self, a: Condition) -> Tensor:
        """Return an explicit map G, float64 (len(a), m), with G G^T = k(a, a)."""
        raise CclkError(f"{self!r} has no explicit feature map: use solver='nystrom' or 'exact'")

    def groups(self, a: Condition) -> Tensor | None:
        """Return group numbers (len(a),) if k is 1 within groups and 0 between them, else None."""
        return None

    def coordinates(self, a: Condition) -> Tensor | None:
        """Return points (len(a), m) that are close where the kernel is large, in units of the
        length scale; None if the kernel has no `upper_bound`.
        """
        return None

    def upper_bound(self, a: Box, b: Box) -> Tensor | None:
        """Return a bound of the kernel between any value in box i of a and in box j of b.

        Args:
            a: n boxes of values.
            b: m boxes of values.

        Returns:
            float64 (n, m), at least 0; None if there is no useful bound.
        """
        return None

    def leaves(self) -> list[Kernel]:
        """Return the elementary kernels of the expression, from left to right."""
        return [self]

    @abstractmethod
    def on(self, columns: Columns) -> Kernel:
        """Return the same kernel, restricted to these columns of the condition.

        Args:
            columns: Names or numbers of columns.
        """

    @eager
    def fit(self, condition: object, batch_size: int = 256) -> Self:
        """Fit every length scale that is "auto" or "median", and return the kernel.

        Args:
            condition: The condition of the training split, n rows.
            batch_size: The batch size used in training; "auto" counts the neighbors of an anchor
                in batches of this size.
        """
        bandwidth.fit(self, as_condition(condition), batch_size)
        return self

    @property
    def is_fitted(self) -> bool:
        """Whether every length scale is a number."""
        return all(leaf.length_scale_ is not None for leaf in bandwidth.scaled_leaves(self))

    def ensure_fitted(self, condition: Condition, *, training: bool = True) -> None:
        """Check the condition and the kernel's values on it; fit an unfitted kernel and emit a
        `CclkWarning`.

        Args:
            condition: The condition of a batch.
            training: Whether it is a training batch; if not, the warning mentions it.
        """
        fitted = True
        for leaf in self.leaves():
            if condition.columns and isinstance(leaf, Leaf):
                leaf.refuse_text(condition)
            leaf.check(condition)
            fitted &= getattr(leaf, "length_scale_", 0.0) is not None
        if not fitted:
            before = repr(self)
            self.fit(condition, batch_size=len(condition))
            outside = (
                " The loss is in evaluation mode: this may be a validation batch, such as one of"
                " Lightning's sanity check."
            )
            warn(
                f"{before} was not fitted: fitted on the first batch of {len(condition)} as"
                f" {self!r}.{'' if training else outside} Call kernel.fit(training_condition,"
                " batch_size) beforehand."
            )
        # The diagonal bounds all values: k(a, b)^2 is at most k(a, a) k(b, b).
        total = float(self.diagonal(condition).sum())
        if not math.isfinite(total * total):
            raise CclkError(f"{self!r} has values that overflow: {TOO_FAR}")

    def warn_once(self, topic: str, message: str) -> None:
        """Emit one warning per kernel and topic, although the numbers differ between batches."""
        topics: set[str] = self.__dict__.setdefault("_warned", set())
        if topic not in topics:
            topics.add(topic)
            warn(message)

    def check(self, condition: Condition) -> None:  # noqa: B027 (most kernels take anything)
        """Raise a `CclkError` if the kernel cannot be evaluated on this condition."""

    def state_dict(self) -> dict[str, bandwidth.Scale]:
        """Return the fitted length scales by the position of their kernel in the expression."""
        return {
            str(i): leaf.length_scale_
            for i, leaf in enumerate(self.leaves())
            if bandwidth.is_fittable(leaf) and leaf.length_scale_ is not None
        }

    def load_state_dict(self, state: Mapping[str, float | Sequence[float]]) -> Self:
        """Load length scales saved by `state_dict` of a kernel of the same form.

        Args:
            state: Length scales by position; one number, or one for each column.
        """
        leaves = dict(enumerate(self.leaves()))
        for position, scale in state.items():
            leaf = leaves.get(int(position)) if str(position).isdecimal() else None
            if not bandwidth.is_fittable(leaf):
                raise CclkError(
                    f"{self!r} has no length scale to be fitted at position {position}: the state"
                    " belongs to another kernel"
                )
            scales = tuple(scale) if isinstance(scale, Sequence) else (scale,)
            if not scales or not all(
                isinstance(each, numbers.Real) and 0 < each < float("inf") for each in scales
            ):
                raise CclkError(
                    f"the length scale at position {position} is {scale!r}: it must be a positive"
                    " number, or one for each column"
                )
            leaf.length_scale_ = (
                tuple(map(float, scales)) if isinstance(scale, Sequence) else float(scales[0])
            )
        return self

    def __add__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Sum(self, other)
        if not isinstance(other, numbers.Real):
            return NotImplemented
        return self if other == 0 else Sum(self, Constant(other))  # `sum` starts with 0

    def __radd__(self, other: float) -> Kernel:
        return self + other

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        if not isinstance(other, numbers.Real):
            return NotImplemented
        return Product(Constant(other), self)

    def __rmul__(self, other: float) -> Kernel:
        return self * other


class Leaf(Kernel):
    """An elementary kernel on some columns of the condition; on all of them by default."""

    takes_text = False
    """Whether the kernel can be evaluated on codes of text, which have no distance."""

    def __init__(self, columns: Columns | None = None) -> None:
        name = type(self).__name__
        if isinstance(columns, numbers.Real):
            scale = isinstance(self, bandwidth.HasLengthScale)
            raise CclkError(
                f"{name}({columns}): a bare number is ambiguous; write"
                f" {name}({f'length_scale={columns} or ' if scale else ''}columns=[{columns:.0f}])"
            )
        if isinstance(columns, Sequence) and len(columns) == 0:
            raise CclkError(f"{name}([]): the kernel needs at least one column")
        self.columns = columns

    def on(self, columns: Columns) -> Self:
        if self.columns is not None:
            raise CclkError(f"{self!r} already has columns: use on() with a kernel that has none")
        restricted = copy.copy(self)
        restricted.columns = [columns] if isinstance(columns, int) else columns
        return restricted

    def refuse_text(self, condition: Condition) -> None:
        """Raise a `CclkError` if the kernel needs numbers, and a column of it holds text."""
        text = None if self.takes_text else condition.nominal(self.columns)
        if text is not None:
            name = repr(text.name) if text.name else ""
            raise CclkError(
                f"{self!r} needs numbers, but condition{f' column {name}' if name else ''} holds"
                f" categories: use Delta({name}), which compares whether they are equal"
            )

    def settings(self) -> dict[str, object]:
        """Return the arguments that `repr` shows beside the columns."""
        return {}

    def __repr__(self) -> str:
        arguments = [] if self.columns is None else [repr(self.columns)]
        arguments += [f"{key}={value}" for key, value in self.settings().items()]
        return f"{type(self).__name__}({', '.join(arguments)})"


class Constant(Kernel):
    """k(a, b) = value.

    `kernel + 1` adds a constant kernel, and `2 * kernel` multiplies by one.

    Args:
        value: A positive number.

    Example:
        >>> import torch
        >>> from cclk.kernels import Linear
        >>> (Linear() + 1)(torch.tensor([1.0, 2.0]))
        tensor([[2., 3.],
                [3., 5.]])
    """

    def __init__(self, value: float) -> None:
        if not 0 < value < float("inf"):
            raise CclkError(f"a kernel can be scaled by or added to a positive number, not {value}")
        self.value = float(value)

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        return torch.full((len(a), len(b)), self.value, dtype=torch.float64, device=a.values.device)

    def pairs(self, a: Condition, b: Condition) -> Tensor:
        return self.evaluate(a, b.rows(slice(0, 1)))[:, 0]

    def feature_count(self, a: Condition) -> int:
        return 1

    def features(self, a: Condition) -> Tensor:
        return self.diagonal(a).sqrt()[:, None]

    def coordinates(self, a: Condition) -> Tensor:
        return a.values[:, :0]

    def upper_bound(self, a: Box, b: Box) -> Tensor:
        return self.evaluate(a.low, b.low)

    def leaves(self) -> list[Kernel]:
        return []  # it uses no column

    def on(self, columns: Columns) -> Self:
        return self

    def __repr__(self) -> str:
        return f"{self.value:g}"


class Pair(Kernel):
    """Two kernels joined by an arithmetic operator."""

    symbol: str
    combine = staticmethod(operator.add)

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left, self.right = left, right
        self.positive_definite = left.positive_definite and right.positive_definite
        self.local = left.local and right.local

    def evaluate(self, a: Condition, b: Condition) -> Tensor:
        matrix: Tensor = self.combine(self.left.evaluate(a, b), self.right.evaluate(a, b))
        return matrix

    def diagonal(self, a: Condition) -> Tensor:
        diagonal: Tensor = self.combine(self.left.diagonal(a), self.right.diagonal(a))
        return diagonal

    def pairs(self, a: Condition, b: Condition) -> Tensor:
        values: Tensor = self.combine(self.left.pairs(a, b), self.right.pairs(a, b))
        return values

    def feature_count(self, a: Condition) -> int | None:
        left, right = self.left.feature_count(a), self.right.feature_count(a)
        return None if left is None or right is None else int(self.combine(left, right))

    def coordinates(self, a: Condition) -> Tensor | None:
        left, right = self.left.coordinates(a), self.right.coordinates(a)
        return None if left is None or right is None else torch.cat([left, right], dim=1)

    def upper_bound(self, a: Box, b: Box) -> Tensor | None:
        left, right = self.left.upper_bound(a, b), self.right.upper_bound(a, b)
        return None if left is None or right is None else self.combine(left, right)

    def on(self, columns: Columns) -> Self:
        return type(self)(self.left.on(columns), self.right.on(columns))

    def leaves(self) -> list[Kernel]:
        return self.left.leaves() + self.right.leaves()

    def __repr__(self) -> str:
        return f" {self.symbol} ".join(
            f"({side!r})" if self.symbol == "*" and isinstance(side, Sum) else repr(side)
            for side in (self.left, self.right)
        )


class Sum(Pair):
    """k(a, b) = left(a, b) + right(a, b): similar in either respect."""

    symbol = "+"

    def features(self, a: Condition) -> Tensor:
        return torch.cat([self.left.features(a), self.right.features(a)], dim=1)


class Product(Pair):
    """k(a, b) = left(a, b) * right(a, b): similar in both respects."""

    symbol, combine = "*", staticmethod(operator.mul)

    def __init__(self, left: Kernel, right: Kernel) -> None:
        super().__init__(left, right)
        self.local = left.local or right.local

    def features(self, a: Condition) -> Tensor:
        # Every product of one feature of the left with one of the right.
        return (self.left.features(a)[:, :, None] * self.right.features(a)[:, None, :]).flatten(1)

    def groups(self, a: Condition) -> Tensor | None:
        left, right = self.left.groups(a), self.right.groups(a)
        if left is None or right is None:
            return None
        return group_numbers(torch.stack([left, right], dim=1))


def group_numbers(values: Tensor) -> Tensor:
    """Return a number from 0 upwards for every distinct row of (n, k) values, (n,)."""
    if values.shape[1] == 1:
        return torch.unique(values[:, 0], return_inverse=True)[1]  # type: ignore[no-any-return]
    return torch.unique(values, dim=0, return_inverse=True)[1]  # type: ignore[no-any-return]
