"""What is asked of an open page in a browser: scripts that return what is wrong with its looks."""

from __future__ import annotations

# The words of all headings that are on more than one line.
BROKEN_WORDS = """
() => [...document.querySelectorAll("h1, h2, h3, th, figcaption b, legend, dt")].flatMap((heading) => {
  const texts = document.createTreeWalker(heading, NodeFilter.SHOW_TEXT);
  const broken = [];
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    for (const word of node.data.matchAll(/[^\\s]+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) broken.push(word[0]);
    }
  }
  return broken;
})
"""

# What reaches beyond the screen, but for what stands in a box that scrolls by itself.
CUT = """
() => [...document.querySelectorAll("body *")]
  .filter((element) => !element.closest(".scroll, [hidden]") && element.checkVisibility())
  .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
  .map((element) => `${element.tagName} ${element.className} ${element.textContent.trim().slice(0, 30)}`)
"""

# Pairs of texts of an axis of which one stands on the other.
OVERLAPPING_TICKS = """
() => [...document.querySelectorAll(".axis")].flatMap((axis) => {
  const shown = [...axis.children].filter((tick) => tick.checkVisibility())
    .map((tick) => [tick.textContent, tick.getBoundingClientRect()]);
  return shown.slice(1).filter(([, box], i) => box.left < shown[i][1].right).map(([text]) => text);
})
"""

LANDMARKS = """
() => [...document.querySelectorAll("section, nav, [role=region]")].map((part) =>
  part.getAttribute("aria-label") ??
  document.getElementById(part.getAttribute("aria-labelledby")).textContent)
"""

# Of every text that is shown: its contrast to what is behind it, by WCAG 2.
LOW_CONTRASTS = """
() => {
  const numbers = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const luminance = (colour) => {
    const [r, g, b] = numbers(colour).slice(0, 3).map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const low = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!text || ["SCRIPT", "NOSCRIPT", "title"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const [a, b] = [luminance(element.closest("svg") ? style.fill : style.color), luminance(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) low.push(`${element.tagName} ${element.textContent.trim().slice(0, 30)} ${contrast}`);
  }
  return low;
}
"""
