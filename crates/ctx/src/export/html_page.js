"use strict";
// Search, folding and the theme of an exported session. The page works without it.
(() => {
  const search = document.getElementById("search");
  const found = document.getElementById("found");
  const turns = [...document.querySelectorAll(".turn")];
  const texts = turns.map((turn) => turn.textContent.toLowerCase());
  const folds = [...document.querySelectorAll("details")];

  const unmark = () => {
    for (const mark of document.querySelectorAll("mark")) {
      const parent = mark.parentNode;
      mark.replaceWith(mark.textContent);
      parent.normalize();
    }
  };

  const markIn = (root, word) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const nodes = [];
    while (walker.nextNode()) nodes.push(walker.currentNode);
    for (let node of nodes) {
      for (let at = node.data.toLowerCase().indexOf(word); at >= 0; at = node.data.toLowerCase().indexOf(word)) {
        const hit = node.splitText(at);
        if (hit.data.length < word.length) break;
        node = hit.splitText(word.length);
        const mark = document.createElement("mark");
        hit.replaceWith(mark);
        mark.append(hit);
      }
    }
  };

  const run = () => {
    unmark();
    const word = search.value.trim().toLowerCase();
    let count = 0;
    turns.forEach((turn, n) => {
      const hit = word === "" || texts[n].includes(word);
      turn.classList.toggle("hidden", !hit);
      if (word === "" || !hit) return;
      count += 1;
      markIn(turn, word);
      for (const fold of turn.querySelectorAll("details")) {
        if (fold.textContent.toLowerCase().includes(word)) fold.open = true;
      }
    });
    found.textContent = word === "" ? "" : `${count} of ${turns.length} turns`;
  };

  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(run, 120);
  });
  document.getElementById("unfold").addEventListener("click", (event) => {
    const open = folds.some((fold) => !fold.open);
    for (const fold of folds) fold.open = open;
    event.target.textContent = open ? "Fold all" : "Unfold all";
  });
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = root.classList.contains("dark") || (!root.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
    root.classList.toggle("dark", !isDark);
    root.classList.toggle("light", isDark);
  });
})();
