#!/bin/sh
# Whether auto takes the faster of fft and chunked, over a grid of problems.
#
#   sh bench/algorithms.sh [--build DIR] [-o FILE.csv] [KEY=LIST]...      measures, then sums up
#   sh bench/algorithms.sh --of FILE.csv                                  sums up
#
# Builds and runs the program `algorithms`: one line of CSV a problem. KEY=LIST narrows the grid: mode=dplr,diag
# dtype=f32,f64 direction=forward,training state=4,16,64,256 length=64,...,1048576 batch=1,4,16,64. Some four minutes on
# an idle machine. `ratio` is the time of what auto took to that of the faster: refresh + forward (+ backward), CPU time of
# one thread. No ratio should exceed 1.15.
#
# Prices of s4/algorithm.c are fitted to such a file, phase by phase, each from problems where its term weighs most:
#   EOF-PLACEHOLDER
