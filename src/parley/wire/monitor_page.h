// The page that a server shows of itself: its nodes, and the run's report below.
#pragma once

namespace parley::wire {

// Names and reasons come from nodes, and go into the page as text alone.
inline constexpr const char* kMonitorPage = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Parley server</title>
<style>
  :root { color-scheme: light dark; --back: #f6f5f1; --ink: #1c1d20; --faint: #5a5d63; --line: #dedcd5; --good: #16794c; --bad: #a33b00; }
  @media (prefers-color-scheme: dark) {
    :root { --back: #131518; --ink: #e9e8e4; --faint: #a6a9af; --line: #33373d; --good: #7fe3bd; --bad: #ff9d66; }
  }
  body { margin: 0; background: var(--back); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
  main { max-width: 70rem; margin: 0 auto; padding: 1.5rem; }
  h1 { font-size: 1.3rem; margin: 0 0 .2rem; }
  p { color: var(--faint); margin: 0 0 1rem; }
  .scroll { overflow-x: auto; }
  table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
  th, td { text-align: left; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
  th { color: var(--faint); font-weight: 500; }
  td.n, th.n { text-align: right; }
  .on { color: var(--good); } .off { color: var(--bad); }
  #report { position: relative; height: 75vh; margin-top: 1.5rem; border-top: 1px solid var(--line); }
  iframe { position: absolute; inset: 0; border: 0; width: 100%; height: 100%; }
  iframe.coming { visibility: hidden; }
</style>
</head>
<body>
<main>
  <h1 id="title">Federation</h1>
  <p id="summary" aria-live="polite">asking the server …</p>
  <div class="scroll" id="federation"><table>
    <thead><tr><th>node</th><th>state</th><th>last seen</th><th class="n">examples</th><th class="n">accepted</th>
      <th class="n">refused</th><th class="n">received</th><th class="n">sent</th><th>last refusal</th></tr></thead>
    <tbody id="nodes"></tbody>
  </table></div>
</main>
<div id="report"></div>
<script>
  "use strict";
  const query = location.search;
  const size = n => n < 1e3 ? n + " B" : n < 1e6 ? (n / 1e3).toFixed(1) + " kB" : (n / 1e6).toFixed(1) + " MB";
  let shownRound = -1;
  function cell(row, text, kind) {
    const td = row.insertCell();
    td.textContent = text;
    if (kind) td.className = kind;
  }
  // What the reader has moved, chosen or opened in a report, so that the next one can be put in its place unnoticed.
  function carryOver(from, to) {
    const inBoth = (selector, carry) => {
      const before = from.contentDocument.querySelectorAll(selector);
      to.contentDocument.querySelectorAll(selector).forEach((now, i) => { if (before[i]) carry(before[i], now); });
    };
    inBoth("details", (before, now) => { now.open = before.open; });
    inBoth("button[aria-pressed]", (before, now) => {
      if (before.getAttribute("aria-pressed") === "true" && now.getAttribute("aria-pressed") === "false") now.click();
    });
    to.contentWindow.scrollTo({ left: from.contentWindow.scrollX, top: from.contentWindow.scrollY, behavior: "instant" });
  }
  // The new report is loaded behind the old one, which goes when it is there.
  function showReport() {
    const place = document.getElementById("report");
    if (place.querySelector(".coming")) return false;
    const coming = document.createElement("iframe");
    coming.title = "The run's report";
    coming.className = "coming";
    coming.addEventListener("load", () => {
      const old = place.querySelector("iframe:not(.coming)");
      try { if (old) carryOver(old, coming); } catch (error) { /* it is shown from its top */ }
      coming.className = "";
      if (old) old.remove();
    }, { once: true });
    coming.src = "report" + query;
    place.append(coming);
    return true;
  }
  async function refresh() {
    const summary = document.getElementById("summary");
    try {
      const status = await (await fetch("status.json" + query)).json();
      const here = status.nodes.filter(n => n.connected).length;
      document.title = status.simulated ? "Parley run" : "Parley server";
      document.getElementById("title").textContent = status.simulated ? "Run" : "Federation";
      document.getElementById("federation").hidden = !!status.simulated;
      summary.textContent = status.simulated ? `round ${status.round} of ${status.rounds || "…"} · a simulation` :
        `round ${status.round} · ${here} of ${status.expected} nodes connected` +
        (status.complete ? "" : " · waiting until all have joined") +
        (status.connections_refused ? ` · ${status.connections_refused} connections refused` : "");
      const body = document.getElementById("nodes");
      body.replaceChildren();
      for (const n of status.nodes) {
        const row = body.insertRow();
        cell(row, n.name);
        cell(row, n.doing, n.connected ? "on" : "off");
        cell(row, n.last_seen.replace("T", " ").replace(/\..*/, " UTC"));
        for (const value of [n.examples, n.accepted, n.refused]) cell(row, value, "n");
        cell(row, size(n.bytes_in), "n");
        cell(row, size(n.bytes_out), "n");
        cell(row, n.last_refusal);
      }
      if (status.round !== shownRound && showReport()) shownRound = status.round;
    } catch (error) {
      summary.textContent = "the server does not answer; trying again";
    }
    setTimeout(refresh, 2000);
  }
  refresh();
</script>
</body>
</html>
)html";

}  // namespace parley::wire
