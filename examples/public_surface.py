"""The public surface in sixty lines: `python -m examples.public_surface`.

Losses in a loop of one's own, kernels on named columns, diagnosis, training, evaluation, embedding,
export, report, and the scikit-learn estimator, on data that are made up in a second.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import cclk
from cclk import kernels


def loop(people: pd.DataFrame) -> None:
    """Every loss on two views of embeddings, with the condition as a data frame."""
    x, y = torch.randn(2, len(people), 8).requires_grad_()
    kernel = (kernels.RBF("age") * kernels.Delta("site")).fit(people, batch_size=len(people))
    either = kernels.Laplacian("age") + kernels.Delta("site")
    losses = [
        cclk.FairCCLK(kernel, temperature=0.2, weights="nw"),
        cclk.WeaklySupCCLK(either.fit(people, batch_size=len(people))),
    ]
    total = sum((loss(x, y, people) for loss in losses), torch.zeros(()))
    total = total + cclk.HardNegCCLK(kernels.Cosine())(x, y)
    clusters = torch.tensor(np.digitize(people["age"], [35, 50, 65]))
    for baseline in (cclk.FairInfoNCE(temperature=0.2), cclk.WeaklySupInfoNCE(temperature=0.2)):
        total = total + baseline(x, y, clusters)
    total = total + cclk.InfoNCE(temperature=0.2)(x, y) + cclk.HardNegInfoNCE(beta=0.5)(x, y)
    total = total + cclk.LeakagePenalty()(x, people)
    total.backward()
    print(kernel, f"{float(total.detach()):.2f}")
    print(cclk.diagnose(cclk.FairCCLK(kernel), people))
    print(cclk.conditional_weights(kernel, people, 0.01).shape)
    eraser = cclk.LinearEraser()
    print(eraser.fit_transform(x.detach().numpy(), sensitive_features=people).shape)


def main() -> None:
    random = np.random.default_rng(0)
    age, site = random.uniform(20, 80, 400), random.choice(["Bonn", "Oslo"], 400)
    people = pd.DataFrame({"age": age, "site": site})
    features = pd.DataFrame(random.normal(size=(400, 4)) + age[:, None] / 40, columns=list("abcd"))
    table = people.assign(ill=random.integers(0, 2, 400)).join(features)
    loop(people)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table.to_csv(folder / "people.csv", index=False)
        for finding in cclk.check(folder / "people.csv", features=list("abcd"), condition="age"):
            print(finding.level, finding.text)
        run = cclk.train(
            folder / "people.csv", features=list("abcd"), condition=["age", "site"], label="ill",
            method="fair-cclk", steps=20, out=folder / "run", quiet=True,
        )  # fmt: skip
        evaluation = run.evaluate(bootstrap=100, quiet=True)
        print(evaluation.encoder.leakage["age"].worst, evaluation.encoder.accuracy.knn)
        print(run.embed(folder / "people.csv").shape, run.export("safetensors").name)
        print(run.report(folder / "report.html").name, cclk.load(folder / "run").width)
    encoder = cclk.ConditionalEncoder(steps=20)
    print(encoder.fit_transform(features, sensitive_features=people).shape)


if __name__ == "__main__":
    main()
