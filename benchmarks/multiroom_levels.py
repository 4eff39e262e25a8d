"""How many levels of EnvPool's MultiRoom can be solved at all.

    python benchmarks/multiroom_levels.py [ID] [LEVELS]

A script walks every level: it draws a map of what it sees, goes to the nearest closed door, opens
it, and looks wherever something is unknown. A level in which nothing is left to open or to look at,
and no goal was found, has no solution. EnvPool places some doors at the corner of the next room,
with a wall behind them.
"""

from __future__ import annotations

import sys
from collections import Counter, deque

import envpool
import numpy as np

DIRECTIONS = ((1, 0), (0, 1), (-1, 0), (0, -1))
EMPTY, FLOOR, DOOR, GOAL = 1, 3, 4, 8
OPEN, CLOSED = 0, 1
LEFT, RIGHT, FORWARD, TOGGLE = 0, 1, 2, 5

Place = tuple[int, int]
Map = dict[Place, tuple[int, int]]
"""Object and state of each cell that was seen."""


def look(level: Map, view: np.ndarray, place: Place, direction: int) -> None:
    """Draws a view of 7 x 7 cells, in which the agent stands at (3, 6) and looks up."""
    (x, y), (dx, dy) = place, DIRECTIONS[direction]
    for a, b in np.argwhere(view[:, :, 0] > 0).tolist():
        ahead, aside = 6 - b, a - 3
        cell = (x + ahead * dx - aside * dy, y + ahead * dy + aside * dx)
        here = ahead == aside == 0  # where the view has what the agent carries
        level[cell] = (EMPTY, 0) if here else (int(view[a, b, 0]), int(view[a, b, 2]))


def next_action(level: Map, place: Place, direction: int) -> int | None:
    """The first action on the way to the goal, if it is on the map and can be reached; else to the
    nearest closed door or unknown cell; None if nothing is left."""
    start = (place, direction)
    actions: dict[tuple[Place, int], int | None] = {start: None}  # the first on the way there
    waiting, found = deque([start]), None
    while waiting:
        state = waiting.popleft()
        (x, y), way = state
        ahead = (x + DIRECTIONS[way][0], y + DIRECTIONS[way][1])
        cell, first = level.get(ahead), actions[state]
        if cell is not None and cell[0] == GOAL:
            return FORWARD if first is None else first
        if found is None and (cell is None or cell == (DOOR, CLOSED)):
            found = first if first is not None else LEFT if cell is None else TOGGLE
        steps = [(((x, y), (way - 1) % 4), LEFT), (((x, y), (way + 1) % 4), RIGHT)]
        if cell is not None and (cell[0] in (EMPTY, FLOOR) or cell == (DOOR, OPEN)):
            steps.append(((ahead, way), FORWARD))
        for after, act in steps:
            if after not in actions:
                actions[after] = act if first is None else first
                waiting.append(after)
    return found


def walk(name: str, num: int) -> tuple[Counter[str], float]:
    """What became of `num` levels, and the mean return of those that were solved."""
    envs = envpool.make(name, env_type="gymnasium", num_envs=num, seed=11)
    seen, info = envs.reset()
    maps: list[Map] = [{} for _ in range(num)]
    ends, returns = ["out of time"] * num, []
    under_way = set(range(num))
    for _ in range(envs.spec.config.max_episode_steps):
        actions = np.zeros(num, np.int64)
        for i in sorted(under_way):
            place, direction = tuple(map(int, info["agent_pos"][i])), int(seen["direction"][i])
            look(maps[i], seen["image"][i], place, direction)
            action = next_action(maps[i], place, direction)
            if action is None:
                ends[i] = "no solution"
                under_way.discard(i)
            else:
                actions[i] = action
        seen, reward, terminated, truncated, info = envs.step(actions)
        for i in sorted(under_way):
            if terminated[i]:
                ends[i] = "solved"
                returns.append(float(reward[i]))
            if terminated[i] or truncated[i]:
                under_way.discard(i)
    return Counter(ends), float(np.mean(returns or [0.0]))


if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "MiniGrid-MultiRoom-N4-S5-v0"
    counts, mean = walk(name, int(sys.argv[2]) if len(sys.argv) > 2 else 200)
    told = ", ".join(f"{number} {end}" for end, number in counts.most_common())
    print(f"{name}, EnvPool {envpool.__version__}: {told}; mean return where solved {mean:.3f}")
