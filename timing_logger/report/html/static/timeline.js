// Every row as a span, by rank and thread; only what is in view is drawn.

const LANE_HEIGHT = 20;
const RANK_GAP = 6;
const ROLES = { named: "Named by the verdict, or by how the run ended", mate: "Others on the same hosts", reference: "Others, from the slowest to the quickest" };
const AXIS_HEIGHT = 22;
const MAX_VIEW_HEIGHT = 500;
const KIND_COLOURS = {
  "own work": "work", communication: "communication", waiting: "waiting", copies: "copies", others: "others",
};

async function drawTimeline(data) {
  const canvas = document.getElementById("timeline-canvas");
  const line = {
    canvas, box: document.getElementById("timeline-box"), size: document.getElementById("timeline-size"),
    lanes: data.lanes, laneStarts: data.lane_starts, operations: data.operations, layers: data.layers,
    tickMs: 1e3 * data.tick_s, begin: await unpack(data.begin), duration: await unpack(data.duration),
    operation: await unpack(data.operation), layer: await unpack(data.layer), iteration: await unpack(data.iteration),
    epoch: data.epoch && await unpack(data.epoch), isCommon: data.is_common,
    query: "", onlyWaits: false, lit: null, found: [], foundAt: null, measures: false, chosen: null, dragFrom: null, pointed: -1,
  };
  linkRows(line, await unpack(data.link));
  line.latestEnd = latestEnds(line);
  line.end = Math.max(1, lastOf(line.latestEnd));
  line.from = 0;
  line.to = line.end;
  placeLanes(line);
  line.draw = redrawOnChange(line.box, () => paintTimeline(line));
  line.box.addEventListener("scroll", line.draw);
  listen(line);
  listenToLighting(line);
  listenToMeasuring(line);
  return line;
}

// For each span the latest end in its lane so far: a span that holds others may reach into the view from far before it.
function latestEnds(line) {
  const ends = new Float64Array(line.begin.length);
  for (let lane = 0; lane < line.lanes.length; lane++) {
    let latest = 0;
    for (let i = line.laneStarts[lane]; i < line.laneStarts[lane + 1]; i++) {
      latest = Math.max(latest, line.begin[i] + line.duration[i]);
      ends[i] = latest;
    }
  }
  return ends;
}

function lastOf(values) {
  return values.reduce((most, value) => Math.max(most, value), 0);
}

function placeLanes(line) {
  let top = AXIS_HEIGHT;
  line.lanes.forEach((lane, i) => {
    lane.isFirst = i === 0 || line.lanes[i - 1].rank !== lane.rank;
    if (i > 0 && lane.isFirst) top += RANK_GAP;
    if (lane.role && lane.role !== line.lanes[i - 1]?.role) { lane.heading = i ? ROLES[lane.role] : ROLES[lane.role].replace("Others, f", "F"); top += LANE_HEIGHT; }
    lane.top = top;
    top += LANE_HEIGHT;
  });
  line.height = top + 4;
}

function paintTimeline(line) {
  line.width = line.box.clientWidth;
  line.left = Math.min(190, line.width / 3);
  line.size.style.height = `${line.height}px`;
  line.viewHeight = Math.min(line.height, MAX_VIEW_HEIGHT);
  const context = sized(line.canvas, line.width, line.viewHeight);
  const inks = operationInks(line, context);
  const scrolled = line.box.scrollTop;
  line.lanes.forEach((lane, i) => {
    const top = lane.top - scrolled;
    if (lane.heading) paintHeading(lane.heading, context, inks, top - LANE_HEIGHT);
    if (top + LANE_HEIGHT >= AXIS_HEIGHT && top <= line.viewHeight) paintLane(line, context, inks, i, top);
  });
  paintFound(line, context);
  paintLinks(line, context);
  paintTimeAxis(line, context);
  paintChosen(line, context);
  line.paintBelow?.();
  const fine = ((line.to - line.from) * line.tickMs) / 100;
  document.getElementById("timeline-range").textContent =
    `${instant(line.from * line.tickMs, fine)} to ${instant(line.to * line.tickMs, fine)}`;
}

// One for each operation: the colour of its kind, in three shades by turns, so that neighbours differ.
function operationInks(line, context) {
  const met = {};
  const ink = rgb(colour("ink"));
  const fills = line.operations.map(([, kind]) => {
    const turn = (met[kind] = (met[kind] ?? -1) + 1) % 3;
    if (kind === "waiting") return hatched(context, colour("waiting"));
    return `rgb(${rgb(colour(KIND_COLOURS[kind])).map((part, i) => Math.round(part + (ink[i] - part) * 0.22 * turn))})`;
  });
  return { fills, text: colour("card"), page: colour("page"), ink: colour("ink"), soft: colour("soft") };
}

// Waiting is told from work by its pattern, not by its colour alone.
function hatched(context, ink) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.fillStyle = colour("card");
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = ink;
  pen.lineWidth = 3;
  pen.beginPath();
  for (const at of [-6, 0, 6]) { pen.moveTo(at - 1, 7); pen.lineTo(at + 7, -1); }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

function paintHeading(text, context, inks, top) {
  context.fillStyle = inks.soft;
  context.fillText(text, 6, top + LANE_HEIGHT / 2);
}

// The number of a rank is not cut for the name of its only thread, which has no room on a phone.
function laneName(line, context, index) {
  const { isFirst, rank, thread } = line.lanes[index];
  if (!isFirst) return `      ${thread}`;
  const isOnly = line.lanes[index + 1]?.isFirst ?? true;
  const name = `${rank} ${thread}`;
  return isOnly && context.measureText(name).width > line.left - 12 ? rank : name;
}

function paintLane(line, context, inks, index, top) {
  const lane = line.lanes[index];
  context.fillStyle = inks.page;
  context.fillRect(line.left, top, line.width - line.left, LANE_HEIGHT - 2);
  context.fillStyle = lane.role === "named" ? colour("bad") : lane.isFirst ? inks.ink : inks.soft;
  context.fillText(fitted(context, laneName(line, context, index), line.left - 12), 6, top + LANE_HEIGHT / 2 - 1);
  paintSpans(line, context, inks, index, top);
}

function paintSpans(line, context, inks, index, top) {
  const perTick = (line.width - line.left) / (line.to - line.from);
  const pixel = pixelOf(line, context, inks, top);
  for (let i = firstInView(line, index); i < line.laneStarts[index + 1] && line.begin[i] < line.to; i++) {
    const x = line.left + (line.begin[i] - line.from) * perTick;
    const width = line.duration[i] * perTick;
    if (x + width < line.left) continue;
    const dim = line.lit !== null && !line.lit[i];
    if (width < 1) { pixel.add(Math.max(x, line.left), width, line.operation[i], dim); continue; }
    pixel.flush();
    context.globalAlpha = dim ? DIMMED : 1;
    paintSpan(line, context, inks, i, Math.max(x, line.left), Math.min(x + width, line.width), top);
    context.globalAlpha = 1;
  }
  pixel.flush();
}

function firstInView(line, index) {
  return firstFrom(line, index, line.from);
}

// The first row of the lane that may reach beyond `time`.
function firstFrom(line, index, time) {
  let [low, high] = [line.laneStarts[index], line.laneStarts[index + 1]];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (line.latestEnd[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

function paintSpan(line, context, inks, i, from, to, top) {
  const [name, kind] = line.operations[line.operation[i]];
  context.fillStyle = inks.fills[line.operation[i]];
  context.fillRect(from, top, to - from - (to - from > 4 ? 1 : 0), LANE_HEIGHT - 2);
  const label = to - from > 36 ? fitted(context, name, to - from - 8) : "";
  if (!label) return;
  if (kind === "waiting") {
    context.fillStyle = inks.text;
    context.fillRect(from + 2, top + 2, context.measureText(label).width + 4, LANE_HEIGHT - 6);
    context.fillStyle = inks.ink;
  } else {
    context.fillStyle = inks.text;
  }
  context.fillText(label, from + 4, top + LANE_HEIGHT / 2 - 1);
}

// Sums the spans that share a pixel: it shows the operation with most time in it, of the lit ones if there are any.
function pixelOf(line, context, inks, top) {
  const n = line.operations.length;
  const widths = new Float64Array(2 * n); // of operations that are lit, then of those that are dimmed
  let at = -1;
  let seen = [];
  const flush = () => {
    if (!seen.length) return;
    const lit = seen.filter((operation) => operation < n);
    const shown = lit.length ? lit : seen;
    const dominant = shown.reduce((best, operation) => (widths[operation] > widths[best] ? operation : best));
    const covered = Math.min(1, shown.reduce((sum, operation) => sum + widths[operation], 0));
    const height = Math.max(3, Math.round(covered * (LANE_HEIGHT - 2)));
    context.globalAlpha = lit.length ? 1 : DIMMED;
    context.fillStyle = inks.fills[dominant % n];
    context.fillRect(at, top + LANE_HEIGHT - 2 - height, 1, height);
    context.globalAlpha = 1;
    for (const operation of seen) widths[operation] = 0;
    seen = [];
  };
  const add = (x, width, ofRow, dim) => {
    const operation = ofRow + (dim ? n : 0);
    if (Math.floor(x) !== at) { flush(); at = Math.floor(x); }
    if (!widths[operation]) seen.push(operation);
    widths[operation] += Math.max(width, 1e-9);
  };
  return { add, flush };
}

function paintTimeAxis(line, context) {
  context.fillStyle = colour("card");
  context.fillRect(0, 0, line.width, AXIS_HEIGHT);
  context.fillStyle = colour("soft");
  const spanMs = (line.to - line.from) * line.tickMs;
  const step = niceStep(spanMs / Math.max(2, (line.width - line.left) / 120));
  for (let ms = Math.ceil((line.from * line.tickMs) / step) * step; ms <= line.to * line.tickMs; ms += step) {
    const x = line.left + ((ms - line.from * line.tickMs) / spanMs) * (line.width - line.left);
    context.fillRect(x, AXIS_HEIGHT - 5, 1, 5);
    const label = instant(ms, step);
    if (x + context.measureText(label).width < line.width) context.fillText(label, x + 3, AXIS_HEIGHT / 2 - 2);
  }
}

// With as many digits as tell instants apart that lie `step` ms from each other.
function instant(ms, step) {
  const [value, unit, digits] = step >= 100 ? [ms / 1e3, "s", 3] : [ms, "ms", 0];
  const needed = Math.max(0, digits - Math.floor(Math.log10(step) + 1e-9));
  return `${value.toFixed(needed)} ${unit}`;
}

function niceStep(ms) {
  const power = 10 ** Math.floor(Math.log10(ms));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= ms);
}
