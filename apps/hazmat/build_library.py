"""`python -m apps.hazmat.build_library FOLDER`: write the Parquet files of library/ again, from the folder with the original files.

The library's README says where the originals are from. The application itself never needs them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from apps.hazmat.reading import LIBRARY, read_ndjson, read_rcspg, read_xml, write_bursts, write_runs


def main(folder: Path) -> None:
    # Every file of SÚRO repeats the same background beside its own spectrum; it is file 02.
    write_runs([read_xml(path)[0] for path in sorted(folder.glob("suro/*.xml"))], LIBRARY / "suro.parquet")
    others = [run for path in sorted(folder.glob("radiacode-tools/*.xml")) for run in read_xml(path)]
    write_runs(others, LIBRARY / "radiacode_tools.parquet")
    write_bursts(read_rcspg(folder / "radiacode-tools" / "K40.rcspg"), LIBRARY / "k40_bursts.parquet")
    write_bursts(read_ndjson(folder / "radiacode-tools" / "xray.ndjson"), LIBRARY / "xray_bursts.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
