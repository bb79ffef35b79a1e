"""Figures of a case: medians, spreads, ratios within a round, and the table that shows them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Column:
    """One figure of a program's output, as the table shows it."""

    figure: str
    title: str
    digits: int = 0


@dataclass
class Summary:
    peer: str
    runs: int
    median: float
    p10: float
    p90: float
    ratio: float | None  # median of this peer / the baseline, both of the same round
    ratio_p10: float | None
    ratio_p90: float | None
    stolen_runs: int  # runs that stayed over the limit for stolen time
    figures: dict[str, float | bool] = field(default_factory=dict)  # medians of the other figures


def quantile(values: list[float], fraction: float) -> float:
    """Between the two nearest values in proportion."""
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def same_round_ratios(runs: list[dict], metric: str, peer: str, baseline: str) -> list[float]:
    """What the peer measured over what the baseline did, of every round that has both."""
    base = {run["round"]: run["figures"][metric] for run in runs if run["peer"] == baseline}
    return [
        run["figures"][metric] / base[run["round"]]
        for run in runs
        if run["peer"] == peer and base.get(run["round"])
    ]


def summarize(
    runs: list[dict], metric: str, others: list[str], baseline: str
) -> list[Summary]:
    """One summary per peer: Keyway's own first, then the fastest peer first.

    A run is {"peer", "round", "over_limit", "figures"}; there is one per peer and round.
    """
    by_peer: dict[str, list[dict]] = {}
    for run in runs:
        by_peer.setdefault(run["peer"], []).append(run)
    summaries = []
    for peer, own in by_peer.items():
        values = [run["figures"][metric] for run in own]
        ratios = same_round_ratios(runs, metric, peer, baseline)
        summaries.append(
            Summary(
                peer=peer,
                runs=len(own),
                median=statistics.median(values),
                p10=quantile(values, 0.1),
                p90=quantile(values, 0.9),
                ratio=statistics.median(ratios) if ratios else None,
                ratio_p10=quantile(ratios, 0.1) if ratios else None,
                ratio_p90=quantile(ratios, 0.9) if ratios else None,
                stolen_runs=sum(run["over_limit"] for run in own),
                figures={name: _middle(own, name) for name in others if name in own[0]["figures"]},
            )
        )
    return sorted(summaries, key=lambda s: (not s.peer.startswith("keyway"), s.median))


def _middle(runs: list[dict], figure: str) -> float | bool:
    values = [run["figures"][figure] for run in runs]
    if isinstance(values[0], bool):
        return all(values)
    return statistics.median(values)


@dataclass
class Comparison:
    """How many times as long the other takes, of the same round."""

    peer: str
    other: str
    rounds: int
    ratio: float
    ratio_p10: float
    ratio_p90: float

    def __str__(self) -> str:
        return (f"{self.peer} is {self.ratio:.1f} times as fast as {self.other} "
                f"(p10 - p90: {self.ratio_p10:.1f} - {self.ratio_p90:.1f}; "
                f"{self.rounds} round{'s' if self.rounds > 1 else ''})")


def compare(runs: list[dict], metric: str, peer: str, other: str) -> Comparison | None:
    """None unless there is a round that has both."""
    ratios = same_round_ratios(runs, metric, other, peer)
    if not ratios:
        return None
    return Comparison(peer, other, len(ratios), statistics.median(ratios),
                      quantile(ratios, 0.1), quantile(ratios, 0.9))


def table(
    summaries: list[Summary], metric: Column, others: list[Column], baseline: str
) -> str:
    header = ["peer", metric.title, "p10 - p90", f"x {baseline}", "p10 - p90"]
    header += [column.title for column in others] + ["runs"]
    rows = [header]
    for one in summaries:
        row = [one.peer, _number(one.median, metric.digits)]
        row.append(f"{_number(one.p10, metric.digits)} - {_number(one.p90, metric.digits)}")
        row.append("-" if one.ratio is None else _ratio(one.ratio))
        row.append("-" if one.ratio is None
                   else f"{_ratio(one.ratio_p10)} - {_ratio(one.ratio_p90)}")
        row += [_cell(one.figures.get(column.figure), column.digits) for column in others]
        row.append(str(one.runs) + ("*" if one.stolen_runs else ""))
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        lines.append("  " + "   ".join(cells))
    lines.insert(1, "  " + "-" * (len(lines[0]) - 2))
    if any(one.stolen_runs for one in summaries):
        lines.append("  * more time was stolen by the host than allowed in some of these runs")
    return "\n".join(lines)


def _number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _cell(value: float | bool | None, digits: int) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _number(value, digits)
