"""Training into a run folder: `train` starts a run, `resume` continues it from a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Collection
from contextlib import closing, nullcontext
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
from cclk.training.metrics import METRICS, Clock, MetricsWriter
from cclk.training.removal import describe_removal
from cclk.training.run_folder import (
    ENCODER,
    SETTINGS,
    FolderBefore,
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
    """Train into a new run folder.

    Args:
        settings: All settings of the run.
        folder: The folder to write; it must not contain a run.
        command: The command to record in settings.json.
        quiet: Whether to show no progress.
        callback: A measurement during training.
        dataset: The dataset that the settings name, if it has been loaded already.
    """
    fabric = launch(settings)
    with joined(fabric, folder):
        _train(fabric, settings, folder, command, quiet, callback, dataset)
    return RunFolder(folder, trust_code=True)


def _train(
    fabric: Any,
    settings: Settings,
    folder: Path,
    command: str,
    quiet: bool,
    callback: Callback | None,
    dataset: Dataset | None,
) -> None:
    first = fabric.global_rank == 0
    occupied, before = (folder / SETTINGS).exists(), FolderBefore.of(folder)
    fabric.barrier()  # all processes have read the folder before one writes
    message = f"{folder} already contains a run: resume it, or choose another folder"
    if occupied:
        raise RunError(message)
    try:
        make_folder(folder / CHECKPOINTS)
    except RunError:
        before.restore(())
        raise
    with locked(folder) if first else nullcontext():
        if first and (folder / SETTINGS).exists():  # written while the lock was not held
            raise RunError(message)
        loop = None
        try:
            dataset = dataset or load_dataset(settings)
            if first:
                with Console(stderr=True, quiet=quiet).status("reading all data"):
                    require_readable(dataset)
            data = fingerprint(dataset)
            loop = _Loop(Trainer(settings, dataset, fabric), folder, data, quiet, callback)
            threads = settings.train.threads or loop.trainer.best_threads()
            if first:
                metadata = RunMetadata(cclk.__version__, command, data, threads)
                write_settings(folder, loop.trainer.settings, metadata)
            fabric.barrier()
            with computing_with(threads):
                loop.run()
        except BaseException:
            if first and (loop is None or not loop.begun):
                before.restore((SETTINGS, METRICS, CHECKPOINTS, LOCK))
            raise


def resume(
    folder: Path,
    *,
    quiet: bool = False,
    callback: Callback | None = None,
    trust_code: bool | Collection[str] = False,
) -> RunFolder:
    """Continue a run from its newest checkpoint, or from the start if it has not had one yet.

    Args:
        folder: The folder of a run.
        quiet: Whether to show no progress.
        callback: A measurement during training.
        trust_code: The import paths that the settings of the run may name, or True for all.
    """
    run = RunFolder(folder, trust_code=trust_code)
    _require_checkpoints(run)
    fabric = launch(run.settings)
    with joined(fabric, folder), locked(folder) if fabric.global_rank == 0 else nullcontext():
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
    ) -> None:
        self.trainer, self.folder, self.callback = trainer, folder, callback
        self.first = trainer.fabric.global_rank == 0
        self.agreement = Agreement(trainer.fabric)
        self.display = Display(trainer.total, quiet or not self.first)
        settings = trainer.settings.model_dump(mode="json")
        processes = trainer.fabric.world_size
        self.identity = RunIdentity(settings, data_fingerprint, cclk.__version__, processes)
        self.begun = False
        """Whether a step has been taken."""

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
            clock = Clock(start)
            for step in range(start, trainer.total):
                loss = trainer.step(step)
                done, self.begun = step + 1, True
                last = done == trainer.total
                stop = self.agreement.signal(caught[0] if caught else 0, done)
                measured = self.callback is not None and self.callback.due(done, trainer.total)
                save = done % every.checkpoint_every == 0 or last or bool(stop)
                log = measured or last or done % every.log_every == 0
                if save or log:
                    value = self.agreement.mean(loss)
                    self._require_finite(done, value)
                if log:
                    speed = round(clock.speed(done) * every.batch_size, 1)
                    if self.first:
                        line = trainer.metrics(done, value) | {"samples_per_second": speed}
                        if measured:
                            line |= self._measure(line)
                        metrics.add(line)
                        self.display.show(line)
                    if measured:
                        clock.restart(done)
                if save:
                    metrics.flush()
                    if self.first:
                        save_checkpoint(self.folder, done, trainer.state_dict(), self.identity)
                if stop and not last:
                    self.agreement.wait()  # until the first process has saved
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
