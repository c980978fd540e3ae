// An agent's client with a loop of its own, which knows nothing of softland. It goes a step at a
// time, so that a test can look at the page in between.
"use strict";

class Client {
  constructor(base, question, headers = {}) {
    Object.assign(this, { base, headers });
    this.messages = [{ role: "user", content: question }];
  }

  // What is sent of a body; for a test to break.
  raw(body) { return body; }

  // One turn: its response's blocks, and the run that it is of.
  async turn() {
    const response = await fetch(this.base + "/v1/messages", {
      method: "POST",
      headers: { "x-api-key": "any", "anthropic-version": "2023-06-01", "content-type": "application/json", ...this.headers },
      body: this.raw(JSON.stringify({
        model: "claude-sonnet-5-5", max_tokens: 8000, stream: true, messages: this.messages,
        tools: [{ name: "read_file", input_schema: { type: "object", properties: { path: { type: "string" } }, required: ["path"] } }],
      })),
    });
    if (!response.ok) throw new Error(response.status + " " + (await response.text()));
    this.run = response.headers.get("x-softland-run");
    const blocks = [];
    for (const part of (await response.text()).split("\n\n")) {
      const data = part.split("\n").find((line) => line.startsWith("data: "));
      if (!data) continue;
      const event = JSON.parse(data.slice(6));
      if (event.type === "content_block_start") blocks[event.index] = { ...event.content_block, input: "" };
      if (event.type === "content_block_delta") {
        const block = blocks[event.index], delta = event.delta;
        if (delta.type === "text_delta") block.text += delta.text;
        if (delta.type === "thinking_delta") block.thinking += delta.thinking;
        if (delta.type === "signature_delta") block.signature = delta.signature;
        if (delta.type === "input_json_delta") block.input += delta.partial_json;
      }
    }
    this.blocks = blocks.filter(Boolean);
    this.messages.push({ role: "assistant", content: this.blocks.map(({ input, ...block }) => (block.type === "tool_use" ? { ...block, input: JSON.parse(input || "{}") } : block)) });
    return this.blocks;
  }

  // Runs the calls of the newest turn; false where there were none.
  answers(result) {
    const calls = this.blocks.filter((block) => block.type === "tool_use");
    if (!calls.length) return false;
    this.messages.push({ role: "user", content: calls.map((call, at) => ({ type: "tool_result", tool_use_id: call.id, ...result(call, at) })) });
    return true;
  }
}

module.exports = { Client };
