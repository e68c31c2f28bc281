// Rank by iteration, one view at a time.

const SHADES = 64;
const STRONGEST_AT = 0.98; // this part of the cells has no more than the strongest shade stands for
const LEAST_SPREAD = 1.5; // where all cells are nearly alike they shall look alike
const ROW_OF_MANY = 14; // of many ranks only some have a row, and then each row has its label
const HEADING = 26;
const BANDS = 104; // the names of bands are to be read on a phone, too

async function drawHeatmap(data, line) {
  const canvas = document.getElementById("heatmap-canvas");
  const map = {
    rows: data.rows, sections: data.sections, slow: data.slow, canvas, line, view: 0, cell: null, tapped: null,
    first: await unpack(data.first), last: await unpack(data.last),
    epochs: data.first_epoch && { first: await unpack(data.first_epoch), last: await unpack(data.last_epoch) },
    views: await Promise.all(data.views.map(async (view) => ({ name: view.name, ms: await unpack(view.ms) }))),
  };
  for (const view of map.views) Object.assign(view, shadeEnds(view.ms));
  const draw = redrawOnChange(canvas.parentElement, () => paintHeatmap(map));
  for (const choice of document.querySelectorAll("input[name=view]")) {
    choice.addEventListener("change", () => { map.view = Number(choice.value); draw(); });
  }
  canvas.addEventListener("pointermove", (event) => pointAt(map, event, draw));
  canvas.addEventListener("pointerdown", (event) => pointAt(map, event, draw));
  canvas.addEventListener("click", (event) => clicked(map, event));
  canvas.addEventListener("pointerleave", () => leaveCell(map, draw));
  canvas.addEventListener("blur", () => leaveCell(map, draw));
  canvas.addEventListener("keydown", (event) => moveByKey(map, event, draw));
  return map;
}

// What the faintest and the strongest shade stand for: one hiccup must not make all else look alike.
function shadeEnds(ms) {
  const known = ms.filter(Number.isFinite).sort();
  const at = (part) => known[Math.floor(part * (known.length - 1))];
  const least = at(1 - STRONGEST_AT);
  const longest = known[known.length - 1];
  const most = Math.max(at(STRONGEST_AT), least * LEAST_SPREAD) || longest;
  return { least, most, longest };
}

function layOut(map) {
  const width = map.canvas.parentElement.clientWidth - 2 * parseFloat(getComputedStyle(map.canvas.parentElement).paddingLeft);
  const left = Math.min(130, Math.max(width / 4, map.sections ? BANDS : 0));
  const rowHeight = map.sections ? ROW_OF_MANY : Math.max(1, Math.min(30, Math.floor(460 / map.rows.length)));
  const { tops, headings, end } = placeRows(map, rowHeight);
  return Object.assign(map, { width, left, tops, headings, rowHeight, columnWidth: (width - left) / map.first.length, height: end + 22 });
}

// Where each row begins, and each heading.
function placeRows(map, rowHeight) {
  let at = 2; // for the frame of the first row
  const tops = [];
  const headings = [];
  for (const section of map.sections ?? [{ n_rows: map.rows.length }]) {
    if (section.name) { headings.push({ name: section.name, at: at + HEADING / 2 }); at += HEADING; }
    for (let i = 0; i < section.n_rows; i++, at += rowHeight) tops.push(at);
  }
  return { tops, headings, end: at };
}

function sectionOf(map, row) {
  let first = 0;
  return map.sections?.find(({ n_rows }) => row < (first += n_rows));
}

function paintHeatmap(map) {
  layOut(map);
  const context = sized(map.canvas, map.width, map.height);
  paintCells(map, context);
  paintSlow(map, context);
  paintAxes(map, context);
  for (const [i, about] of [...document.querySelectorAll("#views-explained > div")].entries()) about.hidden = i !== map.view;
  if (map.cell) outline(map, context, map.cell.row, map.cell.column, map.cell.column);
  const view = map.views[map.view];
  const [low, high] = [inMilliseconds(view.least), inMilliseconds(view.most)];
  document.getElementById("scale-low").textContent = low;
  document.getElementById("scale-high").textContent = view.longest > view.most ? `above ${high}: ${strongest()}` : high;
}

// On a dark page the strongest shade is the lightest.
function strongest() {
  return matchMedia("(prefers-color-scheme: dark)").matches ? "lightest" : "darkest";
}

function paintCells(map, context) {
  const { ms, least, most } = map.views[map.view];
  const shades = shadesBetween(rgb(colour("low")), rgb(colour("high")));
  const n = map.first.length;
  const gap = map.rowHeight > 8 ? 1 : 0;
  for (let row = 0; row < map.rows.length; row++) {
    for (let column = 0; column < n; column++) {
      const value = ms[row * n + column];
      if (!Number.isFinite(value)) continue;
      const part = (value - least) / (most - least || 1);
      context.fillStyle = shades[Math.max(0, Math.min(SHADES - 1, Math.floor(part * SHADES)))];
      const x = map.left + column * map.columnWidth;
      context.fillRect(x, map.tops[row], Math.max(map.columnWidth + (gap && map.columnWidth > 6 ? -1 : 0.5), 0.5), map.rowHeight - gap);
    }
  }
}

function shadesBetween(low, high) {
  return Array.from({ length: SHADES }, (_, i) => {
    const mixed = low.map((from, channel) => Math.round(from + ((high[channel] - from) * i) / (SHADES - 1)));
    return `rgb(${mixed})`;
  });
}

function paintSlow(map, context) {
  for (const [row, from, to] of map.slow.frames) outline(map, context, row, from, to);
}

function outline(map, context, row, from, to) {
  // A frame must not hide the cells that it is for.
  const [aside, around] = [map.columnWidth < 6 ? 1 : 0, map.rowHeight < 8 ? 2 : 0];
  context.strokeStyle = colour("bad");
  context.lineWidth = 2;
  context.strokeRect(
    map.left + from * map.columnWidth - aside, map.tops[row] - around,
    (to - from + 1) * map.columnWidth + 2 * aside, map.rowHeight - 1 + 2 * around,
  );
}

function paintAxes(map, context) {
  const every = Math.ceil(14 / map.rowHeight);
  const slow = new Set(map.slow.rows);
  map.rows.forEach((name, row) => {
    if (row % every && !slow.has(row)) return;
    context.fillStyle = colour(slow.has(row) ? "bad" : "soft");
    const label = slow.has(row) ? `\u25b6 ${name}` : name;
    if (slow.has(row) || !nearSlow(row, slow, every)) context.fillText(fitted(context, label, map.left - 8), 0, Math.max(7, map.tops[row] + 0.5 * map.rowHeight));
  });
  paintHeadings(map, context);
  context.fillStyle = colour("soft");
  const y = map.height - 8;
  const end = map.last.length - 1;
  context.fillText(`iteration ${ofEpoch(map.first[0], map.epochs?.first[0])}`, map.left, y);
  context.textAlign = "right";
  context.fillText(ofEpoch(map.last[end], map.epochs?.last[end]), map.width, y);
  context.textAlign = "left";
}

function paintHeadings(map, context) {
  const usual = context.font;
  context.font = `600 ${usual}`;
  context.fillStyle = colour("ink");
  for (const { name, at } of map.headings) context.fillText(fitted(context, name, map.width), 0, at);
  context.font = usual;
}

// Where rows are too low for every label, that of a slow rank takes the place of its neighbours'.
function nearSlow(row, slow, every) {
  return [...slow].some((other) => other !== row && Math.abs(other - row) < every);
}

function cellAt(map, event) {
  const box = map.canvas.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - map.left) / map.columnWidth);
  const y = event.clientY - box.top;
  const row = map.tops.findLastIndex((top) => top <= y);
  const inside = column >= 0 && column < map.first.length && row >= 0 && y < map.tops[row] + map.rowHeight;
  return inside ? { row, column } : null;
}

function pointAt(map, event, draw) {
  map.cell = cellAt(map, event);
  if (map.cell) showTooltip(cellText(map), event.clientX, event.clientY);
  else hideTooltip();
  draw();
}

function leaveCell(map, draw) {
  map.cell = null;
  hideTooltip();
  draw();
}

// A finger's first tap on a cell tells what it is, as pointing does; its second one goes there.
function clicked(map, event) {
  const cell = cellAt(map, event);
  const again = cell && map.tapped && cell.row === map.tapped.row && cell.column === map.tapped.column;
  map.tapped = cell;
  if (cell && (event.pointerType !== "touch" || again)) showInTimeline(map, cell);
}

function showInTimeline(map, { row, column }) {
  showColumn(map, map.rows[row], column);
}

function showColumn(map, process, column) {
  const step = (ends) => ({ iteration: map[ends][column], epoch: map.epochs?.[ends][column] });
  if (map.line) showSteps(map.line, process, step("first"), step("last"), Boolean(map.sections));
}

const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

// The first key leads to the first cell.
function movedBy(step, cell, rows, columns) {
  const from = cell ?? { row: 0, column: -step[1] };
  return {
    row: Math.max(0, Math.min(rows - 1, from.row + step[0])),
    column: Math.max(0, Math.min(columns - 1, from.column + step[1])),
  };
}

function moveByKey(map, event, draw) {
  if (event.key === "Enter" && map.cell) { showInTimeline(map, map.cell); return; }
  const step = ARROWS[event.key];
  if (!step) return;
  event.preventDefault();
  map.cell = movedBy(step, map.cell, map.rows.length, map.first.length);
  const box = map.canvas.getBoundingClientRect();
  showTooltip(cellText(map), box.left + map.left + map.cell.column * map.columnWidth, box.top + map.tops[map.cell.row]);
  draw();
}

// Where iterations restart in each epoch, their number alone would be that of several steps.
function ofEpoch(iteration, epoch) {
  return epoch === undefined ? String(iteration) : `${iteration} of epoch ${epoch}`;
}

function stepsText(map, column) {
  const first = ofEpoch(map.first[column], map.epochs?.first[column]);
  const last = ofEpoch(map.last[column], map.epochs?.last[column]);
  return first === last ? `iteration ${first}` : `iterations ${first} to ${last}, mean`;
}

function cellText(map) {
  const { row, column } = map.cell;
  const view = map.views[map.view];
  return `${map.rows[row]}${sectionOf(map, row)?.about ?? ""}, ${stepsText(map, column)}\n${view.name}: ${inMilliseconds(view.ms[row * map.first.length + column])}`;
}
