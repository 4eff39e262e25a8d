"""Folders that pages can be made of, and how such a page is read."""

import json
from html.parser import HTMLParser

import numpy as np

from eniac.report.figure3 import curvature
from fake_runs import write_run

VOID = {"input", "meta", "link", "br"}


def write_runs(folder):
    """Two methods with three seeds each, and one of them alone in another environment."""
    write_run(folder / "eniac", [[0, 5 + k, 9 + k] for k in range(3)], "eniac", return_above=8)
    write_run(folder / "ppo", [[0, 1 + k, 2] for k in range(3)])
    write_run(folder / "sea", [[0.5, 1.0]], env="DeepSea-10")
    return folder


def write_result(folder, seed, algorithm="eniac", version="0.2.0", **more):
    """A file of results as `eniac reproduce` writes it."""
    result = {
        "task": "lock-5",
        "algorithm": algorithm,
        "flags": [],
        "seed": seed,
        "command": f"eniac train {algorithm} --return-above 3.8",
        "versions": {"eniac": version},
        "curve": [[100, 0.0, None], [200, 4.0 - seed / 10, 3.0]],
        **more,
    }
    path = folder / "runs" / result["task"] / f"{algorithm}-{seed}-{version}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))
    return path


def write_figures(folder):
    """The data of Figures 2 and 3, made up."""
    plane = {
        "algorithm": "eniac",
        "env": "MountainCarContinuous-v0",
        "seed": 0,
        "axes": ["position", "velocity"],
        "low": [-1.2, -0.07],
        "high": [0.6, 0.07],
        "goal": 0.45,
        "start": [[-0.6, 0.0], [-0.4, 0.0]],
    }
    visits = np.zeros((9, 7), int)
    rows = []
    for epoch in (1, 2, 3):
        visits[3 : 3 + epoch, 2:5] += 10 * epoch
        for kind in ("cover", "exploiting"):
            rows.append({"epoch": epoch, "kind": kind, "visits": visits.tolist()})
    ramp = np.linspace(0, 1, 30)[:, None] * np.ones((30, 30))
    one = {"width": (ramp**2).tolist(), "kernel": ramp.tolist()}
    figures = {
        "figure2": {"policies": rows, "bonus_share": []},
        "figure3": {
            "policy": 2,
            "preset": None,
            "trajectories": [[[-0.5, 0.0], [-0.4, 0.01]]],
            "bonuses": one,
            "largest": {"width": 0.5, "kernel": 2.0},
            "smoothness": {name: curvature(np.array(grid)) for name, grid in one.items()},
        },
    }
    for name, data in figures.items():
        path = folder / name / "0.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(plane | data))
    return folder


def write_claims(folder, **more):
    number = {"number": "10 of 10", "interval": [0.72, 1.0], "verdict": "held"}
    claim = {
        "claim": "ENIAC opens the lock",
        "where": "Section 5",
        "setting": "ours",
        "rule": "above 0.7: share of seeds",
        "verdict": "held",
        "command": "eniac reproduce exploration",
        "evidence": [
            number | {"of": "length 5"},
            number | {"of": "length 10"},
            {"of": "length 15", "number": "-", "interval": None, "verdict": "not measured"},
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    data = {"version": "0.2.0", "quick": False, "claims": [claim | more]}
    (folder / "claims.json").write_text(json.dumps(data))
    return folder


class Page(HTMLParser):
    """A page as a browser without scripts has it: elements in order, each with its text."""

    def __init__(self, path):
        super().__init__()
        self.text = path.read_text()
        self.elements, self._open = [], []
        self.feed(self.text)
        self.close()
        assert self._open == [], "elements without an end"

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, "text": "", **dict(attrs)}
        assert len(dict(attrs)) == len(attrs), f"an attribute of {tag} is given twice"
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag):
        assert self._open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self._open:
            element["text"] += data

    def all(self, tag):
        return [element for element in self.elements if element["tag"] == tag]

    @property
    def data(self):
        (script,) = [x for x in self.all("script") if x.get("id") == "data"]
        return json.loads(script["text"])
