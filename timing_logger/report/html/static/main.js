// The page is drawn once its data is unpacked.

const content = pageData();
await Promise.all([content.heatmap && drawHeatmap(content.heatmap), content.timeline && drawTimeline(content.timeline)]);
document.documentElement.dataset.drawn = "yes";
