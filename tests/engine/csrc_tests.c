/* Unit tests of the native engine, in C: compiled with the sources of the engine, and run by test_c_units.py; under
 * AddressSanitizer with leak detection by test_sanitizers.py. Prints what is wrong, and how many checks were made. */
#include "kernels.c"

#include <stdio.h>

static int checks, failures;

#define CHECK(condition, ...)                                     \
    do {                                                          \
        checks++;                                                 \
        if (!(condition)) {                                       \
            failures++;                                           \
            printf("%s:%d: %s: ", __func__, __LINE__, #condition); \
            printf(__VA_ARGS__);                                  \
            printf("\n");                                         \
        }                                                         \
    } while (0)

static uint32_t state = 12345;

/* Between -1 and 1. */
static float random_float(void) {
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (1 << 23) - 1.0f;
}

static float *random_floats(int64_t count) {
    float *x = malloc(sizeof(float) * (count ? count : 1));
    for (int64_t i = 0; i < count; i++) x[i] = random_float();
    return x;
}

static double *doubles(int64_t count) { return calloc(count ? count : 1, sizeof(double)); }

static int close_to(double found, double expected, double tolerance) { return fabs(found - expected) <= tolerance; }

/* ---- Memory. ---- */

static void test_checked_sizes(void) {
    CHECK(checked_mul(3, 4) == 12 && checked_mul(0, INT64_MAX) == 0, "small");
    CHECK(checked_mul(INT64_MAX, 2) == INT64_MAX && checked_mul(1ll << 32, 1ll << 32) == INT64_MAX, "overflow");
    CHECK(checked_mul(-1, 5) == INT64_MAX && checked_add(-1, 5) == INT64_MAX, "negative");
    CHECK(checked_add(INT64_MAX, 1) == INT64_MAX && checked_add(2, 3) == 5, "sum");
    CHECK(checked_mul(checked_add(INT64_MAX, 1), 2) == INT64_MAX, "stays");
}

static void test_allocate(void) {
    int status = SUCCESS;
    float *x = allocate_zeros(100, sizeof(float), &status), *none = allocate(0, sizeof(float), &status);
    CHECK(!status && x && none && x[99] == 0, "success");
    CHECK(!allocate(INT64_MAX, 2, &status) && status == SIZES_OVERFLOW, "overflow: %d", status);
    CHECK(!allocate(1, 1, &status) && status == SIZES_OVERFLOW, "the first failure stays");
    status = SUCCESS;
    CHECK(!allocate(-1, 4, &status) && status == SIZES_OVERFLOW, "negative: %d", status);
    status = SUCCESS;
    fail_allocation_after(1);
    void *first = allocate(4, 4, &status);
    CHECK(first && !status, "the first succeeds");
    CHECK(!allocate(4, 4, &status) && status == OUT_OF_MEMORY, "the second fails: %d", status);
    status = SUCCESS;
    void *third = allocate(4, 4, &status);
    CHECK(third && !status, "only once");
    free(first), free(third), free(x), free(none);
}

static void test_arena(void) {
    float memory[64];
    Arena arena = arena_of(memory, 64);
    CHECK(take(&arena, 5) == memory && take(&arena, 16) == memory + 16, "parts begin at multiples");
    CHECK(take(&arena, 0) == memory + 32, "nothing");
    CHECK(take(&arena, 32) == memory + 32 && !arena.exhausted, "exactly what is left");
    CHECK(!take(&arena, 1) && arena.exhausted, "exhausted");
    CHECK(!take(&arena, 0), "it stays exhausted");
    arena = arena_of(memory, 20);
    CHECK(take(&arena, 17) == memory && !arena.exhausted, "the last part may end before a multiple");
    CHECK(!take(&arena, 1) && arena.exhausted, "nothing is left");
    arena = arena_of(memory, 64);
    CHECK(!take(&arena, INT64_MAX) && arena.exhausted, "no overflow");
    arena = arena_of(memory, 64);
    CHECK(!take(&arena, -1) && arena.exhausted, "negative");
}

/* ---- Matrix products against sums in double. ---- */

static void test_multiply(void) {
    const int64_t all_rows[] = {0, 1, 2, 3, 4, 5, 11, 13, 25, 200}, all_in[] = {1, 7, 33, 513}, all_out[] = {1, 15, 16, 17, 50, 130};
    for (int a = 0; a < 10; a++)
        for (int b = 0; b < 4; b++)
            for (int c = 0; c < 6; c++)
                for (int turned = 0; turned < 2; turned++) {
                    int64_t rows = all_rows[a], in = all_in[b], out = all_out[c], wrong = 0;
                    int how = (a + b + c) % 4;
                    float *x = random_floats(rows * in), *w = random_floats(in * out), *bias = random_floats(out);
                    float *y = random_floats(rows * out), *panels = malloc(sizeof(float) * (out + PANEL) * in);
                    double *expected = doubles(rows * out);
                    for (int64_t r = 0; r < rows; r++)
                        for (int64_t o = 0; o < out; o++) {
                            double sum = (how & ONTO ? y[r * out + o] : 0.0) + bias[o];
                            for (int64_t i = 0; i < in; i++)
                                sum += (double)x[r * in + i] * (turned ? w[i * out + o] : w[o * in + i]);
                            expected[r * out + o] = how & RELU && sum < 0 ? 0 : sum;
                        }
                    lay_out(w, panels, out, in, turned);
                    multiply(x, rows, panels, bias, in, out, out, how, y);
                    for (int64_t i = 0; i < rows * out; i++) wrong += !close_to(y[i], expected[i], 1e-5 * sqrt(in) + 1e-5);
                    CHECK(!wrong, "%ld of (%ld, %ld) x %ld, how %d", (long)wrong, (long)rows, (long)out, (long)in, how);
                    free(x), free(w), free(bias), free(y), free(panels), free(expected);
                }
}

static void test_outer(void) {
    const int64_t all_rows[] = {1, 7, 257, 600}, sizes[] = {1, 12, 17, 48, 200};
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 5; b++)
            for (int c = 0; c < 5; c++) {
                int64_t rows = all_rows[a], out = sizes[b], in = sizes[c], wrong = 0;
                int how = (a + b + c) % 2 ? ONTO : 0;
                float *g = random_floats(rows * out), *x = random_floats(rows * in), *w = random_floats(out * in);
                double *expected = doubles(out * in);
                for (int64_t o = 0; o < out; o++)
                    for (int64_t i = 0; i < in; i++) {
                        expected[o * in + i] = how ? w[o * in + i] : 0;
                        for (int64_t r = 0; r < rows; r++) expected[o * in + i] += (double)g[r * out + o] * x[r * in + i];
                    }
                CHECK(!outer(g, out, x, in, rows, how, w), "status");
                for (int64_t i = 0; i < out * in; i++) wrong += !close_to(w[i], expected[i], 1e-5 * sqrt(rows) + 1e-5);
                CHECK(!wrong, "%ld of (%ld, %ld) over %ld rows", (long)wrong, (long)out, (long)in, (long)rows);
                free(g), free(x), free(w), free(expected);
            }
}

static void test_small_product(void) {
    for (int m = 1; m < 10; m++)
        for (int n = 8; n <= 40; n += 8)
            for (int k = 0; k < 20; k += 3) {
                float *a = random_floats(m * k), *b = random_floats(k * n), *c = random_floats(m * n);
                int wrong = 0;
                product(a, k, 1, b, n, c, n, m, k, n);
                for (int i = 0; i < m; i++)
                    for (int j = 0; j < n; j++) {
                        double sum = 0;
                        for (int p = 0; p < k; p++) sum += (double)a[i * k + p] * b[p * n + j];
                        wrong += !close_to(c[i * n + j], sum, 1e-5);
                    }
                CHECK(!wrong, "%d of (%d, %d) x %d", wrong, m, n, k);
                free(a), free(b), free(c);
            }
}

/* ---- Curves, softmax and layer norm. ---- */

static void test_exponential(void) {
    double worst = 0, worst_of_eight = 0;
    for (float x = -87.0f; x <= 0; x += 0.0037f) {
        v8 eight = exponentials((v8){0} + x);
        double exact = exp((double)x);
        worst = fmax(worst, fabs(exponential(x) / exact - 1));
        for (int l = 0; l < 8; l++) worst_of_eight = fmax(worst_of_eight, fabs(eight[l] / exact - 1));
    }
    CHECK(worst < 3e-7, "relative error %g", worst);
    CHECK(worst_of_eight < 3e-7, "relative error %g", worst_of_eight);
    CHECK(exponential(0) == 1.0f && exponential(-1e30f) > 0 && exponential(-1e30f) < 2e-38f, "ends");
    CHECK(exponentials((v8){0} - INFINITY)[3] < 2e-38f, "minus infinity");
}

static void test_softmax(void) {
    for (int keys = 1; keys < 40; keys++) {
        int wide = padded(keys);
        float *w = random_floats(wide);
        double expected[64], sum = 0;
        for (int j = 0; j < keys; j++) w[j] *= 20, sum += expected[j] = exp((double)w[j]);
        float share = soften(w, keys, wide);
        for (int j = 0; j < keys; j++)
            CHECK(close_to(w[j] * share, expected[j] / sum, 1e-6), "%d of %d: %g", j, keys, w[j] * share);
        free(w);
    }
}

static void test_layer_norm(void) {
    for (int width = 1; width < 130; width += 13) {
        float *x = random_floats(3 * width), *weight = random_floats(width), *bias = random_floats(width);
        float *y = random_floats(3 * width);
        norm_rows(x, weight, bias, 1e-5f, 3, width, y);
        for (int r = 0; r < 3; r++) {
            double mean = 0, variance = 0, worst = 0;
            for (int i = 0; i < width; i++) mean += x[r * width + i] / (double)width;
            for (int i = 0; i < width; i++) variance += (x[r * width + i] - mean) * (x[r * width + i] - mean) / width;
            for (int i = 0; i < width; i++) {
                double exact = (x[r * width + i] - mean) / sqrt(variance + 1e-5) * weight[i] + bias[i];
                worst = fmax(worst, fabs(y[r * width + i] - exact));
            }
            CHECK(worst < 1e-5, "width %d: %g", width, worst);
        }
        free(x), free(weight), free(bias), free(y);
    }
}

/* ---- Attention of packed sentences against loops in double. ---- */

static void test_attention(int causal) {
    enum { HEADS = 2, SIZE = 8, WIDTH = HEADS * SIZE };
    int32_t qstart[] = {0, 3, 4, 21, 29, 70}, kstart[] = {0, 5, 6, 15, 55, 63};
    const int32_t *kat = causal ? qstart : kstart;
    int queries = qstart[5], keys = kat[5];
    float *q = random_floats(queries * WIDTH), *k = random_floats(keys * WIDTH), *v = random_floats(keys * WIDTH);
    float *out = random_floats(queries * WIDTH), *norms = random_floats(queries * HEADS);
    Asked asked = {.q = q, .k = k, .v = v, .qrow = WIDTH, .krow = WIDTH, .vrow = WIDTH, .qstart = qstart, .kstart = kat,
                   .sentences = 5, .heads = HEADS, .size = SIZE, .causal = causal, .scale = 1 / sqrtf(SIZE)};
    CHECK(!attend_apart(&asked, out, norms), "status");
    double worst = 0;
    for (int s = 0; s < 5; s++)
        for (int i = qstart[s]; i < qstart[s + 1]; i++)
            for (int h = 0; h < HEADS; h++) {
                double mixed[SIZE] = {0}, sum = 0;
                int seen = causal ? i + 1 : kat[s + 1];
                for (int j = kat[s]; j < seen; j++) {
                    double score = 0;
                    for (int c = 0; c < SIZE; c++) score += (double)q[i * WIDTH + h * SIZE + c] * k[j * WIDTH + h * SIZE + c];
                    score = exp(score / sqrt(SIZE)), sum += score;
                    for (int c = 0; c < SIZE; c++) mixed[c] += score * v[j * WIDTH + h * SIZE + c];
                }
                for (int c = 0; c < SIZE; c++) worst = fmax(worst, fabs(out[i * WIDTH + h * SIZE + c] - mixed[c] / sum));
            }
    CHECK(worst < 1e-5, "causal %d: %g", causal, worst);

    /* The same when only the last three sentences are given, found by where they begin in the batch. */
    int64_t first_q = qstart[2], first_k = kat[2];
    float *some = random_floats((queries - first_q) * WIDTH), *some_norms = random_floats((queries - first_q) * HEADS);
    asked.q = q + first_q * WIDTH, asked.k = k + first_k * WIDTH, asked.v = v + first_k * WIDTH;
    asked.qstart = qstart + 2, asked.kstart = kat + 2, asked.sentences = 3;
    CHECK(!attend_from(&asked, (Before){first_q, first_k}, some, some_norms), "status");
    CHECK(!memcmp(some, out + first_q * WIDTH, sizeof(float) * (queries - first_q) * WIDTH), "part of a batch");
    free(q), free(k), free(v), free(out), free(norms), free(some), free(some_norms);
}

static void test_attention_without_keys(void) {
    int32_t qstart[] = {0, 4}, kstart[] = {0, 0};
    float *q = random_floats(32), out[32], norms[4];
    Asked asked = {.q = q, .k = q, .v = q, .qrow = 8, .krow = 8, .vrow = 8, .qstart = qstart, .kstart = kstart,
                   .sentences = 1, .heads = 1, .size = 8, .scale = 1};
    CHECK(!attend_apart(&asked, out, norms), "status");
    for (int i = 0; i < 32; i++) CHECK(out[i] == 0, "%g", out[i]);
    free(q);
}

/* ---- Dropout. ---- */

static void test_dropout_bytes(void) {
    enum { BLOCKS = 100000 };
    int64_t counts[256] = {0};
    for (int64_t block = 0; block < BLOCKS; block++) {
        uint8_t bytes[BLOCK];
        bytes_of(0x123456789abcdefull, block, bytes);
        for (int i = 0; i < BLOCK; i++) counts[bytes[i]]++;
    }
    double expected = BLOCKS * BLOCK / 256.0;
    for (int value = 0; value < 256; value++)
        CHECK(close_to(counts[value], expected, 6 * sqrt(expected)), "%d comes %ld times", value, (long)counts[value]);
}

/* Part of the elements, from a block on, gets what the whole gets there. */
static void test_dropout_offsets(void) {
    enum { N = 1000, COLUMNS = 40 };
    float *x = random_floats(N), *y = random_floats(N), *whole = random_floats(N), *part = random_floats(N);
    for (int with_x = 0; with_x < 2; with_x++)
        for (int64_t block = 0; block * BLOCK < N; block += 5) {
            int64_t at = block * BLOCK;
            add_dropped(with_x ? x : NULL, y, whole, N, 77, 99);
            add_some(with_x ? x + at : NULL, y + at, part + at, block, N - at, 77, 99);
            CHECK(!memcmp(whole + at, part + at, sizeof(float) * (N - at)), "from block %ld", (long)block);
        }
    for (int row = 0; row < N / COLUMNS; row += 3) {
        memcpy(whole, x, sizeof(float) * N), memcpy(part, x, sizeof(float) * N);
        relu_dropped(whole, y, N / COLUMNS, COLUMNS, 77, 99);
        relu_some(part + row * COLUMNS, y, N / COLUMNS - row, COLUMNS, row, 77, 99);
        CHECK(!memcmp(whole + row * COLUMNS, part + row * COLUMNS, sizeof(float) * (N - row * COLUMNS)), "from row %d", row);
    }
    free(x), free(y), free(whole), free(part);
}

/* ---- Search. ---- */

static void test_rank_in(void) {
    enum { ROOM = 5, LONGEST = 4 };
    Finished best[ROOM + 1];
    int32_t texts[ROOM + 1][LONGEST], written[LONGEST];
    for (int i = 0; i <= ROOM; i++) best[i].ids = texts[i];
    Ranking ranking = {best, 0, ROOM, LONGEST};
    double highest[ROOM];
    for (int i = 0; i < ROOM; i++) highest[i] = -INFINITY;
    for (int n = 0; n < 300; n++) {
        double score = (int)(20 * random_float());
        for (int i = 0; i < LONGEST; i++) written[i] = (int)(4 + 2 * random_float());
        rank_in(&ranking, score, 2 * score, written, 3, n % 2 ? 7 : 1, 1);
        double last = score;
        for (int i = 0; i < ROOM; i++)
            if (last > highest[i]) {
                double swap = highest[i];
                highest[i] = last, last = swap;
            }
        CHECK(ranking.count == (n < ROOM ? n + 1 : ROOM), "count %d", ranking.count);
        for (int i = 0; i < ranking.count; i++) {
            CHECK(best[i].score == highest[i] && best[i].total == 2 * highest[i], "place %d after %d", i, n);
            CHECK(best[i].length == 3 || (best[i].length == 4 && best[i].ids[3] == 7), "length %d", best[i].length);
            CHECK(!i || !goes_before(&best[i], &best[i - 1]), "order at %d", i);
        }
    }
}

static void test_best_of_rows(void) {
    for (int words = 1; words < 300; words += 23)
        for (int wanted = 1; wanted <= words && wanted <= 80; wanted += 13) {
            float *s = random_floats(words), *best = random_floats(wanted), norm;
            int64_t *tokens = malloc(sizeof(int64_t) * wanted);
            double sum = 0;
            for (int i = 0; i < words; i++) s[i] = floorf(s[i] * 50) / 4, sum += exp((double)s[i]);
            best_of_rows(s, 1, words, wanted, best, tokens, &norm);
            CHECK(close_to(norm, log(sum), 1e-4), "norm %g", norm);
            for (int n = 0; n < wanted; n++) { /* as many are before it as its place says */
                int before = 0;
                for (int i = 0; i < words; i++) before += s[i] > best[n] || (s[i] == best[n] && i < tokens[n]);
                CHECK(s[tokens[n]] == best[n] && before == n, "place %d of %d words: %d before", n, words, before);
            }
            free(s), free(best), free(tokens);
        }
}

/* ---- Whole models, all of whose weights are the same numbers: every allocation fails once, and nothing leaks. ---- */

enum { TINY = 32, TINY_WORDS = 24, TINY_FLOATS = 8192 };

static int tiny_translate(const float *floats, int threads) {
    enum { SENTENCES = 3, NBEST = 2, LONGEST = 20 };
    const float *weights[A_LAYER + 2];
    for (int i = 0; i < A_LAYER + 2; i++) weights[i] = floats;
    Stack stack = {.layers = 1, .width = TINY, .heads = 4, .inner = TINY, .words = TINY_WORDS, .scale = 1, .epsilon = 1e-5f,
                   .table = floats, .weights = weights, .output = floats, .bias = floats, .places = floats};
    Stack both[] = {stack, stack};
    float offsets[PANEL] = {0};
    int32_t words[PANEL] = {5, 6, 7};
    Remembered remembered[] = {{.keys = floats, .offsets = offsets, .words = words, .places = PANEL, .count = 2,
                                .sharpness = 0.1f, .weight = 0.3f}, {0}};
    Wanted wanted = {.beam = 3, .nbest = NBEST, .longest = LONGEST, .begin = 1, .end = 2, .penalty = 1};
    int64_t source[] = {4, 5, 6, 2, 9, 2, 7, 8, 2};
    int32_t start[] = {0, 4, 6, 9}, ids[SENTENCES * NBEST * LONGEST], lengths[SENTENCES * NBEST];
    double scores[SENTENCES * NBEST], totals[SENTENCES * NBEST];
    use_threads(threads);
    return translate(both, both, remembered, 2, &wanted, source, start, SENTENCES, ids, lengths, scores, totals);
}

/* A model of two sublayers on the one side and three on the other, and a batch; all of it must outlive the lesson. */
typedef struct {
    Sublayer reading[2], writing[3];
    int64_t ids[18];
    int32_t start[7];
    Lesson lesson;
} Tiny;

static void make_tiny(Tiny *tiny, const float *floats, int passes) {
    *tiny = (Tiny){.ids = {4, 5, 6, 2, 9, 2, 7, 8, 2, 4, 5, 6, 2, 9, 2, 7, 8, 2}, .start = {0, 4, 6, 9, 13, 15, 18}};
    for (int n = 0; n < 3; n++) {
        Sublayer *each = &tiny->writing[n];
        each->kind = n == 2 ? THINK : n ? LOOK_AT_SOURCE : LOOK, each->inside = 3 + n, each->around = 7 + n;
        for (int i = 0; i < 2; i++) each->norm[i] = floats;
        for (int i = 0; i < MAPS; i++) each->maps[i] = floats;
    }
    tiny->reading[0] = tiny->writing[0], tiny->reading[1] = tiny->writing[2];
    Side side = {.ids = tiny->ids, .start = tiny->start, .table = floats, .places = floats, .norm = {floats, floats}, .seed = 5};
    tiny->lesson = (Lesson){.read = side, .write = side, .gold = tiny->ids, .output = floats, .bias = floats,
                            .parameters = TINY_FLOATS, .sentences = 3, .passes = passes, .width = TINY, .heads = 4,
                            .inner = TINY, .words = TINY_WORDS, .dropped = 26, .dropped_inside = 26,
                            .dropped_weights = 26, .epsilon = 1e-5f, .scale = 1, .sure = 0.9f,
                            .spread = 0.1f / (TINY_WORDS - 2), .r_drop = 1};
    tiny->lesson.read.count = 2, tiny->lesson.read.sublayers = tiny->reading;
    tiny->lesson.write.count = 3, tiny->lesson.write.sublayers = tiny->writing;
}

static int tiny_learn(const float *floats, int passes, double *loss, float *gradient) {
    Tiny tiny;
    make_tiny(&tiny, floats, passes);
    return learn(&tiny.lesson, loss, gradient);
}

/* A step with too little memory is refused, wherever it ends; AddressSanitizer would see a write beyond the end. */
static void test_exhausted_step(int passes) {
    float *floats = random_floats(TINY_FLOATS), *gradient = random_floats(TINY_FLOATS), *rooms[5];
    Tiny tiny;
    Panels panels[5];
    Trace traces[2 * 7];
    make_tiny(&tiny, floats, passes);
    const Lesson *l = &tiny.lesson;
    int64_t room = room_of(l), enough = needed(l, 9);
    for (int n = 0; n < 5; n++) {
        const Sublayer *s = n < 2 ? tiny.reading + n : tiny.writing + n - 2;
        rooms[n] = random_floats(room);
        for (int64_t less = 0; less < room; less += 401) {
            float *some = random_floats(less);
            int status = lay_sublayer(l, s, panels + n, arena_of(some, less));
            CHECK(status == ARENA_EXHAUSTED || (!status && less > room / 2), "%ld of %ld: %d", (long)less, (long)room, status);
            free(some);
        }
        CHECK(!lay_sublayer(l, s, panels + n, arena_of(rooms[n], room)), "room for a sublayer");
    }
    int succeeded = 0;
    for (int64_t count = 0; count <= enough; count += count + 397 > enough && count < enough ? enough - count : 397) {
        double loss = 0;
        float *some = random_floats(count);
        int status = learn_chunk(l, panels, panels + 2, floats, floats, (Some){0, 3}, traces, arena_of(some, count), gradient, &loss);
        CHECK(status == (succeeded ? SUCCESS : ARENA_EXHAUSTED) || !status, "%ld of %ld: %d", (long)count, (long)enough, status);
        succeeded = !status;
        free(some);
    }
    CHECK(succeeded, "what is computed to be needed is enough");
    for (int n = 0; n < 5; n++) free(rooms[n]);
    free(floats), free(gradient);
}

static void test_failing_allocations(void) {
    float *floats = random_floats(TINY_FLOATS), *gradient = random_floats(TINY_FLOATS), *again = random_floats(TINY_FLOATS);
    for (int threads = 1; threads <= 3; threads++)
        for (int which = 0; which < 3; which++) {
            double loss = 0, undisturbed = 0;
            int status = OUT_OF_MEMORY, count = 0;
            use_threads(threads);
            if (which) CHECK(!tiny_learn(floats, which, &undisturbed, gradient) && isfinite(undisturbed), "learns");
            for (; status == OUT_OF_MEMORY && count < 10000; count++) {
                fail_allocation_after(count);
                status = which ? tiny_learn(floats, which, &loss, again) : tiny_translate(floats, threads);
            }
            fail_allocation_after(-1);
            CHECK(!status && count > 20, "status %d after %d allocations", status, count);
            if (which) CHECK(loss == undisturbed && !memcmp(again, gradient, sizeof(float) * TINY_FLOATS), "%g", loss);
        }
    free(floats), free(gradient), free(again);
}

int main(void) {
    test_checked_sizes();
    test_allocate();
    test_arena();
    test_multiply();
    test_outer();
    test_small_product();
    test_exponential();
    test_softmax();
    test_layer_norm();
    test_attention(0);
    test_attention(1);
    test_attention_without_keys();
    test_dropout_bytes();
    test_dropout_offsets();
    test_rank_in();
    test_best_of_rows();
    test_failing_allocations();
    test_exhausted_step(1);
    test_exhausted_step(2);
    printf("%d checks, %d failures\n", checks, failures);
    return failures > 0;
}
