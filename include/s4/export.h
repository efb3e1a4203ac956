/* Symbol visibility and C++ linkage. Only names marked S4_API leave the library. */
#ifndef S4_EXPORT_H
#define S4_EXPORT_H

#if defined(__GNUC__)
#define S4_API __attribute__((visibility("default")))
#else
#define S4_API
#endif

#ifdef __cplusplus
#define S4_BEGIN_DECLS extern "C" {
#define S4_END_DECLS }
#else
#define S4_BEGIN_DECLS
#define S4_END_DECLS
#endif

#endif
