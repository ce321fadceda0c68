"""Charts, diagrams and terminals as SVG: light and dark, without scripts, the same bytes every time."""

import math
from html import escape

WIDTH, HEIGHT = 860, 420
LEFT, RIGHT, TOP, BOTTOM = 76, 190, 56, 62
# Told apart by the color-blind, too (Okabe and Ito 2008).
COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
STYLE = (
    "<style>.bc{font-family:system-ui,Helvetica,Arial,sans-serif;font-size:13px}.bc text{fill:#222}.bc .paper{fill:#fff}.bc .grid{stroke:#e4e4e4}"
    ".bc .axis{stroke:#555}.bc .soft{fill:#666}.bc .box{fill:#f3f6f9;stroke:#8a97a5}.bc .strong{font-weight:600}.bc .mono{font-family:ui-monospace,Menlo,Consolas,monospace;white-space:pre}"
    + "".join(f".bc .s{i}{{fill:{color}}}.bc .l{i}{{stroke:{color};fill:none;stroke-width:2}}" for i, color in enumerate(COLORS))
    + "@media (prefers-color-scheme:dark){.bc text{fill:#e6e6e6}.bc .paper{fill:#15181d}.bc .grid{stroke:#30353d}.bc .axis{stroke:#9aa4b0}.bc .soft{fill:#a8b0ba}"
    ".bc .box{fill:#20262e;stroke:#5d6a78}.bc .s0{fill:#2f8fdc}.bc .s5{fill:#a4deff}.bc .l0{stroke:#2f8fdc}.bc .l5{stroke:#a4deff}}</style>")


def number(x):
    return f"{x:.2f}".rstrip("0").rstrip(".")


def text(x, y, content, anchor="start", kind="", more=""):
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"{kind}{more}>{escape(content)}</text>'


def line(x1, y1, x2, y2, kind):
    return f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" class="{kind}"/>'


def rect(x, y, width, height, kind, title="", more=""):
    inside = f"><title>{escape(title)}</title></rect>" if title else "/>"
    return f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" class="{kind}"{more}{inside}'


def picture(width, height, described, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" class="bc" role="img" aria-label="{escape(described)}" viewBox="0 0 {number(width)} {number(height)}" '
            f'width="{number(width)}" height="{number(height)}">\n{STYLE}\n<rect width="100%" height="100%" class="paper"/>\n' + "\n".join(parts) + "\n</svg>\n")


class Axis:
    """Where values lie along one side of a frame; logarithmic ones have ticks at 1, 2 and 5 times powers of ten."""

    def __init__(self, values, begin, end, log=False, zero=True):
        low, high = min(values), max(values)
        if log:
            low, high = low / 1.25, high * 1.25
        else:
            low = 0 if zero else low
            high += 0.05 * (high - low)
        self.low, self.high, self.begin, self.end, self.log = low, high, begin, end, log

    def at(self, value):
        share = math.log(value / self.low) / math.log(self.high / self.low) if self.log else (value - self.low) / (self.high - self.low)
        return self.begin + (self.end - self.begin) * share

    def ticks(self):
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            every = [step * 10.0**power for power in powers for step in (1, 2, 5)]
            found = [t for t in every if self.low <= t <= self.high]
            return found if len(found) < 12 else [t for t in found if math.isclose(10 ** round(math.log10(t)), t)]
        rough = (self.high - self.low) / 6
        power = 10 ** math.floor(math.log10(rough))
        step = power * next(s for s in (1, 2, 5, 10) if rough / power <= s)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def tick_text(value):
    return f"{value:.6f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:,.0f}".replace(",", " ")


def chart(title, x_title, y_title, series, *, note="", log_x=False, log_y=False, zero_x=True, lines=False, x_ticks=None):
    """series: [(name, [(x, y, label)])]."""
    points = [point for _, all_points in series for point in all_points]
    x = Axis([p[0] for p in points], LEFT, WIDTH - RIGHT, log_x, zero_x)
    y = Axis([p[1] for p in points], HEIGHT - BOTTOM, TOP, log_y)
    out = [text(LEFT, 24, title, kind="strong", more=' font-size="16"')]
    if note:
        out.append(text(LEFT, 42, note, kind="soft"))
    for tick in y.ticks():
        out += [line(LEFT, y.at(tick), WIDTH - RIGHT, y.at(tick), "grid"), text(LEFT - 8, y.at(tick) + 4, tick_text(tick), "end")]
    for tick in x_ticks or x.ticks():
        out += [line(x.at(tick), HEIGHT - BOTTOM, x.at(tick), HEIGHT - BOTTOM + 5, "axis"), text(x.at(tick), HEIGHT - BOTTOM + 20, tick_text(tick), "middle")]
    out.append(line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis"))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, x_title, "middle"))
    out.append(f'<text transform="translate(20 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">{escape(y_title)}</text>')
    for i, (name, all_points) in enumerate(series):
        if lines:
            path = " ".join(f"{number(x.at(p[0]))},{number(y.at(p[1]))}" for p in all_points)
            out.append(f'<polyline points="{path}" class="l{i}"/>')
        for p in all_points:
            out.append(f'<circle cx="{number(x.at(p[0]))}" cy="{number(y.at(p[1]))}" r="4.5" class="s{i}"><title>{escape(p[2])}</title></circle>')
        at = TOP + 8 + 22 * i
        out += [f'<circle cx="{WIDTH - RIGHT + 20}" cy="{at}" r="5" class="s{i}"/>', text(WIDTH - RIGHT + 32, at + 4, name)]
    described = title + ": " + "; ".join(f"{name}: " + ", ".join(p[2] for p in all_points) for name, all_points in series)
    return picture(WIDTH, HEIGHT, described, out)


def bars(title, x_title, names, rows, *, note=""):
    """rows: [(label, [value of each name], remark)]."""
    row, bar = 16 * len(names) + 14, 14
    left, right = 190, 210
    height = TOP + row * len(rows) + BOTTOM
    x = Axis([value for _, values, _ in rows for value in values], left, WIDTH - right)
    out = [text(20, 24, title, kind="strong", more=' font-size="16"')]
    if note:
        out.append(text(20, 42, note, kind="soft"))
    bottom = TOP + row * len(rows)
    for tick in x.ticks():
        out += [line(x.at(tick), TOP, x.at(tick), bottom, "grid"), text(x.at(tick), bottom + 18, tick_text(tick), "middle")]
    for i, (label, values, remark) in enumerate(rows):
        y = TOP + row * i + 4
        out.append(text(left - 10, y + row / 2, label, "end"))
        for k, value in enumerate(values):
            out.append(rect(left, y + 16 * k, x.at(value) - left, bar, f"s{k}", f"{label}: {names[k]} {value}"))
            out.append(text(x.at(value) + 6, y + 16 * k + 11, tick_text(value) + (f"   {remark}" if k == 0 and remark else ""), more=' font-size="12"'))
    out.append(line(left, TOP, left, bottom, "axis"))
    out.append(text((left + WIDTH - right) / 2, bottom + 42, x_title, "middle"))
    for k, name in enumerate(names):
        out += [rect(WIDTH - 150, 14 + 18 * k, 11, 11, f"s{k}"), text(WIDTH - 134, 24 + 18 * k, name)]
    described = title + ": " + "; ".join(f"{label}: " + ", ".join(f"{n} {v}" for n, v in zip(names, values)) for label, values, _ in rows)
    return picture(WIDTH, height, described, out)


def terminal(title, blocks):
    """blocks: [(command, output)], as they stood in a terminal."""
    lines = []
    for command, output in blocks:
        lines += [("command", part) for part in command.split("\n")]
        lines += [("output", part) for part in output.rstrip("\n").split("\n")] if output else []
    columns = max(len(content) for _, content in lines) + 2
    width, height = max(480, 8.05 * columns + 40), 52 + 18 * len(lines) + 12
    parts = [f'<rect x="4" y="4" width="{number(width - 8)}" height="{number(height - 8)}" rx="8" fill="#1b1f26" stroke="#4a5360"/>']
    parts += [f'<circle cx="{22 + 16 * i}" cy="22" r="5" fill="{color}"/>' for i, color in enumerate(["#d55e00", "#e69f00", "#009e73"])]
    parts.append(f'<text x="{number(width / 2)}" y="27" text-anchor="middle" style="fill:#aab3bf">{escape(title)}</text>')
    for i, (kind, content) in enumerate(lines):
        y = 54 + 18 * i
        # One width a letter, whatever font there is.
        length = f' textLength="{number(8.05 * (len(content) + (2 if kind == "command" else 0)))}"' if content else ""
        if kind == "command":
            continued = i > 0 and lines[i - 1][0] == "command" and lines[i - 1][1].endswith("\\")
            parts.append(f'<text x="20" y="{y}" class="mono" xml:space="preserve"{length} style="fill:#8fd0ff">{escape("  " if continued else "$ ")}{escape(content)}</text>')
        elif content:
            parts.append(f'<text x="20" y="{y}" class="mono" xml:space="preserve"{length} style="fill:#e3e7ec">{escape(content)}</text>')
    described = title + ". " + " ".join(f"$ {command} prints: {output}" for command, output in blocks)
    return picture(width, height, " ".join(described.split()), parts)
