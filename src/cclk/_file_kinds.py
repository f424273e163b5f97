"""What a path that is not a readable table is, and how to make one of it."""

from __future__ import annotations

from pathlib import Path

_ARRAYS = "numpy.savez('data.npz', x=..., y=..., condition=...)"
_KINDS = {
    (".tsv", ".tab"): "a table separated by tabs: rename it to .csv, tabs are detected",
    (".txt", ".dat"): "a text file: if it is a table, rename it to .csv",
    (".h5ad",): (
        "an AnnData file: join adata.obs and a frame of adata.obsm['X_pca'] or adata.X, write it"
        " with to_parquet, and pass the .parquet file"
    ),
    (".h5", ".hdf5", ".mat", ".nc", ".zarr", ".npy"): (
        f"a file of arrays: read it in Python and save it with {_ARRAYS}"
    ),
    (".xlsx", ".xls", ".ods"): "a spreadsheet: save it as .csv",
    (".json", ".jsonl", ".feather", ".arrow", ".dta", ".sav", ".sas7bdat", ".db", ".sqlite"): (
        "not read by cclk: read it with pandas and write it with to_parquet"
    ),
    (".pkl", ".pickle", ".pt", ".pth", ".rds"): (
        "a file of objects, which can run code and is not opened: write a .parquet or .npz file"
        " with the program that wrote it"
    ),
    (".gz", ".zip", ".tar", ".tgz", ".bz2", ".xz", ".zst", ".7z"): "compressed: unpack it first",
    (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".jp2"): (
        "an image: pass a .csv file with a column of the paths of all images"
    ),
}


def other_kind(name: str) -> str:
    """Return what a path is, and what to do with it; "" if it is not that of a file or folder.

    Args:
        name: What was passed as a table.

    Example:
        >>> other_kind("cells.tsv")
        'cells.tsv is a table separated by tabs: rename it to .csv, tabs are detected'
        >>> other_kind("cifar-10")
        ''
    """
    try:
        path = Path(name).expanduser()
        suffix = path.suffix.lower()
        if path.is_dir() and suffix != ".zarr":
            return (
                f"{name} is a folder: pass a .csv or .parquet file with one row per sample; for"
                " images, it needs a column of their paths, relative to the file"
            )
        is_file = path.is_file()
    except (OSError, ValueError, RuntimeError):  # a name that no file, or no home, can have
        return ""
    if suffix in (".csv", ".parquet", ".npz"):
        return f"{name} ends in {path.suffix}: rename it to {suffix}"
    for suffixes, kind in _KINDS.items():
        if suffix in suffixes:
            return f"{name} is {kind}"
    return f"{name} is not a .csv, .parquet or .npz file: convert it to one" if is_file else ""
