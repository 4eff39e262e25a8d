"""Folders of runs that never trained: what readers of logs need, and nothing else."""

import json


def write_run(
    folder,
    seeds,
    name="ppo",
    env="Chain-4",
    first_seed=0,
    return_above=None,
    seconds=True,
    width=None,
    **config,
):
    """A run with a list of returns for each seed, one every 10 steps and every 2 seconds."""
    folder.mkdir(parents=True)
    config = {
        "algorithm": {"name": name, "update": {"clip": 0.2}} | ({"width": width} if width else {}),
        "env": env,
        "env_options": {},
        "seed": first_seed,
        "seeds": len(seeds),
        "return_above": return_above,
        **config,
    }
    (folder / "config.json").write_text(json.dumps(config))
    records = [
        {"epoch": n, "round": 1, "seed": seed, "env_steps": 10 * n, "return_mean": value}
        for seed, values in enumerate(seeds, start=first_seed)
        for n, value in enumerate(values, start=1)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in records))
    epochs = range(1, 1 + max(map(len, seeds)))
    timings = [{"epoch": n, "seconds": 2.0, "seconds_so_far": 2.0 * n} for n in epochs]
    if seconds:
        (folder / "timings.jsonl").write_text("".join(json.dumps(x) + "\n" for x in timings))
    return folder
