// From a cell of the heatmap to the same iterations in the timeline.

const MARGIN = 0.1; // of the span, on either side

// Shows the rows that a process has of the steps from `first` to `last`; false if the timeline has none of them.
// Of many ranks only some are in the timeline: of the others the steps are shown, with the rows of those that are.
function showSteps(line, process, first, last, some) {
  let span = spanOfSteps(line, process, first, last);
  if (!span && some && line.isCommon) span = spanOfSteps(line, process = null, first, last);
  if (!span) return false;
  const length = Math.max(10, span.to - span.from) * (1 + 2 * MARGIN);
  show(line, (span.from + span.to - length) / 2, Math.min(line.end, length));
  choose(line, span.from, span.to, process);
  line.box.scrollTop = span.top - AXIS_HEIGHT - LANE_HEIGHT;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  document.getElementById("timeline").scrollIntoView({ behavior: calm ? "auto" : "smooth" });
  line.canvas.focus({ preventScroll: true });
  return true;
}

function spanOfSteps(line, process, first, last) {
  let [from, to, top] = [Infinity, -Infinity, 0];
  line.lanes.forEach((lane, index) => {
    if (process !== null && lane.rank !== process) return;
    if (lane.isFirst && (process !== null || !index)) top = lane.top;
    for (let i = line.laneStarts[index]; i < line.laneStarts[index + 1]; i++) {
      if (line.iteration[i] < 0 || !isBetween(stepOf(line, i), first, last)) continue;
      from = Math.min(from, line.begin[i]);
      to = Math.max(to, line.begin[i] + line.duration[i]);
    }
  });
  return to >= from ? { from, to, top } : null;
}

function stepOf(line, i) {
  return { iteration: line.iteration[i], epoch: line.epoch && line.epoch[i] >= 0 ? line.epoch[i] : undefined };
}

function isBetween(step, first, last) {
  return !isBefore(step, first) && !isBefore(last, step);
}

// By epoch, then iteration; an epoch that either of them lacks tells nothing.
function isBefore(one, other) {
  const apart = (one.epoch ?? other.epoch) - (other.epoch ?? one.epoch) || 0;
  return apart ? apart < 0 : one.iteration < other.iteration;
}
