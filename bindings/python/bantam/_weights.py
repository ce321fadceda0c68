"""Single matrices in a format."""

from . import _bantam
from ._options import QuantizeOptions, takes, text_of


@takes(QuantizeOptions)
def quantize(values, format, **options):
    """A matrix of numbers (rows, columns) in a format by name, rounded to nearest. Returns Weights."""
    return _bantam.quantize(values, text_of("format", format), **options)
