/* ---- Muon: matrices (count, rows, columns), no taller than wide, driven towards orthogonal ones in place. ---- */

/* y (rows, rows) = x (rows, in) times laid-out weights, where that is its own transpose: half is copied. */
static void multiply_even(const float *x, int64_t rows, const float *panels, int64_t in, float *y) {
    for (int64_t r = 0, many; r < rows; r += many) {
        many = rows - r >= TALL ? TALL : rows - r >= 6 ? 6 : rows - r;
        int64_t known = r / PANEL * PANEL; /* columns that stand above already, as rows */
        for (int64_t i = r; i < r + many; i++)
            for (int64_t j = 0; j < known; j++) y[i * rows + j] = y[j * rows + i];
        for (int64_t at = known; at < rows; at += PANEL)
            LAST[many](x + r * in, in, 1, panels + at * in, in, in, panels, NULL, 0, y + r * rows + at, rows,
                       rows - at);
    }
}

/* x = a x + (b s + c s s) x with s = x x', so many times; a matrix is one thread's. */
int orthogonal(float *matrices, int64_t count, int64_t rows, int64_t columns, int rounds, float a, float b, float c) {
    int status = SUCCESS;
    int64_t wide = (rows > columns ? rows : columns) + PANEL, squares = checked_mul(rows, rows);
    int64_t floats = checked_add(checked_add(checked_mul(wide, wide), checked_mul(2, squares)), checked_mul(rows, columns));
#pragma omp parallel
    {
        int failed = SUCCESS;
        float *panels = allocate(floats, sizeof(float), &failed);
        report(&status, failed);
#pragma omp for schedule(dynamic)
        for (int64_t m = 0; m < count; m++) {
            if (failed) continue;
            int64_t n = rows * columns;
            float *x = matrices + m * n;
            float *square = panels + wide * wide, *mixed = square + rows * rows, *moved = mixed + rows * rows;
            for (int round = 0; round < rounds; round++) {
                lay_out(x, panels, rows, columns, 0);
                multiply_even(x, rows, panels, columns, square);
                lay_out(square, panels, rows, rows, 1); /* it is its own transpose */
                multiply_even(square, rows, panels, rows, mixed);
                for (int64_t i = 0; i < rows * rows; i++) mixed[i] = b * square[i] + c * mixed[i];
                lay_out(x, panels, columns, rows, 1);
                multiply(mixed, rows, panels, NULL, rows, columns, columns, 0, moved);
                for (int64_t i = 0; i < n; i++) x[i] = a * x[i] + moved[i];
            }
        }
        free(panels);
    }
    return status;
}
