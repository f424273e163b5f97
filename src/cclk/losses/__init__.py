"""The losses of the paper, as modules.

`ConditionalLoss` is the base class for new conditional losses.
"""

from cclk.losses.autograd import TileLayout
from cclk.losses.base import ConditionalLoss
from cclk.losses.chunks import backward_in_chunks
from cclk.losses.clusters import FairInfoNCE, WeaklySupInfoNCE
from cclk.losses.fair_cclk import FairCCLK
from cclk.losses.hardneg_cclk import HardNegCCLK
from cclk.losses.hardneg_infonce import HardNegInfoNCE
from cclk.losses.infonce import InfoNCE
from cclk.losses.weaksup_cclk import WeaklySupCCLK

__all__ = [
    "ConditionalLoss",
    "FairCCLK",
    "FairInfoNCE",
    "HardNegCCLK",
    "HardNegInfoNCE",
    "InfoNCE",
    "TileLayout",
    "WeaklySupCCLK",
    "WeaklySupInfoNCE",
    "backward_in_chunks",
]
