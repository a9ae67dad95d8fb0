"""Files of spectra as detectors write them, and what the repository keeps of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from apps.hazmat import split
from apps.hazmat.reading import (
    LIBRARY,
    radiacode_tools,
    read_bursts,
    read_ndjson,
    read_rcspg,
    read_spe,
    read_xml,
    suro,
)

FILES = Path(__file__).parents[1] / "data" / "spectra"


def test_a_file_with_a_name_that_is_not_utf8_is_read_and_is_what_the_library_has() -> None:
    spectrum, background = read_xml(FILES / "suro_15.xml")
    assert (len(spectrum.counts), spectrum.live_s, spectrum.detector) == (256, 690.0, "RC-101-001897")
    np.testing.assert_array_equal(spectrum.counts, suro()[15].counts)
    assert spectrum.calibration == suro()[15].calibration
    np.testing.assert_array_equal(background.counts, suro()[2].counts)


def test_a_file_of_another_unit_has_1024_channels_of_its_own_calibration() -> None:
    (spectrum,) = read_xml(FILES / "data_am241.xml")
    kept = radiacode_tools()["data_am241"]
    assert len(spectrum.counts) == 1024 and spectrum.calibration == kept.calibration == (
        -6.2832313,
        2.4383054,
        0.0003818,
    )
    np.testing.assert_array_equal(spectrum.counts, kept.counts)


def test_xml_without_a_spectrum_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "empty.xml").write_text("<ResultDataFile/>")
    with pytest.raises(ValueError, match=r"empty\.xml has no EnergySpectrum"):
        read_xml(tmp_path / "empty.xml")


def test_a_spe_file_is_read_section_by_section() -> None:
    spectrum = read_spe(FILES / "sim_spec.spe")
    assert (len(spectrum.counts), spectrum.live_s) == (1024, 100.0)
    assert spectrum.counts[:6].tolist() == [0, 5, 1, 3, 6, 14] and spectrum.calibration == (0.0, 1.0, 0.0)


def test_a_spe_file_has_its_calibration_and_the_right_number_of_channels(tmp_path: Path) -> None:
    text = "$SPEC_ID:\nx\n$MEAS_TIM:\n12 13\n$DATA:\n0 3\n  1\n  2\n  3\n  4\n$MCA_CAL:\n3\n1.5E+000 2.0E+000 1.0E-004 keV\n"
    (tmp_path / "a.spe").write_text(text)
    spectrum = read_spe(tmp_path / "a.spe")
    assert (
        spectrum.calibration == (1.5, 2.0, 1e-4) and spectrum.counts.tolist() == [1, 2, 3, 4] and spectrum.live_s == 12
    )
    (tmp_path / "b.spe").write_text(text.replace("0 3", "0 4"))
    with pytest.raises(ValueError, match="announces channels 0 to 4 and has 4"):
        read_spe(tmp_path / "b.spe")
    (tmp_path / "c.spe").write_text("not a spectrum")
    with pytest.raises(ValueError, match=r"c\.spe is not a \.spe file"):
        read_spe(tmp_path / "c.spe")


def test_real_bursts_are_what_the_recordings_begin_with() -> None:
    for part, kept in (
        (read_rcspg(FILES / "k40_beginning.rcspg"), read_bursts(LIBRARY / "k40_bursts.parquet")),
        (read_ndjson(FILES / "xray_beginning.ndjson"), read_bursts(LIBRARY / "xray_bursts.parquet")),
    ):
        count = len(part.counts)
        assert count >= 3 and part.counts.shape[1] == 1024
        np.testing.assert_array_equal(part.counts, kept.counts[:count])
        np.testing.assert_array_equal(part.time_us, kept.time_us[:count])
        np.testing.assert_array_equal(part.live_s, kept.live_s[:count])
    assert len(read_bursts(LIBRARY / "k40_bursts.parquet").counts) == 690


def test_a_file_that_is_no_spectrogram_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "x.rcspg").write_text("hello")
    with pytest.raises(ValueError, match=r"x\.rcspg is not a spectrogram"):
        read_rcspg(tmp_path / "x.rcspg")


def test_no_library_run_overlaps_a_test_run() -> None:
    library, tests = split.library_runs(), split.test_runs()
    assert not library & tests
    for part, whole in split.OVERLAPS:
        assert not {part, whole} & library or not {part, whole} & tests, f"runs {part} and {whole} share counts"


def test_runs_that_overlap_do_so_in_the_data() -> None:
    for part, whole in split.OVERLAPS:
        if (part, whole) not in {(7, 11), (8, 11)}:
            assert np.all(suro()[part].counts <= suro()[whole].counts)
