// The audit: a report on the ledger, or on a recording that is chosen. The gateway makes it, by the
// same hand as the page of `softland audit`; here it is asked for and shown.

import { Refused, ask, setToken } from "/feed.js";
import { clean } from "/text.js";
import { takeToken } from "/token.js";
import { fine, onToken, trouble } from "/trouble.js";

const MOST = 256 * 1024 * 1024;
// What the ledger does not have, by what it keeps.
const NO_CALLS = "A ledger has what runs cost, what softland saw and did in them, and how they ended; it keeps no single tool calls, so none unfold here.";
const KEEPS = {
  full: NO_CALLS + " Whole contents are kept: what was said and called is on a run's own page.",
  digests: NO_CALLS + " What was said is not kept either: with [ledger] content = \"full\" a run's own page shows it.",
};
const $ = (id) => document.getElementById(id);
let under = null;            // what can be given up
let wanted = null;           // the recording, or null: the ledger

function state(text, busy) {
  $("state").textContent = text;
  $("stop").hidden = !busy;
  $("state").parentElement.classList.toggle("unseen", !text && !busy);
  $("report").setAttribute("aria-busy", String(busy));
}

function show(html, keeps) {
  // Made by the gateway, which writes what recordings say as text; a parsed document runs nothing.
  const parsed = new DOMParser().parseFromString(html, "text/html");
  $("report").replaceChildren(...parsed.body.childNodes);
  $("kept").hidden = !keeps;
  $("kept").textContent = KEEPS[keeps] || "";
  // Scripts that wait for each other may come in any order.
  if (document.readyState === "complete") window.softlandReport();
  else addEventListener("load", () => window.softlandReport(), { once: true });
}

async function read(file) {
  wanted = file;
  if (under) under.abort();
  const mine = new AbortController();
  under = mine;
  const what = file ? clean(file.name) : "the ledger";
  $("title").textContent = "Audit of " + what;
  document.title = "softland: audit of " + what;
  fine();
  $("kept").hidden = true;
  $("report").replaceChildren();
  state("Reading " + what + "…", true);
  try {
    if (file && file.size > MOST) throw new Error("This recording is larger than 256 MiB, the most that this page reads. Use softland audit for it.");
    const options = { headers: { accept: "text/html" }, signal: mine.signal };
    if (file) Object.assign(options, { method: "POST", body: file });
    const response = await ask("/api/audit" + (file ? "?name=" + encodeURIComponent(file.name) : ""), options);
    const html = await response.text();
    if (under !== mine) return;
    show(html, response.headers.get("x-softland-content"));
    state("", false);
  } catch (error) {
    if (under !== mine) return;
    if (mine.signal.aborted) { state("Stopped. Nothing more is read.", false); return; }
    if (error instanceof Refused && error.status === 404 && !file) {
      state("No ledger is kept here, so there is nothing to read. Choose a recording.", false);
      return;
    }
    state("There is no report.", false);
    trouble(error);
  }
}

// The same file may be chosen again: it may have grown.
$("file").addEventListener("click", () => { $("file").value = ""; });
$("file").addEventListener("change", () => { if ($("file").files.length) read($("file").files[0]); });
$("ledger").addEventListener("click", () => { $("file").value = ""; read(null); });
$("stop").addEventListener("click", () => { if (under) under.abort(); });
onToken(() => read(wanted));
setToken(takeToken("/audit"));
read(null);
