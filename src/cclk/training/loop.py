"""Training into a run folder: `train` starts a run, `resume` continues it from a checkpoint."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import (
    AbstractContextManager,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from pathlib import Path
from typing import Any

import torch

import cclk
from cclk._files import LOCK, locked
from cclk._reading import reason
from cclk._terminal import Console
from cclk.data.dataset import Dataset
from cclk.data.fingerprint import fingerprint
from cclk.errors import Interrupted, RunError
from cclk.training._process import computing_with, deferred_signals
from cclk.training.callbacks import Callback
from cclk.training.check import require_readable
from cclk.training.checkpoints import (
    CHECKPOINTS,
    RunIdentity,
    checkpoints,
    load_checkpoint,
    save_checkpoint,
)
from cclk.training.display import Display
from cclk.training.launch import Agreement, joined, launch
from cclk.training.metrics import METRICS, MetricsWriter
from cclk.training.removal import describe_removal
from cclk.training.run_folder import (
    ENCODER,
    SETTINGS,
    RunFolder,
    RunMetadata,
    load_dataset,
    make_folder,
    write_encoder,
    write_settings,
)
from cclk.training.settings import Settings
from cclk.training.trainer import Trainer


def train(
    settings: Settings,
    folder: Path,
    *,
    command: str = "",
    quiet: bool = False,
    callback: Callback | None = None,
    dataset: Dataset | None = None,
) -> RunFolder:
    """Train into a new run folder."""
    fabric = launch(settings)
    with joined(fabric, folder), _new_run(fabric, folder) as begin:
        dataset = dataset or load_dataset(settings)
        first = fabric.global_rank == 0
        if first:
            with Console(stderr=True, quiet=quiet).status("reading all data"):
                require_readable(dataset)
        data = fingerprint(dataset)
        trainer = Trainer(settings, dataset, fabric)
        threads = settings.train.threads or torch.get_num_threads()
        if first:
            metadata = RunMetadata(cclk.__version__, command, data, threads)
            write_settings(folder, trainer.settings, metadata)
        fabric.barrier()
        with computing_with(threads):
            _Loop(trainer, folder, data, quiet, callback, begin).run()
    return RunFolder(folder, trust_code=True)


def _require_no_run(folder: Path) -> None:
    if (folder / SETTINGS).exists():
        raise RunError(f"{folder} already contains a run: resume it, or choose another folder")


def _lock(fabric: Any, folder: Path) -> AbstractContextManager[None]:
    return locked(folder) if fabric.global_rank == 0 else nullcontext()


@contextmanager
def _new_run(fabric: Any, folder: Path) -> Iterator[Callable[[], None]]:
    """Create and lock a folder; what is new in it is deleted if a run fails before it calls the
    result.
    """
    before = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    fabric.barrier()  # all processes have read the folder before one writes
    if SETTINGS in before:
        _require_no_run(folder)
    begun: set[bool] = set()
    try:
        make_folder(folder / CHECKPOINTS)
        with _lock(fabric, folder):
            if fabric.global_rank == 0:
                _require_no_run(folder)  # written while the lock was not held
            try:
                yield lambda: begun.add(True)
            except BaseException:
                if fabric.global_rank == 0 and not begun:
                    for name in {SETTINGS, METRICS, CHECKPOINTS, LOCK} - before:
                        shutil.rmtree(folder / name, ignore_errors=True)
                        with suppress(OSError):  # why the run could not start, too
                            (folder / name).unlink(missing_ok=True)
                raise
    except BaseException:
        for path in missing:
            with suppress(OSError):  # not empty, or never created
                path.rmdir()
        raise


def resume(
    folder: Path,
    *,
    quiet: bool = False,
    callback: Callback | None = None,
    trust_code: bool | Collection[str] = False,
) -> RunFolder:
    """Continue a run from its newest checkpoint, or from the start if it has not had one yet."""
    run = RunFolder(folder, trust_code=trust_code)
    _require_checkpoints(run)
    fabric = launch(run.settings)
    with joined(fabric, folder), _lock(fabric, folder):
        trainer = Trainer(run.settings, run.dataset, fabric)
        data = run.metadata.data_fingerprint or fingerprint(run.dataset)
        with computing_with(run.metadata.threads or torch.get_num_threads()):
            _Loop(trainer, folder, data, quiet, callback).run()
    return RunFolder(folder, trust_code=trust_code)


def _require_checkpoints(run: RunFolder) -> None:
    """Raise an error if the checkpoints of a run were deleted: it must not restart unasked."""
    if checkpoints(run.folder):
        return
    folder = run.folder / CHECKPOINTS
    for old in folder.glob("step-*.ckpt"):
        raise RunError(f"{old} is in a format that can run code, and is not opened: train again")
    logged = max((int(line["step"]) for line in run.metrics()), default=0)
    if (
        not folder.is_dir()
        or (run.folder / ENCODER).exists()
        or logged > run.settings.train.checkpoint_every
    ):
        raise RunError(
            f"{folder} is missing or empty, although {logged} steps were logged: restore it,"
            " or train again, into another folder"
        )


class _Loop:
    """The steps of a run, with its metrics, checkpoints and signals."""

    def __init__(
        self,
        trainer: Trainer,
        folder: Path,
        data_fingerprint: str,
        quiet: bool,
        callback: Callback | None,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        self.trainer, self.folder, self.callback, self.begin = trainer, folder, callback, begin
        self.first = trainer.fabric.global_rank == 0
        self.agreement = Agreement(trainer.fabric)
        self.display = Display(trainer.total, quiet or not self.first)
        settings = trainer.settings.model_dump(mode="json")
        processes = trainer.fabric.world_size
        self.identity = RunIdentity(settings, data_fingerprint, cclk.__version__, processes)

    def run(self) -> None:
        """Take the steps that are left, and write the encoder."""
        trainer, every = self.trainer, self.trainer.settings.train
        start = self._restore()
        with (
            deferred_signals() as caught,
            closing(trainer),
            self.display,
            MetricsWriter(self.folder, start, self.first) as metrics,
        ):
            title = f"{trainer.settings.method} on {trainer.dataset.name}"
            removal = describe_removal(trainer.settings, trainer.dataset)
            self.display.begin(title, start, trainer.dataset.description, removal)
            logged, since = start, time.perf_counter()
            for step in range(start, trainer.total):
                loss = trainer.step(step)
                self.begin()
                done = step + 1
                last = done == trainer.total
                stop = self.agreement.largest(caught[0] if caught else 0)
                measured = self.callback is not None and self.callback.due(done, trainer.total)
                save = done % every.checkpoint_every == 0 or last or bool(stop)
                log = measured or last or done % every.log_every == 0
                if save or log:
                    value = self.agreement.mean(loss)
                    self._require_finite(done, value)
                if log:
                    speed = (done - logged) / max(time.perf_counter() - since, 1e-9)
                    if self.first:
                        line = trainer.metrics(done, value)
                        line["samples_per_second"] = round(speed * every.batch_size, 1)
                        if measured:
                            line |= self._measure(line)
                        metrics.add(line)
                        self.display.show(line)
                    logged, since = done, time.perf_counter()
                if save:
                    metrics.flush()
                    if self.first:
                        save_checkpoint(self.folder, done, trainer.state_dict(), self.identity)
                if stop and not last:
                    self.agreement.largest(0)  # waits until the first process has saved
                    raise Interrupted(stop, done, self.folder)
        if self.first:
            write_encoder(self.folder, trainer)

    def _require_finite(self, step: int, loss: float) -> None:
        """Stop a run that diverged, before its weights are saved."""
        weights = self.trainer.network.state_dict()
        bad = [name for name, value in weights.items() if not bool(value.isfinite().all())]
        if bad or not math.isfinite(loss):
            what = f"{bad[0]} is not finite" if bad else f"the loss is {loss}"
            raise RunError(
                f"training diverged by step {step}: {what}; lower lr (now"
                f" {self.trainer.settings.optim.lr:g}) or raise the temperature. The"
                f" last checkpoint of {self.folder} is from before"
            )

    def _measure(self, line: dict[str, float]) -> dict[str, float]:
        """The metrics of the callback; one process measures, the others wait in the next step."""
        if self.callback is None:
            return {}
        metrics = self.callback(self.trainer.network)
        for name in metrics.keys() & line.keys():
            raise ValueError(f"the callback measures {name!r}, which is logged already: rename it")
        return metrics

    def _restore(self) -> int:
        """Load the newest checkpoint and return its number of steps."""
        checkpoint = load_checkpoint(self.folder, self.identity)
        if checkpoint is None:
            return 0
        path, state = checkpoint
        try:
            self.trainer.load_state_dict(state)
        except Exception as error:  # optimizers accept a state of any form until they use it
            raise RunError(
                f"{path} does not fit the settings of its run: {reason(error)}"
            ) from error
        step: int = state["step"]
        return step
