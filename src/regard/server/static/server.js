// Asking the server: the token, refusals as errors with their sentence, and patience when it is busy.

let token = null; // kept here and nowhere else

export function useToken(word) {
  token = word;
}

export class Refused extends Error {
  constructor(sentence, status, seconds) {
    super(sentence);
    this.status = status;
    this.seconds = seconds;
  }
}

export async function ask(path, { body, accept = "application/json", signal } = {}) {
  const headers = { Accept: accept };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
    });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Refused("the server cannot be reached; is it still running?", 0, 0);
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

async function refusal(answer) {
  let sentence = `the server answered with ${answer.status}`;
  try {
    sentence = (await answer.json()).error ?? sentence;
  } catch {
    // an answer without a sentence: its status must do
  }
  return new Refused(sentence, answer.status, Number(answer.headers.get("Retry-After") ?? 1));
}

// As `ask`; where the queue is full it waits as long as it is told to and tries again, saying so.
export async function askPatiently(path, options, tell) {
  for (;;) {
    try {
      const answer = await ask(path, options);
      tell(null);
      return answer;
    } catch (problem) {
      if (!(problem instanceof Refused) || problem.status !== 429) throw problem;
      for (let left = Math.max(1, problem.seconds); left > 0; left -= 1) {
        tell(`The server is busy; trying again in ${left} s.`);
        await pause(1000, options.signal);
      }
    }
  }
}

export function pause(milliseconds, signal) {
  return new Promise((done, stop) => {
    const leave = () => {
      clearTimeout(timer);
      stop(new DOMException("nobody waits any more", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", leave);
      done();
    }, milliseconds);
    if (signal?.aborted) leave();
    else signal?.addEventListener("abort", leave, { once: true });
  });
}

// A line that the server would refuse is told by its number; it counts characters, not UTF-16 units.
export function refuseLong(lines, most) {
  const long = lines.findIndex((line) => line.length > most && Array.from(line).length > most);
  if (long >= 0) throw new Error(`line ${long + 1} has more than ${most} characters`);
}

// The lines of a streamed answer, each parsed as it comes.
export async function* jsonLines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
}

// A sentence for people: a capital at its beginning and a full stop at its end.
export function sentence(problem) {
  const words = problem.message || "something went wrong";
  return words[0].toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");
}

export function show(place, words) {
  place.hidden = words === null;
  place.textContent = words ?? "";
}
