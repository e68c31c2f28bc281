// One small box of text, which follows whatever is pointed at or moved to by keys.

const tooltip = document.getElementById("tooltip");

function showTooltip(text, x, y) {
  tooltip.textContent = text;
  tooltip.hidden = false;
  const { width, height } = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 4))}px`;
  tooltip.style.top = `${y + 16 + height > innerHeight ? y - height - 10 : y + 16}px`;
}

function hideTooltip() {
  tooltip.hidden = true;
}

function inMilliseconds(ms) {
  return Number.isFinite(ms) ? `${Number(ms.toPrecision(4))} ms` : "not known";
}
