#!/usr/bin/env python3
"""Makes a page of what benchmarks/run.sh measured: what is behind a peer first, then a table and a
plot for each suite.

Usage: report.py FILE... [--out FOLDER]. FILE: JSON lines (run.sh --json); FOLDER gets performance.md
and a plot for each suite (default: the folder of the first file).
"""
import argparse
import collections
import json
import math
import os
import sys

JUDGED = "weft"
OWN = ("weft", "limit")  # impls that start with these are no peers
COLUMN, ROW, LABEL, BAR = 16, 14, 190, 420  # of a plot, in pixels


def read(files):
    """{(suite, metric, unit, threads): {case: {impl: value}}}, in the order of the files."""
    tables = collections.OrderedDict()
    for path in files:
        with open(path) as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    m = json.loads(line)
                    key = (m["suite"], m["metric"], m["unit"], m["threads"])
                    cases = tables.setdefault(key, collections.OrderedDict())
                    cases.setdefault(m["case"], collections.OrderedDict())[m["impl"]] = float(m["value"])
                except (ValueError, KeyError, TypeError) as error:
                    sys.exit(f"{path}:{number}: no measurement as run.sh --json writes it: {error!r}")
    return tables


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


def compared(cases):
    """Of each case that a peer has: (Weft's value / the best peer's, case, that peer)."""
    for case, values in cases.items():
        best = best_peer(values)
        if best and JUDGED in values and best[0] > 0 and values[JUDGED] > 0:
            yield values[JUDGED] / best[0], case, best[1]


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def table(cases, unit):
    impls = list(dict.fromkeys(impl for values in cases.values() for impl in values))
    lines = ["| case | " + " | ".join(impls) + " | Weft / best peer |",
             "|---" * (len(impls) + 2) + "|"]
    ratios = {case: ratio for ratio, case, _ in compared(cases)}
    for case, values in cases.items():
        cells = [number(scaled(values[i], unit)[0]) if i in values else "" for i in impls]
        ratio = f"{ratios[case]:.2f}" if case in ratios else ""
        lines.append(f"| {case} | " + " | ".join(cells) + f" | {ratio} |")
    return lines


def plot(cases, title):
    """Weft's value divided by each peer's, a bar each; the line is 1: level."""
    bars = [(case, impl, values[JUDGED] / value) for case, values in cases.items()
            if JUDGED in values for impl, value in values.items() if is_peer(impl) and value > 0]
    if not bars:
        return None
    impls = list(dict.fromkeys(impl for _, impl, _ in bars))
    most = max(1.25, min(2.0, max(ratio for _, _, ratio in bars)))
    height = ROW * len(bars) + COLUMN * (len(impls) + 3)
    x = lambda ratio: LABEL + BAR * min(ratio, most) / most
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + BAR + 60}" height="{height}" '
           'font-family="sans-serif" font-size="11">', f'<text x="4" y="14">{title}</text>']
    colour = {impl: f"hsl({360 * i // len(impls)},55%,55%)" for i, impl in enumerate(impls)}
    for i, impl in enumerate(impls):
        y = COLUMN * (i + 2)
        svg.append(f'<rect x="4" y="{y - 9}" width="10" height="10" fill="{colour[impl]}"/>'
                   f'<text x="20" y="{y}">Weft / {impl}</text>')
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


def page(tables, folder):
    lines = ["# Performance", "", "Made by `benchmarks/report.py` from one run of `benchmarks/run.sh`. "
             "Less is better; ratios compare, times of other machines do not.", "",
             "## Behind a peer", ""]
    lost = [(ratio, suite, metric, threads, case, peer)
            for (suite, metric, _, threads), cases in tables.items()
            for ratio, case, peer in compared(cases) if ratio > 1]
    if lost:
        lines += ["| suite | case | threads | Weft / best peer | peer |", "|---|---|---|---|---|"]
        lines += [f"| {suite}, {metric} | {case} | {threads} | {ratio:.2f} | {peer} |"
                  for ratio, suite, metric, threads, case, peer in sorted(lost, reverse=True)]
    else:
        lines.append("Nothing.")
    for (suite, metric, unit, threads), cases in tables.items():
        title = f"{suite}, {metric} in {scaled(0, unit)[1]}, {threads} threads"
        lines += ["", f"## {title}", ""]
        ratios = [ratio for ratio, _, _ in compared(cases)]
        if ratios:
            lines += [f"Weft / best peer: geometric mean {mean(ratios):.2f} of {len(ratios)} cases, "
                      f"behind in {sum(r > 1 for r in ratios)}.", ""]
        if drawn := plot(cases, title):
            name = "-".join((suite, metric, str(threads))).replace(" ", "-").replace("/", "-") + ".svg"
            with open(os.path.join(folder, name), "w") as file:
                file.write(drawn)
            lines += [f"![{title}]({name})", ""]
        lines += table(cases, unit)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--out", metavar="FOLDER")
    given = parser.parse_args()
    folder = given.out or os.path.dirname(os.path.abspath(given.files[0]))
    os.makedirs(folder, exist_ok=True)
    text = page(read(given.files), folder)
    with open(os.path.join(folder, "performance.md"), "w") as file:
        file.write(text)
    print(os.path.join(folder, "performance.md"))


if __name__ == "__main__":
    main()
