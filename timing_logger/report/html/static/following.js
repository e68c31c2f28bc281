// A page over a run in progress asks for what is new, until the run ends.

const LIMIT_MS = 10000;
const LATE_MS = 60000; // of many ranks it takes a while to make what is below the head

const connection = document.getElementById("connection");
document.documentElement.style.overflowAnchor = "none"; // the place is kept by keepPlace
showTimes(document);

const follower = { ...pageData().live, view: await drawPage(pageData()), newAt: Date.now() };
while (!(await followed(follower))) await nextLook(follower.every_s);

// Returns whether that was all.
async function followed(follower) {
  try {
    const state = await (await asked("now")).json();
    if (state.version !== follower.version) follower.newAt = Date.now();
    if (state.version !== follower.version && renewed("now", elementOf(state.now))) follower.version = state.version;
    if (state.figures !== follower.figures) await renewFigures(follower);
    const isAll = state.over && state.figures === follower.figures;
    tellConnection(follower, isAll);
    return isAll;
  } catch (error) {
    tellLate(follower, "timing-logger does not answer. It may have been stopped.");
    return false;
  }
}

function tellConnection(follower, isAll) {
  const lateMs = LATE_MS + 2000 * follower.every_s;
  if (isAll) tell("The run ended, and this page stopped asking. Reload it to look again.");
  else if (Date.now() - follower.newAt > lateMs) tellLate(follower, "timing-logger answers, but has seen nothing new.");
  else tell("");
}

function tellLate(follower, why) {
  tell(`Not updated since ${timeOfDay(follower.newAt)}: ${why}`, "late");
}

// Said once: who listens to the page would hear it with each look.
function tell(text, kind = "") {
  if (connection.textContent !== text) connection.textContent = text;
  connection.className = kind;
}

async function asked(name) {
  const answer = await fetch(name, { cache: "no-store", signal: AbortSignal.timeout(LIMIT_MS) });
  if (!answer.ok) throw new Error(answer.statusText);
  return answer;
}

// The sections below, with their data; not while somebody looks into them.
async function renewFigures(follower) {
  const main = document.querySelector("main");
  if (isLookedInto(follower.view.line) || isInUse(main)) return;
  const page = parsed(await (await asked("./")).text());
  hideTooltip();
  delete document.documentElement.dataset.drawn;
  for (const selector of ["nav", "#data"]) document.querySelector(selector).replaceWith(page.querySelector(selector));
  replaceKeeping(main, page.querySelector("main"));
  showTimes(document);
  const content = pageData();
  follower.figures = content.live.figures;
  const place = placeOf();
  follower.view = await drawPage(content);
  const chosen = document.querySelector(".views input:checked");
  chosen?.dispatchEvent(new Event("change"));
  keepPlace(place);
}

function renewed(id, fresh) {
  const stale = document.getElementById(id);
  if (isInUse(stale)) return false;
  replaceKeeping(stale, fresh);
  showTimes(fresh);
  return true;
}

function elementOf(html) {
  return document.importNode(parsed(html).body.firstElementChild, true);
}

function parsed(html) {
  return new DOMParser().parseFromString(html, "text/html");
}

function showTimes(root) {
  for (const time of root.querySelectorAll("time")) time.textContent = timeOfDay(time.dateTime);
}

function timeOfDay(instant) {
  return new Date(instant).toLocaleTimeString([], { hourCycle: "h23" });
}

// A page that nobody sees asks nothing.
async function nextLook(seconds) {
  await new Promise((done) => setTimeout(done, 1000 * seconds));
  if (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
}
