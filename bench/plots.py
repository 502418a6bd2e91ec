"""The plots of a run, each as PNG and as SVG, drawn from what the sections noted.

Colours are Okabe and Ito's, which people with any kind of colour vision tell apart; each system has
a mark of its own as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import NDArray

Series = dict[str, Any]


class Look(NamedTuple):
    colour: str
    mark: str


LOOKS = {
    "triegs": Look("#0072B2", "o"),
    "Polars again": Look("#E69F00", "s"),
    "DuckDB again": Look("#009E73", "D"),
    "DuckDB delta SQL": Look("#D55E00", "^"),
    "dict delta join": Look("#CC79A7", "v"),
    "pyoxigraph": Look("#555555", "X"),
}
STYLE = {
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "svg.hashsalt": "triegs",
    "svg.fonttype": "none",
}
WIDTH = 9.0
BLUE = LOOKS["triegs"].colour
#: Of growing results, from light to dark.
SHADES = (("#56B4E9", "-"), ("#E69F00", "-"), ("#009E73", "-"), ("#333333", "-"))


def draw_consumers(series: Series) -> Figure:
    """Milliseconds for a slide, a panel for each consumer and a line for each workload."""
    consumers = {
        "full result": "Full result after each slide",
        "changes": "Changes of each slide",
        "count": "Number of answers after each slide",
        "nothing": "Nothing read",
    }
    workloads = list(series)
    figure = Figure(figsize=(WIDTH, 5.8), layout="constrained")
    axes: Any = figure.subplots(2, 2, sharey=True)
    for axis, (consumer, title) in zip(axes.flat, consumers.items(), strict=True):
        for system, look in LOOKS.items():
            points = [
                (1e3 * series[name][consumer][system], place)
                for place, name in enumerate(workloads)
                if system in series[name].get(consumer, {})
            ]
            if points:
                x, y = zip(*points, strict=True)
                size = 62 if system == "triegs" else 36
                axis.scatter(x, y, size, look.colour, marker=look.mark, label=system, zorder=3)
        axis.set_title(title)
        _log(axis, "x")
        axis.set_yticks(range(len(workloads)), workloads)
        axis.set_ylim(len(workloads) - 0.5, -0.5)
    for axis in axes[-1]:
        axis.set_xlabel("milliseconds a slide (less is better)")
    _legend(figure, axes.flat, 6)
    return figure


def draw_breakeven(series: Series) -> Figure:
    """Cost of a slide by the number of full reads that come with it."""
    figure = Figure(figsize=(WIDTH, 3.9), layout="constrained")
    axis: Any = figure.subplots()
    rates = np.geomspace(1 / 500, 20, 100)
    ours = series["systems"]["triegs"]
    for system, found in series["systems"].items():
        look = LOOKS[system]
        line = 1e3 * (found["taking"] + rates * found["reading"])
        axis.plot(rates, line, color=look.colour)
        x, y = np.array(found["measured"]).T
        axis.plot(x, 1e3 * y, look.mark, color=look.colour, label=system)
        saved = found["reading"] - ours["reading"]
        if saved > 0 and ours["taking"] > found["taking"]:
            reads = (ours["taking"] - found["taking"]) / saved
            if rates[0] < reads < rates[-1]:
                cost = 1e3 * (ours["taking"] + reads * ours["reading"])
                axis.plot(reads, cost, "o", markersize=13, fillstyle="none", color="black")
                # The two rings may be close: one text stands above, the other below.
                is_first = system == "Polars again"
                axis.annotate(
                    f"even with {system.split()[0]} at {reads:.2g}", (reads, cost),
                    (9, -9) if is_first else (-9, 9), textcoords="offset points",
                    va="top" if is_first else "bottom", ha="left" if is_first else "right",
                )  # fmt: skip
    _log(axis, "x")
    _log(axis, "y")
    axis.set_xlabel("full reads for each slide")
    axis.set_ylabel("milliseconds a slide")
    axis.set_title(f"{series['workload']}: keeping the answers, or joining again for each read")
    axis.legend(loc="upper left")
    return figure


def draw_share(series: Series) -> Figure:
    """Cost of a slide by the share of answers that it changes."""
    points = series["slide"]
    share = 100 * np.array(points["changes"]) / np.array(points["answers"])
    lines = {
        "triegs, changes": ("triegs", "-", "triegs, changes"),
        "triegs, full result": ("triegs", ":", "triegs, full result"),
        "DuckDB delta SQL, changes": ("DuckDB delta SQL", "-", "DuckDB delta SQL"),
        "dict delta join, changes": ("dict delta join", "-", "dict delta join"),
        "Polars again, full result": ("Polars again", ":", "Polars again, full result"),
    }
    figure = Figure(figsize=(WIDTH, 3.9), layout="constrained")
    axis: Any = figure.subplots()
    for line, (system, style, label) in lines.items():
        if line in points["ms"]:
            look = LOOKS[system]
            fill = "full" if style == "-" else "none"
            axis.plot(
                share, points["ms"][line], style, marker=look.mark, color=look.colour,
                fillstyle=fill, label=label,
            )  # fmt: skip
    _log(axis, "x")
    _log(axis, "y")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}%"))
    axis.set_xlabel("changed answers of a slide, in percent of all answers")
    axis.set_ylabel("milliseconds a slide")
    axis.set_title("path3 f8: changes, or the full result, as slides grow")
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_sweeps(series: Series) -> Figure:
    """Slides per second as one thing varies, and updates per second by the size of epochs."""
    lines = {
        "triegs, nothing": ("triegs", "--", "triegs, nothing read"),
        "triegs, changes": ("triegs", "-", "triegs, changes"),
        "triegs, full result": ("triegs", ":", "triegs, full result"),
        "DuckDB delta SQL, changes": ("DuckDB delta SQL", "-", "DuckDB delta SQL, changes"),
        "dict delta join, changes": ("dict delta join", "-", "dict delta join, changes"),
        "Polars again, full result": ("Polars again", ":", "Polars again, full result"),
        "DuckDB again, full result": ("DuckDB again", ":", "DuckDB again, full result"),
    }
    figure = Figure(figsize=(WIDTH, 5.8), layout="constrained")
    axes: Any = figure.subplots(2, 3)
    for axis, name in zip(axes.flat, ("window", "slide", "fan-out", "skew"), strict=False):
        points = series[name]
        for line, (system, style, label) in lines.items():
            if line in points["ms"]:
                look = LOOKS[system]
                rate = 1e3 / np.array(points["ms"][line])
                axis.plot(
                    points["x"], rate, style, marker=look.mark, color=look.colour, label=label,
                    markersize=4.5, fillstyle="none" if style == ":" else "full",
                )  # fmt: skip
        if name != "skew":
            _log(axis, "x")
        if name == "fan-out":
            axis.set_xticks(points["x"], [f"{x:g}" for x in points["x"]])
        _log(axis, "y")
        axis.set_title(name)
        axis.set_xlabel(points["axis"])
        axis.set_ylabel("slides/s")
    axis, empty = axes.flat[4:]
    for form, rates in series["batch"]["rate"].items():
        style, mark = ("-", "o") if form == "Arrow" else ("-.", "P")
        axis.plot(
            series["batch"]["x"], rates, style, marker=mark, markersize=4.5, color=BLUE, label=form
        )
    axis.legend(loc="lower right")
    _log(axis, "x")
    _log(axis, "y")
    axis.set_title("batch (triegs)")
    axis.set_xlabel(series["batch"]["axis"])
    axis.set_ylabel("updates/s")
    empty.axis("off")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    empty.legend(handles, labels, loc="center", fontsize=9)
    return figure


def draw_readers(series: Series) -> Figure:
    """Throughput of the updater and of all readers, and what a held snapshot retains."""
    figure = Figure(figsize=(WIDTH, 3.1), layout="constrained")
    axes: Any = figure.subplots(1, 3)
    updater, readers, held = axes
    threads = series["readers"]
    processes = [threads[0], *series["processes"]] if series["processes"] else []
    panels = (
        (updater, "updates", "Updater", "M updates/s"),
        (readers, "rows", "All readers", "M rows/s"),
    )
    for axis, key, title, unit in panels:
        for kind, look, shown in (("threads", "o-", threads), ("processes", "s--", processes)):
            points = [(each["count"], each[key] / 1e6) for each in shown if each[key]]
            if points:
                axis.plot(*zip(*points, strict=True), look, color=BLUE, label=kind)
        axis.set_xticks([each["count"] for each in threads])
        axis.set_xlabel("readers of the full result at once")
        axis.set_ylabel(unit)
        axis.set_title(title)
    updater.set_ylim(bottom=0)
    updater.legend(loc="lower left")
    readers.set_yscale("log")
    ages = [pin["age"] for pin in series["pins"]]
    retained = [pin["retained"] / 1e6 for pin in series["pins"]]
    held.plot(ages, retained, "o-", color=BLUE, label="for the snapshot")
    live = [pin["live"] / 1e6 for pin in series["pins"]]
    held.plot(ages, live, "--", color="#555555", label="live state")
    _log(held, "x")
    held.set_ylim(bottom=0)
    held.set_xlabel("epochs for which it is held")
    held.set_ylabel("MB")
    held.set_title("Retained by a snapshot")
    held.legend(loc="lower right")
    return figure


def draw_delay(series: Series) -> Figure:
    """Histograms of the gaps, a line for each size of the result; the tail is on a log scale."""
    forms = series["forms"]
    queries = list(dict.fromkeys(name.partition(", ")[0] for name in forms))
    kinds = list(dict.fromkeys(name.partition(", ")[2] for name in forms))
    figure = Figure(figsize=(WIDTH, 3.0 * len(queries)), layout="constrained")
    axes: Any = figure.subplots(len(queries), len(kinds), squeeze=False)
    bins = np.array(series["bins"])[::2] * 1e6
    for row, query in zip(axes, queries, strict=True):
        for axis, kind in zip(row, kinds, strict=True):
            sizes = forms[f"{query}, {kind}"]
            if not sizes:
                axis.axis("off")
                continue
            for size, (shade, dash) in zip(sizes, SHADES, strict=False):
                counts = _merge(size["counts"])
                share = 100 * counts / counts.sum()
                label = f"{_shorten(size['answers'])} answers"
                axis.stairs(share, bins, color=shade, label=label, linestyle=dash, linewidth=1.5)
            seen = np.flatnonzero(sum(_merge(size["counts"]) for size in sizes))
            _log(axis, "x")
            _log(axis, "y")
            axis.set_xlim(bins[max(seen[0] - 2, 0)], bins[min(seen[-1] + 3, len(bins) - 1)])
            axis.set_ylim(top=300)
            axis.legend(fontsize=7.5, loc="upper right", handlelength=2.4, labelspacing=0.2)
            axis.set_title(f"{query}, {kind}", fontsize=9.5)
            axis.set_xlabel("µs from one to the next")
        row[0].set_ylabel("% of the gaps")
    return figure


def draw_reasoning(series: Series) -> Figure:
    """Milliseconds from arrival to publication of a batch, by the rate at which events arrive."""
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    axis: Any = figure.subplots()
    rates = np.array(series["rate"]) / 1e3
    for name, shade, mark in (("p50", BLUE, "o"), ("p99", LOOKS["Polars again"].colour, "s")):
        axis.plot(rates, series[name], color=shade, marker=mark, label=name)
    axis.axvline(series["capacity"] / 1e3, color="#555555", linestyle="--", label="saturation")
    _log(axis, "y")
    axis.set_xlabel("thousand events per second offered")
    axis.set_ylabel("ms")
    axis.set_ylim(bottom=0.8 * min(series["p50"]))
    axis.legend(loc="upper left")
    return figure


def draw_scaling(series: Series) -> Figure:
    """Speedup by cores, a panel for each mix: points are measured, lines are simulated."""
    mixes = series["mixes"]
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    panels = figure.subplots(1, len(mixes), sharey=True, squeeze=False)[0]
    lines = (
        ("inline", "LPT", "-"),
        ("round-robin", "round robin", ":"),
        ("hybrid", "hybrid", "--"),
    )
    for axis, (mix, found) in zip(panels, mixes.items(), strict=True):
        for (name, title, dash), (shade, _) in zip(lines, SHADES, strict=False):
            cores = sorted(int(number) for number in found[name])
            values = [found[name].get(number, found[name].get(str(number))) for number in cores]
            axis.plot(cores, values, dash, color=shade, label=f"{title}, simulated")
        points = sorted((int(cores), value) for cores, value in found["measured"].items())
        axis.plot(*zip(*points, strict=True), "o", color=BLUE, label="LPT, measured", zorder=3)
        axis.set_title(mix)
        axis.set_xlabel("cores")
    panels[0].set_ylabel("speedup over one core")
    _legend(figure, panels, 4)
    return figure


#: File name, the section that it is drawn from, and how.
PLOTS: dict[str, tuple[str, Callable[[Series], Figure]]] = {
    "consumers": ("consumers", draw_consumers),
    "breakeven": ("breakeven", draw_breakeven),
    "share": ("sweeps", draw_share),
    "sweeps": ("sweeps", draw_sweeps),
    "readers": ("readers", draw_readers),
    "delay": ("delay", draw_delay),
    "reasoning": ("reasoning", draw_reasoning),
    "scaling": ("lanes", draw_scaling),
}


def draw_plots(folder: Path, series: dict[str, Series]) -> list[Path]:
    """Every plot whose section is there; the files written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    style: Any = STYLE
    with mpl.rc_context(style):
        for name, (section, draw) in PLOTS.items():
            if not series.get(section):
                continue
            figure = draw(series[section])
            for ending, options in (("png", {"dpi": 150}), ("svg", {"metadata": {"Date": None}})):
                path = folder / f"{name}.{ending}"
                figure.savefig(path, **options)
                written.append(path)
    return written


def _legend(figure: Figure, axes: Iterable[Any], columns: int) -> None:
    """One legend above all panels, each name once."""
    pairs = chain.from_iterable(
        zip(*axis.get_legend_handles_labels(), strict=True) for axis in axes
    )
    found = {label: handle for handle, label in pairs}
    names = [*(name for name in LOOKS if name in found), *(n for n in found if n not in LOOKS)]
    handles = [found[name] for name in names]
    figure.legend(handles, names, loc="outside upper left", ncols=columns)


def _merge(counts: list[int]) -> NDArray[np.float64]:
    """Two bins into one: fine enough to see, coarse enough to read."""
    merged: NDArray[np.float64] = np.array(counts, float).reshape(-1, 2).sum(axis=1)
    return merged


def _log(axis: Any, side: str) -> None:
    """A logarithmic axis with plain numbers on it."""
    getattr(axis, f"set_{side}scale")("log")
    ruler = getattr(axis, f"{side}axis")
    ruler.set_major_formatter(FuncFormatter(lambda value, _: _shorten(value)))
    ruler.set_minor_formatter(NullFormatter())


def _shorten(value: float) -> str:
    """
    >>> _shorten(12_345), _shorten(1_078_528), _shorten(0.01)
    ('12k', '1.1M', '0.01')
    """
    for scale, unit in ((1e6, "M"), (1e3, "k")):
        if value >= scale:
            digits = f"{value / scale:.2g}" if value < 100 * scale else f"{value / scale:.0f}"
            return f"{digits}{unit}"
    return f"{value:g}"
