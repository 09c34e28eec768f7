/* What PyTorch does in many passes over memory, in one: see the plain twins in the Python files that call these.
 *
 * Float32, rows next to each other unless a stride is given. Work is shared over OpenMP's threads, the same ones
 * that PyTorch uses; whatever is added up is added up in an order that depends on the number of threads alone.
 * The parts stand below in the order in which they are built on each other; one compiler run sees them all.
 */
#include <math.h>
#include <omp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 32    /* elements whose chance comes from eight words */
#define SMALL 16384 /* elements that are not worth a second thread */

typedef float v8 __attribute__((vector_size(32), aligned(4)));
typedef int32_t i8 __attribute__((vector_size(32), aligned(4)));

#include "memory.c"
#include "chance.c"
#include "curves.c"
#include "loss.c"
#include "attention.c"
#include "fewer.c"
#include "products.c"
#include "sublayers.c"
#include "learning.c"
#include "muon.c"
#include "decoding.c"
#include "neighbours.c"
#include "search.c"
#include "layouts.c"
#include "fingerprint.c"

/* How many threads the kernels called by this thread may use. */
void use_threads(int threads) { omp_set_num_threads(threads); }

/* For a child process to run once after compiling: whether this machine can execute what was built for it. */
int works(void) {
    float x[64], y[64], out[64];
    double total = 0;
    for (int i = 0; i < 64; i++) x[i] = 1.0f, y[i] = (float)i;
    add_dropped(x, y, out, 64, 26, 7);
    for (int i = 0; i < 64; i++) total += out[i] + exponential(-(float)i);
    product(x, 8, 1, y, 8, out, 8, 8, 8, 8);
    return total > 64 && out[0] == 0.0f + 8 + 16 + 24 + 32 + 40 + 48 + 56;
}
