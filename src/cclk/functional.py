"""The losses as functions."""

from cclk.losses.baselines import fair_info_nce, hard_neg_info_nce, weakly_sup_info_nce
from cclk.losses.infonce import info_nce
from cclk.losses.negatives import fair_cclk, hard_neg_cclk
from cclk.losses.weaksup import weakly_sup_cclk

__all__ = [
    "fair_cclk",
    "fair_info_nce",
    "hard_neg_cclk",
    "hard_neg_info_nce",
    "info_nce",
    "weakly_sup_cclk",
    "weakly_sup_info_nce",
]
