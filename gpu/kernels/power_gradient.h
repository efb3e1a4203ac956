/*
 * From the gradient of dA to the sums that steps give (sample_sums.h): through dA = (I - dt/2 A)^-1 (I + dt/2 A), whose
 * inverse factor is (I + dA) / 2, it becomes
 *   Y = (I + dA)^T g dA (I + dA)^T / 2,   gA = dt/2 Y,
 * the same Y that is summed over samples.
 */
#ifndef GPU_KERNELS_POWER_GRADIENT_H
#define GPU_KERNELS_POWER_GRADIENT_H

#include "gpu/kernels/sample_sums.h"
#include "gpu/kernels/set_up_lane.h"

/* Adds Y = transposed^T / 2 to the sums; p, along, dt_p: (N) scratch. */
static inline __device__ void add_to_sums(const gpu_model &m, int64_t h, const double *transposed, double *p,
                                          double *along, double *dt_p, const sample_sums &of)
{
    const int64_t modes = m.shape.modes, state = 2 * modes;
    for (int64_t n = threadIdx.x; n < modes; n += gpu_threads) {
        const double *re = transposed + n * state, *im = transposed + (modes + n) * state;
        of.mode[n] += re[n] / 2;
        of.mode[n] += im[modes + n] / 2;
        of.mode[modes + n] += re[modes + n] / 2;
        of.mode[modes + n] -= im[n] / 2;
    }
    for (int64_t r = 0; r < m.shape.rank; r++) {
        for (int64_t n = threadIdx.x; n < modes; n += gpu_threads) {
            const complex_d of_mode = p_at(m.shape, m.system, h, r, n);
            put_split(p, modes, n, of_mode);
            put_split(dt_p, modes, n, dt_at(m.shape, m.system, h, n) * of_mode);
        }
        __syncthreads();
        row_times_matrix(state, p, transposed, along);
        for (int64_t i = threadIdx.x; i < state; i += gpu_threads) {
            double onto = 0;
            for (int64_t k = 0; k < state; k++) onto += transposed[i * state + k] * dt_p[k];
            of.along_p[r * state + i] += along[i] / 2;
            of.onto_p[r * state + i] += onto / 2;
        }
        __syncthreads(); /* the rows have been read */
    }
}

/* Adds what the gradient of dA gives, derivative being its transpose. dA becomes I + dA; next and last: (N,N) scratch. */
static inline __device__ void add_gradient_of_dA(const gpu_model &m, int64_t h, double *dA, const double *derivative,
                                                 double *next, double *last, double *const *rows, const sample_sums &of)
{
    double *shared = reinterpret_cast<double *>(s4_shared);
    const int64_t state = 2 * m.shape.modes;
    for (int64_t i = threadIdx.x; i < state; i += gpu_threads) dA[i * state + i] += 1;
    matrix_product(int(state), dA, derivative, next, false, shared);
    matrix_product(int(state), next, dA, last, false, shared);
    add_to_sums(m, h, last, rows[0], rows[1], rows[2], of);
}

#endif
