"""Try the exercises in Numba's simulator and say what is wrong: `python notes/exercises/check.py [NUMBER …] [--hint]`.

Exit status 0 if they are right, 1 if one is not, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"  # before Numba is imported

from checker.exercises import EXERCISES, check
from checker.screen import show_report
from rich.console import Console


def main(command_line: list[str]) -> int:
    """Check the exercises that the command line names; all if it names none."""
    parser = argparse.ArgumentParser(
        "check.py", description="Try the exercises in Numba's simulator and say what is wrong."
    )
    numbers = {exercise.number: exercise for exercise in EXERCISES}
    parser.add_argument("number", nargs="*", type=int, help=f"1 … {len(numbers)}; by default all")
    parser.add_argument("--hint", action="store_true", help="with a hint for what is not yet right")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent, help="where the exercises are")
    arguments = parser.parse_args(command_line)
    unknown = sorted(set(arguments.number) - set(numbers))
    if unknown:
        parser.error(f"unknown exercise {unknown[0]}; there are 1 … {len(numbers)}")
    all_right = True
    for number in arguments.number or numbers:
        try:
            report = check(numbers[number], arguments.folder)
        except OSError as error:
            parser.error(str(error))
        show_report(report, Console(), hint=arguments.hint)
        all_right = all_right and report.right
    return 0 if all_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
