/* Whether two names mean one file, through links and folders, whether or not it is there yet. */
#ifndef BENCH_ONE_FILE_H
#define BENCH_ONE_FILE_H

int is_one_file(const char *a, const char *b);

#endif
