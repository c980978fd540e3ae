// The page: the notebook's cells, its kernel, and the assistant beside them.

import { Cells } from "/cells.js";
import { ChatView } from "/chat.js";
import { Link } from "/link.js";
import { clean, confirmed, el } from "/text.js";
import { keepToken, takeToken } from "/token.js";

const $ = (id) => document.getElementById(id);
const WORDS = { none: "not started", starting: "starting", idle: "idle", busy: "busy", dead: "dead", stopped: "stopped", silent: "does not answer" };
let link = null, token = takeToken("/");

function say(text) { $("said").textContent = text; }

// What went wrong last. It can be closed, but for what the page cannot do without.
function trouble(message, stays = false) {
  const close = el("button", { type: "button", textContent: "Close" });
  close.addEventListener("click", () => { $("trouble").hidden = true; });
  $("trouble").replaceChildren(el("p", { dir: "auto", textContent: clean(message) }), stays ? "" : el("p", { className: "row" }, close));
  $("trouble").hidden = false;
}

// A text that has no cell any more stays, whatever else happens, until a person is done with it.
function keep(message, text, put) {
  const again = el("button", { type: "button", className: "main", textContent: "Put it into a new cell" });
  const close = el("button", { type: "button", textContent: "Close" });
  const notice = el("div", { className: "notice bad", role: "alert" },
    el("p", { dir: "auto", textContent: clean(message) }),
    el("pre", { className: "words", tabIndex: 0, textContent: clean(text) }),
    el("p", { className: "row" }, again, close));
  close.addEventListener("click", () => notice.remove());
  again.addEventListener("click", () => put().then(() => notice.remove()).catch((error) => trouble("No cell was created: " + error.message)));
  $("kept").append(notice);
}

async function sure(title, text, word) {
  const dialog = $("sure");
  $("sure-title").textContent = title;
  $("sure-text").textContent = text;
  $("sure-yes").textContent = word;
  return confirmed(dialog);
}

const wish = (what) => link ? link.wish(what) : Promise.reject(new Error("there is no connection"));
const cells = new Cells($("list"), { wish, say, sure, trouble, keep });
const chat = new ChatView($("log"), { say, doing, busy });

function doing(text) { $("doing").textContent = text; }

function busy(is) {
  $("stop").hidden = !is;
  $("anew").disabled = is;
  $("send").textContent = is ? "Add to this run" : "Ask";
  $("chat-mark").textContent = is ? "· at work" : "";
  $("doing").classList.toggle("busy", is);
  if (!is) doing("");
}

function kernel(state) {
  const node = $("kernel");
  const had = node.dataset.state;
  node.dataset.state = state.state;
  node.className = "state " + state.state;
  node.textContent = (state.name ? clean(state.name) + ": " : "") + (WORDS[state.state] || state.state);
  $("restart").disabled = state.state === "starting";
  $("restart").textContent = state.state === "none" ? "Start kernel" : "Restart kernel";
  $("interrupt").disabled = !["busy", "silent"].includes(state.state);
  if (state.state === "silent" && had !== "silent") say("The kernel does not answer. Interrupt it, or restart it.");
  node.title = state.state === "silent" && state.why ? clean(state.why) : "";
  if (state.state === "none" && state.why) trouble("No cell can be run: " + state.why);
  if (state.state === "dead" && had !== "dead") trouble("The kernel is dead" + (state.why ? ": " + state.why : "") + ". What it held is gone; Restart kernel starts another.");
  else if (state.state === "idle" && had === "dead") { $("trouble").hidden = true; say("The kernel runs again"); }
}

function file(why) {
  $("file-trouble").hidden = !why;
  $("file-why").textContent = why ? clean(why) : "";
}

function begin(state, events, asked) {
  const name = state.path.split(/[\\/]/).at(-1);
  $("name").textContent = clean(name);
  $("name").title = clean(state.path);
  document.title = clean(name) + " · softland";
  $("wait").hidden = true;
  $("add").hidden = false;
  $("trouble").hidden = true;
  $("token-form").hidden = true;
  kernel(state.kernel);
  file(state.trouble);
  cells.begin(state.cells);
  chat.begin(events, asked);
}

function change(one) {
  if (one.change === "kernel") kernel(one);
  else if (one.change === "file") file(one.trouble);
  else if (one.change === "reloaded") { cells.begin(one.state.cells); kernel(one.state.kernel); file(one.state.trouble); say("Another program changed the file; this is its new content"); }
  else cells.change(one);
}

function connection(word, why) {
  const node = $("link");
  node.className = "link " + (word === "on" ? "on" : "off");
  node.textContent = word === "on" ? "live" : word === "refused" ? "refused" : "connecting again";
  if (word === "refused") {
    trouble(why || "This page needs its token.", true);
    $("token-form").hidden = false;
    $("wait").textContent = "The notebook is not shown without the token.";
  } else if (word === "off") {
    doing("");
    if ($("wait").hidden) say("The connection was lost. Connecting again; what you type stays in this page until then.");
    else $("wait").textContent = why ? clean(why) + " (trying again)." : "softland does not answer; trying again.";
  }
}

function connect() {
  if (link) link.close();
  link = new Link(token, { begin, change, event: (event) => chat.take(event), state: connection });
  // For the tests of the page.
  window.softland = { link, cells, chat };
}

async function add(type) {
  try {
    const made = await wish({ do: "create_cell", index: null, type, source: "" });
    const view = cells.all.get(made.cell.id);
    if (type === "markdown" && view) view.show(false);
    view?.edit.focus();
  } catch (error) { trouble("No cell was added: " + error.message); }
}

async function ask() {
  const text = $("question").value;
  if (!text.trim()) { $("question").focus(); return; }
  $("send").disabled = true;
  try {
    await wish({ do: "ask", text });
    $("question").value = "";
  } catch (error) { trouble("The assistant was not asked: " + error.message); }
  $("send").disabled = false;
}

function view(which) {
  document.body.dataset.view = which;
  $("to-notebook").setAttribute("aria-pressed", String(which === "notebook"));
  $("to-chat").setAttribute("aria-pressed", String(which === "chat"));
}

$("add-code").addEventListener("click", () => add("code"));
$("add-markdown").addEventListener("click", () => add("markdown"));
$("interrupt").addEventListener("click", () => wish({ do: "interrupt" }).catch((error) => trouble(error.message)));
$("restart").addEventListener("click", async () => {
  const runs = ["busy", "idle", "silent"].includes($("kernel").dataset.state);
  if (runs && !(await sure("Restart the kernel?", "Its variables will be gone. Cells and their outputs stay.", "Restart it"))) return;
  wish({ do: "restart_kernel" }).catch((error) => trouble("The kernel was not started: " + error.message));
});
$("write-anew").addEventListener("click", async () => {
  if (!(await sure("Write the file again?", "The notebook as shown here replaces what is in the file now.", "Write it"))) return;
  wish({ do: "write_anew" }).catch((error) => trouble("The file was not written: " + error.message));
});
$("anew").addEventListener("click", async () => {
  if (!(await sure("Begin a new conversation?", "The assistant forgets what was said. The notebook stays, and the runs are kept: softland show prints them.", "Begin anew"))) return;
  wish({ do: "new_conversation" }).catch((error) => trouble("No new conversation: " + error.message));
});
$("stop").addEventListener("click", () => { doing("stopping"); wish({ do: "stop" }).catch((error) => trouble(error.message)); });
$("ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
$("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); }
});
$("to-notebook").addEventListener("click", () => view("notebook"));
$("to-chat").addEventListener("click", () => view("chat"));
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = keepToken($("token").value);
  connect();
});
$("skip").addEventListener("click", (event) => { event.preventDefault(); $("cells").focus(); });
window.addEventListener("beforeunload", (event) => {
  const unsaved = [...cells.all.values()].some((cell) => cell.mine() !== null);
  if (unsaved || $("kept").childElementCount) event.preventDefault();
});
window.addEventListener("resize", () => { for (const cell of cells.all.values()) cell.size(); });

connect();
