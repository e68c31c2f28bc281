// What both canvases share: sharp on any screen, in the page's colours, drawn again when either changes.

function sized(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  context.textBaseline = "middle";
  return context;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function rgb(hex) {
  const full = hex.length === 4 ? hex.replace(/[^#]/g, "$&$&") : hex;
  return [1, 3, 5].map((at) => parseInt(full.slice(at, at + 2), 16));
}

// A page that refreshes itself replaces elements: those are drawn no more, and nothing that stays must hold them.
function redrawOnChange(element, draw) {
  let asked = 0;
  const ask = () => { asked ||= requestAnimationFrame(() => { asked = 0; if (element.isConnected) draw(); }); };
  new ResizeObserver(ask).observe(element);
  element.classList.add("drawn");
  element.addEventListener("recolour", ask);
  return ask;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const element of document.querySelectorAll(".drawn")) element.dispatchEvent(new Event("recolour"));
});

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let short = text;
  while (short && context.measureText(`${short}\u2026`).width > width) short = short.slice(0, -1);
  return short ? `${short}\u2026` : "";
}
