// Requests to the API of this server, and what came of an order.

import { el } from "./dom.js";

export async function get(path) {
  const response = await fetch(`/api/${path}`, { headers: { Accept: "application/json" } });
  const value = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(value.error ?? `the server answered ${response.status}`);
  return value;
}

export async function post(path, body = {}) {
  const response = await fetch(`/api/${path}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  const value = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(value.error ?? `the server answered ${response.status}`);
  return value;
}

export function say(text) {
  const line = el("p", {}, text);
  document.getElementById("said").append(line);
  setTimeout(() => line.remove(), 8000);
}

// A button that gives an order once at a time, and says what came of it.
export function order(label, path, { body = () => ({}), done = () => `${label}: done`, main = false } = {}) {
  const button = el("button", { type: "button", class: main ? "main" : null }, label);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      say(done(await post(path, body())));
      dispatchEvent(new Event("ordered"));
    } catch (error) {
      say(error.message);
    } finally {
      button.disabled = false;
    }
  });
  return button;
}

export const at = (name) => `harnesses/${encodeURIComponent(name)}`;
