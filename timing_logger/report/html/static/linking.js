// Which rows belong together, parts of a collective or the two sides of a message, as _timeline.py leaves it.

const NOT_LINKED = -(2 ** 31);

function linkRows(line, steps) {
  line.link = new Int32Array(steps.length).fill(-1);
  line.linked = []; // for each collective or message its rows
  let number = 0;
  steps.forEach((step, i) => {
    if (step === NOT_LINKED) return;
    number += step;
    line.link[i] = number;
    (line.linked[number] ??= []).push(i);
  });
}

function togetherWith(line, i) {
  return i >= 0 && line.link[i] >= 0 ? line.linked[line.link[i]] : [];
}

function pointTo(line, i) {
  const changes = line.pointed !== i && (togetherWith(line, line.pointed).length || togetherWith(line, i).length);
  line.pointed = i;
  if (changes) line.draw();
}

// Lines from rank to rank through the begins of a collective's rows, or from the send to the end of the receive.
function paintLinks(line, context) {
  const rows = togetherWith(line, line.pointed >= 0 ? line.pointed : line.found[line.foundAt] ?? -1);
  if (!rows.length) return;
  context.save();
  context.beginPath();
  context.rect(line.left, AXIS_HEIGHT, line.width - line.left, line.viewHeight - AXIS_HEIGHT);
  context.clip();
  context.strokeStyle = context.fillStyle = colour("ink");
  context.lineWidth = 1.5;
  const ends = sendFirst(line, rows).map((i) => linkEnd(line, i));
  context.beginPath();
  ends.forEach(({ x, y }) => context.lineTo(x, y));
  context.stroke();
  for (const { x, y } of ends) { context.beginPath(); context.arc(x, y, 3, 0, 7); context.fill(); }
  context.restore();
}

function linkEnd(line, i) {
  const perTick = (line.width - line.left) / (line.to - line.from);
  const at = line.begin[i] + (isReceive(line, i) ? line.duration[i] : 0);
  return { x: line.left + (at - line.from) * perTick, y: laneOf(line, i).top - line.box.scrollTop + LANE_HEIGHT / 2 - 1 };
}

function isReceive(line, i) {
  return line.operations[line.operation[i]][0].split("_")[0] === "RECV";
}

// Collectives have their rows in the order of the lanes, from top to bottom.
function sendFirst(line, rows) {
  return [...rows].sort((a, b) => isReceive(line, a) - isReceive(line, b) || a - b);
}

function linkText(line, i) {
  const rows = togetherWith(line, i);
  if (!rows.length) return "";
  const what = rows.some((row) => isReceive(line, row)) ? "message" : "collective";
  return `\none of ${rows.length} rows of this ${what}`;
}
