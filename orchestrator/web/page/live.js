// Whether something new was recorded of a harness: told by the stream of events, which the browser opens again when it breaks.

import { address } from "./api.js";

const KINDS = ["missed", "step", "outcome", "budget", "started", "finished", "completed", "stopped", "failed", "blocked", "gave_up"];

export function watch(name, after) {
  const stream = new EventSource(address(`events?harness=${encodeURIComponent(name)}&after=${after}&behind=1`));
  const now = { isNew: true, close: () => stream.close() };
  for (const kind of KINDS) stream.addEventListener(kind, () => { now.isNew = true; });
  stream.addEventListener("error", () => { now.isNew = true; });
  return now;
}
