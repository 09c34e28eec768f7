/* ---- Products for decoding: a row's result has the same bits whatever rows stand beside it. ---- */

#define PANEL 16

/* One panel of sixteen outputs from `o` on of a matrix (out, in), or (in, out) if turned: (in, 16), filled up with zeros. */
static void lay_panel(const float *matrix, float *to, int64_t o, int64_t out, int64_t in, int turned) {
    int64_t some = out - o < PANEL ? out - o : PANEL;
    if (some < PANEL) memset(to, 0, sizeof(float) * in * PANEL);
    if (turned && some == PANEL)
        for (int64_t k = 0; k < in; k++) memcpy(to + k * PANEL, matrix + k * out + o, sizeof(float) * PANEL);
    else if (turned)
        for (int64_t k = 0; k < in; k++) memcpy(to + k * PANEL, matrix + k * out + o, sizeof(float) * some);
    else
        for (int64_t first = 0; first < in; first += PANEL)
            for (int64_t j = 0; j < some; j++)
                for (int64_t k = first; k < first + PANEL && k < in; k++)
                    to[k * PANEL + j] = matrix[(o + j) * in + k];
}

/* A whole matrix as panels, (panels, in, 16). */
void lay_out(const float *matrix, float *panels, int64_t out, int64_t in, int turned) {
#pragma omp parallel for schedule(static) if (out * in > SMALL)
    for (int64_t p = 0; p < (out + PANEL - 1) / PANEL; p++)
        lay_panel(matrix, panels + p * in * PANEL, p * PANEL, out, in, turned);
}

/* The widest vector of sums that this processor adds to at once; a panel is one of them, or two. */
#ifdef __AVX512F__
#define WIDE 16
#else
#define WIDE 8
#endif
#define SPANS (PANEL / WIDE)
typedef float wide_sums __attribute__((vector_size(4 * WIDE), aligned(4)));
typedef int32_t wide_bits __attribute__((vector_size(4 * WIDE), aligned(4)));

/* R rows by P panels; row r, place k of x lies at x[r * xrow + k * xcol], and a panel begins `deep` places after the last.
 * R and P are numbers where this is used, so that the sums stay in registers. Onto y: added to what stands there, in the
 * same order as if it had been summed up at once. Meanwhile a panel that will be wanted next is fetched. Rows are found by
 * four from one pointer each, which the compiler may not see through: twelve distances do not fit into registers. */
/* What lies `distance` floats after `from`, which may be beyond the end of its array, so that no pointer is formed. */
#define beyond(from, distance) ((const void *)((uintptr_t)(from) + sizeof(float) * (uintptr_t)(distance)))
#define EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < n; i++)
#define RELU 1
#define ONTO 2
#define TILE_OF(R, P)                                                                                          \
    static void tile_##R##_##P(const float *x, int64_t xrow, int64_t xcol, const float *panel, int64_t deep,   \
                               int64_t in, const float *ahead, const float *bias, int how, float *y,          \
                               int64_t yrow, int64_t valid) {                                                 \
        wide_sums sums[R][SPANS * P];                                                                         \
        float kept[R][PANEL * P];                                                                             \
        int whole = valid >= PANEL * P;                                                                       \
        if (!(how & ONTO)) {                                                                                  \
            EACH(r, R) EACH(j, SPANS * P) sums[r][j] = (wide_sums){0};                                        \
        } else if (whole) {                                                                                   \
            EACH(r, R) EACH(j, SPANS * P) sums[r][j] = *(const wide_sums *)(y + r * yrow + WIDE * j);         \
        } else {                                                                                              \
            for (int r = 0; r < R; r++)                                                                       \
                for (int64_t j = 0; j < PANEL * P; j++) kept[r][j] = j < valid ? y[r * yrow + j] : 0.0f;      \
            EACH(r, R) EACH(j, SPANS * P) sums[r][j] = *(const wide_sums *)(kept[r] + WIDE * j);              \
        }                                                                                                     \
        const float *four[(R + 3) / 4];                                                                       \
        EACH(i, (R + 3) / 4) {                                                                                \
            four[i] = x + 4 * i * xrow;                                                                       \
            __asm__("" : "+r"(four[i]));                                                                      \
        }                                                                                                     \
        for (int64_t k = 0; k < in; k++) {                                                                    \
            wide_sums w[SPANS * P];                                                                           \
            EACH(j, SPANS * P)                                                                                \
                w[j] = *(const wide_sums *)(panel + (j / SPANS * deep + k) * PANEL + j % SPANS * WIDE);       \
            __builtin_prefetch(beyond(ahead, k * PANEL), 0, 2);                                               \
            EACH(r, R) {                                                                                      \
                float each = four[r / 4][r % 4 * xrow];                                                       \
                EACH(j, SPANS * P) sums[r][j] += each * w[j];                                                 \
            }                                                                                                 \
            EACH(i, (R + 3) / 4) four[i] += xcol;                                                             \
        }                                                                                                     \
        EACH(r, R) EACH(j, SPANS * P) {                                                                       \
            wide_sums row = sums[r][j];                                                                       \
            if (bias && whole) row += *(const wide_sums *)(bias + WIDE * j);                                  \
            if (how & RELU && whole) row = (wide_sums)((wide_bits)row & (wide_bits)(row > 0));                \
            *(wide_sums *)((whole ? y + r * yrow : kept[r]) + WIDE * j) = row;                                \
        }                                                                                                     \
        for (int r = 0; !whole && r < R; r++)                                                                 \
            for (int64_t j = 0; j < valid; j++) {                                                             \
                float each = kept[r][j] + (bias ? bias[j] : 0.0f);                                            \
                y[r * yrow + j] = how & RELU && each < 0 ? 0.0f : each;                                       \
            }                                                                                                 \
    }

typedef void Tile(const float *x, int64_t xrow, int64_t xcol, const float *panel, int64_t deep, int64_t in,
                  const float *ahead, const float *bias, int how, float *y, int64_t yrow, int64_t valid);

/* As many sums as there are registers for: few rows take more panels at once. */
TILE_OF(1, 1)
TILE_OF(2, 1)
TILE_OF(3, 1)
TILE_OF(4, 1)
TILE_OF(5, 1)
TILE_OF(6, 1)
#ifdef __AVX512F__
#define TALL 12
#define FOR_MANY 2
#define FOR_FEW 4
#define FOR_ONE 8
TILE_OF(12, 1)
TILE_OF(1, 2)
TILE_OF(2, 2)
TILE_OF(3, 2)
TILE_OF(4, 2)
TILE_OF(5, 2)
TILE_OF(6, 2)
TILE_OF(12, 2)
TILE_OF(2, 4)
TILE_OF(3, 4)
TILE_OF(1, 8)
static Tile *const MANY[] = {NULL, tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2, [TALL] = tile_12_2};
static Tile *const FEW[] = {NULL, NULL, tile_2_4, tile_3_4};
static Tile *const ONE[] = {NULL, tile_1_8};
static Tile *const LAST[] = {NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1, [TALL] = tile_12_1};
#else
#define TALL 6
#define FOR_MANY 1
#define FOR_FEW 2
#define FOR_ONE 4
TILE_OF(2, 2)
TILE_OF(3, 2)
TILE_OF(1, 4)
static Tile *const MANY[] = {NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1};
static Tile *const FEW[] = {NULL, NULL, tile_2_2, tile_3_2};
static Tile *const ONE[] = {NULL, tile_1_4};
static Tile *const *const LAST = MANY;
#endif

#define ROWS_A_TASK 192
#define DEEP 256 /* places of a panel that stay near while many rows pass */

/* y (rows, out) = x (rows, in) times laid-out weights, plus bias if there is one, with RELU or ONTO y if asked. */
void multiply(const float *x, int64_t rows, const float *panels, const float *bias, int64_t in, int64_t out,
              int64_t yrow, int how, float *y) {
    int64_t count = (out + PANEL - 1) / PANEL, group = rows == 1 ? FOR_ONE : rows <= 3 ? FOR_FEW : FOR_MANY;
    Tile *const *tiles = rows == 1 ? ONE : rows <= 3 ? FEW : MANY;
    int64_t groups = (count + group - 1) / group, tasks = (rows + ROWS_A_TASK - 1) / ROWS_A_TASK;
    if (!rows) return;
    int64_t each = ((rows + tasks - 1) / tasks + TALL - 1) / TALL * TALL;
    int64_t deep = rows > 2 * TALL && in > 2 * DEEP ? DEEP : in;
#pragma omp parallel if (rows * in * out > 4 * SMALL)
    for (int64_t k = 0; k < in; k += deep) {
        int64_t some = in - k < deep ? in - k : deep, final = k + some == in;
        int now = (final ? how : how & ~RELU) | (k ? ONTO : 0);
#pragma omp for collapse(2) schedule(static) nowait /* the same thread takes the same part of y for every k */
        for (int64_t t = 0; t < tasks; t++)
            for (int64_t g = 0; g < groups; g++) {
                int64_t last = (t + 1) * each < rows ? (t + 1) * each : rows;
                int64_t p = g * group, until = p + group < count ? p + group : count, whole = until - p == group;
                for (int64_t r = t * each, many; r < last; r += many) {
                    many = last - r >= TALL ? TALL : last - r >= 6 ? 6 : last - r;
                    Tile *tile = whole ? tiles[many] : LAST[many];
                    int64_t turn = (r - t * each) / TALL % group, next = until + turn;
                    const float *ahead = next < count ? panels + (next * in + k) * PANEL
                                         : final      ? panels
                                                      : panels + ((turn < count ? turn : 0) * in + k + some) * PANEL;
                    for (int64_t at = p; at < until; at += whole ? group : 1)
                        tile(x + r * in + k, in, 1, panels + (at * in + k) * PANEL, in, some, ahead,
                             bias && final ? bias + at * PANEL : NULL, now, y + r * yrow + at * PANEL, yrow,
                             out - at * PANEL);
                }
            }
    }
}

#define NEAR_DEEP 256 /* rows that are summed over while they are near, */
#define NEAR_COLUMNS (16 * TALL) /* and columns */

/* Columns of g from `first` to `end`, some rows of it -> (columns / TALL, rows, TALL), filled up with zeros. */
static void lay_columns(const float *g, int64_t grow, int64_t rows, int64_t first, int64_t end, float *to) {
    for (int64_t r0 = 0; r0 < rows; r0 += 16)
        for (int64_t c = first; c < end; c += TALL) {
            int64_t until = r0 + 16 < rows ? r0 + 16 : rows;
            float *at = to + (c - first) * rows;
            if (end - c >= TALL)
                for (int64_t r = r0; r < until; r++) memcpy(at + r * TALL, g + r * grow + c, sizeof(float) * TALL);
            else
                for (int64_t r = r0; r < until; r++)
                    for (int64_t i = 0; i < TALL; i++) at[r * TALL + i] = c + i < end ? g[r * grow + c + i] : 0.0f;
        }
}

/* w (out, in) = g (rows, out) turned, times x (rows, in): the gradient of weights; ONTO w if asked. */
int outer(const float *g, int64_t out, const float *x, int64_t in, int64_t rows, int how, float *w) {
    int64_t count = (in + PANEL - 1) / PANEL, columns = (out + TALL - 1) / TALL;
    int64_t floats = checked_mul(NEAR_DEEP, checked_add(NEAR_COLUMNS, checked_mul(count, PANEL)));
    int status = SUCCESS;
#pragma omp parallel if (rows * in * out > 4 * SMALL)
    {
        int failed = SUCCESS;
        int64_t share = (columns + omp_get_num_threads() - 1) / omp_get_num_threads() * TALL;
        int64_t first = share * omp_get_thread_num(), end = first + share < out ? first + share : out;
        float *near = allocate(floats, sizeof(float), &failed);
        float *panels = failed ? NULL : near + NEAR_DEEP * NEAR_COLUMNS;
        report(&status, failed);
        for (int64_t row = 0; !failed && row < rows && first < end; row += NEAR_DEEP) {
            int64_t some = rows - row < NEAR_DEEP ? rows - row : NEAR_DEEP;
            lay_out(x + row * in, panels, in, some, 1);
            for (int64_t c = first; c < end; c += TALL) {
                int64_t laid = (c - first) % NEAR_COLUMNS;
                if (!laid)
                    lay_columns(g + row * out, out, some, c, c + NEAR_COLUMNS < end ? c + NEAR_COLUMNS : end, near);
                for (int64_t p = 0, group; p < count; p += group) {
                    group = count - p >= FOR_MANY ? FOR_MANY : 1;
                    const float *panel = panels + p * some * PANEL;
                    const float *ahead = p + group < count ? panel + group * some * PANEL : panels;
                    for (int64_t i = 0, many; i < TALL && c + i < end; i += many) {
                        int64_t left = end - c - i < TALL - i ? end - c - i : TALL - i;
                        many = left >= TALL ? TALL : left >= 6 ? 6 : left;
                        float *to = w + (c + i) * in + p * PANEL;
                        for (int64_t r = 0; r < many; r++)
                            for (int64_t j = group; j < 2 * group; j++)
                                __builtin_prefetch(beyond(to, r * in + j * PANEL), 1);
                        (group == FOR_MANY ? MANY : LAST)[many](near + laid * some + i, 1, TALL, panel, some, some,
                                                                ahead, NULL, row ? ONTO : how, to, in, in - p * PANEL);
                    }
                }
            }
        }
        free(near);
    }
    return status;
}
