// Requests to the server: the access token, errors with the server's message, and retries while its queue is full.

let token = null; // kept in this variable only

export function setToken(value) {
  token = value;
}

export class RequestError extends Error {
  constructor(message, status, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

export async function request(path, { body, accept = "application/json", signal } = {}) {
  const headers = { Accept: accept };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
    });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new RequestError("the server cannot be reached; is it still running?", 0, 0);
  }
  if (!response.ok) throw await requestError(response);
  return response;
}

async function requestError(response) {
  let message = `the server answered with status ${response.status}`;
  try {
    message = (await response.json()).error ?? message;
  } catch {
    // the response is not JSON
  }
  return new RequestError(message, response.status, Number(response.headers.get("Retry-After") ?? 1));
}

// As `request`; while the queue is full, it waits as long as the server says, reports that, and tries again.
export async function requestWithRetry(path, options, report) {
  for (;;) {
    try {
      const response = await request(path, options);
      report(null);
      return response;
    } catch (problem) {
      if (!(problem instanceof RequestError) || problem.status !== 429) throw problem;
      for (let seconds = Math.max(1, problem.retryAfter); seconds > 0; seconds -= 1) {
        report(`The server is busy; trying again in ${seconds} s.`);
        await delay(1000, options.signal);
      }
    }
  }
}

export function delay(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(new DOMException("aborted", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}

// Throws an error with the number of a line that the server would refuse; it counts characters, not UTF-16 units.
export function refuseLong(lines, maxCharacters) {
  const index = lines.findIndex((line) => line.length > maxCharacters && Array.from(line).length > maxCharacters);
  if (index >= 0) throw new Error(`line ${index + 1} has more than ${maxCharacters} characters`);
}

// The objects of a streamed response, one per line.
export async function* jsonLines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

// An error message as a sentence: with a capital and a full stop.
export function sentence(problem) {
  const message = problem.message || "something went wrong";
  return message[0].toUpperCase() + message.slice(1) + (/[.!?]$/.test(message) ? "" : ".");
}

// Shows a message in an element, or hides the element if it is null.
export function setText(target, message) {
  target.hidden = message === null;
  target.textContent = message ?? "";
}
