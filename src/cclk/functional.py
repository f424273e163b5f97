"""The losses and the leakage penalty as functions, without a module."""

from cclk.losses.fair_cclk import fair_cclk
from cclk.losses.fair_infonce import fair_info_nce
from cclk.losses.hardneg_cclk import hard_neg_cclk
from cclk.losses.hardneg_infonce import hard_neg_info_nce
from cclk.losses.infonce import info_nce
from cclk.losses.weaksup_cclk import weakly_sup_cclk
from cclk.losses.weaksup_infonce import weakly_sup_info_nce
from cclk.removal.penalty import leakage_penalty

__all__ = [
    "fair_cclk",
    "fair_info_nce",
    "hard_neg_cclk",
    "hard_neg_info_nce",
    "info_nce",
    "leakage_penalty",
    "weakly_sup_cclk",
    "weakly_sup_info_nce",
]
