// A model on this machine behind Chat Completions: node endpoint.mjs FOLDER-OF-node-llama-cpp MODEL.gguf. Ends with its parent.
import http from "node:http";

const [folder, modelPath] = process.argv.slice(2);
const { getLlama, LlamaChatSession } = await import(`${folder}/dist/index.js`);
const llama = await getLlama({ gpu: false, maxThreads: 1, build: "never", logLevel: "error" });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({ contextSize: 2048, threads: 1 });
const sequence = context.getSequence();
let last = Promise.resolve(); // one answer at a time

function history(messages) {
  return messages.map(({ role, content }) =>
    role === "assistant" ? { type: "model", response: [content] } : { type: role, text: content });
}

async function answer(asked, request, response) {
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  const session = new LlamaChatSession({ contextSequence: sequence, systemPrompt: "" });
  const messages = history(asked.messages);
  const prompt = messages.pop();
  session.setChatHistory(messages);
  const send = (fields) => response.write(`data: ${JSON.stringify({ id: "local-1", model: "smollm2", ...fields })}\n\n`);
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  const before = sequence.tokenMeter.getState();
  const done = await session.promptWithMeta(prompt.text, {
    maxTokens: asked.max_tokens ?? 64,
    temperature: asked.temperature ?? 0,
    signal: gone.signal,
    onTextChunk: (content) => send({ choices: [{ index: 0, delta: { content } }] }),
  });
  const used = sequence.tokenMeter.diff(before);
  send({ choices: [{ index: 0, delta: {}, finish_reason: done.stopReason === "maxTokens" ? "length" : "stop" }] });
  send({ choices: [], usage: { prompt_tokens: used.usedInputTokens, completion_tokens: used.usedOutputTokens } });
  response.end("data: [DONE]\n\n");
  session.dispose({ disposeSequence: false });
}

const server = http.createServer((request, response) => {
  let body = "";
  request.on("data", (chunk) => (body += chunk));
  request.on("end", () => {
    last = last.then(() => answer(JSON.parse(body), request, response)).catch(() => response.destroy());
  });
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/v1`));
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
