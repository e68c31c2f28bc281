// How the timeline is zoomed, moved and asked: by pointers, wheel, keys and buttons.

function zoom(line, factor, at = (line.from + line.to) / 2) {
  const least = Math.min(line.end, 10);
  const span = Math.max(least, Math.min(line.end, (line.to - line.from) * factor));
  const part = (at - line.from) / (line.to - line.from);
  show(line, at - part * span, span);
}

function move(line, part) {
  show(line, line.from + part * (line.to - line.from), line.to - line.from);
}

function show(line, from, span) {
  line.from = Math.max(0, Math.min(from, line.end - span));
  line.to = line.from + span;
  line.draw();
}

const ACTIONS = {
  in: (line) => zoom(line, 1 / 2), out: (line) => zoom(line, 2), left: (line) => move(line, -0.25),
  right: (line) => move(line, 0.25), all: (line) => show(line, 0, line.end),
};
const KEYS = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all" };

function listen(line) {
  for (const button of document.querySelectorAll("[data-do]")) {
    button.addEventListener("click", () => ACTIONS[button.dataset.do](line));
  }
  line.canvas.addEventListener("keydown", (event) => {
    const action = KEYS[event.key];
    if (!action || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    ACTIONS[action](line);
  });
  // The page scrolls by wheel; with Ctrl, which a trackpad's pinch sends too, the timeline zooms.
  line.canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(line, Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 100), timeAt(line, event.clientX));
  }, { passive: false });
  listenToPointers(line);
}

function listenToPointers(line) {
  const pressed = new Map();
  line.canvas.addEventListener("pointerdown", (event) => {
    line.canvas.setPointerCapture(event.pointerId);
    pressed.set(event.pointerId, event.clientX);
    if (line.measures || event.shiftKey) dragChoice(line, event);
  });
  line.canvas.addEventListener("pointermove", (event) => {
    if (!pressed.size) { tellSpan(line, event); return; }
    hideTooltip();
    if (pressed.size === 1 && (line.measures || event.shiftKey || line.dragFrom)) dragChoice(line, event);
    else if (pressed.has(event.pointerId)) dragged(line, pressed, event);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    line.canvas.addEventListener(name, (event) => {
      pressed.delete(event.pointerId);
      line.dragFrom = null;
      tellSpan(line, event);
    });
  }
  line.canvas.addEventListener("pointerleave", () => { pointTo(line, -1); pointToRank(line, undefined); hideTooltip(); });
}

// One finger moves, two zoom by their distance.
function dragged(line, pressed, event) {
  const before = [...pressed.values()];
  const by = event.clientX - pressed.get(event.pointerId);
  pressed.set(event.pointerId, event.clientX);
  const after = [...pressed.values()];
  if (pressed.size === 1) {
    move(line, -by / (line.width - line.left));
  } else {
    const distance = ([a, b]) => Math.max(20, Math.abs(a - b));
    zoom(line, distance(before) / distance(after), timeAt(line, (after[0] + after[1]) / 2));
  }
}

function timeAt(line, clientX) {
  const x = clientX - line.canvas.getBoundingClientRect().left - line.left;
  return line.from + (x / (line.width - line.left)) * (line.to - line.from);
}

function tellSpan(line, event) {
  pointToRank(line, laneAt(line, event)?.rank);
  const i = spanAt(line, event);
  pointTo(line, i);
  if (i < 0) { hideTooltip(); return; }
  const layer = line.layers[line.layer[i]];
  const epoch = line.epoch?.[i] < 0 ? undefined : line.epoch?.[i];
  const iteration = line.iteration[i] < 0 ? "" : `, iteration ${ofEpoch(line.iteration[i], epoch)}`;
  const text = `${line.operations[line.operation[i]][0]}${layer ? ` ${layer}` : ""}${iteration}\n` +
    `${inMilliseconds(line.duration[i] * line.tickMs)}, from ${inMilliseconds(line.begin[i] * line.tickMs)}${linkText(line, i)}`;
  showTooltip(text, event.clientX, event.clientY);
}

// The counters below light that rank's line.
function pointToRank(line, rank) {
  const changes = line.paintBelow && line.pointedRank !== rank;
  line.pointedRank = rank;
  if (changes) line.draw();
}

function laneAt(line, event) {
  const y = event.clientY - line.canvas.getBoundingClientRect().top + line.box.scrollTop;
  return line.lanes.find((lane) => y >= lane.top && y < lane.top + LANE_HEIGHT);
}

// The innermost: of those that hold the instant the last to begin.
function spanAt(line, event) {
  const index = line.lanes.indexOf(laneAt(line, event));
  if (index < 0) return -1;
  const slack = (line.to - line.from) / (line.width - line.left) / 2;
  const at = timeAt(line, event.clientX);
  let found = -1;
  for (let i = firstInView(line, index); i < line.laneStarts[index + 1] && line.begin[i] <= at + slack; i++) {
    if (line.begin[i] + line.duration[i] >= at - slack) found = i;
  }
  return found;
}
