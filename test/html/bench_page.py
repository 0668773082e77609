#!/usr/bin/env python3
"""How long a page of many events takes: its making, its size, until it can be used, and to draw a frame.

    bench_page.py GPUPOOL LIBRARY SIMULATOR REPLAY TRACE [EVENTS]

A program is recorded until so many events are kept (1,000,000). Times are of the machine as it is: beside other work the longest
frames are those during which that ran.
"""

import os
import re
import subprocess
import sys
import tempfile
import time

from browser import Browser, find_browser

VIEWS = ("bands", "addresses", "state", "flame", "tables")
FRAMES = 60

# Zooms in and out of the recording and through it, a step each frame: [median, 95th percentile, longest] of the drawing itself.
MOVE = """(async () => {
  const {selection, context, drawTimes} = gpupoolPage, end = context.recording().end;
  const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));
  selection.set({view: '%s'});
  await frame(); await frame();
  drawTimes.length = 0;
  for (let i = 0; i < %d; i++) {
    const share = 0.45 * Math.abs(Math.sin(i / 9));
    selection.set({from: Math.round(end * share), to: Math.round(end * (1 - share)), at: Math.round(end * i / %d)});
    await frame();
  }
  selection.set({from: 0, to: end});
  const times = [...drawTimes].sort((a, b) => a - b);
  return [times[times.length >> 1], times[Math.floor(times.length * 0.95)], times[times.length - 1]];
})()"""


def record(library, simulator, replay, trace, events, path):
    """A snapshot of that many events: the program goes on until they are there."""
    with open(trace, encoding="utf-8") as file:
        rows = sum(1 for _ in file) - 1
    env = dict(os.environ, LD_LIBRARY_PATH=simulator, LD_PRELOAD=library, GPUPOOL_TRACE_EVENTS=str(events), GPUPOOL_RECORD="none",
               GPUPOOL_STACKS="native", GPUPOOL_OUTPUT=path)
    subprocess.run([replay, trace, "--streams", "4", "--repeat", str(int(1.4 * events / rows) + 1)], env=env, check=True, stdout=subprocess.DEVNULL)


def main(tool, library, simulator, replay, trace, events="1000000"):
    if not find_browser():
        print("skipped: no browser is installed (chromium)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as work, Browser(seconds=300) as browser:
        snapshot, page_path = os.path.join(work, "run.json"), os.path.join(work, "run.html")
        record(library, simulator, replay, trace, int(events), snapshot)
        begin = time.monotonic()
        subprocess.run([tool, "html", snapshot], check=True, stdout=subprocess.DEVNULL)
        made = time.monotonic() - begin
        shown = subprocess.run([tool, "summary", snapshot], check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout
        print("%s events: snapshot %.1f MiB, page %.1f MiB, made in %.1f s" % (
            re.search(r"Events: ([\d,]+)", shown).group(1), os.path.getsize(snapshot) / 2 ** 20, os.path.getsize(page_path) / 2 ** 20, made))
        page = browser.open(page_path)
        page.wait_for("window.gpupoolPage && window.gpupoolPage.ready")
        print("ready after %.1f s" % (page.evaluate("gpupoolPage.readyAfter") / 1000))
        print("%-10s %8s %8s %8s  ms a frame" % ("view", "median", "95%", "longest"))
        for view in VIEWS:
            print("%-10s %8.1f %8.1f %8.1f" % ((view,) + tuple(page.evaluate(MOVE % (view, FRAMES, FRAMES)))))


if __name__ == "__main__":
    if len(sys.argv) not in (6, 7):
        sys.exit(__doc__)
    main(*sys.argv[1:])
