/* Layers in files with older names of checkpoints, and several of them in the file of a whole model. */
#include <complex.h>
#include <math.h>

#include "expect.h"
#include "layer_tensors.h"

/* ---- older names ------------------------------------------------------------------------------------------------- */

/* log_dt (H), w = -f(inv_w_real) + i w_imag, L; nested as the module was, or flat. */
Test(older_files, version_3)
{
    static const char names[2][8][32] = {
        {"layer.kernel.kernel.log_dt", "layer.kernel.kernel.inv_w_real", "layer.kernel.kernel.w_imag",
         "layer.kernel.kernel.B", "layer.kernel.kernel.P", "layer.kernel.kernel.C", "layer.D", "layer.kernel.kernel.L"},
        {"layer.kernel.log_dt", "layer.kernel.inv_w_real", "layer.kernel.w_imag", "layer.kernel.B", "layer.kernel.P",
         "layer.kernel.C", "layer.D", "layer.kernel.L"}};
    for (int i = 0; i < 2; i++)
        for (int relu = 0; relu < 2; relu++) {
            about("names %d, relu %d", i, relu);
            hand_file file = {.tensors = 0};
            ADD(&file, names[i][0], 1, 4);
            ADD(&file, names[i][1], 2, 2, 3);
            ADD(&file, names[i][2], 3, 2, 3);
            ADD(&file, names[i][3], 4, 1, 2, 3, 2);
            ADD(&file, names[i][4], 7, 1, 2, 3, 2);
            ADD(&file, names[i][5], 5, 2, 4, 3, 2);
            ADD(&file, names[i][6], 6, 2, 4);
            ADD(&file, "layer.kernel.omega", 8, 1); /* derived */
            hand_length(&file, names[i][7], 16);
            s4_layer *layer = hand_load(&file, relu ? "real_transform=relu" : NULL);
            const s4_layer_options o = options_of(layer);
            check(o.mode == S4_MODE_DPLR && o.d_model == 4 && o.n_ssm == 2 && o.channels == 2 && o.rank == 1 &&
                      s4_layer_length(layer) == 16,
                  "[%s] description", about_text());
            expect_values(layer, S4_PARAMETER_INV_DT, 1, 1, 0);
            expect_values(layer, S4_PARAMETER_A_REAL, 2, 1, relu ? -1e-4 : 0); /* its relu has no 1e-4 */
            expect_values(layer, S4_PARAMETER_A_IMAG, 3, -1, 0);
            expect_values(layer, S4_PARAMETER_B, 4, 1, 0);
            expect_values(layer, S4_PARAMETER_P, 7, 1, 0);
            expect_values(layer, S4_PARAMETER_C, 5, 1, 0);
            expect_values(layer, S4_PARAMETER_D, 6, 1, 0);
            round_trip(layer);
            s4_layer_destroy(layer);
        }
}

static hand_file hand_v3_diagonal(void)
{
    hand_file file = {.tensors = 0};
    ADD(&file, "layer.kernel.kernel.log_dt", 1, 4);
    ADD(&file, "layer.kernel.kernel.inv_A_real", 2, 2, 3);
    ADD(&file, "layer.kernel.kernel.A_imag", 3, 2, 3);
    ADD(&file, "layer.kernel.kernel.A", 9, 2, 3, 2); /* where it started */
    ADD(&file, "layer.kernel.kernel.B", 4, 2, 3, 2);
    ADD(&file, "layer.kernel.kernel.C", 5, 1, 4, 3, 2);
    ADD(&file, "layer.D", 6, 1, 4);
    return file;
}

Test(older_files, version_3_diagonal)
{
    hand_file file = hand_v3_diagonal();
    s4_layer *layer = hand_load(&file, "disc=bilinear,real_transform=relu");
    const s4_layer_options o = options_of(layer);
    cr_assert(o.mode == S4_MODE_DIAG && o.discretisation == S4_BILINEAR && o.n_ssm == 2 && o.rank == 0);
    expect_values(layer, S4_PARAMETER_A_REAL, 2, 1, 0);
    expect_values(layer, S4_PARAMETER_A_IMAG, 3, -1, 0);
    expect_values(layer, S4_PARAMETER_B, 4, 1, 0);
    s4_layer_destroy(layer);
    file = hand_v3_diagonal();
    must_not_load(&file, "dt_transform=softplus", S4_ERROR_ARGUMENT, "dt_transform");
}

static hand_file hand_flat(int with_skip)
{
    hand_file file = {.tensors = 0};
    ADD(&file, "kernel.log_dt", 1, 2);
    ADD(&file, "kernel.log_A_real", 2, 2, 3);
    ADD(&file, "kernel.A_imag", 3, 2, 3);
    ADD(&file, "kernel.C", 5, 2, 3, 2);
    if (with_skip) ADD(&file, "D", 6, 2);
    return file;
}

/* The formula of the flat file, K_l = 2 Re sum_n C (e^(dt A) - 1) / A e^(dt A l) with A = -exp(log_A_real) + i A_imag,
 * against that of a layer by zoh: K_l = 2 Re sum_n C B (e^a - 1) / A e^(a l), A = -f(A_real) - i g(A_imag), a = dt A.
 */
Test(older_files, flat_s4d)
{
    hand_file file = hand_flat(1);
    s4_layer *layer = hand_load(&file, NULL); /* without a prefix it has none */
    const s4_layer_options o = options_of(layer);
    cr_assert(o.mode == S4_MODE_DIAG && o.discretisation == S4_ZOH && o.d_model == 2 && o.n_ssm == 2 &&
              o.d_state == 6 && o.channels == 1 && !o.bidirectional && !o.dt_untied);
    const double *dt = view_of(layer, S4_PARAMETER_INV_DT).data, *real = view_of(layer, S4_PARAMETER_A_REAL).data,
                 *imag = view_of(layer, S4_PARAMETER_A_IMAG).data, *B = view_of(layer, S4_PARAMETER_B).data,
                 *C = view_of(layer, S4_PARAMETER_C).data;
    for (int h = 0; h < 2; h++)
        for (int l = 0; l < 4; l++) {
            double theirs = 0, ours = 0;
            for (int n = 0; n < 3; n++) {
                const int i = 3 * h + n;
                const double step = exp(1 + 0.01 * (h + 1));
                const double complex A = -exp(2 + 0.01 * (i + 1)) + I * (3 + 0.01 * (i + 1));
                const double complex c = 5 + 0.01 * (2 * i + 1) + I * (5 + 0.01 * (2 * i + 2));
                theirs += 2 * creal(c * (cexp(step * A) - 1) / A * cexp(step * A * l));
                const double complex lambda = -exp(real[i]) - I * imag[i], a = exp(dt[h]) * lambda;
                ours += 2 * creal((C[2 * i] + I * C[2 * i + 1]) * (B[2 * i] + I * B[2 * i + 1]) * (cexp(a) - 1) /
                                  lambda * cexp(a * l));
            }
            cr_assert(fabs(ours - theirs) <= 1e-14 * fabs(theirs), "channel %d, sample %d: %g, %g", h, l, ours, theirs);
        }
    expect_values(layer, S4_PARAMETER_D, 6, 1, 0);
    round_trip(layer);
    s4_layer_destroy(layer);

    about("without a skip");
    file = hand_flat(0);
    layer = hand_load(&file, NULL);
    cr_assert(view_of(layer, S4_PARAMETER_D).data[0] == 0 && view_of(layer, S4_PARAMETER_D).data[1] == 0);
    s4_layer_destroy(layer);
    static const char fixed[][24] = {"dt_transform=softplus", "real_transform=none", "imag_transform=exp",
                                     "bidirectional=1"};
    for (int i = 0; i < 4; i++) {
        about("%s", fixed[i]);
        file = hand_flat(1);
        must_not_load(&file, fixed[i], S4_ERROR_ARGUMENT, "log_A_real");
    }
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

Test(older_files, whole_models_by_prefix)
{
    hand_file file = hand_diagonal(1, 1, 1); /* a layer, a flat one beside it, an old one, and what is none */
    ADD(&file, "s4.1.kernel.log_dt", 1, 2);
    ADD(&file, "s4.1.kernel.log_A_real", 2, 2, 2);
    ADD(&file, "s4.1.kernel.A_imag", 3, 2, 2);
    ADD(&file, "s4.1.kernel.C", 5, 2, 2, 2);
    ADD(&file, "s4.1.D", 6, 2);
    ADD(&file, "old.kernel.kernel.log_dt", 1, 1);
    ADD(&file, "old.kernel.kernel.inv_w_real", 2, 1, 1);
    ADD(&file, "encoder.weight", 0, 3);
    const char *path = hand_write(&file);
    s4_layer *layer;
    must(s4_layer_load(path, NULL, NULL, &layer));
    cr_assert_eq(options_of(layer).d_state, 6);
    s4_layer_destroy(layer);
    must(s4_layer_load(path, "s4.1.", NULL, &layer));
    cr_assert_eq(options_of(layer).d_state, 4);
    s4_layer_destroy(layer);
    static const char prefixes[][12] = {"\"layer.\"", "\"s4.1.\"", "\"old.\""};
    for (int i = 0; i < 3; i++) must_refuse(s4_layer_load(path, "s4.2.", NULL, &layer), S4_ERROR_FORMAT, prefixes[i]);
    must_refuse(s4_layer_load(path, "encoder.", NULL, &layer), S4_ERROR_FORMAT, "layer.");
    must_refuse(s4_layer_load(path, "", NULL, &layer), S4_ERROR_FORMAT, "s4.1.");
    must_refuse(s4_layer_load(path, "old.", NULL, &layer), S4_ERROR_FORMAT, "old.kernel.kernel.w_imag");
}
