/* Number of threads, and a self-test of the library on this machine. */
#include "engine.h"

void use_threads(int threads) { omp_set_num_threads(threads); }

int self_test(void) {
    float x[64], y[64], out[64], packed[8 * PANEL];
    double total = 0;
    for (int i = 0; i < 64; i++) x[i] = 1.0f, y[i] = (float)i;
    dropout_add(x, y, out, 0, 2, 32, 26, 7);
    for (int i = 0; i < 64; i++) total += out[i] + exp_nonpositive(-(float)i);
    gemm_pack(y, packed, 8, 8, 1);
    gemm(x, 8, packed, NULL, 8, 8, 8, 0, out);
    return total > 64 && out[0] == 0.0f + 8 + 16 + 24 + 32 + 40 + 48 + 56;
}
