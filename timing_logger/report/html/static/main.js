// The page is drawn once its data is unpacked.

const content = pageData();
const line = content.timeline && await drawTimeline(content.timeline);
if (content.heatmap) await drawHeatmap(content.heatmap, line);
document.documentElement.dataset.drawn = "yes";
