"""Writes the options of compression with their types into the package, from the library's table: write_options.py PACKAGE

Type checkers and editors want them as text. PACKAGE is the folder that the module was built into.
"""

import sys
from pathlib import Path

package = Path(sys.argv[1])
sys.path.insert(0, str(package))
import _bantam  # noqa: E402

# A kind's type, and what Python takes besides.
KINDS = {
    "flag": ("bool", ""),
    "integer": ("int", ""),
    "seed": ("Optional[int]", " (a seed)"),
    "number": ("Optional[float]", ""),
    "choice": ("str", ""),
    "format": ("Union[str, Callable[..., Optional[str]]]", ", or a callable that is given a Layer and returns a name (None: the usual one)"),
    "text": ("Optional[str]", ""),
    "texts": ("Union[str, Sequence[str], None]", "; one or a list"),
    "adapters": ("Union[str, os.PathLike, Sequence[str], None]", "; one or a list"),
    "exceptions": ("Optional[Mapping[str, str]]", " ({pattern: format})"),
    "file": ("Union[str, os.PathLike, None]", ""),
    "corpus": ("Any", " (a path or a Corpus)"),
    "importance": ("Union[str, os.PathLike, None]", ""),
}


def line_of(row):
    kind, more = KINDS[row["kind"]]
    default = row["initial"] or None
    if row["kind"] == "flag":
        default = row["initial"] == "on"
    elif row["kind"] == "integer":
        default = int(default)
    words = "; one of " + ", ".join(row["words"]) if row["words"] else ""
    bounds = f", {row['low']}, {row['high']}" if row["kind"] in ("integer", "seed") else ""
    return f"    {row['name']}: Annotated[{kind}, Option({default!r}, {row['meaning'] + words + more!r}{bounds})]\n"


# The method is an argument of its own.
rows = [row for row in _bantam.compress_options() if row["name"] != "method"]
(package / "_compress_options.py").write_text('''"""The options of compression, as write_options.py makes them from the library's table."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Optional, Union

from ._options import CompressCallbacks, Option


class CompressOptions(CompressCallbacks, total=False):
    """How a model is made smaller."""

''' + "".join(line_of(row) for row in rows if not row["of_files"]) + '''

class CompressFileOptions(CompressOptions, total=False):
    """The same, from file to file."""

''' + "".join(line_of(row) for row in rows if row["of_files"]))
