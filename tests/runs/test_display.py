import io

import numpy as np
import pytest
from rich.console import Console

from eniac.runs.display import Display, show_returns
from eniac.runs.progress import Progress
from eniac.runs.terminal import duration, number


def _after(epoch, exploiting=np.nan):
    epochs, steps = np.array([epoch] * 2), np.array([70 * epoch] * 2)
    return Progress(epochs, steps, np.array([0.5, 1.5]), np.array([exploiting, np.nan]), 1.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [(-1234.5, "-1,234"), (93.14, "93.1"), (0.0352, "0.035"), (-2e-5, "0.000"), (9.9999, "10.000")],
)
def test_numbers_are_short_and_without_exponent(value, text):
    assert number(value) == text


def test_durations_are_read_at_a_glance():
    assert [duration(s) for s in (2.6, 125, 4800)] == ["3 s", "2 min 5 s", "1 h 20 min"]


def test_returns_show_the_range_of_the_seeds():
    assert show_returns(np.array([0.5, 1.5])) == "1.000 (0.500 to 1.500)"
    assert show_returns(np.array([0.5])) == "0.500"
    assert show_returns(np.array([np.nan])) == "-"


def test_without_a_terminal_every_epoch_is_one_line(toy_config):
    console = Console(file=io.StringIO(), width=20)
    with Display(console, toy_config(seeds=2, epochs=9)) as display:
        display.update(_after(1), 1234.5)
        display.update(_after(2), 2000.0)
        display.update(_after(3, 0.25), 2000.0)
    lines = console.file.getvalue().splitlines()
    assert "return 1.000 (0.500 to 1.500)  exploiting 0.250  steps/s" in lines[2]
    assert lines[0] == "epoch 1/9  steps 140  return 1.000 (0.500 to 1.500)  steps/s 1,234"
    assert lines[1].startswith("epoch 2/9  steps 280")
    assert lines[1].endswith("s left")


def test_a_terminal_gets_a_picture_that_says_how_to_abort(toy_config):
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    with Display(console, toy_config(seeds=2, epochs=9)) as display:
        display.update(_after(3), 1234.5)
        display.stopping()
    shown = console.file.getvalue()
    for words in ("toy on Chain-4, 2 seeds", "epoch 3/9", "steps/s 1,234", "Ctrl-C again aborts"):
        assert words in shown
