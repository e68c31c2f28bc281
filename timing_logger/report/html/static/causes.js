// Below the heatmap, on its columns: for which part of each step ranks stood still, one row for each cause.

const CAUSE_HEIGHT = 26;
const CAUSE_GAP = 6;
const CAUSE_TOPS = [0.1, 0.2, 0.5, 1]; // of the step: few scales, so that rows are easily compared
const OF_SHARE = 10000;
const SHARE_UNKNOWN = 65535;

async function drawCauses(data, map) {
  const canvas = document.getElementById("causes-canvas");
  const strip = {
    canvas, map, processes: data.processes, cell: null,
    causes: await Promise.all(data.causes.map(async (cause) => ({
      name: cause.name, named: cause.named, mean: shares(await unpack(cause.mean)), most: shares(await unpack(cause.most)), whose: await unpack(cause.whose),
    }))),
  };
  for (const cause of strip.causes) cause.top = CAUSE_TOPS.find((top) => cause.most.every((share) => !(share > top))) ?? 1;
  const draw = redrawOnChange(canvas.parentElement, () => paintCauses(strip));
  for (const name of ["pointermove", "pointerdown"]) {
    canvas.addEventListener(name, (event) => { strip.cell = causeAt(strip, event); tellCause(strip, event.clientX, event.clientY); draw(); });
  }
  canvas.addEventListener("click", (event) => { if (event.pointerType !== "touch") showCause(strip); });
  for (const name of ["pointerleave", "blur"]) {
    canvas.addEventListener(name, () => { strip.cell = null; hideTooltip(); draw(); });
  }
  canvas.addEventListener("keydown", (event) => moveInCauses(strip, event, draw));
}

function shares(codes) {
  return Float64Array.from(codes, (code) => (code === SHARE_UNKNOWN ? NaN : code / OF_SHARE));
}

function paintCauses(strip) {
  const { width, left, columnWidth } = layOut(strip.map);
  const context = sized(strip.canvas, width, strip.causes.length * (CAUSE_HEIGHT + CAUSE_GAP));
  strip.causes.forEach((cause, row) => {
    const bottom = row * (CAUSE_HEIGHT + CAUSE_GAP) + CAUSE_HEIGHT;
    context.fillStyle = colour(cause.named ? "bad" : "ink");
    context.fillText(fitted(context, cause.named ? `\u25b6 ${cause.name}` : cause.name, left - 8), 0, bottom - CAUSE_HEIGHT + 7);
    context.fillStyle = colour("soft");
    context.fillText(`up to ${inPercent(cause.top)}`, 0, bottom - 6);
    context.fillStyle = colour("page");
    context.fillRect(left, bottom - CAUSE_HEIGHT, width - left, CAUSE_HEIGHT);
    context.fillStyle = colour("waiting");
    context.globalAlpha = 0.4;
    fillShares(strip, context, cause.most, cause.top, bottom);
    context.globalAlpha = 1;
    fillShares(strip, context, cause.mean, cause.top, bottom);
    if (strip.cell?.row !== row) return;
    context.strokeStyle = colour("ink");
    context.strokeRect(left + strip.cell.column * columnWidth, bottom - CAUSE_HEIGHT + 0.5, Math.max(2, columnWidth), CAUSE_HEIGHT - 1);
  });
}

// All bars are one shape: neighbours that share a pixel do not add up.
function fillShares(strip, context, values, top, bottom) {
  const { left, columnWidth } = strip.map;
  context.beginPath();
  values.forEach((share, column) => {
    if (share > 0) context.rect(left + column * columnWidth, bottom, columnWidth, -Math.min(1, share / top) * CAUSE_HEIGHT);
  });
  context.fill();
}

function inPercent(share) {
  return Number.isFinite(share) ? `${Number((100 * share).toPrecision(3))}%` : "not known";
}

function causeAt(strip, event) {
  const box = strip.canvas.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - strip.map.left) / strip.map.columnWidth);
  const row = Math.floor((event.clientY - box.top) / (CAUSE_HEIGHT + CAUSE_GAP));
  const inside = column >= 0 && column < strip.map.first.length && row >= 0 && row < strip.causes.length;
  return inside ? { row, column } : null;
}

function tellCause(strip, x, y) {
  if (!strip.cell) { hideTooltip(); return; }
  const { row, column } = strip.cell;
  const cause = strip.causes[row];
  const whose = Number.isFinite(cause.most[column]) ? `\n${strip.processes[cause.whose[column]]}, the most: ${inPercent(cause.most[column])}` : "";
  showTooltip(`${cause.name}, ${stepsText(strip.map, column)}\nmean over the ranks: ${inPercent(cause.mean[column])}${whose}`, x, y);
}

// Leads to the rank with most of it.
function showCause(strip) {
  if (!strip.cell) return;
  const process = strip.processes[strip.causes[strip.cell.row].whose[strip.cell.column]];
  if (process) showColumn(strip.map, process, strip.cell.column);
}

function moveInCauses(strip, event, draw) {
  if (event.key === "Enter") { showCause(strip); return; }
  const step = ARROWS[event.key];
  if (!step) return;
  event.preventDefault();
  strip.cell = movedBy(step, strip.cell, strip.causes.length, strip.map.first.length);
  const box = strip.canvas.getBoundingClientRect();
  tellCause(strip, box.left + strip.map.left + strip.cell.column * strip.map.columnWidth, box.top + strip.cell.row * (CAUSE_HEIGHT + CAUSE_GAP));
  draw();
}
