"""The losses of the paper, as modules; `cclk.functional` has the same as functions."""

from cclk.losses.baselines import FairInfoNCE, HardNegInfoNCE, WeaklySupInfoNCE
from cclk.losses.infonce import InfoNCE
from cclk.losses.negatives import FairCCLK, HardNegCCLK
from cclk.losses.weaksup import WeaklySupCCLK

__all__ = ["FairCCLK", "FairInfoNCE", "HardNegCCLK", "HardNegInfoNCE", "InfoNCE", "WeaklySupCCLK", "WeaklySupInfoNCE"]
