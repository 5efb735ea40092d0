"use strict";
// Put at the end of a page, to try it out: the verdict is in the document when it is printed.
(() => {
  const lines = [];
  const check = (holds, what) => lines.push(`${holds ? "PASS" : "FAIL"} ${what}`);
  const order = (table, column) =>
    [...table.tBodies[0].rows].map((row) => {
      const cell = row.cells[column];
      return "by" in cell.dataset ? Number(cell.dataset.by) : cell.textContent.trim().toLowerCase();
    });
  const inOrder = (keys, up) => {
    const pairs = keys.slice(1).map((key, i) => (up ? [keys[i], key] : [key, keys[i]]));
    return pairs.every(([a, b]) => (typeof a === "number" ? a <= b : a.localeCompare(b) <= 0));
  };
  const tables = [...document.querySelectorAll("table.sortable")];
  check(tables.length > 0, "there is a table to sort");
  for (const table of tables) {
    const rows = () => [...table.tBodies[0].rows].map((row) => row.textContent).sort().join();
    const before = rows();
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      const seen = new Set();
      for (let i = 0; i < 2; i++) {
        button.click();
        const sort = head.getAttribute("aria-sort");
        seen.add(sort);
        const name = button.textContent.trim();
        check(inOrder(order(table, column), sort === "ascending"), `${name} is ${sort}`);
        const others = table.tHead.querySelectorAll("[aria-sort]:not([aria-sort=none])");
        check(others.length === 1, `only ${name} is said to be sorted by`);
      }
      check(seen.size === 2, `${button.textContent.trim()} sorts both ways`);
    });
    check(before === rows(), "sorting loses no row");
  }
  const blame = document.getElementById("blame");
  if (blame) {
    const shown = () => [...blame.tBodies[0].rows].filter((row) => row.offsetParent !== null).length;
    const all = blame.tBodies[0].rows.length;
    check(shown() === Math.min(all, 25), "a long table shows its first rows");
    const find = document.getElementById("find");
    find.value = blame.tBodies[0].rows[0].cells[0].textContent;
    find.dispatchEvent(new Event("input"));
    check(shown() >= 1 && (shown() < all || all === 1), "finding narrows the table");
    find.value = "";
    find.dispatchEvent(new Event("input"));
    const more = document.getElementById("all");
    check(Boolean(more) === all > 25, "all rows can be asked for where there are more");
    if (more) {
      more.click();
      check(shown() === all, "all rows can be seen");
      more.click();
      check(shown() === 25, "and hidden again");
    }
  }
  const heads = [...document.querySelectorAll("th")];
  check(heads.every((head) => head.scope === "col" || head.scope === "row"), "every head has a scope");
  const pictures = [...document.querySelectorAll("svg")];
  const named = (svg) => svg.getAttribute("aria-label") || svg.getAttribute("aria-labelledby");
  check(pictures.every((svg) => svg.getAttribute("role") === "img" && named(svg)), "every picture has a name");
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  check(new Set(ids).size === ids.length, "no id is twice");
  check(document.documentElement.scrollWidth <= window.innerWidth, "the page is not wider than the window");
  const document_ = JSON.parse(document.getElementById("data").textContent);
  check(document_.version === 2 && document_.results.length > 0, "the data can be read");
  check(window.harm === undefined, "no name of a trace was executed");
  check(performance.getEntriesByType("resource").length === 0, "nothing was fetched");
  const verdict = document.createElement("pre");
  verdict.id = "verdict";
  verdict.textContent = `\n${lines.join("\n")}\nEND of ${lines.length}\n`;
  document.body.append(verdict);
})();
