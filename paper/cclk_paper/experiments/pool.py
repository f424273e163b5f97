"""Worker processes that run jobs in parallel."""

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

from cclk.errors import CclkError, Stopped
from cclk.training._process import deferred_signals
from cclk_paper.experiments import job as jobs
from cclk_paper.experiments.job import Job
from cclk_paper.experiments.progress import GridDisplay
from cclk_paper.experiments.results import RunResult

_RESUME = "finished runs are kept and the others are saved: run the same command to resume"


class FailedRunsError(CclkError):
    """Some runs of a grid failed; the others are finished."""


class Pool:
    """Worker processes; by default one per core, each with one thread, or a single one with a GPU.

    On a signal, running jobs are saved and the others are dropped. A job that fails does not stop
    the others.
    """

    def __init__(self, workers: int | None = None) -> None:
        cores = os.cpu_count() or 1
        if hasattr(os, "sched_getaffinity"):
            cores = len(os.sched_getaffinity(0))
        self.workers = workers or (1 if torch.cuda.is_available() else cores)
        self.threads = max(1, cores // self.workers)

    def __enter__(self) -> Pool:
        context = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(
            self.workers,
            mp_context=context,
            initializer=jobs.start,
            initargs=(self.threads, os.getpid()),
        )
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if failure is not None:  # such as a full disk: running jobs are saved, not finished
            _terminate_workers()
        self.pool.shutdown(wait=True, cancel_futures=True)

    def run(
        self,
        todo: Sequence[Job],
        folder: Path,
        keep: Callable[[Job, RunResult], None],
        display: GridDisplay,
    ) -> None:
        """Run jobs in subfolders of `folder`, and pass each result to `keep` immediately."""
        waiting = list({job.key: job for job in todo}.values())
        running: dict[Future[RunResult | None], tuple[Job, float]] = {}
        failed: list[ValueError] = []
        forwarded = False
        display.begin(len(waiting))
        with deferred_signals() as interrupted:  # SIGINT reaches the workers too, which save
            while (waiting and not interrupted) or running:
                if not forwarded and set(interrupted) - {signal.SIGINT}:
                    forwarded = True
                    _terminate_workers()
                while not interrupted and len(running) < self.workers:
                    busy = {job.folder for job, _ in running.values()}
                    free = (job for job in waiting if job.folder not in busy)
                    if (job := next(free, None)) is None:
                        break
                    waiting.remove(job)
                    running[self._submit(job, folder)] = (job, time.perf_counter())
                display.working([job.title for job, _ in running.values()])
                finished, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                for future in finished:
                    job, began = running.pop(future)
                    try:
                        result = future.result()
                    except BrokenProcessPool:
                        if not interrupted:
                            raise CclkError(
                                f"the process of {job.title}, seed {job.seed} was killed (out of"
                                f" memory?): {_RESUME}"
                            ) from None
                        result = None
                    except ValueError as error:
                        failed.append(error)
                        display.failed(str(error))
                        continue
                    if result is None:
                        interrupted.append(signal.SIGINT)
                    else:
                        keep(job, result)
                        seconds = time.perf_counter() - began
                        display.finished(job.title, job.seed, result.measures, seconds)
        if interrupted:
            raise Stopped(f"stopped; {_RESUME}", interrupted[0])
        if failed:
            more = f" (and {len(failed) - 1} more of {len(todo)} runs failed; the others are kept)"
            raise FailedRunsError(f"{failed[0]}{more if len(failed) > 1 else ''}") from failed[0]

    def _submit(self, job: Job, folder: Path) -> Future[RunResult | None]:
        """Block SIGINT, since the first job spawns workers that have no handler yet."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self.pool.submit(jobs.run, job, folder)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _terminate_workers() -> None:
    """Send SIGTERM, since unlike Ctrl-C other signals may have been sent to this process only."""
    for process in multiprocessing.active_children():
        if process.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
