"""The last minutes of all GPUs."""

from __future__ import annotations

import numpy as np
import pytest

from trilens.detect.figures import FIELDS, RECIPES
from trilens.detect.scene import Figure, Place
from trilens.detect.telemetry import COLUMNS, Block, Readings, TelemetryWindow

NAN = float("nan")
BY_FIGURE = {figure: recipe.fields for figure, recipe in RECIPES.items()}
T0 = 1_800_000_000_000


def _block(at_ms: int, told: dict[Figure, dict[str, list[float]]]) -> Block:
    """The first field of each figure; the last column is at `at_ms`."""
    fields, columns = {}, 1
    for figure, rows in told.items():
        values = np.array(list(rows.values()), np.float64)
        columns = values.shape[1]
        fields[BY_FIGURE[figure][0]] = Readings([(uuid, "") for uuid in rows], values)
    return Block(at_ms - (columns - 1) * 5_000, columns, fields)


def _seen(window: TelemetryWindow, figure: Figure, uuid: str) -> list[float]:
    places = [Place(*key, "c", "n", "0", "m") for key in window.keys]
    telemetry = window.telemetry(places)
    row = window.keys.index((uuid, ""))
    return telemetry.figures[figure][row].tolist()


def test_columns_go_on_with_the_time_and_keep_their_places() -> None:
    window = TelemetryWindow()
    window.extend(_block(T0, {Figure.POWER: {"a": [100, 101, 102], "b": [1, NAN, 3]}}))
    window.extend(_block(T0 + 10_000, {Figure.POWER: {"b": [4.0], "c": [7.0]}}))
    assert _seen(window, Figure.POWER, "a")[-5:-2] == [100, 101, 102]
    assert np.isnan(_seen(window, Figure.POWER, "a")[-2:]).all()
    assert _seen(window, Figure.POWER, "b")[-1] == 4
    assert _seen(window, Figure.POWER, "c")[-1] == 7
    assert np.isnan(_seen(window, Figure.POWER, "c")[-2])


def test_what_comes_late_is_added_to_its_moment() -> None:
    window = TelemetryWindow()
    window.extend(_block(T0, {Figure.POWER: {"a": [100, NAN]}}))
    window.extend(_block(T0 + 5_000, {Figure.POWER: {"a": [NAN, 101, 102]}}))
    assert _seen(window, Figure.POWER, "a")[-3:] == [100, 101, 102]


def test_it_goes_on_for_hours_and_is_always_the_same_window() -> None:
    window = TelemetryWindow()
    for round_ in range(3 * COLUMNS):
        window.extend(_block(T0 + round_ * 5_000, {Figure.POWER: {"a": [float(round_)]}}))
        if round_ >= COLUMNS and round_ % 37 == 0:
            expected = list(range(round_ - COLUMNS + 1, round_ + 1))
            assert _seen(window, Figure.POWER, "a") == expected


def test_a_long_gap_leaves_nothing_of_before() -> None:
    window = TelemetryWindow()
    window.extend(_block(T0, {Figure.POWER: {"a": [1.0], "b": [1.0]}}))
    window.extend(_block(T0 + 3_600_000, {Figure.POWER: {"b": [2.0]}}))
    assert window.keys == [("b", "")]
    values = _seen(window, Figure.POWER, "b")
    assert values[-1] == 2
    assert np.isnan(values[:-1]).all()


def test_a_gpu_of_which_nothing_is_left_goes() -> None:
    window = TelemetryWindow()
    window.extend(_block(T0, {Figure.POWER: {"gone": [1.0], "a": [1.0]}}))
    for round_ in range(1, 2 * COLUMNS):
        window.extend(_block(T0 + round_ * 5_000, {Figure.POWER: {"a": [float(round_)]}}))
    assert window.keys == [("a", "")]
    assert _seen(window, Figure.POWER, "a")[-1] == 2 * COLUMNS - 1


def test_gpus_that_come_after_the_others_take_little_more_room() -> None:
    """A server that looks for the first time when most of a fleet was scraped knows some of it."""
    window = TelemetryWindow()
    fleet = {f"gpu-{number}": [1.0] for number in range(1_000)}
    window.extend(_block(T0, {Figure.POWER: dict([*fleet.items()][:900])}))
    window.extend(_block(T0 + 5_000, {Figure.POWER: fleet}))
    held = window.telemetry([Place(*key, "c", "n", "0", "m") for key in window.keys]).figures[Figure.POWER]
    assert held.base is not None
    assert len(held.base) <= 1.2 * len(fleet)
    assert _seen(window, Figure.POWER, "gpu-899")[-2:] == [1, 1]
    assert _seen(window, Figure.POWER, "gpu-999")[-1] == 1


def test_figures_are_in_base_units() -> None:
    window = TelemetryWindow()
    by_name = {field.selector: field for field in FIELDS}
    told = {
        "DCGM_FI_DEV_GPU_UTIL": 50,
        "DCGM_FI_DEV_SM_CLOCK": 1950,
        "DCGM_FI_PROF_NVLINK_TX_BYTES": 3e9,
        "DCGM_FI_PROF_NVLINK_RX_BYTES": 4e9,
        "DCGM_FI_PROF_PCIE_TX_BYTES": 5e9,
        "DCGM_FI_DEV_FB_USED": 60,
        "DCGM_FI_DEV_FB_FREE": 30,
        "DCGM_FI_DEV_FB_RESERVED": 10,
    }
    fields = {
        by_name[name]: Readings([("a", "")], np.array([[value]], float)) for name, value in told.items()
    }
    window.extend(Block(T0, 1, fields))
    seen = {figure: _seen(window, figure, "a")[-1] for figure in (Figure.UTILIZATION, Figure.SM_CLOCK)}
    assert seen == {Figure.UTILIZATION: 0.5, Figure.SM_CLOCK: pytest.approx(1.95e9)}
    assert _seen(window, Figure.NVLINK, "a")[-1] == pytest.approx(7e9)
    assert _seen(window, Figure.PCIE, "a")[-1] == pytest.approx(5e9)
    assert _seen(window, Figure.MEMORY_USED, "a")[-1] == pytest.approx(0.6)


@pytest.mark.parametrize("sentinel", [2147483632.0, 140737488355330.0, 9223372036854775794.0])
def test_what_dcgm_does_not_know_is_no_reading(sentinel: float) -> None:
    window = TelemetryWindow()
    window.extend(_block(T0, {Figure.TEMPERATURE: {"a": [60, sentinel], "b": [sentinel, 61]}}))
    telemetry = window.telemetry([Place(*key, "c", "n", "0", "m") for key in window.keys])
    assert np.isnan(telemetry.figures[Figure.TEMPERATURE][0, -1])
    assert telemetry.figures[Figure.TEMPERATURE][0, -2] == 60
    assert telemetry.blanks[Figure.TEMPERATURE].tolist() == [True, False]
    window.extend(_block(T0 + 5_000, {Figure.TEMPERATURE: {"a": [62], "b": [62]}}))
    assert not window.telemetry(telemetry.places).blanks


def test_a_link_may_carry_two_gigabytes_a_second() -> None:
    window = TelemetryWindow()
    window.extend(_block(T0, {Figure.PCIE: {"a": [2_147_483_000.0, 3e9]}}))
    assert _seen(window, Figure.PCIE, "a")[-2:] == pytest.approx([2_147_483_000.0, 3e9])
