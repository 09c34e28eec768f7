// The payload: sides (rows of tokens) and layers (who looks, who is looked at, weights), in tokens or in words.

const data = JSON.parse(document.getElementById("data").textContent);
const kept = new Map(); // what was decoded or joined once

function once(key, make) {
  if (!kept.has(key)) kept.set(key, make());
  return kept.get(key);
}

/** Weights of a layer by token: values holds heads x rows x columns numbers, little-endian 16 bits in the page. */
function byToken(number) {
  return once(`tokens ${number}`, () => {
    const layer = data.layers[number];
    const bytes = atob(layer.weights);
    const values = new Float32Array(bytes.length / 2);
    for (let i = 0, at = 0; i < values.length; i += 1, at += 2) {
      values[i] = (bytes.charCodeAt(at) | (bytes.charCodeAt(at + 1) << 8)) / 65535;
    }
    const rows = data.sides[layer.left].tokens.length;
    const columns = data.sides[layer.right].tokens.length;
    return { heads: layer.heads, rows, columns, values };
  });
}

/** The same by word: summed over the tokens of a word looked at, the mean over those of a word that looks. */
function byWord(number) {
  return once(`words ${number}`, () => {
    const layer = data.layers[number];
    const { heads, rows, columns, values } = byToken(number);
    const left = data.sides[layer.left].groups;
    const column = new Uint32Array(columns); // the word each token looked at belongs to
    data.sides[layer.right].groups.forEach((group, word) => group.forEach((place) => { column[place] = word; }));
    const wide = data.sides[layer.right].groups.length;
    const joined = new Float32Array(heads * left.length * wide);
    for (let head = 0; head < heads; head += 1) {
      left.forEach((group, word) => {
        const to = (head * left.length + word) * wide;
        for (const row of group) {
          const from = (head * rows + row) * columns;
          for (let place = 0; place < columns; place += 1) joined[to + column[place]] += values[from + place] / group.length;
        }
      });
    }
    return { heads, rows: left.length, columns: wide, values: joined };
  });
}

function weightsOf(number) {
  return state.words ? byWord(number) : byToken(number);
}

/** One head as a matrix, or the mean of all where the head is -1. */
function matrixOf(number, head) {
  const { heads, rows, columns, values } = weightsOf(number);
  const size = rows * columns;
  const first = Math.max(head, 0) * size;
  const wanted = head < 0 && heads > 1 ? meanOf(number, values, size, heads) : values.subarray(first, first + size);
  return { rows, columns, values: wanted };
}

function meanOf(number, values, size, heads) {
  return once(`mean ${state.words} ${number}`, () => {
    const mean = new Float32Array(size);
    for (let place = 0; place < values.length; place += 1) mean[place % size] += values[place] / heads;
    return mean;
  });
}

/** What a side shows: words, or tokens bare at a word's start and with a dot before what goes on. */
function labelsOf(place) {
  const side = data.sides[place];
  if (state.words) return side.words;
  return once(`labels ${place}`, () => {
    const labels = [...side.tokens];
    for (const group of side.groups) {
      group.forEach((token, nth) => {
        const bare = side.tokens[token].replace(/^(▁|##)/u, "") || side.tokens[token];
        labels[token] = nth === 0 ? bare : `·${bare}`;
      });
    }
    return labels;
  });
}

function sidesOf(number) {
  const layer = data.layers[number];
  return {
    left: { name: data.sides[layer.left].name, labels: labelsOf(layer.left) },
    right: { name: data.sides[layer.right].name, labels: labelsOf(layer.right) },
  };
}

function percent(weight) {
  return weight >= 0.0995 || weight === 0 ? `${Math.round(weight * 100)}%` : `${(weight * 100).toFixed(1)}%`;
}

function largest(values) {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}
