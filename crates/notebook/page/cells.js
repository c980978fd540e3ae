// The cells: each with its text, its state and its outputs, and what was written beside somebody else.

import { markdown } from "/markdown.js";
import { output } from "/outputs.js";
import { clean, count, el, seconds } from "/text.js";

const PAUSE = 900;           // ms without a key before what was typed is saved
const MOST = 60;             // lines of a text before it scrolls

export class Cells {
  // `wish(what)` asks the server; `say(text)` tells who listens; `sure(title, text, word)` asks back.
  constructor(root, { wish, say, sure, trouble, keep }) {
    Object.assign(this, { root, wish, say, sure, trouble, keep });
    this.all = new Map();
    this.order = [];
    this.dirty = new Set();
    this.frame = 0;
  }

  begin(cells) {
    const keep = new Map(this.all);
    this.all = new Map();
    this.order = cells.map((cell) => cell.id);
    const nodes = cells.map((cell) => {
      let view = keep.get(cell.id);
      if (view && view.type === cell.type) { view.anew(cell); keep.delete(cell.id); } else { view = new CellView(this, cell); }
      this.all.set(cell.id, view);
      return view.node;
    });
    const held = [...keep.values()].filter((view) => view.mine() !== null);
    this.root.replaceChildren(...nodes);
    for (const view of held) this.lost(view);
    this.number();
  }

  change(change) {
    const view = this.all.get(change.id ?? change.cell?.id);
    switch (change.change) {
      case "cell_created": {
        const made = new CellView(this, change.cell);
        this.all.set(change.cell.id, made);
        this.order.splice(change.index, 0, change.cell.id);
        this.root.insertBefore(made.node, this.root.children[change.index] || null);
        this.number();
        if (change.by === "assistant") this.say("The assistant has added cell " + (change.index + 1));
        break;
      }
      case "cell_updated": view?.updated(change.cell, change.by); break;
      case "cell_deleted": {
        if (!view) break;
        const held = view.mine(), had = view.node.contains(document.activeElement);
        const at = this.order.indexOf(change.id);
        this.all.delete(change.id);
        this.order.splice(at, 1);
        view.node.remove();
        if (had) (this.all.get(this.order[Math.min(at, this.order.length - 1)])?.node || document.getElementById("add-code")).focus();
        if (held !== null) this.lost(view);
        this.number();
        if (change.by === "assistant") this.say("The assistant has deleted a cell");
        break;
      }
      case "cell_moved": {
        if (!view) break;
        const had = view.node.contains(document.activeElement) ? document.activeElement : null;
        this.order.splice(this.order.indexOf(change.id), 1);
        this.order.splice(change.index, 0, change.id);
        view.node.remove();
        this.root.insertBefore(view.node, this.root.children[change.index] || null);
        if (had) had.focus();
        this.number();
        break;
      }
      case "cell_running": view?.runs(); break;
      case "cell_output": view?.gave(change.index, change.output); break;
      case "cell_cleared": view?.cleared(); break;
      case "cell_ran": view?.ran(change); break;
      default: break;
    }
  }

  // What was typed in a cell that is gone is not lost with it.
  lost(view) {
    const text = view.mine();
    if (text === null) return;
    this.keep("Somebody else deleted the cell that you were writing in. Your text:", text, async () => {
      await this.wish({ do: "create_cell", index: null, type: view.type, source: text });
    });
  }

  number() {
    this.order.forEach((id, at) => this.all.get(id)?.place(at, this.order.length));
    document.getElementById("empty").hidden = this.order.length > 0;
  }

  paintSoon(view) {
    this.dirty.add(view);
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; for (const one of this.dirty) one.paint(); this.dirty.clear(); });
  }

  async next(view) {
    const at = this.order.indexOf(view.id);
    const below = this.all.get(this.order[at + 1]);
    if (below) { below.focus(); return; }
    const made = await this.wish({ do: "create_cell", index: null, type: "code", source: "" });
    this.all.get(made.cell.id)?.focus();
  }
}

// A text as a textarea has it: its line ends are all of one kind.
function plain(source) { return source.replace(/\r\n?/g, "\n"); }

// What was typed, with the line ends of what it was typed on.
function ended(text, like) {
  const only = like.includes("\r\n") && !/[\r\n]/.test(like.replaceAll("\r\n", ""));
  return only ? text.replaceAll("\n", "\r\n") : text;
}

class CellView {
  constructor(cells, cell) {
    this.cells = cells;
    this.id = cell.id;
    this.type = cell.type;
    this.queue = Promise.resolve();
    this.unanswered = new Set();   // texts that were sent, of which nobody said what became of them
    this.build();
    this.base = { rev: cell.rev, source: cell.source };
    this.edit.value = cell.source;
    this.outputs = cell.outputs.slice();
    this.changed = new Set(this.outputs.keys());
    this.executed = cell.execution_count;
    this.running = cell.running;
    this.by = cell.by;
    this.status();
    this.paint();
    if (this.type === "markdown") this.show(cell.source.trim() !== "");
    requestAnimationFrame(() => this.size());
  }

  build() {
    const code = this.type === "code";
    const button = (word, label, act, name = "") => {
      const node = el("button", { type: "button", textContent: word, title: label, className: name });
      node.setAttribute("aria-label", label);
      node.addEventListener("click", act);
      return node;
    };
    this.count = el("span", { className: "count mono" });
    this.how = el("span", { className: "how" });
    this.whose = el("span", { className: "whose faint" });
    this.runs_ = code ? button("Run", "Run this cell", () => this.run(), "main") : null;
    this.see = this.type === "markdown" ? button("Edit", "Edit this text", () => this.toggle()) : null;
    this.up = button("↑", "Move this cell up", () => this.move(-1));
    this.down = button("↓", "Move this cell down", () => this.move(1));
    this.gone = button("Delete", "Delete this cell", () => this.remove());
    this.edit = el("textarea", { className: code ? "source code" : "source", spellcheck: !code, rows: 1, autocapitalize: "off", autocomplete: "off" });
    this.edit.setAttribute("aria-label", "Text of the cell");
    if (code) this.edit.wrap = "off";
    this.edit.addEventListener("input", () => this.typed());
    this.edit.addEventListener("blur", () => this.save());
    this.edit.addEventListener("keydown", (event) => this.key(event));
    this.shown = el("div", { className: "shown", hidden: true });
    this.shown.addEventListener("dblclick", () => this.toggle());
    this.clash = el("div", { className: "clash", role: "alert", hidden: true });
    this.outs = el("div", { className: "outs" });
    this.node = el("section", { className: "cell " + this.type, tabIndex: -1 },
      el("div", { className: "head" }, this.count, this.how, this.whose, el("span", { className: "tools" }, this.runs_, this.see, this.up, this.down, this.gone)),
      this.edit, this.shown, this.clash, this.outs);
    this.node.dataset.id = this.id;
    this.node.addEventListener("keydown", (event) => {
      if (event.target === this.node && event.key === "Enter") { event.preventDefault(); this.focus(); }
    });
  }

  // What was typed here and is nowhere else.
  mine() { return this.edit.value !== plain(this.base.source) ? this.edit.value : null; }

  place(at, of) {
    this.at = at;
    this.up.disabled = at === 0;
    this.down.disabled = at === of - 1;
    const kind = this.type === "code" ? "code" : this.type === "markdown" ? "text" : "raw";
    this.node.setAttribute("aria-label", "Cell " + (at + 1) + " of " + of + ", " + kind);
    this.edit.setAttribute("aria-label", "Cell " + (at + 1) + ", " + kind);
  }

  focus() {
    if (this.type === "markdown" && this.edit.hidden) { this.node.focus(); return; }
    this.edit.focus();
  }

  size() {
    this.edit.style.height = "auto";
    const line = parseFloat(getComputedStyle(this.edit).lineHeight) || 20;
    this.edit.style.height = Math.min(this.edit.scrollHeight + 2, line * MOST) + "px";
  }

  show(rendered) {
    this.edit.hidden = rendered;
    this.shown.hidden = !rendered;
    this.see.textContent = rendered ? "Edit" : "Show";
    const label = rendered ? "Edit this text" : "Show this text rendered";
    this.see.setAttribute("aria-label", label);
    this.see.title = label;
    if (rendered) this.shown.replaceChildren(markdown(this.edit.value.trim() ? this.edit.value : "*empty*"));
    else this.size();
  }

  toggle() {
    const rendered = this.edit.hidden;
    if (!rendered) this.save();
    this.show(!rendered);
    if (rendered) this.edit.focus();
  }

  key(event) {
    if (event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      const on = event.shiftKey;
      if (this.type === "code") this.run(); else { this.save(); if (this.type === "markdown") this.show(true); }
      if (on) this.cells.next(this).catch((error) => this.cells.trouble(error.message));
      else if (this.type === "markdown") this.node.focus();
    } else if (event.key === "Enter" && this.type === "code" && !event.isComposing) {
      // The new line begins where the one before began.
      const { selectionStart: at, value } = this.edit;
      const line = value.slice(value.lastIndexOf("\n", at - 1) + 1, at);
      const indent = /^[ \t]*/.exec(line)[0] + (/:\s*$/.test(line) ? "    " : "");
      if (indent) { event.preventDefault(); document.execCommand("insertText", false, "\n" + indent); }
    } else if (event.key === "Escape") { this.node.focus(); }
  }

  typed() {
    this.size();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.save(), PAUSE);
    this.status();
  }

  // One save after the other, each on what the one before has led to.
  save() {
    clearTimeout(this.timer);
    this.queue = this.queue.then(() => this.write()).catch(() => {});
    return this.queue;
  }

  async write() {
    // What could not be saved and was taken back is no trouble any more.
    if (this.mine() === null) { this.failed = ""; return; }
    if (this.theirs) return;
    const source = ended(this.edit.value, this.base.source);
    this.sent = source;
    let lost = false;
    try {
      const done = await this.cells.wish({ do: "update_cell", id: this.id, rev: this.base.rev, source });
      // What came after it may have been told before the reply.
      if (done.cell.rev >= this.base.rev) this.base = { rev: done.cell.rev, source: done.cell.source };
      this.failed = "";
      this.unanswered.clear();
    } catch (error) {
      lost = error.code === "lost";
      if (error.code === "conflict" && error.cell) this.met(error.cell);
      else this.failed = error.message;
    } finally {
      if (lost) this.unanswered.add(source);
      this.sent = null;
      this.status();
    }
  }

  updated(cell, by) {
    this.by = cell.by;
    if (this.sent !== null && this.sent !== undefined && cell.source === this.sent) {
      this.base = { rev: cell.rev, source: cell.source };
      this.status();
      return;
    }
    if (cell.rev <= this.base.rev) return;
    if (this.mine() !== null) { this.met(cell); return; }
    this.take(cell);
    if (by === "assistant") this.cells.say("The assistant has changed cell " + (this.at + 1));
  }

  // The text of others, where nothing was typed here.
  take(cell) {
    this.rest(cell);
    const source = plain(cell.source);
    if (this.edit.value !== source) {
      const { selectionStart, selectionEnd } = this.edit;
      this.edit.value = source;
      if (document.activeElement === this.edit) this.edit.setSelectionRange(Math.min(selectionStart, source.length), Math.min(selectionEnd, source.length));
    }
    this.size();
    if (this.type === "markdown" && this.edit.hidden) this.show(true);
    this.status();
  }

  // What is typed here is typed on this.
  rest(cell) {
    this.base = { rev: cell.rev, source: cell.source };
    this.theirs = null;
    this.clash.hidden = true;
  }

  // The cell as it is now, while something is typed here. What was sent from here is nobody else's,
  // though the connection was lost before the reply, and though it is heard of only now.
  met(cell) {
    const own = this.unanswered.delete(cell.source) || cell.source === this.base.source;
    if (!own) { this.conflict(cell); return; }
    this.rest(cell);
    this.save();
  }

  anew(cell) {
    if (this.mine() === null) this.take(cell); else this.met(cell);
    // A server that was started anew counts anew.
    this.base = { ...this.base, rev: cell.rev };
    this.by = cell.by;
    this.outputs = cell.outputs.slice();
    this.outs.replaceChildren();
    this.changed = new Set(this.outputs.keys());
    this.executed = cell.execution_count;
    this.running = cell.running;
    this.failed = "";
    this.paint();
    this.status();
  }

  // Both texts, and a choice.
  conflict(cell) {
    if (plain(cell.source) === this.edit.value) { this.take(cell); return; }
    this.theirs = cell;
    if (this.type === "markdown") this.show(false);
    const keep = el("button", { type: "button", className: "main", textContent: "Keep mine" });
    const use = el("button", { type: "button", textContent: "Take theirs" });
    keep.addEventListener("click", () => {
      this.rest(this.theirs);
      this.edit.focus();
      this.save();
    });
    use.addEventListener("click", () => { this.take(this.theirs); this.edit.focus(); });
    const who = cell.by === "assistant" ? "The assistant has" : "Somebody else has";
    this.clash.replaceChildren(
      el("p", {}, el("strong", { textContent: who + " changed this cell while you were writing." }), " Yours is above, not saved yet; theirs is:"),
      el("pre", { className: "words", tabIndex: 0, dir: "auto", textContent: clean(cell.source) || "(empty)" }),
      el("p", { className: "row" }, keep, use));
    this.clash.hidden = false;
    this.status();
  }

  async run() {
    await this.save();
    if (this.theirs) { this.cells.say("Somebody else changed this cell: choose a version first"); return; }
    if (this.failed) { this.cells.trouble("The cell was not run, because it could not be saved: " + this.failed); return; }
    this.cells.wish({ do: "run_cell", id: this.id }).catch((error) => {
      const name = "Cell " + (this.at + 1);
      if (error.code === "lost") this.cells.say(name + ": the connection was lost; whether it runs is shown when it is back");
      else this.cells.trouble(name + " was not run: " + error.message);
    });
  }

  move(by) {
    this.cells.wish({ do: "move_cell", id: this.id, index: this.at + by }).catch((error) => this.cells.trouble(error.message));
  }

  async remove() {
    await this.save();
    const text = this.edit.value.trim();
    if (text && !(await this.cells.sure("Delete cell " + (this.at + 1) + "?", "Its text and its outputs will be gone: " + clean(text.split("\n")[0]).slice(0, 120), "Delete it"))) return;
    this.cells.wish({ do: "delete_cell", id: this.id, rev: this.base.rev }).catch((error) => {
      if (error.code === "conflict" && error.cell) this.updated(error.cell);
      this.cells.trouble("The cell was not deleted: " + error.message);
    });
  }

  runs() {
    this.running = true;
    this.outputs = [];
    this.outs.replaceChildren();
    this.changed.clear();
    this.took = "";
    this.status();
  }

  gave(index, one) {
    this.outputs[index] = one;
    this.changed.add(index);
    this.cells.paintSoon(this);
  }

  cleared() { this.outputs = []; this.changed.clear(); this.outs.replaceChildren(); this.executed = null; this.took = ""; this.status(); }

  ran(change) {
    this.running = false;
    this.executed = change.execution_count;
    this.ok = change.ok;
    this.took = seconds(change.seconds);
    this.status();
    this.cells.say("Cell " + (this.at + 1) + (change.ok ? " has run, " : " has failed, ") + this.took);
  }

  paint() {
    if (this.outputs.length < this.outs.childElementCount) this.outs.replaceChildren();
    for (const index of [...this.changed].sort((a, b) => a - b)) {
      if (this.outputs[index] === undefined) continue;
      const made = output(this.outputs[index]);
      const had = this.outs.children[index];
      if (had) had.replaceWith(made); else this.outs.append(made);
    }
    this.changed.clear();
  }

  status() {
    this.count.textContent = this.type === "code" ? "[" + (this.running ? "*" : this.executed ?? " ") + "]" : this.type === "markdown" ? "text" : "raw";
    const unsaved = this.mine() !== null;
    const [word, name] = this.theirs ? ["two versions", "bad"]
      : this.failed && unsaved ? ["not saved: " + this.failed, "bad"]
      : this.running ? ["running", "busy"]
      : unsaved ? ["writing", ""]
      : this.took ? [(this.ok ? "ran in " : "failed after ") + this.took, this.ok ? "good" : "bad"] : ["", ""];
    this.how.textContent = clean(word);
    this.how.className = "how " + name;
    this.whose.textContent = this.by === "assistant" ? "by the assistant" : "";
    this.node.classList.toggle("running", Boolean(this.running));
    this.node.classList.toggle("failed", this.outputs.some((one) => one?.output_type === "error"));
  }
}
