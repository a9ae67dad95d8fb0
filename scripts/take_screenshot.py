"""Take docs/img/demo.png: the demo in a real terminal (tmux), what that shows as an SVG (rich), as a PNG (chromium).

Run by hand when the demo's picture changes: .venv/bin/python scripts/take_screenshot.py [seconds [command]]
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
COLUMNS, LINES = 117, 32
SESSION = "penstock-screenshot"
COMMAND = sys.argv[2] if len(sys.argv) > 2 else "make demo"


def run_tmux(*arguments: str) -> str:
    return subprocess.run(["tmux", *arguments], capture_output=True, text=True, check=True).stdout


def capture(seconds: float) -> str:
    """What the terminal shows after the demo ran for so long, with its colours."""
    size = ["-x", str(COLUMNS), "-y", str(LINES)]
    run_tmux("new-session", "-d", "-s", SESSION, *size, "-c", str(ROOT), "-e", "COLORTERM=truecolor", COMMAND)
    try:
        time.sleep(seconds)
        return run_tmux("capture-pane", "-e", "-p", "-t", SESSION)
    finally:
        run_tmux("send-keys", "-t", SESSION, "C-c")
        while SESSION in subprocess.run(["tmux", "ls"], capture_output=True, text=True, check=False).stdout:
            time.sleep(0.5)


def main() -> int:
    shown = capture(float(sys.argv[1]) if len(sys.argv) > 1 else 90.0)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(shown.rstrip()))
    with tempfile.TemporaryDirectory() as folder:
        drawing = Path(folder) / "demo.svg"
        drawing.write_text(console.export_svg(title="make demo"))
        box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing.read_text())
        assert box is not None
        size = f"{int(float(box.group(1)))},{int(float(box.group(2)))}"
        target = ROOT / "docs" / "img" / "demo.png"
        target.parent.mkdir(exist_ok=True)
        flags = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size}", f"--screenshot={target}"]
        subprocess.run(["chromium", *flags, drawing.as_uri()], capture_output=True, check=True)
    print(f"wrote {target.relative_to(ROOT)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
