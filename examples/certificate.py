"""A run of a provable algorithm, and the terms of its proof, measured.

    python examples/certificate.py [FOLDER]

The same from the command line:

    eniac train eniac-spi-sample --env DeepSea-10 --out FOLDER
    eniac certify FOLDER
"""

import sys
from pathlib import Path
from typing import Any

import eniac
from eniac.report.certificate import certify_run

PARTS = ("bonus", "pessimism", "optimisation", "transfer", "statistical", "dagger")


def main(out: Path, env: str = "DeepSea-10", **settings: Any) -> float:
    """Trains, saves in the folder `out`, and returns how far the last policy is from the best."""
    agent = eniac.ENIACSPISample(env, seed=0, **settings)
    agent.learn()
    agent.save(out)

    found = certify_run(eniac.load_run(out))
    print("epoch    gap = " + " + ".join(PARTS))
    for epoch in found.epochs:
        parts = "   ".join(f"{getattr(epoch, part):z{len(part)}.2f}" for part in PARTS)
        print(f"{epoch.epoch:5}  {found.optimum - epoch.inner:5.2f}   {parts}")
    for term in ("gap, outer mixture", "statistical", "dagger"):
        line = found.line(term)
        print(f"{term}: {line.verdict}, bound {line.bound:.3g}")
    print(f"the parts add up to the gap within {found.residual:.1e}")
    return found.line("gap, last iterate").measured


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/certificate"))
