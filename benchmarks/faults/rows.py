"""What happened under a fault, counted."""

from __future__ import annotations

from dataclasses import dataclass, field

SHOWN = 5
"""How many unexpected events of a row are kept in full."""


@dataclass
class Row:
    """The tries of one fault.

    Attributes:
        group: What is disturbed.
        fault: The fault.
        tried: How often it was tried.
        outcomes: What happened -> how often.
        lost: Tries after which data were missing that had been on disk, or that a resumed run
            should have given again.
        undetected: Tries that ended with other results and no message.
        unexpected: Tries that ended in another way than documented: a hang, a traceback, more than
            one line, a partial file.
        events: Some of them, in a line each.
        measured: Figures, such as the seconds until a process ended.
    """

    group: str
    fault: str
    tried: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    undetected: int = 0
    unexpected: int = 0
    events: list[str] = field(default_factory=list)
    measured: dict[str, float] = field(default_factory=dict)

    def add(
        self,
        outcome: str,
        *,
        lost: bool = False,
        undetected: bool = False,
        unexpected: str = "",
    ) -> None:
        """Count a try.

        Args:
            outcome: What happened, in a few words.
            lost: Whether data were lost.
            undetected: Whether results differ without a message.
            unexpected: What was not as documented.
        """
        self.tried += 1
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        self.lost += lost
        self.undetected += undetected
        self.unexpected += bool(unexpected)
        if unexpected or lost or undetected:
            self.events = [*self.events, f"{outcome}: {unexpected}"][:SHOWN]

    def most(self, name: str, value: float) -> None:
        """Keep the largest value of a figure."""
        self.measured[name] = round(max(value, self.measured.get(name, 0.0)), 2)
