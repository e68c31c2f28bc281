// The page is drawn once its data is unpacked; returns what the reader can move.

async function drawPage(content) {
  const line = content.timeline && await drawTimeline(content.timeline);
  if (content.counters) await drawCounters(content.counters, line, namedIn(content.heatmap));
  const map = content.heatmap && await drawHeatmap(content.heatmap, line);
  if (content.causes) await drawCauses(content.causes, map);
  document.documentElement.dataset.drawn = "yes";
  return { line, map };
}
