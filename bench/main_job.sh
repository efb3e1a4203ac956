#!/bin/sh
# The main job on a fresh machine: installs what is missing, builds, compares placements for a real layer, then makes a
# layer and runs an electrocardiogram through it by convolution and by recurrence, compared. Under two minutes.
set -eu
cd "$(dirname "$0")/.."
sh cmake/dependencies.sh
cmake --preset default -DBUILD_TESTING=OFF -B build-main >/dev/null
cmake --build build-main
s4=build-main/bin/s4
shape="--mode dplr --d-model 256 --d-state 64 --batch 4 --length 4096"

echo
echo "== where each operation and each byte will be: plan, split over CPU and GPU"
$s4 plan $shape --placement split

echo
echo "== the placements compared: bench"
$s4 bench $shape --repeats 3 --placement cpu --placement split

echo
echo "== five minutes of an electrocardiogram through a layer of 64 channels, by convolution and by recurrence"
layer=build-main/layer.safetensors
$s4 init -o $layer --mode dplr --init legs --d-model 64 --d-state 64 --seed 1
$s4 run $layer examples/data/ecg.npy --compare -o build-main/y.npy
