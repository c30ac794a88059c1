// Requests to the API of this server, and what came of an order.

import { el } from "./dom.js";

// Where a folder is served, the address of the page says which store of it is shown.
export const STORE = new URLSearchParams(location.search).get("store");

export function address(path) {
  return STORE === null ? `/api/${path}` : `/api/${path}${path.includes("?") ? "&" : "?"}store=${encodeURIComponent(STORE)}`;
}

export async function get(path) {
  const response = await fetch(address(path), { headers: { Accept: "application/json" } });
  const value = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(value.error ?? `the server answered ${response.status}`);
  return value;
}

export async function post(path, body = {}) {
  const response = await fetch(address(path), {
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

// A function that does something at most once in so many milliseconds.
export function every(period_ms, act) {
  let last = -Infinity;
  return async () => {
    if (performance.now() - last < period_ms) return;
    last = performance.now();
    await act();
  };
}

export const at = (name) => `harnesses/${encodeURIComponent(name)}`;
