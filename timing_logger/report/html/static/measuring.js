// A span of time that somebody chose: how long it is, and what is inside.

const MOST_MEASURED = 12; // operations in the list

function listenToMeasuring(line) {
  const button = document.getElementById("timeline-measure");
  button.addEventListener("click", () => { line.measures = toggled(button); });
  line.canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey) return;
    if (event.key === "m") choose(line, line.from, line.to, line.isCommon ? null : laneInView(line).rank);
    if (event.key === "Escape") forget(line);
  });
}

function laneInView(line) {
  return line.lanes.find((lane) => lane.top + LANE_HEIGHT > line.box.scrollTop + AXIS_HEIGHT);
}

// While a pointer is dragged. Instants of ranks whose clocks do not agree are not compared: then one rank is measured.
function dragChoice(line, event) {
  const at = Math.max(0, Math.min(line.end, timeAt(line, event.clientX)));
  line.dragFrom ??= { at, process: line.isCommon ? null : (laneAt(line, event) ?? laneInView(line)).rank };
  choose(line, Math.min(line.dragFrom.at, at), Math.max(line.dragFrom.at, at), line.dragFrom.process);
}

// `process`: the only one whose rows are counted; null for all.
function choose(line, from, to, process) {
  line.chosen = { from, to, process };
  tellChosen(line);
  line.draw();
}

function forget(line) {
  line.chosen = null;
  document.getElementById("timeline-chosen").hidden = true;
  line.draw();
}

function tellChosen(line) {
  const { from, to, process } = line.chosen;
  const fine = ((to - from) * line.tickMs) / 100;
  const ends = [from, to].map((at) => instant(at * line.tickMs, fine || 1));
  const whose = process ?? "all ranks and threads together";
  document.getElementById("timeline-length").textContent =
    `${inMilliseconds((to - from) * line.tickMs)}, from ${ends[0]} to ${ends[1]}; ${whose}:`;
  const inside = measured(line).sort((a, b) => b.ticks - a.ticks);
  const rows = inside.slice(0, MOST_MEASURED).map(({ name, ticks, count }) =>
    [name, inMilliseconds(ticks * line.tickMs), `${count} ${count === 1 ? "row" : "rows"}`]);
  if (inside.length > MOST_MEASURED) rows.push([`${inside.length - MOST_MEASURED} more`, "", ""]);
  document.getElementById("timeline-inside").replaceChildren(...(rows.length ? rows : [["no row", "", ""]]).map(tableRow));
  document.getElementById("timeline-chosen").hidden = false;
}

function tableRow(cells) {
  const row = document.createElement("tr");
  row.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
  return row;
}

// For each operation how much time of its rows is inside, and how many rows reach into the span.
function measured(line) {
  const { from, to, process } = line.chosen;
  const found = line.operations.map(([name]) => ({ name, ticks: 0, count: 0 }));
  line.lanes.forEach((lane, index) => {
    if (process !== null && lane.rank !== process) return;
    for (let i = firstFrom(line, index, from); i < line.laneStarts[index + 1] && line.begin[i] < to; i++) {
      const ticks = Math.min(to, line.begin[i] + line.duration[i]) - Math.max(from, line.begin[i]);
      if (ticks <= 0) continue;
      found[line.operation[i]].ticks += ticks;
      found[line.operation[i]].count += 1;
    }
  });
  return found.filter(({ count }) => count);
}

function paintChosen(line, context) {
  if (!line.chosen) return;
  const x = (at) => Math.max(line.left, Math.min(line.width, line.left + ((at - line.from) / (line.to - line.from)) * (line.width - line.left)));
  const [from, to] = [x(line.chosen.from), x(line.chosen.to)];
  context.fillStyle = colour("accent");
  context.globalAlpha = 0.14;
  context.fillRect(from, 0, to - from, line.viewHeight);
  context.globalAlpha = 1;
  for (const at of [from, to]) context.fillRect(at - 0.5, 0, 1, line.viewHeight);
}
