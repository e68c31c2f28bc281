"""Tries every promise of the logger under real faults: ``make faults`` (hours), or ``--short`` (a minute)."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from campaign import page
from campaign.runner import Settings, run_all
from campaign.table import CAMPAIGNS
from campaign.trial import WRITERS, Campaign, Trial, Tried, tried
from timing_logger.recording.cores import chosen as core

SHORT_FUZZ_S = 2.0


def main(arguments: Sequence[str] | None = None, campaigns: Sequence[Campaign] = CAMPAIGNS) -> int:
    """Run the chosen campaigns; return 1 if any promise was broken, after all were tried, else 0."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a few times each, and fuzzing for 2 s")
    parser.add_argument("--only", metavar="REGEX", default="", help="campaigns whose name has a match")
    parser.add_argument("--list", action="store_true", help="name the campaigns, and try nothing")
    parser.add_argument(
        "--write",
        metavar="FILE",
        type=Path,
        help="the page that gets the results; those of other campaigns and writers stay",
    )
    parser.add_argument("--fuzz-minutes", type=float, default=None, metavar="M", help="for each reader (10)")
    parser.add_argument("--workers", type=int, default=2, help="campaigns at once (2)")
    parser.add_argument(
        "--writers",
        nargs="+",
        choices=WRITERS,
        default=WRITERS if core.NAME == "native" else WRITERS[1:],
        help="over which writers campaigns about recording are tried (all; the native core if it was built)",
    )
    parser.add_argument("--most", type=int, metavar="N", help="try each thing N times at most")
    parser.add_argument("--seed", type=int, default=0, help="of all that is random (0)")
    parser.add_argument(
        "--resume", type=Path, metavar="FOLDER",
        help="that of an earlier run with the same options: what held there is not tried again",
    )  # fmt: skip
    parser.add_argument("--inside", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(f"{one.name:24} {one.promise}" for one in campaigns))
        return 0
    minutes = options.fuzz_minutes
    fuzz_s = minutes * 60 if minutes is not None else SHORT_FUZZ_S if options.short else 600.0
    if options.inside:
        return _inside(options, fuzz_s, campaigns)
    chosen = [one for one in campaigns if re.search(options.only, one.name)]
    if not chosen:
        parser.error(f"no campaign matches {options.only!r}; --list names them.")
    results = _run(chosen, options, fuzz_s)
    if options.write:
        page.write(options.write, results, campaigns, short=options.short, fuzz_s=fuzz_s)
    print("\n".join(page.table(page.lines_of(results, campaigns, short=options.short))))
    return int(any(tried.result.is_broken for tried in results))


def _run(chosen: Sequence[Campaign], options: argparse.Namespace, fuzz_s: float) -> list[Tried]:
    total = sum(len(options.writers) if campaign.records else 1 for campaign in chosen)
    number = iter(range(1, total + 1))

    def finished(found: Tried, took_s: float) -> None:
        campaign, writer, result = found
        said = f"not tried: {result.untried}" if result.untried else f"{result.held} of {result.tried} held"
        broken = "BROKEN, " if result.is_broken else ""
        begin = f"[{next(number)}/{total}] {campaign.name}" + (f" ({writer})" if writer else "")
        _say(f"{begin}: {broken}{said} ({took_s:.0f} s) {result.note}")
        for failure in result.failures:
            _say(f"    {failure}")

    folder = options.resume or Path(tempfile.mkdtemp(prefix="faults-"))
    settings = Settings(
        options.short, options.seed, fuzz_s, options.workers, folder, options.writers, options.most
    )
    _refuse_other_options(settings)
    _say(f"if this is interrupted: --resume {folder} goes on with it")
    results = run_all(chosen, settings, finished)
    if any(found.result.is_broken for found in results):
        again = f"--seed {options.seed}" + " --short" * options.short
        _say(f"what was left of the broken ones is in {folder}; seen again by {again} --only NAME")
        _say(f"once they are mended: --resume {folder} tries them again, and nothing else")
    elif options.resume is None:  # else it may hold what other campaigns found
        shutil.rmtree(folder, ignore_errors=True)
    return results


def _refuse_other_options(settings: Settings) -> None:
    """A table must not mix what was tried in different ways."""
    tried_like = {
        "short": settings.short,
        "seed": settings.seed,
        "fuzz_s": settings.fuzz_s,
        "most": settings.most,
    }
    stated = settings.folder / "options.json"
    if not stated.exists():
        stated.write_text(json.dumps(tried_like))
    elif (before := json.loads(stated.read_text())) != tried_like:
        raise SystemExit(f"--resume {settings.folder}: it was made with {before}, not with {tried_like}.")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _inside(options: argparse.Namespace, fuzz_s: float, campaigns: Sequence[Campaign]) -> int:
    """Run one campaign, in the process that was started for it, and write its result."""
    (campaign,) = (one for one in campaigns if one.name == options.inside)
    trial = Trial(campaign.name, options.folder, short=options.short, seed=options.seed, fuzz_s=fuzz_s,
                  most=options.most)  # fmt: skip
    result = tried(campaign, trial, options.writers[0])
    (options.folder / "result.json").write_text(json.dumps(result.to_json()))
    return 0


if __name__ == "__main__":
    # Programs run in other folders, too.
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
