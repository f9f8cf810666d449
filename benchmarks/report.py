#!/usr/bin/env python3
"""Makes a page of what benchmarks/run.sh measured: what is behind a peer first, then a table and a
plot for each suite; of `compile` also what it takes by the number of ops, and of `memory` what is
held over a step.

Usage: report.py FILE... [--out FOLDER] [--name NAME] [--about TEXT]
[--trace NAME=TRACE --peaks GFLOPS,GBS]. FILE: JSON lines (run.sh --json); FOLDER gets NAME.md
(default: performance.md) and NAME/, a plot for each suite (default: the folder of the first file).
TEXT says on what was measured. TRACE: what WEFT_PROFILE wrote; it becomes a plot of the roofline, a
point a kernel or library call. GFLOPS and GBS are the machine's peaks, which weft-prof prints.
"""
import argparse
import collections
import json
import math
import os
import sys

JUDGED = ("weft", "weft-jit")  # as users write it, and jitted
OWN = ("weft", "limit")  # impls that start with these are no peers
COLUMN, ROW, LABEL, BAR = 16, 14, 190, 420  # of a plot, in pixels
WIDTH, HEIGHT, MARGIN = 640, 400, 50  # of one with logarithmic axes
PANEL, PANELS = (210, 130), 3  # size of one of many small plots, and how many stand in a row
MOST_LOST = 8  # calls that a roofline names


def read(files):
    """{(suite, metric, unit, threads): {case: {impl: value}}}, in the order of the files; and of
    what was measured over a step, the same with a list of (seconds, value) for each value."""
    tables, series = collections.OrderedDict(), collections.OrderedDict()
    for path in files:
        with open(path) as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    m = json.loads(line)
                    key = (m["suite"], m["metric"], m["unit"], m["threads"])
                    value = float(m["value"])
                    if "series" in m:
                        value = [(float(seconds), float(then)) for seconds, then in m["series"]]
                    cases = (series if "series" in m else tables).setdefault(
                        key, collections.OrderedDict())
                    cases.setdefault(m["case"], collections.OrderedDict())[m["impl"]] = value
                except (ValueError, KeyError, TypeError) as error:
                    sys.exit(f"{path}:{number}: no measurement as run.sh --json writes it: {error!r}")
    return tables, series


def is_peer(impl):
    """Of Weft in float32: what a peer computes in 16 bits stands in the table alone."""
    return not impl.startswith(OWN) and not impl.endswith("-bfloat16")


def best_peer(values):
    peers = [(value, impl) for impl, value in values.items() if is_peer(impl)]
    return min(peers) if peers else None


def number(value):
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def scaled(value, unit):
    return (value / 1e6, "MB") if unit == "B" else (value, unit)


def compared(cases, impl):
    """Of each case that a peer has: (the value of Weft's impl / the best peer's, case, that peer)."""
    for case, values in cases.items():
        best = best_peer(values)
        if best and impl in values and best[0] > 0 and values[impl] > 0:
            yield values[impl] / best[0], case, best[1]


def judged(cases):
    """Weft's impls that the cases have, with what compared() gives."""
    return {impl: found for impl in JUDGED if (found := list(compared(cases, impl)))}


def rivals(suite, cases):
    """The cases without a peer that does not do what is measured: PyTorch's eager mode compiles
    nothing, so that its first call stands in the table alone."""
    if suite != "compile":
        return cases
    return {case: {impl: value for impl, value in values.items() if impl != "torch-eager"}
            for case, values in cases.items()}


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def table(cases, unit, found):
    """found: what judged() gives."""
    impls = impls_of(cases)
    ratios = {impl: {case: ratio for ratio, case, _ in each} for impl, each in found.items()}
    heads = ["case"] + impls + [f"{impl} / best peer" for impl in ratios]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for case, values in cases.items():
        cells = [case] + [number(scaled(values[i], unit)[0]) if i in values else "" for i in impls]
        cells += [f"{of[case]:.2f}" if case in of else "" for of in ratios.values()]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def opened(width, height, title):
    return [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="11">', f'<text x="4" y="14">{title}</text>']


def legend(impls, name="{}"):
    """{impl: colour}, and what says so, a line each below the title."""
    colour = {impl: f"hsl({360 * i // len(impls)},55%,55%)" for i, impl in enumerate(impls)}
    return colour, [f'<rect x="4" y="{COLUMN * (i + 2) - 9}" width="10" height="10" '
                    f'fill="{colour[impl]}"/><text x="20" y="{COLUMN * (i + 2)}">'
                    f'{name.format(impl)}</text>' for i, impl in enumerate(impls)]


def impls_of(cases):
    return list(dict.fromkeys(impl for values in cases.values() for impl in values))


def written(svg, plots, *words):
    """Writes a plot into the folder `plots`; its name on the page, which lies beside the folder."""
    name = f"{'-'.join(words).replace(' ', '-').replace('/', '-')}.svg"
    with open(os.path.join(plots, name), "w") as file:
        file.write(svg)
    return f"{os.path.basename(plots)}/{name}"


def plot(cases, title):
    """Weft's value divided by each peer's, a bar each; the line is 1: level. Of Weft jitted where it
    was measured."""
    bars = [(case, impl, values[own] / value) for case, values in cases.items()
            for own in [next((i for i in reversed(JUDGED) if i in values), None)] if own
            for impl, value in values.items() if is_peer(impl) and value > 0]
    if not bars:
        return None
    impls = list(dict.fromkeys(impl for _, impl, _ in bars))
    most = max(1.25, min(2.0, max(ratio for _, _, ratio in bars)))
    height = ROW * len(bars) + COLUMN * (len(impls) + 3)
    x = lambda ratio: LABEL + BAR * min(ratio, most) / most
    colour, lines = legend(impls, "Weft / {}")
    svg = opened(LABEL + BAR + 60, height, title) + lines
    y, before = COLUMN * (len(impls) + 2), None
    for case, impl, ratio in bars:
        if case != before:
            svg.append(f'<text x="4" y="{y + 10}">{case}</text>')
        svg.append(f'<rect x="{LABEL}" y="{y + 1}" width="{x(ratio) - LABEL:.1f}" height="{ROW - 2}" '
                   f'fill="{colour[impl]}"/><text x="{x(ratio) + 4:.1f}" y="{y + 11}">{ratio:.2f}</text>')
        y, before = y + ROW, case
    svg.append(f'<line x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{COLUMN * (len(impls) + 2)}" y2="{y}" '
               'stroke="black"/></svg>')
    return "\n".join(svg) + "\n"


def over_steps(cases, title):
    """What is held over a step, a small plot a case: from the step's beginning to the slowest one's
    end, and from nothing to the most."""
    width, height = PANEL
    impls = impls_of(cases)
    colour, lines = legend(impls)
    top = COLUMN * (len(impls) + 2)
    rows = -(-len(cases) // PANELS)
    svg = opened(PANELS * (width + 20) + 20, top + rows * (height + 3 * COLUMN), title) + lines
    for i, (case, series) in enumerate(cases.items()):
        left, upper = 10 + i % PANELS * (width + 20), top + i // PANELS * (height + 3 * COLUMN)
        end = max(seconds for points in series.values() for seconds, _ in points) or 1
        most = max(value for points in series.values() for _, value in points)
        svg.append(f'<text x="{left}" y="{upper + 12}">{case}: {number(most / 1e6)} MB, '
                   f'{number(end)} s</text><rect x="{left}" y="{upper + COLUMN}" width="{width}" '
                   f'height="{height}" fill="none" stroke="#bbb"/>')
        for impl, points in series.items():
            path = " ".join(f"{left + width * seconds / end:.1f},"
                            f"{upper + COLUMN + height * (1 - max(value, 0) / (most or 1)):.1f}"
                            for seconds, value in points)
            svg.append(f'<polyline points="{path}" fill="none" stroke="{colour[impl]}" '
                       f'stroke-width="1.5"><title>{impl}</title></polyline>')
    return "\n".join(svg + ["</svg>"]) + "\n"


class Logarithmic:
    """A plot with logarithmic axes, from a power of ten to another one."""

    def __init__(self, across, up):
        """The values that are to be in it."""
        self.low, self.high = self.decades(across)
        self.bottom, self.top = self.decades(up)

    @staticmethod
    def decades(values):
        low = math.floor(math.log10(min(values)))
        return 10.0 ** low, 10.0 ** max(math.ceil(math.log10(max(values))), low + 1)

    @staticmethod
    def scaled(value, low, high, length):
        return length * math.log(value / low) / math.log(high / low)

    def x(self, value):
        return MARGIN + self.scaled(value, self.low, self.high, WIDTH - 2 * MARGIN)

    def y(self, value):
        return HEIGHT - MARGIN - self.scaled(value, self.bottom, self.top, HEIGHT - 2 * MARGIN)

    def frame(self, title, across, up, room=0):
        """Title, axes and grid; `room` to the right of it."""
        svg = opened(WIDTH + room, HEIGHT, title)
        svg += [f'<text x="{WIDTH // 2 - 60}" y="{HEIGHT - 8}">{across}</text>',
                f'<text x="4" y="{MARGIN - 14}">{up}</text>']
        powers = lambda a, b: [10.0 ** k
                               for k in range(round(math.log10(a)), round(math.log10(b)) + 1)]
        for v in powers(self.low, self.high):
            x = self.x(v)
            svg.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{MARGIN}" y2="{HEIGHT - MARGIN}" '
                       f'stroke="#ddd"/><text x="{x - 8:.0f}" y="{HEIGHT - MARGIN + 14}">{v:g}'
                       '</text>')
        for v in powers(self.bottom, self.top):
            y = self.y(v)
            svg.append(f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y:.0f}" y2="{y:.0f}" '
                       f'stroke="#ddd"/><text x="4" y="{y + 4:.0f}">{v:g}</text>')
        return svg


def by_size(sizes, cases, title):
    """Each case at its number of ops and its time, of each impl."""
    points = [(sizes[case]["weft"], value, impl, case) for case, values in cases.items()
              if sizes.get(case, {}).get("weft", 0) > 0
              for impl, value in values.items() if value > 0]
    if not points:
        return None
    axes = Logarithmic([p[0] for p in points], [p[1] for p in points])
    colour, lines = legend(impls_of(cases))
    svg = axes.frame(title, "ops", "s", room=LABEL - MARGIN)
    svg += [f'<g transform="translate({WIDTH - MARGIN + 10},0)">', *lines, "</g>"]
    svg += [f'<circle cx="{axes.x(ops):.1f}" cy="{axes.y(value):.1f}" r="3" fill="{colour[impl]}">'
            f'<title>{impl}: {case}</title></circle>' for ops, value, impl, case in points]
    return "\n".join(svg + ["</svg>"]) + "\n"


def calls_of(path):
    """The kernels and library calls of a trace, one of each symbol and type: the fastest, with how
    much time all of them took."""
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    calls = {}
    for event in events:
        args = event.get("args", {})
        if event.get("cat") in ("kernel", "library") and args.get("flops") and args.get("bytes") \
                and event["dur"] > 0:
            key = (event["name"], args.get("types"))
            call = calls.setdefault(key, {"name": event["name"], "flops": args["flops"],
                                          "bytes": args["bytes"], "least": math.inf, "us": 0.0})
            call["least"] = min(call["least"], event["dur"])
            call["us"] += event["dur"]
    return list(calls.values())


def roofline(calls, gflops, gbs, title):
    """Each call at its operations per byte and its GFLOP/s, as large as its share of the time; the
    line is what the machine can do."""
    at = lambda call: (call["flops"] / call["bytes"], call["flops"] / call["least"] / 1e3)
    points = [at(call) for call in calls]
    across = [p[0] for p in points] + [gflops / gbs]
    low, high = Logarithmic.decades(across)
    axes = Logarithmic(across, [p[1] for p in points] + [gflops, low * gbs])
    svg = axes.frame(title, "operations per byte", "GFLOP/s")
    roof = lambda v: min(gflops, v * gbs)
    path = " ".join(f"{axes.x(v):.1f},{axes.y(roof(v)):.1f}"
                    for v in (low, gflops / gbs, high))
    svg.append(f'<polyline points="{path}" fill="none" stroke="black"/>')
    total = sum(call["us"] for call in calls)
    for call, (intensity, speed) in zip(calls, points):
        radius = 2 + 20 * math.sqrt(call["us"] / total)
        colour = "hsl(210,60%,50%)" if call["name"].startswith("weft_") else "hsl(30,80%,50%)"
        svg.append(f'<circle cx="{axes.x(intensity):.1f}" cy="{axes.y(speed):.1f}" '
                   f'r="{radius:.1f}" fill="{colour}" fill-opacity="0.4"><title>{call["name"]}'
                   '</title></circle>')
    svg.append("</svg>")
    return "\n".join(svg) + "\n"


def roofline_section(name, calls, peaks, plots):
    title = f"{name}: kernels (blue), library calls (orange)"
    file_name = written(roofline(calls, *peaks, title), plots, "roofline", name)
    gflops, gbs = peaks
    lines = ["", f"## Roofline of {name}", "", f"Peaks: {number(gflops)} GFLOP/s, {number(gbs)} GB/s. "
             "A point is a kernel or library call at its best, as large as its share of the time.", "",
             f"![{title}]({file_name})", "", "| of the time | of the roof | kernel or library call |",
             "|---|---|---|"]
    total = sum(call["us"] for call in calls)
    for call in sorted(calls, key=lambda c: -c["us"])[:MOST_LOST]:
        least = max(call["flops"] / gflops, call["bytes"] / gbs) / 1e3
        lines.append(f"| {100 * call['us'] / total:.0f} % | {100 * least / call['least']:.0f} % | "
                     f"{call['name']} |")
    return lines


def page(tables, series, plots, about="", traces=(), peaks=None):
    lines = ["# Performance", "", "Made by `benchmarks/report.py` from one run of `benchmarks/run.sh`. "
             "Less is better; ratios compare, times of other machines do not.", ""]
    if about:
        lines += [about, ""]
    lines += ["## Behind a peer", ""]
    lost = [(ratio, suite, metric, threads, case, peer, impl)
            for (suite, metric, _, threads), cases in tables.items()
            for impl, found in judged(rivals(suite, cases)).items()
            for ratio, case, peer in found if ratio > 1]
    if lost:
        lines += ["| suite | case | threads | Weft / best peer | peer | of Weft's |",
                  "|---|---|---|---|---|---|"]
        lines += [f"| {suite}, {metric} | {case} | {threads} | {ratio:.2f} | {peer} | {impl} |"
                  for ratio, suite, metric, threads, case, peer, impl in sorted(lost, reverse=True)]
    else:
        lines.append("Nothing.")
    for (suite, metric, unit, threads), cases in tables.items():
        title = f"{suite}, {metric} in {scaled(0, unit)[1]}, {threads} threads"
        lines += ["", f"## {title}", ""]
        found = judged(rivals(suite, cases))
        for impl, each in found.items():
            ratios = [ratio for ratio, _, _ in each]
            lines += [f"{impl} / best peer: geometric mean {mean(ratios):.2f} of {len(ratios)} cases, "
                      f"behind in {sum(r > 1 for r in ratios)}.", ""]
        if drawn := plot(rivals(suite, cases), title):
            lines += [f"![{title}]({written(drawn, plots, suite, metric, str(threads))})", ""]
        sizes = tables.get((suite, "count", "ops", threads))
        if suite == "compile" and metric == "time" and sizes and (
                drawn := by_size(sizes, cases, f"{title}, by ops that the call records")):
            lines += [f"![by ops]({written(drawn, plots, suite, 'by ops', str(threads))})", ""]
        lines += table(cases, unit, found)
    for (suite, metric, unit, threads), cases in series.items():
        title = f"{suite}, {metric}, {threads} threads"
        drawn = over_steps(cases, title)
        lines += ["", f"## {title}", "", "Of Weft, what is live: parameters, what the optimizer "
                  "keeps, the batch, and what the plan of the step says of each instruction, which "
                  "stand equally far from each other. Of others, what the process has above what "
                  "it had before the model was made.", "",
                  f"![{title}]({written(drawn, plots, suite, metric, str(threads))})"]
    for name, calls in traces:
        lines += roofline_section(name, calls, peaks, plots)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--out", metavar="FOLDER")
    parser.add_argument("--name", default="performance")
    parser.add_argument("--about", metavar="TEXT", default="")
    parser.add_argument("--trace", action="append", default=[], metavar="NAME=TRACE")
    parser.add_argument("--peaks", metavar="GFLOPS,GBS")
    given = parser.parse_args()
    if given.trace and not given.peaks:
        parser.error("--trace needs --peaks=GFLOPS,GBS, which weft-prof TRACE prints")
    try:
        peaks = tuple(map(float, given.peaks.split(","))) if given.peaks else None
        if peaks is not None and (len(peaks) != 2 or min(peaks) <= 0):
            raise ValueError
    except ValueError:
        parser.error(f"--peaks is {given.peaks}; it must be two numbers above 0: GFLOPS,GBS")
    traces = []
    for each in given.trace:
        name, equals, path = each.partition("=")
        if not (name and equals and path):
            parser.error(f"--trace is {each}; it must be NAME=TRACE")
        traces.append((name, calls_of(path)))
        if not traces[-1][1]:
            parser.error(f"{path} has no kernel and no library call with flops and bytes")
    folder = given.out or os.path.dirname(os.path.abspath(given.files[0]))
    plots = os.path.join(folder, given.name)
    os.makedirs(plots, exist_ok=True)
    text = page(*read(given.files), plots, given.about, traces, peaks)
    with open(plots + ".md", "w") as file:
        file.write(text)
    print(plots + ".md")


if __name__ == "__main__":
    main()
