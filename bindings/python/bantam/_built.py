"""Refuses to go on, in plain words, where the compiled module is missing. Imported before everything that needs it."""

import importlib.util
import pathlib
import sys

if importlib.util.find_spec("._bantam", __package__) is None:
    folder = pathlib.Path(__file__).parent
    others = sorted(path.name for path in folder.glob("_bantam*.so"))
    if others:
        why = f"{others[0]} is for another Python than this {sys.version_info.major}.{sys.version_info.minor} ({sys.executable})"
    else:
        why = "its compiled module _bantam is not built: cmake --build --preset release --target bantam-python"
    raise ImportError(f"bantam: {folder}: {why}", name="bantam._bantam", path=str(folder))
