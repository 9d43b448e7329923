"""All pages of a checkout, with what is generated in them brought up to date."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from notes.make import rungs, topics, values
from notes.make.facts import NOTES, Facts
from notes.make.regions import Region, fill

#: What writes a region or a number, by the name in its mark. The words behind the name are its arguments.
WRITERS: dict[str, Callable[..., str]] = {
    "order": rungs.reading_order,
    "prediction": rungs.prediction,
    "bottlenecks": rungs.bottlenecks,
    "machine-code": rungs.machine_code,
    "measurement": rungs.measurement,
    "wavefronts": topics.wavefronts,
    "occupancies": topics.occupancies,
    "waves": topics.waves_by_size,
    "waves-by-device": topics.waves_by_device,
    "ways-to-cp-async": topics.ways_to_cp_async,
    "tuning-choices": topics.tuning_choices,
    "tuning-counters": topics.tuning_counters,
    "time": values.time,
    "faster": values.faster,
    "times": values.times,
    "registers": values.registers,
    "ffma-share": values.ffma_share,
    "loop-size": values.loop_kilobytes,
    "once": values.once,
}


def regions(facts: Facts, root: Path) -> dict[str, Region]:
    """What writes the regions of the pages, from these facts and the sources below `root`."""
    bound: dict[str, Region] = {name: partial(write, facts) for name, write in WRITERS.items()}
    bound["picture"] = partial(topics.picture, root)
    bound["code"] = partial(rungs.code, root)
    bound["model"] = lambda *words: values.model(" ".join(words))
    return bound


def fill_all(root: Path) -> dict[str, str]:
    """The text of every page in `notes/`, by its name."""
    written = regions(Facts.load(root), root)
    paths = sorted((root / NOTES).glob("*.md"))
    return {path.name: fill(path.read_text(encoding="utf-8"), path, written) for path in paths}
