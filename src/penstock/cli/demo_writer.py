"""A writer process that `penstock demo` starts and kills, to show which records survive.

Prints the last seq of each append after it was acknowledged, and never ends by itself.
"""

from __future__ import annotations

import itertools
import sys

from penstock.engine.open_log import open_log

TOPIC = "payments"


def main() -> None:
    with open_log(sys.argv[1]) as log:
        for number in itertools.count(1):
            answer = log.append(TOPIC, [{"payment": number, "amount": number * 7 % 100}])
            print(answer.last_seq, flush=True)


if __name__ == "__main__":
    main()
