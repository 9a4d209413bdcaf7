// Requests to the service that this page came from, and to no other.
import { $ } from "./dom.js";
import { t } from "./words.js";

let token = sessionStorage.getItem("token") || "";

/** The reply to a request as JSON; an Error with the service's sentence if it is refused. */
export async function api(path, body, options = {}) {
  const reply = await request(path, body, options);
  return reply.json();
}

export async function request(path, body, { raw = false, signal } = {}) {
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  const init = { headers, signal };
  if (body !== undefined) {
    init.method = "POST";
    headers["Content-Type"] = raw ? "application/octet-stream" : "application/json";
    init.body = raw ? body : JSON.stringify(body);
  }
  const reply = await fetch(path, init).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw Object.assign(new Error("The service cannot be reached; is it still running?"), { kind: "unreachable" });
  });
  if (reply.status === 401) {
    await askToken(headers.Authorization !== undefined);
    return request(path, body, { raw, signal });
  }
  if (!reply.ok) {
    const said = await reply.json().catch(() => ({ error: reply.statusText }));
    throw Object.assign(new Error(said.error), { kind: said.error_type, status: reply.status });
  }
  return reply;
}

function askToken(wrong) {
  const dialog = $("token");
  $("token-wrong").textContent = wrong ? t("tokenWrong") : "";
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      token = $("token-value").value.trim();
      sessionStorage.setItem("token", token);
      resolve();
    }, { once: true });
    if (!dialog.open) dialog.showModal();
  });
}

/** Server-sent events of a POST request: calls `heard` with the name and data of each. */
export async function events(path, body, heard, signal) {
  const reply = await request(path, body, { signal });
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const lines = Object.fromEntries(part.split("\n").map((line) => line.split(/: (.*)/s).slice(0, 2)));
      heard(lines.event, JSON.parse(lines.data));
    }
  }
}
