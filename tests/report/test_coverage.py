import gymnasium
import numpy as np
import pytest

from eniac.report.coverage import Cells


def box(low, high):
    return gymnasium.spaces.Box(np.array(low, np.float32), np.array(high, np.float32))


def test_a_plane_has_50_by_50_cells_and_its_upper_edge_belongs_to_the_last():
    cells = Cells(box([0, -1], [1, 1]))
    assert cells.total == 2500
    corners = np.array([[0, -1], [1, 1], [0.99, 0.99], [0.019, -1]])
    assert cells.touched(corners) == {(0, 0), (49, 49)}
    assert len(cells.touched(np.array([[0.019, 0], [0.021, 0]]))) == 2


def test_every_state_of_a_discrete_space_is_a_cell():
    cells = Cells(gymnasium.spaces.Discrete(5))
    assert cells.total == 5
    assert cells.touched(np.array([3, 3, 0])) == {(3,), (0,)}


def test_one_hot_observations_are_told_apart_in_any_dimension():
    cells = Cells(box([0] * 9, [1] * 9))
    assert cells.total is None
    assert len(cells.touched(np.eye(9)[[0, 4, 4, 8]])) == 3


def test_a_coordinate_without_bounds_is_cut_into_tenths_and_one_that_cannot_change_is_one_cell():
    cells = Cells(box([-np.inf, 2], [np.inf, 2]))
    assert cells.total is None
    assert len(cells.touched(np.array([[-0.15, 2], [-0.05, 2], [0.05, 2], [0.06, 2]]))) == 3


@pytest.mark.parametrize("parts", [1, 7, 50])
def test_the_share_of_a_line_that_is_visited_is_counted(parts):
    cells = Cells(box([0], [50]))
    assert len(cells.touched(np.arange(parts)[:, None] + 0.5)) == parts


def test_a_cell_of_several_parts_is_one_of_each():
    spaces = gymnasium.spaces
    space = spaces.Dict({"where": box([0, 0], [1, 1]), "key": spaces.Discrete(3)})
    cells = Cells(space)
    seen = {"where": np.array([[0, 0], [0.05, 0], [0.05, 0]]), "key": np.array([1, 1, 2])}
    assert cells.total is None
    assert len(cells.touched(seen)) == 2


def test_every_picture_is_a_cell():
    cells = Cells(gymnasium.spaces.Box(0, 255, (32, 32, 3), np.uint8))
    pictures = np.zeros((3, 32, 32, 3), np.uint8)
    pictures[2, 5, 5, 0] = 1
    assert cells.description == "a cell is a picture"
    assert len(cells.touched(pictures)) == 2
