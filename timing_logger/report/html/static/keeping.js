// What a reader has opened, chosen and scrolled to stays as it is where parts of the page are replaced.

const KEPT = "details, .scroll, .timeline, .explained > div, button, summary, input, output, .scale span, canvas";
const PLACES = "section h2, section canvas, section summary";

// The same for what takes an element's place: its section, and what it is called there.
function keyOf(element) {
  const words = element.closest("label") ?? element.closest("details")?.querySelector("summary") ?? element;
  return [element.closest("section")?.id, element.tagName, element.id || element.ariaLabel || words.textContent].join("\n");
}

function kept(root) {
  return new Map([...root.querySelectorAll(KEPT)].map((element) => [keyOf(element), element]));
}

// Puts `fresh` in the place of `stale`.
function replaceKeeping(stale, fresh) {
  const [before, after] = [kept(stale), kept(fresh)];
  const focused = stale.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  const scrolled = [];
  for (const [key, element] of after) {
    const old = before.get(key);
    if (!old) continue;
    if (element.tagName === "DETAILS") element.open = old.open;
    if (element.type === "radio") element.checked = old.checked;
    if (element.matches("output, .scale span")) element.textContent = old.textContent;
    element.hidden = old.hidden;
    if (element.tagName === "CANVAS") keepPicture(old, element);
    scrolled.push([element, old.scrollLeft, old.scrollTop]);
  }
  const place = placeOf();
  stale.replaceWith(fresh);
  for (const [element, left, top] of scrolled) element.scrollTo({ left, top, behavior: "instant" });
  after.get(focused)?.focus({ preventScroll: true });
  keepPlace(place);
}

// Until it is drawn itself, so that nothing jumps or flickers.
function keepPicture(old, canvas) {
  [canvas.width, canvas.height, canvas.style.height] = [old.width, old.height, old.style.height];
  if (old.width && old.height) canvas.getContext("2d").drawImage(old, 0, 0);
  const size = canvas.closest("#timeline-size");
  if (size) size.style.height = old.closest("#timeline-size").style.height;
}

// The first of these that is wholly on the screen, and where; null at the head of the page, where all may move.
function placeOf() {
  const element = scrollY > 0 && [...document.querySelectorAll(PLACES)].find((one) => one.getBoundingClientRect().top >= 0);
  return element ? { key: keyOf(element), top: element.getBoundingClientRect().top } : null;
}

function keepPlace(place) {
  const element = place && [...document.querySelectorAll(PLACES)].find((one) => keyOf(one) === place.key);
  if (element) scrollBy({ top: element.getBoundingClientRect().top - place.top, behavior: "instant" });
}

let isPressed = false;
for (const name of ["pointerdown", "pointerup", "pointercancel"]) {
  addEventListener(name, () => { isPressed = name === "pointerdown"; }, { capture: true });
}

// Whether a reader is at something that would be lost.
function isInUse(root) {
  const selection = getSelection();
  return isPressed || (!tooltip.hidden && root.contains(document.getElementById("timeline"))) ||
    (!selection.isCollapsed && root.contains(selection.anchorNode));
}

function isLookedInto(line) {
  return Boolean(line && (line.to - line.from < line.end || line.query || line.onlyWaits || line.measures || line.chosen));
}
