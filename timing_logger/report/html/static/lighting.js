// Which rows of the timeline are lit: those that are searched for, or waits; the others are dimmed.

const DIMMED = 0.15;

function listenToLighting(line) {
  const search = document.getElementById("timeline-search");
  search.addEventListener("input", () => { line.query = search.value.trim().toLowerCase(); light(line); });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") showNextLit(line, event.shiftKey ? -1 : 1);
    if (event.key === "Escape") { search.value = line.query = ""; light(line); }
  });
  const waits = document.getElementById("timeline-waits");
  waits?.addEventListener("click", () => {
    line.onlyWaits = toggled(waits);
    light(line);
  });
}

function toggled(button) {
  const pressed = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", String(pressed));
  return pressed;
}

// line.lit has one entry for each row, or is null where nothing is dimmed.
function light(line) {
  const found = (name) => name.toLowerCase().includes(line.query);
  const operations = line.operations.map(([name, kind]) => ({ found: found(name), waits: kind === "waiting" }));
  const layers = line.layers.map(found);
  line.lit = null;
  if (line.query || line.onlyWaits) {
    line.lit = Uint8Array.from(line.operation, (operation, i) =>
      (operations[operation].found || layers[line.layer[i]]) && (!line.onlyWaits || operations[operation].waits));
  }
  line.found = line.lit ? inOrderOfTime(line) : [];
  line.foundAt = null;
  tellFound(line);
  line.draw();
}

function inOrderOfTime(line) {
  const found = [];
  line.lit.forEach((lit, i) => { if (lit) found.push(i); });
  return found.sort((a, b) => line.begin[a] - line.begin[b] || a - b);
}

function tellFound(line) {
  const n = line.found.length;
  const which = line.foundAt === null ? "" : `${line.foundAt + 1} of `;
  document.getElementById("timeline-found").textContent = line.lit ? `${which}${n} ${n === 1 ? "row" : "rows"}` : "";
}

// The first is the first in view; after the last comes the first again.
function showNextLit(line, by) {
  const n = line.found.length;
  if (!n) return;
  const inView = line.found.findIndex((i) => line.begin[i] + line.duration[i] >= line.from);
  line.foundAt = line.foundAt === null ? Math.max(0, inView) : (line.foundAt + by + n) % n;
  const i = line.found[line.foundAt];
  if (line.begin[i] < line.from || line.begin[i] + line.duration[i] > line.to) {
    const span = Math.max(line.to - line.from, 1.2 * line.duration[i]);
    show(line, line.begin[i] + line.duration[i] / 2 - span / 2, Math.min(line.end, span));
  }
  scrollToLane(line, laneOf(line, i));
  tellFound(line);
  line.draw();
}

function laneOf(line, i) {
  return line.lanes[line.laneStarts.findIndex((start) => start > i) - 1];
}

function scrollToLane(line, lane) {
  const [above, below] = [lane.top - AXIS_HEIGHT, lane.top + LANE_HEIGHT - line.viewHeight];
  line.box.scrollTop = Math.max(below, Math.min(above, line.box.scrollTop));
}

// A frame around the row that Enter led to.
function paintFound(line, context) {
  if (line.foundAt === null) return;
  const i = line.found[line.foundAt];
  const perTick = (line.width - line.left) / (line.to - line.from);
  const x = line.left + (line.begin[i] - line.from) * perTick;
  const width = Math.max(2, line.duration[i] * perTick);
  if (x + width < line.left || x > line.width) return;
  context.strokeStyle = colour("ink");
  context.lineWidth = 2;
  const from = Math.max(line.left, x);
  context.strokeRect(from - 1, laneOf(line, i).top - line.box.scrollTop - 1, Math.min(x + width, line.width) - from + 2, LANE_HEIGHT);
}
