/* Muon: orthogonalization of matrices (count, rows, columns) with rows <= columns, in place. */
#include "engine.h"

/* Each matrix is computed by one thread. */
int orthogonalize(float *matrices, int64_t count, int64_t rows, int64_t columns, int rounds, float a, float b, float c) {
    int status = SUCCESS;
    int64_t widest = (rows > columns ? rows : columns) + PANEL, squares = checked_mul(rows, rows);
    int64_t floats = checked_add(checked_add(checked_mul(widest, widest), checked_mul(2, squares)), checked_mul(rows, columns));
#pragma omp parallel
    {
        int failed = SUCCESS;
        float *packed = allocate(floats, sizeof(float), &failed);
        report_status(&status, failed);
#pragma omp for schedule(dynamic)
        for (int64_t m = 0; m < count; m++) {
            if (failed) continue;
            int64_t n = rows * columns;
            float *x = matrices + m * n;
            float *square = packed + widest * widest, *mixed = square + rows * rows, *moved = mixed + rows * rows;
            for (int round = 0; round < rounds; round++) {
                gemm_pack(x, packed, rows, columns, 0);
                gemm_symmetric(x, rows, packed, columns, square);
                gemm_pack(square, packed, rows, rows, 1); /* it is its own transpose */
                gemm_symmetric(square, rows, packed, rows, mixed);
                for (int64_t i = 0; i < rows * rows; i++) mixed[i] = b * square[i] + c * mixed[i];
                gemm_pack(x, packed, columns, rows, 1);
                gemm(mixed, rows, packed, NULL, rows, columns, columns, 0, moved);
                for (int64_t i = 0; i < n; i++) x[i] = a * x[i] + moved[i];
            }
        }
        free(packed);
    }
    return status;
}
