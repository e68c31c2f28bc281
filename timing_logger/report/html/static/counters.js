// Below the timeline, on its axis: what the hosts of its ranks counted, a panel for each counter, a line for each rank.

const PANEL_HEIGHT = 56;
const PANEL_GAP = 8;
const COUNT_UNKNOWN = 65535;
const COUNT_TOP = 65534;

// `named`: the processes that the verdict names.
async function drawCounters(data, line, named) {
  const below = {
    line, canvas: document.getElementById("counters-canvas"), processes: data.processes, pointed: null,
    counters: await Promise.all(data.counters.map(async (counter) => ({ ...counter, values: await unpack(counter.values) }))),
  };
  below.n = below.counters[0].values.length / data.processes.length;
  below.named = data.processes.map((process) => named.has(process));
  line.paintBelow = () => paintCounters(below);
  line.draw(); // its first frame may have been before
  below.canvas.addEventListener("pointermove", (event) => { below.pointed = countAt(below, event); tellCount(below, event); line.draw(); });
  below.canvas.addEventListener("pointerleave", () => { below.pointed = null; hideTooltip(); line.draw(); });
}

function paintCounters(below) {
  const { line, counters } = below;
  const context = sized(below.canvas, line.width, counters.length * (PANEL_HEIGHT + PANEL_GAP) + PANEL_GAP);
  below.canvas.style.width = `${line.width}px`;
  counters.forEach((counter, panel) => {
    const top = PANEL_GAP + panel * (PANEL_HEIGHT + PANEL_GAP);
    context.fillStyle = colour("ink");
    context.fillText(fitted(context, counter.name, line.left - 12), 6, top + 8);
    context.fillStyle = colour("soft");
    context.fillText(fitted(context, `0 to ${counted(counter.top, counter)}`, line.left - 12), 6, top + 26);
    context.fillStyle = colour("page");
    context.fillRect(line.left, top, line.width - line.left, PANEL_HEIGHT);
    paintLines(below, context, counter, top);
  });
}

function paintLines(below, context, counter, top) {
  context.save();
  context.beginPath();
  context.rect(below.line.left, top - 1, below.line.width - below.line.left, PANEL_HEIGHT + 2);
  context.clip();
  const pointed = below.pointed?.process ?? below.processes.indexOf(below.line.pointedRank);
  const paint = (process, ink, width) => paintLine(below, context, counter, process, top, ink, width);
  const others = [...below.processes.keys()].filter((process) => process !== pointed);
  for (const process of others) if (!below.named[process]) paint(process, "communication", 1);
  for (const process of others) if (below.named[process]) paint(process, "bad", 2);
  if (pointed >= 0) paint(pointed, "ink", 2);
  context.restore();
}

function paintLine(below, context, counter, process, top, ink, width) {
  const { line, n } = below;
  const perInstant = ((line.width - line.left) / (line.to - line.from)) * (line.end / n);
  const origin = line.left - (line.from * (line.width - line.left)) / (line.to - line.from);
  const first = Math.max(0, Math.floor((line.left - origin) / perInstant));
  const last = Math.min(n - 1, Math.ceil((line.width - origin) / perInstant));
  context.strokeStyle = colour(ink);
  context.lineWidth = width;
  context.beginPath();
  let known = false;
  for (let i = first; i <= last; i++) {
    const code = counter.values[process * n + i];
    if (code === COUNT_UNKNOWN) { known = false; continue; }
    const y = Math.round(top + PANEL_HEIGHT - 2 - (code / COUNT_TOP) * (PANEL_HEIGHT - 3)) + 0.5; // on whole pixels it is sharp
    const x = origin + i * perInstant;
    if (known) context.lineTo(x, y);
    else context.moveTo(x, y);
    context.lineTo(x + perInstant, y);
    known = true;
  }
  context.stroke();
}

function counted(value, { unit }) {
  return `${Number(value.toPrecision(3))}${unit.startsWith("%") ? "" : " "}${unit}`;
}

function namedIn(heatmap) {
  return new Set(heatmap?.slow.rows.map((row) => heatmap.rows[row]));
}

// The line nearest to the pointer.
function countAt(below, event) {
  const box = below.canvas.getBoundingClientRect();
  const y = event.clientY - box.top - PANEL_GAP;
  const panel = Math.floor(y / (PANEL_HEIGHT + PANEL_GAP));
  const counter = below.counters[panel];
  const at = Math.floor((timeAt(below.line, event.clientX) / below.line.end) * below.n);
  if (!counter || at < 0 || at >= below.n || event.clientX - box.left < below.line.left) return null;
  const wanted = (1 - (y - panel * (PANEL_HEIGHT + PANEL_GAP)) / PANEL_HEIGHT) * COUNT_TOP;
  let nearest = null;
  below.processes.forEach((_, process) => {
    const code = counter.values[process * below.n + at];
    const far = Math.abs(code - wanted);
    if (code !== COUNT_UNKNOWN && !(far >= nearest?.far)) nearest = { panel, process, far, value: (code / COUNT_TOP) * counter.top };
  });
  return nearest;
}

function tellCount(below, event) {
  if (!below.pointed) { hideTooltip(); return; }
  const counter = below.counters[below.pointed.panel];
  const at = instant(timeAt(below.line, event.clientX) * below.line.tickMs, ((below.line.to - below.line.from) * below.line.tickMs) / 100);
  showTooltip(`${below.processes[below.pointed.process]}, ${at}\n${counter.name}: ${counted(below.pointed.value, counter)}`, event.clientX, event.clientY);
}
