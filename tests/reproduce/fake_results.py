"""Files of results of runs that were never made."""

import json


def result_of(task="lock-2", algorithm="eniac", seed=0, solved=None, final=4.0, **more):
    at = None if solved is None else {"steps": solved, "seconds": solved / 1e5}
    return {
        "task": task,
        "algorithm": algorithm,
        "flags": [],
        "seed": seed,
        "limit": 20_000_000,
        "to_the_end": False,
        "command": f"eniac train {algorithm} --seed {seed}",
        "versions": {"eniac": "0.2.0"},
        "settings": "abc",
        "solved_at": at,
        "steps": solved or 20_000_000,
        "seconds": (solved or 20_000_000) / 1e5,
        "final": {"return_mean": final},
        "curve": [[1000, 0.0, None], [2000, 4.0, 1.0]],
        **more,
    }


def write_result(folder, result, kind="runs"):
    """The file of a result, where a run would have written it."""
    from eniac.reproduce.results import name_of

    path = folder / kind / result["task"] / f"{name_of(result)}-{result['seed']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))
    return path
