/* Enumerations and their names, there and back; sizes; versions. */
#include <stdio.h>

#include "expect.h"

#define ROUND_TRIP(kind, type, last)                                                                                 \
    Test(names, kind)                                                                                                \
    {                                                                                                                \
        for (int value = 0; value <= (int)(last); value++) {                                                         \
            type back = (type)99;                                                                                    \
            about("%s %d", #kind, value);                                                                            \
            const char *name = s4_##kind##_name((type)value);                                                        \
            check(*name && strcmp(name, "?") != 0, "[%s] has no name", about_text());                                \
            must(s4_##kind##_parse(name, &back));                                                                    \
            check((int)back == value, "[%s] %s comes back as %d", about_text(), name, (int)back);                    \
        }                                                                                                            \
        cr_assert_str_eq(s4_##kind##_name((type)((last) + 1)), "?");                                                 \
        cr_assert_str_eq(s4_##kind##_name((type)-1), "?");                                                           \
        type untouched = (type)(last);                                                                               \
        about("%s from nonsense", #kind);                                                                            \
        must_refuse(s4_##kind##_parse("nonsense", &untouched), S4_ERROR_ARGUMENT, s4_##kind##_name((type)(last)));   \
        must_refuse(s4_##kind##_parse("", &untouched), S4_ERROR_ARGUMENT, s4_##kind##_name((type)0));                \
        must_refuse(s4_##kind##_parse(NULL, &untouched), S4_ERROR_ARGUMENT, "");                                     \
        cr_assert_eq((int)untouched, (int)(last));                                                                   \
    }

ROUND_TRIP(mode, s4_mode, S4_MODE_DIAG)
ROUND_TRIP(direction, s4_direction, S4_DIRECTION_STEP)
ROUND_TRIP(algorithm, s4_algorithm, S4_ALGORITHM_CHUNKED)
ROUND_TRIP(step_mode, s4_step_mode, S4_STEP_DIAGONAL)
ROUND_TRIP(transform, s4_transform, S4_TRANSFORM_SOFTPLUS)
ROUND_TRIP(discretisation, s4_discretisation, S4_DSS)
ROUND_TRIP(layout, s4_layout, S4_LAYOUT_BLH)
ROUND_TRIP(init, s4_init, S4_INIT_DIAG_LEGS)
ROUND_TRIP(parameter, s4_parameter, S4_PARAMETER_D)

Test(names, as_written_in_files_and_on_command_lines)
{
    cr_assert_str_eq(s4_dtype_name(S4_F32), "f32");
    cr_assert_str_eq(s4_dtype_name(S4_F64), "f64");
    cr_assert_str_eq(s4_place_name(S4_PLACE_GPU), "gpu");
    cr_assert_str_eq(s4_stage_name(S4_STAGE_CONVOLVE), "convolve");
    cr_assert_str_eq(s4_mode_name(S4_MODE_DPLR), "dplr");
    cr_assert_str_eq(s4_direction_name(S4_DIRECTION_TRAINING), "training");
    cr_assert_str_eq(s4_algorithm_name(S4_ALGORITHM_FFT), "fft");
    cr_assert_str_eq(s4_step_mode_name(S4_STEP_LINEAR), "linear");
    cr_assert_str_eq(s4_transform_name(S4_TRANSFORM_SOFTPLUS), "softplus");
    cr_assert_str_eq(s4_discretisation_name(S4_BILINEAR), "bilinear");
    cr_assert_str_eq(s4_discretisation_name(S4_ZOH), "zoh");
    cr_assert_str_eq(s4_layout_name(S4_LAYOUT_BHL), "bhl");
    cr_assert_str_eq(s4_layout_name(S4_LAYOUT_BLH), "blh");
    cr_assert_str_eq(s4_init_name(S4_INIT_LEGS), "legs");
    cr_assert_str_eq(s4_init_name(S4_INIT_DIAG_LEGS), "diag-legs");
    cr_assert_str_eq(s4_dtype_name((s4_dtype)7), "?");
    cr_assert_str_eq(s4_place_name((s4_place)7), "?");
    cr_assert_str_eq(s4_stage_name((s4_stage)7), "?");
}

Test(names, dtypes)
{
    s4_dtype dtype;
    must(s4_dtype_parse("f32", &dtype));
    cr_assert_eq(dtype, S4_F32);
    must(s4_dtype_parse("f64", &dtype));
    cr_assert_eq(dtype, S4_F64);
    must_refuse(s4_dtype_parse("f16", &dtype), S4_ERROR_ARGUMENT, "f32");
    cr_assert_eq(s4_dtype_size(S4_F32), 4);
    cr_assert_eq(s4_dtype_size(S4_F64), 8);
    cr_assert_eq(s4_dtype_size(S4_I64), 8);
    cr_assert_eq(s4_dtype_size((s4_dtype)7), 0);
}

Test(names, version)
{
    int major, minor, patch;
    cr_assert_eq(sscanf(s4_version(), "%d.%d.%d", &major, &minor, &patch), 3, "%s", s4_version());
    cr_assert(strlen(s4_build()) > 0);
}
