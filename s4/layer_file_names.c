/*
 * The names that checkpoints of different times give to the parameters of a layer. Folders from the longer to the
 * shorter, so that the first kind whose sign is there is the one.
 */
#include "s4/layer_file.h"

#define BIT(setting) (1u << S4_SETTING_##setting)

/* Rows of the parameters in their order: inv_dt, A_real, A_imag, B, P, C, D. */
#define PUBLISHED                                                                                            \
    {                                                                                                        \
        {"inv_dt", "H1|Hn", S4_ABSENT_ERROR}, {"A_real", "Sn", S4_ABSENT_ERROR},                             \
        {"A_imag", "Sn", S4_ABSENT_ERROR}, {"B", "1Sn2", S4_ABSENT_ERROR},                                   \
        {"P", "RSn2", S4_ABSENT_DIAGONAL}, {"C", "KHn2", S4_ABSENT_ERROR}, {"D", "MH", S4_ABSENT_ERROR},     \
    }

/* Version 3: log_dt, and w for Lambda. */
#define V3_DPLR                                                                                              \
    {                                                                                                        \
        {"log_dt", "H|H1", S4_ABSENT_ERROR}, {"inv_w_real", "Sn", S4_ABSENT_ERROR},                          \
        {"w_imag", "Sn", S4_ABSENT_ERROR}, {"B", "1Sn2|Sn2", S4_ABSENT_ERROR},                               \
        {"P", "RSn2", S4_ABSENT_ERROR}, {"C", "KHn2", S4_ABSENT_ERROR}, {"D", "MH|H", S4_ABSENT_ERROR},      \
    }
#define V3_DIAGONAL                                                                                          \
    {                                                                                                        \
        {"log_dt", "H|H1", S4_ABSENT_ERROR}, {"inv_A_real", "Sn", S4_ABSENT_ERROR},                          \
        {"A_imag", "Sn", S4_ABSENT_ERROR}, {"B", "1Sn2|Sn2", S4_ABSENT_ERROR},                               \
        {NULL, "", S4_ABSENT_DIAGONAL}, {"C", "KHn2", S4_ABSENT_ERROR}, {"D", "MH|H", S4_ABSENT_ERROR},      \
    }
#define V3_FIXED BIT(DT_TRANSFORM) | BIT(IMAG_TRANSFORM)

/* The flat s4d file: K_l = 2 Re sum_n C_n (e^(dt A_n) - 1) / A_n e^(dt A_n l), which is zoh with B = 1. A kernel
 * without its layer has no D. */
#define FLAT                                                                                                 \
    {                                                                                                        \
        {"log_dt", "H|H1", S4_ABSENT_ERROR}, {"log_A_real", "Hn", S4_ABSENT_ERROR},                          \
        {"A_imag", "Hn", S4_ABSENT_ERROR}, {NULL, "", S4_ABSENT_ONES}, {NULL, "", S4_ABSENT_DIAGONAL},       \
        {"C", "Hn2", S4_ABSENT_ERROR}, {"D", "H|1H", S4_ABSENT_ZEROS},                                       \
    }
#define FLAT_FIXED BIT(DT_TRANSFORM) | BIT(REAL_TRANSFORM) | BIT(IMAG_TRANSFORM) | BIT(BIDIRECTIONAL)

const s4_layer_names s4_layer_name_list[] = {
    {"kernel.", "inv_dt", PUBLISHED, "l_kernel", 0, 0, 0},
    {"kernel.kernel.", "inv_w_real", V3_DPLR, "L", 1, 1, V3_FIXED},
    {"kernel.", "inv_w_real", V3_DPLR, "L", 1, 1, V3_FIXED},
    {"kernel.kernel.", "inv_A_real", V3_DIAGONAL, NULL, 1, 0, V3_FIXED},
    {"kernel.", "inv_A_real", V3_DIAGONAL, NULL, 1, 0, V3_FIXED},
    {"kernel.", "log_A_real", FLAT, NULL, 1, 0, FLAT_FIXED},
};
const int s4_layer_name_count = (int)(sizeof s4_layer_name_list / sizeof *s4_layer_name_list);
