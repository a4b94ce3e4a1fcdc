"""What a run looks like: its losses as a picture, and one page that needs nothing but itself."""

from __future__ import annotations

import html
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autodiff.commands.console import printable
from gpt.files import atomic_write
from gpt.run import Run

__all__ = ["loss_picture", "write_report"]

TRAINING, VALIDATION, BASELINE = "#5B7DB1", "#C2571A", "#777777"

PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 54rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
h1, h2 {{ font-weight: 600; }} h2 {{ margin-top: 2rem; font-size: 1.1rem; }}
table {{ border-collapse: collapse; }} td {{ padding: .15rem 1.5rem .15rem 0; vertical-align: top; }}
pre {{ background: #f5f5f2; padding: 1rem; white-space: pre-wrap; overflow-wrap: anywhere; }}
svg {{ max-width: 100%; height: auto; }}
</style></head>
<body>
<h1>{title}</h1>
{body}
</body></html>
"""


def write_report(run: Run, summary: Mapping[str, str], baselines: Mapping[str, float], sample: str) -> str | None:
    """Write ``loss.svg`` and ``report.html`` into a run's folder.

    Parameters
    ----------
    run : Run
    summary : mapping of str to str
        What to say first, in order.
    baselines : mapping of str to float
        Nats per token.
    sample : str
        Text that the model wrote; may be empty.

    Returns
    -------
    str or None
        Why there is no picture.
    """
    records, missing, picture = run.metrics(), None, b""
    try:
        picture = loss_picture(records, baselines)
        atomic_write(run.path / "loss.svg", picture)
    except ImportError as error:
        missing = str(error)
    text = picture.decode()
    judged = [(str(r["step"]), f"{r['loss']:.4f}", f"{r['val_loss']:.4f}") for r in records if "val_loss" in r]
    sections = [
        ("Result", _table(summary.items())),
        ("Loss", text[text.index("<svg") :] if text else f"<p>{html.escape(missing or '')}</p>"),
        ("Evaluations", _table([("step", "training loss", "validation loss"), *judged])),
        ("Sample", f"<pre>{html.escape(printable(sample))}</pre>" if sample else "<p>None.</p>"),
    ]
    for name, fields in run.config().items():
        sections.append((name.capitalize(), _table((key, str(value)) for key, value in fields.items())))
    body = "\n".join(f"<h2>{html.escape(title)}</h2>\n{part}" for title, part in sections)
    page = PAGE.format(title=html.escape(printable(run.path.name)), body=body)
    atomic_write(run.path / "report.html", page.encode("utf-8", "backslashreplace"))
    return missing


def loss_picture(records: Sequence[Mapping[str, Any]], baselines: Mapping[str, float]) -> bytes:
    """Draw training and validation loss over the steps, with the baselines as lines.

    Parameters
    ----------
    records : sequence of mapping
        Lines of ``metrics.jsonl``.
    baselines : mapping of str to float
        Nats per token.

    Returns
    -------
    bytes
        An SVG file, the same for the same losses.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the picture of the losses needs matplotlib: pip install 'autodiff-gpt[train]'") from error
    with mpl.rc_context({"svg.hashsalt": "autodiff-gpt", "svg.fonttype": "none"}):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.subplots()
        steps, losses = [r["step"] for r in records], [r["loss"] for r in records]
        axes.plot(steps, losses, color=TRAINING, alpha=0.35, linewidth=0.8)
        axes.plot(steps, _smooth(losses), color=TRAINING, label="training (running mean)")
        judged = [(r["step"], r["val_loss"]) for r in records if "val_loss" in r]
        if judged:
            axes.plot(*zip(*judged, strict=True), color=VALIDATION, marker="o", markersize=4, label="validation")
        for name, value in baselines.items():
            axes.axhline(value, color=BASELINE, linestyle="--", linewidth=0.8)
            label = axes.text(1, value, f"{name} {value:.3f}", transform=axes.get_yaxis_transform())
            label.set(ha="right", va="bottom", fontsize=8, color=BASELINE)
        axes.set(xlabel="step", ylabel="loss, nats per token")
        axes.legend(frameon=False)
        axes.spines[["top", "right"]].set_visible(False)
        picture = io.BytesIO()
        figure.savefig(picture, format="svg", metadata={"Date": None})
    return picture.getvalue()


def _smooth(losses: Sequence[float], weight: float = 0.95) -> list[float]:
    """Return the exponential running mean, corrected for its start."""
    mean, smooth = 0.0, []
    for i, loss in enumerate(losses, 1):
        mean = weight * mean + (1 - weight) * loss
        smooth.append(mean / (1 - weight**i))
    return smooth


def _table(rows: Iterable[Sequence[str]]) -> str:
    """Write rows of text as a table."""
    lines = ("<tr>" + "".join(f"<td>{html.escape(printable(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return "<table>\n" + "\n".join(lines) + "\n</table>"
