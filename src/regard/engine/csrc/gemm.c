/* The matrix product. The result of a row is bit-identical in any batch; no other library is needed. benchmarks/gemm.py
 * compares it with the products of PyTorch and libxsmm. */
#include "engine.h"

/* ---- Packing: a matrix as panels of PANEL outputs, each (in, PANEL), filled up with zeros. ---- */

/* The panel that begins at output `first` of a matrix (out, in), or (in, out) if transposed. */
static void pack_panel(const float *matrix, float *panel, int64_t first, int64_t out, int64_t in, int transposed) {
    int64_t width = min64(PANEL, out - first);
    if (width < PANEL) memset(panel, 0, sizeof(float) * in * PANEL);
    if (transposed && width == PANEL)
        for (int64_t k = 0; k < in; k++) memcpy(panel + k * PANEL, matrix + k * out + first, sizeof(float) * PANEL);
    else if (transposed)
        for (int64_t k = 0; k < in; k++) memcpy(panel + k * PANEL, matrix + k * out + first, sizeof(float) * width);
    else
        for (int64_t k0 = 0; k0 < in; k0 += PANEL)
            for (int64_t j = 0; j < width; j++)
                for (int64_t k = k0; k < k0 + PANEL && k < in; k++) panel[k * PANEL + j] = matrix[(first + j) * in + k];
}

int64_t gemm_packed_floats(int64_t out, int64_t in) {
    return out > INT64_MAX - PANEL ? INT64_MAX : checked_mul(in, round_up(out, PANEL));
}

void gemm_pack(const float *matrix, float *packed, int64_t out, int64_t in, int transposed) {
#pragma omp parallel for schedule(static) if (out * in > PARALLEL_MIN && !omp_in_parallel())
    for (int64_t p = 0; p < (out + PANEL - 1) / PANEL; p++)
        pack_panel(matrix, packed + p * in * PANEL, p * PANEL, out, in, transposed);
}

void gemm_pack_inputs(const float *matrix, float *packed, int64_t out, int64_t in, int64_t first, int64_t depth) {
    for (int64_t p = 0; p < (out + PANEL - 1) / PANEL; p++)
        pack_panel(matrix, packed + (p * depth + first) * PANEL, p * PANEL, out, in, 1);
}

/* ---- Tiles: the innermost loops. ---- */

#define PANEL_VECTORS (PANEL / WIDEST)

/* An address `distance` floats after `from`, which may lie beyond the end of its array: no pointer is formed. */
#define ADDRESS_AFTER(from, distance) ((const void *)((uintptr_t)(from) + sizeof(float) * (uintptr_t)(distance)))

/* y (R, P panels) = x (R, in) times P panels. x[r][k] is x[r * x_row + k * x_column]; a panel begins `depth` inputs after the
 * last one. R and P are constants, so that the sums stay in registers. GEMM_ACCUMULATE continues the sums in y, in the same
 * order as if they had been computed at once. `prefetch` is a panel that is needed next. Rows are addressed from one pointer
 * for every four, which the compiler must not combine: twelve offsets do not fit into the registers. */
#define DEFINE_TILE(R, P)                                                                                                   \
    static void tile_##R##_##P(const float *x, int64_t x_row, int64_t x_column, const float *panel, int64_t depth,          \
                               int64_t in, const float *prefetch, const float *bias, int flags, float *y, int64_t y_row,    \
                               int64_t valid) {                                                                             \
        wide_floats sums[R][PANEL_VECTORS * P];                                                                             \
        float partial[R][PANEL * P];                                                                                        \
        int whole = valid >= PANEL * P;                                                                                     \
        if (!(flags & GEMM_ACCUMULATE)) {                                                                                   \
            UNROLL(r, R) UNROLL(j, PANEL_VECTORS *P) sums[r][j] = (wide_floats){0};                                         \
        } else if (whole) {                                                                                                 \
            UNROLL(r, R) UNROLL(j, PANEL_VECTORS *P) sums[r][j] = *(const wide_floats *)(y + r * y_row + WIDEST * j);       \
        } else {                                                                                                            \
            for (int r = 0; r < R; r++)                                                                                     \
                for (int64_t j = 0; j < PANEL * P; j++) partial[r][j] = j < valid ? y[r * y_row + j] : 0.0f;                \
            UNROLL(r, R) UNROLL(j, PANEL_VECTORS *P) sums[r][j] = *(const wide_floats *)(partial[r] + WIDEST * j);          \
        }                                                                                                                   \
        const float *four[(R + 3) / 4];                                                                                     \
        UNROLL(i, (R + 3) / 4) {                                                                                            \
            four[i] = x + 4 * i * x_row;                                                                                    \
            __asm__("" : "+r"(four[i]));                                                                                    \
        }                                                                                                                   \
        for (int64_t k = 0; k < in; k++) {                                                                                  \
            wide_floats w[PANEL_VECTORS * P];                                                                               \
            UNROLL(j, PANEL_VECTORS *P)                                                                                     \
                w[j] = *(const wide_floats *)(panel + (j / PANEL_VECTORS * depth + k) * PANEL + j % PANEL_VECTORS * WIDEST);\
            __builtin_prefetch(ADDRESS_AFTER(prefetch, k * PANEL), 0, 2);                                                   \
            UNROLL(r, R) {                                                                                                  \
                float value = four[r / 4][r % 4 * x_row];                                                                   \
                UNROLL(j, PANEL_VECTORS *P) sums[r][j] += value * w[j];                                                     \
            }                                                                                                               \
            UNROLL(i, (R + 3) / 4) four[i] += x_column;                                                                     \
        }                                                                                                                   \
        UNROLL(r, R) UNROLL(j, PANEL_VECTORS *P) {                                                                          \
            wide_floats row = sums[r][j];                                                                                   \
            if (bias && whole) row += *(const wide_floats *)(bias + WIDEST * j);                                            \
            if (flags & GEMM_RELU && whole) row = (wide_floats)((wide_ints)row & (wide_ints)(row > 0));                     \
            *(wide_floats *)((whole ? y + r * y_row : partial[r]) + WIDEST * j) = row;                                      \
        }                                                                                                                   \
        for (int r = 0; !whole && r < R; r++)                                                                               \
            for (int64_t j = 0; j < valid; j++) {                                                                           \
                float value = partial[r][j] + (bias ? bias[j] : 0.0f);                                                      \
                y[r * y_row + j] = flags & GEMM_RELU && value < 0 ? 0.0f : value;                                           \
            }                                                                                                               \
    }

typedef void Tile(const float *x, int64_t x_row, int64_t x_column, const float *panel, int64_t depth, int64_t in,
                  const float *prefetch, const float *bias, int flags, float *y, int64_t y_row, int64_t valid);

/* As many sums as there are registers for: few rows take more panels at once. */
DEFINE_TILE(1, 1)
DEFINE_TILE(2, 1)
DEFINE_TILE(3, 1)
DEFINE_TILE(4, 1)
DEFINE_TILE(5, 1)
DEFINE_TILE(6, 1)
#ifdef __AVX512F__
#define TILE_ROWS 12
#define PANELS_FOR_MANY_ROWS 2
#define PANELS_FOR_3_ROWS 4
#define PANELS_FOR_1_ROW 8
DEFINE_TILE(12, 1)
DEFINE_TILE(1, 2)
DEFINE_TILE(2, 2)
DEFINE_TILE(3, 2)
DEFINE_TILE(4, 2)
DEFINE_TILE(5, 2)
DEFINE_TILE(6, 2)
DEFINE_TILE(12, 2)
DEFINE_TILE(2, 4)
DEFINE_TILE(3, 4)
DEFINE_TILE(1, 8)
static Tile *const TILES[] = {NULL,     tile_1_2, tile_2_2, tile_3_2, tile_4_2, tile_5_2, tile_6_2, NULL,
                              NULL,     NULL,     NULL,     NULL,     tile_12_2};
static Tile *const TILES_FOR_3_ROWS[] = {NULL, NULL, tile_2_4, tile_3_4};
static Tile *const TILES_FOR_1_ROW[] = {NULL, tile_1_8};
static Tile *const ONE_PANEL_TILES[] = {NULL,     tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1, NULL,
                                        NULL,     NULL,     NULL,     NULL,     tile_12_1};
#else
#define TILE_ROWS 6
#define PANELS_FOR_MANY_ROWS 1
#define PANELS_FOR_3_ROWS 2
#define PANELS_FOR_1_ROW 4
DEFINE_TILE(2, 2)
DEFINE_TILE(3, 2)
DEFINE_TILE(1, 4)
static Tile *const TILES[] = {NULL, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1};
static Tile *const TILES_FOR_3_ROWS[] = {NULL, NULL, tile_2_2, tile_3_2};
static Tile *const TILES_FOR_1_ROW[] = {NULL, tile_1_4};
#define ONE_PANEL_TILES TILES
#endif

/* Number of rows of the next tile. */
static inline int64_t tile_rows(int64_t left) { return left >= TILE_ROWS ? TILE_ROWS : left >= 6 ? 6 : left; }

/* ---- y = x W^T. ---- */

#define TASK_ROWS 192
#define DEPTH 256 /* inputs of a panel that stay in the cache for many rows */

void gemm(const float *x, int64_t rows, const float *packed, const float *bias, int64_t in, int64_t out, int64_t y_stride,
          int flags, float *y) {
    int64_t panels = (out + PANEL - 1) / PANEL;
    int64_t group = rows == 1 ? PANELS_FOR_1_ROW : rows <= 3 ? PANELS_FOR_3_ROWS : PANELS_FOR_MANY_ROWS;
    Tile *const *tiles = rows == 1 ? TILES_FOR_1_ROW : rows <= 3 ? TILES_FOR_3_ROWS : TILES;
    int64_t groups = (panels + group - 1) / group, tasks = (rows + TASK_ROWS - 1) / TASK_ROWS;
    if (!rows) return;
    int64_t task_rows = round_up((rows + tasks - 1) / tasks, TILE_ROWS);
    int64_t depth = rows > 2 * TILE_ROWS && in > 2 * DEPTH ? DEPTH : in;
#pragma omp parallel if (rows * in * out > 4 * PARALLEL_MIN && !omp_in_parallel())
    for (int64_t k = 0; k < in; k += depth) {
        int64_t deep = min64(depth, in - k), final = k + deep == in;
        int now = (final ? flags : flags & ~GEMM_RELU) | (k ? GEMM_ACCUMULATE : 0);
#pragma omp for collapse(2) schedule(static) nowait /* the same thread takes the same part of y for every k */
        for (int64_t t = 0; t < tasks; t++)
            for (int64_t g = 0; g < groups; g++) {
                int64_t last = min64((t + 1) * task_rows, rows);
                int64_t p = g * group, end = min64(p + group, panels), whole = end - p == group;
                for (int64_t r = t * task_rows, count; r < last; r += count) {
                    count = tile_rows(last - r);
                    Tile *tile = whole ? tiles[count] : ONE_PANEL_TILES[count];
                    int64_t turn = (r - t * task_rows) / TILE_ROWS % group, next = end + turn;
                    const float *prefetch = next < panels ? packed + (next * in + k) * PANEL
                                            : final       ? packed
                                                          : packed + ((turn < panels ? turn : 0) * in + k + deep) * PANEL;
                    for (int64_t at = p; at < end; at += whole ? group : 1)
                        tile(x + r * in + k, in, 1, packed + (at * in + k) * PANEL, in, deep, prefetch,
                             bias && final ? bias + at * PANEL : NULL, now, y + r * y_stride + at * PANEL, y_stride,
                             out - at * PANEL);
                }
            }
    }
}

/* y (rows, rows) = x (rows, in) times a packed matrix, where that is symmetric: half of it is copied. */
void gemm_symmetric(const float *x, int64_t rows, const float *packed, int64_t in, float *y) {
    for (int64_t r = 0, count; r < rows; r += count) {
        count = tile_rows(rows - r);
        int64_t known = r / PANEL * PANEL; /* columns that were computed already, as rows */
        for (int64_t i = r; i < r + count; i++)
            for (int64_t j = 0; j < known; j++) y[i * rows + j] = y[j * rows + i];
        for (int64_t at = known; at < rows; at += PANEL)
            ONE_PANEL_TILES[count](x + r * in, in, 1, packed + at * in, in, in, packed, NULL, 0, y + r * rows + at, rows,
                                   rows - at);
    }
}

/* ---- w = g^T x. ---- */

#define GRAD_ROWS 256               /* rows that are summed over while they are in the cache, */
#define GRAD_COLUMNS (16 * TILE_ROWS) /* and columns of g */

/* Columns `first` to `end` of some rows of g -> (columns / TILE_ROWS, rows, TILE_ROWS), filled up with zeros. */
static void pack_columns(const float *g, int64_t g_row, int64_t rows, int64_t first, int64_t end, float *packed) {
    for (int64_t r0 = 0; r0 < rows; r0 += 16)
        for (int64_t c = first; c < end; c += TILE_ROWS) {
            int64_t until = min64(r0 + 16, rows);
            float *at = packed + (c - first) * rows;
            if (end - c >= TILE_ROWS)
                for (int64_t r = r0; r < until; r++) memcpy(at + r * TILE_ROWS, g + r * g_row + c, sizeof(float) * TILE_ROWS);
            else
                for (int64_t r = r0; r < until; r++)
                    for (int64_t i = 0; i < TILE_ROWS; i++) at[r * TILE_ROWS + i] = c + i < end ? g[r * g_row + c + i] : 0.0f;
        }
}

int gemm_weight_grad(const float *g, int64_t g_stride, int64_t out, const float *x, int64_t in, int64_t rows, int flags,
                     float *w) {
    int64_t panels = (in + PANEL - 1) / PANEL, columns = (out + TILE_ROWS - 1) / TILE_ROWS;
    int64_t floats = checked_mul(GRAD_ROWS, checked_add(GRAD_COLUMNS, checked_mul(panels, PANEL)));
    int status = SUCCESS;
#pragma omp parallel if (rows * in * out > 4 * PARALLEL_MIN && !omp_in_parallel())
    {
        int failed = SUCCESS;
        int64_t share = (columns + omp_get_num_threads() - 1) / omp_get_num_threads() * TILE_ROWS;
        int64_t first = share * omp_get_thread_num(), end = min64(first + share, out);
        float *packed_g = allocate(floats, sizeof(float), &failed);
        float *packed_x = failed ? NULL : packed_g + GRAD_ROWS * GRAD_COLUMNS;
        report_status(&status, failed);
        for (int64_t row = 0; !failed && row < rows && first < end; row += GRAD_ROWS) {
            int64_t depth = min64(GRAD_ROWS, rows - row);
            for (int64_t p = 0; p < panels; p++)
                pack_panel(x + row * in, packed_x + p * depth * PANEL, p * PANEL, in, depth, 1);
            for (int64_t c = first; c < end; c += TILE_ROWS) {
                int64_t packed_columns = (c - first) % GRAD_COLUMNS;
                if (!packed_columns) pack_columns(g + row * g_stride, g_stride, depth, c, min64(c + GRAD_COLUMNS, end), packed_g);
                for (int64_t p = 0, group; p < panels; p += group) {
                    group = panels - p >= PANELS_FOR_MANY_ROWS ? PANELS_FOR_MANY_ROWS : 1;
                    const float *panel = packed_x + p * depth * PANEL;
                    const float *prefetch = p + group < panels ? panel + group * depth * PANEL : packed_x;
                    for (int64_t i = 0, count; i < TILE_ROWS && c + i < end; i += count) {
                        count = tile_rows(min64(end - c - i, TILE_ROWS - i));
                        float *to = w + (c + i) * in + p * PANEL;
                        for (int64_t r = 0; r < count; r++)
                            for (int64_t j = group; j < 2 * group; j++)
                                __builtin_prefetch(ADDRESS_AFTER(to, r * in + j * PANEL), 1);
                        (group == PANELS_FOR_MANY_ROWS ? TILES : ONE_PANEL_TILES)[count](
                            packed_g + packed_columns * depth + i, 1, TILE_ROWS, panel, depth, depth, prefetch, NULL,
                            row ? GEMM_ACCUMULATE : flags, to, in, in - p * PANEL);
                    }
                }
            }
        }
        free(packed_g);
    }
    return status;
}

/* ---- Small products that are not packed. ---- */

void small_gemm(const float *a, int64_t a_row, int64_t a_column, const float *b, int64_t b_row, float *c, int64_t c_row, int m,
                int k, int n) {
    for (int j = 0; j < n;) {
        int wide = n - j >= 2 * LANES;
        for (int i = 0; i < m;) {
            const float *a0 = a + i * a_row, *b0 = b + j;
            float *to = c + i * c_row + j;
            if (wide && m - i >= 4) {
                f32x8 c00 = {0}, c01 = {0}, c10 = {0}, c11 = {0}, c20 = {0}, c21 = {0}, c30 = {0}, c31 = {0};
                for (int p = 0; p < k; p++, a0 += a_column, b0 += b_row) {
                    f32x8 left = *(const f32x8 *)b0, right = *(const f32x8 *)(b0 + LANES);
                    float x0 = a0[0], x1 = a0[a_row], x2 = a0[2 * a_row], x3 = a0[3 * a_row];
                    c00 += x0 * left, c01 += x0 * right;
                    c10 += x1 * left, c11 += x1 * right;
                    c20 += x2 * left, c21 += x2 * right;
                    c30 += x3 * left, c31 += x3 * right;
                }
                *(f32x8 *)to = c00, *(f32x8 *)(to + LANES) = c01;
                to += c_row;
                *(f32x8 *)to = c10, *(f32x8 *)(to + LANES) = c11;
                to += c_row;
                *(f32x8 *)to = c20, *(f32x8 *)(to + LANES) = c21;
                to += c_row;
                *(f32x8 *)to = c30, *(f32x8 *)(to + LANES) = c31;
                i += 4;
            } else if (m - i >= 4) {
                f32x8 c0 = {0}, c1 = {0}, c2 = {0}, c3 = {0};
                for (int p = 0; p < k; p++, a0 += a_column, b0 += b_row) {
                    f32x8 left = *(const f32x8 *)b0;
                    c0 += a0[0] * left, c1 += a0[a_row] * left;
                    c2 += a0[2 * a_row] * left, c3 += a0[3 * a_row] * left;
                }
                *(f32x8 *)to = c0, *(f32x8 *)(to + c_row) = c1;
                *(f32x8 *)(to + 2 * c_row) = c2, *(f32x8 *)(to + 3 * c_row) = c3;
                i += 4;
            } else {
                f32x8 c0 = {0}, c1 = {0};
                for (int p = 0; p < k; p++, a0 += a_column, b0 += b_row) {
                    c0 += a0[0] * *(const f32x8 *)b0;
                    if (wide) c1 += a0[0] * *(const f32x8 *)(b0 + LANES);
                }
                *(f32x8 *)to = c0;
                if (wide) *(f32x8 *)(to + LANES) = c1;
                i += 1;
            }
        }
        j += wide ? 2 * LANES : LANES;
    }
}
