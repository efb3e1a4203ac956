/* One step and the resolvent of a DPLR channel in O(N R), by the low-rank identity in its textbook
 * form; every entry of the closed vectors is carried, no use is made of conjugate symmetry. */
#include <math.h>
#include <stdlib.h>

#include "reference_internal.h"

/* x <- (I - dt/2 A)^-1 ((I + dt/2 A) x + dt B u); I - dt/2 A = diag(1 - dt/2 Lambda) + dt/2 P P*.
 */
struct ref_structured ref_structured_create(const struct ref_channel *channel)
{
    int size = channel->size;
    size_t columns = (size_t)(channel->rank * size);
    struct ref_structured s = {
        .inverse_diagonal = ref_allocate((size_t)size, sizeof(ref_complex)),
        .left = ref_allocate(columns, sizeof(ref_complex)),
        .right = ref_allocate(columns, sizeof(ref_complex)),
        .work = ref_allocate((size_t)size, sizeof(ref_complex)),
    };
    for (int i = 0; i < size; ++i) {
        s.inverse_diagonal[i] = 1 / (1 - channel->dt[i] / 2 * channel->lambda[i]);
        for (int r = 0; r < channel->rank; ++r) {
            s.left[r * size + i] = channel->dt[i] / 2 * channel->p[r * size + i];
            s.right[r * size + i] = conjl(channel->p[r * size + i]);
        }
    }
    return s;
}

void ref_structured_destroy(struct ref_structured *structured)
{
    free(structured->inverse_diagonal);
    free(structured->left);
    free(structured->right);
    free(structured->work);
}

void ref_structured_step(const struct ref_channel *channel, struct ref_structured *structured,
                         ref_real u, ref_complex *x)
{
    ref_apply_dt_a(channel, x, structured->work);
    for (int i = 0; i < channel->size; ++i)
        structured->work[i] = x[i] + structured->work[i] / 2 + channel->dt[i] * channel->b[i] * u;
    ref_low_rank_solve(channel->size, channel->rank, structured->inverse_diagonal, structured->left,
                       structured->right, structured->work, x);
}

/* x = [(1 - omega) I - (1 + omega)/2 diag(dt) A]^-1 rhs. Since I - omega dA is
 * (I - dt/2 A)^-1 times that matrix, rhs = dt B gives (I - omega dA)^-1 dB and rhs = (I + dt/2 A)
 * x0 gives (I - omega dA)^-1 dA x0. Nothing is singular at omega = -1. */
void ref_resolvent(const struct ref_channel *channel, ref_complex omega, const ref_complex *rhs,
                   ref_complex *x)
{
    int size = channel->size;
    size_t columns = (size_t)(channel->rank * size);
    ref_complex *inverse_diagonal = ref_allocate((size_t)size, sizeof(ref_complex));
    ref_complex *left = ref_allocate(columns, sizeof(ref_complex));
    ref_complex *right = ref_allocate(columns, sizeof(ref_complex));
    for (int i = 0; i < size; ++i) {
        ref_complex scale = (1 + omega) / 2 * channel->dt[i];
        inverse_diagonal[i] = 1 / (1 - omega - scale * channel->lambda[i]);
        for (int r = 0; r < channel->rank; ++r) {
            left[r * size + i] = scale * channel->p[r * size + i];
            right[r * size + i] = conjl(channel->p[r * size + i]);
        }
    }
    ref_low_rank_solve(size, channel->rank, inverse_diagonal, left, right, rhs, x);
    free(inverse_diagonal);
    free(left);
    free(right);
}

/* e^(-2 pi i k / length), exact at quarter turns. */
ref_complex ref_root_of_unity(int k, int length)
{
    static const ref_real re[4] = {1, 0, -1, 0}, im[4] = {0, -1, 0, 1};
    k = (k % length + length) % length;
    if (4LL * k % length == 0) {
        int quarter = (int)(4LL * k / length);
        return re[quarter] + I * im[quarter];
    }
    ref_real angle = 2 * REF_PI * (ref_real)k / (ref_real)length;
    return cosl(angle) - I * sinl(angle);
}
