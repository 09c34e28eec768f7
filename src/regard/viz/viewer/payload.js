// The data: sides (token sequences) and layers (left: queries, right: keys, weights), by token or by word.

const data = JSON.parse(document.getElementById("data").textContent);
const cache = new Map(); // decoded and joined weights, labels

function cached(key, compute) {
  if (!cache.has(key)) cache.set(key, compute());
  return cache.get(key);
}

/** Weights of a layer by token: `values` is heads x rows x columns; stored as little-endian 16-bit integers. */
function tokenWeights(number) {
  return cached(`tokens ${number}`, () => {
    const layer = data.layers[number];
    const bytes = atob(layer.weights);
    const values = new Float32Array(bytes.length / 2);
    for (let i = 0; i < values.length; i += 1) {
      values[i] = (bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8)) / 65535;
    }
    const rows = data.sides[layer.left].tokens.length;
    const columns = data.sides[layer.right].tokens.length;
    return { heads: layer.heads, rows, columns, values };
  });
}

/** Weights by word: the sum over the key tokens of a word, the mean over its query tokens. */
function wordWeights(number) {
  return cached(`words ${number}`, () => {
    const layer = data.layers[number];
    const { heads, rows, columns, values } = tokenWeights(number);
    const left = data.sides[layer.left].groups;
    const wordOfKey = new Uint32Array(columns);
    data.sides[layer.right].groups.forEach((group, word) => group.forEach((token) => { wordOfKey[token] = word; }));
    const keyWords = data.sides[layer.right].groups.length;
    const joined = new Float32Array(heads * left.length * keyWords);
    for (let head = 0; head < heads; head += 1) {
      left.forEach((group, word) => {
        const to = (head * left.length + word) * keyWords;
        for (const row of group) {
          const from = (head * rows + row) * columns;
          for (let token = 0; token < columns; token += 1) joined[to + wordOfKey[token]] += values[from + token] / group.length;
        }
      });
    }
    return { heads, rows: left.length, columns: keyWords, values: joined };
  });
}

function weightsOf(number) {
  return state.words ? wordWeights(number) : tokenWeights(number);
}

/** The matrix of one head, or the mean of all if the head is -1. */
function matrixOf(number, head) {
  const { heads, rows, columns, values } = weightsOf(number);
  const size = rows * columns;
  const first = Math.max(head, 0) * size;
  const matrix = head < 0 && heads > 1 ? meanOf(number, values, size, heads) : values.subarray(first, first + size);
  return { rows, columns, values: matrix };
}

function meanOf(number, values, size, heads) {
  return cached(`mean ${state.words} ${number}`, () => {
    const mean = new Float32Array(size);
    for (let i = 0; i < values.length; i += 1) mean[i % size] += values[i] / heads;
    return mean;
  });
}

/** Labels of a side: words, or tokens without subword markers and with a dot before those that continue a word.
    An unknown token has the spelling of the text. */
function labelsOf(index) {
  const side = data.sides[index];
  if (state.words) return side.words;
  return cached(`labels ${index}`, () => {
    const labels = [...side.tokens];
    const spellings = new Map(side.unknown);
    for (const group of side.groups) {
      group.forEach((token, position) => {
        const spelled = spellings.get(token) ?? side.tokens[token];
        const bare = spelled.replace(/^(▁|##)/u, "") || spelled;
        labels[token] = position === 0 ? bare : `·${bare}`;
      });
    }
    return labels;
  });
}

/** The token by which the model reads each unknown word or token of a side, by index. */
function unknownOf(index) {
  const side = data.sides[index];
  return cached(`unknown ${state.words} ${index}`, () => {
    const tokens = new Map(side.unknown.map(([position]) => [position, side.tokens[position]]));
    if (!state.words) return tokens;
    const words = side.groups.map((group, word) => [word, tokens.get(group.find((position) => tokens.has(position)))]);
    return new Map(words.filter(([, token]) => token !== undefined));
  });
}

function sidesOf(number) {
  const side = (index) => ({ name: data.sides[index].name, labels: labelsOf(index), unknown: unknownOf(index) });
  return { left: side(data.layers[number].left), right: side(data.layers[number].right) };
}

function percent(weight) {
  return weight >= 0.0995 || weight === 0 ? `${Math.round(weight * 100)}%` : `${(weight * 100).toFixed(1)}%`;
}

function largest(values) {
  let max = 0;
  for (const value of values) if (value > max) max = value;
  return max;
}
