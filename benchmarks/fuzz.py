"""Fuzz every reader and every loss: `python -m benchmarks.fuzz [--cases N] [--json FILE]`.

A reader gets damaged, hostile and odd variants of small valid files: bytes are changed, files cut
and spliced, and their structure is edited (JSON values, headers of arrays, tensors and archives).
It must return, or raise one error of this package whose single line of at most 300 characters names
the file. A loss gets random and extreme inputs and options; its value and gradients must be finite,
or it must raise an error of this package, also of one such line. Everything else is a finding:
other exceptions and warnings, a value that is not finite, more than 2 seconds of processor time,
more than 1 GiB of memory, and crashes of the process.

Each case depends on the seed, the target and its number only: `--only NAME --first N --cases 1`
repeats one.
"""

from __future__ import annotations

import argparse
import mmap
import multiprocessing
import random
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import torch

import cclk
from benchmarks import fuzz_losses, fuzz_readers
from benchmarks.common import write_result
from cclk.errors import LONGEST, CclkError

SECONDS, MEMORY = 2.0, 1 << 30
SHOWN = 5
Case = Callable[[random.Random], str]
"""Runs one case; returns "accepted", or "silent" if a value is not finite."""


class TooSlow(BaseException):
    """A case that took more than the limit."""


@dataclass
class Findings:
    """The counts of one target."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, kind: str, number: int, what: str = "") -> None:
        self.counts[kind] += 1
        if what and len(self.examples) < SHOWN:
            self.examples.append(f"case {number}: {kind}: {what}")

    @property
    def bad(self) -> int:
        return sum(self.counts[kind] for kind in ("foreign", "silent", "slow", "unclear", "crash"))

    def result(self) -> dict[str, object]:
        kinds = ("accepted", "refused", "foreign", "silent", "slow", "unclear", "crash")
        counts = {kind: self.counts[kind] for kind in kinds}
        cases = sum(counts.values())
        seconds = round(self.seconds, 1)
        return {"cases": cases, **counts, "examples": self.examples, "seconds": seconds}


def targets(folder: Path, names: list[str] | None = None) -> dict[str, Callable[[], Case]]:
    """The targets by name; each is set up when it is called.

    Args:
        folder: for files.
        names: which ones; all by default.
    """
    every: dict[str, Callable[[], Case]] = {
        **fuzz_readers.readers(folder),
        **fuzz_losses.losses(),
    }
    unknown = set(names or ()) - every.keys()
    if unknown:
        raise SystemExit(f"unknown target {min(unknown)}: choose from {', '.join(every)}")
    return {name: make for name, make in every.items() if not names or name in names}


def run(case: Case, name: str, seed: int, numbers: range, at: Callable[[int], object]) -> Findings:
    """Run cases of a target, with a limit of time for each.

    Args:
        case: the target.
        name: its name.
        seed: of all cases.
        numbers: which cases.
        at: called with the number of a case before it runs.
    """

    def expired(_signum: int, _frame: FrameType | None) -> None:
        raise TooSlow

    findings, start = Findings(), time.process_time()
    before = signal.signal(signal.SIGPROF, expired)
    try:
        for number in numbers:
            at(number)
            one(case, findings, random.Random(f"{seed}/{name}/{number}"), number)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    findings.seconds = time.process_time() - start
    return findings


def one(case: Case, findings: Findings, source: random.Random, number: int) -> None:
    """Run one case and count what it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", cclk.CclkWarning)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            kind = case(source)
            signal.setitimer(signal.ITIMER_PROF, 0)
        findings.add(kind, number, "a value is not finite" if kind == "silent" else "")
    except TooSlow:
        findings.add("slow", number, f"more than {SECONDS:g} s")
    except fuzz_readers.Unclear as error:
        findings.add("unclear", number, str(error)[:300])
    except Exception as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if _is_own(error):
            text = str(error)
            unclear = "\n" in text or len(text) > LONGEST
            findings.add("unclear" if unclear else "refused", number, text[:300] * unclear)
        else:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            text = " ".join(str(error).split())[:200]
            findings.add("foreign", number, f"{type(error).__name__}: {text} ({place})")


def _is_own(error: Exception) -> bool:
    """Whether an error was raised on purpose by this package."""
    if isinstance(error, CclkError):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    inside = Path(last.filename).is_relative_to(Path(cclk.__file__).parent)
    return (
        inside
        and type(error) in (ValueError, TypeError)
        and (last.line or "").startswith(("raise", "f", '"'))
    )


def isolated(make: Callable[[], Case], name: str, seed: int, numbers: range) -> Findings:
    """Run cases in another process, which may crash, with a limit of memory."""
    position = mmap.mmap(-1, 8)
    findings, first = Findings(), numbers.start
    while first < numbers.stop:
        receiver, sender = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.get_context("fork").Process(
            target=_child,
            args=(make, name, seed, range(first, numbers.stop), position, sender),
        )
        process.start()
        sender.close()
        try:
            part: Findings = receiver.recv()
            first = numbers.stop
        except EOFError:
            part, number = Findings(), int.from_bytes(position[:8], "little")
            part.counts["accepted"] = number - first  # their counts are lost
            process.join()
            part.add("crash", number, f"exit code {process.exitcode}")
            first = number + 1
        process.join()
        findings.counts += part.counts
        findings.examples = (findings.examples + part.examples)[:SHOWN]
        findings.seconds += part.seconds
    return findings


def _child(
    make: Callable[[], Case],
    name: str,
    seed: int,
    numbers: range,
    position: mmap.mmap,
    sender: multiprocessing.connection.Connection,
) -> None:
    torch.set_num_threads(1)
    case = make()
    for number in range(3):  # what is imported on first use
        one(case, Findings(), random.Random(number), number)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    def at(number: int) -> None:
        position[:8] = number.to_bytes(8, "little")

    sender.send(run(case, name, seed, numbers, at))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cases", type=int, default=1000, help="cases of each target (default: %(default)s)"
    )
    parser.add_argument(
        "--loss-cases", type=int, help="cases of each loss (default: those of other targets)"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="targets (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    options = parser.parse_args()
    results: dict[str, dict[str, object]] = {}
    bad = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name, make in targets(Path(temporary), options.only).items():
            cases = options.cases
            if name.startswith("loss:") and options.loss_cases is not None:
                cases = options.loss_cases
            numbers = range(options.first, options.first + cases)
            findings = isolated(make, name, options.seed, numbers)
            results[name], bad = findings.result(), bad + findings.bad
            counts = "  ".join(f"{count} {kind}" for kind, count in findings.counts.items())
            print(f"{name}: {counts}  ({findings.seconds:.0f} s)", flush=True)
            for example in findings.examples:
                print(f"    {example}", flush=True)
            write_result(options.json, "fuzz", {"seed": options.seed, "targets": results})
    print(f"{sum(int(str(each['cases'])) for each in results.values()):,} cases, {bad} findings")
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
