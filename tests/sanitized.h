/* SANITIZED, in a build whose sanitizer has memory, and an allocator, of its own. */
#ifndef S4_TEST_SANITIZED_H
#define S4_TEST_SANITIZED_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

#endif
