"""A training loop without any framework: all that the SDK needs is Python.

    python examples/training/plain_loop.py [FOLDER]

A line is fitted to points by gradient descent. While it runs, the address that it prints has its metrics;
its records go to TRILENS_SERVER, or wait on the spool until there is a server.
"""

import json
import random
import sys
from pathlib import Path

import trilens

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else "trained")
RATE, BATCH, STEPS = 0.1, 16, 200

dice = random.Random(7)
points = [(x := dice.uniform(-1, 1), 3 * x + 1 + dice.gauss(0, 0.05)) for _ in range(STEPS * BATCH + 100)]
training, held_back = points[:-100], points[-100:]
batches = [training[i : i + BATCH] for i in range(0, len(training), BATCH)]

run = trilens.init("examples", name="plain-loop", config={"rate": RATE, "batch": BATCH}, total_steps=STEPS)
print(f"metrics: http://{run.metrics_address}/metrics")

slope, offset = 0.0, 0.0
for number, batch in enumerate(run.data(batches, dataset="points")):
    with run.step(samples=len(batch)):
        with run.phase("forward"):
            errors = [(x, slope * x + offset - y) for x, y in batch]
            loss = sum(error * error for _, error in errors) / len(errors)
        with run.phase("backward"):
            by_slope = 2 * sum(x * error for x, error in errors) / len(errors)
            by_offset = 2 * sum(error for _, error in errors) / len(errors)
        with run.phase("optimizer"):
            slope -= RATE * by_slope
            offset -= RATE * by_offset
        run.log(loss=loss, grad_norm=(by_slope**2 + by_offset**2) ** 0.5, lr=RATE)
    if number % 100 == 99:
        with run.validation() as result:  # timed, beside the steps
            squares = [(slope * x + offset - y) ** 2 for x, y in held_back]
            result.log(loss=sum(squares) / len(squares))

FOLDER.mkdir(parents=True, exist_ok=True)
with run.checkpoint(FOLDER / "line.json"):
    (FOLDER / "line.json").write_text(json.dumps({"slope": slope, "offset": offset}))

print(f"y = {slope:.2f} x + {offset:.2f}")
