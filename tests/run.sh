#!/bin/sh
# All tests on a fresh machine: installs what is missing, builds, tests. The emulated GPU is tested where the CUDA
# toolkit is; elsewhere its tests are listed as skipped.
set -eu
cd "$(dirname "$0")/.."
sh cmake/dependencies.sh
cmake --preset default
cmake --build --preset default
ctest --preset default
