"""Models in notebooks: what they consist of, as HTML with inline SVG, and nothing else needed."""

import html


def _size(count):
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000


# Colors that differ for eyes that see red and green alike (Okabe and Ito), again from the start where formats are more.
_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999")


def model_as_html(model):
    """A model's sizes as a table, and the bytes of each layer as a bar, colored by format."""
    tensors = [model[name] for name in model]
    formats = []
    layers = {}
    for tensor in tensors:
        format = tensor.format or "f32"
        if format not in formats:
            formats.append(format)
        bytes_of = layers.setdefault(tensor.layer, {})
        bytes_of[format] = bytes_of.get(format, 0) + tensor.nbytes
    colors = {format: _COLORS[i % len(_COLORS)] for i, format in enumerate(formats)}
    config = model.config
    parameters = sum(_product(tensor.shape) for tensor in tensors)
    sizes = [("architecture", config["architecture"]), ("parameters", f"{parameters:,}"), ("size", _size(sum(t.nbytes for t in tensors))),
             ("layers", config["layers"]), ("width", config["dim"]), ("heads", f"{config['heads']} ({config['kv_heads']} of keys and values)"),
             ("feed-forward", config["ffn"]), ("vocabulary", config["vocab"]), ("context", config["context"])]
    rows = "".join(f"<tr><th style='text-align:left'>{name}</th><td style='text-align:left'>{html.escape(str(value))}</td></tr>"
                   for name, value in sizes)
    legend = " ".join(f"<span style='white-space:nowrap'><span style='color:{colors[format]}'>&#9632;</span> {html.escape(format)}</span>"
                      for format in formats)
    return (f"<div><p><b>{html.escape(repr(model))}</b></p><table>{rows}</table><p>bytes by layer: {legend}</p>"
            f"{_bars(layers, colors)}</div>")


def _product(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def _bars(layers, colors):
    width, label, height = 640, 90, 14
    most = max((sum(parts.values()) for parts in layers.values()), default=0) or 1
    lines = []
    # What belongs to no layer, embeddings and head, has the number -1 and comes first.
    for place, (layer, parts) in enumerate(sorted(layers.items())):
        y = place * height
        name = "embeddings" if layer < 0 else f"layer {layer}"
        lines.append(f"<text x='{label - 6}' y='{y + height - 4}' text-anchor='end'>{name}</text>")
        x = float(label)
        for format, count in parts.items():
            extent = (width - label - 70) * count / most
            title = html.escape(f"{name}: {format}, {_size(count)}")
            lines.append(f"<rect x='{x:.1f}' y='{y + 1}' width='{extent:.1f}' height='{height - 3}' fill='{colors[format]}'>"
                         f"<title>{title}</title></rect>")
            x += extent
        lines.append(f"<text x='{x + 4:.1f}' y='{y + height - 4}'>{_size(sum(parts.values()))}</text>")
    return (f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{len(layers) * height + 2}' font-family='sans-serif' "
            f"font-size='10' fill='currentColor' role='img' aria-label='bytes by layer'>{''.join(lines)}</svg>")
