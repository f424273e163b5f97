"""Processes that run jobs side by side."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path

import torch

from cclk.errors import Stopped
from cclk.experiments import job as jobs
from cclk.experiments.job import Job
from cclk.experiments.progress import GridDisplay
from cclk.experiments.results import RunResult
from cclk.training._process import deferred_signals

_GO_ON = "finished runs are kept and the others are saved: the same command goes on"


class Pool:
    """Worker processes, by default one per core, each with one thread, or one where there is a GPU.

    A signal lets the jobs under way save themselves, and drops the others. A job that cannot be
    done does not keep the others from it.
    """

    def __init__(self, workers: int | None = None) -> None:
        cores = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
        self.workers = workers or (1 if torch.cuda.is_available() else cores)
        self.threads = max(1, cores // self.workers)

    def __enter__(self) -> Pool:
        context = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(
            self.workers, mp_context=context, initializer=jobs.start, initargs=(self.threads,)
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)

    def run(
        self,
        todo: Sequence[Job],
        folder: Path,
        keep: Callable[[Job, RunResult], None],
        display: GridDisplay,
    ) -> None:
        """Run jobs in folders of their own under `folder`; each result is given to `keep` as
        soon as it is there.
        """
        waiting, under_way = (
            list({job.key: job for job in todo}.values()),
            dict[Future[RunResult | None], tuple[Job, float]](),
        )
        failed: list[ValueError] = []
        told = False
        display.begin(len(waiting))
        with (
            deferred_signals() as interrupted
        ):  # Ctrl-C reaches the workers too, which save their runs
            while (waiting and not interrupted) or under_way:
                if signal.SIGTERM in interrupted and not told:
                    told = True
                    _tell_workers()
                while waiting and not interrupted and len(under_way) < self.workers:
                    job = waiting.pop(0)
                    under_way[self._hand_out(job, folder)] = (job, time.perf_counter())
                display.working([job.title for job, _ in under_way.values()])
                finished, _ = wait(under_way, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in finished:
                    job, began = under_way.pop(future)
                    try:
                        found = future.result()
                    except BrokenProcessPool:
                        if not interrupted:
                            raise ValueError(
                                f"the process of {job.title}, seed {job.seed} was killed (out of"
                                f" memory?): {_GO_ON}"
                            ) from None
                        found = None
                    except ValueError as error:
                        failed.append(error)
                        display.failed(str(error))
                        continue
                    if found is None:
                        interrupted.append(signal.SIGINT)
                    else:
                        keep(job, found)
                        display.finished(
                            job.title, job.seed, found.measures, time.perf_counter() - began
                        )
        if interrupted:
            raise Stopped(f"stopped; {_GO_ON}")
        if failed:
            more = (
                f" (and {len(failed) - 1} more of {len(todo)} runs failed; the others are kept)"
                if len(failed) > 1
                else ""
            )
            raise ValueError(f"{failed[0]}{more}") from failed[0]

    def _hand_out(self, job: Job, folder: Path) -> Future[RunResult | None]:
        """The first job starts the workers, who would die of a Ctrl-C before they know what to
        do with it: it waits for them.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self.pool.submit(jobs.run, job, folder)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _tell_workers() -> None:
    """A SIGTERM comes to this process alone if it is sent by hand."""
    for process in multiprocessing.active_children():
        if process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
