"use strict";
// Sorting and finding; the page has everything without it.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    return "by" in cell.dataset ? Number(cell.dataset.by) : cell.textContent.trim().toLowerCase();
  };
  const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b));
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      // Words begin with A, numbers with the greatest.
      const first = head.classList.contains("word") ? "ascending" : "descending";
      const second = first === "ascending" ? "descending" : "ascending";
      const order = before === first ? second : first;
      for (const other of heads) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const body = table.tBodies[0];
      const rows = [...body.rows].map((row) => [key(row, column), row]);
      rows.sort((a, b) => sign * compare(a[0], b[0]));
      body.append(...rows.map((pair) => pair[1]));
      shorten(table);
    });
  });
}

// A long table shows its first rows of those that were found.
function shorten(table) {
  const short = table.classList.contains("short");
  let left = 25;
  for (const row of table.tBodies[0].rows) {
    const found = !row.classList.contains("lost");
    row.classList.toggle("beyond", short && found && left <= 0);
    if (found) left -= 1;
  }
}

const blame = document.getElementById("blame");
if (blame) {
  const count = blame.tBodies[0].rows.length;
  shorten(blame);
  const all = document.getElementById("all");
  all?.addEventListener("click", () => {
    const short = blame.classList.toggle("short");
    all.setAttribute("aria-expanded", String(!short));
    all.textContent = short ? `Show all ${count}` : "Show the first 25";
    shorten(blame);
  });
  document.getElementById("find").addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    let found = 0;
    for (const row of blame.tBodies[0].rows) {
      const text = `${row.cells[0].textContent} ${row.cells[1].textContent}`.toLowerCase();
      const lost = !text.includes(wanted);
      row.classList.toggle("lost", lost);
      if (!lost) found += 1;
    }
    document.getElementById("found").textContent = wanted ? `${found} of ${count}` : `${count} in all`;
    shorten(blame);
  });
}
