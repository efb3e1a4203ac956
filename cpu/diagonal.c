/*
 * Kernels of a diagonal system, K[l] = 2 Re sum over n of C_n B_n w_n p_n^l, by the product of two small matrices of
 * powers (vandermonde.h), which all kernels of a channel share. In double; only K has the dtype of the plan.
 */
#include "cpu/diagonal.h"

_Static_assert(sizeof(cpu_mode) + sizeof(cpu_pole) + 3 * sizeof(cpu_complex) <= S4_DIAGONAL_KEPT * sizeof(double),
               "what a mode needs beside its powers");

const cpu_diagonal_rule *cpu_diagonal_rule_of(const s4_shape *shape)
{
    static const cpu_diagonal_rule *const rules[] = {
        [S4_BILINEAR] = &cpu_diagonal_bilinear,
        [S4_ZOH] = &cpu_diagonal_zoh,
        [S4_DSS] = &cpu_diagonal_dss,
    };
    return rules[shape->discretisation];
}

cpu_diagonal cpu_diagonal_open(const cpu_kernel_lane *lane)
{
    const s4_shape *shape = lane->shape;
    const cpu_diagonal_rule *rule = cpu_diagonal_rule_of(shape);
    int64_t modes = shape->modes, copy = lane->h % shape->n_ssm;
    const double *lambda = lane->system.lambda + 2 * copy * modes;
    const double *dt = lane->system.dt + lane->h * shape->dt_modes;

    double *powers = lane->scratch;
    cpu_diagonal diagonal;
    diagonal.c = (cpu_complex *)(powers + cpu_vandermonde_count(modes, shape->kernel_length));
    diagonal.moment = diagonal.c + modes;
    diagonal.slope = diagonal.moment + modes;
    diagonal.mode = (cpu_mode *)(diagonal.slope + modes);
    cpu_pole *pole = (cpu_pole *)(diagonal.mode + modes);
    for (int64_t n = 0; n < modes; n++) {
        cpu_mode *mode = &diagonal.mode[n];
        *mode = (cpu_mode){.length = shape->kernel_length,
                           .dt = dt[shape->dt_modes == 1 ? 0 : n],
                           .lambda = {lambda[2 * n], lambda[2 * n + 1]}};
        rule->discretise(mode, &pole[n]);
    }
    diagonal.powers = cpu_vandermonde_make(lane->task->device, modes, shape->kernel_length, pole, powers);
    return diagonal;
}

void cpu_diagonal_coefficients(const cpu_kernel_lane *lane, const cpu_diagonal *diagonal, int64_t k)
{
    for (int64_t n = 0; n < lane->shape->modes; n++)
        diagonal->c[n] =
            cpu_times(cpu_times(cpu_diagonal_c(lane, k, n), cpu_diagonal_b(lane, n)), diagonal->mode[n].weight);
}

int64_t cpu_diagonal_kernels(const cpu_kernel_lane *lane)
{
    int64_t length = lane->shape->kernel_length;
    cpu_diagonal diagonal = cpu_diagonal_open(lane);
    for (int64_t k = 0; k < lane->shape->kernels; k++) {
        cpu_diagonal_coefficients(lane, &diagonal, k);
        cpu_vandermonde_product(&diagonal.powers, diagonal.c, lane->row);
        if (!cpu_kernel_store(lane, k, 2.0, lane->row)) return k * length + cpu_first_not_finite(length, lane->row);
    }
    return -1;
}
