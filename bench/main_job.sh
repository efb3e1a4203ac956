#!/bin/sh
# The main job on a fresh machine: installs what is missing, builds, compares placements for one shape, then runs a
# stored layer by convolution and by recurrence and compares the two.
set -eu
cd "$(dirname "$0")/.."
sh cmake/dependencies.sh
cmake --preset default -DBUILD_TESTING=OFF -B build-main >/dev/null
cmake --build build-main
s4=build-main/bin/s4

echo
echo "== where each operation and each byte will be: plan, split over CPU and GPU"
$s4 plan --mode dplr --d-model 256 --d-state 64 --batch 4 --length 4096 --placement split

echo
echo "== the placements compared: bench"
$s4 bench --mode dplr --d-model 256 --d-state 64 --batch 4 --length 4096 --placement cpu --placement split

echo
echo "== a stored layer, by convolution and by recurrence: run --compare"
layer=tests/golden/dplr_legs_n64.in.safetensors
$s4 run $layer $layer:u --dtype f64 --compare -o build-main/y.npy
